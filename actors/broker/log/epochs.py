"""At which offset each leader epoch of a log begins: Kafka's LeaderEpochFileCache.

Rule: epochs and start offsets both rise, strictly. The cache follows from the log, but for the
entry that a new leader makes before its first append (I-22); nobody else invents an entry.
"""

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from actors.broker.log.checkpoints import decode_epochs, encode_epochs, read_whole
from runtime.files import Disk
from wire.ids import NO_LEADER_EPOCH, NO_OFFSET, LeaderEpoch, Offset


class EpochEntry(NamedTuple):
    """An epoch, and the offset of its first record."""

    epoch: LeaderEpoch
    start_offset: Offset


class LeaderEpochCache:
    """Which epoch wrote which offsets. Whoever owns the disk saves it when it is dirty."""

    __slots__ = ("_entries", "_written")

    def __init__(self, entries: Iterable[EpochEntry] = ()) -> None:
        self._entries: tuple[EpochEntry, ...] = ()
        for entry in entries:
            self.assign(entry.epoch, entry.start_offset)
        # No file is as good as an empty one. By identity: every change makes a new tuple.
        self._written: tuple[EpochEntry, ...] = ()

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        """All of them, oldest first."""
        return self._entries

    @property
    def latest_epoch(self) -> LeaderEpoch:
        """The newest epoch, or NO_LEADER_EPOCH."""
        return self._entries[-1].epoch if self._entries else NO_LEADER_EPOCH

    @property
    def is_dirty(self) -> bool:
        """Whether the file is not, or may not be, what `encode` says."""
        return self._entries is not self._written

    def mark_written(self, entries: tuple[EpochEntry, ...]) -> None:
        """These entries are durable now; the cache may have moved on while they were written."""
        self._written = entries

    def assign(self, epoch: LeaderEpoch, start_offset: Offset) -> bool:
        """Begin an epoch (B151); False if the cache knows this already."""
        assert epoch >= 0, f"{epoch} is no epoch to begin"
        assert start_offset >= 0, f"{start_offset} is no offset to begin at"
        last = self._entries[-1] if self._entries else None
        if last is not None and epoch == last.epoch and start_offset >= last.start_offset:
            return False
        keep = len(self._entries)
        while keep and (
            self._entries[keep - 1].epoch >= epoch
            or self._entries[keep - 1].start_offset >= start_offset
        ):
            keep -= 1
        self._entries = (*self._entries[:keep], EpochEntry(epoch, start_offset))
        return True

    def end_offset_for(
        self, epoch: LeaderEpoch, log_end_offset: Offset
    ) -> tuple[LeaderEpoch, Offset]:
        """Where the largest epoch up to this one ends (B150); (-1, -1) if that is not known yet."""
        after = bisect_right(self._entries, epoch, key=lambda entry: entry.epoch)
        if epoch == NO_LEADER_EPOCH or not self._entries:
            return NO_LEADER_EPOCH, NO_OFFSET
        if epoch == self.latest_epoch:
            return epoch, log_end_offset
        if after == len(self._entries):
            return NO_LEADER_EPOCH, NO_OFFSET
        # As LeaderEpochFileCache: an epoch before the first ends where the first one begins.
        found = self._entries[after - 1].epoch if after else epoch
        return found, self._entries[after].start_offset

    def epoch_for(self, offset: Offset) -> LeaderEpoch:
        """The epoch that an offset belongs to, or NO_LEADER_EPOCH before the first."""
        after = bisect_right(self._entries, offset, key=lambda entry: entry.start_offset)
        return self._entries[after - 1].epoch if after else NO_LEADER_EPOCH

    def truncate_from_end(self, end_offset: Offset) -> None:
        """The log ends here now: an epoch that begins here or later has no record."""
        kept = tuple(entry for entry in self._entries if entry.start_offset < end_offset)
        if len(kept) != len(self._entries):
            self._entries = kept

    def truncate_from_start(self, start_offset: Offset) -> None:
        """The log starts here now: the last epoch to begin up to here begins here."""
        kept = tuple(entry for entry in self._entries if entry.start_offset > start_offset)
        first = len(self._entries) - len(kept) - 1
        if first >= 0 and (first > 0 or self._entries[0].start_offset != start_offset):
            self._entries = (EpochEntry(self._entries[first].epoch, start_offset), *kept)

    def clear(self) -> None:
        """Forget all, for a log that starts anew."""
        if self._entries:
            self._entries = ()

    def encode(self) -> bytes:
        """The file leader-epoch-checkpoint."""
        return encode_epochs(self._entries)

    @classmethod
    def decode(cls, data: bytes, path: str) -> "LeaderEpochCache":
        """The cache that a file holds, or MalformedCheckpoint.

        As LeaderEpochFileCache: rows are assigned one by one, so one that does not rise takes the
        place of those before it. The cache is dirty then.
        """
        rows = [EpochEntry(*row) for row in decode_epochs(data, path)]
        cache = cls(rows)
        is_as_written = list(cache.entries) == rows
        cache.mark_written(cache.entries if is_as_written else tuple(rows))
        return cache


def load_epochs(disk: Disk, path: str) -> LeaderEpochCache:
    """The cache that a file holds: empty if there is none, MalformedCheckpoint if it is bad."""
    return LeaderEpochCache.decode(read_whole(disk, path) or b"", path)


async def save_epochs(cache: LeaderEpochCache, disk: Disk, path: str) -> None:
    """Make the file what the cache is now; cheap if it is so already."""
    entries = cache.entries
    if cache.is_dirty:
        await disk.replace(path, cache.encode())
        cache.mark_written(entries)
