"""Records that are to be forgotten before their time (DeleteRecords).

Rule: only what is committed can be deleted, and only where the topic's policy is to delete. It is
answered when every replica that is alive has moved its log's start, as DelayedDeleteRecords.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from actors.asked import Asked
from actors.broker.metadata import MetadataCache
from actors.broker.replica import Replica, Replicas
from runtime.ref import Timer
from wire.admin import (
    DeleteRecords,
    DeleteRecordsPartition,
    DeleteRecordsResponse,
    DeleteRecordsResult,
)
from wire.errors import ApiError, ErrorCode, InvalidRequest, OffsetOutOfRange, exception_of
from wire.ids import Offset, TopicPartition

TO_THE_HIGH_WATERMARK: Final = -1
PolicyViolation: Final = exception_of(ErrorCode.POLICY_VIOLATION)


@dataclass
class Deletion:
    """A request, and the partitions whose replicas have not all followed."""

    asked: Asked
    results: dict[TopicPartition, DeleteRecordsResult]
    required: dict[TopicPartition, Offset] = field(default_factory=dict)
    timer: Timer | None = None


@dataclass(frozen=True)
class DeleteRecordsOver:
    """A request to delete records has waited long enough."""

    waiting: Deletion


class Deleting:
    """What is deleted here, and whoever waits for it."""

    def __init__(
        self,
        cache: MetadataCache,
        led: Callable[[TopicPartition], Replica],
        after: Callable[[float, Any], Timer],
    ) -> None:
        self._cache = cache
        self._led = led
        self._after = after
        self._waiting: dict[int, Deletion] = {}  # by identity, in the order of their coming

    def __len__(self) -> int:
        return len(self._waiting)

    def begin(self, asked: Asked, request: DeleteRecords) -> list[TopicPartition]:
        """Move the starts; of which logs, so that followers can be told."""
        deletion = Deletion(asked, {})
        moved = []
        if len({each.partition for each in request.partitions}) < len(request.partitions):
            raise InvalidRequest("a partition is named more than once")
        for wanted in request.partitions:
            partition = wanted.partition
            try:
                replica = self._led(partition)
                start = self._move(replica, wanted)
            except ApiError as error:
                deletion.results[partition] = refused(partition, error.code)
                continue
            moved.append(partition)
            deletion.required[partition] = start
            deletion.results[partition] = refused(partition, ErrorCode.REQUEST_TIMED_OUT)
            self._settle(deletion, replica)
        if not deletion.required:
            self._answer(deletion)
        else:
            self._waiting[id(deletion)] = deletion
            wait_ms = max(request.timeout_ms, 0)
            deletion.timer = self._after(wait_ms, DeleteRecordsOver(deletion))
        return moved

    def look(self, replica: Replica) -> None:
        """A follower has told where its log starts."""
        for deletion in tuple(self._waiting.values()):
            if replica.partition in deletion.required:
                self._settle(deletion, replica)
                self._end_if_done(deletion)

    def look_at_all(self, replicas: Replicas) -> None:
        """Other brokers are alive now: some need not be waited for any more."""
        for deletion in tuple(self._waiting.values()):
            for partition in tuple(deletion.required):
                if partition in replicas:
                    self.look(replicas[partition])

    def fail(self, partition: TopicPartition, code: ErrorCode) -> None:
        """This broker leads the partition no longer."""
        for deletion in tuple(self._waiting.values()):
            if deletion.required.pop(partition, None) is not None:
                deletion.results[partition] = refused(partition, code)
                self._end_if_done(deletion)

    def time_out(self, deletion: Deletion) -> None:
        """Its time is up; what was moved stays moved."""
        if self._waiting.pop(id(deletion), None) is not None:
            self._answer(deletion)

    def _move(self, replica: Replica, wanted: DeleteRecordsPartition) -> Offset:
        settings = replica.settings
        if settings is not None and not settings.log.is_deleted_by_age_or_size:
            raise PolicyViolation(f"{replica.partition} is compacted, and nothing else")
        offset, high_watermark = wanted.offset, replica.high_watermark
        if offset == TO_THE_HIGH_WATERMARK:
            offset = high_watermark
        if not 0 <= offset <= high_watermark:
            raise OffsetOutOfRange(f"{offset} is not from 0 to {high_watermark}")
        if offset > replica.log_start_offset:
            replica.opened().move_log_start_offset(offset)
        return offset

    def _low_watermark(self, replica: Replica) -> Offset:
        """As Partition.lowWatermarkIfLeader: of the replicas on brokers that are alive."""
        starts = [
            each.log_start_offset
            for broker, each in replica.followers.items()
            if broker in self._cache.brokers
        ]
        return min([replica.log_start_offset, *starts])

    def _settle(self, deletion: Deletion, replica: Replica) -> None:
        partition, low = replica.partition, self._low_watermark(replica)
        if low >= deletion.required[partition]:
            del deletion.required[partition]
            deletion.results[partition] = DeleteRecordsResult(
                partition=partition, low_watermark=low
            )

    def _end_if_done(self, deletion: Deletion) -> None:
        if not deletion.required:
            del self._waiting[id(deletion)]
            if deletion.timer is not None:
                deletion.timer.cancel()
            self._answer(deletion)

    def _answer(self, deletion: Deletion) -> None:
        results = tuple(deletion.results.values())
        deletion.asked.answer(DeleteRecordsResponse(partitions=results))


def refused(partition: TopicPartition, code: ErrorCode) -> DeleteRecordsResult:
    """The answer for a partition that was not, or not wholly, cut."""
    return DeleteRecordsResult(partition=partition, error_code=code)
