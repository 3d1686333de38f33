"""Compaction: of each key the last record stays. Kafka's LogCleaner.

Rule: offsets never change, and neither does anything from the first uncleanable offset on. Who else
changes the log goes first: what was copied of it is then worth nothing, and is thrown away.
"""

import struct
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing, closing
from dataclasses import dataclass, field
from typing import Final, Protocol

from crc32c import crc32c

from actors.broker.log.cleanable import (
    cleanable_segments,
    delete_horizon_ms,
    group_by_size,
    most_bytes,
)
from actors.broker.log.config import LogConfig
from actors.broker.log.names import CLEANED, LOG, SWAP
from actors.broker.log.segment import Segment
from actors.broker.log.swaps import chunks_of, discard, path_of, put_in_place
from runtime.files import Data, Disk, DiskFull
from runtime.turn import Turn
from wire.errors import BadData
from wire.ids import NO_OFFSET, Offset
from wire.packing import pack_records
from wire.records import (
    CRC_STARTS_AT,
    HEADER_BYTES,
    LENGTH_ENDS_AT,
    BatchHeader,
    Record,
    RecordBatch,
    decode_records,
    unpacked,
)
from wire.varint import read_varint

# What Kafka's 128 MB of log.cleaner.dedupe.buffer.size hold, at 24 bytes a key and 0.9 full.
MAX_KEYS: Final = 5_000_000

_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_CRC: Final = struct.Struct(">I")

