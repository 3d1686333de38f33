"""High watermarks are sound: nobody believes more to be committed than is.

Rule: a leader's word is judged by the real logs of the replicas it counts as in sync. A replica
that has died since may have lost what it had before anybody takes it out of the ISR; until it has
caught up, or was out and is in again, that is no fault of the leader's: whether it may then lead is
I-7's matter. So it is with one that has heard of a later epoch: it is this leader's follower no
more, and may have cut off what only this one has. What a follower was told in an earlier epoch is
no matter of this one's leader, whose own high watermark may be behind for a while (the known gap of
I-19). A leader of a topic that is gone counts no replica of another one of that name.
"""

from collections.abc import Sequence

from actors.faults.calls import broker_at
from actors.faults.invariant import Invariant
from actors.faults.ledger import StateChange
from actors.faults.sight import Key, Seen, Sight
from actors.faults.violation import Violation
from wire.ids import BrokerId, LeaderEpoch, Offset, TopicPartition
from wire.trace import HighWatermarkMoved, NodeStopped, TraceEvent


class HighWatermarksAreSound(Invariant):
    """I-18."""

    name = "I-18"
    events = (HighWatermarkMoved, NodeStopped)

    def __init__(self) -> None:
        self._last: dict[Key, tuple[Seen, LeaderEpoch, Offset]] = {}
        self._told: dict[tuple[TopicPartition, LeaderEpoch], Offset] = {}  # by leaders, at most
        self._fallen: dict[str, set[TopicPartition]] = {}  # by node: where it has all again
        # By broker that fell: where it was out of the ISR since. Whoever lets it in must look.
        self._out: dict[BrokerId, set[TopicPartition]] = {}

    def on_event(self, node: str, event: TraceEvent) -> None:
        """Note what leaders say, and who dies."""
        if isinstance(event, HighWatermarkMoved) and event.role == "leader":
            partition = TopicPartition(event.topic, event.partition)
            self._tell(partition, LeaderEpoch(event.leader_epoch), Offset(event.high_watermark))
            self._judge_count(node, partition, Offset(event.high_watermark))
        elif isinstance(event, NodeStopped):
            self._fallen[node] = set()
            broker = broker_at(node)
            if broker is not None:
                states = self.ledger.states.items()
                self._out[broker] = {at for at, each in states if broker not in each.state.isr}

    def on_state(self, change: StateChange) -> None:
        """Note who is out of the ISR."""
        isr = () if change.after is None else change.after.state.isr
        for broker, out in self._out.items():
            if broker not in isr:
                out.add(change.partition)

    def _judge_count(self, node: str, partition: TopicPartition, moved_to: Offset) -> None:
        """Too few in sync commit nothing: what one disk has may be lost with it (H41)."""
        broker = broker_at(node)
        known = None if broker is None else self.sight.cluster.nodes.get(broker)
        replica = None if known is None else known.replica_manager.replicas.get(partition)
        if broker is None or replica is None:
            return
        isr, replicas = replica.hosted.isr, replica.hosted.replicas
        needed = min(replica.min_insync_replicas, len(replicas))
        if len(isr) < needed:
            self.found(
                f"the high watermark moved while {isr} were in sync, and {needed} must be",
                partition=partition,
                brokers=(broker,),
                offsets=(moved_to,),
            )

    def _tell(self, partition: TopicPartition, epoch: LeaderEpoch, offset: Offset) -> None:
        key = (partition, epoch)
        self._told[key] = max(self._told.get(key, Offset(0)), offset)

    def check(self, changed: Sequence[Seen], sight: Sight) -> None:
        """Judge the replicas that have changed, and the leaders of what has changed."""
        if not changed:
            return
        for seen in changed:
            if seen.leads:
                self._tell(seen.partition, seen.epoch, seen.high_watermark)
        for seen in changed:
            self._judge_alone(seen)
        for leader in sight.leaders(seen.partition for seen in changed):
            self._judge_members(leader, sight)

    def _judge_alone(self, seen: Seen) -> None:
        if not seen.start <= seen.high_watermark <= seen.end:
            raise _violation(
                seen, f"the log is from {seen.start} to {seen.end}", seen.high_watermark
            )
        key = (int(seen.broker), seen.partition)
        before = self._last.get(key)
        self._last[key] = (seen, seen.epoch, seen.high_watermark)
        if before is None or before[:2] != (seen, seen.epoch):
            return
        if seen.leads and seen.high_watermark < before[2]:
            raise _violation(seen, f"leader's fell from {before[2]}", seen.high_watermark)
        told = self._told.get((seen.partition, seen.epoch), Offset(0))
        if not seen.leads and seen.high_watermark > max(before[2], told):
            raise _violation(seen, f"follower's is beyond the leader's {told}", seen.high_watermark)

    def _members(self, leader: Seen) -> tuple[BrokerId, ...]:
        """Whom it counts as in sync, and whom ZooKeeper lets succeed it: it may not know yet."""
        known = self.ledger.states.get(leader.partition)
        isr = leader.hosted.isr
        if known is None or known.state.leader != leader.broker:
            return isr
        return tuple(dict.fromkeys((*isr, *known.state.isr)))

    def _judge_members(self, leader: Seen, sight: Sight) -> None:
        for member in self._members(leader):
            seen = sight.all.get((int(member), leader.partition))
            if seen is None or seen is leader or seen.epoch > leader.epoch:
                continue
            if seen.is_of_namesake(leader) or self._may_have_less(seen, leader):
                continue
            if seen.end < leader.high_watermark:
                raise _violation(
                    leader,
                    f"{member} is in the ISR {self._members(leader)} and ends at {seen.end}",
                    leader.high_watermark,
                )

    def _may_have_less(self, seen: Seen, leader: Seen) -> bool:
        """Whether it lost its past, and has not had it again since, nor was let in anew."""
        restored = self._fallen.get(seen.node.world.node)
        if restored is None or seen.partition in restored or self._was_let_in(seen, leader):
            return False
        if seen.end >= leader.high_watermark:
            restored.add(seen.partition)
        return True

    def _was_let_in(self, seen: Seen, leader: Seen) -> bool:
        known = self.ledger.states.get(seen.partition)
        return (
            known is not None
            and known.state.leader == leader.broker
            and known.state.leader_epoch == leader.epoch
            and seen.broker in known.state.isr
            and seen.partition in self._out.get(seen.broker, ())
        )


def _violation(seen: Seen, what: str, high_watermark: Offset) -> Violation:
    return Violation(
        HighWatermarksAreSound.name,
        f"the high watermark {high_watermark} of epoch {seen.epoch}: {what}",
        partition=seen.partition,
        brokers=(seen.broker,),
        offsets=(high_watermark,),
    )
