"""Moves that are held up, and what holds at every moment of one: I-4, I-5, I-13 and I-14."""

from collections.abc import Sequence

from actors.controller.moves import origin_of, target_of
from actors.names import node_name
from runtime.keeper import NoNode, Operation, Written
from runtime.simulation.zookeeper import Session
from tests.support.drive import Drive
from wire.admin_znodes import DeleteTopicsTopicZNode
from wire.control import StopReplica
from wire.frame import Frame, FrameKind
from wire.ids import NO_LEADER, BrokerId, TopicPartition
from wire.message import PartitionResult
from wire.parted import unpack
from wire.trace import ReplicaRoleChanged, Stamp, TraceEvent
from wire.znodes import (
    PartitionState,
    PartitionStateZNode,
    ReplicaAssignment,
    TopicsZNode,
    TopicZNode,
)

State = tuple[PartitionState, int]  # and the znode's version


def at_rest(*replicas: int) -> ReplicaAssignment:
    """An assignment of which nothing moves."""
    return ReplicaAssignment(replicas=tuple(map(BrokerId, replicas)))


async def stall(
    drive: Drive, partition: TopicPartition, target: Sequence[int], *, missing: int
) -> None:
    """Begin a move for which one broker never gets in sync: it cannot reach the leader.

    After `heal` it does, but only once its lost fetch has timed out.
    """
    leader = drive.state(partition.topic, partition.partition).leader
    drive.sim.cut(node_name(leader), node_name(missing))
    response = await drive.alter({partition: target})
    assert response.partitions == (PartitionResult(partition),)
    others = set(target) - {missing}
    await drive.sim.until(
        lambda: others <= set(drive.state(partition.topic, partition.partition).isr)
    )
    await drive.sim.sleep(1_000)


class MoveInvariants:
    """Looks at ZooKeeper after every write, and at every replica that is stopped.

    What is broken is collected and not raised, so that the world goes on as it would.
    """

    def __init__(self, drive: Drive) -> None:
        self.broken: list[str] = []
        self._tree = drive.tree
        self._assignments: dict[TopicPartition, ReplicaAssignment] = {}
        self._states: dict[TopicPartition, State] = {}
        self._in_sync: set[TopicPartition] = set()  # all of the present target has been
        self._look()
        zookeeper = drive.sim.zookeeper
        self._commit = zookeeper.commit
        zookeeper.commit = self._after_commit  # type: ignore[method-assign]
        self._transmit = drive.sim.network.transmit
        drive.sim.network.transmit = self._on_frame  # type: ignore[method-assign]
        drive.sim.trace.listeners.append(self._on_event)

    def _after_commit(self, session: Session, operations: Sequence[Operation]) -> list[Written]:
        written = self._commit(session, operations)
        self._look()
        return written

    def _look(self) -> None:
        for topic in self._topics():
            data = self._tree.get(TopicZNode.path(topic)).data
            for number, assignment in TopicZNode.decode(topic, data).partitions.items():
                partition = TopicPartition(topic, number)
                self._on_assignment(partition, assignment)
                path = PartitionStateZNode.path(partition)
                if self._tree.stat(path) is not None:
                    znode = self._tree.get(path)
                    state = PartitionStateZNode.decode(partition, znode.data)
                    self._on_state(partition, assignment, (state, znode.stat.version))

    def _topics(self) -> tuple[str, ...]:
        try:
            return self._tree.children(TopicsZNode.path())
        except NoNode:
            return ()

    # --- I-14: nothing is given up before all of the target is in sync ----------------------------

    def _on_assignment(self, partition: TopicPartition, now: ReplicaAssignment) -> None:
        before = self._assignments.get(partition, now)
        self._assignments[partition] = now
        if before == now:
            return
        has_arrived = partition in self._in_sync
        self._in_sync.discard(partition)
        origin, target = origin_of(before), target_of(before)
        self._expect(
            has_arrived or set(origin) <= set(now.replicas),
            f"I-14 {partition}: {origin} was left for {now.replicas} before {target} was in sync",
        )
        self._expect(
            len(now.replicas) >= min(len(origin), len(target)),
            f"I-14 {partition}: only {now.replicas} are left of {before.replicas}",
        )

    # --- I-4 and I-5: who is in sync --------------------------------------------------------------

    def _on_state(
        self, partition: TopicPartition, assignment: ReplicaAssignment, now: State
    ) -> None:
        state, version = now
        isr = state.isr
        if set(target_of(assignment)) <= set(isr):
            self._in_sync.add(partition)
        self._expect(bool(isr), f"I-5 {partition}: nobody is in sync")
        self._expect(len(set(isr)) == len(isr), f"I-5 {partition}: ISR {isr} names one twice")
        self._expect(
            set(isr) <= set(assignment.replicas),
            f"I-5 {partition}: ISR {isr} is not among {assignment.replicas}",
        )
        self._expect(
            state.leader == NO_LEADER or state.leader in isr,
            f"I-5 {partition}: leader {state.leader} is not in ISR {isr}",
        )
        before, before_version = self._states.get(partition, now)
        self._states[partition] = now
        if now != (before, before_version):
            self._expect(
                (state.leader_epoch, version) > (before.leader_epoch, before_version),
                f"I-4 {partition}: epoch {state.leader_epoch} after {before.leader_epoch}",
            )
            self._expect(
                state.leader == before.leader or state.leader_epoch > before.leader_epoch,
                f"I-4 {partition}: {before.leader} and {state.leader} in one epoch",
            )

    # --- I-14: a leader is not stopped before another one leads -----------------------------------

    def _on_event(self, stamp: Stamp, event: TraceEvent) -> None:
        if isinstance(event, ReplicaRoleChanged) and event.role in {"deleted", "stopped"}:
            partition = TopicPartition(event.topic, event.partition)
            broker = int(stamp.node.removeprefix("broker-"))
            leader = self._states[partition][0].leader
            is_led = leader != broker and (leader != NO_LEADER or event.leader != broker)
            self._expect(
                is_led or self._is_deleted(partition),
                f"I-14 {partition}: {broker} was {event.role} and nobody else leads",
            )

    # --- I-13: data is deleted only where it is no longer assigned --------------------------------

    def _on_frame(self, frame: Frame) -> None:
        if frame.kind is FrameKind.REQUEST and frame.destination.startswith("broker-"):
            request = unpack(frame.payload)
            if isinstance(request, StopReplica):
                broker = int(frame.destination.removeprefix("broker-"))
                for each in request.partitions:
                    if each.delete and not self._is_deleted(each.partition):
                        self._on_deletion(each.partition, broker)
        self._transmit(frame)

    def _on_deletion(self, partition: TopicPartition, broker: int) -> None:
        assignment = self._assignments[partition]
        is_leaving = broker in assignment.removing_replicas and partition in self._in_sync
        self._expect(
            broker not in assignment.replicas or is_leaving,
            f"I-13 {partition}: {broker} is to be deleted although it is assigned",
        )

    def _is_deleted(self, partition: TopicPartition) -> bool:
        return self._tree.stat(DeleteTopicsTopicZNode.path(partition.topic)) is not None

    def _expect(self, holds: bool, otherwise: str) -> None:
        if not holds and otherwise not in self.broken:
            self.broken.append(otherwise)
