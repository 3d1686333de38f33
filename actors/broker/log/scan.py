"""Walking the batches of a segment's file.

Rule: to find a place only headers are read; to recover every byte is, in large reads, and believed
only when the CRC is true.
"""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from crc32c import crc32c

from runtime.files import File
from wire.errors import CorruptRecordBatch
from wire.ids import LeaderEpoch, Offset
from wire.records import (
    CRC_STARTS_AT,
    HEADER_BYTES,
    LENGTH_ENDS_AT,
    MAGIC,
    MAX_OFFSET,
    BatchHeader,
    decode_header,
)

# Base offset, length, leader epoch, magic, CRC, last offset delta, latest time, count of records.
_FIELDS: Final = struct.Struct(">qiibI2xi8xq14xi")
_WINDOW: Final = 4096 + HEADER_BYTES  # what lies between two entries of an index, mostly
_CHUNK: Final = 1 << 20


def headers(file: File, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Each batch's position and header, from the batch that begins at `position` on."""
    window, window_at = b"", position
    while position < end:
        if position + HEADER_BYTES > window_at + len(window):
            window, window_at = file.read_at(position, min(_WINDOW, end - position)), position
        header = decode_header(window, position - window_at)
        yield position, header
        position += header.size_in_bytes


class Sound(NamedTuple):
    """A whole batch with a true CRC: what recovery asks of one, and no more, for speed."""

    position: int
    size: int
    base_offset: Offset
    last_offset: Offset
    leader_epoch: LeaderEpoch
    max_timestamp_ms: int


def sound_batches(file: File, position: int, end: int) -> Iterator[Sound]:
    """As long as batches are whole and their CRC is true; then it stops."""
    length = _CHUNK
    while position < end:
        data = memoryview(file.read_at(position, min(length, end - position)))
        used = 0
        for used, batch in _in_chunk(data, position):  # noqa: B007 - it is wanted after the loop
            yield batch
        length = _CHUNK
        if not used:
            length = _size(data)  # longer than what was read, or it is bad
            if not len(data) < length <= end - position:
                return
        position += used


def _in_chunk(data: memoryview, start: int) -> Iterator[tuple[int, Sound]]:
    """Each sound batch, and where it ends in the chunk."""
    position, most = 0, len(data) - HEADER_BYTES
    while position <= most:
        base, length, epoch, magic, crc, delta, time_ms, count = _FIELDS.unpack_from(data, position)
        ends_at = position + LENGTH_ENDS_AT + length
        # The same that `decode_header` demands: a loop of recovery has no time for an object each.
        if (
            ends_at > len(data)
            or magic != MAGIC
            or length < HEADER_BYTES - LENGTH_ENDS_AT
            or delta < 0
            or count < 0
            or not 0 <= base <= MAX_OFFSET - delta
            or crc32c(data[position + CRC_STARTS_AT : ends_at]) != crc
        ):
            return
        size = ends_at - position
        yield ends_at, Sound(start + position, size, base, base + delta, epoch, time_ms)
        position = ends_at


def _size(data: memoryview) -> int:
    """What the first header in it says; 0 if it is bad."""
    try:
        return decode_header(data).size_in_bytes
    except CorruptRecordBatch:
        return 0
