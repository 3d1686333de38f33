"""What was promised to clients: acknowledged records stay, and so does what a consumer has read.

Rule: a promise is judged by the log of every leader of the same or a later epoch. A promise is void
after an unclean election; and once a member of the ISR has lost power, if all the others have been
away, too, since the ISR was last written (ZooKeeper cannot tell who of them has lost something), or
if it is elected because they are away now: what disks keep of what was not synced is a matter of
luck, as in Kafka, which does not sync before it answers. While all have only been away, they come
back with all that they had. What a leader of such an epoch promises later is void as well: it
does not know yet that the others have gone on without it. A promise ends with its topic, and binds
no leader of another of that name; whoever gives one must have what it promises below its high
watermark by then.
"""

from collections.abc import Sequence
from typing import NamedTuple

from actors.faults.calls import broker_at
from actors.faults.invariant import Commit, Exchange, Invariant
from actors.faults.sight import Key, Seen, Sight
from actors.faults.violation import Violation
from runtime.keeper import Check, Delete
from wire.data import Fetch, FetchResponse, Produce, ProduceResponse
from wire.errors import ErrorCode, MalformedZNode
from wire.ids import NO_TIMESTAMP_MS, BrokerId, LeaderEpoch, Offset, TopicPartition
from wire.records import Buffer, batches
from wire.trace import FaultInjected, LeaderElected, NodeStarted, NodeStopped, TraceEvent
from wire.znodes import PartitionStateZNode

ALL = -1  # acks
PROCESS_ONLY = "process only"  # of a kill
STOPPED = "stopped"


class Promise(NamedTuple):
    """A batch that must stay where it is."""

    base_offset: Offset
    last_offset: Offset
    crc: int | None  # None: the broker has stamped it with a time, and so changed it
    epoch: LeaderEpoch  # of the leader who promised
    broker: BrokerId


class _Judged(NamedTuple):
    """How far a leader's log was compared with the promises."""

    seen: Seen
    cuts: int
    epoch: LeaderEpoch
    compared: int


