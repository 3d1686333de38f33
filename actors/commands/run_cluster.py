"""bin/run-cluster: arguments in, one call; and how a running cluster looks in a terminal.

Rule: people get a table and calm lines, programs a JSON object a line; both are told the same.
"""

import argparse
import re
import shutil
import sys
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final, TextIO

import msgspec

from actors.administration.names import check_topic_name
from actors.commands.cluster_arguments import (
    add_door,
    add_settings,
    door_of,
    port,
    settings_of,
    zookeeper_hosts,
)
from actors.commands.parser import Parser, folder, whole
from actors.config import BadConfig
from actors.load import LoadReport
from actors.serve import BUG, ServeOptions, TopicWanted, Up, serve
from actors.story import StoryEvent
from actors.token import BadToken
from actors.view import BrokerState, BrokerView
from runtime.main import Sentence, run
from wire.errors import InvalidTopic

NAME: Final = "run-cluster"
MOST_BROKERS: Final = 1000
MOST_PARTITIONS: Final = 100_000
SIGNS: Final = {"good": "+", "info": " ", "warning": "!", "bad": "✗"}
COLOURS: Final = {"good": "32", "info": "0", "warning": "33", "bad": "31"}
SUGGESTED: Final = ("orders", *(f"orders-{number}" for number in range(2, 100)))
TABLE_BROKERS: Final = 20  # more are not listed one by one
SHOWN_SERVERS: Final = 3
LOAD_LINE_S: Final = 5  # how often the rate is printed where lines cannot be written over


def topic_wanted(text: str) -> TopicWanted:
    """A topic as name:partitions:replicas; the last two may be left out."""
    name, *numbers = text.split(":")
    try:
        check_topic_name(name)
    except InvalidTopic as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if len(numbers) > 2:  # noqa: PLR2004 - partitions and replicas
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME:PARTITIONS:REPLICAS")
    partitions = whole(numbers[0], 1, MOST_PARTITIONS) if numbers else 1
    replicas = whole(numbers[1], 1, MOST_BROKERS) if numbers[1:] else 1
    return TopicWanted(name, partitions, replicas)


def positive(text: str) -> float:
    """A number above nothing."""
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,6})?", text) or float(text) <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return float(text)


def parser() -> Parser:
    """What can be asked for."""
    made = Parser(
        prog=NAME,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Run a Kafka-style cluster on 127.0.0.1, with its live page, until Ctrl-C.",
        epilog=(
            "example: bin/run-cluster --brokers 5 --topic orders:6:3 --load 1000 --trace traces\n\n"
            "exit codes: 0 stopped as asked; 1 it could not start, or wrong input;\n"
            f"{BUG} stopped as asked, but a broker had gone down through a bug; 130 Ctrl-C twice"
        ),
    )
    made.add_argument(
        "--brokers", type=partial(whole, least=1, most=MOST_BROKERS), default=3, metavar="N"
    )
    made.add_argument("--processes", action="store_true", help="each broker a process of its own")
    made.add_argument(
        "--zookeeper",
        type=zookeeper_hosts,
        metavar="HOST:PORT,…",
        help="default: an embedded server",
    )
    made.add_argument("--data", type=folder, metavar="DIR", help="kept; default: temporary")
    made.add_argument(
        "--http-port", type=port, default=0, metavar="N", help="of the page; default: a free one"
    )
    made.add_argument(
        "--topic",
        type=topic_wanted,
        action="append",
        default=[],
        metavar="NAME:PARTITIONS:REPLICAS",
        help="made at the start, if it is not there; may be repeated",
    )
    made.add_argument(
        "--load", type=positive, metavar="RATE", help="records a second to a topic `load`"
    )
    made.add_argument("--exit-after", type=positive, metavar="SECONDS", help="stop by itself")
    made.add_argument("--json", action="store_true", help="a JSON object a line")
    add_settings(made)
    add_door(made)
    made.add_argument(
        "--faults", action="store_true", help="fault buttons also where it is not loopback"
    )
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """What bin/run-cluster does."""
    given = parser().parse_args(arguments)
    teller = JsonTeller(sys.stdout) if given.json else PlainTeller(sys.stdout)
    return run(_serve_given(given, teller), name=NAME)


async def _serve_given(given: argparse.Namespace, teller: "PlainTeller | JsonTeller") -> int:
    try:
        options = ServeOptions(
            brokers=given.brokers,
            processes=given.processes,
            zookeeper=given.zookeeper,
            data=given.data,
            trace=given.trace,
            overrides=settings_of(given, NAME),
            topics=tuple(given.topic),
            door=door_of(given),
            http_port=given.http_port,
            faults=True if given.faults else None,
            load=given.load,
            exit_after_s=given.exit_after,
        )
    except (BadConfig, BadToken) as error:
        raise Sentence(str(error)) from None
    return await serve(options, teller)


