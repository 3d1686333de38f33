"""Batches as producers that compress send them."""

import struct
from collections.abc import Callable

from crc32c import crc32c

from wire.packing import Compression, pack_records
from wire.records import CRC_STARTS_AT, HEADER_BYTES, LENGTH_ENDS_AT


def packed(
    batch: bytes | bytearray,
    codec: Compression,
    pack: Callable[[Compression, bytes], bytes] = pack_records,
) -> bytearray:
    """The same records, packed, with the CRC that belongs to them."""
    result = bytearray(batch[:HEADER_BYTES]) + pack(codec, bytes(batch[HEADER_BYTES:]))
    struct.pack_into(">i", result, 8, len(result) - LENGTH_ENDS_AT)
    struct.pack_into(">h", result, CRC_STARTS_AT, codec)
    struct.pack_into(">I", result, CRC_STARTS_AT - 4, crc32c(bytes(result[CRC_STARTS_AT:])))
    return result