Pause = Callable[[], Awaitable[None]]


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

    @property
    def turn(self) -> Turn:
        """Of who changes its files' names."""

    @property
    def is_closed(self) -> bool:
        """Whether its files are no longer ours."""

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether it belongs to a transaction that was aborted."""

    def is_last_of_producer(self, header: BatchHeader) -> bool:
        """Whether it is the last batch of an idempotent producer."""

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
    watched = _Watched(disk, log, pause, {segment: segment.size for segment in cleanable})
    keys = KeyMap()
    for segment in cleanable_segments(segments, first_uncleanable, first_dirty):
        async with aclosing(watched.chunks(segment)) as chunks:
            async for chunk in chunks:
                counted = [batch for batch in chunk if not log.is_aborted(batch.header)]
                if not _add_keys(counted, keys, first_dirty, max_keys):
                    break
        if len(keys.last) >= max_keys:
            break  # the rest is for next time
    cleaned = Cleaned(next_dirty_offset=max(first_dirty, Offset(keys.latest_offset + 1)))
    concerned = [each for each in cleanable if each.base_offset <= keys.latest_offset]
    if concerned:
        horizon_ms = delete_horizon_ms(cleanable, first_dirty, config)
        job = _Job(disk, log, watched, keys, first_dirty, horizon_ms, cleaned)
        end = segments[len(concerned)].base_offset
        for group in group_by_size(concerned, end, most_bytes(config)):
            await job.replace(group)
    return cleaned


@dataclass(frozen=True)
class _Watched:
    """The segments that are yet to be replaced. All of them: one that goes takes keys with it."""

    disk: Disk
    log: CleanableLog
    pause: Pause
    sizes: dict[Segment, int]

    async def chunks(self, segment: Segment) -> AsyncGenerator[list[RecordBatch], None]:
        """Some batches at a time. Others may run after each, but what changed is not read."""
        self.check()
        with closing(chunks_of(self.disk, self.log.folder, segment)) as chunks:
            for chunk in chunks:
                yield chunk
                await self.pause()
                self.check()

    def check(self) -> None:
        """Before each step that relies on it: after an await anybody may have acted."""
        there = set(self.log.segments[:-1])
        for segment, size in self.sizes.items():
            if self.log.is_closed or segment not in there or segment.size != size:
                raise LogChanged(f"{self.log.folder} changed at offset {segment.base_offset}")


@dataclass(frozen=True)
class _Job:
    """One cleaning, once the keys are known."""

    disk: Disk
    log: CleanableLog
    watched: _Watched
    keys: KeyMap
    first_dirty: Offset
    delete_horizon_ms: int
    cleaned: Cleaned

    async def replace(self, group: tuple[Segment, ...]) -> None:
        """Put one segment with what is kept in the place of these.

        The log's turn is held for the swap alone: who truncates or deletes does not wait for the
        copying, and ends it.
        """
        self.watched.check()
        folder = self.log.folder
        cleaned, swap = (
            path_of(folder, group[0].base_offset, LOG, suffix) for suffix in (CLEANED, SWAP)
        )
        try:
            await self._write(group, cleaned)
            async with self.log.turn:
                self.watched.check()
                self.disk.rename(cleaned, swap)
                await self.disk.sync_directory(folder)
                self.watched.check()  # if not by who takes turns, then by a node's end
                await self._swap(group)
        except (LogChanged, BadData, DiskFull):  # not after a power cut: the name is no longer ours
            if not self.log.is_closed:  # nor is it now
                discard(self.disk, cleaned, swap)
                await self.disk.sync_directory(folder)
            raise

    async def _swap(self, group: tuple[Segment, ...]) -> None:
        folder, old = self.log.folder, [segment.base_offset for segment in group]
        put_in_place(self.disk, folder, old)
        self.log.reload_segments(old, old[0])
        for segment in group:
            del self.watched.sizes[segment]
        await self.disk.sync_directory(folder)

    async def _write(self, group: tuple[Segment, ...], path: str) -> None:
        with closing(self.disk.open(path, create=True)) as file:
            file.truncate(0)  # a crash or a full disk may have left one
            last: RecordBatch | None = None
            kept: list[Data] = []
            for segment in group:
                keeps_tombstones = segment.largest_timestamp_ms > self.delete_horizon_ms
                async with aclosing(self.watched.chunks(segment)) as chunks:
                    async for chunk in chunks:
                        last = chunk[-1]
                        kept = [self._keep(batch, keeps_tombstones) for batch in chunk]
                        file.append(b"".join(kept))
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
        is_aborted = self.log.is_aborted(header)
        kept = [
            # A follower or consumer that has read up to here must still be told of a tombstone,
            # so the pass that first meets one keeps it: in Kafka its segment is the younger one.
            not is_aborted
            and self.keys.keeps(
                record, keeps_tombstone=keeps_tombstones or record.offset >= self.first_dirty
            )
            for record in records
        ]
        self.cleaned.records_read += len(records)
        self.cleaned.records_kept += sum(kept)
        self.cleaned.records_without_key += sum(record.key is None for record in records)
        if not any(kept):
            # As Cleaner.checkBatchRetention: from the log alone it must follow what is due next.
            is_last = self.log.is_last_of_producer(header)
            return keep_records(batch, kept, header.max_timestamp_ms) if is_last else b""
        if all(kept):
            return batch.data
        times = [record.timestamp_ms for record, stays in zip(records, kept, strict=True) if stays]
        return keep_records(batch, kept, max(times))


def keep_records(batch: RecordBatch, kept: Sequence[bool], max_timestamp_ms: int) -> bytes:
    """The batch with only these of its records; all else stays, but for length, count and CRC."""
    data, position = unpacked(batch), 0
    records = bytearray()
    for is_kept in kept:
        length, body = read_varint(data, position)
        if is_kept:
            records += data[position : body + length]
        position = body + length
    result = bytearray(batch.data[:HEADER_BYTES])
    result += pack_records(batch.header.compression, records)
    _INT32.pack_into(result, 8, len(result) - LENGTH_ENDS_AT)
    _INT64.pack_into(result, 35, max_timestamp_ms)
    _INT32.pack_into(result, 57, sum(kept))
    _CRC.pack_into(result, 17, crc32c(memoryview(result)[CRC_STARTS_AT:]))
    return bytes(result)


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
