"""Compaction: of each key the last record stays. Kafka's LogCleaner.

Rule: offsets never change, and neither does anything from the first uncleanable offset on. Segments
are replaced by way of `.cleaned` (worth nothing yet) and `.swap` (whole and durable: it will be the
segment whatever happens), so a crash leaves the old segments or the new one.
"""

import struct
from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, Protocol

from crc32c import crc32c

from actors.broker.log.config import MAX_INT32, LogConfig
from actors.broker.log.names import CLEANED, KINDS, LOG, SWAP, file_name, parse_name
from actors.broker.log.segment import Segment
from runtime.files import Data, Disk, DiskFull, File
from wire.errors import BadData, CorruptRecordBatch
from wire.ids import NO_OFFSET, Offset
from wire.records import (
    CRC_STARTS_AT,
    HEADER_BYTES,
    LENGTH_ENDS_AT,
    Record,
    RecordBatch,
    batches,
    decode_header,
    decode_records,
    verify,
)
from wire.varint import read_varint

# What Kafka's 128 MB of log.cleaner.dedupe.buffer.size hold, at 24 bytes a key and 0.9 full.
MAX_KEYS: Final = 5_000_000

_CHUNK: Final = 1 << 20
_INDEX_ENTRY: Final = 12  # of time; one of offsets has 8 bytes
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_CRC: Final = struct.Struct(">I")

Pause = Callable[[], Awaitable[None]]
Chunks = Generator[list[RecordBatch], None, None]


async def no_pause() -> None:
    """Go on at once."""


class LogChanged(Exception):
    """The log was truncated or deleted while it was cleaned. It is as it was; clean it later."""


class CleanableLog(Protocol):
    """What the cleaner asks of a log."""

    @property
    def folder(self) -> str:
        """Where its files are."""

    @property
    def segments(self) -> Sequence[Segment]:
        """In order; the last one is active."""

    def reload_segments(self, old: Sequence[Offset], new: Offset) -> None:
        """The files of the old segments are gone and those of the new one are in place."""


@dataclass(kw_only=True)
class Cleaned:
    """What a cleaning did."""

    next_dirty_offset: Offset  # below it every key occurs once
    records_read: int = 0
    records_kept: int = 0
    records_without_key: int = 0
    bytes_before: int = 0
    bytes_after: int = 0


@dataclass
class KeyMap:
    """The last offset of each key in the dirty section."""

    last: dict[bytes, Offset] = field(default_factory=dict)
    latest_offset: Offset = NO_OFFSET  # of any record seen: beyond it the map knows nothing

    def keeps(self, record: Record, *, keeps_tombstone: bool) -> bool:
        """As Cleaner.shouldRetainRecord: a record without a key has no place in a compacted log."""
        if record.offset > self.latest_offset:
            return True
        if record.key is None or record.offset < self.last.get(record.key, NO_OFFSET):
            return False
        return record.value is not None or keeps_tombstone


def first_uncleanable_offset(
    segments: Sequence[Segment],
    first_dirty: Offset,
    *,
    high_watermark: Offset,
    now_ms: int,
    min_compaction_lag_ms: int = 0,
) -> Offset:
    """Where compaction must end: the high watermark, the active segment, or what is too young."""
    limit = min(high_watermark, segments[-1].base_offset)
    if min_compaction_lag_ms > 0:
        for segment in segments[:-1]:
            age_ms = now_ms - segment.largest_timestamp_ms
            if age_ms < min_compaction_lag_ms and segment.base_offset >= first_dirty:
                return min(limit, segment.base_offset)
    return limit


def cleanable_segments(
    segments: Sequence[Segment], first_uncleanable: Offset, first_dirty: Offset = NO_OFFSET
) -> list[Segment]:
    """Those that lie wholly below one offset, and not wholly below the other; never the active."""
    return [
        segment
        for segment, following in pairwise(segments)
        if first_dirty < following.base_offset <= first_uncleanable
    ]


