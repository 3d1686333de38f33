"""bin/elect-leaders: as kafka-leader-election.

Rule: partitions that need no election are told, and are no failure.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from actors.clients import Clients
from actors.commands.common import (
    command_parser,
    given_as,
    print_json,
    read_json,
    run_command,
    say,
    warn,
)
from actors.operations import elections
from actors.operations.operation import BadInput


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = command_parser(
        "elect-leaders",
        "Elect preferred leaders, or unclean ones where nobody leads.",
        "--bootstrap-server 127.0.0.1:9092 --election-type preferred --all-topic-partitions",
    )
    parser.add_argument("--election-type", required=True, choices=sorted(elections.TYPES))
    parser.add_argument("--topic", metavar="NAME")
    parser.add_argument("--partition", type=int, metavar="N")
    parser.add_argument("--all-topic-partitions", action="store_true")
    parser.add_argument("--path-to-json-file", type=Path, metavar="FILE")
    parser.add_argument("--json", action="store_true", help="answer as JSON")
    given = parser.parse_args(arguments)
    ways = (given.topic, given.all_topic_partitions or None, given.path_to_json_file)
    if sum(each is not None for each in ways) != 1:
        parser.error("one of --topic, --all-topic-partitions, --path-to-json-file must be given")
    if (given.topic is None) is not (given.partition is None):
        parser.error("--topic and --partition go together")
    return run_command(parser, given, _elect)


async def _elect(clients: Clients, given: argparse.Namespace) -> int:
    wanted = given_as(
        elections.ElectGiven, election_type=given.election_type, partitions=_partitions(given)
    )
    held = await elections.elect_leaders(clients, wanted)
    if given.json:
        print_json(held)
        return 1 if held.failed else 0
    for named, sentence in (
        (held.elected, "Successfully completed leader election"),
        (held.not_needed, "Valid replica already elected"),
    ):
        if named:
            listed = ", ".join(f"{each.topic}-{each.partition}" for each in named)
            kind = given.election_type.upper()
            say(f"{sentence} ({kind}) for partitions {listed}")
    if not (held.elected or held.not_needed or held.failed):
        say("No partition needs an election.")
    for each in held.failed:
        warn(f"elect-leaders: {each.topic}-{each.partition}: {each.message} ({each.error})")
    return 1 if held.failed else 0


def _partitions(given: argparse.Namespace) -> list[dict[str, Any]] | None:
    if given.all_topic_partitions:
        return None
    if given.topic is not None:
        return [{"topic": given.topic, "partition": given.partition}]
    path = given.path_to_json_file
    content = json.loads(read_json(path))
    found = content.get("partitions") if isinstance(content, dict) else None
    if not isinstance(found, list):
        raise BadInput(f'{path} must be {{"partitions": [{{"topic": …, "partition": …}}]}}')
    return found
