"""All logs of a node, and what is noted about them besides.

Rule: a note never vouches for more than is durable. What it vouches for is synced before it is
written, and it is taken back before what it says stops being so: the marker of a clean stop before
the first append, a partition's rows before its name is given to another log.
"""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from actors.administration.names import check_topic_name
from actors.broker.log import cleaner
from actors.broker.log.checkpoints import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    MalformedCheckpoint,
    mark_clean_shutdown,
    read_offsets,
    unmark_clean_shutdown,
    was_clean_shutdown,
    write_offsets,
)
from actors.broker.log.config import LogConfig
from actors.broker.log.log import Log
from actors.broker.log.segments import Jitter
from runtime.files import MAX_NAME_BYTES, Disk, DiskError, FileClosed
from wire.errors import (
    BadData,
    CorruptRecordBatch,
    InvalidTopic,
    KafkaStorageError,
    UnsupportedCompressionType,
)
from wire.ids import Offset, TopicPartition

NOTES: Final = (RECOVERY_POINTS, LOG_START_OFFSETS, HIGH_WATERMARKS, CLEANER_OFFSETS)

_TO_BE_DELETED: Final = re.compile(r"\S+-[0-9]+\.[0-9a-f]{32}-delete")
_FUTURE: Final = re.compile(r"\S+-[0-9]+\.[0-9a-f]{32}-future")  # on its way to another disk
_FOLDER: Final = re.compile(r"(.+)-(0|[1-9][0-9]{0,9})", re.DOTALL)
_MAX_PARTITION: Final = 2**31 - 1

Offsets = Mapping[TopicPartition, Offset]


class NotALog(ValueError):
    """A folder of this name is no log's; the sentence says why."""


class Stranger(Struct, frozen=True):
    """What a start met on the disk and left alone."""

    name: str
    reason: str


def parse_folder(name: str) -> TopicPartition:
    """The partition whose log is in a folder of this name."""
    found = _FOLDER.fullmatch(name)
    if found is None or int(found[2]) > _MAX_PARTITION:
        raise NotALog("its name is not a topic, a dash and the number of a partition")
    try:
        check_topic_name(found[1])
    except InvalidTopic as error:
        raise NotALog(str(error)) from error
    return TopicPartition(found[1], int(found[2]))


def folder_to_delete(partition: TopicPartition, unique_hex: str) -> str:
    """As Log.logDeleteDirName: the topic's name is cut where the folder's would be too long."""
    suffix = f"-{partition.partition}.{unique_hex}-delete"
    name = f"{partition.topic[: MAX_NAME_BYTES - len(suffix)]}{suffix}"
    assert _TO_BE_DELETED.fullmatch(name), f"{name} would not be known again"
    return name


