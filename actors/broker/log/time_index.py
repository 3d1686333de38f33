"""From when on a segment's records are: Kafka's .timeindex file (B168).

Rule: an entry is a timestamp in 8 bytes and an offset relative to the base in 4; up to that offset
no record is later than that. Timestamps rise from entry to entry, and offsets do not fall.
"""

import struct
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from actors.broker.log.config import MAX_INT32
from actors.broker.log.index_file import Index, IndexFull, count_rising
from runtime.files import Disk
from wire.ids import NO_TIMESTAMP_MS, Offset

_ENTRY: Final = struct.Struct(">qi")
_TIMESTAMP: Final = struct.Struct(">q")
_OFFSET: Final = struct.Struct(">i")


class TimestampOffset(NamedTuple):
    """An entry: no record up to this offset has a later timestamp."""

    timestamp_ms: int
    offset: Offset


class TimeIndex(Index[TimestampOffset]):
    """The latest timestamp so far, every few kilobytes of a segment."""

    def __init__(self, disk: Disk, path: str, base_offset: Offset, max_bytes: int) -> None:
        super().__init__(disk, path, base_offset, max_bytes, _ENTRY.size)

    @property
    def is_full(self) -> bool:
        """As TimeIndex.isFull: the last place is for the entry made when the segment closes."""
        return self.entries.count >= self.entries.max_count - 1

    def maybe_append(self, timestamp_ms: int, offset: Offset, *, closing: bool = False) -> None:
        """Note it if it is later than what is known; IndexFull if there is no room."""
        last = self.last
        if timestamp_ms <= last.timestamp_ms:
            return
        assert offset >= last.offset, f"({timestamp_ms}, {offset}) does not follow {last}"
        if self.is_full and not closing:
            raise IndexFull
        self.entries.append(_ENTRY.pack(timestamp_ms, offset - self._base_offset))
        self._last = self.entries.last, TimestampOffset(timestamp_ms, offset)

    @property
    def room(self) -> int:
        """For how many entries, besides the one made when the segment closes."""
        return max(0, self.entries.max_count - 1 - self.entries.count)

    def extend(self, rising: Sequence[tuple[int, int]]) -> None:
        """Append many at once, as they are in the file. There is room for them."""
        if rising:
            self.entries.extend(b"".join([_ENTRY.pack(*each) for each in rising]))

    def lookup(self, timestamp_ms: int) -> TimestampOffset:
        """The greatest entry that is not later, or one before all time."""
        if timestamp_ms < 0:
            return self._decode(b"")
        count = self.entries.count_up_to(_TIMESTAMP.pack(timestamp_ms))
        return self._decode(self.entries.entry(count - 1) if count else b"")

    def all(self) -> Iterator[TimestampOffset]:
        """Every entry, in order."""
        for timestamp_ms, relative in _ENTRY.iter_unpack(self.entries.all()):
            yield TimestampOffset(timestamp_ms, Offset(self._base_offset + relative))

    def keep_sound(self, below: Offset) -> None:
        """After a crash: keep the first entries, as long as they rise and are below the offset."""
        entries = list(_ENTRY.iter_unpack(self.entries.all()))
        relatives = (0, *(relative for _, relative in entries))
        times = (NO_TIMESTAMP_MS, *(timestamp_ms for timestamp_ms, _ in entries))
        count = min(count_rising(times), count_rising(relatives, strictly=False))
        self.entries.truncate(bisect_left(relatives, below - self._base_offset, 1, count) - 1)

    def truncate_to(self, offset: Offset) -> None:
        """Forget what is known of this offset and those after it."""
        relative = min(offset - 1 - self._base_offset, MAX_INT32)
        count = 0
        if relative >= 0:
            count = self.entries.count_up_to(_OFFSET.pack(relative), start=_TIMESTAMP.size)
        self.entries.truncate(count)

    def _decode(self, entry: bytes) -> TimestampOffset:
        if not entry:
            return TimestampOffset(NO_TIMESTAMP_MS, self._base_offset)
        timestamp_ms, relative = _ENTRY.unpack(entry)
        return TimestampOffset(timestamp_ms, Offset(self._base_offset + relative))
