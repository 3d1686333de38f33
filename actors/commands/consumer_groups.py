"""bin/consumer-groups: as kafka-consumer-groups, as far as offsets go.

Rule: Kafka's flags in, Kafka's columns out. A reset only says what would be, unless --execute.
"""

import argparse
from collections.abc import Sequence
from typing import Any

from actors.clients import Clients
from actors.commands.common import (
    command_parser,
    given_as,
    one_of,
    print_json,
    run_command,
    say,
    warn,
)
from actors.operations import groups
from actors.operations.given import Nothing
from actors.operations.operation import BadInput

ACTIONS = ("list", "describe", "reset_offsets")
COLUMNS = (
    "GROUP",
    "TOPIC",
    "PARTITION",
    "CURRENT-OFFSET",
    "LOG-END-OFFSET",
    "LAG",
    "CONSUMER-ID",
    "HOST",
    "CLIENT-ID",
)
UNKNOWN = "-"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = command_parser(
        "consumer-groups",
        "List groups, describe their offsets and lag, or have them go on elsewhere.",
        "--bootstrap-server 127.0.0.1:9092 --describe --group billing",
    )
    for action in ACTIONS:
        parser.add_argument(f"--{action.replace('_', '-')}", action="store_true")
    parser.add_argument("--group", metavar="NAME")
    parser.add_argument("--all-groups", action="store_true")
    parser.add_argument("--topic", metavar="NAME[:0,1]", help="with --reset-offsets")
    parser.add_argument("--to-earliest", action="store_true")
    parser.add_argument("--to-latest", action="store_true")
    parser.add_argument("--to-offset", type=int, metavar="N")
    parser.add_argument("--dry-run", action="store_true", help="the default")
    parser.add_argument("--execute", action="store_true")
    parser.add_argument("--json", action="store_true", help="answer as JSON")
    given = parser.parse_args(arguments)
    action = one_of(given, parser, *ACTIONS)
    if action == "describe" and (given.group is None) is not given.all_groups:
        parser.error("--describe needs --group or --all-groups")
    if action == "reset_offsets":
        _check_reset(parser, given)
    return run_command(parser, given, WORK[action])


def _check_reset(parser: Any, given: argparse.Namespace) -> None:
    if given.group is None:
        parser.error("--reset-offsets needs --group")
    places = (given.to_earliest, given.to_latest, given.to_offset is not None)
    if sum(places) != 1:
        parser.error("one of --to-earliest, --to-latest, --to-offset must be given")
    if given.dry_run and given.execute:
        parser.error("--dry-run and --execute exclude each other")


async def _list(clients: Clients, given: argparse.Namespace) -> None:
    found = await groups.list_groups(clients, Nothing())
    if given.json:
        print_json(found)
        return
    for name in found.groups:
        say(name)


async def _describe(clients: Clients, given: argparse.Namespace) -> None:
    names = [given.group]
    if given.all_groups:
        names = list((await groups.list_groups(clients, Nothing())).groups)
    found = [
        await groups.describe_group(clients, given_as(groups.GroupGiven, group=name))
        for name in names
    ]
    if given.json:
        print_json(found if given.all_groups else found[0])
        return
    for each in found:
        if each is not found[0]:
            say()
        for line in group_table(each):
            say(line)


def group_table(group: groups.GroupDescription) -> list[str]:
    """Kafka's columns; nobody is a member, so nobody is named."""
    rows = [COLUMNS, *(_row(group.group, each) for each in group.offsets)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    return [
        " ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _row(group: str, offset: groups.GroupOffset) -> tuple[str, ...]:
    end, lag = offset.log_end_offset, offset.lag
    return (
        group,
        offset.topic,
        str(offset.partition),
        str(offset.current_offset),
        UNKNOWN if end is None else str(end),
        UNKNOWN if lag is None else str(lag),
        UNKNOWN,
        UNKNOWN,
        UNKNOWN,
    )


async def _reset(clients: Clients, given: argparse.Namespace) -> None:
    topic, partitions = _topic(given.topic)
    place = "earliest" if given.to_earliest else "latest" if given.to_latest else "offset"
    wanted = given_as(
        groups.ResetGiven,
        group=given.group,
        to=place,
        offset=given.to_offset,
        topic=topic,
        partitions=partitions,
        execute=given.execute,
    )
    done = await groups.reset_offsets(clients, wanted)
    if given.json:
        print_json(done)
        return
    if not given.execute:
        warn("consumer-groups: nothing was changed: --execute would do it")
    rows = [("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET")]
    rows += [
        (done.group, each.topic, str(each.partition), str(each.new_offset)) for each in done.offsets
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        say(" ".join(cells).rstrip())


def _topic(text: str | None) -> tuple[str | None, list[int] | None]:
    if text is None:
        return None, None
    name, colon, numbers = text.partition(":")
    if not colon:
        return name, None
    parts = numbers.split(",")
    if not all(each.isdecimal() for each in parts):
        raise BadInput(f"--topic is {text!r:.80}; it must be NAME or NAME:0,1")
    return name, [int(each) for each in parts]


WORK: dict[str, Any] = {"list": _list, "describe": _describe, "reset_offsets": _reset}
