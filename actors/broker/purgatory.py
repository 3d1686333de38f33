"""Produce requests that wait until all in-sync replicas have their records.

Rule: a request is answered once: when the high watermark has passed all its records, when they can
no longer be committed by this leader, or when its time is up (B164). One that is answered leaves
nothing behind (L-7).
"""

from collections import deque
from collections.abc import Callable

from runtime.ref import Timer
from wire.data import ProduceResult
from wire.errors import ErrorCode
from wire.ids import NO_OFFSET, Offset, TopicPartition


class Waiting:
    """One request, and the partitions that still wait."""

    __slots__ = ("answer", "required", "results", "timer")

    def __init__(
        self,
        results: dict[TopicPartition, ProduceResult],
        required: dict[TopicPartition, Offset],
        answer: Callable[[tuple[ProduceResult, ...]], None],
    ) -> None:
        self.results = results
        self.required = required  # how far the high watermark must rise
        self.answer = answer
        self.timer: Timer | None = None


class Purgatory:
    """All that wait, by partition, the lowest offset first."""

    def __init__(self) -> None:
        self._of: dict[TopicPartition, deque[Waiting]] = {}

    def __len__(self) -> int:
        return len({id(each) for queue in self._of.values() for each in queue})

    def wait(self, waiting: Waiting) -> None:
        """Wait for all its partitions."""
        for partition, offset in waiting.required.items():
            queue = self._of.setdefault(partition, deque())
            place = len(queue)  # a batch that came again waits for an offset that was given before
            while place and queue[place - 1].required[partition] > offset:
                place -= 1
            queue.insert(place, waiting)

    def committed(self, partition: TopicPartition, upto: Offset, code: ErrorCode) -> None:
        """The high watermark has risen; `code` says whether enough replicas are in sync (B163)."""
        queue = self._of.get(partition)
        while queue and queue[0].required[partition] <= upto:
            self._settle(queue.popleft(), partition, code)
        self._tidy(partition)

    def fail(self, partition: TopicPartition, code: ErrorCode) -> None:
        """This broker no longer leads the partition: it cannot say what becomes of the records."""
        for waiting in self._of.pop(partition, ()):
            self._settle(waiting, partition, code)

    def time_out(self, waiting: Waiting) -> None:
        """Its time is up; the records may still be committed (B164)."""
        for partition in tuple(waiting.required):
            self._of[partition].remove(waiting)
            self._tidy(partition)
            self._settle(waiting, partition, ErrorCode.REQUEST_TIMED_OUT)

    def _settle(self, waiting: Waiting, partition: TopicPartition, code: ErrorCode) -> None:
        del waiting.required[partition]
        if code is not ErrorCode.NONE:
            waiting.results[partition] = _failed(waiting.results[partition], code)
        if not waiting.required:
            if waiting.timer is not None:
                waiting.timer.cancel()
            waiting.answer(tuple(waiting.results.values()))

    def _tidy(self, partition: TopicPartition) -> None:
        if not self._of.get(partition, True):
            del self._of[partition]


def _failed(result: ProduceResult, code: ErrorCode) -> ProduceResult:
    return ProduceResult(
        partition=result.partition,
        error_code=code,
        base_offset=NO_OFFSET,
        log_start_offset=result.log_start_offset,
    )