class Promises(Invariant):
    """Batches that every later leader must have at their offsets."""

    verb = ""
    events = (LeaderElected, NodeStopped, NodeStarted, FaultInjected)

    def __init__(self) -> None:
        self._promises: dict[TopicPartition, list[Promise]] = {}
        self._judged: dict[Key, _Judged] = {}
        self._new: dict[TopicPartition, None] = {}
        self._has_fallen = False
        self._spared: set[str] = set()  # whose process ends, and whose disk keeps everything
        self._isrs: dict[TopicPartition, frozenset[int]] = {}  # as ZooKeeper has them
        self._epochs: dict[TopicPartition, int] = {}  # of leaders, as ZooKeeper has them
        self._void_to: dict[TopicPartition, int] = {}  # the last epoch whose promises are void
        self._forgetful: dict[TopicPartition, set[int]] = {}  # in the ISR, and its disk was cut off
        self._down: set[int] = set()
        # Since the ISR was last written: whose disk was cut off, and who has been away at all.
        self._cut_off: dict[TopicPartition, set[int]] = {}
        self._fallen: dict[TopicPartition, set[int]] = {}
        self.voided: set[TopicPartition] = set()  # of which a promise is over

    def promise(self, partition: TopicPartition, promise: Promise) -> None:
        """From now on this must be there."""
        if promise.epoch <= self._void_to.get(partition, -1):
            return
        self._promises.setdefault(partition, []).append(promise)
        self._new[partition] = None

    def judge_now(
        self, partition: TopicPartition, broker: BrokerId, last: Offset, sight: Sight
    ) -> None:
        """No leader promises more than is committed: luck may hide that, and not for ever."""
        seen = sight.all.get((int(broker), partition))
        if seen is not None and seen.leads and seen.high_watermark <= last:
            what = f"{self.verb} in epoch {seen.epoch} beyond the high watermark"
            self.found(
                f"{what} {seen.high_watermark}",
                partition=partition,
                brokers=(broker,),
                offsets=(last,),
            )

    def on_event(self, node: str, event: TraceEvent) -> None:
        """Some promises are over."""
        if isinstance(event, LeaderElected):
            partition = TopicPartition(event.topic, event.partition)
            if event.is_unclean or self._had_to_be(partition, event.leader, node):
                self._void(partition)
        elif isinstance(event, NodeStopped):
            self._has_fallen = True
            self._on_fallen(node, event)
        elif isinstance(event, NodeStarted):
            self._spared.discard(node)
            self._down.discard(_number(node))
        elif isinstance(event, FaultInjected) and event.detail == PROCESS_ONLY:
            self._spared.add(event.target)

    def on_commit(self, commit: Commit) -> None:
        """Note who is in sync."""
        for operation in commit.operations:
            if not isinstance(operation, Check) and operation.path.endswith("/state"):
                partition = PartitionStateZNode.partition_at(operation.path)
                if partition is None:
                    continue
                if isinstance(operation, Delete):  # a topic of that name will be another one
                    self._void(partition)
                    self._forget(partition)
                    continue
                try:
                    state = PartitionStateZNode.decode(partition, operation.data)
                except MalformedZNode:  # somebody at a shell: nothing is known by it
                    continue
                isr = frozenset(map(int, state.isr))
                self._epochs[partition] = int(state.leader_epoch)
                before = self._isrs.get(partition, frozenset())
                self._isrs[partition] = isr
                forgetful = self._forgetful.setdefault(partition, set())
                forgetful &= isr & before
                forgetful |= self._joined_too_late(partition, isr - before)
                # Who takes a member out may decide by what was before, as does a new controller
                # that takes out the dead and then elects (seed 9904).
                fallen = self._fallen.get(partition, set()) if isr < before else set()
                self._fallen[partition] = set(isr & (fallen | self._down))
                self._void_if_nobody_stayed(partition)

    def _joined_too_late(self, partition: TopicPartition, joined: frozenset[int]) -> set[int]:
        """Who was let in by a write that was under way when its disk was cut off.

        No version tells the leader of that in time, as in Kafka before KIP-903 (seed 458).
        """
        cut_off = self._cut_off.pop(partition, set())
        return {broker for broker in joined & cut_off if self._lacks_any(partition, broker)}

    def _lacks_any(self, partition: TopicPartition, broker: int) -> bool:
        seen = self.sight.all.get((broker, partition))
        promises = self._promises.get(partition, ())
        return seen is None or any(not _has(seen, promise) for promise in promises)

    def _forget(self, partition: TopicPartition) -> None:
        of_members = (self._isrs, self._forgetful, self._cut_off, self._fallen)
        for known in (*of_members, self._epochs, self._void_to):
            known.pop(partition, None)

    def _had_to_be(self, partition: TopicPartition, leader: int, elector: str) -> bool:
        """Whether one leads whose disk was cut off, and the elector knew of nobody else."""
        forgetful = self._forgetful.get(partition, set())
        broker = broker_at(elector)
        found = self.sight.cluster.nodes.get(-1 if broker is None else int(broker))
        context = None if found is None else found.controller.believed
        faithful = self._isrs.get(partition, frozenset()) - forgetful
        return leader in forgetful and not any(
            context is not None and context.is_online(partition, BrokerId(each))
            for each in faithful
        )

    def _on_fallen(self, node: str, event: NodeStopped) -> None:
        broker = _number(node)
        is_spared = node in self._spared or event.reason == STOPPED
        self._spared.discard(node)
        self._down.add(broker)
        for partition, isr in self._isrs.items():
            if not is_spared:
                self._cut_off.setdefault(partition, set()).add(broker)
            if broker in isr:
                self._fallen.setdefault(partition, set()).add(broker)
                if not is_spared:
                    self._forgetful.setdefault(partition, set()).add(broker)
                self._void_if_nobody_stayed(partition)

    def _void_if_nobody_stayed(self, partition: TopicPartition) -> None:
        isr = self._isrs[partition]
        forgetful = isr & self._forgetful.get(partition, set())
        if forgetful and isr <= forgetful | self._fallen.get(partition, set()):
            self._void(partition)

    def check(self, changed: Sequence[Seen], sight: Sight) -> None:
        """Judge the leaders that have changed, and those of partitions with new promises."""
        if self._has_fallen:
            self._has_fallen = False
            self._void_lost(sight)
        for seen in changed:
            if seen.leads:
                self._judge(seen)
        if self._new:
            for seen in sight.leaders(self._new):
                self._judge(seen)
            self._new.clear()

    def _judge(self, seen: Seen) -> None:
        promises = self._promises.get(seen.partition)
        if not promises or self._leads_a_namesake(seen):
            return
        key = (int(seen.broker), seen.partition)
        before = self._judged.get(key)
        is_same = before is not None and before[:3] == (seen, seen.cuts, seen.epoch)
        first = before.compared if before is not None and is_same else 0
        for promise in promises[first:]:
            if promise.epoch <= seen.epoch:
                self._judge_one(seen, promise)
        self._judged[key] = _Judged(seen, seen.cuts, seen.epoch, len(promises))

    def _leads_a_namesake(self, seen: Seen) -> bool:
        """Whether it leads a topic that is gone, and has not heard of that yet."""
        topic = self.ledger.topics.get(seen.partition.topic)
        ids = (seen.hosted.topic_id, None if topic is None else topic.topic_id)
        return None not in ids and ids[0] != ids[1]

    def _judge_one(self, seen: Seen, promise: Promise) -> None:
        is_compacted = seen.log is not None and seen.log.config.is_compacted
        if promise.last_offset < seen.start or is_compacted:
            return  # retention took it, or compaction may have
        if not _has(seen, promise):
            found = seen.batch_at(promise.base_offset)
            raise Violation(
                self.name,
                f"{self.verb} by {promise.broker} in epoch {promise.epoch}; leader {seen.broker} "
                f"of epoch {seen.epoch}, whose log ends at {seen.end}, has {found}",
                partition=seen.partition,
                brokers=(promise.broker, seen.broker),
                offsets=(promise.base_offset, promise.last_offset),
            )

    def _void_lost(self, sight: Sight) -> None:
        """Forget what nobody alive has any more."""
        for partition, promises in self._promises.items():
            if partition in self._isrs:
                continue  # it is known better
            alive = sight.of(partition)
            kept = [each for each in promises if any(_has(seen, each) for seen in alive)]
            if len(kept) < len(promises):
                self._promises[partition] = kept
                self.voided.add(partition)
                self._judged.clear()

    def _void(self, partition: TopicPartition) -> None:
        self._promises.pop(partition, None)
        if partition in self._epochs:
            self._void_to[partition] = self._epochs[partition]
        self.voided.add(partition)
        self._judged.clear()


