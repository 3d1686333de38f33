"""What a consumer reads, and how far it has come.

Rule: a position is the offset of the next record that the program will be given. A seek, a reset
and a lookup that ended each give the partition a new `turn`; what was looked up in an earlier turn
no longer counts.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from enum import Enum

from msgspec import Struct

from actors.client.errors import NotAssigned
from wire.errors import BadData, MalformedMessage
from wire.ids import NO_LEADER_EPOCH, LeaderEpoch, Offset, TopicPartition
from wire.records import Headers, Record, RecordBatch, decode_records


class Need(Enum):
    """What a partition without a position waits for."""

    NOTHING = "it has a position"
    COMMITTED = "the offset that its group committed"
    RESET = "what auto.offset.reset says"


class ConsumerRecord(Struct, frozen=True, gc=False):
    """A record as a program sees it."""

    topic: str
    partition: int
    offset: Offset
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    leader_epoch: LeaderEpoch


class FetchedBatches(Struct, frozen=True, gc=False):
    """Whole batches of one partition, not decoded; their CRCs are true, if check.crcs is."""

    partition: TopicPartition
    start_offset: Offset  # records before it, in the first batch, were not asked for
    batches: tuple[RecordBatch, ...]  # views of the answer: nothing is copied
    high_watermark: Offset


class Assigned:
    """One partition of a consumer: its position, and what was fetched and not yet given out."""

    def __init__(self, partition: TopicPartition, need: Need) -> None:
        self.partition = partition
        self.position: Offset | None = None
        self.leader_epoch = NO_LEADER_EPOCH  # of the last record given out
        self.high_watermark = Offset(0)
        self.need = need
        self.turn = 0
        self.is_asking = False  # for its position
        self.retry_at_ms = 0.0
        self.error: Exception | None = None  # for the program to hear of at its next poll
        self._batches: deque[RecordBatch] = deque()
        self._records: tuple[Record, ...] | None = None  # of the first batch
        self._next = 0  # in those
        self._aborted: frozenset[Offset] = frozenset()  # base offsets of batches not to be shown

    @property
    def has_batches(self) -> bool:
        """Whether there is something to give out."""
        return bool(self._batches)

    def is_idle(self, now_ms: float) -> bool:
        """Whether something may be asked for it now."""
        return not self.is_asking and self.error is None and self.retry_at_ms <= now_ms

    def become(self, position: Offset | None, need: Need = Need.NOTHING) -> None:
        """Go on from here; all that was fetched or asked for before is forgotten."""
        self.position = position
        self.need = need
        self.turn += 1
        self.is_asking = False
        self.retry_at_ms = 0.0
        self.error = None
        self.leader_epoch = NO_LEADER_EPOCH
        self.drop()

    def drop(self) -> None:
        """Forget what was fetched."""
        self._batches.clear()
        self._records = None

    def take(
        self,
        batches: Iterable[RecordBatch],
        size: int,
        aborted: frozenset[Offset] = frozenset(),
    ) -> None:
        """These were fetched at the position; some that lie before it are left out."""
        assert self.position is not None
        first = self.position
        self._batches.extend(each for each in batches if each.header.next_offset > first)
        self._records = None
        self._aborted = aborted
        if size and not self._batches:
            raise MalformedMessage(
                f"{size} bytes of {self.partition} hold no whole batch from offset {first} on"
            )
        ends = [each.header.next_offset for each in self._batches]
        begins = [each.header.base_offset for each in self._batches]
        if any(begin < end for begin, end in zip(begins[1:], ends, strict=False)):
            self.drop()
            raise MalformedMessage(f"the batches of {self.partition} are not in order")

    def give_batches(self, check: Callable[[RecordBatch], None]) -> FetchedBatches | None:
        """All that was fetched, without decoding it."""
        assert self.position is not None
        start = self.position
        given: list[RecordBatch] = []
        while self._batches:
            batch = self._batches[0]
            try:
                check(batch)
            except BadData as error:
                self._unsound(error, is_first=not given)
                break
            if not self._is_hidden(batch):
                given.append(batch)
            self._passed(batch)
        if not given:
            return None
        return FetchedBatches(self.partition, start, tuple(given), self.high_watermark)

    def give_records(
        self, limit: int, check: Callable[[RecordBatch], None]
    ) -> list[ConsumerRecord]:
        """The next records, at most so many; batches are decoded as they are needed."""
        given: list[ConsumerRecord] = []
        while self._batches and len(given) < limit:
            batch = self._batches[0]
            try:
                records = self._decoded(batch, check)
            except BadData as error:
                self._unsound(error, is_first=not given)
                break
            part = records[self._next : self._next + limit - len(given)]
            given += self._shown(part, batch.header.partition_leader_epoch)
            self._next += len(part)
            if self._next == len(records):
                self._passed(batch)
            else:
                self.position = records[self._next].offset
                self.leader_epoch = batch.header.partition_leader_epoch
        return given

    # --------------------------------------------------------------------------------------------

    def _unsound(self, error: BadData, *, is_first: bool) -> None:
        """A bad batch is fetched again: it may have been good where it came from.

        It is told of when it comes first, since what lies before it was read well.
        """
        self.drop()
        if is_first:
            raise type(error)(f"{self.partition} at offset {self.position}: {error}") from error

    def _decoded(
        self, batch: RecordBatch, check: Callable[[RecordBatch], None]
    ) -> tuple[Record, ...]:
        if self._records is None:
            check(batch)
            first = self.position
            assert first is not None
            records = () if self._is_hidden(batch) else decode_records(batch)
            self._records = tuple(each for each in records if each.offset >= first)
            self._next = 0
        return self._records

    def _is_hidden(self, batch: RecordBatch) -> bool:
        """Markers, and what was aborted, are not for applications."""
        return batch.header.is_control or batch.header.base_offset in self._aborted

    def _passed(self, batch: RecordBatch) -> None:
        self._batches.popleft()
        self._records = None
        self.position = batch.header.next_offset
        self.leader_epoch = batch.header.partition_leader_epoch

    def _shown(self, records: Iterable[Record], epoch: LeaderEpoch) -> Iterator[ConsumerRecord]:
        topic, partition = self.partition.topic, self.partition.partition
        for each in records:
            yield ConsumerRecord(
                topic,
                partition,
                each.offset,
                each.timestamp_ms,
                each.key,
                each.value,
                each.headers,
                epoch,
            )


class Subscription:
    """All that a consumer reads; who was served goes to the end, so that each has its turn."""

    def __init__(self) -> None:
        self._assigned: dict[TopicPartition, Assigned] = {}

    def __iter__(self) -> Iterator[Assigned]:
        return iter(tuple(self._assigned.values()))

    def __len__(self) -> int:
        return len(self._assigned)

    def __contains__(self, partition: object) -> bool:
        return partition in self._assigned

    def __getitem__(self, partition: TopicPartition) -> Assigned:
        try:
            return self._assigned[partition]
        except KeyError:
            raise NotAssigned(f"{partition} is not assigned to this consumer") from None

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """Sorted."""
        return tuple(sorted(self._assigned))

    def assign(self, partitions: Iterable[TopicPartition], need: Need) -> None:
        """Read these from now on; as in Kafka, those that stay keep their positions."""
        before = self._assigned
        self._assigned = {
            each: before.get(each) or Assigned(each, need) for each in sorted(set(partitions))
        }

    def served(self, assigned: Assigned) -> None:
        """Others first, next time."""
        partition = assigned.partition
        if self._assigned.get(partition) is assigned:
            del self._assigned[partition]
            self._assigned[partition] = assigned
