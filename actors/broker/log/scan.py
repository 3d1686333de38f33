"""Walking the batches of a segment's file.

Rule: to find a place only headers are read; to recover every byte is, in large reads, and believed
only when the CRC is true.
"""

import struct
from collections.abc import Iterator
from typing import Final

from crc32c import crc32c

from runtime.files import File
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

# Base offset, length, leader epoch, magic, CRC, last offset delta, latest time, producer id, count
# of records.
_FIELDS: Final = struct.Struct(">qiibI2xi8xqq6xi")

# Of a batch: position, size, base offset, last offset, leader epoch, latest timestamp, producer id.
Sound = tuple[int, int, Offset, Offset, LeaderEpoch, int, int]

_WINDOW: Final = 4096 + HEADER_BYTES  # what lies between two entries of an index, mostly
_CHUNK: Final = 1 << 18  # what a processor's cache holds


def headers(file: File, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Each batch's position and header, from the batch that begins at `position` on."""
    window, window_at = b"", position
    while position < end:
        if position + HEADER_BYTES > window_at + len(window):
            window, window_at = file.read_at(position, min(_WINDOW, end - position)), position
        header = decode_header(window, position - window_at)
        yield position, header
        position += header.size_in_bytes


def sound_batches(file: File, position: int, end: int) -> Iterator[Sound]:
    """As long as batches are whole and their CRC is true; then it stops.

    It demands the same as `decode_header`, but has no time for an object a batch.
    """
    length, unpack = _CHUNK, _FIELDS.unpack_from
    while position < end:
        data = memoryview(file.read_at(position, min(length, end - position)))
        at, size = 0, len(data)
        while at + HEADER_BYTES <= size:
            base, length, epoch, magic, crc, delta, time_ms, producer, count = unpack(data, at)
            ends_at = at + LENGTH_ENDS_AT + length
            if magic != MAGIC or length < HEADER_BYTES - LENGTH_ENDS_AT or delta < 0 or count < 0:
                return
            if not 0 <= base <= MAX_OFFSET - delta:
                return
            if ends_at > size:
                break
            if crc32c(data[at + CRC_STARTS_AT : ends_at]) != crc:
                return
            yield position + at, ends_at - at, base, base + delta, epoch, time_ms, producer
            at = ends_at
        length += LENGTH_ENDS_AT  # of the last batch: the next one is perhaps as long
        if not at and not size < length <= end - position:
            return
        length = max(length, _CHUNK)
        position += at
