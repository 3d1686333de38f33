"""One replica's log: segments on a disk, and where they begin and end.

Rule: what counts is in memory, and moves only when the disk has done its part. So whatever a disk
refuses (KafkaStorageError, with the cause) leaves the log as it was, and readable. Nothing waits
but `flush` and `close`; what they have not returned from may be lost with the power. What changes
the files' names, or has to be durable at its end, waits for the log's turn; an append does not.

    log start        high watermark        recovery point         log end
        |------- segment -------|------- segment -------|--- active ---|
         kept for readers        (the partition's)       durable up to here
"""

from collections.abc import Sequence

from actors.broker.log.aborted import AbortedEntry
from actors.broker.log.appending import (
    Accepted,
    Appended,
    FallingLeaderEpoch,
    accept_from_leader,
    accept_from_producer,
)
from actors.broker.log.config import LogConfig, TimestampType
from actors.broker.log.durable_log import DurableLog
from actors.broker.log.loading import load
from actors.broker.log.memory import ProducerMemory
from actors.broker.log.producers import WrittenBatch
from actors.broker.log.reading import FoundOffset, first_since, floor, read_batches
from actors.broker.log.retention import count_deletable
from actors.broker.log.segment import Segment
from actors.broker.log.segments import Jitter, Segments
from actors.broker.log.storage import Storage
from runtime.files import Disk, DiskError
from wire.errors import CorruptRecordBatch, KafkaStorageError, OffsetOutOfRange
from wire.ids import NO_PRODUCER_ID, NO_TIMESTAMP_MS, LeaderEpoch, Offset
from wire.records import BatchHeader, Buffer


