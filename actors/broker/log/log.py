"""One replica's log: segments on a disk, and where they begin and end.

Rule: what counts is in memory, and moves only when the disk has done its part. So whatever a disk
refuses (KafkaStorageError, with the cause) leaves the log as it was, and readable. Nothing waits
but `flush` and `close`; what they have not returned from may be lost with the power.

    log start        high watermark        recovery point         log end
        |------- segment -------|------- segment -------|--- active ---|
         kept for readers        (the partition's)       durable up to here
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from actors.broker.log.appending import (
    Accepted,
    Appended,
    FallingLeaderEpoch,
    accept_from_leader,
    accept_from_producer,
)
from actors.broker.log.checkpoints import LEADER_EPOCHS, MalformedCheckpoint
from actors.broker.log.config import LogConfig, TimestampType
from actors.broker.log.epochs import LeaderEpochCache, load_epochs, save_epochs
from actors.broker.log.loading import Found, remove_newest_first
from actors.broker.log.reading import FoundOffset, first_since, floor, read_batches
from actors.broker.log.retention import count_deletable
from actors.broker.log.segment import Segment
from actors.broker.log.segments import Jitter, Segments
from runtime.files import Disk, DiskError
from wire.errors import CorruptRecordBatch, KafkaStorageError, OffsetOutOfRange
from wire.ids import NO_TIMESTAMP_MS, LeaderEpoch, Offset
from wire.records import Buffer


class _Flush:
    """One that is under way: a truncation meanwhile takes from what it can vouch for."""

    def __init__(self, upto: Offset) -> None:
        self.upto = upto


class Log:
    """What one replica has of a partition."""

    def __init__(
        self,
        disk: Disk,
        config: LogConfig,
        segments: Segments,
        epochs: LeaderEpochCache,
        log_start_offset: Offset,
        log_end_offset: Offset,
        recovery_point: Offset,
    ) -> None:
        self.config = config
        self.epochs = epochs
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.recovery_point = recovery_point  # all before it is durable
        self._disk = disk
        self._segments = segments
        self._flushes: list[_Flush] = []
        self._unflushed_since_ms: int | None = None

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
        with _storage(folder):
            try:
                epochs = load_epochs(disk, f"{folder}/{LEADER_EPOCHS}")
            except MalformedCheckpoint:  # the log itself knows better
                epochs, is_clean, recovery_point = LeaderEpochCache(), False, Offset(0)
            found = Found(disk, folder, config, now_ms)
            try:
                loaded = found.as_closed() if is_clean else found.recovered(recovery_point, epochs)
                end = loaded[-1].next_offset if loaded else log_start_offset
                if end < log_start_offset:  # As Log: what is left is what was deleted.
                    remove_newest_first(loaded, 0)
                    epochs.clear()
                    end = log_start_offset
            except (DiskError, CorruptRecordBatch) as error:
                found.close()
                raise KafkaStorageError(f"{folder}: {error}") from error
        start = max(log_start_offset, loaded[0].base_offset) if loaded else log_start_offset
        durable = end if is_clean else min(recovery_point, end)
        epochs.truncate_from_end(end)
        epochs.truncate_from_start(start)
        segments = Segments(disk, folder, config, loaded, jitter)
        return cls(disk, config, segments, epochs, start, end, durable)

    @property
    def folder(self) -> str:
        """Where its files are."""
        return self._segments.folder

    @property
    def segments(self) -> Sequence[Segment]:
        """In order; the last one is active. None before the first append."""
        return tuple(self._segments.all)

    @property
    def size(self) -> int:
        """In bytes, of all batches."""
        return sum(segment.size for segment in self._segments.all)

    # --- appending ----------------------------------------------------------------------------

    def append_as_leader(self, data: Buffer, leader_epoch: LeaderEpoch, now_ms: int) -> Appended:
        """Give the batches their offsets, in place if the data may be written, and append them."""
        if leader_epoch < self.epochs.latest_epoch:
            raise FallingLeaderEpoch(f"{leader_epoch}, after {self.epochs.latest_epoch}")
        config = self.config
        accepted = accept_from_producer(data, self.log_end_offset, leader_epoch, now_ms, config)
        is_stamped = config.message_timestamp_type is TimestampType.LOG_APPEND_TIME
        return self._append(accepted, now_ms, now_ms if is_stamped else NO_TIMESTAMP_MS)

    def append_as_follower(self, data: Buffer, now_ms: int) -> Appended:
        """Append what the leader has, from the log's end on (B157)."""
        end, epoch = self.log_end_offset, self.epochs.latest_epoch
        accepted = accept_from_leader(data, end, epoch, self.config)
        return self._append(accepted, now_ms, NO_TIMESTAMP_MS)

    def begin_epoch(self, leader_epoch: LeaderEpoch) -> None:
        """A new leader's first act: its epoch starts at the log's end, even if nothing follows."""
        if leader_epoch > self.epochs.latest_epoch:
            self.epochs.assign(leader_epoch, self.log_end_offset)

    def _append(self, accepted: Accepted, now_ms: int, append_time_ms: int) -> Appended:
        first_offset, has_rolled = self.log_end_offset, False
        if accepted.headers:
            with _storage(self.folder):
                has_rolled = self._segments.write(accepted, self.log_end_offset, now_ms)
            first_offset = accepted.headers[0].base_offset
            self.log_end_offset = accepted.headers[-1].next_offset
            for header in accepted.headers:
                if header.partition_leader_epoch > self.epochs.latest_epoch:
                    self.epochs.assign(header.partition_leader_epoch, header.base_offset)
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
        with _storage(self.folder):
            return read_batches(self._segments.all, offset, max_bytes, bound, min_one_batch)

    def offset_for_timestamp(self, timestamp_ms: int) -> FoundOffset | None:
        """The first record that is not earlier; None if there is none."""
        with _storage(self.folder):
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
        with _storage(self.folder):
            self._remove_newest_first(floor(segments, offset) + 1)
            self._segments.must_sync = True
            end, refused = segments[-1].truncate_to(offset)
            self._end_at(end)
            if refused is not None:
                self._segments.failure = refused
                raise refused
        return True

    def truncate_fully_and_start_at(self, offset: Offset) -> None:
        """Forget all, and go on from this offset (B157). The same holds as for `truncate_to`."""
        with _storage(self.folder):
            self._remove_newest_first(0)
            self.log_start_offset = self.log_end_offset = offset
            self._end_at(offset)
            self.epochs.clear()
            if offset:
                self._segments.roll(offset, now_ms=0)

    def move_log_start_offset(self, offset: Offset) -> None:
        """What is before is no longer read; its segments go with the next old ones."""
        if offset > self.log_end_offset:
            raise OffsetOutOfRange(f"{offset} is after the end, {self.log_end_offset}")
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.epochs.truncate_from_start(offset)

    def delete_old_segments(self, now_ms: int, high_watermark: Offset) -> int:
        """Retire those whose time or room is over (B174); how many. `purge` removes the files."""
        with _storage(self.folder):
            count = count_deletable(
                self._segments.all,
                self.config,
                now_ms=now_ms,
                high_watermark=high_watermark,
                log_start_offset=self.log_start_offset,
                log_end_offset=self.log_end_offset,
            )
            if count and count == len(self._segments.all):
                self._segments.roll(self.log_end_offset, now_ms)
            for _ in range(count):
                self._segments.retire_oldest(now_ms + self.config.file_delete_delay_ms)
                self.move_log_start_offset(self._segments.all[0].base_offset)
        return count

    def purge(self, now_ms: int) -> None:
        """Remove the files of segments that went at least file.delete.delay.ms ago."""
        with _storage(self.folder):
            self._segments.purge(now_ms)

    def reload_segments(self, old: Sequence[Offset], new: Offset) -> None:
        """A cleaner has put one segment's file in the place of these."""
        with _storage(self.folder):
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
        for flush in self._flushes:
            flush.upto = min(flush.upto, offset)

    # --- making it last -----------------------------------------------------------------------

    def is_flush_due(self, now_ms: int) -> bool:
        """Whether flush.messages or flush.ms demand one."""
        unflushed = self.log_end_offset - self.recovery_point
        if not unflushed:
            return False
        since_ms = now_ms if self._unflushed_since_ms is None else self._unflushed_since_ms
        return unflushed >= self.config.flush_messages or now_ms - since_ms >= self.config.flush_ms

    async def flush(self, upto: Offset | None = None) -> None:
        """Make all before an offset durable, and move the recovery point there."""
        target = self.log_end_offset if upto is None else min(upto, self.log_end_offset)
        segments = self._segments
        if target <= self.recovery_point and not segments.must_sync:
            return
        if not segments.all and not self._disk.exists(self.folder):
            return
        flush, must_sync, is_new = _Flush(target), segments.must_sync, segments.folder_is_new
        self._flushes.append(flush)
        segments.must_sync = segments.folder_is_new = False
        try:
            with _storage(self.folder):
                await self._sync(target, names=must_sync, folder=is_new)
        except BaseException:
            segments.must_sync, segments.folder_is_new = True, segments.folder_is_new or is_new
            raise
        finally:
            self._flushes.remove(flush)
        self.recovery_point = max(self.recovery_point, flush.upto)
        self._unflushed_since_ms = None

    async def _sync(self, target: Offset, *, names: bool, folder: bool) -> None:
        segments = self._segments.all
        # A segment that ends at the recovery point was perhaps closed since.
        for segment in segments[floor(segments, Offset(self.recovery_point - 1)) :]:
            is_needed = segment.base_offset < target or names
            if is_needed and segment in segments:  # not gone while others were synced
                await segment.sync()
        while self.epochs.is_dirty:
            await save_epochs(self.epochs, self._disk, f"{self.folder}/{LEADER_EPOCHS}")
        if names:
            await self._disk.sync_directory(self.folder)
        if folder:
            await self._disk.sync_directory(self.folder.rpartition("/")[0])

    async def close(self) -> None:
        """Flush all and let go: after this, and only this, the log may be opened as clean."""
        try:
            with _storage(self.folder):
                if self._segments.failure is not None:
                    raise self._segments.failure
                if self._segments.all:
                    self._segments.all[-1].close_indexes()
            self._segments.must_sync = True
            await self.flush()
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Let go of all files as they are."""
        self._segments.close()

    def rename(self, folder: str) -> None:
        """Move to another folder, as Kafka does before it deletes a log."""
        with _storage(self.folder):
            self._segments.rename(folder)

    def delete(self) -> None:
        """Remove all files, and the folder."""
        with _storage(self.folder):
            self._segments.delete()


@contextmanager
def _storage(folder: str) -> Iterator[None]:
    """What the disk refuses, as what a broker answers."""
    try:
        yield
    except DiskError as error:
        raise KafkaStorageError(f"{folder}: {error}") from error
