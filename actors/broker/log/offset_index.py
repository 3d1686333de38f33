"""Where in a segment an offset is to be found: Kafka's .index file (B168, B170).

Rule: an entry is the last offset of a batch, relative to the segment's base, and the position where
that batch begins: 4 bytes each. Both rise from entry to entry.
"""

import struct
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from actors.broker.log.config import MAX_INT32
from actors.broker.log.index_file import Index, count_rising
from runtime.files import Disk
from wire.ids import Offset

_ENTRY: Final = struct.Struct(">ii")
_KEY: Final = struct.Struct(">i")


class OffsetPosition(NamedTuple):
    """An entry: a batch ends with this offset and begins at this position."""

    offset: Offset
    position: int


class OffsetIndex(Index[OffsetPosition]):
    """One entry for every few kilobytes of a segment."""

    def __init__(self, disk: Disk, path: str, base_offset: Offset, max_bytes: int) -> None:
        super().__init__(disk, path, base_offset, max_bytes, _ENTRY.size)

    @property
    def is_full(self) -> bool:
        """Whether it refuses one entry more."""
        return self.entries.count >= self.entries.max_count

    def append(self, offset: Offset, position: int) -> None:
        """IndexFull if there is no room."""
        relative = offset - self._base_offset
        last_offset, last_position = self.last
        assert (offset > last_offset and position > last_position) or self.entries.count == 0, (
            f"({offset}, {position}) does not follow ({last_offset}, {last_position})"
        )
        assert 0 <= relative <= MAX_INT32, f"{offset} is too far from {self._base_offset}"
        self.entries.append(_ENTRY.pack(relative, position))
        self._last = self.entries.last, OffsetPosition(offset, position)

    @property
    def room(self) -> int:
        """For how many entries."""
        return self.entries.max_count - self.entries.count

    def extend(self, rising: Sequence[int]) -> None:
        """Append many at once, as they are in the file. There is room for them."""
        if rising:
            self.entries.extend(struct.pack(f">{len(rising)}i", *rising))

    def lookup(self, offset: Offset) -> OffsetPosition:
        """The greatest entry that is not beyond the offset, or the segment's beginning."""
        count = self._count_up_to(offset)
        return self._decode(self.entries.entry(count - 1) if count else b"")

    def all(self) -> Iterator[OffsetPosition]:
        """Every entry, in order."""
        for relative, position in _ENTRY.iter_unpack(self.entries.all()):
            yield OffsetPosition(Offset(self._base_offset + relative), position)

    def keep_sound(self, below: Offset) -> None:
        """After a crash: keep the first entries, as long as they rise and are below the offset."""
        values = struct.unpack(f">{2 * self.entries.count}i", self.entries.all())
        relatives = (-1, *values[::2])
        count = min(count_rising(relatives), count_rising((0, *values[1::2])))
        self.entries.truncate(bisect_left(relatives, below - self._base_offset, 1, count) - 1)

    def truncate_to(self, offset: Offset) -> None:
        """Forget this offset and those after it."""
        self.entries.truncate(self._count_up_to(Offset(offset - 1)))

    def _count_up_to(self, offset: Offset) -> int:
        relative = offset - self._base_offset
        return self.entries.count_up_to(_KEY.pack(min(relative, MAX_INT32))) if relative >= 0 else 0

    def _decode(self, entry: bytes) -> OffsetPosition:
        if not entry:
            return OffsetPosition(self._base_offset, 0)
        relative, position = _ENTRY.unpack(entry)
        return OffsetPosition(Offset(self._base_offset + relative), position)
