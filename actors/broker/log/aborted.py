"""Which transactions of a log were aborted: Kafka's TransactionIndex, `<segment>.txnindex`.

Rule: an entry stands in the file of the segment that has the marker, in the order of markers. All
of them are in memory; files are written with a flush, and what is after the recovery point is
found again in the log.

    version int16 = 0, producer id int64, first offset int64, last offset int64 (the marker's),
    last stable offset int64 (after this transaction had ended)
"""

import struct
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

from actors.broker.log.checkpoints import read_whole
from runtime.files import Disk
from wire.errors import CorruptRecordBatch
from wire.ids import Offset, ProducerId

ABORTED_INDEX: Final = ".txnindex"

_ENTRY: Final = struct.Struct(">hqqqq")
_VERSION: Final = 0
_DIGITS: Final = 20
_LAST: Final = attrgetter("last_offset")


class AbortedEntry(NamedTuple):
    """One transaction, from its first record to its marker."""

    producer_id: ProducerId
    first_offset: Offset
    last_offset: Offset
    last_stable_offset: Offset


class AbortedTransactions:
    """All of a log, in the order of their markers."""

    __slots__ = ("_entries", "_written")

    def __init__(self) -> None:
        self._entries: list[AbortedEntry] = []
        self._written: dict[Offset, tuple[AbortedEntry, ...]] = {}  # by segment, as on the disk

    def __bool__(self) -> bool:
        return bool(self._entries)

    def add(self, entry: AbortedEntry) -> None:
        """One has ended."""
        self._entries.append(entry)

    def cut(self, end: Offset) -> None:
        """Forget those whose marker is not before this offset."""
        del self._entries[bisect_left(self._entries, end, key=_LAST) :]

    def forget_before(self, start: Offset) -> None:
        """The log begins there now."""
        del self._entries[: bisect_left(self._entries, start, key=_LAST)]

    def overlapping(self, first: Offset, upto: Offset) -> list[AbortedEntry]:
        """Those with a record from the one offset on and before the other."""
        found = []
        for entry in self._entries[bisect_left(self._entries, first, key=_LAST) :]:
            if entry.first_offset < upto:
                found.append(entry)
            if entry.last_stable_offset >= upto:
                break  # what was still open then began later than what is asked for
        return found

    def has(self, producer: ProducerId, offset: Offset) -> bool:
        """Whether what a producer wrote at an offset belongs to one of them."""
        found = self.overlapping(offset, Offset(offset + 1))
        return any(each.producer_id == producer for each in found)

    # --- files ------------------------------------------------------------------------------------

    def read(self, disk: Disk, folder: str, bases: Iterable[Offset], before: Offset) -> None:
        """What the files say of markers before an offset; CorruptRecordBatch if they say nonsense.

        What they say of later ones may have been cut off since.
        """
        found: set[AbortedEntry] = set()
        for base in bases:
            path = _path(folder, base)
            entries = decode_index(read_whole(disk, path) or b"", path)
            self._written[base] = entries
            found.update(each for each in entries if each.last_offset < before)
        self._entries = sorted(found, key=_LAST)

    async def save(self, disk: Disk, folder: str, bases: Sequence[Offset]) -> None:
        """Make the files of these segments say what is known; others go."""
        wanted: dict[Offset, list[AbortedEntry]] = {}
        ends = [*bases[1:], None]
        for base, end in zip(bases, ends, strict=False):
            first = bisect_left(self._entries, base, key=_LAST) if base != bases[0] else 0
            last = None if end is None else bisect_left(self._entries, end, key=_LAST)
            if entries := self._entries[first:last]:
                wanted[base] = entries
        for base in sorted(self._written.keys() - wanted.keys()):
            if disk.exists(path := _path(folder, base)):
                disk.remove(path)
            del self._written[base]
        for base, entries in wanted.items():
            if self._written.get(base) != (now := tuple(entries)):
                await disk.replace(_path(folder, base), encode_index(now))
                self._written[base] = now


def encode_index(entries: Iterable[AbortedEntry]) -> bytes:
    """The file's content."""
    return b"".join(_ENTRY.pack(_VERSION, *entry) for entry in entries)


def decode_index(data: bytes, path: str) -> tuple[AbortedEntry, ...]:
    """What a file holds."""
    if len(data) % _ENTRY.size:
        raise CorruptRecordBatch(f"{path} has {len(data)} bytes: it is cut short")
    entries = []
    for version, producer, first, last, stable in _ENTRY.iter_unpack(data):
        if version != _VERSION or not 0 <= first <= last:
            raise CorruptRecordBatch(f"{path} has an entry that cannot be")
        offsets = (Offset(first), Offset(last), Offset(stable))
        entries.append(AbortedEntry(ProducerId(producer), *offsets))
    return tuple(entries)


def index_base(name: str) -> Offset | None:
    """Of the segment to which a file with this name belongs; None if it is no index."""
    base, dot, kind = name.partition(".")
    is_index = f"{dot}{kind}" == ABORTED_INDEX and len(base) == _DIGITS and base.isdecimal()
    return Offset(int(base)) if is_index else None


def _path(folder: str, base: Offset) -> str:
    return f"{folder}/{base:020}{ABORTED_INDEX}"