class CommittedIsNeverLost(Promises):
    """I-7: what was acknowledged with acks=all is in the log of each later leader."""

    name = "I-7"
    verb = "acknowledged"

    def on_answered(self, exchange: Exchange, sight: Sight) -> None:
        """Note what a broker has acknowledged."""
        request, response = exchange.request, exchange.response
        if not isinstance(request, Produce) or not isinstance(response, ProduceResponse):
            return
        if request.acks != ALL:
            return
        records = {each.partition: each.records for each in request.partitions}
        for result in response.partitions:
            epoch = _epoch_of(exchange.broker, result.partition, sight)
            if result.error_code is not ErrorCode.NONE or epoch is None:
                continue
            is_stamped = result.log_append_time_ms != NO_TIMESTAMP_MS
            shift = result.base_offset
            for batch in batches(records[result.partition]):
                size = batch.header.last_offset - batch.header.base_offset
                last = Offset(shift + size)
                crc = None if is_stamped else batch.header.crc
                self.promise(
                    result.partition, Promise(Offset(shift), last, crc, epoch, exchange.broker)
                )
                shift = Offset(last + 1)
            self.judge_now(result.partition, exchange.broker, Offset(shift - 1), sight)


class VisibleIsNeverLost(Promises):
    """I-19: what a consumer was shown is in the log of each later leader."""

    name = "I-19"
    verb = "shown"

    def on_answered(self, exchange: Exchange, sight: Sight) -> None:
        """Note what a consumer has seen."""
        request, response = exchange.request, exchange.response
        if not isinstance(request, Fetch) or not isinstance(response, FetchResponse):
            return
        if request.replica_id >= 0:
            return
        for result in response.partitions:
            epoch = _epoch_of(exchange.broker, result.partition, sight)
            if result.records and epoch is not None:
                promises = _promises_of(result.records, epoch, exchange.broker)
                for promise in promises:
                    self.promise(result.partition, promise)
                if promises:
                    last = promises[-1].last_offset
                    self.judge_now(result.partition, exchange.broker, last, sight)


def _number(node: str) -> int:
    _, _, number = node.rpartition("-")
    return int(number) if number.isdecimal() else -1


def _promises_of(records: Buffer, epoch: LeaderEpoch, broker: BrokerId) -> list[Promise]:
    """The whole batches in an answer, whose last one may be cut short."""
    headers = (batch.header for batch in batches(records))
    return [
        Promise(each.base_offset, each.last_offset, each.crc, epoch, broker) for each in headers
    ]


def _has(seen: Seen, promise: Promise) -> bool:
    batch = seen.batch_at(promise.base_offset)
    return (
        batch is not None
        and (batch.base_offset, batch.last_offset) == (promise.base_offset, promise.last_offset)
        and promise.crc in {None, batch.crc}
    )


def _epoch_of(broker: BrokerId, partition: TopicPartition, sight: Sight) -> LeaderEpoch | None:
    node = sight.cluster.nodes[broker]
    replica = node.replica_manager.replicas.get(partition)
    return None if replica is None else replica.leader_epoch
