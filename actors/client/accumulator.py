"""Records that wait to be sent, in batches by partition.

Rule: of one partition one batch at most is in flight, and one that comes back goes to the front of
its queue: so the log has the records in the order in which they were enqueued, however often a
batch is sent again. It may have some of them twice, unless the producer is idempotent.
"""

from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable
from typing import Any, Final

from msgspec import Struct

from actors.client.config import ProducerConfig
from actors.client.errors import DeliveryTimedOut
from runtime.tasks import Promise
from wire.ids import NO_OFFSET, NO_TIMESTAMP_MS, BrokerId, Offset, TopicPartition
from wire.records import (
    HEADER_BYTES,
    NO_PRODUCER,
    Attributes,
    Headers,
    ProducerStamp,
    Record,
    encode_batch,
)

# The most that a record's own numbers take: length, attributes, time, offset, and three counts.
RECORD_OVERHEAD: Final = 5 + 1 + 10 + 5 + 5 + 5 + 5
HEADER_OVERHEAD: Final = 5 + 5


def size_bound(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """So many bytes a record takes at most."""
    size = RECORD_OVERHEAD + len(key or b"") + len(value or b"")
    for name, each in headers:
        size += HEADER_OVERHEAD + len(name.encode()) + len(each or b"")
    return size


class Unsent(Struct, frozen=True):
    """A record that has no offset yet."""

    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    size: int  # at most


class RecordMetadata(Struct, frozen=True, gc=False):
    """Where a record is; without an offset if acks=0, when nobody says."""

    topic: str
    partition: int
    offset: Offset
    timestamp_ms: int


class ProducerBatch:
    """Records of one partition that are sent, and fail, together."""

    def __init__(self, partition: TopicPartition, created_ms: float) -> None:
        self.partition = partition
        self.created_ms = created_ms
        self.records: list[Unsent] = []
        self.size = HEADER_BYTES
        self.reserved = 0  # of the producer's memory
        self.attempts = 0
        self.retry_at_ms = 0.0
        self.last_error: Exception | None = None
        self.base_offset = NO_OFFSET
        self.log_append_time_ms = NO_TIMESTAMP_MS
        self.done: Promise[None] = Promise()
        self.stamp: ProducerStamp | None = None  # of an idempotent producer, once it was sent
        self._encoded: bytearray | None = None

    def encoded(
        self, stamp: ProducerStamp = NO_PRODUCER, *, attributes: int = Attributes.NONE
    ) -> memoryview:
        """As it is sent, each time the same, with the stamp of the first time."""
        if self._encoded is None:
            self._encoded = encode_batch(
                [
                    Record(
                        offset=Offset(index),
                        timestamp_ms=each.timestamp_ms,
                        key=each.key,
                        value=each.value,
                        headers=each.headers,
                    )
                    for index, each in enumerate(self.records)
                ],
                attributes=attributes,
                producer=stamp,
            )
        return memoryview(self._encoded)


class Delivery:
    """One record on its way: await it for its RecordMetadata."""

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: ProducerBatch, index: int) -> None:
        self._batch = batch
        self._index = index

    @property
    def is_done(self) -> bool:
        """Whether awaiting it takes no time."""
        return self._batch.done.is_settled

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        yield from self._batch.done.__await__()
        batch = self._batch
        offset, timestamp_ms = batch.base_offset, batch.log_append_time_ms
        if offset != NO_OFFSET:
            offset = Offset(offset + self._index)
        if timestamp_ms == NO_TIMESTAMP_MS:
            timestamp_ms = batch.records[self._index].timestamp_ms
        return RecordMetadata(
            batch.partition.topic, batch.partition.partition, offset, timestamp_ms
        )


