"""bin/produce: lines of standard input, or of a file, or made up, become records.

Rule: what was read is sent or told as failed; exit code 0 says that all is as safe as asked.
"""

import argparse
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Final

from actors.client.producer import Producer
from actors.clients import Clients
from actors.commands.common import (
    client_options,
    command_parser,
    config_pairs,
    print_json,
    run_command,
    say,
    warn,
)
from actors.commands.progress import Progress
from actors.operations.operation import BadInput
from actors.operations.records import ACKS
from runtime.clock import RealClock
from runtime.lines import LineTooLong, lines_of
from runtime.tasks import Bell, Tasks
from wire.errors import ApiError, MalformedMessage

MOST_UNDER_WAY: Final = 5_000
MOST_RECORDS: Final = 1_000_000_000
MOST_SIZE: Final = 1_000_000
DEFAULT_SIZE: Final = 100
PROPERTIES: Final = ("parse.key", "key.separator", "null.marker")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = command_parser(
        "produce",
        "Send each line of standard input as a record; or make records up.",
        "--bootstrap-server 127.0.0.1:9092 --topic orders --num-records 100000",
    )
    parser.add_argument("--topic", required=True, metavar="NAME")
    parser.add_argument("--partition", type=int, metavar="N", help="default: by key, or in turn")
    parser.add_argument("--file", type=Path, metavar="FILE", help="lines of a file instead")
    parser.add_argument("--num-records", type=int, metavar="N", help="make so many up instead")
    parser.add_argument("--record-size", type=int, default=DEFAULT_SIZE, metavar="BYTES")
    parser.add_argument("--acks", "--request-required-acks", choices=list(ACKS), default="all")
    parser.add_argument(
        "--property",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help=f"of the reader: {', '.join(PROPERTIES)}",
    )
    parser.add_argument("--producer-property", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--compression-codec", "--compression-type", help="only none is there")
    parser.add_argument("--json", action="store_true", help="answer as JSON")
    given = parser.parse_args(arguments)
    if given.compression_codec not in (None, "none"):
        parser.error(f"--compression-codec is {given.compression_codec!r:.30}; only none is there")
    if given.num_records is not None and not 1 <= given.num_records <= MOST_RECORDS:
        parser.error(f"--num-records is {given.num_records}; it must be 1 to {MOST_RECORDS}")
    if not 0 <= given.record_size <= MOST_SIZE:
        parser.error(f"--record-size is {given.record_size}; it must be 0 to {MOST_SIZE}")
    if given.num_records is not None and given.file is not None:
        parser.error("--num-records and --file exclude each other")
    return run_command(parser, given, _produce)


Pair = tuple[bytes | None, bytes | None]  # key, value


def pair_of(line: bytes, properties: dict[str, str], number: int) -> Pair:
    """A line as a key and a value, as kafka-console-producer reads it."""
    if properties.get("parse.key", "false").lower() != "true":
        return None, _null(line, properties)
    separator = properties.get("key.separator", "\t").encode()
    key, found, value = line.partition(separator)
    if not found:
        raise BadInput(f"line {number} has no key separator {separator.decode()!r}")
    return _null(key, properties), _null(value, properties)


def _null(part: bytes, properties: dict[str, str]) -> bytes | None:
    marker = properties.get("null.marker")
    return None if marker is not None and part == marker.encode() else part


class Sending:
    """Records under way, and what became of them."""

    def __init__(self, producer: Producer, topic: str, partition: int | None) -> None:
        self._producer = producer
        self._topic = topic
        self._partition = partition
        self._bell = Bell()
        self._tasks = Tasks(self._crashed)
        self._bug: Exception | None = None
        self.error: Exception | None = None  # the first failure
        self.sent = self.done = self.failed = 0

    async def send(self, key: bytes | None, value: bytes | None) -> None:
        """Send one, when there is room."""
        while self.sent - self.done >= MOST_UNDER_WAY:
            await self._bell.wait()
        delivery = await self._producer.enqueue(self._topic, value, key, partition=self._partition)
        self.sent += 1
        self._tasks.start(self._await(delivery))

    async def finish(self, progress: Progress) -> None:
        """Wait for all of them."""
        while self.done < self.sent:
            if self._bug is not None:
                raise self._bug
            await self._bell.wait(100)
            progress.update(self.done, f"{self.done:,} records")

    async def _await(self, delivery: Any) -> None:
        try:
            await delivery
        except (ApiError, MalformedMessage) as error:
            self.failed += 1
            self.error = self.error or error
        finally:
            self.done += 1
            self._bell.ring()

    def _crashed(self, error: Exception) -> None:
        self._bug = self._bug or error


async def _produce(clients: Clients, given: argparse.Namespace) -> int:
    properties = config_pairs(given.property)
    if unknown := sorted(set(properties) - set(PROPERTIES)):
        raise BadInput(f"there is no property {unknown[0]}; there are {', '.join(PROPERTIES)}")
    options = {"linger_ms": 5, **_named(client_options(given.producer_property))}
    clock = RealClock()
    begun_ms = clock.elapsed_ms()
    async with clients.producer(acks=ACKS[given.acks], **options) as producer:
        sending = Sending(producer, given.topic, given.partition)
        progress = Progress("producing", given.num_records or 0, sys.stderr, clock)
        try:
            async for key, value in _records(given, properties):
                await sending.send(key, value)
                if given.num_records is not None:
                    progress.update(sending.done, f"{sending.done:,} records")
            await sending.finish(progress)
        finally:
            progress.close()
    _tell(given, sending, (clock.elapsed_ms() - begun_ms) / 1000)
    return 1 if sending.failed else 0


def _named(options: dict[str, Any]) -> dict[str, Any]:
    return {key.replace(".", "_"): value for key, value in options.items()}


async def _records(given: argparse.Namespace, properties: dict[str, str]) -> AsyncIterator[Pair]:
    if given.num_records is not None:
        for number in range(given.num_records):
            yield None, f"record {number} ".encode().ljust(given.record_size, b".")
        return
    number = 0
    try:
        async for line in lines_of(given.file):
            number += 1
            yield pair_of(line, properties, number)
    except OSError as error:
        raise BadInput(f"{given.file} cannot be read: {error.strerror}") from None
    except LineTooLong as error:
        raise BadInput(f"line {number + 1}: {error}") from None


def _tell(given: argparse.Namespace, sending: Sending, seconds: float) -> None:
    kept = sending.done - sending.failed
    rate = kept / seconds if seconds > 0 else 0.0
    if given.json:
        print_json(
            {"sent": kept, "failed": sending.failed, "seconds": round(seconds, 3), "rate": rate}
        )
    elif given.num_records is not None or given.file is not None:
        say(f"{kept} records sent in {seconds:.2f} s, {rate:,.0f} a second.")
    if sending.failed:
        warn(f"produce: {sending.failed} records were not sent: {sending.error}")
