"""The part of a log that makes it last: what is durable, and who may change the files' names.

Rule: the recovery point moves only when all before it is durable, and with it what is known there
of producers. A flush waits, and so does a close; meanwhile others append, and a truncation takes
from what a flush under way can vouch for.
"""

from actors.broker.log.config import LogConfig
from actors.broker.log.epochs import LeaderEpochCache
from actors.broker.log.memory import ProducerMemory
from actors.broker.log.segments import Segments
from actors.broker.log.storage import Storage
from runtime.files import Disk
from runtime.turn import Turn
from wire.ids import Offset


class DurableLog:
    """Segments on a disk, and up to where they would survive a power cut."""

    __slots__ = (
        "_disk",
        "_flushing_upto",
        "_segments",
        "_turn",
        "_unflushed_since_ms",
        "config",
        "cuts",
        "epochs",
        "is_closed",
        "log_end_offset",
        "log_start_offset",
        "producers",
        "recovery_point",
    )

    def __init__(
        self,
        disk: Disk,
        config: LogConfig,
        segments: Segments,
        epochs: LeaderEpochCache,
        log_start_offset: Offset,
        log_end_offset: Offset,
        recovery_point: Offset,
        producers: ProducerMemory | None,
    ) -> None:
        self.config = config
        self.epochs = epochs
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.recovery_point = recovery_point  # all before it is durable
        self.producers = producers  # None: no idempotent producer ever wrote here
        self.cuts = 0  # how often its end went back
        self.is_closed = False  # its files are no longer ours to write: closed, deleted, abandoned
        self._disk = disk
        self._segments = segments
        # Of the flush that is under way: a truncation takes from what that can vouch for.
        self._flushing_upto: Offset | None = None
        self._unflushed_since_ms: int | None = None
        self._turn: Turn | None = None  # most logs of a node rest

    @property
    def folder(self) -> str:
        """Where its files are."""
        return self._segments.folder

    @property
    def turn(self) -> Turn:
        """Of who flushes, cuts, swaps, closes or deletes."""
        if self._turn is None:
            self._turn = Turn()
        return self._turn

    def is_flush_due(self, now_ms: int) -> bool:
        """Whether flush.messages or flush.ms demand one."""
        unflushed = self.log_end_offset - self.recovery_point
        if not unflushed:
            return False
        since_ms = now_ms if self._unflushed_since_ms is None else self._unflushed_since_ms
        return unflushed >= self.config.flush_messages or now_ms - since_ms >= self.config.flush_ms

    async def flush(self, upto: Offset | None = None) -> None:
        """Make all before an offset durable, and move the recovery point there.

        A log that was closed or deleted meanwhile is left as it is.
        """
        target = self.log_end_offset if upto is None else min(upto, self.log_end_offset)
        # While another flush is under way, what it does is not done yet: it is waited for.
        if self._flushing_upto is not None or self._needs_flush(target):
            async with self.turn:
                await self.flush_in_turn(target)

    def _needs_flush(self, target: Offset) -> bool:
        return not self.is_closed and (target > self.recovery_point or self._segments.must_sync)

    async def flush_in_turn(self, upto: Offset) -> None:
        """The same, for one who holds the log's turn."""
        target = min(upto, self.log_end_offset)
        if self._needs_flush(target):
            await self._flush(target)

    async def _flush(self, target: Offset) -> None:
        segments = self._segments
        with Storage(self.folder):
            if not segments.all and not self._disk.exists(self.folder):
                return
        must_sync, is_new = segments.must_sync, segments.folder_is_new
        since_ms = self._unflushed_since_ms
        if target == self.log_end_offset:
            self._unflushed_since_ms = None  # what is appended from now on is not in it
        self._flushing_upto = target
        segments.must_sync = segments.folder_is_new = False
        try:
            with Storage(self.folder):
                if self.producers is not None:
                    bases = [each.base_offset for each in segments.all]
                    await self.producers.save(self.folder, target, bases)
                await segments.sync(
                    self.recovery_point, target, self.epochs, names=must_sync, folder=is_new
                )
            durable = self._flushing_upto
        except BaseException:
            segments.must_sync, segments.folder_is_new = True, segments.folder_is_new or is_new
            self._unflushed_since_ms = since_ms
            raise
        finally:
            self._flushing_upto = None
        self.recovery_point = max(self.recovery_point, durable)

    async def close(self) -> None:
        """Flush all and let go: after this, and only this, the log may be opened as clean."""
        async with self.turn:
            if self.is_closed:
                return
            self.is_closed = True  # an append during the flush would not be in it
            try:
                with Storage(self.folder):
                    if self._segments.failure is not None:
                        raise self._segments.failure
                    if self._segments.all:
                        self._segments.all[-1].close_indexes()
                self._segments.must_sync = True
                if self.producers is not None and self._segments.all:
                    self.producers.note(self.log_end_offset)
                await self._flush(self.log_end_offset)
            finally:
                self.abandon()

    def abandon(self) -> None:
        """Let go of all files as they are, and write to them no more."""
        self.is_closed = True
        self._segments.close()
