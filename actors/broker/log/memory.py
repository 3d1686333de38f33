"""What a log remembers of its producers, in memory and on its disk.

Rule: before the oldest snapshot there is no batch of a producer, and what is known at any later
offset follows from the newest snapshot up to there and the batches after it. So a log in which no
producer ever wrote has no snapshot, and pays nothing. A snapshot is durable before the recovery
point passes it, and gone before the log is cut below it: one up to the recovery point can be
trusted, one after it cannot.
"""

from collections.abc import Iterable, Sequence
from itertools import islice

from actors.broker.log.aborted import AbortedEntry, AbortedTransactions
from actors.broker.log.appending import Accepted
from actors.broker.log.producers import EndedTransaction, ProducerStates, WrittenBatch
from actors.broker.log.reading import floor
from actors.broker.log.scan import headers
from actors.broker.log.segment import Segment
from actors.broker.log.snapshots import (
    decode_snapshot,
    encode_snapshot,
    read_snapshot,
    snapshot_name,
)
from runtime.files import Disk
from wire.errors import CorruptRecordBatch
from wire.ids import NO_PRODUCER_ID, Offset
from wire.markers import Marker, decode_marker
from wire.records import BatchHeader, batches


class ProducerMemory:
    """The producers of one log."""

    __slots__ = (
        "_disk",
        "_ended",
        "_files",
        "_indexes",
        "_now_ms",
        "_unsaved",
        "aborted",
        "states",
    )

    def __init__(
        self,
        disk: Disk,
        now_ms: int,
        files: Iterable[Offset] = (),
        indexes: Iterable[Offset] | None = None,
    ) -> None:
        self.states = ProducerStates()
        self.aborted = AbortedTransactions()
        self._ended: list[EndedTransaction] = []  # with markers that were not committed
        self._indexes = indexes  # of aborted transactions on the disk, until they are read
        self._disk = disk
        self._now_ms = now_ms  # when something was last heard
        self._files = set(files)  # the snapshots on the disk, by their offsets
        self._unsaved: dict[Offset, bytes] = {}  # those that the next flush writes

    # --- appending --------------------------------------------------------------------------------

    def judge(self, accepted: Accepted, *, is_internal: bool) -> WrittenBatch | None:
        """The same batch if it is in the log already; raises if this one may not follow."""
        header = accepted.headers[0]
        if not is_internal:
            return self.states.judge(header)
        if 0 in accepted.markers:
            self.states.check_marker(header, accepted.markers[0].coordinator_epoch)
        else:
            self.states.check_epoch(header)
        return None

    def take(self, accepted: Accepted, segments: Sequence[Segment], now_ms: int) -> None:
        """These batches were appended; note what was known where each of the segments begins."""
        self._now_ms = now_ms
        first = accepted.headers[0].base_offset
        begun = [each.base_offset for each in segments[floor(segments, first) :]]
        due = [base for base in begun if base >= first]
        if not self._files and not self._unsaved:  # the first batch of a producer
            self.note(first)
        for number, header in enumerate(accepted.headers):
            while due and due[0] <= header.base_offset:
                self.note(due.pop(0))
            if header.producer_id > NO_PRODUCER_ID:
                self._take(header, accepted.markers.get(number))

    def _take(self, header: BatchHeader, marker: Marker | None) -> None:
        if marker is not None:
            self._end(header, marker)
        elif not header.is_control:
            self.states.take(header, self._now_ms)

    def _end(self, header: BatchHeader, marker: Marker) -> None:
        ended = self.states.end_transaction(header, marker.coordinator_epoch, self._now_ms)
        if ended is not None:
            self._ended.append(ended)
            if not marker.is_committed:
                self.aborted.add(AbortedEntry(*ended))

    def last_stable_offset(self, high_watermark: Offset) -> Offset:
        """Where the first transaction begins that is open, or whose marker may yet be lost."""
        self._ended = [each for each in self._ended if each.last_offset >= high_watermark]
        firsts = [each.first_offset for each in self._ended]
        return min([high_watermark, *firsts, *islice(self.states.open.values(), 1)])

    def note(self, offset: Offset) -> None:
        """What is known now is what is known at this offset."""
        self._unsaved[offset] = encode_snapshot(self.states)

    # --- making it last ---------------------------------------------------------------------------

    async def save(self, folder: str, upto: Offset, bases: Sequence[Offset]) -> None:
        """Make durable what was noted up to an offset, before the recovery point gets there."""
        await self.aborted.save(self._disk, folder, bases)
        for offset, data in tuple(self._unsaved.items()):
            if offset <= upto:
                await self._disk.replace(f"{folder}/{snapshot_name(offset)}", data)
                self._files.add(offset)
                if self._unsaved.get(offset) is data:
                    del self._unsaved[offset]

    # --- going back -------------------------------------------------------------------------------

    def forget_from(self, folder: str, end: Offset) -> None:
        """Before the log is cut there: what is noted of later offsets will no longer be so."""
        for offset in [each for each in self._unsaved if each > end]:
            del self._unsaved[offset]
        self._remove(folder, [each for each in self._files if each > end])

    def forget_before(self, folder: str, start: Offset) -> None:
        """The log begins there now, with a segment at whose beginning was noted what was known."""
        self.aborted.forget_before(start)
        later = [each for each in (*self._files, *self._unsaved) if each >= start]
        if later:
            for offset in [each for each in self._unsaved if each < start]:
                del self._unsaved[offset]
            self._remove(folder, [each for each in self._files if each < start])

    def keep_only(self, folder: str, bases: Iterable[Offset]) -> None:
        """Of snapshots those at which a segment begins, the oldest and the newest."""
        kept = {*bases, min(self._files), max(self._files)} if self._files else set()
        self._remove(folder, [each for each in self._files if each not in kept])

    def _remove(self, folder: str, offsets: Iterable[Offset]) -> None:
        for offset in sorted(offsets, reverse=True):
            path = f"{folder}/{snapshot_name(offset)}"
            if self._disk.exists(path):
                self._disk.remove(path)
            self._files.discard(offset)

    def rebuild(self, folder: str, segments: Sequence[Segment], start: Offset, end: Offset) -> None:
        """Know what follows from the log up to this end: from a snapshot, and what comes after."""
        since = self._recall(folder, start, end)
        self._ended = [each for each in self._ended if each.last_offset < since]
        for segment in segments[floor(segments, since) :] if segments else ():
            found = segment.find(since)
            if found is not None:
                for position, header in headers(segment.file, found[0], segment.size):
                    if header.producer_id > NO_PRODUCER_ID:
                        self._take(header, _marker_at(segment, position, header))

    def _recall(self, folder: str, start: Offset, end: Offset) -> Offset:
        """Know what the files say of this end or an earlier one; which."""
        newest = self._newest(folder, end)
        since = start if newest is None else max(newest[1], start)
        try:
            if self._indexes is not None:
                self.aborted.read(self._disk, folder, self._indexes, since)
        except CorruptRecordBatch:
            newest, since = None, start
        self._indexes = None
        self.states = ProducerStates() if newest is None else newest[0]
        if newest is None:
            self.note(start)  # else a later one would say that nobody wrote before it
        self.aborted.cut(since)
        self.aborted.forget_before(start)
        return since

    def _newest(self, folder: str, end: Offset) -> tuple[ProducerStates, Offset] | None:
        """The newest snapshot up to an offset that is whole, and its offset."""
        offsets = {each for each in (*self._files, *self._unsaved) if each <= end}
        for offset in sorted(offsets, reverse=True):
            path = f"{folder}/{snapshot_name(offset)}"
            try:
                if offset in self._unsaved:
                    return decode_snapshot(self._unsaved[offset], path, self._now_ms), offset
                return read_snapshot(self._disk, path, self._now_ms), offset
            except CorruptRecordBatch:
                self._remove(folder, [offset])
        return None


def _marker_at(segment: Segment, position: int, header: BatchHeader) -> Marker | None:
    if not header.is_control:
        return None
    data = segment.file.read_at(position, header.size_in_bytes)
    return decode_marker(next(batches(data)))
