"""Data is thrown away on purpose only, and a topic is gone when all of it is.

Rule: the controller's order is judged when it is first sent, by what ZooKeeper holds then. A broker
deletes nothing without an order.
"""

from actors.controller.moves import target_of
from actors.faults.calls import Call, broker_at
from actors.faults.invariant import Invariant
from actors.faults.ledger import StateChange, TopicChange
from wire.control import (
    ControlResponse,
    StopReplica,
    StopReplicaPartition,
    StopReplicaResponse,
)
from wire.errors import ErrorCode
from wire.ids import BrokerId, TopicPartition
from wire.trace import NodeStopped, RecordsAppended, ReplicaRoleChanged, TraceEvent
from wire.znodes import ReplicaAssignment


class DataIsDeletedOnPurpose(Invariant):
    """I-13: a replica is deleted if its topic is to be, or if it is not assigned any more."""

    name = "I-13"
    events = (ReplicaRoleChanged, NodeStopped)

    def __init__(self) -> None:
        self._sent: dict[str, StopReplica] = {}  # the last to each node
        self._ordered: dict[str, set[TopicPartition]] = {}  # what each node may delete

    def on_control_sent(self, call: Call) -> None:
        """Judge an order of the controller; what was sent before was judged then."""
        request = call.request
        if not isinstance(request, StopReplica) or call.source != self.ledger.controller:
            return
        if self._sent.get(call.destination) == request:
            return
        self._sent[call.destination] = request
        broker = broker_at(call.destination)
        for entry in request.partitions:
            assignment = self.ledger.assignment(entry.partition)
            if assignment is None or broker is None:
                continue
            stays = broker in target_of(assignment)
            if entry.delete and stays and self._is_present(entry, broker, assignment):
                self.found(
                    f"{call.source} has a replica of {broker} deleted, assigned by {assignment}",
                    partition=entry.partition,
                )

    def _is_present(
        self, entry: StopReplicaPartition, broker: BrokerId, assignment: ReplicaAssignment
    ) -> bool:
        """Not if the topic is to go, nor if it waited long: what was decided since follows it.

        Nor if the broker is being added anew and is not in sync: the order ends what it was before,
        and nobody counts on what it has.
        """
        known = self.ledger.states.get(entry.partition)
        is_past = known is not None and 0 <= entry.leader_epoch < known.state.leader_epoch
        isr = () if known is None else known.state.isr
        is_new = broker in assignment.adding_replicas and broker not in isr
        return entry.partition.topic not in self.ledger.doomed and not is_past and not is_new

    def on_control_arrived(self, call: Call) -> None:
        """From now on the broker may delete these."""
        if isinstance(call.request, StopReplica):
            ordered = {each.partition for each in call.request.partitions if each.delete}
            self._ordered.setdefault(call.destination, set()).update(ordered)

    def on_event(self, node: str, event: TraceEvent) -> None:
        """Judge what is deleted."""
        if isinstance(event, NodeStopped):
            self._ordered.pop(node, None)
        elif isinstance(event, ReplicaRoleChanged) and event.role == "deleted":
            partition = TopicPartition(event.topic, event.partition)
            if partition not in self._ordered.get(node, ()):
                self.found(f"{node} deleted a replica that nobody told it to", partition=partition)


class TopicsVanishWhole(Invariant):
    """I-15: a topic's znodes go after all its replicas, and a namesake sees nothing of it."""

    name = "I-15"
    events = (ReplicaRoleChanged, RecordsAppended)

    def __init__(self) -> None:
        self._gone: dict[TopicPartition, set[BrokerId]] = {}  # whose replicas were deleted
        self._former: set[str] = set()  # topics that once were
        self._empty: dict[str, set[int]] = {}  # partitions of namesakes: nothing is in them yet

    def on_control_answered(self, call: Call, response: ControlResponse) -> None:
        """Note who has deleted what."""
        request, broker = call.request, broker_at(call.destination)
        if not isinstance(request, StopReplica) or not isinstance(response, StopReplicaResponse):
            return
        if broker is None or response.error_code is not ErrorCode.NONE:
            return
        deleted = {each.partition for each in request.partitions if each.delete}
        for result in response.partitions:
            if result.error_code is ErrorCode.NONE and result.partition in deleted:
                self._gone.setdefault(result.partition, set()).add(broker)

    def on_state(self, change: StateChange) -> None:
        """Judge the end of a partition's state."""
        assignment = self.ledger.assignment(change.partition)
        if change.after is None and assignment is not None:
            self._judge(change.node, change.partition, assignment)

    def on_topic(self, change: TopicChange) -> None:
        """Judge the end of a topic, and the beginning of its namesake."""
        topic = change.topic
        if change.after is not None:
            if topic in self._former:
                known = {} if change.before is None else change.before.partitions
                new = change.after.partitions.keys() - known.keys()
                self._empty.setdefault(topic, set()).update(new)
            return
        for number, assignment in (
            {} if change.before is None else change.before.partitions
        ).items():
            partition = TopicPartition(topic, number)
            self._judge(change.node, partition, assignment)
            self._gone.pop(partition, None)
        self._former.add(topic)
        self._empty.pop(topic, None)

    def _judge(self, node: str, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        left = set(assignment.replicas) - self._gone.get(partition, set())
        if left and broker_at(node) is not None:
            self.found(
                f"{node} removed what is left of it in ZooKeeper, and not all replicas are deleted",
                partition=partition,
                brokers=tuple(sorted(left)),
            )

    def on_event(self, node: str, event: TraceEvent) -> None:
        """Judge what a namesake begins with."""
        if isinstance(event, ReplicaRoleChanged):
            self._on_role(node, event)
        elif isinstance(event, RecordsAppended) and event.role == "leader":
            self._empty.get(event.topic, set()).discard(event.partition)

    def _on_role(self, node: str, event: ReplicaRoleChanged) -> None:
        if event.role not in {"leader", "follower"}:
            return
        partition, broker = TopicPartition(event.topic, event.partition), broker_at(node)
        if broker is None:
            return
        self._gone.get(partition, set()).discard(broker)  # it is there again
        if event.role == "leader" and event.partition in self._empty.get(event.topic, ()):
            self._judge_empty(broker, partition)

    def _judge_empty(self, broker: BrokerId, partition: TopicPartition) -> None:
        replica = self.sight.cluster.nodes[broker].replica_manager.replicas.get(partition)
        topic = self.ledger.topics.get(partition.topic)
        if replica is None or topic is None or replica.hosted.topic_id != topic.topic_id:
            return  # it leads the former one
        if replica.log_end_offset:
            self.found(
                "the leader of a topic made anew has records of the former one",
                partition=partition,
                brokers=(broker,),
                offsets=(replica.log_end_offset,),
            )
