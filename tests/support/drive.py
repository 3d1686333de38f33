"""A simulated cluster with everything that a test of the controller wants to see and touch."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from actors.broker.in_sync import ShrinkIsr
from actors.broker.replica_manager import LogDirFailed
from actors.cluster import SimulatedCluster
from actors.controller.context import ControllerContext
from actors.controller.reign import Reign
from actors.names import node_name
from actors.node import Node
from runtime.keeper import Keeper, Operation, Written
from runtime.simulation.simulator import Simulator
from runtime.simulation.zookeeper import Session
from wire.admin import (
    AlterPartitionReassignments,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignments,
    ListPartitionReassignmentsResponse,
    OngoingReassignment,
    PartitionReassignment,
)
from wire.admin_znodes import (
    DeleteTopicsTopicZNode,
    PreferredReplicaElectionZNode,
    ReassignPartitionsZNode,
)
from wire.codec import decode_as, encode
from wire.config_znodes import ConfigEntity, ConfigEntityType, ConfigEntityZNode
from wire.data import Fetch
from wire.errors import MalformedMessage
from wire.frame import Frame, FrameKind
from wire.ids import BrokerId, TopicPartition
from wire.message import Message
from wire.parted import unpack, whole
from wire.trace import Stamp, TraceEvent
from wire.znodes import (
    ControllerRegistration,
    ControllerZNode,
    PartitionState,
    PartitionStateZNode,
    ReplicaAssignment,
    TopicAssignment,
    TopicZNode,
)

Event = TypeVar("Event", bound=TraceEvent)
Request = TypeVar("Request", bound=Message)


@dataclass(frozen=True)
class Sent:
    """A request as it went onto the network."""

    at_ms: float
    source: str
    to: int
    request: Any


def controller_named(broker: int) -> bytes:
    """What `/controller` says of a broker."""
    registration = ControllerRegistration(broker=BrokerId(broker), timestamp_ms=1_600_000_000_000)
    return ControllerZNode.encode(registration)


def decoded(frame: Frame) -> Any:
    """The message in a frame, or its bytes if they are none."""
    try:
        return unpack(frame.payload)
    except MalformedMessage:
        return bytes(whole(frame.payload))


@dataclass(frozen=True)
class Answered:
    """A broker's answer as it went onto the network."""

    by: int
    to: str
    response: Any


@dataclass(frozen=True)
class Transaction:
    """Writes as they reached ZooKeeper together, whatever came of them."""

    node: str
    operations: tuple[Operation, ...]


