"""One produce-replicate-acknowledge cycle of three brokers, and a hand on what can fail in it.

Rule: a step is a frame that arrives or an event that is left, from the client's send until the
followers know the new high watermark; once something has failed, until all who live have had the
time to come to terms with it. A fault is one step, whatever it does.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

from actors.broker.replica import Replica
from actors.cluster import SimulatedCluster
from actors.controller import channel
from actors.faults.invariants import data_plane
from actors.faults.violation import Violation
from actors.faults.watched import Watched
from actors.names import node_name
from actors.node import Node
from runtime.network import NetworkError
from runtime.simulation.simulator import ZOOKEEPER, Simulator
from wire.codec import decode_as, encode
from wire.data import (
    Fetch,
    FetchPartition,
    FetchResponse,
    Produce,
    ProducePartition,
    ProduceResponse,
)
from wire.errors import ErrorCode
from wire.ids import BrokerId, Offset, TopicPartition
from wire.records import Record, batches, decode_records, encode_batch
from wire.trace import ActorCrashed
from wire.znodes import (
    PartitionState,
    PartitionStateZNode,
    ReplicaAssignment,
    TopicAssignment,
    TopicZNode,
)

SEED = 1
BROKERS = (1, 2, 3)  # 1 leads
ORDERS = TopicPartition("orders", 0)
SESSION_MS = 300
LAG_MS = 600
AFTERMATH_MS = SESSION_MS + 250  # a session ends, somebody is elected, a reborn broker registers
LIMIT_MS = 20_000
ATTEMPTS = 4  # to write a last record
PATIENCE_MS = 1_000  # whoever waits for longer in the end was forgotten
# As short as they can be without one being taken for another; a run is cheap then.
OVERRIDES = {
    "min_insync_replicas": 2,
    "auto_leader_rebalance_enable": False,
    "replica_fetch_wait_max_ms": 400,
    "replica_lag_time_max_ms": LAG_MS,
    "replica_socket_timeout_ms": 500,
    "replica_fetch_backoff_ms": 50,
    "log_index_interval_bytes": 0,
}


class Fault(NamedTuple):
    """What is done, to whom."""

    kind: str
    target: str  # a broker's number, or two of them, or one and zookeeper

    def __str__(self) -> str:
        return f"{self.kind}-{self.target}"

    @classmethod
    def parse(cls, text: str) -> "Fault":
        return cls(*text.split("-", 1))


FAULTS = (
    *(
        Fault(kind, str(broker))
        for kind in ("kill", "pause", "expire", "lose")
        for broker in BROKERS
    ),
    *(Fault("cut", f"{one}>{other}") for one in BROKERS for other in BROKERS if one != other),
    *(Fault("cut", f"{broker}>{ZOOKEEPER}") for broker in BROKERS),
)


class Stage:
    """A cluster, a client, and a hand on the faults."""

    def __init__(self, sim: Simulator, controller: int) -> None:
        self.sim = sim
        self.controller = controller
        self.cluster = SimulatedCluster(sim, brokers=len(BROKERS), overrides=OVERRIDES)
        self.client = sim.client("client")[0]
        self.consumer = sim.client("consumer")[0]
        self.steps = 0
        self.last: object = None  # what the last step was
        self.on_step: Callable[[int], None] | None = None
        self.acknowledged: dict[int, bytes] = {}  # by offset
        self.last_strike_ms = 0.0
        self.starting: dict[int, asyncio.Task[object]] = {}
        self.paused: set[int] = set()
        self.crashes: list[ActorCrashed] = []
        self._is_striking = False
        self.watched = Watched(sim, self.cluster, data_plane(PATIENCE_MS), self._step)

    # --- steps ------------------------------------------------------------------------------------

    def _step(self, what: object) -> None:
        self.last = what
        if isinstance(what, tuple) and isinstance(what[1], ActorCrashed):
            self._on_crash(*what)
        if self.on_step is not None and not self._is_striking:
            number, self.steps = self.steps, self.steps + 1
            self.on_step(number)

    def _on_crash(self, name: str, event: ActorCrashed) -> None:
        """Not if it was killed: what it was doing then goes on to its next await, and may fail."""
        if any(node.world.node == name for node in self.up()):
            self.crashes.append(event)

    # --- the cycle --------------------------------------------------------------------------------

    async def prepare(self) -> None:
        """Three brokers, a topic, two records that everybody has."""
        keeper = self.sim.world("tool").keeper
        await keeper.start()
        for broker in sorted(BROKERS, key=lambda each: each != self.controller):
            await self.cluster.start_broker(broker)
            await self.sim.sleep(20)
        replicas = ReplicaAssignment(replicas=tuple(map(BrokerId, BROKERS)))
        topic = TopicAssignment(partitions={0: replicas})
        await keeper.create(TopicZNode.path("orders"), TopicZNode.encode(topic))
        await self.sim.sleep(50)
        for value in (b"first", b"second"):
            assert await self.produce(1, value), "nothing has failed yet"
        await self.until(self.is_told)
        assert self.cluster.nodes[self.controller].is_controller
        assert self.state().leader == 1

    async def produce(self, broker: int, value: bytes) -> bool:
        """Whether the record was acknowledged."""
        batch = encode_batch([Record(offset=Offset(0), timestamp_ms=1, value=value)])
        records = (ProducePartition(ORDERS, memoryview(batch)),)
        request = encode(Produce(acks=-1, timeout_ms=2_000, partitions=records))
        try:
            answer = await self.client.call(node_name(broker), request, timeout_ms=2_500)
        except NetworkError:
            return False
        (result,) = decode_as(ProduceResponse, answer).partitions
        if result.error_code is ErrorCode.NONE:
            self.acknowledged[result.base_offset] = value
        return result.error_code is ErrorCode.NONE

    async def consume(self, broker: int, offset: int) -> None:
        """Ask for what follows an offset, and wait for it a while."""
        wanted = FetchPartition(partition=ORDERS, fetch_offset=Offset(offset), max_bytes=1 << 20)
        request = Fetch(max_wait_ms=1_500, min_bytes=1, max_bytes=1 << 20, partitions=(wanted,))
        try:
            answer = await self.consumer.call(node_name(broker), encode(request), timeout_ms=2_000)
        except NetworkError:
            return
        decode_as(FetchResponse, answer)

    async def cycle(self, on_step: Callable[[int], None]) -> None:
        """One acks=all produce, and what follows from it and from the faults meanwhile."""
        reading = asyncio.ensure_future(self.consume(1, 2))
        await self.sim.sleep(2)
        self.on_step = on_step
        await self.produce(1, b"third")
        while not (self.is_told() or self.is_over()):
            await self.sleep(10)
        while self.last_strike_ms and not self.is_over():
            await self.sleep(10)
        self.on_step = None
        await reading

    def is_over(self) -> bool:
        """Whether the faults have had the time to show their effects."""
        return bool(self.last_strike_ms) and (self.sim.now_ms > self.last_strike_ms + AFTERMATH_MS)

    # --- what there is ----------------------------------------------------------------------------

    def up(self) -> list[Node]:
        return [node for node in self.cluster.nodes.values() if node.system.is_up]

    def replicas(self) -> list[Replica]:
        found = (node.replica_manager.replicas.get(ORDERS) for node in self.up())
        return [replica for replica in found if replica is not None]

    def state(self) -> PartitionState:
        znode = self.sim.zookeeper.tree.get(PartitionStateZNode.path(ORDERS))
        return PartitionStateZNode.decode(ORDERS, znode.data)

    @property
    def end(self) -> str:
        """Where and when a run has come to: another run hardly ends the same."""
        return f"{self.watched.steps} {self.sim.now_ms} {self.tell()}"

    def is_told(self) -> bool:
        """Whether all know that all is committed."""
        replicas = self.replicas()
        ends = {replica.log_end_offset for replica in replicas}
        return len(ends) == 1 and ends == {replica.high_watermark for replica in replicas}

    def is_healthy(self) -> bool:
        return self.is_in_sync() and self.is_told()

    def is_in_sync(self) -> bool:
        state = self.state()
        return (
            len(self.up()) == len(self.replicas()) == len(BROKERS)
            and sum(node.is_controller for node in self.up()) == 1
            and set(state.isr) == set(BROKERS)
            and {replica.leader_epoch for replica in self.replicas()} == {state.leader_epoch}
        )

    async def until(self, holds: Callable[[], bool]) -> None:
        deadline_ms = self.sim.now_ms + LIMIT_MS
        while not holds():
            if self.sim.now_ms > deadline_ms:
                raise Violation("L-2", f"{holds.__name__} did not hold in the end: {self.tell()}")
            await self.sleep(20)

    async def sleep(self, duration_ms: float) -> None:
        self.watched.raise_if_violated()
        await self.sim.sleep(duration_ms)

    def tell(self) -> str:
        """What there is, in a line."""
        parts = [str(self.state())]
        for node in self.cluster.nodes.values():
            replica = node.replica_manager.replicas.get(ORDERS)
            what = "down" if not node.system.is_up else "up"
            if replica is not None:
                ends = f"{replica.high_watermark}/{replica.log_end_offset}"
                what += f" epoch {replica.leader_epoch} leader {replica.hosted.leader} at {ends}"
            parts.append(f"{node.config.broker_id} {what}")
        return "; ".join(parts)

    # --- faults -----------------------------------------------------------------------------------

    def can(self, fault: Fault) -> bool:
        """Whether the fault would change anything."""
        if fault.kind == "cut":
            one, other = map(_name, fault.target.split(">"))
            if other == ZOOKEEPER:
                return one in self.sim._worlds and "cut" not in self._keeper(one)._stalls
            return not self.sim.network.is_cut(one, other)
        broker = int(fault.target)
        is_here = node_name(broker) in self.sim._worlds and self.cluster.nodes[broker].system.is_up
        return is_here and not (fault.kind == "pause" and broker in self.paused)

    def _keeper(self, node: str):
        return self.sim._worlds[node].keeper

    def strike(self, fault: Fault) -> None:
        """Let it happen now, and as one step."""
        with self._as_one_step():
            self._do(fault)
        self.last_strike_ms = self.sim.now_ms

    @contextmanager
    def _as_one_step(self) -> Iterator[None]:
        """Nothing else happens meanwhile."""
        self._is_striking = True
        yield
        self._is_striking = False

    def _do(self, fault: Fault) -> None:
        sim, name = self.sim, _name(fault.target)
        match fault.kind:
            case "kill":  # a process ends; what it wrote is the operating system's to keep
                sim._disks[name].settle()
                self._kill(int(fault.target))
            case "lose":  # the power goes and comes back; what was not synced is gone
                sim._disks[name].crash(keep_nothing=True)
                self._kill(int(fault.target))
                self._start(int(fault.target))
            case "pause":
                broker = int(fault.target)
                self.paused.add(broker)
                sim.pause(name)
                node = self.cluster.nodes[broker]
                sim.loop.call_later(SESSION_MS * 1.5 / 1000, partial(self._resume, broker, node))
            case "expire":
                sim.expire_session(name)
            case "cut":
                one, other = map(_name, fault.target.split(">"))
                sim.cut(one, other, one_way=True)

    def _kill(self, broker: int) -> None:
        self.paused.discard(broker)
        if broker in self.starting:
            self.starting[broker].cancel()
        self.cluster.kill(broker)

    def _start(self, broker: int) -> None:
        starting = asyncio.ensure_future(self.cluster.start_broker(broker))
        # Whether a start failed is of no interest: whoever is not up in the end is started again.
        starting.add_done_callback(lambda done: done.cancelled() or done.exception())
        self.starting[broker] = starting

    def _resume(self, broker: int, node: Node) -> None:
        if broker in self.paused and self.cluster.nodes[broker] is node:
            self.paused.discard(broker)
            with self._as_one_step():
                self.sim.resume(node_name(broker))

    async def recover(self) -> None:
        """Everything is mended, everybody lives; one more record goes through."""
        await self.until(lambda: not self.paused)
        self.sim.heal()
        for broker in BROKERS:
            starting = self.starting.get(broker)
            if starting is not None:
                await asyncio.wait([starting])
            if not self.cluster.nodes[broker].system.is_up:
                await self.cluster.start_broker(broker)
        for attempt in range(ATTEMPTS):
            await self.until(self.is_in_sync)
            if await self.produce(self.state().leader, b"last %d" % attempt):
                break
            await self.sleep(
                LAG_MS
            )  # who was cut off a moment ago may leave the ISR before it asks
        else:
            raise Violation("L-2", f"a sound cluster does not acknowledge: {self.tell()}")
        await self.until(self.is_healthy)

    def check_in_the_end(self) -> None:
        """Nothing acknowledged is lost, nothing is there twice, nobody waits."""
        if self.crashes:
            raise Violation("L-2", f"an actor crashed: {self.crashes}")
        self.watched.invariants.check_in_the_end()
        for node in self.up():
            broker = node.config.broker_id
            values = _values(node.replica_manager.replicas[ORDERS])
            for offset, value in self.acknowledged.items():
                if values.get(offset) != value:
                    why = f"{value!r} at {offset} is not on broker {broker}: {values}"
                    raise Violation("I-7", why, partition=ORDERS, brokers=(broker,))
            if len(set(values.values())) != len(values):
                raise Violation("I-7", f"a record is there twice: {values}", partition=ORDERS)
            if len(node.replica_manager.leading.purgatory):
                raise Violation("L-7", f"somebody waits at broker {broker}", partition=ORDERS)


def _name(target: str) -> str:
    return node_name(int(target)) if target.isdigit() else target


def _values(replica: Replica) -> dict[int, bytes | None]:
    data = b"" if replica.log is None else replica.log.read(Offset(0), 1 << 20)
    return {
        record.offset: record.value for batch in batches(data) for record in decode_records(batch)
    }


async def play(controller: int, on_step: Callable[[Stage, int], None]) -> Stage:
    """A whole run."""
    channel.TIMEOUT_MS = 1_000  # what a cut link has lost is sent again sooner
    async with Simulator(seed=SEED, session_timeout_ms=SESSION_MS, recording=False) as sim:
        stage = Stage(sim, controller)
        await stage.prepare()
        await stage.cycle(partial(on_step, stage))
        await stage.recover()
        stage.check_in_the_end()
        return stage
