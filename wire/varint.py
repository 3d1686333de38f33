"""Integers of as many bytes as they need, as in Kafka's records.

Rule: seven bits a byte, lowest first, and zigzag before that, so that -1 is as short as 1. Reading
past the end is an IndexError for the caller to name; too long a number is a CorruptRecordBatch.
"""

from typing import Final

from wire.errors import CorruptRecordBatch

_MORE: Final = 0x80  # set in every byte but the last
_BITS: Final = 0x7F


def write_varint(buffer: bytearray, value: int) -> None:
    """Appends a varint or a varlong: the bytes are the same."""
    rest = (value << 1) ^ (value >> 63)
    while rest > _BITS:
        buffer.append(rest & _BITS | _MORE)
        rest >>= 7
    buffer.append(rest)


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """An int32 and the position after it."""
    first = data[position]
    if first < _MORE:  # most lengths and deltas
        return (first >> 1) ^ -(first & 1), position + 1
    return _read(data, position, 32)


def read_varlong(data: bytes, position: int) -> tuple[int, int]:
    """An int64 and the position after it."""
    return _read(data, position, 64)


def _read(data: bytes, position: int, bits: int) -> tuple[int, int]:
    result = shift = 0
    while shift < bits:
        byte = data[position]
        position += 1
        result |= (byte & _BITS) << shift
        if byte < _MORE:
            if result >> bits:
                break
            return (result >> 1) ^ -(result & 1), position
        shift += 7
    raise CorruptRecordBatch(f"a number of more than {bits} bits")