class Drive:
    """Drives a cluster, and remembers all requests, ZooKeeper writes and events."""

    def __init__(self, sim: Simulator, cluster: SimulatedCluster) -> None:
        self.sim = sim
        self.cluster = cluster
        self.tree = sim.zookeeper.tree
        self.events: list[tuple[Stamp, TraceEvent]] = []
        self.requests: list[Sent] = []
        self.fetched: list[Sent] = []  # Fetch requests, which never end
        self.answers: list[Answered] = []
        self.keeper: Keeper = sim.world("tool").keeper  # a person at a ZooKeeper shell
        sim.trace.listeners.append(lambda stamp, event: self.events.append((stamp, event)))
        self._transmit = sim.network.transmit
        sim.network.transmit = self._record  # type: ignore[method-assign]
        self.transactions: list[Transaction] = []
        self._commit = sim.zookeeper.commit
        sim.zookeeper.commit = self._record_commit  # type: ignore[method-assign]
        self._client = sim.client("client")[0]

    @classmethod
    async def start(cls, sim: Simulator, brokers: int = 3, **options: Any) -> "Drive":
        """Start brokers 1..N and wait until all is quiet; broker 1 is the controller.

        Nobody lags by himself: a test says who does, unless it sets replica.lag.time.max.ms.
        """
        lag = {"replica_lag_time_max_ms": 3_600_000}
        options["overrides"] = lag | dict(options.get("overrides") or {})
        watch = options.pop("watch", None)  # given the cluster before anything happens
        drive = cls(sim, SimulatedCluster(sim, brokers=brokers, **options))
        if watch is not None:
            watch(drive.cluster)
        await drive.keeper.start()
        for broker in drive.cluster.brokers:
            await drive.cluster.start_broker(broker)
            await sim.settle()  # else broker 2 may overtake broker 1 at the first election
        return drive

    def _record(self, frame: Frame) -> None:
        if frame.kind is FrameKind.REQUEST and frame.destination.startswith("broker-"):
            to = int(frame.destination.removeprefix("broker-"))
            request = decoded(frame)
            sent = Sent(self.sim.now_ms, frame.source, to, request)
            (self.fetched if isinstance(request, Fetch) else self.requests).append(sent)
        elif frame.kind is FrameKind.RESPONSE and frame.source.startswith("broker-"):
            by = int(frame.source.removeprefix("broker-"))
            self.answers.append(Answered(by, frame.destination, decoded(frame)))
        self._transmit(frame)

    def _record_commit(self, session: Session, operations: Sequence[Operation]) -> list[Written]:
        if session.is_alive:  # else the server removes what a dead session owned
            self.transactions.append(Transaction(session.client.node, tuple(operations)))
        return self._commit(session, operations)

    # --- what is there ----------------------------------------------------------------------------

    @property
    def controller(self) -> Node:
        """The broker that is the controller."""
        node = self.cluster.controller
        assert node is not None, "there is no controller"
        return node

    @property
    def controller_id(self) -> int:
        return self.controller.config.broker_id

    @property
    def reign(self) -> Reign:
        reign = self.controller.controller._reign
        assert reign is not None
        return reign

    @property
    def context(self) -> ControllerContext:
        """What the controller believes."""
        return self.reign.office.context

    def node(self, broker: int) -> Node:
        return self.cluster.nodes[broker]

    def state(self, topic: str, partition: int = 0) -> PartitionState:
        """What ZooKeeper has of a partition."""
        name = TopicPartition(topic, partition)
        return PartitionStateZNode.decode(name, self.tree.get(PartitionStateZNode.path(name)).data)

    def version(self, topic: str, partition: int = 0) -> int:
        """The znode version of a partition's state."""
        path = PartitionStateZNode.path(TopicPartition(topic, partition))
        return self.tree.get(path).stat.version

    def assignment(self, topic: str, partition: int = 0) -> ReplicaAssignment:
        data = self.tree.get(TopicZNode.path(topic)).data
        return TopicZNode.decode(topic, data).partitions[partition]

    def exists(self, path: str) -> bool:
        return self.tree.stat(path) is not None

    def hosted(self, broker: int, topic: str, partition: int = 0) -> Any:
        """A partition as a broker holds it, or None."""
        replica = self.replica(broker, topic, partition)
        return None if replica is None else replica.hosted

    def replica(self, broker: int, topic: str, partition: int = 0) -> Any:
        """A broker's replica with its log, or None."""
        return self.node(broker).replica_manager.replicas.get(TopicPartition(topic, partition))

    def cached(self, broker: int, topic: str, partition: int = 0) -> Any:
        """A partition as a broker's clients see it, or None."""
        return self.node(broker).replica_manager.cache.partition(TopicPartition(topic, partition))

    # --- what happened ----------------------------------------------------------------------------

    def of(self, kind: type[Event]) -> list[Event]:
        """All events of one kind so far, in order."""
        return [event for _, event in self.events if isinstance(event, kind)]

    def sent(self, kind: type[Message], to: int | None = None) -> list[Any]:
        """All requests of one kind so far, in order; to one broker, if it is named."""
        return [
            each.request
            for each in self.requests
            if isinstance(each.request, kind) and to in {None, each.to}
        ]

    def answered(self, kind: type[Message], by: int | None = None) -> list[Any]:
        """All answers of one kind so far, in order; by one broker, if it is named."""
        return [
            each.response
            for each in self.answers
            if isinstance(each.response, kind) and by in {None, each.by}
        ]

    def fetches(self, *, source: int, to: int) -> list[tuple[str, int]]:
        """Which topics a broker has fetched from another, and under which leader epochs."""
        return [
            (part.partition.topic, part.current_leader_epoch)
            for each in self.fetched
            if (each.source, each.to) == (node_name(source), to)
            for part in each.request.partitions
        ]

    def forget(self) -> None:
        """Start with empty lists of events, requests, answers and transactions."""
        self.events.clear()
        self.requests.clear()
        self.fetched.clear()
        self.answers.clear()
        self.transactions.clear()

    def at_first(
        self, kind: type[Event], act: Callable[[], object], holds: Callable[[Event], bool] = bool
    ) -> None:
        """Act at the very moment when the first such event is left, before anything follows."""
        seen: list[TraceEvent] = []

        def listen(_: Stamp, event: TraceEvent) -> None:
            if not seen and isinstance(event, kind) and holds(event):
                seen.append(event)
                act()

        self.sim.trace.listeners.append(listen)

    # --- what is done -----------------------------------------------------------------------------

    async def settle(self, quiet_ms: float = 8_000) -> None:
        """Wait until nothing happens any more: longer than sessions, ISR notes and back-offs."""
        await self.sim.settle(quiet_ms)

    async def create(
        self, topic: str, assignment: Mapping[int, Sequence[int]] | Sequence[int]
    ) -> TopicPartition:
        """Write a topic's znode as a tool would, and wait until it is there; its partition 0."""
        replicas = assignment if isinstance(assignment, Mapping) else {0: assignment}
        await self.write_topic(topic, replicas)
        await self.sim.settle()
        return TopicPartition(topic, 0)

    async def write_topic(self, topic: str, replicas: Mapping[int, Sequence[int]]) -> None:
        """Create a topic's znode, or replace what it says."""
        whole = TopicAssignment(
            partitions={
                number: ReplicaAssignment(replicas=tuple(map(BrokerId, each)))
                for number, each in replicas.items()
            }
        )
        path, data = TopicZNode.path(topic), TopicZNode.encode(whole)
        if self.exists(path):
            await self.keeper.set(path, data)
        else:
            await self.keeper.create(path, data)

    async def reassign(self, targets: Mapping[TopicPartition, Iterable[int]]) -> None:
        """Write `/admin/reassign_partitions` as a tool would."""
        data = ReassignPartitionsZNode.encode(
            {each: tuple(map(BrokerId, to)) for each, to in targets.items()}
        )
        await self.keeper.create(ReassignPartitionsZNode.path(), data)

    async def alter(
        self, targets: Mapping[TopicPartition, Iterable[int] | None]
    ) -> AlterPartitionReassignmentsResponse:
        """Ask the controller to move partitions, or with None to give their moves up."""
        partitions = tuple(
            PartitionReassignment(each, None if to is None else tuple(map(BrokerId, to)))
            for each, to in targets.items()
        )
        request = AlterPartitionReassignments(partitions=partitions, timeout_ms=60_000)
        return await self.ask(self.controller_id, request, AlterPartitionReassignmentsResponse)

    async def ongoing(
        self, *partitions: TopicPartition
    ) -> dict[TopicPartition, OngoingReassignment]:
        """What the controller says is on the move, of these partitions or of all."""
        request = ListPartitionReassignments(partitions=partitions or None, timeout_ms=60_000)
        response = await self.ask(self.controller_id, request, ListPartitionReassignmentsResponse)
        return {each.partition: each for each in response.partitions}

    async def delete(self, topic: str) -> None:
        """Ask for a topic's end as a tool would."""
        await self.keeper.create(DeleteTopicsTopicZNode.path(topic))

    async def prefer(self, *partitions: TopicPartition) -> None:
        """Write `/admin/preferred_replica_election` as a tool would."""
        path = PreferredReplicaElectionZNode.path()
        await self.keeper.create(path, PreferredReplicaElectionZNode.encode(partitions))

    async def configure(self, entity_type: str, name: str, **config: str) -> None:
        """Write an entity's configuration, its keys with underscores; nobody is told of it."""
        path = ConfigEntityZNode.path(ConfigEntity(ConfigEntityType(entity_type), name))
        data = ConfigEntityZNode.encode({k.replace("_", "."): v for k, v in config.items()})
        if self.exists(path):
            await self.keeper.set(path, data)
        else:
            await self.keeper.create(path, data)

    def shrink(self, lagging: int, *partitions: TopicPartition) -> None:
        """Let the leaders find that a replica of these partitions is no longer in sync."""
        for partition in partitions:
            leader = self.state(partition.topic, partition.partition).leader
            shrink = ShrinkIsr((partition,), frozenset({BrokerId(lagging)}))
            self.node(leader).replica_manager.ref.tell(shrink)

    async def fail_disk(self, broker: int, *partitions: TopicPartition) -> None:
        """Let the disk fail on which a broker has these partitions."""
        self.node(broker).replica_manager.ref.tell(LogDirFailed(frozenset(partitions)))
        await self.settle()

    async def write_state(self, partition: TopicPartition, state: PartitionState) -> None:
        """Write a partition's state, whatever its version."""
        path = PartitionStateZNode.path(partition)
        await self.keeper.set(path, PartitionStateZNode.encode(state))

    def before_state_writes(
        self, *deeds: Callable[[], Awaitable[object]]
    ) -> list[list[TopicPartition]]:
        """Let things happen after the controller has read states and before it writes them.

        One deed a write; the answer lists what each write is about, also of those to come.
        """
        store = self.reign.office.store
        write, waiting = store.write_states, list(deeds)
        batches: list[list[TopicPartition]] = []

        async def write_states(changes: Mapping[TopicPartition, Any]) -> Any:
            if changes:
                batches.append(list(changes))
                if waiting:
                    await waiting.pop(0)()
            return await write(changes)

        store.write_states = write_states  # type: ignore[method-assign]
        return batches

    async def ask(self, broker: int, request: Message, expected: type[Request]) -> Request:
        """Send a request to a broker as a client would, and wait for the answer."""
        return decode_as(expected, await self.call(broker, encode(request)))

    async def call(self, broker: int, payload: bytes) -> memoryview:
        """Send any bytes to a broker as a client would, and wait for the answer."""
        return await self._client.call(node_name(broker), payload, timeout_ms=60_000)

    async def usurp(self, broker: int) -> None:
        """Write another name over the controller's, as a person would, and wait for the effect."""
        await self.keeper.set(ControllerZNode.path(), controller_named(broker))
        await self.settle()

    async def depose_unawares(self) -> int:
        """Cut the controller off ZooKeeper, briefly, and let another win; who it is.

        Its session lasts, so once healed it goes on as if nothing had happened.
        """
        before = self.controller_id
        self.sim.cut(node_name(before), "zookeeper")
        await self.keeper.delete(ControllerZNode.path())
        others = [node for broker, node in self.cluster.nodes.items() if broker != before]
        await self.sim.until(lambda: any(node.is_controller for node in others), limit_ms=2_000)
        return next(node.config.broker_id for node in others if node.is_controller)

    async def kill(self, broker: int) -> None:
        """End a broker as a power cut would, and wait until everybody has come to terms."""
        self.cluster.kill(broker)
        await self.settle()

    async def restart(self, broker: int) -> None:
        """Start a broker that was killed or stopped."""
        await self.cluster.start_broker(broker)
        await self.settle()

    async def stop(self, broker: int) -> None:
        """Let a broker leave by a controlled shutdown."""
        await self.cluster.stop_broker(broker)
        await self.settle()

    def vanish(self, broker: int) -> None:
        """End a broker and its session in one moment."""
        self.sim.expire_session(node_name(broker))
        self.cluster.kill(broker)

    async def bounce(self, broker: int) -> None:
        """End a broker and start it again, all while the controller does not look."""
        controller = node_name(self.controller_id)
        self.sim.pause(controller)
        self.vanish(broker)
        await self.cluster.start_broker(broker)
        self.sim.resume(controller)
        await self.settle()

    async def depose(self) -> None:
        """Remove `/controller` as a person might: a new reign begins, of whoever is fastest."""
        await self.keeper.delete(ControllerZNode.path())
        await self.settle()
