"""bin/consume: records of a topic, as kafka-console-consumer prints them.

Rule: it follows until it has enough, nothing has come for --timeout-ms, or Ctrl-C, which is no
failure. With --group, and without --partition, it shares the topic with the group's other members.
What was printed is committed for the group, and nothing that was not.
"""

import argparse
import sys
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from actors.client.consumer import Consumer
from actors.client.subscription import ConsumerRecord
from actors.clients import Clients
from actors.commands.common import (
    client_options,
    command_parser,
    config_pairs,
    run_command,
    warn,
)
from actors.operations.operation import BadInput
from actors.operations.records import PLACES, partitions_of, positions_after, shown
from wire.errors import ApiError, ErrorCode
from wire.ids import Offset, TopicPartition

POLL_MS: Final = 500
FENCED: Final = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.REBALANCE_IN_PROGRESS,
)
PRINTED: Final = ("timestamp", "partition", "offset", "headers", "key", "value")
PROPERTIES: Final = (
    *(f"print.{name}" for name in PRINTED),
    "key.separator",
    "line.separator",
    "headers.separator",
    "null.literal",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = command_parser(
        "consume",
        "Print the records of a topic, until Ctrl-C or --max-messages.",
        "--bootstrap-server 127.0.0.1:9092 --topic orders --from-beginning "
        "--property print.key=true",
    )
    parser.add_argument("--topic", required=True, metavar="NAME")
    parser.add_argument("--partition", type=int, metavar="N", help="default: all")
    parser.add_argument("--offset", metavar="N", help="a number, earliest or latest")
    parser.add_argument("--from-beginning", action="store_true")
    parser.add_argument(
        "--group", metavar="NAME", help="share with its members, go on where it was, and commit"
    )
    parser.add_argument("--max-messages", type=int, metavar="N")
    parser.add_argument("--timeout-ms", type=int, metavar="MS", help="end if nothing has come")
    parser.add_argument(
        "--property",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help=f"of the printer: {', '.join(PROPERTIES)}",
    )
    parser.add_argument("--consumer-property", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--json", action="store_true", help="a JSON object a record")
    given = parser.parse_args(arguments)
    if given.offset is not None and given.partition is None:
        parser.error("--offset needs --partition")
    if given.offset is not None and given.from_beginning:
        parser.error("--offset and --from-beginning exclude each other")
    if given.offset is not None and given.offset not in PLACES and not given.offset.isdecimal():
        parser.error(f"--offset is {given.offset!r:.30}; it must be a number, earliest or latest")
    for name in ("max_messages", "timeout_ms"):
        value = getattr(given, name)
        if value is not None and value < 1:
            parser.error(f"--{name.replace('_', '-')} is {value}; it must be 1 or more")
    return run_command(parser, given, _consume, interrupted=0)


class Printer:
    """What a record looks like, as Kafka's DefaultMessageFormatter makes it."""

    def __init__(self, given: argparse.Namespace) -> None:
        self._properties = {"print.value": "true", **config_pairs(given.property)}
        if unknown := sorted(set(self._properties) - set(PROPERTIES)):
            raise BadInput(f"there is no property {unknown[0]}; there are {', '.join(PROPERTIES)}")
        self._is_json = given.json
        self._null = self._properties.get("null.literal", "null").encode()
        self._between = self._properties.get("key.separator", "\t").encode()
        self._end = self._properties.get("line.separator", "\n").encode()

    def line(self, record: ConsumerRecord) -> bytes:
        """A record's bytes, with the end of its line."""
        if self._is_json:
            return msgspec.json.encode(shown(record)) + b"\n"
        parts = {
            "timestamp": f"CreateTime:{record.timestamp_ms}".encode(),
            "partition": f"Partition:{record.partition}".encode(),
            "offset": f"Offset:{record.offset}".encode(),
            "headers": self._headers(record),
            "key": self._null if record.key is None else record.key,
            "value": self._null if record.value is None else record.value,
        }
        chosen = [
            parts[name]
            for name in PRINTED
            if self._properties.get(f"print.{name}", "false").lower() == "true"
        ]
        return self._between.join(chosen) + self._end

    def _headers(self, record: ConsumerRecord) -> bytes:
        if not record.headers:
            return b"NO_HEADERS"
        between = self._properties.get("headers.separator", ",").encode()
        return between.join(
            name.encode() + b":" + (self._null if of is None else of) for name, of in record.headers
        )


async def _consume(clients: Clients, given: argparse.Namespace) -> int:
    printer = Printer(given)
    partitions = await partitions_of(clients, given.topic, given.partition)
    options: dict[str, Any] = client_options(given.consumer_property)
    options.setdefault("auto.offset.reset", "earliest" if given.from_beginning else "latest")
    if given.group is not None:
        options["group.id"] = given.group
        options.setdefault("client.id", "console-consumer")
    async with clients.consumer(**options) as consumer:
        if given.group is not None and given.partition is None:
            consumer.subscribe([given.topic])
        else:
            consumer.assign(partitions)
            await _begin(consumer, given, partitions)
        await _follow(consumer, given, printer)
    return 0


async def _begin(
    consumer: Consumer, given: argparse.Namespace, partitions: list[TopicPartition]
) -> None:
    if given.offset == "earliest" or (given.from_beginning and given.group is None):
        await consumer.seek_to_beginning()
    elif given.offset == "latest":
        await consumer.seek_to_end()
    elif given.offset is not None:
        for partition in partitions:
            await consumer.seek(partition, Offset(int(given.offset)))


async def _follow(consumer: Consumer, given: argparse.Namespace, printer: Printer) -> None:
    left = given.max_messages
    waited_ms = 0
    while left is None or left > 0:
        records = await consumer.poll(timeout_ms=POLL_MS)
        if not records:
            waited_ms += POLL_MS
            if given.timeout_ms is not None and waited_ms >= given.timeout_ms:
                return
            continue
        waited_ms = 0
        printed = records if left is None else records[:left]
        sys.stdout.buffer.write(b"".join(map(printer.line, printed)))
        sys.stdout.buffer.flush()
        if given.group is not None:
            await _commit(consumer, printed)
        if left is not None:
            left -= len(printed)


async def _commit(consumer: Consumer, printed: list[ConsumerRecord]) -> None:
    """The group may have gone on without us: then others will print these again."""
    try:
        await consumer.commit(positions_after(printed))
    except ApiError as error:
        if error.code not in FENCED:
            raise
        warn(f"consume: not committed, since the group shares out anew: {error}")
