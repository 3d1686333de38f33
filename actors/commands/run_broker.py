"""bin/run-broker: one broker, a process of its own.

Rule: arguments in, one call.
"""

import argparse
import sys
from collections.abc import Sequence

from actors.broker_process import BrokerOptions, serve_broker
from actors.commands.cluster_arguments import (
    add_door,
    add_settings,
    broker_id,
    door_of,
    port,
    settings_of,
    zookeeper_hosts,
)
from actors.commands.parser import Parser, folder
from actors.config import BadConfig
from actors.token import BadToken
from runtime.main import Sentence, run


def main(arguments: Sequence[str] | None = None) -> int:
    """What bin/run-broker does."""
    parser = Parser(
        prog="run-broker",
        description="Run one broker, a process of its own, until Ctrl-C.",
        epilog="example: bin/run-broker --id 4 --zookeeper 127.0.0.1:2181 --data /tmp/broker-4",
    )
    parser.add_argument("--id", type=broker_id, required=True, metavar="N", help="broker.id")
    parser.add_argument(
        "--zookeeper", type=zookeeper_hosts, required=True, metavar="HOST:PORT,…[/CHROOT]"
    )
    parser.add_argument("--data", type=folder, metavar="DIR", help="kept; default: temporary")
    add_door(parser)
    parser.add_argument("--port", type=port, default=0, metavar="N", help="default: a free one")
    parser.add_argument("--rack", metavar="NAME", help="broker.rack")
    add_settings(parser)
    parser.add_argument("--json", action="store_true", help="a JSON object a line")
    parser.add_argument("--supervised", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--trace-run", help=argparse.SUPPRESS)
    parser.add_argument("--trace-origin", type=int, default=0, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    return run(_serve_given(given), name="run-broker")


async def _serve_given(given: argparse.Namespace) -> int:
    try:
        options = BrokerOptions(
            broker=given.id,
            zookeeper=given.zookeeper,
            data=given.data,
            trace=given.trace,
            run=given.trace_run,
            origin=given.trace_origin,
            door=door_of(given),
            port=given.port,
            rack=given.rack,
            overrides=settings_of(given, "run-broker"),
        )
    except (BadConfig, BadToken) as error:
        raise Sentence(str(error)) from None
    as_json = given.json or given.supervised
    return await serve_broker(options, is_supervised=given.supervised, as_json=as_json)


if __name__ == "__main__":
    sys.exit(main())
