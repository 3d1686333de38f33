"""The segments of one log, in order: how they are written to, added and taken away.

Rule: an append is done to all the segments that it touches, or to none, whatever the disk says. The
oldest go first and the newest go first, never one between, so a crash leaves no hole.
"""

from collections.abc import Callable, Iterator, Sequence

from actors.broker.log.appending import Accepted
from actors.broker.log.checkpoints import LEADER_EPOCHS
from actors.broker.log.config import MAX_INT32, LogConfig
from actors.broker.log.epochs import LeaderEpochCache, save_epochs
from actors.broker.log.loading import remove_newest_first
from actors.broker.log.names import DELETED
from actors.broker.log.reading import floor
from actors.broker.log.segment import Mark, Segment
from runtime.files import Data, Disk, DiskError, FileClosed
from wire.ids import Offset
from wire.records import BatchHeader

Jitter = Callable[[int], int]  # a number below this one, by chance


class Segments:
    """The last one is active: it alone grows."""

    __slots__ = (
        "_config",
        "_disk",
        "_jitter",
        "_retired",
        "all",
        "failure",
        "folder",
        "folder_is_new",
        "is_let_go",
        "must_sync",
    )

    def __init__(
        self,
        disk: Disk,
        folder: str,
        config: LogConfig,
        found: list[Segment],
        jitter: Jitter | None,
    ) -> None:
        self.folder = folder
        self.all = found
        self.must_sync = True  # names, or bytes that were durable, have perhaps changed since
        self.folder_is_new = False
        self.is_let_go = False
        self.failure: DiskError | None = None  # the files could not follow: they are not to grow
        self._disk = disk
        self._config = config
        self._jitter = jitter
        self._retired: tuple[tuple[int, Segment], ...] = ()  # when their files may go, oldest first

    def write(self, accepted: Accepted, end_offset: Offset, now_ms: int) -> bool:
        """All batches or none; whether a segment was completed."""
        if self.failure is not None:
            raise self.failure
        before = self._mark()
        count, headers = len(self.all), accepted.headers
        try:
            if count and len(headers) == 1:  # as it mostly is
                active = self.all[-1]
                if not active.should_roll(headers[0], active.size, now_ms):
                    parts = accepted.parts(0, len(accepted.data), 0, 1)
                    active.append(parts, headers, now_ms)
                    return False
            for base_offset, parts, headers in self._plan(accepted, end_offset, now_ms):
                if base_offset is not None:
                    self._add(base_offset, now_ms)
                self.all[-1].append(parts, headers, now_ms)
        except DiskError:
            self._undo(count, before)
            raise
        return len(self.all) > max(count, 1)

    def roll(self, base_offset: Offset, now_ms: int) -> None:
        """Make a new active segment."""
        before = self._mark()
        count = len(self.all)
        try:
            self._add(base_offset, now_ms)
        except DiskError:
            self._undo(count, before)
            raise

    def remove_newest(self) -> Offset:
        """Take away the active segment, and say where it began."""
        base_offset = self.all[-1].base_offset
        self.must_sync = True
        remove_newest_first(self.all, len(self.all) - 1)
        return base_offset

    def retire_oldest(self, due_ms: int) -> None:
        """Take away the first segment; its files may go when they are due."""
        self.must_sync = True
        self.all[0].rename(DELETED)
        self._retired = (*self._retired, (due_ms, self.all.pop(0)))

    def is_purge_due(self, now_ms: int) -> bool:
        """Whether `purge` would do anything."""
        return bool(self._retired) and self._retired[0][0] <= now_ms

    def purge(self, now_ms: int) -> None:
        """Remove the files that are due."""
        while self.is_purge_due(now_ms):
            self.must_sync = True
            self._retired[0][1].remove(DELETED)
            self._retired = self._retired[1:]

    def reconfigure(self, config: LogConfig) -> None:
        """From now on this holds; an index that is there keeps the room that it has."""
        self._config = config
        for segment in self.all:
            segment.config = config

    def reload(self, old: Sequence[Offset], new: Offset) -> None:
        """One segment's file stands in the place of these now."""
        gone = [segment for segment in self.all if segment.base_offset in old]
        for segment in gone:
            segment.close()
        segment = Segment(self._disk, self.folder, new, self._config, gone[0].created_ms)
        at = self.all.index(gone[0])
        self.all[at : at + len(gone)] = [segment]
        self.must_sync = True
        try:
            segment.recover(None, epochs=None, gaps=True)
        except DiskError as error:
            self.failure = error
            raise

    async def sync(
        self, since: Offset, upto: Offset, epochs: LeaderEpochCache, *, names: bool, folder: bool
    ) -> None:
        """Make durable what is between the two; of the names those in our folder, and its own."""
        # A segment that ends where it begins was perhaps closed since.
        for segment in self.all[floor(self.all, Offset(since - 1)) :]:
            if self.is_let_go:
                raise FileClosed(self.folder)  # to sync would open it again
            is_needed = segment.base_offset < upto or names
            if is_needed and segment in self.all:  # not gone while others were synced
                await segment.sync()
        while epochs.is_dirty:
            await save_epochs(epochs, self._disk, f"{self.folder}/{LEADER_EPOCHS}")
        if names:
            await self._disk.sync_directory(self.folder)
        if folder:
            await self._disk.sync_directory(self.folder.rpartition("/")[0])

    def rename(self, folder: str) -> None:
        """Move to another folder."""
        if self._disk.exists(self.folder):
            self._disk.rename(self.folder, folder)
        self.folder = folder
        self.folder_is_new = self.must_sync = True
        for segment in (*self.all, *(segment for _, segment in self._retired)):
            segment.folder = folder

    def close(self) -> None:
        """Let go of all files as they are."""
        self.is_let_go = True
        for segment in self.all:
            segment.close()

    def delete(self) -> None:
        """Remove all files, and the folder."""
        self.close()
        if self._disk.exists(self.folder):
            self._disk.remove_tree(self.folder)
        self.all.clear()
        self._retired = ()

    def _plan(
        self, accepted: Accepted, end: Offset, now_ms: int
    ) -> Iterator[tuple[Offset | None, list[Data], list[BatchHeader]]]:
        """What goes into which segment, with a base offset if that one is yet to be made."""
        base_offset = None if self.all else end
        size = self.all[-1].size if self.all else 0
        first = start = position = 0
        headers: list[BatchHeader] = []
        for number, header in enumerate(accepted.headers):
            new_offset = end if header.last_offset - end <= MAX_INT32 else header.base_offset
            if base_offset is not None and not headers:
                base_offset = new_offset
            elif self._should_roll(base_offset, header, size, now_ms):
                if headers:
                    parts = accepted.parts(start, position, first, len(headers))
                    yield base_offset, parts, headers
                base_offset, size, headers = new_offset, 0, []
                first, start = number, position
            headers.append(header)
            size += header.size_in_bytes
            position += header.size_in_bytes
            end = header.next_offset
        yield base_offset, accepted.parts(start, position, first, len(headers)), headers

    def _should_roll(
        self, base_offset: Offset | None, header: BatchHeader, size: int, now_ms: int
    ) -> bool:
        if base_offset is None:
            return self.all[-1].should_roll(header, size, now_ms)
        too_far = header.last_offset - base_offset > MAX_INT32
        return too_far or size + header.size_in_bytes > self._config.segment_bytes

    def _add(self, base_offset: Offset, now_ms: int) -> None:
        if self.all:
            self.all[-1].close_indexes()
        elif not self._disk.exists(self.folder):
            self._disk.make_directory(self.folder)
            self.folder_is_new = True
        segment = Segment(self._disk, self.folder, base_offset, self._config, now_ms)
        if self._jitter is not None and self._config.segment_jitter_ms:
            most = min(self._config.segment_jitter_ms, self._config.segment_ms)
            segment.jitter_ms = self._jitter(most)
        self.all.append(segment)
        self.must_sync = True
        segment.create()

    def _mark(self) -> tuple[Segment, Mark] | None:
        return (self.all[-1], self.all[-1].mark()) if self.all else None

    def _undo(self, count: int, before: tuple[Segment, Mark] | None) -> None:
        while len(self.all) > count:
            segment = self.all.pop()
            try:
                segment.remove()
            except DiskError as error:
                self.failure = error
        if before is not None:
            active, mark = before
            self.failure = active.restore(mark) or self.failure
