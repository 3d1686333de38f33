"""What ZooKeeper says of partitions, and what a controller believes of them.

Rule: a state is judged when it is written, by the one before it and by the assignment of that
moment. What a controller believes is judged by what it tells, and in the end by looking.
"""

from actors.faults.calls import Call
from actors.faults.gaps import blocked_topics
from actors.faults.invariant import Invariant
from actors.faults.ledger import StateChange, TopicChange
from actors.faults.sight import Sight
from actors.faults.violation import Violation
from wire.control import (
    LeaderAndIsr,
    LeaderAndIsrPartition,
    UpdateMetadata,
    UpdateMetadataPartition,
)
from wire.ids import LEADER_DURING_DELETE, NO_LEADER, NO_PARTITION_EPOCH, TopicPartition
from wire.znodes import PartitionState


class LeaderEpochsGrow(Invariant):
    """I-4: epochs never fall, and an epoch has one leader."""

    name = "I-4"

    def on_state(self, change: StateChange) -> None:
        """Compare a state with the one that it replaces."""
        if change.before is None or change.after is None:
            return
        (old, old_version), (new, version) = change.before, change.after
        if version <= old_version:
            self._wrong(change, "the version did not grow")
        elif new.leader_epoch < old.leader_epoch:
            self._wrong(change, "the leader epoch fell")
        elif new.leader_epoch == old.leader_epoch and new.leader != old.leader:
            self._wrong(change, "one leader epoch has two leaders")
        if new.controller_epoch < old.controller_epoch:
            self._wrong(change, "the controller epoch fell")

    def _wrong(self, change: StateChange, what: str) -> None:
        both = f"{change.node} wrote {change.after} over {change.before}"
        self.found(f"{what}: {both}", partition=change.partition)


class InSyncReplicasAreAssigned(Invariant):
    """I-5: an ISR is not empty, names nobody twice, and is part of the assignment."""

    name = "I-5"

    def on_state(self, change: StateChange) -> None:
        """Judge a new state."""
        if change.after is not None:
            self._judge(change.partition, change.after.state, change.node)

    def on_topic(self, change: TopicChange) -> None:
        """Judge the states that a new assignment finds."""
        if change.after is None or change.before is None:
            return
        for number, assignment in change.after.partitions.items():
            partition = TopicPartition(change.topic, number)
            known = self.ledger.states.get(partition)
            if known is not None and change.before.partitions.get(number) != assignment:
                self._judge(partition, known.state, change.node)

    def _judge(self, partition: TopicPartition, state: PartitionState, node: str) -> None:
        isr, leader = state.isr, state.leader
        assignment = self.ledger.assignment(partition)
        what = ""
        if not isr:
            what = "the ISR is empty"
        elif len(set(isr)) != len(isr):
            what = "the ISR names somebody twice"
        elif leader not in {NO_LEADER, *isr}:
            what = "the leader is not in the ISR"
        elif assignment is not None and not set(isr) <= set(assignment.replicas):
            what = f"the ISR is not part of {assignment}"
        if what:
            self.found(f"{what}: {node} wrote {state}", partition=partition)


class ControllersBelieveZooKeeper(Invariant):
    """I-10: a controller tells what ZooKeeper once held; in the end it believes what it holds."""

    name = "I-10"

    def on_control_sent(self, call: Call) -> None:
        """Judge what is told."""
        request = call.request
        if isinstance(request, LeaderAndIsr | UpdateMetadata):
            for entry in request.partitions:
                is_said = entry.leader != LEADER_DURING_DELETE
                if is_said and entry.partition_epoch != NO_PARTITION_EPOCH:
                    self._judge(call, entry)

    def _judge(self, call: Call, entry: LeaderAndIsrPartition | UpdateMetadataPartition) -> None:
        past = self.ledger.past.get(entry.partition, {}).get(entry.partition_epoch, ())
        said = PartitionState(
            controller_epoch=entry.controller_epoch,
            leader=entry.leader,
            leader_epoch=entry.leader_epoch,
            isr=entry.isr,
        )
        if said not in past:
            self.found(
                f"{call.source} tells {call.destination} of {said}, version "
                f"{entry.partition_epoch}, which ZooKeeper never held: {past}",
                partition=entry.partition,
            )

    def check_in_the_end(self, sight: Sight, now_ms: float) -> None:
        """Compare all that it believes with all that is."""
        del now_ms
        controller = sight.cluster.controller
        context = None if controller is None else controller.controller.established
        if context is None:
            return
        blocked = blocked_topics(sight, self.ledger)
        for partition, (state, version) in sorted(self.ledger.states.items()):
            believed = context.leaderships.get(partition)
            held = (state.leader, state.leader_epoch, state.isr, state.controller_epoch, version)
            known = None
            if believed is not None:
                known = (
                    believed.leader,
                    believed.leader_epoch,
                    believed.isr,
                    believed.controller_epoch,
                    believed.partition_epoch,
                )
            if known != held and partition.topic not in blocked:
                raise Violation(
                    self.name, f"the controller believes {known}, not {held}", partition=partition
                )
