"""bin/configs: as kafka-configs, for topics and brokers.

Rule: Kafka's flags in, Kafka's words out.
"""

import argparse
from collections.abc import Sequence

from actors.clients import Clients
from actors.commands.common import (
    command_parser,
    given_as,
    key_values,
    one_of,
    print_json,
    run_command,
    say,
)
from actors.operations import configs
from actors.operations.configs import DEFAULT, KINDS


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = command_parser(
        "configs",
        "Describe or alter the settings of topics and brokers.",
        "--bootstrap-server 127.0.0.1:9092 --alter --entity-type topics --entity-name orders "
        "--add-config min.insync.replicas=2",
    )
    parser.add_argument("--describe", action="store_true")
    parser.add_argument("--alter", action="store_true")
    parser.add_argument("--entity-type", required=True, choices=sorted(KINDS))
    parser.add_argument("--entity-name", metavar="NAME", help="a topic, or a broker's number")
    parser.add_argument("--entity-default", action="store_true", help="all brokers' default")
    parser.add_argument("--add-config", metavar="K=V,K=[V,V]")
    parser.add_argument("--delete-config", metavar="K,K")
    parser.add_argument("--all", action="store_true", help="also what nobody has set")
    parser.add_argument("--json", action="store_true", help="answer as JSON")
    given = parser.parse_args(arguments)
    action = one_of(given, parser, "describe", "alter")
    if given.entity_default and given.entity_type != "brokers":
        parser.error("--entity-default goes with --entity-type brokers")
    if given.entity_default is (given.entity_name is not None):
        parser.error("either --entity-name or --entity-default must be given")
    if action == "alter" and not given.add_config and not given.delete_config:
        parser.error("--alter needs --add-config or --delete-config")
    return run_command(parser, given, _alter if action == "alter" else _describe)


def _name(given: argparse.Namespace) -> str:
    return DEFAULT if given.entity_default else given.entity_name


async def _describe(clients: Clients, given: argparse.Namespace) -> None:
    wanted = given_as(
        configs.DescribeConfigs,
        entity_type=given.entity_type,
        entity_name=_name(given),
        all=given.all,
    )
    found = await configs.describe_configs(clients, wanted)
    if given.json:
        print_json(found)
        return
    kind, name = given.entity_type.removesuffix("s"), _name(given)
    which = "All configs" if given.all else "Dynamic configs"
    say(f"{which} for {kind} {name} are:")
    for each in found.configs:
        sensitive = str(each.is_sensitive).lower()
        say(f"  {each.name}={each.value} sensitive={sensitive} source={each.source}")


async def _alter(clients: Clients, given: argparse.Namespace) -> None:
    deleted = [each.strip() for each in (given.delete_config or "").split(",") if each.strip()]
    wanted = given_as(
        configs.AlterConfigs,
        entity_type=given.entity_type,
        entity_name=_name(given),
        add=key_values(given.add_config) if given.add_config else {},
        delete=deleted,
    )
    await configs.alter_configs(clients, wanted)
    if given.json:
        print_json({"done": True})
        return
    say(f"Completed updating config for {given.entity_type.removesuffix('s')} {_name(given)}.")