def dirty_ratio(
    segments: Sequence[Segment], first_dirty: Offset, first_uncleanable: Offset
) -> float:
    """How much of what may be cleaned is dirty: 0 if nothing may be."""
    total = sum(each.size for each in cleanable_segments(segments, first_uncleanable))
    dirty = cleanable_segments(segments, first_uncleanable, first_dirty)
    return sum(segment.size for segment in dirty) / total if total else 0.0


async def clean(
    disk: Disk,
    log: CleanableLog,
    config: LogConfig,
    *,
    first_dirty: Offset,
    first_uncleanable: Offset,
    max_keys: int = MAX_KEYS,
    pause: Pause = no_pause,
) -> Cleaned:
    """Compact a log up to the first uncleanable offset, and say where to go on next time.

    `pause` is awaited now and then, so that others may run. Records that cannot be read (corrupt,
    or packed by a codec that is not spoken here) raise, and their segments stay as they are: to
    compact around them could bring a deleted key back.
    """
    segments = tuple(log.segments)
    cleanable = cleanable_segments(segments, first_uncleanable)
    keys = KeyMap()
    for segment in cleanable_segments(segments, first_uncleanable, first_dirty):
        with closing(_chunks(disk, log.folder, segment)) as chunks:
            for chunk in chunks:
                if not _add_keys(chunk, keys, first_dirty, max_keys):
                    break
                await pause()
        if len(keys.last) >= max_keys:
            break  # the rest is for next time
    cleaned = Cleaned(next_dirty_offset=max(first_dirty, Offset(keys.latest_offset + 1)))
    concerned = [each for each in cleanable if each.base_offset <= keys.latest_offset]
    if concerned:
        horizon_ms = _delete_horizon_ms(cleanable, first_dirty, config)
        job = _Job(disk, log, keys, first_dirty, horizon_ms, cleaned, pause)
        end = segments[len(concerned)].base_offset
        for group in group_by_size(concerned, end, _most_bytes(config)):
            await job.replace(group)
    return cleaned


def group_by_size(
    segments: Sequence[Segment], end: Offset, most_bytes: int
) -> Iterator[tuple[Segment, ...]]:
    """Neighbours that fit in one segment, by the sizes that they have before they are cleaned.

    `end` is where the last of them ends. Offsets in an index are relative and of 32 bits.
    """
    group: list[Segment] = []
    ends = [*(segment.base_offset for segment in segments[1:]), end]
    for segment, segment_end in zip(segments, ends, strict=True):
        size = sum(each.size for each in group) + segment.size
        if group and (size > most_bytes or segment_end - 1 - group[0].base_offset > MAX_INT32):
            yield tuple(group)
            group = []
        group.append(segment)
    if group:
        yield tuple(group)


def keep_records(batch: RecordBatch, kept: Sequence[bool], max_timestamp_ms: int) -> bytes:
    """The batch with only these of its records; all else stays, but for length, count and CRC."""
    data = bytes(batch.data)
    result = bytearray(data[:HEADER_BYTES])
    position = HEADER_BYTES
    for is_kept in kept:
        length, body = read_varint(data, position)
        if is_kept:
            result += data[position : body + length]
        position = body + length
    _INT32.pack_into(result, 8, len(result) - LENGTH_ENDS_AT)
    _INT64.pack_into(result, 35, max_timestamp_ms)
    _INT32.pack_into(result, 57, sum(kept))
    _CRC.pack_into(result, 17, crc32c(memoryview(result)[CRC_STARTS_AT:]))
    return bytes(result)


