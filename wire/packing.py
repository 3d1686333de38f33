"""How the records of a batch are packed: gzip, snappy, lz4, zstd.

Rule: brokers store and send batches as they came; this is for those who must look inside. What is
broken, or would be too large, is a CorruptRecordBatch. No size that packed bytes claim is believed.
"""

import mmap
import struct
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any, Final, TypeAlias

import cramjam

from wire.errors import CorruptRecordBatch

Buffer: TypeAlias = bytes | bytearray | memoryview

# Of one batch, unpacked. A message.max.bytes of 1 MB, packed as well as repetitive logs are.
MOST_UNPACKED_BYTES: Final = 64 << 20
_XERIAL: Final = b"\x82SNAPPY\0"  # the framing of Java's clients, in blocks with their lengths
_XERIAL_HEADER: Final = _XERIAL + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES: Final = 32 << 10
# An LZ4 frame of independent blocks of 64 KB: the only kind that Java's clients read.
_LZ4_HEADER: Final = b"\x04\x22\x4d\x18\x60\x40\x82"
_LZ4_BLOCK_BYTES: Final = 64 << 10
_LZ4_END: Final = b"\0\0\0\0"
_LZ4_STORED: Final = 1 << 31
_INT32: Final = struct.Struct(">i")
_UINT32_LE: Final = struct.Struct("<I")


class Compression(IntEnum):
    """How a batch's records are packed: the lowest three bits of its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def unpack_records(compression: Compression, data: Buffer) -> Buffer:
    """The records' bytes."""
    if compression is Compression.NONE:
        return data
    try:
        if compression is Compression.SNAPPY:
            return _unpack_snappy(bytes(data))
        return _unpack_into(_UNPACK[compression], bytes(data))
    except cramjam.DecompressionError as error:
        name = compression.name.lower()
        raise CorruptRecordBatch(f"{len(data)} bytes are no {name}: {error}") from None


def pack_records(compression: Compression, data: Buffer) -> bytes:
    """The same bytes, packed so that every client can read them."""
    match compression:
        case Compression.NONE:
            return bytes(data)
        case Compression.GZIP:
            return bytes(cramjam.gzip.compress(bytes(data)))
        case Compression.SNAPPY:
            return _pack_snappy(bytes(data))
        case Compression.LZ4:
            return _pack_lz4(bytes(data))
        case Compression.ZSTD:
            return bytes(cramjam.zstd.compress(bytes(data)))


_UNPACK: Final[Mapping[Compression, Callable[..., Any]]] = {
    Compression.GZIP: cramjam.gzip.decompress_into,
    Compression.LZ4: cramjam.lz4.decompress_into,
    Compression.ZSTD: cramjam.zstd.decompress_into,
}


def _unpack_into(unpack: Callable[..., Any], data: bytes) -> bytes:
    """Into as much room as there may be: only what is written to is really taken."""
    with mmap.mmap(-1, MOST_UNPACKED_BYTES) as room:
        return room[: unpack(data, room)]


def _unpack_snappy(data: bytes) -> bytes:
    if not data.startswith(_XERIAL):
        return _unpack_snappy_block(data, MOST_UNPACKED_BYTES)
    unpacked = bytearray()
    position = len(_XERIAL_HEADER)
    while position < len(data):
        if len(data) - position < _INT32.size:
            raise CorruptRecordBatch(f"{len(data)} bytes of snappy end within a length")
        (length,) = _INT32.unpack_from(data, position)
        position += _INT32.size
        if not 0 <= length <= len(data) - position:
            raise CorruptRecordBatch(f"a snappy block of {length} bytes")
        block = data[position : position + length]
        unpacked += _unpack_snappy_block(block, MOST_UNPACKED_BYTES - len(unpacked))
        position += length
    return bytes(unpacked)


def _unpack_snappy_block(block: bytes, most: int) -> bytes:
    length = cramjam.snappy.decompress_raw_len(block)
    if length > most:
        raise CorruptRecordBatch(f"{length} bytes of snappy are too many")
    room = bytearray(length)
    return bytes(room[: cramjam.snappy.decompress_raw_into(block, room)])


def _pack_snappy(data: bytes) -> bytes:
    packed = bytearray(_XERIAL_HEADER)
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
        packed += _INT32.pack(len(block)) + block
    return bytes(packed)


def _pack_lz4(data: bytes) -> bytes:
    packed = bytearray(_LZ4_HEADER)
    for start in range(0, len(data), _LZ4_BLOCK_BYTES):
        plain = data[start : start + _LZ4_BLOCK_BYTES]
        block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            packed += _UINT32_LE.pack(len(block)) + block
        else:
            packed += _UINT32_LE.pack(len(plain) | _LZ4_STORED) + plain
    return bytes(packed + _LZ4_END)