class LogManager:
    """Opens, notes, flushes, deletes and closes the logs of one disk; one thing at a time."""

    def __init__(
        self, disk: Disk, unique_hex: Callable[[], str], jitter: Jitter | None = None
    ) -> None:
        self.strangers: tuple[Stranger, ...] = ()
        self._disk = disk
        self._unique_hex = unique_hex  # 32 digits, as of a UUID
        self._jitter = jitter
        self._logs: dict[TopicPartition, Log] = {}
        self._failures: dict[TopicPartition, KafkaStorageError] = {}
        self._uncleanable: dict[TopicPartition, BadData] = {}
        self._notes: dict[str, Offsets] = {}  # by file: what was read, or written since
        self._marked: list[tuple[int, str]] = []  # when these folders may go
        self._is_writing = False

    @classmethod
    async def open(
        cls,
        disk: Disk,
        config_of: Callable[[str], LogConfig],
        *,
        now_ms: int,
        unique_hex: Callable[[], str],
        jitter: Jitter | None = None,
    ) -> "LogManager":
        """Open every log of a disk. One that cannot be opened is in `failures`; the others live."""
        manager = cls(disk, unique_hex, jitter)
        is_clean = was_clean_shutdown(disk)
        # As LogManager.loadLogs (KAFKA-10471): a crash while loading is no clean stop either.
        await unmark_clean_shutdown(disk)
        strangers = manager._read_notes()
        for name in disk.list():
            if not disk.is_directory(name) or _FUTURE.fullmatch(name):
                continue
            if _TO_BE_DELETED.fullmatch(name):
                manager._marked.append((now_ms, name))
                continue
            try:
                partition = parse_folder(name)
            except NotALog as error:
                strangers.append(Stranger(name, str(error)))
            else:
                await manager._load(partition, config_of(partition.topic), now_ms, is_clean)
        manager.strangers = tuple(strangers)
        await manager.delete_marked(now_ms)
        await manager._forget_others()
        return manager

    @property
    def logs(self) -> Mapping[TopicPartition, Log]:
        """Those that are open."""
        return MappingProxyType(self._logs)

    @property
    def failures(self) -> Mapping[TopicPartition, KafkaStorageError]:
        """Those that could not be opened, and why. Their files are left for people to look at."""
        return MappingProxyType(self._failures)

    @property
    def uncleanable(self) -> Mapping[TopicPartition, BadData]:
        """Those that compaction gave up on, and why."""
        return MappingProxyType(self._uncleanable)

    def get_or_create(self, partition: TopicPartition, config: LogConfig, now_ms: int) -> Log:
        """A partition's log. A new one has no files before its first append (D6)."""
        if partition in self._failures:
            raise self._failures[partition]
        if partition not in self._logs:
            folder, jitter = str(partition), self._jitter
            self._logs[partition] = Log.open(
                self._disk, folder, config, now_ms=now_ms, is_clean=True, jitter=jitter
            )
        return self._logs[partition]

    def initial_high_watermark(self, partition: TopicPartition) -> Offset:
        """What the checkpoint says, within what the log has (B173)."""
        log = self._logs[partition]
        noted = self._notes[HIGH_WATERMARKS].get(partition, log.log_start_offset)
        return max(log.log_start_offset, min(noted, log.log_end_offset))

    def _read_notes(self) -> list[Stranger]:
        """As LogManager.loadLogs: what cannot be read is as if it were not there."""
        strangers = []
        for file in NOTES:
            try:
                self._notes[file] = read_offsets(self._disk, file)
            except MalformedCheckpoint as error:
                self._notes[file] = {}
                strangers.append(Stranger(file, str(error)))
        return strangers

    async def _load(
        self, partition: TopicPartition, config: LogConfig, now_ms: int, is_clean: bool
    ) -> None:
        try:
            await cleaner.finish_swaps(self._disk, str(partition))
            self._logs[partition] = Log.open(
                self._disk,
                str(partition),
                config,
                now_ms=now_ms,
                is_clean=is_clean,
                recovery_point=self._notes[RECOVERY_POINTS].get(partition, Offset(0)),
                log_start_offset=self._notes[LOG_START_OFFSETS].get(partition, Offset(0)),
                jitter=self._jitter,
            )
        except FileClosed:
            raise  # the power was cut: this start is over
        except (BadData, DiskError) as error:
            failure = KafkaStorageError(f"{partition} cannot be opened: {error}")
            failure.__cause__ = error
            self._failures[partition] = failure

    # --- notes --------------------------------------------------------------------------------

    async def checkpoint_recovery_points(self) -> None:
        """From where on each log must be looked through after a crash."""
        logs = self._logs.items()
        points = {at: log.recovery_point for at, log in logs if log.segments}
        await self._note(RECOVERY_POINTS, points)

    async def checkpoint_log_start_offsets(self) -> None:
        """As LogManager.checkpointLogStartOffsetsInDir: only those that the files do not tell."""
        starts = {
            at: log.log_start_offset
            for at, log in self._logs.items()
            if log.segments and log.log_start_offset > log.segments[0].base_offset
        }
        await self._note(LOG_START_OFFSETS, starts)

    async def checkpoint_high_watermarks(self, high_watermarks: Offsets) -> None:
        """Whose high watermark is not given here keeps the one that was last noted."""
        await self._note(HIGH_WATERMARKS, {**self._notes[HIGH_WATERMARKS], **high_watermarks})

    async def _note(self, file: str, offsets: Offsets) -> None:
        """Write a checkpoint: of these rows those of our logs, and those of logs that failed."""
        assert not self._is_writing, f"{file} is to be written while another note is"
        rows = {at: offset for at, offset in offsets.items() if at in self._logs}
        rows |= {at: row for at, row in self._notes[file].items() if at in self._failures}
        if rows != self._notes[file]:
            self._is_writing = True
            try:
                await write_offsets(self._disk, file, rows)
            finally:
                self._is_writing = False
            self._notes[file] = rows

    async def _forget_others(self) -> None:
        """No row is there for a log that is not: one of the same name may come."""
        for file in NOTES:
            await self._note(file, self._notes[file])

    # --- changing logs ------------------------------------------------------------------------

    async def truncate(self, offsets: Offsets) -> tuple[TopicPartition, ...]:
        """Cut logs, durably: what is appended next is not mixed with what was there.

        Those that had something to cut.
        """
        ends = {at: self._logs[at].log_end_offset for at in offsets}
        cut = {at: offset for at, offset in sorted(offsets.items()) if offset < ends[at]}
        await self._vouch_for_less(cut)
        for at, offset in cut.items():
            self._logs[at].truncate_to(offset)
        for at in cut:
            await self._logs[at].flush()
        return tuple(cut)

    async def truncate_fully_and_start_at(self, partition: TopicPartition, offset: Offset) -> None:
        """Empty a log, durably, and let it go on from here."""
        await self._vouch_for_less({partition: Offset(0)})
        self._logs[partition].truncate_fully_and_start_at(offset)
        await self._logs[partition].flush()

    async def _vouch_for_less(self, offsets: Offsets) -> None:
        """Note nothing beyond these. Before a truncation: half of it may be all that survives."""
        for file in NOTES:
            rows = self._notes[file]
            lower = {at: offset for at, offset in offsets.items() if rows.get(at, offset) > offset}
            await self._note(file, {**rows, **lower})

    async def delete(self, partition: TopicPartition, now_ms: int) -> None:
        """Take a log out of the way at once; its files go later, with `delete_marked`.

        When this returns, the partition's name is free for another log.
        """
        name = folder_to_delete(partition, self._unique_hex())
        delay_ms = 0
        if partition in self._logs:
            log = self._logs[partition]
            log.abandon()
            log.rename(name)  # whoever still has it must not meet the files of the next one
            delay_ms = log.config.file_delete_delay_ms
        elif partition in self._failures:
            self._disk.rename(str(partition), name)
        for known in (self._logs, self._failures, self._uncleanable):
            known.pop(partition, None)
        await self._disk.sync_directory("")
        if self._disk.exists(name):
            self._marked.append((now_ms + delay_ms, name))
        await self._forget_others()

    async def delete_marked(self, now_ms: int) -> int:
        """Remove the folders of logs deleted at least file.delete.delay.ms ago; how many."""
        due = sorted(each for each in self._marked if each[0] <= now_ms)
        for each in due:
            self._disk.remove_tree(each[1])
            self._marked.remove(each)
        if due:
            await self._disk.sync_directory("")
        return len(due)

    async def flush_dirty(self, now_ms: int) -> int:
        """Flush the logs for which flush.messages or flush.ms demand it; how many."""
        due = [log for _, log in sorted(self._logs.items()) if log.is_flush_due(now_ms)]
        for log in due:
            await log.flush()
        return len(due)

    # --- compaction ---------------------------------------------------------------------------

    async def clean_dirtiest(
        self, high_watermarks: Offsets, now_ms: int, pause: cleaner.Pause = cleaner.no_pause
    ) -> tuple[TopicPartition, cleaner.Cleaned] | None:
        """Compact the log with most to gain, if any has more than min.cleanable.dirty.ratio."""
        ratios = {
            at: ratio
            for at, log in sorted(self._logs.items())
            if at in high_watermarks and at not in self._uncleanable
            if log.config.is_compacted and log.segments
            if (ratio := self._dirty_ratio(at, high_watermarks[at], now_ms))
            > log.config.min_cleanable_dirty_ratio
        }
        if not ratios:
            return None
        partition = max(ratios, key=lambda at: ratios[at])
        # Recovery takes a gap for damage unless it lies below the recovery point.
        await self._logs[partition].flush()
        await self.checkpoint_recovery_points()
        cleaned = await self._clean(partition, high_watermarks[partition], now_ms, pause)
        return None if cleaned is None else (partition, cleaned)

    async def _clean(
        self, partition: TopicPartition, high_watermark: Offset, now_ms: int, pause: cleaner.Pause
    ) -> cleaner.Cleaned | None:
        log = self._logs[partition]
        first_dirty, limit = self._dirty_section(partition, high_watermark, now_ms)
        try:
            cleaned = await cleaner.clean(
                self._disk,
                log,
                log.config,
                first_dirty=first_dirty,
                first_uncleanable=min(limit, log.recovery_point),
                pause=pause,
            )
        except cleaner.LogChanged:
            return None
        except (CorruptRecordBatch, UnsupportedCompressionType) as error:
            self._uncleanable[partition] = error
            return None
        noted = {**self._notes[CLEANER_OFFSETS], partition: cleaned.next_dirty_offset}
        await self._note(CLEANER_OFFSETS, noted)
        return cleaned

    def _dirty_ratio(self, at: TopicPartition, high_watermark: Offset, now_ms: int) -> float:
        section = self._dirty_section(at, high_watermark, now_ms)
        return cleaner.dirty_ratio(self._logs[at].segments, *section)

    def _dirty_section(
        self, at: TopicPartition, high_watermark: Offset, now_ms: int
    ) -> tuple[Offset, Offset]:
        """From where to where a log may be compacted; from its start if the note is not of it."""
        log = self._logs[at]
        noted = self._notes[CLEANER_OFFSETS].get(at, Offset(0))
        first_dirty = max(noted if noted <= log.log_end_offset else Offset(0), log.log_start_offset)
        limit = cleaner.first_uncleanable_offset(
            log.segments, first_dirty, high_watermark=high_watermark, now_ms=now_ms
        )
        return first_dirty, limit

    # --- the end ------------------------------------------------------------------------------

    async def clean_shutdown(self, high_watermarks: Offsets) -> bool:
        """Flush and close all, note where they end, and last of all that it was so.

        False if that cannot be said because a log has failed: the next start recovers them all.
        """
        is_clean = not self._failures
        for _, log in sorted(self._logs.items()):
            try:
                await log.close()
            except KafkaStorageError:
                is_clean = False
        await self.checkpoint_recovery_points()
        await self.checkpoint_log_start_offsets()
        await self.checkpoint_high_watermarks(high_watermarks)
        if is_clean:
            await mark_clean_shutdown(self._disk)
        return is_clean
