"""Replicas on the move: nothing is let go before what replaces it is there.

Rule: where a partition comes from and goes to is read from the topic's znode, as a new controller
would. What a person writes there is no move of the controller's.
"""

from actors.controller.moves import is_moving, origin_of, target_of
from actors.faults.calls import Call, broker_at
from actors.faults.invariant import Invariant
from actors.faults.ledger import StateChange, TopicChange
from wire.control import StopReplica
from wire.ids import BrokerId, TopicPartition
from wire.znodes import ReplicaAssignment, TopicAssignment


class MovesKeepWhatTheyNeed(Invariant):
    """I-14: the origin stays until the target is in sync, and no leader is stopped."""

    name = "I-14"

    def __init__(self) -> None:
        self._arrived: dict[TopicPartition, tuple[BrokerId, ...]] = {}  # targets once in sync

    def on_state(self, change: StateChange) -> None:
        """Note when a target is in sync."""
        if change.after is None:
            self._arrived.pop(change.partition, None)
            return
        assignment = self.ledger.assignment(change.partition)
        if assignment is not None and is_moving(assignment):
            self._note(change.partition, assignment)

    def _note(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        state = self.ledger.states.get(partition)
        target = target_of(assignment)
        if state is not None and set(target) <= set(state.state.isr):
            self._arrived[partition] = target

    def on_topic(self, change: TopicChange) -> None:
        """Judge a new assignment."""
        if change.before is None or change.after is None:
            return
        self._judge_count(change, change.before, change.after)
        for number, after in change.after.partitions.items():
            before = change.before.partitions.get(number)
            if before is None or before == after:
                continue
            partition = TopicPartition(change.topic, number)
            if broker_at(change.node) is not None:
                self._judge(partition, before, after, change.node)
            self._arrived.pop(partition, None)
            if is_moving(after):
                self._note(partition, after)

    def _judge_count(
        self, change: TopicChange, before: TopicAssignment, after: TopicAssignment
    ) -> None:
        """What was added meanwhile stays, unless the topic is on its way out (H27)."""
        lost = sorted(before.partitions.keys() - after.partitions.keys())
        if lost and broker_at(change.node) is not None and change.topic not in self.ledger.doomed:
            where = TopicPartition(change.topic, lost[0])
            self.found(f"{change.node} dropped it from its topic", partition=where)

    def _judge(
        self,
        partition: TopicPartition,
        before: ReplicaAssignment,
        after: ReplicaAssignment,
        node: str,
    ) -> None:
        origin, target = origin_of(before), target_of(before)
        kept = set(after.replicas)
        has_arrived = is_moving(before) and self._arrived.get(partition) == target
        is_over = has_arrived and after == ReplicaAssignment(replicas=target)
        if not is_over and not set(origin) <= kept:
            state = self.ledger.states.get(partition)
            self.found(f"{node} moved {before} to {after}, at {state}", partition=partition)
        if len(kept) < min(len(origin), len(target)):
            self.found(f"{node} left too few replicas: {after}", partition=partition)

    def on_control_sent(self, call: Call) -> None:
        """Judge whom the controller stops; what an earlier epoch says is refused or overtaken."""
        request = call.request
        if not isinstance(request, StopReplica) or call.source != self.ledger.controller:
            return
        broker = broker_at(call.destination)
        for entry in request.partitions:
            known = self.ledger.states.get(entry.partition)
            if (
                known is not None
                and known.state.leader == broker
                and known.state.leader_epoch == entry.leader_epoch
                and entry.partition.topic not in self.ledger.doomed
            ):
                self.found(
                    f"{call.source} stops the leader {broker} of {known.state}",
                    partition=entry.partition,
                )