class Log(DurableLog):
    """What one replica has of a partition."""

    __slots__ = ()

    @classmethod
    def open(
        cls,
        disk: Disk,
        folder: str,
        config: LogConfig,
        *,
        now_ms: int,
        is_clean: bool,
        recovery_point: Offset = Offset(0),  # noqa: B008 - a number
        log_start_offset: Offset = Offset(0),  # noqa: B008
        jitter: Jitter | None = None,
    ) -> "Log":
        """Load what is there, which may be nothing: files are made at the first append (D6).

        `is_clean` says that the log was closed. The swaps of a cleaner are finished before this.
        """
        try:
            loaded = load(
                disk,
                folder,
                config,
                now_ms=now_ms,
                is_clean=is_clean,
                recovery_point=recovery_point,
                log_start_offset=log_start_offset,
            )
        except (DiskError, CorruptRecordBatch) as error:
            raise KafkaStorageError(f"{folder}: {error}") from error
        segments = Segments(disk, folder, config, loaded.segments, jitter)
        return cls(disk, config, segments, *loaded[1:])

    @property
    def segments(self) -> Sequence[Segment]:
        """In order; the last one is active. None before the first append."""
        return tuple(self._segments.all)

    @property
    def has_segments(self) -> bool:
        """Whether there are any."""
        return bool(self._segments.all)

    @property
    def size(self) -> int:
        """In bytes, of all batches."""
        return sum(segment.size for segment in self._segments.all)

    def reconfigure(self, config: LogConfig) -> None:
        """From now on this holds."""
        self.config = config
        self._segments.reconfigure(config)

    # --- appending ----------------------------------------------------------------------------

    def append_as_leader(
        self, data: Buffer, leader_epoch: LeaderEpoch, now_ms: int, *, is_internal: bool = False
    ) -> Appended:
        """Give the batches their offsets, in place if the data may be written, and append them.

        `is_internal`: a coordinator's, of which no sequence is expected.
        """
        if leader_epoch < self.epochs.latest_epoch:
            raise FallingLeaderEpoch(f"{leader_epoch}, after {self.epochs.latest_epoch}")
        config = self.config
        accepted = accept_from_producer(
            data, self.log_end_offset, leader_epoch, now_ms, config, is_internal=is_internal
        )
        is_stamped = config.message_timestamp_type is TimestampType.LOG_APPEND_TIME
        if self.producers is not None and accepted.headers[0].producer_id > NO_PRODUCER_ID:
            there = self.producers.judge(accepted, is_internal=is_internal)
            if there is not None:
                return self._appended_before(there, is_stamped=is_stamped)
        return self._append(accepted, now_ms, now_ms if is_stamped else NO_TIMESTAMP_MS)

    def append_as_follower(self, data: Buffer, now_ms: int, *, may_fall: bool = False) -> Appended:
        """Append what the leader has, from the log's end on (B157)."""
        end, epoch = self.log_end_offset, self.epochs.latest_epoch
        accepted = accept_from_leader(data, end, epoch, self.config, may_fall=may_fall)
        return self._append(accepted, now_ms, NO_TIMESTAMP_MS)

    def _appended_before(self, there: WrittenBatch, *, is_stamped: bool) -> Appended:
        """A producer did not hear that this was appended: it is told so again."""
        return Appended(
            first_offset=there.base_offset,
            last_offset=there.last_offset,
            log_append_time_ms=there.timestamp_ms if is_stamped else NO_TIMESTAMP_MS,
            log_start_offset=self.log_start_offset,
            has_rolled=False,
            is_duplicate=True,
        )

    def is_last_of_producer(self, header: BatchHeader) -> bool:
        """Whether it is the last batch of an idempotent producer: none goes without a trace."""
        known = None if self.producers is None else self.producers.states.get(header.producer_id)
        return known is not None and known.last_offset == header.last_offset

    def last_stable_offset(self, high_watermark: Offset) -> Offset:
        """Up to here nothing belongs to a transaction whose end is not known (B165)."""
        if self.producers is None:
            return high_watermark
        return self.producers.last_stable_offset(high_watermark)

    def aborted_in(self, first: Offset, upto: Offset) -> list[AbortedEntry]:
        """The aborted transactions with records from the one offset on and before the other."""
        return [] if self.producers is None else self.producers.aborted.overlapping(first, upto)

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether it belongs to a transaction that was aborted."""
        if self.producers is None or not header.is_transactional or header.is_control:
            return False
        return self.producers.aborted.has(header.producer_id, header.base_offset)

    def begin_epoch(self, leader_epoch: LeaderEpoch) -> None:
        """A new leader's first act; where a topic's znodes were removed, epochs begin anew."""
        if leader_epoch != self.epochs.latest_epoch:
            self.epochs.assign(leader_epoch, self.log_end_offset)

    def _append(self, accepted: Accepted, now_ms: int, append_time_ms: int) -> Appended:
        first_offset, has_rolled = self.log_end_offset, False
        has_producers = self.producers is not None
        if accepted.headers:
            if self.is_closed:
                raise KafkaStorageError(f"{self.folder} is closed")
            with Storage(self.folder):
                has_rolled = self._segments.write(accepted, self.log_end_offset, now_ms)
            first_offset = accepted.headers[0].base_offset
            self.log_end_offset = accepted.headers[-1].next_offset
            for header in accepted.headers:
                if header.partition_leader_epoch > self.epochs.latest_epoch:
                    self.epochs.assign(header.partition_leader_epoch, header.base_offset)
                if header.producer_id > NO_PRODUCER_ID:
                    has_producers = True
            if has_producers:
                if self.producers is None:
                    self.producers = ProducerMemory(self._disk, now_ms)
                self.producers.take(accepted, self._segments.all, now_ms)
            if self._unflushed_since_ms is None:
                self._unflushed_since_ms = now_ms
        return Appended(
            first_offset=first_offset,
            last_offset=Offset(self.log_end_offset - 1),
            log_append_time_ms=append_time_ms,
            log_start_offset=self.log_start_offset,
            has_rolled=has_rolled,
        )

    # --- reading ------------------------------------------------------------------------------

    def read(
        self,
        offset: Offset,
        max_bytes: int,
        max_offset: Offset | None = None,
        *,
        min_one_batch: bool = True,
    ) -> bytes:
        """Batches from the one that holds the offset on, none with `max_offset` or later (B170).

        As in Kafka the last batch may be cut short by `max_bytes`; the first one is not, unless
        `min_one_batch` is false: else a reader would never get past a batch larger than it asks.
        """
        start, end = self.log_start_offset, self.log_end_offset
        if not start <= offset <= end:
            raise OffsetOutOfRange(f"{offset} is not from {start} to {end}")
        bound = end if max_offset is None else min(max_offset, end)
        if offset >= bound:
            return b""
        with Storage(self.folder):
            return read_batches(self._segments.all, offset, max_bytes, bound, min_one_batch)

    def offset_for_timestamp(self, timestamp_ms: int) -> FoundOffset | None:
        """The first record that is not earlier; None if there is none."""
        with Storage(self.folder):
            return first_since(self._segments.all, timestamp_ms, self.log_start_offset)

    # --- shortening ---------------------------------------------------------------------------

    def truncate_to(self, offset: Offset) -> bool:
        """Forget this offset and those after it; a batch goes as a whole. Whether anything went.

        Through LogManager.truncate: the recovery point on disk must be lowered before this, and
        the cut flushed before the next append, or a crash mixes what was cut with what follows.
        """
        assert offset >= 0, f"{offset} is no offset"
        if offset >= self.log_end_offset:
            return False
        segments = self._segments.all
        if not segments or offset < segments[0].base_offset:
            self.truncate_fully_and_start_at(offset)
            return True
        with Storage(self.folder):
            self._forget_producers_from(offset)
            self._remove_newest_first(floor(segments, offset) + 1)
            self._segments.must_sync = True
            end, refused = segments[-1].truncate_to(offset)
            self._end_at(end)
            self._recall_producers()
            if refused is not None:
                self._segments.failure = refused
                raise refused
        return True

    def truncate_fully_and_start_at(self, offset: Offset) -> None:
        """Forget all, and go on from this offset (B157). The same holds as for `truncate_to`."""
        with Storage(self.folder):
            self._forget_producers_from(Offset(-1))
            self._remove_newest_first(0)
            self.log_start_offset = self.log_end_offset = offset
            self._end_at(offset)
            self.epochs.clear()
            if offset:
                self._segments.roll(offset, now_ms=0)
            self._recall_producers()

    def _forget_producers_from(self, end: Offset) -> None:
        if self.producers is not None:
            self.producers.forget_from(self.folder, end)

    def _recall_producers(self) -> None:
        if self.producers is not None:
            segments, start = self._segments.all, self.log_start_offset
            self.producers.rebuild(self.folder, segments, start, self.log_end_offset)

    def move_log_start_offset(self, offset: Offset) -> None:
        """What is before is no longer read; its segments go with the next old ones."""
        if offset > self.log_end_offset:
            raise OffsetOutOfRange(f"{offset} is after the end, {self.log_end_offset}")
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.epochs.truncate_from_start(offset)

    def is_retention_due(self, now_ms: int, high_watermark: Offset) -> bool:
        """Whether `delete_old_segments` or `purge` would do anything."""
        if self._segments.is_purge_due(now_ms):
            return True
        return bool(self._segments.all) and self._count_deletable(now_ms, high_watermark) > 0

    def _count_deletable(self, now_ms: int, high_watermark: Offset) -> int:
        with Storage(self.folder):
            return count_deletable(
                self._segments.all,
                self.config,
                now_ms=now_ms,
                high_watermark=high_watermark,
                log_start_offset=self.log_start_offset,
                log_end_offset=self.log_end_offset,
            )

    def delete_old_segments(self, now_ms: int, high_watermark: Offset) -> int:
        """Retire those whose time or room is over (B174); how many. `purge` removes the files.

        Through LogManager.delete_old_segments, which waits for the log's turn.
        """
        count = self._count_deletable(now_ms, high_watermark)
        with Storage(self.folder):
            if count and count == len(self._segments.all):
                self._segments.roll(self.log_end_offset, now_ms)
                if self.producers is not None:
                    self.producers.note(self.log_end_offset)
            for _ in range(count):
                self._segments.retire_oldest(now_ms + self.config.file_delete_delay_ms)
                self.move_log_start_offset(self._segments.all[0].base_offset)
            if count and self.producers is not None:
                self.producers.forget_before(self.folder, self._segments.all[0].base_offset)
        return count

    def purge(self, now_ms: int) -> None:
        """Remove the files of segments that went at least file.delete.delay.ms ago."""
        with Storage(self.folder):
            self._segments.purge(now_ms)

    def reload_segments(self, old: Sequence[Offset], new: Offset) -> None:
        """A cleaner has put one segment's file in the place of these."""
        with Storage(self.folder):
            self._segments.reload(old, new)

    def _remove_newest_first(self, keep: int) -> None:
        """Each step leaves a log that ends where its last segment does."""
        while len(self._segments.all) > keep:
            self._end_at(self._segments.remove_newest())

    def _end_at(self, offset: Offset) -> None:
        self.log_end_offset = offset
        self.log_start_offset = min(self.log_start_offset, offset)
        self.recovery_point = min(self.recovery_point, offset)
        self.epochs.truncate_from_end(offset)
        self.cuts += 1
        if self._flushing_upto is not None:
            self._flushing_upto = min(self._flushing_upto, offset)

    def rename(self, folder: str) -> None:
        """Move to another folder, as Kafka does before it deletes a log."""
        with Storage(self.folder):
            self._segments.rename(folder)

    def delete(self) -> None:
        """Remove all files, and the folder."""
        with Storage(self.folder):
            self._segments.delete()
