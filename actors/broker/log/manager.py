"""All logs of a node, and what is noted about them besides.

Rule: a note never vouches for more than is durable. What it vouches for is synced before it is
written, and it is taken back before what it says stops being so: the marker of a clean stop before
the first append, a partition's rows before its name is given to another log.

What is awaited here may overlap: each log has a turn, and so have the notes, which come after any
log's. One log's failure is no other's (B156): it is in the answer.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from types import MappingProxyType
from typing import Final

from actors.broker.log.checkpoints import (
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    mark_clean_shutdown,
    unmark_clean_shutdown,
    was_clean_shutdown,
)
from actors.broker.log.cleaner import Cleaned, Pause
from actors.broker.log.compaction import Compaction
from actors.broker.log.config import LogConfig
from actors.broker.log.cutting import Cutting, Failures, Then, nothing, take_turns
from actors.broker.log.folders import (
    NotALog,
    folder_to_delete,
    is_future,
    is_to_be_deleted,
    parse_folder,
)
from actors.broker.log.log import Log
from actors.broker.log.notes import Notes, Offsets, Stranger
from actors.broker.log.segments import Jitter
from actors.broker.log.swaps import finish_swaps
from runtime.files import Disk, DiskError, FileClosed
from runtime.turn import let_others_run
from wire.errors import BadData, KafkaStorageError
from wire.ids import Offset, TopicPartition

_MANY: Final = 500  # logs that are looked at without a break


class LogManager:
    """Opens, notes, flushes, cuts, deletes and closes the logs of one disk."""

    def __init__(
        self, disk: Disk, unique_hex: Callable[[], str], jitter: Jitter | None = None
    ) -> None:
        self.strangers: tuple[Stranger, ...] = ()
        self._disk = disk
        self._unique_hex = unique_hex  # 32 digits, as of a UUID
        self._jitter = jitter
        self._logs: dict[TopicPartition, Log] = {}
        self._failures: dict[TopicPartition, KafkaStorageError] = {}
        self._notes = Notes(disk)
        self._compaction = Compaction(disk, self._logs, self._notes)
        self._cutting = Cutting(self._logs, self._notes)
        self._marked: list[tuple[int, str]] = []  # when these folders may go
        self._is_over = False

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
        strangers = manager._notes.read()
        for name in disk.list():
            if not disk.is_directory(name) or is_future(name):
                continue
            if is_to_be_deleted(name):
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
        async with manager._notes.turn:  # one of a name that was known may come again
            await manager._notes.forget_all_but({*manager._logs, *manager._failures})
        return manager

    @property
    def logs(self) -> Mapping[TopicPartition, Log]:
        """Those that are open."""
        return MappingProxyType(self._logs)

    @property
    def failures(self) -> Failures:
        """Those that could not be opened, and why. Their files are left for people to look at."""
        return MappingProxyType(self._failures)

    @property
    def uncleanable(self) -> Mapping[TopicPartition, BadData | KafkaStorageError]:
        """Those that compaction gave up on, and why."""
        return MappingProxyType(self._compaction.uncleanable)

    def get(self, partition: TopicPartition) -> Log | None:
        """A partition's log, if it is there already."""
        return self._logs.get(partition)

    def get_or_create(self, partition: TopicPartition, config: LogConfig, now_ms: int) -> Log:
        """A partition's log. A new one has no files before its first append (D6)."""
        if partition in self._failures:
            raise self._failures[partition]
        if partition not in self._logs:
            if self._is_over:
                raise KafkaStorageError(f"{partition} is asked for after the end of its node")
            folder, jitter = str(partition), self._jitter
            self._logs[partition] = Log.open(
                self._disk, folder, config, now_ms=now_ms, is_clean=True, jitter=jitter
            )
        return self._logs[partition]

    def set_config(self, topic: str, config: LogConfig) -> None:
        """Let this hold, from now on, for the logs of a topic that are open."""
        for partition, log in self._logs.items():
            if partition.topic == topic:
                log.reconfigure(config)

    def initial_high_watermark(self, partition: TopicPartition) -> Offset:
        """What the checkpoint says, within what the log has (B173)."""
        log = self._logs[partition]
        noted = self._notes.rows(HIGH_WATERMARKS).get(partition, log.log_start_offset)
        return max(log.log_start_offset, min(noted, log.log_end_offset))

    async def _load(
        self, partition: TopicPartition, config: LogConfig, now_ms: int, is_clean: bool
    ) -> None:
        try:
            await finish_swaps(self._disk, str(partition))
            self._logs[partition] = Log.open(
                self._disk,
                str(partition),
                config,
                now_ms=now_ms,
                is_clean=is_clean,
                recovery_point=self._notes.rows(RECOVERY_POINTS).get(partition, Offset(0)),
                log_start_offset=self._notes.rows(LOG_START_OFFSETS).get(partition, Offset(0)),
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
        async with self._notes.turn:
            logs = self._logs.items()
            points = {at: log.recovery_point for at, log in logs if log.has_segments}
            await self._note(RECOVERY_POINTS, points)

    async def checkpoint_log_start_offsets(self) -> None:
        """As LogManager.checkpointLogStartOffsetsInDir: only those that the files do not tell."""
        async with self._notes.turn:
            starts = {
                at: log.log_start_offset
                for at, log in self._logs.items()
                if log.has_segments and log.log_start_offset > log.segments[0].base_offset
            }
            await self._note(LOG_START_OFFSETS, starts)

    async def checkpoint_high_watermarks(self, high_watermarks: Offsets) -> None:
        """Whose high watermark is not given here keeps the one that was last noted."""
        async with self._notes.turn:
            known = {**self._notes.rows(HIGH_WATERMARKS), **high_watermarks}
            # What was given may be of before a truncation that went first.
            rows = {
                at: min(offset, self._logs[at].log_end_offset) if at in self._logs else offset
                for at, offset in known.items()
            }
            await self._note(HIGH_WATERMARKS, rows)

    async def _note(self, file: str, offsets: Offsets) -> None:
        """Of these rows those of our logs, and those of logs that failed."""
        rows = {at: offset for at, offset in offsets.items() if at in self._logs}
        rows |= {at: row for at, row in self._notes.rows(file).items() if at in self._failures}
        await self._notes.write(file, rows)

    # --- cutting ------------------------------------------------------------------------------

    async def truncate(self, offsets: Offsets, then: Then = nothing) -> Failures:
        """Cut logs, durably: what a follower appends next is not mixed with what was there.

        `then` hears of each at the moment of its cut: durable takes longer.

        A leader may append before this has returned: its epoch tells its records apart (I-22).
        """
        ends = {at: log.log_end_offset for at in offsets if (log := self._logs.get(at)) is not None}
        cut = {at: offsets[at] for at, end in ends.items() if offsets[at] < end}
        return await self._cutting.cut(cut, lambda at, log: log.truncate_to(offsets[at]), then)

    async def truncate_fully_and_start_at(
        self, partition: TopicPartition, offset: Offset, then: Then = nothing
    ) -> None:
        """Empty a log, durably, and let it go on from here."""
        failures = await self._cutting.cut(
            {partition: Offset(0)}, lambda _, log: log.truncate_fully_and_start_at(offset), then
        )
        for failure in failures.values():
            raise failure

    # --- deleting -----------------------------------------------------------------------------

    async def delete(self, partition: TopicPartition, now_ms: int) -> None:
        """Take a log out of the way at once; its files go later, with `delete_marked`.

        When this returns, the partition's name is free for another log.
        """
        for failure in (await self.delete_all([partition], now_ms)).values():
            raise failure

    async def delete_all(self, partitions: Iterable[TopicPartition], now_ms: int) -> Failures:
        """The same of many: the notes are written once."""
        logs = {at: self._logs.get(at) for at in sorted(partitions)}
        failures: dict[TopicPartition, KafkaStorageError] = {}
        async with AsyncExitStack() as turns:
            await take_turns(turns, logs)  # whoever flushes or swaps comes to its end
            try:
                async with self._notes.turn:
                    await self._notes.forget(at for at in logs if self._logs.get(at) is logs[at])
                    for at, log in logs.items():
                        if self._logs.get(at) is log:  # else another was faster
                            self._take_away(at, now_ms, failures)
                await self._disk.sync_directory("")
            except (KafkaStorageError, DiskError) as error:
                failure = KafkaStorageError(f"not deleted: {error}")
                failure.__cause__ = error
                failures = dict.fromkeys(logs, failure) | failures
        return failures

    def _take_away(
        self,
        partition: TopicPartition,
        now_ms: int,
        failures: dict[TopicPartition, KafkaStorageError],
    ) -> None:
        log, delay_ms = self._logs.get(partition), 0
        name = folder_to_delete(partition, self._unique_hex())
        try:
            if log is not None:
                log.abandon()
                log.rename(name)  # whoever still has it must not meet the files of the next one
                delay_ms = log.config.file_delete_delay_ms
            elif partition in self._failures:
                self._disk.rename(str(partition), name)
            if self._disk.exists(name):
                self._marked.append((now_ms + delay_ms, name))
            self._failures.pop(partition, None)
        except (KafkaStorageError, DiskError) as error:
            failures[partition] = KafkaStorageError(f"{partition} cannot be deleted: {error}")
            self._failures[partition] = failures[partition]
        self._logs.pop(partition, None)
        self._compaction.uncleanable.pop(partition, None)

    async def delete_marked(self, now_ms: int) -> int:
        """Remove the folders of logs deleted at least file.delete.delay.ms ago; how many."""
        count = 0
        for each in sorted(each for each in self._marked if each[0] <= now_ms):
            try:
                self._disk.remove_tree(each[1])
            except FileClosed:
                raise
            except DiskError:
                continue  # it is tried again, and so is it at the next start
            self._marked.remove(each)
            count += 1
        if count:
            await self._disk.sync_directory("")
        return count

    async def delete_old_segments(self, high_watermarks: Offsets, now_ms: int) -> Failures:
        """Retention, and the files of what went file.delete.delay.ms ago (B174)."""

        async def shorten(at: TopicPartition, log: Log) -> None:
            high_watermark = high_watermarks.get(at, Offset(0))
            if log.is_retention_due(now_ms, high_watermark):
                async with log.turn:
                    if not log.is_closed:
                        log.delete_old_segments(now_ms, high_watermark)
                        log.purge(now_ms)

        return await self._to_each(shorten)

    # --- the rest -----------------------------------------------------------------------------

    async def flush_dirty(self, now_ms: int) -> Failures:
        """Flush the logs for which flush.messages or flush.ms demand it."""

        async def flush(_: TopicPartition, log: Log) -> None:
            if log.is_flush_due(now_ms):
                await log.flush()

        return await self._to_each(flush)

    async def clean_dirtiest(
        self, high_watermarks: Offsets, now_ms: int, pause: Pause = let_others_run
    ) -> tuple[TopicPartition, Cleaned] | None:
        """Compact the log with most to gain, if any has more than min.cleanable.dirty.ratio.

        KafkaStorageError if its disk refused: it is uncleanable then, and others are next.
        """
        return await self._compaction.clean_dirtiest(
            high_watermarks, now_ms, pause, self.checkpoint_recovery_points
        )

    async def _to_each(self, act: Callable[[TopicPartition, Log], Awaitable[None]]) -> Failures:
        failures: dict[TopicPartition, KafkaStorageError] = {}
        for number, (at, log) in enumerate(sorted(self._logs.items(), key=lambda each: each[0])):
            if number % _MANY == _MANY - 1:
                await let_others_run()
            try:
                await act(at, log)
            except KafkaStorageError as failure:
                failures[at] = failure
        return failures

    # --- the end ------------------------------------------------------------------------------

    async def clean_shutdown(self, high_watermarks: Offsets) -> bool:
        """Flush and close all, note where they end, and last of all that it was so.

        False if that cannot be said because a log has failed: the next start recovers them all.
        """

        self._is_over = True
        failures = await self._to_each(lambda _, log: log.close())
        is_clean = not failures and not self._failures
        await self._compaction.ended()  # its log is closed: it gives up
        try:
            await self.checkpoint_recovery_points()
            await self.checkpoint_log_start_offsets()
            await self.checkpoint_high_watermarks(high_watermarks)
        except KafkaStorageError:
            is_clean = False
        if is_clean and not self._notes.is_abandoned:
            await mark_clean_shutdown(self._disk)
        return is_clean

    def abandon(self) -> None:
        """Let go of all files as they are: the node is gone, and its disk may be another's."""
        self._is_over = self._notes.is_abandoned = True
        self._marked.clear()
        for log in self._logs.values():
            log.abandon()