@dataclass(frozen=True)
class _Job:
    """One cleaning, once the keys are known."""

    disk: Disk
    log: CleanableLog
    keys: KeyMap
    first_dirty: Offset
    delete_horizon_ms: int
    cleaned: Cleaned
    pause: Pause

    async def replace(self, group: tuple[Segment, ...]) -> None:
        """Put one segment with what is kept in the place of these."""
        folder, old = self.log.folder, [segment.base_offset for segment in group]
        sizes = [segment.size for segment in group]
        cleaned, swap = (_path(folder, old[0], LOG, suffix) for suffix in (CLEANED, SWAP))
        try:
            await self._write(group, cleaned)
            self._check_unchanged(group, sizes)
            self.disk.rename(cleaned, swap)
            await self.disk.sync_directory(folder)
            self._check_unchanged(group, sizes)
        except (LogChanged, BadData, DiskFull):  # not after a power cut: the name is no longer ours
            _discard(self.disk, cleaned, swap)
            await self.disk.sync_directory(folder)
            raise
        _put_in_place(self.disk, folder, old)
        self.log.reload_segments(old, old[0])
        await self.disk.sync_directory(folder)

    def _check_unchanged(self, group: tuple[Segment, ...], sizes: list[int]) -> None:
        """Before each step that cannot be taken back; after an await anybody may have acted."""
        there = {id(segment) for segment in self.log.segments[:-1]}
        for segment, size in zip(group, sizes, strict=True):
            if id(segment) not in there or segment.size != size:
                raise LogChanged(f"{self.log.folder} changed at offset {segment.base_offset}")

    async def _write(self, group: tuple[Segment, ...], path: str) -> None:
        with closing(self.disk.open(path, create=True)) as file:
            file.truncate(0)  # a crash or a full disk may have left one
            last: RecordBatch | None = None
            kept: list[Data] = []
            for segment in group:
                keeps_tombstones = segment.largest_timestamp_ms > self.delete_horizon_ms
                with closing(_chunks(self.disk, self.log.folder, segment)) as chunks:
                    for chunk in chunks:
                        last = chunk[-1]
                        kept = [self._keep(batch, keeps_tombstones) for batch in chunk]
                        file.append(b"".join(kept))
                        await self.pause()
                self.cleaned.bytes_before += segment.size
            if last is not None and not kept[-1]:
                # Without a record it still says where the segment ends: the next one follows.
                none = [False] * last.header.record_count
                file.append(keep_records(last, none, last.header.max_timestamp_ms))
            self.cleaned.bytes_after += file.size
            await file.sync()

    def _keep(self, batch: RecordBatch, keeps_tombstones: bool) -> Data:
        """What is left of a batch: all of it, some of it, or nothing."""
        header = batch.header
        if header.is_control or header.base_offset > self.keys.latest_offset:
            return batch.data
        records = decode_records(batch)
        kept = [
            # A follower or consumer that has read up to here must still be told of a tombstone,
            # so the pass that first meets one keeps it: in Kafka its segment is the younger one.
            self.keys.keeps(
                record, keeps_tombstone=keeps_tombstones or record.offset >= self.first_dirty
            )
            for record in records
        ]
        self.cleaned.records_read += len(records)
        self.cleaned.records_kept += sum(kept)
        self.cleaned.records_without_key += sum(record.key is None for record in records)
        if not any(kept):
            return b""
        if all(kept):
            return batch.data
        times = [record.timestamp_ms for record, stays in zip(records, kept, strict=True) if stays]
        return keep_records(batch, kept, max(times))


async def finish_swaps(disk: Disk, folder: str) -> None:
    """At start, before the log is opened: end what a crash has interrupted (Log.loadSegments).

    A swap that cannot be read raises CorruptRecordBatch and stays where it is: the segments that it
    stands for may be gone, so it is not for us to choose.
    """
    files = [(name, found) for name in disk.list(folder) if (found := parse_name(name))]
    bases = [base for _, (base, *what) in files if what == [LOG, ""]]
    swaps = [base for _, (base, *what) in files if what == [LOG, SWAP]]
    leftovers = [name for name, (_, *what) in files if what[1] and what != [LOG, SWAP]]
    _discard(disk, *(f"{folder}/{name}" for name in leftovers))
    for swap in swaps:
        next_offset = _next_offset(disk, _path(folder, swap, LOG, SWAP), swap)
        _put_in_place(disk, folder, [swap, *(each for each in bases if swap < each < next_offset)])
    if swaps or leftovers:
        await disk.sync_directory(folder)


