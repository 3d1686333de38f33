"""Finding batches in the segments of a log.

Rule: whoever asks has checked that the offset is in the log. Segments are in order, and between two
of them offsets may be missing: compaction took them.
"""

from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

from msgspec import Struct

from actors.broker.log.segment import Segment
from wire.errors import CorruptRecordBatch
from wire.ids import LeaderEpoch, Offset
from wire.records import BatchHeader, Record, batches, decode_records


class FoundOffset(Struct, frozen=True, kw_only=True):
    """The first record of some time or later."""

    offset: Offset
    timestamp_ms: int
    leader_epoch: LeaderEpoch


class _Located(NamedTuple):
    """Where there is something to read."""

    segment: Segment
    position: int
    length: int
    header: BatchHeader  # of the first batch


def floor(segments: Sequence[Segment], offset: Offset) -> int:
    """Which segment holds an offset, or would."""
    return max(0, bisect_right(segments, offset, key=attrgetter("base_offset")) - 1)


def read_batches(
    segments: Sequence[Segment], offset: Offset, max_bytes: int, bound: Offset, min_one_batch: bool
) -> bytes:
    """Bytes of one segment, from the batch that holds the offset or comes next (B170)."""
    found = _locate(segments, offset, max_bytes, bound, min_one_batch)
    return b"" if found is None else found.segment.file.read_at(found.position, found.length)


def available(
    segments: Sequence[Segment], offset: Offset, max_bytes: int, bound: Offset, min_one_batch: bool
) -> int:
    """How many bytes a read would find, without the read; none if not even a whole batch."""
    found = None
    if offset < bound:
        found = _locate(segments, offset, max_bytes, bound, min_one_batch)
    return found.length if found and found.header.size_in_bytes <= found.length else 0


def _locate(
    segments: Sequence[Segment], offset: Offset, max_bytes: int, bound: Offset, min_one_batch: bool
) -> _Located | None:
    for at in range(floor(segments, offset), len(segments)):
        segment = segments[at]
        found = segment.find(offset)
        if found is not None:
            position, header = found
            length = max(max_bytes, header.size_in_bytes if min_one_batch else 0)
            end = _end_position(segments, at, bound)
            return _Located(segment, position, min(length, end - position), header)
    return None


def _end_position(segments: Sequence[Segment], at: int, bound: Offset) -> int:
    """Up to where a segment has no batch with the bound, or a later offset, in it."""
    is_last = at + 1 == len(segments)
    end = segments[at].next_offset if is_last else segments[at + 1].base_offset
    found = segments[at].find(bound) if bound < end else None
    return segments[at].size if found is None else found[0]


def first_since(
    segments: Sequence[Segment], timestamp_ms: int, log_start_offset: Offset
) -> FoundOffset | None:
    """The first record that is not earlier."""
    for segment in segments:
        if segment.largest.timestamp_ms >= timestamp_ms:
            offset = log_start_offset
            while (at := segment.find_since(timestamp_ms, offset)) is not None:
                found = _first_in_batch(segment, *at, timestamp_ms, log_start_offset)
                if found is not None:
                    return found
                offset = at[1].next_offset
    return None


def _first_in_batch(
    segment: Segment, position: int, header: BatchHeader, timestamp_ms: int, log_start: Offset
) -> FoundOffset | None:
    """The record in this batch; its beginning if its records all have one time."""
    epoch = header.partition_leader_epoch
    records = _records_of(segment, position, header)
    if records is None:
        offset = max(header.base_offset, log_start)
        return FoundOffset(offset=offset, timestamp_ms=header.max_timestamp_ms, leader_epoch=epoch)
    for record in records:
        if record.timestamp_ms >= timestamp_ms and record.offset >= log_start:
            return FoundOffset(
                offset=record.offset, timestamp_ms=record.timestamp_ms, leader_epoch=epoch
            )
    return None


def _records_of(segment: Segment, position: int, header: BatchHeader) -> tuple[Record, ...] | None:
    """None where the header has to speak for them.

    Also for those that a producer packed in a way that nobody knows: who asks for a time must get
    past them.
    """
    try:
        if header.is_log_append_time:
            return None
        data = segment.file.read_at(position, header.size_in_bytes)
        return decode_records(next(batches(data)))
    except CorruptRecordBatch:
        return None
