"""Walking the batches of a segment's file.

Rule: to find a place only headers are read; to recover every byte is, in large reads, and believed
only when the CRC is true.
"""

from collections.abc import Iterator
from typing import Final

from runtime.files import File
from wire.errors import CorruptRecordBatch
from wire.records import HEADER_BYTES, BatchHeader, batches, decode_header, verify

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


def sound_batches(file: File, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """The same, for as long as batches are whole and their CRC is true; then it stops."""
    length = _CHUNK
    while position < end:
        data = file.read_at(position, min(length, end - position))
        used = 0
        try:
            for batch in batches(data):
                verify(batch)
                yield position + batch.position, batch.header
                used = batch.position + batch.header.size_in_bytes
            if not used:
                length = decode_header(data).size_in_bytes  # longer than what was read
        except CorruptRecordBatch:
            return
        if not used and length > end - position:
            return
        if used:
            position, length = position + used, _CHUNK
