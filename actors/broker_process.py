"""One broker a process: what bin/run-broker runs, and what bin/run-cluster --processes starts.

Rule: it joins whatever cluster its ZooKeeper has, and leaves it in its own time when it is asked
to end. Under a supervisor it speaks JSON, a line a thing: Ready once, then what happens; and does
what it is told on standard input: faults that only a process can do to itself.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from actors.cluster import LOOPBACK, Door, resolve
from actors.faults.local import LocalFaults
from actors.faults.vocabulary import AnyFault
from actors.names import node_name
from actors.node_cluster import NodeCluster
from actors.places import failures_as_sentences
from actors.story import TELLERS, StoryEvent, listen
from runtime.child import orders
from runtime.folder import Folder
from runtime.main import Sentence
from runtime.real import RealProcess
from runtime.tasks import Promise, Tasks
from wire.trace import Stamp, to_json


class Ready(msgspec.Struct, tag=True, frozen=True):
    """Broker → supervisor: it is registered."""

    address: str
    broker_epoch: int
    kafka: str = ""  # where Kafka's clients find it


class Happened(msgspec.Struct, tag=True, frozen=True):
    """Broker → whoever started it by hand: something to tell, in words."""

    event: StoryEvent


class Left(msgspec.Struct, tag=True, frozen=True):
    """Broker → supervisor: what its trace has; the supervisor words it, who hears all brokers."""

    stamp: Stamp
    event: msgspec.Raw


class Order(msgspec.Struct, frozen=True):
    """Supervisor → broker: break something, or mend it."""

    what: str  # "expire", "cut", "mend", "heal", "apply" or "undo"
    other: str = ""  # the other end of a link: a node's name, or "zookeeper"
    one_way: bool = False
    number: int = 0  # of a fault
    fault: AnyFault | None = None


Said = Ready | Happened | Left


@dataclass(frozen=True, kw_only=True)
class BrokerOptions:
    """What one broker's process is told."""

    broker: int
    zookeeper: str
    data: Path | None = None
    trace: Path | None = None
    run: str | None = None  # the trace's, if it is one of several processes
    origin: int = 0
    door: Door = LOOPBACK
    port: int = 0
    rack: str | None = None
    overrides: Mapping[str, Any] | None = None


class OneBroker(NodeCluster):
    """A cluster's share in this process."""

    def __init__(self, options: BrokerOptions, process: RealProcess) -> None:
        racks = {} if options.rack is None else {options.broker: options.rack}
        super().__init__(process, brokers=1, overrides=options.overrides, racks=racks)
        self.brokers = (options.broker,)
        self._ports[options.broker] = options.port
        self._kafka_ports[options.broker] = options.door.kafka_port
        self._credentials = options.door.credentials


async def serve_broker(options: BrokerOptions, *, is_supervised: bool, as_json: bool) -> int:
    """Run a broker until it is asked to end, or goes down by itself."""
    async with failures_as_sentences(options.zookeeper, options.data):
        folder = Folder.open(options.data)
        process = RealProcess(
            resolve=resolve,
            data=folder.path,
            zookeeper=options.zookeeper,
            session_timeout_ms=(options.overrides or {}).get("zookeeper.session.timeout.ms", 6_000),
            trace_folder=options.trace,
            run=options.run,
            origin=options.origin,
            host=options.door.host,
            advertised_host=options.door.advertised_host,
            token=options.door.token,
        )
        try:
            return await _serve(OneBroker(options, process), process, is_supervised, as_json)
        finally:
            await process.close()
            folder.close()


async def _serve(
    cluster: OneBroker, process: RealProcess, is_supervised: bool, as_json: bool
) -> int:
    (broker,) = cluster.brokers
    say = _say_json if as_json else _say_calmly
    await process.start()
    if is_supervised:
        stop = process.trace.watch(TELLERS, lambda stamp, event: say(Left(stamp, to_json(event))))
    else:
        stop = listen(process.trace, process.clock, lambda event: say(Happened(event)))
    down = Promise[str]()
    tasks = Tasks(down.fail)
    try:
        node = await cluster.start_broker(broker)
        say(Ready(node.address, node.broker_epoch, cluster.bootstrap_servers))

        async def watch() -> None:
            down.keep(await node.system.down())

        tasks.start(watch())
        if is_supervised:
            tasks.start(_obey(cluster, down))
        reason = await down
        raise Sentence(f"broker {broker} is down: {reason}")
    finally:
        stop()
        await tasks.close()
        await cluster.stop_nodes()


async def _obey(cluster: OneBroker, down: Promise[str]) -> None:
    """Do what the supervisor says until it is gone; then there is nobody to live for."""
    (broker,) = cluster.brokers
    me, local = node_name(broker), LocalFaults(cluster.universe)
    async for line in orders():
        order = msgspec.json.decode(line, type=Order)
        if order.what == "expire":
            await cluster.universe.expire(me)
        elif order.what == "cut":  # the other end, if it shall, has an order of its own
            cluster.universe.cut(me, order.other, one_way=True)
        elif order.what == "mend":
            cluster.universe.mend(me, order.other, one_way=True)
        elif order.what == "heal":
            local.undo_all()
            cluster.universe.heal()
        elif order.what == "apply" and order.fault is not None:
            local.apply(order.fault, order.number)
        elif order.what == "undo":
            local.undo(order.number)
        else:
            raise ValueError(f"{order.what!r} is no order")
    cluster.universe.kill(me)
    down.keep("its supervisor is gone")


def _say_json(said: Said) -> None:
    sys.stdout.write(msgspec.json.encode(said).decode() + "\n")
    sys.stdout.flush()


def _say_calmly(said: Said) -> None:
    if isinstance(said, Ready):
        line = (
            f"the broker is up at {said.address}, for Kafka's clients at {said.kafka}, "
            f"epoch {said.broker_epoch}; Ctrl-C stops it"
        )
    elif isinstance(said, Left) or said.event.is_part:
        return
    else:
        line = said.event.text
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
