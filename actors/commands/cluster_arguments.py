"""Arguments that bin/run-cluster and bin/run-broker share.

Rule: a wrong argument is one sentence that names it and what would be right, and exit code 1.
"""

import argparse
import os
import re
import sys
from pathlib import Path
from typing import Any, Final

from actors.cluster import Door
from actors.commands.parser import folder, whole
from actors.properties import read_overrides, read_properties
from actors.token import BadToken, token_of, users_of
from runtime.websocket import is_loopback

LAST_PORT: Final = 65_535
MOST_BROKER_ID: Final = 2**31 - 1
EVERYWHERE: Final = ("0.0.0.0", "::")
HOST: Final = r"([\w.-]+|\[[0-9a-fA-F:.]+\])(:[0-9]{1,5})?"
ZOOKEEPER: Final = re.compile(rf"{HOST}(,{HOST})*(/[^/\s]+)*/?")


def zookeeper_hosts(text: str) -> str:
    """Where to look for ZooKeeper, as Kafka's zookeeper.connect."""
    ports = (int(each) for each in re.findall(r":([0-9]+)(?=[,/]|$)", text))
    if not ZOOKEEPER.fullmatch(text) or not all(1 <= each <= LAST_PORT for each in ports):
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT, nor a list of such")
    return text


def port(text: str) -> int:
    """A TCP port; 0 is any that is free."""
    return whole(text, 0, LAST_PORT)


def broker_id(text: str) -> int:
    """A broker's number."""
    return whole(text, 0, MOST_BROKER_ID)


def add_settings(parser: argparse.ArgumentParser) -> None:
    """What brokers are told."""
    parser.add_argument("--trace", type=folder, metavar="DIR", help="write Parquet traces there")
    parser.add_argument(
        "--override",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a broker setting by Kafka's key; may be repeated",
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="a server.properties")


def add_door(parser: argparse.ArgumentParser) -> None:
    """Where to listen, and what must be shown there."""
    parser.add_argument("--host", default="127.0.0.1", help="where to listen; default: 127.0.0.1")
    parser.add_argument("--advertised-host", metavar="HOST", help="what clients are told instead")
    parser.add_argument(
        "--kafka-port",
        type=port,
        default=0,
        metavar="N",
        help="for Kafka's clients; the next broker has the next one; default: free ones",
    )
    parser.add_argument(
        "--sasl-file",
        type=Path,
        metavar="FILE",
        help="NAME:PASSWORD a line: Kafka's clients log in, by PLAIN or SCRAM-SHA-256",
    )
    parser.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help="what clients must show (or UNDERSTUDY_TOKEN)",
    )


def door_of(given: argparse.Namespace) -> Door:
    """Where to listen, if that is safe: only loopback needs no token."""
    token = token_of(given.token_file, os.environ)
    if not is_loopback(given.host):
        if token is None:
            raise BadToken(
                f"{given.host} is not loopback: a --token-file is needed to listen there"
            )
        if given.host in EVERYWHERE and given.advertised_host is None:
            raise BadToken(f"{given.host} is no address to be reached at: give --advertised-host")
    return Door(
        given.host,
        given.advertised_host,
        token,
        users=users_of(given.sasl_file),
        users_file=given.sasl_file,
        kafka_port=given.kafka_port,
    )


def settings_of(given: argparse.Namespace, name: str) -> dict[str, Any]:
    """The settings of the file, and over them those of the command line."""
    settings: dict[str, Any] = {}
    if given.config is not None:
        settings, ignored = read_properties(given.config)
        own = [
            each for each in ("broker.id", "broker.rack") if settings.pop(each, None) is not None
        ]
        if ignored or own:
            keys = ", ".join(sorted({*ignored, *own}))
            sys.stderr.write(f"{name}: {given.config}: these mean nothing here: {keys}\n")
        for each in own:
            settings.pop(each, None)
    return settings | read_overrides(given.override)
