"""bin/consumer-groups: as kafka-consumer-groups.

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

ACTIONS = ("list", "describe", "delete", "reset_offsets")
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
STATE_COLUMNS = ("GROUP", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS")
MEMBER_COLUMNS = (
    "GROUP",
    "CONSUMER-ID",
    "GROUP-INSTANCE-ID",
    "HOST",
    "CLIENT-ID",
    "#PARTITIONS",
    "ASSIGNMENT",
)
UNKNOWN = "-"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = command_parser(
        "consumer-groups",
        "List groups, describe their members and lag, delete them, or have them go on elsewhere.",
        "--bootstrap-server 127.0.0.1:9092 --describe --group billing",
    )
    for action in ACTIONS:
        parser.add_argument(f"--{action.replace('_', '-')}", action="store_true")
    parser.add_argument("--group", metavar="NAME")
    parser.add_argument("--all-groups", action="store_true")
    parser.add_argument("--state", action="store_true", help="with --list or --describe")
    parser.add_argument("--members", action="store_true", help="with --describe")
    parser.add_argument("--topic", metavar="NAME[:0,1]", help="with --reset-offsets")
    parser.add_argument("--to-earliest", action="store_true")
    parser.add_argument("--to-latest", action="store_true")
    parser.add_argument("--to-offset", type=int, metavar="N")
    parser.add_argument("--dry-run", action="store_true", help="the default")
    parser.add_argument("--execute", action="store_true")
    parser.add_argument("--json", action="store_true", help="answer as JSON")
    given = parser.parse_args(arguments)
    action = one_of(given, parser, *ACTIONS)
    if action in {"describe", "delete"} and (given.group is None) is not given.all_groups:
        parser.error(f"--{action} needs --group or --all-groups")
    if given.state and given.members:
        parser.error("--state and --members exclude each other")
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
    for name, state in zip(found.groups, found.states, strict=True):
        say(f"{name} {state}" if given.state else name)


async def _delete(clients: Clients, given: argparse.Namespace) -> None:
    names = await _names(clients, given)
    for name in names:
        await groups.delete_group(clients, given_as(groups.GroupGiven, group=name))
    if given.json:
        print_json({"deleted": names})
        return
    for name in names:
        say(f"deleted group {name}")


async def _names(clients: Clients, given: argparse.Namespace) -> list[str]:
    if not given.all_groups:
        return [given.group]
    return list((await groups.list_groups(clients, Nothing())).groups)


async def _describe(clients: Clients, given: argparse.Namespace) -> None:
    names = await _names(clients, given)
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
        table = state_table if given.state else member_table if given.members else group_table
        for line in table(each):
            say(line)


def group_table(group: groups.GroupDescription) -> list[str]:
    """A row a partition, with Kafka's columns."""
    return _table([COLUMNS, *(_row(group.group, each) for each in group.offsets)])


def state_table(group: groups.GroupDescription) -> list[str]:
    """One row, with Kafka's columns but for the coordinator's."""
    row = (group.group, group.protocol or UNKNOWN, group.state, str(len(group.members)))
    return _table([STATE_COLUMNS, row])


def member_table(group: groups.GroupDescription) -> list[str]:
    """A row a member, with Kafka's columns, as with --verbose."""
    rows = [
        (
            group.group,
            each.member_id,
            each.group_instance_id or UNKNOWN,
            each.host or UNKNOWN,
            each.client_id or UNKNOWN,
            str(len(each.partitions)),
            ",".join(each.partitions) or UNKNOWN,
        )
        for each in group.members
    ]
    return _table([MEMBER_COLUMNS, *rows])


def _table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
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
        UNKNOWN if offset.current_offset is None else str(offset.current_offset),
        UNKNOWN if end is None else str(end),
        UNKNOWN if lag is None else str(lag),
        offset.member_id or UNKNOWN,
        offset.host or UNKNOWN,
        offset.client_id or UNKNOWN,
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
    for line in _table(rows):
        say(line)


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


WORK: dict[str, Any] = {
    "list": _list,
    "describe": _describe,
    "delete": _delete,
    "reset_offsets": _reset,
}