class Accumulator:
    """All batches that are not done."""

    def __init__(
        self,
        config: ProducerConfig,
        release: Callable[[int], None],
        gave_up: Callable[[ProducerBatch], None],
    ) -> None:
        self._config = config
        self._release = release
        self._gave_up = gave_up  # hears of each batch that failed, once it is no longer under way
        # A partition that was served goes to the end of the dict: each has its turn.
        self._queues: dict[TopicPartition, deque[ProducerBatch]] = {}
        self._in_flight: dict[TopicPartition, ProducerBatch] = {}
        self.is_behind = False  # a full batch waits, and the sender may not have had a turn since

    def has_room(self, partition: TopicPartition, size: int) -> bool:
        """Whether a record fits into a batch that is open anyway."""
        queue = self._queues.get(partition)
        return queue is not None and self._fits(queue[-1], size)

    def append(self, partition: TopicPartition, record: Unsent, now_ms: float) -> Delivery:
        """Add a record whose memory is reserved."""
        queue = self._queues.setdefault(partition, deque())
        if not queue or not self._fits(queue[-1], record.size):
            self.is_behind = bool(queue)
            queue.append(ProducerBatch(partition, now_ms))
        batch = queue[-1]
        batch.records.append(record)
        batch.size += record.size
        batch.reserved += record.size
        return Delivery(batch, len(batch.records) - 1)

    def unfinished(self) -> list[ProducerBatch]:
        """All batches that wait or are in flight."""
        waiting = [batch for queue in self._queues.values() for batch in queue]
        return [*self._in_flight.values(), *waiting]

    @property
    def partitions(self) -> Collection[TopicPartition]:
        """Those with batches that wait."""
        return self._queues.keys()

    def ready(self, now_ms: float, is_urgent: bool) -> tuple[list[TopicPartition], float | None]:
        """Whose first batch can go now, and after how many ms the next will."""
        ready: list[TopicPartition] = []
        next_ms: float | None = None
        for partition, queue in self._queues.items():
            if partition in self._in_flight:
                continue
            wait_ms = self._wait_ms(queue, now_ms, is_urgent)
            if wait_ms <= 0:
                ready.append(partition)
            else:
                next_ms = wait_ms if next_ms is None else min(next_ms, wait_ms)
        return ready, next_ms

    def take(self, partitions: Iterable[TopicPartition]) -> list[ProducerBatch]:
        """The first batches of these partitions, as many as one request may carry."""
        taken: list[ProducerBatch] = []
        size = 0
        for partition in partitions:
            queue = self._queues[partition]
            size += queue[0].size
            if taken and size > self._config.max_request_size:
                break
            taken.append(queue.popleft())
            self._in_flight[partition] = taken[-1]
            del self._queues[partition]
            if queue:
                self._queues[partition] = queue
        return taken

    def give_back(self, batch: ProducerBatch, retry_at_ms: float) -> None:
        """It must be sent again, before all that came later."""
        self._landed(batch)
        if batch.done.is_settled:
            self._gave_up(batch)
        else:
            batch.retry_at_ms = retry_at_ms
            self._queues.setdefault(batch.partition, deque()).appendleft(batch)

    def complete(self, batch: ProducerBatch, base_offset: Offset, append_time_ms: int) -> None:
        """It is in the log."""
        self._landed(batch)
        if not batch.done.is_settled:
            batch.base_offset = base_offset
            batch.log_append_time_ms = append_time_ms
            self._settle(batch, None)

    def fail(self, batch: ProducerBatch, error: Exception) -> None:
        """It will not be sent again."""
        self._landed(batch)
        self._gave_up(batch)
        if not batch.done.is_settled:
            self._settle(batch, error)

    def expire(self, now_ms: float) -> float | None:
        """Fail what is too old, in flight or not; after how many ms the next will be."""
        late_ms = now_ms - self._config.delivery_timeout_ms
        for batch in self._in_flight.values():
            if batch.created_ms <= late_ms:
                # It keeps its place until its answer comes: no later batch overtakes it.
                self._expire(batch)
        for partition, queue in tuple(self._queues.items()):
            while queue and queue[0].created_ms <= late_ms:
                self._gave_up(queue[0])
                self._expire(queue.popleft())
            if not queue:
                del self._queues[partition]
        first = [queue[0] for queue in self._queues.values()]
        first += [each for each in self._in_flight.values() if not each.done.is_settled]
        return min((batch.created_ms - late_ms for batch in first), default=None)

    def give_up_waiting(self, error: Exception) -> None:
        """Fail what is not under way."""
        waiting = [batch for queue in self._queues.values() for batch in queue]
        self._queues.clear()
        for batch in waiting:
            self.fail(batch, error)

    def close(self, error: Exception) -> None:
        """Fail all that is left."""
        for batch in self.unfinished():
            if not batch.done.is_settled:
                self._settle(batch, error)
        self._queues.clear()

    # --------------------------------------------------------------------------------------------

    def _fits(self, batch: ProducerBatch, size: int) -> bool:
        # One that was sent once is closed: it must be the same when it is sent again.
        return not batch.attempts and batch.size + size <= self._config.batch_size

    def _wait_ms(self, queue: deque[ProducerBatch], now_ms: float, is_urgent: bool) -> float:
        batch = queue[0]
        if batch.attempts:
            return batch.retry_at_ms - now_ms
        is_full = len(queue) > 1 or batch.size >= self._config.batch_size
        if is_full or is_urgent:
            return 0
        return batch.created_ms + self._config.linger_ms - now_ms

    def _landed(self, batch: ProducerBatch) -> None:
        if self._in_flight.get(batch.partition) is batch:
            del self._in_flight[batch.partition]

    def _expire(self, batch: ProducerBatch) -> None:
        if batch.done.is_settled:
            return
        why = "" if batch.last_error is None else f"; the last try: {batch.last_error}"
        error = DeliveryTimedOut(
            f"{len(batch.records)} records for {batch.partition} were not acknowledged "
            f"within {self._config.delivery_timeout_ms} ms{why}"
        )
        self._settle(batch, error)

    def _settle(self, batch: ProducerBatch, error: Exception | None) -> None:
        self._release(batch.reserved)
        if error is None:
            batch.done.keep(None)
        else:
            batch.done.fail(error)


def grouped(
    partitions: Iterable[TopicPartition], leader_of: Callable[[TopicPartition], BrokerId | None]
) -> dict[BrokerId, list[TopicPartition]]:
    """The partitions by leader; those without one are left out."""
    groups: dict[BrokerId, list[TopicPartition]] = {}
    for partition in partitions:
        leader = leader_of(partition)
        if leader is not None:
            groups.setdefault(leader, []).append(partition)
    return groups
