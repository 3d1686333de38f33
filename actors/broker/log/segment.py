"""A stretch of a log: a file of batches, and two indexes to find things in it (B168 to B171).

Rule: `size` is how much of the file counts; it moves when an append has succeeded in all three
files, so nothing half-appended is ever read. Files are opened when they are first used. What the
disk refuses is a DiskError here: the log makes of it what its callers know.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from actors.broker.log import names
from actors.broker.log.config import MAX_INT32, LogConfig
from actors.broker.log.epochs import LeaderEpochCache
from actors.broker.log.offset_index import OffsetIndex
from actors.broker.log.scan import headers, sound_batches
from actors.broker.log.time_index import TimeIndex, TimestampOffset
from runtime.files import Data, Disk, DiskError, File, FileMissing
from wire.errors import CorruptRecordBatch
from wire.ids import NO_LEADER_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP_MS, Offset
from wire.records import BatchHeader

_REMEMBERED: Final = 16  # places


class Mark(NamedTuple):
    """A segment's state, to which it can be put back."""

    size: int
    next_offset: Offset
    offset_entries: int
    time_entries: int
    largest: TimestampOffset
    first_timestamp_ms: int | None


class Segment:
    """The batches from a base offset on."""

    def __init__(
        self, disk: Disk, folder: str, base_offset: Offset, config: LogConfig, created_ms: int
    ) -> None:
        self.folder = folder
        self.base_offset = base_offset
        self.created_ms = created_ms  # or loaded: by whose clock records without a time age
        self.jitter_ms = 0
        self.has_producers = False  # seen by a scan
        self._disk = disk
        self.config = config
        self._size: int | None = None
        self._next_offset: Offset | None = None
        self._largest: TimestampOffset | None = None
        self._first_timestamp_ms: int | None = None
        self._file: File | None = None
        self._offsets: OffsetIndex | None = None
        self._times: TimeIndex | None = None
        # Where batches begin that were appended or come next for a reader: no look-up for these.
        self._places: dict[Offset, int] = {}

    # --- its files ----------------------------------------------------------------------------

    def path(self, kind: str, suffix: str = "") -> str:
        """Of one of its files."""
        return f"{self.folder}/{names.file_name(self.base_offset, kind, suffix)}"

    @property
    def file(self) -> File:
        """The batches."""
        if self._file is None:
            self._file = self._disk.open(self.path(names.LOG))
        return self._file

    @property
    def offsets(self) -> OffsetIndex:
        """From offset to position."""
        if self._offsets is None:
            path, most = self.path(names.OFFSET_INDEX), self.config.segment_index_bytes
            self._offsets = OffsetIndex(self._disk, path, self.base_offset, most)
        return self._offsets

    @property
    def times(self) -> TimeIndex:
        """From timestamp to offset."""
        if self._times is None:
            path, most = self.path(names.TIME_INDEX), self.config.segment_index_bytes
            self._times = TimeIndex(self._disk, path, self.base_offset, most)
        return self._times

    def create(self) -> None:
        """Make its files, empty: a crash or a full disk may have left some of that name."""
        self._file = self._disk.open(self.path(names.LOG), create=True)
        self._cut_file(0)
        self.offsets.entries.truncate(0)
        self.times.entries.truncate(0)
        self._size, self._next_offset = 0, self.base_offset
        self._largest = TimestampOffset(NO_TIMESTAMP_MS, self.base_offset)

    @property
    def has_sound_indexes(self) -> bool:
        """Whether both are made of whole entries, and say nothing of what is not there."""
        if not (self.offsets.entries.is_whole and self.times.entries.is_whole):
            return False
        return self.offsets.entries.count == 0 or self.offsets.last.position < self.size

    # --- what it holds ------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """In bytes, of the batches."""
        if self._size is None:
            self._size = self._disk.size(self.path(names.LOG))
        return self._size

    @property
    def next_offset(self) -> Offset:
        """One more than its last offset; the base offset if it is empty."""
        if self._next_offset is None:
            self._next_offset = self.base_offset
            for _, header in headers(self.file, self.offsets.last.position, self.size):
                self._next_offset = header.next_offset
        return self._next_offset

    @property
    def largest(self) -> TimestampOffset:
        """Its latest timestamp: a segment that is closed has it as the last entry of its index."""
        if self._largest is None:
            self._largest = self.times.last
        return self._largest

    @property
    def largest_timestamp_ms(self) -> int:
        """When its latest record was made; when it was loaded if none has a time."""
        return self.largest.timestamp_ms if self.largest.timestamp_ms >= 0 else self.created_ms

    @property
    def first_timestamp_ms(self) -> int | None:
        """Of the first batch, the latest timestamp: a segment's age counts from there."""
        if self._first_timestamp_ms is None and self.size:
            _, header = next(headers(self.file, 0, self.size))
            self._first_timestamp_ms = header.max_timestamp_ms
        return self._first_timestamp_ms

    def should_roll(self, header: BatchHeader, size: int, now_ms: int) -> bool:
        """Whether a batch belongs in a new segment (B169); `size` counts what is about to come."""
        if size == 0:  # one batch always finds room
            return header.last_offset - self.base_offset > MAX_INT32
        return (
            size + header.size_in_bytes > self.config.segment_bytes
            # As LogSegment.shouldRoll: strictly older.
            or self._age_ms(header, now_ms) > self.config.segment_ms - self.jitter_ms
            or self.offsets.is_full
            or self.times.is_full
            or header.last_offset - self.base_offset > MAX_INT32
        )

    def _age_ms(self, header: BatchHeader, now_ms: int) -> int:
        """By the records' own time where they have one, so that replicas roll alike."""
        first_ms = self.first_timestamp_ms
        if first_ms is not None and first_ms >= 0:
            return header.max_timestamp_ms - first_ms
        return now_ms - self.created_ms

    # --- writing ------------------------------------------------------------------------------

    def mark(self) -> Mark:
        """To come back to if what follows fails."""
        return Mark(
            self.size,
            self.next_offset,
            self.offsets.entries.count,
            self.times.entries.count,
            self.largest,
            self._first_timestamp_ms,
        )

    def restore(self, mark: Mark) -> DiskError | None:
        """Be as it was then, whatever the disk says: an error if the files could not follow."""
        self._places.clear()
        self._size, self._next_offset = mark.size, mark.next_offset
        self._largest, self._first_timestamp_ms = mark.largest, mark.first_timestamp_ms
        refused = None
        for truncate, size in (
            (self.offsets.entries.truncate, mark.offset_entries),
            (self.times.entries.truncate, mark.time_entries),
            (self._cut_file, mark.size),
        ):
            try:
                truncate(size)
            except DiskError as error:
                refused = error
        return refused

    def _cut_file(self, size: int) -> None:
        if self.file.size != size:
            self.file.truncate(size)

    def append(self, parts: Sequence[Data], batches: Sequence[BatchHeader], now_ms: int) -> None:
        """Write these batches, of which the parts are. If it fails, `restore` what was marked."""
        position = self.size
        if not position:
            self.created_ms = now_ms
        self.file.write_at(position, *parts)
        largest, interval = self.largest, self.config.index_interval_bytes
        # What lies between is counted from the last entry's position: nothing else is to be kept.
        indexed_at = self.offsets.last.position
        for header in batches:
            time_ms, last_offset = header.max_timestamp_ms, header.last_offset
            if position == 0:
                self._first_timestamp_ms = time_ms
            if time_ms > largest.timestamp_ms:
                self._largest = largest = TimestampOffset(time_ms, last_offset)
            if position - indexed_at > interval:
                self._index(last_offset, position)
                indexed_at = position
            self._remember(header.base_offset, position)
            position += header.size_in_bytes
        self._size, self._next_offset = position, Offset(last_offset + 1)

    def _index(self, last_offset: Offset, position: int) -> None:
        """Let the indexes know of a batch, if both have room."""
        offsets, times, largest = self.offsets, self.times, self.largest
        if not offsets.is_full and not times.is_full:
            offsets.append(last_offset, position)
            if largest.timestamp_ms > times.last.timestamp_ms:
                times.maybe_append(*largest)

    def close_indexes(self) -> None:
        """Note the latest timestamp, for nothing more will be appended for now."""
        self.times.maybe_append(*self.largest, closing=True)

    async def sync(self) -> None:
        """Make it durable, unless it goes away meanwhile."""
        file, indexes = self.file, (self._offsets, self._times)
        await file.sync()
        for index in indexes:
            if self._file is file and index is not None:  # one not open has nothing new in it
                await index.entries.sync()

    # --- reading ------------------------------------------------------------------------------

    def find(self, offset: Offset) -> tuple[int, BatchHeader] | None:
        """The first batch that ends with this offset or a later one (B170)."""
        start = self._places.get(offset)
        if start is None:
            start = self.offsets.lookup(offset).position
        for position, header in headers(self.file, start, self.size):
            if header.last_offset >= offset:
                self._remember(header.next_offset, position + header.size_in_bytes)
                return position, header
        return None

    def _remember(self, offset: Offset, position: int) -> None:
        """A batch with this offset begins there, or will."""
        places = self._places
        places[offset] = position
        if len(places) > _REMEMBERED:
            del places[next(iter(places))]

    def find_since(self, timestamp_ms: int, offset: Offset) -> tuple[int, BatchHeader] | None:
        """The first batch with a record of this time or later, not before the offset."""
        known = max(self.times.lookup(timestamp_ms - 1).offset, offset)
        start = self.offsets.lookup(Offset(known)).position
        for position, header in headers(self.file, start, self.size):
            if header.max_timestamp_ms >= timestamp_ms and header.last_offset >= offset:
                return position, header
        return None

    # --- mending ------------------------------------------------------------------------------

    def truncate_to(self, offset: Offset) -> tuple[Offset, DiskError | None]:
        """Cut before the batch that holds this offset, and say where the segment ends now.

        With an error, if that was done but the indexes could not follow.
        """
        found = self.find(offset)
        if found is None:
            return offset, None
        position, header = found
        end = min(offset, header.base_offset)  # a batch is kept or goes, as a whole
        self.file.truncate(position)
        self._places.clear()
        self._size, self._next_offset = position, end
        if position == 0:
            self._first_timestamp_ms = None
        try:
            self.offsets.truncate_to(end)
            self.times.truncate_to(end)
            self._reload_largest()
        except DiskError as error:
            return end, error
        return end, None

    def _reload_largest(self) -> None:
        """Up to the last entry of the one index the other knows all; from there, batch by batch."""
        largest = self.times.last
        for _, header in headers(self.file, self.offsets.last.position, self.size):
            if header.max_timestamp_ms > largest.timestamp_ms:
                largest = TimestampOffset(header.max_timestamp_ms, header.last_offset)
        self._largest = largest

    def recover(
        self, durable: Offset | None, *, epochs: LeaderEpochCache | None, gaps: bool
    ) -> bool:
        """Scan it, index it anew, and cut at the first batch that is bad (B171).

        What is before the durable offset is not scanned as far as the index leads there. Epochs are
        assigned as the batches say, if a cache is given. Whether all of it was sound.
        """
        end = self.size
        position, offset = self._trust(durable)
        self._size, self._next_offset = position, offset
        self._reload_largest()
        if epochs is not None:
            epochs.truncate_from_end(offset)
        self._scan(position, end, offset, epochs, gaps)
        self._cut_file(self.size)
        self.close_indexes()
        return self.size == end

    def _scan(
        self, start: int, end: int, offset: Offset, epochs: LeaderEpochCache | None, gaps: bool
    ) -> None:
        """Go as far as the batches are sound and follow each other. The hot loop of a start."""
        largest_ms, largest_at = self.largest
        known_ms, indexed_at = self.times.last.timestamp_ms, self.offsets.last.position
        entries: list[int] = []
        times: list[tuple[int, int]] = []
        room, times_room = 2 * self.offsets.room, self.times.room
        interval = self.config.index_interval_bytes
        first, most = self.base_offset, self.base_offset + MAX_INT32
        known_epoch = NO_LEADER_EPOCH if epochs is None else epochs.latest_epoch
        for at, size, base, last, epoch, time_ms, producer in sound_batches(self.file, start, end):
            if base < offset or last > most or (base > offset and not gaps):
                break
            if epoch != known_epoch and epochs is not None:
                if epoch < known_epoch:
                    break  # I-22: an earlier leader's, which a truncation had removed
                epochs.assign(epoch, base)
                known_epoch = epoch
            if time_ms > largest_ms:
                largest_ms, largest_at = time_ms, last
            if producer > NO_PRODUCER_ID:
                self.has_producers = True
            if at - indexed_at > interval and len(entries) < room and len(times) < times_room:
                indexed_at = at
                entries += last - first, at
                if largest_ms > known_ms:
                    known_ms = largest_ms
                    times.append((largest_ms, largest_at - first))
            offset, start = Offset(last + 1), at + size
        self._size, self._next_offset = start, offset
        self._largest, self._first_timestamp_ms = TimestampOffset(largest_ms, largest_at), None
        self.offsets.extend(entries)
        self.times.extend(times)

    def _trust(self, durable: Offset | None) -> tuple[int, Offset]:
        """Keep of the indexes what is durable, and say to which batch that leads."""
        if durable is not None:
            self.offsets.keep_sound(durable)
            entry = self.offsets.last
            with suppress(CorruptRecordBatch, StopIteration):
                _, header = next(headers(self.file, entry.position, self.size))
                if entry.position and header.last_offset == entry.offset:
                    self.times.keep_sound(header.base_offset)
                    return entry.position, header.base_offset
        self.offsets.entries.truncate(0)
        self.times.entries.truncate(0)
        return 0, self.base_offset

    # --- going away ---------------------------------------------------------------------------

    def rename(self, suffix: str) -> None:
        """Give its files a suffix. The batches go first: an index alone is removed at a start."""
        self.close()
        with suppress(FileMissing):
            self._disk.rename(self.path(names.LOG), self.path(names.LOG, suffix))
        for kind in names.INDEXES:
            with suppress(DiskError):
                self._disk.rename(self.path(kind), self.path(kind, suffix))

    def remove(self, suffix: str = "") -> None:
        """Remove its files, in the same order."""
        self.close()
        if self._disk.exists(self.path(names.LOG, suffix)):
            self._disk.remove(self.path(names.LOG, suffix))
        for kind in names.INDEXES:
            with suppress(DiskError):
                self._disk.remove(self.path(kind, suffix))

    def close(self) -> None:
        """Let go of its files; they are opened again when used."""
        if self._file is not None:
            self._file.close()
        if self._offsets is not None:
            self._offsets.entries.close()
        if self._times is not None:
            self._times.entries.close()
        self._file = self._offsets = self._times = None
