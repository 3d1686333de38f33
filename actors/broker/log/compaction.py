"""Which log is compacted next, and what is noted of it.

Rule: one at a time, the one with most to gain. What is noted as clean was so when nothing has been
cut since; else it is cleaned once more.
"""

from collections.abc import Awaitable, Callable, Mapping

from actors.broker.log.checkpoints import CLEANER_OFFSETS
from actors.broker.log.cleanable import dirty_ratio, first_uncleanable_offset
from actors.broker.log.cleaner import Cleaned, LogChanged, Pause, clean
from actors.broker.log.log import Log
from actors.broker.log.notes import Notes, Offsets
from runtime.files import Disk, DiskError, FileClosed
from runtime.turn import Turn
from wire.errors import (
    BadData,
    CorruptRecordBatch,
    KafkaStorageError,
    UnsupportedCompressionType,
)
from wire.ids import Offset, TopicPartition


class Compaction:
    """The cleaner of a node's logs."""

    def __init__(self, disk: Disk, logs: Mapping[TopicPartition, Log], notes: Notes) -> None:
        self.uncleanable: dict[TopicPartition, BadData | KafkaStorageError] = {}
        self._disk = disk
        self._logs = logs
        self._notes = notes
        self._turn = Turn()

    async def ended(self) -> None:
        """Wait until nothing is compacted."""
        async with self._turn:
            pass

    async def clean_dirtiest(
        self,
        high_watermarks: Offsets,
        now_ms: int,
        pause: Pause,
        checkpoint_recovery_points: Callable[[], Awaitable[None]],
    ) -> tuple[TopicPartition, Cleaned] | None:
        """Compact the log with most to gain, if it is worth it and did not change meanwhile."""
        async with self._turn:
            partition = self._dirtiest(high_watermarks, now_ms)
            if partition is None:
                return None
            log = self._logs[partition]
            try:
                # Recovery takes a gap for damage unless it lies below the recovery point.
                await log.flush()
                await checkpoint_recovery_points()
                cleaned = await self._clean(partition, log, high_watermarks, now_ms, pause)
            except LogChanged:
                return None
            except (CorruptRecordBatch, UnsupportedCompressionType) as error:
                self.uncleanable[partition] = error
                return None
            except FileClosed:
                raise  # the power was cut
            except (KafkaStorageError, DiskError) as error:
                failure = KafkaStorageError(f"{partition} cannot be cleaned: {error}")
                self.uncleanable[partition] = failure
                raise failure from error
            return partition, cleaned

    def _dirtiest(self, high_watermarks: Offsets, now_ms: int) -> TopicPartition | None:
        ratios = {
            at: ratio
            for at, log in sorted(self._logs.items(), key=lambda each: each[0])
            if log.config.is_compacted and log.has_segments and not log.is_closed
            if at in high_watermarks and at not in self.uncleanable
            if (ratio := dirty_ratio(log.segments, *self._section(at, high_watermarks[at], now_ms)))
            > log.config.min_cleanable_dirty_ratio
        }
        return max(ratios, key=lambda at: ratios[at]) if ratios else None

    async def _clean(
        self,
        partition: TopicPartition,
        log: Log,
        high_watermarks: Offsets,
        now_ms: int,
        pause: Pause,
    ) -> Cleaned:
        if self._logs.get(partition) is not log or not log.has_segments:
            raise LogChanged(f"{partition} went")
        cuts = log.cuts
        first_dirty, limit = self._section(partition, high_watermarks[partition], now_ms)
        cleaned = await clean(
            self._disk,
            log,
            log.config,
            first_dirty=first_dirty,
            first_uncleanable=min(limit, log.recovery_point),
            pause=pause,
        )
        async with self._notes.turn:
            if log.cuts == cuts and self._logs.get(partition) is log:
                rows = {**self._notes.rows(CLEANER_OFFSETS), partition: cleaned.next_dirty_offset}
                await self._notes.write(CLEANER_OFFSETS, rows)
        return cleaned

    def _section(
        self, at: TopicPartition, high_watermark: Offset, now_ms: int
    ) -> tuple[Offset, Offset]:
        """From where to where a log may be compacted; from its start if the note is not of it."""
        log = self._logs[at]
        noted = self._notes.rows(CLEANER_OFFSETS).get(at, Offset(0))
        first_dirty = max(noted if noted <= log.log_end_offset else Offset(0), log.log_start_offset)
        limit = first_uncleanable_offset(
            log.segments,
            first_dirty,
            high_watermark=log.last_stable_offset(high_watermark),
            now_ms=now_ms,
        )
        return first_dirty, limit