class JsonTeller:
    """A JSON object a line."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def step(self, line: str) -> None:
        """Something of the start, or of the end, is done."""
        self._say("step", text=line)

    def up(self, up: Up) -> None:
        """The cluster is ready."""
        self._say(
            "up",
            zookeeper=up.zookeeper,
            page=up.page,
            bootstrap_servers=up.bootstrap_servers,
            controller=up.view.controller,
            controller_epoch=up.view.controller_epoch,
            brokers=list(up.view.brokers.values()),
        )

    def event(self, event: StoryEvent) -> None:
        """Something has happened."""
        self._say("event", event=event)

    def load(self, report: LoadReport) -> None:
        """How the workload goes."""
        self._say("load", load=report)

    def _say(self, kind: str, **content: Any) -> None:
        line = msgspec.json.encode({"type": kind, **content}).decode()
        self._stream.write(line + "\n")
        self._stream.flush()


class PlainTeller:
    """A table, calm lines, and a rate that is written over where that is possible."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_terminal = stream.isatty()
        self._reports = 0
        self._has_line = False  # the rate stands in the last line

    def step(self, line: str) -> None:
        """Something of the start, or of the end, is done."""
        self._say(line)

    def up(self, up: Up) -> None:
        """The cluster is ready."""
        view = up.view
        self._say("")
        for line in broker_table(view.brokers.values(), view.controller_epoch):
            self._say(line)
        self._say("")
        self._say(f"  live page   {up.page}")
        self._say(f"  bootstrap   {_some(up.bootstrap_servers)}")
        first = next(iter(view.brokers.values())).address
        self._say("")
        self._say("  try next, in another terminal:")
        topics = {each.topic for each in view.partitions}
        name = next(each for each in SUGGESTED if each not in topics)
        for command in next_commands(first, len(view.brokers), name):
            self._say(f"    {command}")
        self._say("")
        count = len(view.brokers)
        who, them = ("1 broker is", "it") if count == 1 else (f"{count} brokers are", "them")
        self._say(f"{who} up; Ctrl-C stops {them}")

    def event(self, event: StoryEvent) -> None:
        """Something has happened."""
        if event.is_part:
            return
        clock = datetime.fromtimestamp(event.time_ms / 1000).strftime("%H:%M:%S")
        line = f"{clock} {SIGNS[event.level]} {event.text}"
        if self._is_terminal:
            line = f"\x1b[{COLOURS[event.level]}m{line}\x1b[0m"
        self._say(line)

    def load(self, report: LoadReport) -> None:
        """How the workload goes."""
        line = (
            f"load: {report.acknowledged:,.0f} records/s acknowledged, "
            f"{report.consumed:,.0f} read; latency p50 {report.p50_ms:g} ms, "
            f"p99 {report.p99_ms:g} ms; {report.failed} failed"
        )
        self._reports += 1
        if self._is_terminal:
            width = shutil.get_terminal_size().columns - 1
            self._stream.write("\r\x1b[K" + line[:width])
            self._stream.flush()
            self._has_line = True
        elif self._reports % LOAD_LINE_S == 1:
            self._say(line)

    def _say(self, line: str) -> None:
        if self._has_line:
            self._stream.write("\r\x1b[K")
            self._has_line = False
        self._stream.write(line + "\n")
        self._stream.flush()


def _some(servers: str) -> str:
    """The addresses for Kafka's clients; of very many only the first, which are enough."""
    return ",".join(servers.split(",")[:SHOWN_SERVERS])


def broker_table(brokers: Sequence[BrokerView] | Any, controller_epoch: int) -> list[str]:
    """The brokers, one a line; of very many only the first."""
    rows = [("broker", "address", "")]
    shown = list(brokers)
    for view in shown[:TABLE_BROKERS]:
        is_active = view.state is BrokerState.CONTROLLER
        rows.append(
            (
                str(view.id),
                view.address,
                f"controller, epoch {controller_epoch}" if is_active else "",
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    lines = [f"  {a:>{widths[0]}}  {b:<{widths[1]}}  {c}".rstrip() for a, b, c in rows]
    if len(shown) > TABLE_BROKERS:
        lines.append(f"  … and {len(shown) - TABLE_BROKERS} more")
    return lines


def next_commands(address: str, brokers: int, topic: str) -> list[str]:
    """Three things to try."""
    server = f"--bootstrap-server {address}"
    replicas = min(3, brokers)
    return [
        f"bin/topics {server} --create --topic {topic} --partitions 6 "
        f"--replication-factor {replicas}",
        f"bin/produce {server} --topic {topic} --num-records 1000",
        f"bin/consume {server} --topic {topic} --from-beginning --group billing --max-messages 10",
    ]