def _put_in_place(disk: Disk, folder: str, old: Sequence[Offset]) -> None:
    """Let the `.swap` of the first of the old segments take the place of all of them.

    The swap keeps its name until the old ones are gone: till then a start would do this again.
    They go in the order of offsets, so that no record outlives the later one that deletes it. An
    index is rebuilt when the segment is opened, and must not be there with another's entries.
    """
    for base_offset in old:
        kinds = set(KINDS) - ({LOG} if base_offset == old[0] else set())
        _discard(disk, *(_path(folder, base_offset, kind) for kind in sorted(kinds)))
    disk.rename(_path(folder, old[0], LOG, SWAP), _path(folder, old[0], LOG))


def _discard(disk: Disk, *paths: str) -> None:
    for path in paths:
        if disk.exists(path):
            disk.remove(path)


def _path(folder: str, base_offset: Offset, kind: str, suffix: str = "") -> str:
    return f"{folder}/{file_name(base_offset, kind, suffix)}"


def _most_bytes(config: LogConfig) -> int:
    """So that neither the file nor an index of it grows larger than it may."""
    entries = config.segment_index_bytes // _INDEX_ENTRY - 1
    return min(config.segment_bytes, entries * config.index_interval_bytes)


def _delete_horizon_ms(cleanable: Sequence[Segment], first_dirty: Offset, config: LogConfig) -> int:
    """Tombstones in segments up to this old go: As Cleaner.doClean, by the last clean segment.

    Kafka asks the file when it was modified. A disk here does not know, so the newest record says.
    """
    clean_ones = [each for each in cleanable if each.base_offset < first_dirty]
    return clean_ones[-1].largest_timestamp_ms - config.delete_retention_ms if clean_ones else 0


def _add_keys(
    chunk: Sequence[RecordBatch], keys: KeyMap, first_dirty: Offset, max_keys: int
) -> bool:
    """False if the map became full; it is then true of all up to its latest offset."""
    for batch in chunk:
        for record in () if batch.header.is_control else decode_records(batch):
            if record.offset < first_dirty:
                continue
            if record.key is not None:
                if len(keys.last) >= max_keys and record.key not in keys.last:
                    return False
                keys.last[record.key] = record.offset
            keys.latest_offset = record.offset
        if batch.header.last_offset >= first_dirty:
            keys.latest_offset = batch.header.last_offset
    return True


def _chunks(disk: Disk, folder: str, segment: Segment) -> Chunks:
    """All batches of a segment whose size may not change meanwhile, some at a time."""
    with closing(disk.open(_path(folder, segment.base_offset, LOG))) as file:
        yield from _verified(file, segment.size, segment.base_offset)


def _verified(file: File, end: int, base_offset: Offset) -> Chunks:
    position, length, next_offset = 0, _CHUNK, base_offset
    while position < end:
        data = file.read_at(position, min(length, end - position))
        found = list(batches(data))
        for batch in found:
            verify(batch)  # which is no proof of its offset
            if not next_offset <= batch.header.last_offset <= base_offset + MAX_INT32:
                raise CorruptRecordBatch(f"{file.path} has a batch with a wrong offset")
            next_offset = batch.header.next_offset
        if found:
            yield found
            position, length = position + found[-1].position + len(found[-1].data), _CHUNK
        else:
            length = decode_header(data).size_in_bytes  # longer than what was read
            if length > end - position:
                raise CorruptRecordBatch(f"{file.path} ends within a batch, at {position}")


def _next_offset(disk: Disk, path: str, base_offset: Offset) -> Offset:
    with closing(disk.open(path)) as file:
        for chunk in _verified(file, file.size, base_offset):
            base_offset = chunk[-1].header.next_offset
    return base_offset
