"""A watched cluster into which violations can be planted: by transactions, frames and events."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from actors.cluster import SimulatedCluster
from actors.faults.invariant import Commit, Invariant
from actors.faults.watched import Watched
from actors.names import node_name
from runtime.keeper import Create, Delete, Operation, Set
from runtime.simulation.simulator import Simulator
from tests.simulation.chaos import BROKERS, STEPS, WEATHER, Chaos
from tests.support.drive import Drive
from wire.codec import encode
from wire.control import LeaderAndIsr, LeaderAndIsrPartition, UpdateMetadata
from wire.frame import Frame, FrameKind
from wire.ids import BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, TopicPartition
from wire.message import Message
from wire.trace import TraceEvent
from wire.znodes import (
    PartitionState,
    PartitionStateZNode,
    ReplicaAssignment,
    TopicAssignment,
    TopicZNode,
)

ORDERS = TopicPartition("orders", 0)
NOBODY_LAGS = {"replica_lag_time_max_ms": 3_600_000}
LONG_MS = 70_000


@dataclass
class Planted:
    """Three brokers and one topic of three replicas; broker 1 leads it and is the controller."""

    drive: Drive
    watched: Watched
    numbers: list[int] = field(default_factory=lambda: [9_000])

    @classmethod
    async def start(
        cls, sim: Simulator, *invariants: Invariant, brokers: int = 3, **overrides: object
    ) -> "Planted":
        settings = {**NOBODY_LAGS, **overrides}
        drive = Drive(sim, SimulatedCluster(sim, brokers=brokers, overrides=settings))
        watched = Watched(sim, drive.cluster, invariants)
        await drive.keeper.start()
        for broker in drive.cluster.brokers:
            await drive.cluster.start_broker(broker)
            await sim.settle()
        return cls(drive, watched)

    @classmethod
    async def with_topic(cls, sim: Simulator, *invariants: Invariant, **more) -> "Planted":
        planted = await cls.start(sim, *invariants, **more)
        await planted.drive.create("orders", [1, 2, 3])
        await planted.drive.settle()
        planted.check()
        return planted

    # --- what is planted ----------------------------------------------------------------------

    def commit(self, node: str, *operations: Operation) -> None:
        """Write to ZooKeeper behind everybody's back, but not behind the watcher's."""
        tree = self.drive.tree
        tree.commit(operations, 0, round(self.drive.sim.now_ms))
        self.watched.invariants.on_commit(Commit(node, operations, tree))

    def write_state(self, node: str, **changes: object) -> None:
        old = self.drive.state("orders")
        fields = {name: getattr(old, name) for name in old.__struct_fields__}
        state = PartitionState(**{**fields, **changes})
        self.commit(node, Set(PartitionStateZNode.path(ORDERS), PartitionStateZNode.encode(state)))

    def write_topic(self, node: str, *replicas: int, **more: Sequence[int]) -> None:
        assignment = ReplicaAssignment(replicas=tuple(map(BrokerId, replicas)), **more)
        znode = self.drive.tree.get(TopicZNode.path("orders"))
        identity = TopicZNode.decode("orders", znode.data).topic_id
        data = TopicZNode.encode(TopicAssignment(partitions={0: assignment}, topic_id=identity))
        self.commit(node, Set(TopicZNode.path("orders"), data))

    def remove_topic(self, node: str) -> None:
        state = PartitionStateZNode.path(ORDERS)
        folders = (state, state.removesuffix("/state"), state.removesuffix("/0/state"))
        self.commit(node, *map(Delete, folders), Delete(TopicZNode.path("orders")))

    def make_topic(self, *replicas: int) -> None:
        assignment = ReplicaAssignment(replicas=tuple(map(BrokerId, replicas)))
        data = TopicZNode.encode(TopicAssignment(partitions={0: assignment}))
        self.commit("tool", Create(TopicZNode.path("orders"), data))

    def send(self, source: int, to: int, request: Message) -> int:
        """Put a request on its way; nobody gets it."""
        self.numbers.append(number := self.numbers[-1] + 1)
        self.watched.invariants.on_sent(
            _frame(FrameKind.REQUEST, number, node_name(source), node_name(to), request)
        )
        return number

    def arrive(self, source: int, to: int, request: Message, number: int) -> None:
        self.watched.invariants.on_arrival(
            _frame(FrameKind.REQUEST, number, node_name(source), node_name(to), request)
        )

    def answer(self, source: int, to: int, number: int, response: Message) -> None:
        """The one that was asked answers."""
        self.watched.invariants.on_sent(
            _frame(FrameKind.RESPONSE, number, node_name(to), node_name(source), response)
        )

    def obey(self, source: int, to: int, request: Message, response: Message) -> None:
        """A request comes, and is answered."""
        number = self.send(source, to, request)
        self.arrive(source, to, request, number)
        self.answer(source, to, number, response)

    def leave(self, broker: int, event: TraceEvent) -> None:
        self.watched.invariants.on_event(node_name(broker), event)

    # --- what is asked ------------------------------------------------------------------------

    def check(self) -> None:
        self.watched.raise_if_violated()
        self.watched.invariants.check()

    def check_in_the_end(self) -> None:
        self.watched.raise_if_violated()
        self.watched.invariants.check_in_the_end()


def _frame(kind: FrameKind, number: int, source: str, to: str, message: Message) -> Frame:
    return Frame(kind, number, source, to, 0, memoryview(encode(message)))


def metadata(epoch: int = 1, broker_epoch: int = -1, partitions: tuple = ()) -> UpdateMetadata:
    """What a controller would tell everybody."""
    return UpdateMetadata(
        controller_id=BrokerId(1),
        controller_epoch=ControllerEpoch(epoch),
        broker_epoch=BrokerEpoch(broker_epoch),
        partitions=partitions,
        live_brokers=(),
    )


def decision(epoch: int = 0, version: int = 0, leader: int = 1) -> LeaderAndIsr:
    """What a controller would decide."""
    entry = LeaderAndIsrPartition(
        partition=ORDERS,
        controller_epoch=ControllerEpoch(1),
        leader=BrokerId(leader),
        leader_epoch=LeaderEpoch(epoch),
        isr=tuple(map(BrokerId, (1, 2, 3))),
        partition_epoch=version,
        replicas=tuple(map(BrokerId, (1, 2, 3))),
    )
    return LeaderAndIsr(
        controller_id=BrokerId(1),
        controller_epoch=ControllerEpoch(1),
        broker_epoch=BrokerEpoch(-1),
        partitions=(entry,),
    )


async def adventures(planted: Planted) -> None:
    """Whatever can happen to a cluster, once: each ends well."""
    drive, sim = planted.drive, planted.drive.sim
    await drive.create("other", {0: [2, 3, 1], 1: [3, 1, 2]})
    await drive.kill(2)
    await drive.restart(2)
    await drive.prefer(TopicPartition("other", 0))
    await drive.settle()
    await drive.reassign({ORDERS: [3, 4]})
    await drive.settle()
    await drive.stop(3)
    await drive.restart(3)
    await drive.kill(drive.controller_id)
    await drive.restart(next(b for b, node in drive.cluster.nodes.items() if not node.system.is_up))
    await drive.delete("other")
    await drive.settle()
    await drive.create("other", [1, 2])
    sim.expire_session(node_name(drive.controller_id))
    await drive.settle()
    sim.pause(node_name(4))
    await sim.sleep(10_000)
    sim.resume(node_name(4))
    await drive.settle()
    await sim.sleep(LONG_MS)


async def disturbed(seed: int, *invariants: Invariant, is_wide: bool) -> Watched:
    """A run of chaos, watched, until all is well again."""
    async with Simulator(seed=seed, conditions=WEATHER) as sim:
        planted = await Planted.start(sim, *invariants, brokers=len(BROKERS))
        nemesis = Chaos(planted.drive, is_wide=is_wide)
        for _ in range(STEPS):
            await nemesis.step()
        await nemesis.peace()
        planted.check_in_the_end()
        return planted.watched
