"""A sorted table of entries of one size in a file, looked up by halves.

Rule: every entry is greater than the one before it, and the file holds whole entries and nothing
else. As in Kafka it is read as memory. Unlike Kafka's it is as long as its entries, and is written
by system calls: a full disk is then an error and not a signal, and a close has nothing to trim.
"""

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Sequence
from itertools import islice
from operator import le, lt
from typing import Final, Generic, TypeVar

from runtime.files import Disk
from wire.ids import Offset

Entry = TypeVar("Entry")

_BLOCK: Final = 16  # so many entries are read at once


def count_rising(values: Sequence[int], *, strictly: bool = True) -> int:
    """How many of these, from the first on, are each greater than the one before, or no less."""
    compare = lt if strictly else le
    if all(map(compare, values, islice(values, 1, None))):  # as they are but after a crash
        return len(values)
    pairs = zip(values, islice(values, 1, None), strict=False)
    return 1 + next(at for at, pair in enumerate(pairs) if not compare(*pair))


class IndexFull(Exception):
    """There is no room for one entry more: the segment must roll."""


class IndexFile:
    """The entries of one index."""

    def __init__(self, disk: Disk, path: str, entry_bytes: int, max_bytes: int) -> None:
        self._file = disk.open(path, create=True, mapped=True)
        self._entry_bytes = entry_bytes
        self.count = self._file.size // entry_bytes
        self.max_count = max_bytes // entry_bytes
        self._is_synced = False
        # The last entry is wanted at every append.
        self.last = self.entry(self.count - 1) if self.count else b""

    @property
    def is_whole(self) -> bool:
        """Whether the file has no bytes that are not an entry."""
        return self._file.size == self.count * self._entry_bytes

    @property
    def size(self) -> int:
        """Of the entries, in bytes."""
        return self.count * self._entry_bytes

    def entry(self, number: int) -> bytes:
        """One entry, counted from 0."""
        return self.read(number, 0, self._entry_bytes)

    def read(self, number: int, start: int, length: int) -> bytes:
        """Some bytes of one entry."""
        return self._file.read_at(number * self._entry_bytes + start, length)

    def append(self, entry: bytes) -> None:
        """Whoever calls has seen to it that it is greater than the last."""
        if self.count >= self.max_count:
            raise IndexFull(self._file.path)
        self.extend(entry)

    def extend(self, entries: bytes) -> None:
        """Append many, for which there is room."""
        self._is_synced = False
        self._file.write_at(self.size, entries)
        self.count += len(entries) // self._entry_bytes
        self.last = entries[-self._entry_bytes :]

    def count_up_to(self, key: bytes, start: int = 0) -> int:
        """How many entries have a key, at this place in them, that is not greater.

        Keys are big-endian and never negative, so their bytes sort as numbers do.
        """
        size, length, read = self._entry_bytes, len(key), self._file.read_at
        low, high = 0, self.count
        while high - low > _BLOCK:
            middle = (low + high) // 2
            low, high = (
                (low, middle) if key < read(middle * size + start, length) else (middle + 1, high)
            )
        block = read(low * size, (high - low) * size)
        keys = [block[at : at + length] for at in range(start, len(block), size)]
        return low + bisect_right(keys, key)

    def all(self) -> bytes:
        """Every entry, in one read."""
        return self._file.read_at(0, self.size)

    def truncate(self, count: int) -> None:
        """Keep the first so many: at once for who looks things up, and then in the file."""
        if count < self.count:
            self.count = count
            self.last = self.entry(count - 1) if count else b""
        if self._file.size != self.size:
            self._is_synced = False
            self._file.truncate(self.size)

    async def sync(self) -> None:
        """Make it durable, if it is not."""
        if not self._is_synced:
            self._is_synced = True
            try:
                await self._file.sync()
            except BaseException:
                self._is_synced = False
                raise

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


class Index(ABC, Generic[Entry]):
    """What an index of offsets and one of times share: a table, and its last entry decoded."""

    def __init__(
        self, disk: Disk, path: str, base_offset: Offset, max_bytes: int, entry_bytes: int
    ) -> None:
        self.entries = IndexFile(disk, path, entry_bytes, max_bytes)
        self._base_offset = base_offset
        self._last = self.entries.last, self._decode(self.entries.last)

    @property
    def last(self) -> Entry:
        """The last entry, or what stands for one before the first."""
        entry, last = self._last
        if entry is not self.entries.last:  # every append asks: it is decoded once
            last = self._decode(self.entries.last)
            self._last = self.entries.last, last
        return last

    @abstractmethod
    def _decode(self, entry: bytes) -> Entry:
        """What an entry's bytes say; of none, what stands before the first."""
