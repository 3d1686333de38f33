"""A record batch of magic 2: what a log is made of.

Rule: whatever is wrong with the bytes of a batch is a CorruptRecordBatch, and no count or length in
them is believed before the bytes are there. Base offset and leader epoch lie outside the CRC, so a
leader assigns them in place and stores all other bytes as they came.

     0 base offset     8 length          12 leader epoch     16 magic          17 CRC-32C
    21 attributes     23 last offset ∆   27 base timestamp   35 max timestamp  43 producer id
    51 producer epoch 53 base sequence   57 record count     61 records
"""

import struct
from collections.abc import Iterator, Sequence
from enum import IntFlag
from typing import Final, TypeAlias

from crc32c import crc32c
from msgspec import Struct

from wire.errors import CorruptRecordBatch, UnsupportedCompressionType
from wire.ids import (
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    LeaderEpoch,
    Offset,
    ProducerEpoch,
    ProducerId,
)
from wire.packing import Compression, unpack_records
from wire.varint import read_varint, read_varlong, write_varint

MAGIC: Final = 2
HEADER_BYTES: Final = 61
LENGTH_ENDS_AT: Final = 12  # the length counts the bytes from here on
CRC_STARTS_AT: Final = 21  # the CRC covers the bytes from here on
MAX_OFFSET: Final = 2**63 - 2  # the offset after it must fit too

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_OFFSET: Final = struct.Struct(">q")
_LEADER_EPOCH: Final = struct.Struct(">i")
_CRC: Final = struct.Struct(">I")
_ATTRIBUTES: Final = struct.Struct(">h")
_MAX_TIMESTAMP: Final = struct.Struct(">q")

Buffer: TypeAlias = bytes | bytearray | memoryview
Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]


class Attributes(IntFlag):
    """The other bits of a batch's attributes."""

    NONE = 0
    LOG_APPEND_TIME = 8  # every record has the batch's max timestamp, set by the broker
    TRANSACTIONAL = 16
    CONTROL = 32  # its records are markers of transactions, not for applications


_COMPRESSION_BITS: Final = 7
# Bare numbers: these are asked of every batch, and to ask a flag takes longer than the rest.
_LOG_APPEND_TIME: Final = int(Attributes.LOG_APPEND_TIME)
_TRANSACTIONAL: Final = int(Attributes.TRANSACTIONAL)
_CONTROL: Final = int(Attributes.CONTROL)
_SEQUENCES: Final = 2**31  # after the last comes 0


class Record(Struct, frozen=True, kw_only=True):
    """One record, at its offset."""

    offset: Offset
    timestamp_ms: int
    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = ()


class ProducerStamp(Struct, frozen=True, kw_only=True):
    """By what a broker knows a batch that an idempotent producer sends twice."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    base_sequence: int


NO_PRODUCER: Final = ProducerStamp(
    producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH, base_sequence=NO_SEQUENCE
)


def sequence_after(sequence: int, count: int) -> int:
    """The sequence so many records further on."""
    return (sequence + count) % _SEQUENCES


class BatchHeader(Struct, frozen=True, gc=False):
    """The 61 bytes before the records, field by field."""

    base_offset: Offset
    length: int
    partition_leader_epoch: LeaderEpoch
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int  # may be past the last record: compaction leaves it as it was
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    base_sequence: int
    record_count: int

    @property
    def size_in_bytes(self) -> int:
        """Of the whole batch, this header included."""
        return LENGTH_ENDS_AT + self.length

    @property
    def last_offset(self) -> Offset:
        """The offset of the batch's last record."""
        return Offset(self.base_offset + self.last_offset_delta)

    @property
    def next_offset(self) -> Offset:
        """The base offset of the batch that follows in the log."""
        return Offset(self.base_offset + self.last_offset_delta + 1)

    @property
    def compression(self) -> Compression:
        """How the records are packed."""
        try:
            return Compression(self.attributes & _COMPRESSION_BITS)
        except ValueError:
            raise CorruptRecordBatch(f"no codec has attributes {self.attributes:#x}") from None

    @property
    def is_log_append_time(self) -> bool:
        """Whether the broker's time stands for the producer's."""
        return bool(self.attributes & _LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        """Whether the records count only once their transaction commits."""
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Whether the records are markers, not for applications."""
        return bool(self.attributes & _CONTROL)


class RecordBatch(Struct, frozen=True, gc=False):
    """A whole batch where it lies: nothing of it is copied, and its CRC is not yet checked."""

    header: BatchHeader
    position: int  # in the buffer it was found in
    data: memoryview  # header included


def encode_batch(
    records: Sequence[Record],
    *,
    attributes: int = Attributes.NONE,
    partition_leader_epoch: LeaderEpoch = NO_LEADER_EPOCH,
    producer: ProducerStamp = NO_PRODUCER,
) -> bytearray:
    """An uncompressed batch of these records, whose first offset is the base offset."""
    assert records, "a batch has at least one record"
    if attributes & _COMPRESSION_BITS:
        raise UnsupportedCompressionType(f"cannot compress for attributes {attributes:#x}")
    base_offset, base_timestamp = records[0].offset, records[0].timestamp_ms
    batch = bytearray(HEADER_BYTES)
    for record in records:
        body = _encode_record(record, base_offset, base_timestamp)
        write_varint(batch, len(body))
        batch += body
    _HEADER.pack_into(
        batch,
        0,
        base_offset,
        len(batch) - LENGTH_ENDS_AT,
        partition_leader_epoch,
        MAGIC,
        0,
        attributes,
        records[-1].offset - base_offset,
        base_timestamp,
        max(record.timestamp_ms for record in records),
        producer.producer_id,
        producer.producer_epoch,
        producer.base_sequence,
        len(records),
    )
    _CRC.pack_into(batch, 17, crc32c(memoryview(batch)[CRC_STARTS_AT:]))
    return batch


def _encode_record(record: Record, base_offset: int, base_timestamp: int) -> bytearray:
    body = bytearray(1)  # a record's own attributes: none are defined
    write_varint(body, record.timestamp_ms - base_timestamp)
    write_varint(body, record.offset - base_offset)
    _write_nullable(body, record.key)
    _write_nullable(body, record.value)
    write_varint(body, len(record.headers))
    for name, value in record.headers:
        _write_nullable(body, name.encode())
        _write_nullable(body, value)
    return body


def _write_nullable(body: bytearray, value: bytes | None) -> None:
    if value is None:
        write_varint(body, -1)
    else:
        write_varint(body, len(value))
        body += value


def decode_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`, whether or not the records after it are there."""
    if position < 0 or len(buffer) - position < HEADER_BYTES:
        raise CorruptRecordBatch(f"no {HEADER_BYTES} bytes of header at position {position}")
    header = BatchHeader(*_HEADER.unpack_from(buffer, position))
    if header.magic != MAGIC:
        raise CorruptRecordBatch(f"magic {header.magic} at position {position}, not {MAGIC}")
    if header.length < HEADER_BYTES - LENGTH_ENDS_AT:
        raise CorruptRecordBatch(f"length {header.length} at position {position} is too small")
    if header.last_offset_delta < 0 or header.record_count < 0:
        raise CorruptRecordBatch(f"negative count or offset delta at position {position}")
    if not 0 <= header.base_offset <= MAX_OFFSET - header.last_offset_delta:
        raise CorruptRecordBatch(f"base offset {header.base_offset} at position {position}")
    return header


def batches(buffer: Buffer, position: int = 0) -> Iterator[RecordBatch]:
    """The whole batches from `position` on; an incomplete one at the end is left out.

    A fetch may end in the middle of a batch, and so may a log after a crash.
    """
    view = memoryview(buffer)
    while len(view) - position >= HEADER_BYTES:
        header = decode_header(view, position)
        end = position + header.size_in_bytes
        if end > len(view):
            return
        yield RecordBatch(header, position, view[position:end])
        position = end


def holds_a_batch(buffer: Buffer) -> bool:
    """Whether the first batch is there to its end."""
    return len(buffer) >= HEADER_BYTES and decode_header(buffer).size_in_bytes <= len(buffer)


def has_zstd(buffer: Buffer) -> bool:
    """Whether a whole batch is packed so: older clients do not know of it (KIP-110)."""
    return any(
        batch.header.attributes & _COMPRESSION_BITS == Compression.ZSTD for batch in batches(buffer)
    )


def verify(batch: RecordBatch) -> None:
    """Raises CorruptRecordBatch unless the CRC is that of the bytes."""
    found = crc32c(batch.data[CRC_STARTS_AT:])
    if found != batch.header.crc:
        raise CorruptRecordBatch(
            f"CRC of the batch at offset {batch.header.base_offset} is {found:#010x}, "
            f"and its header says {batch.header.crc:#010x}"
        )


def decode_records(batch: RecordBatch) -> tuple[Record, ...]:
    """The records of a batch, unpacked and copied out of it."""
    header = batch.header
    data = unpacked(batch)
    records = []
    position = 0
    try:
        for _ in range(header.record_count):
            record, position = _decode_record(data, position, header)
            records.append(record)
    except (IndexError, UnicodeDecodeError) as error:  # a varint past the end; a header's name
        raise CorruptRecordBatch(f"a record is cut short or misspelt: {error}") from error
    if position != len(data):
        raise CorruptRecordBatch(f"the last record ends at byte {position} of {len(data)}")
    return tuple(records)


def unpacked(batch: RecordBatch) -> bytes:
    """The bytes of a batch's records."""
    return bytes(unpack_records(batch.header.compression, batch.data[HEADER_BYTES:]))


def _decode_record(data: bytes, position: int, header: BatchHeader) -> tuple[Record, int]:
    length, position = read_varint(data, position)
    end = position + length
    timestamp_delta, position = read_varlong(data, position + 1)  # skips the record's attributes
    offset_delta, position = read_varint(data, position)
    if not 0 <= offset_delta <= header.last_offset_delta:
        raise CorruptRecordBatch(f"a record's offset delta {offset_delta} is outside its batch")
    key, position = _read_nullable(data, position)
    value, position = _read_nullable(data, position)
    headers, position = _read_headers(data, position)
    if position != end:  # also when a length led out of the record: positions only grow
        raise CorruptRecordBatch(f"a record of {length} bytes ends {position - end} bytes off")
    if header.is_log_append_time:
        timestamp_ms = header.max_timestamp_ms
    else:
        timestamp_ms = header.base_timestamp_ms + timestamp_delta
    record = Record(
        offset=Offset(header.base_offset + offset_delta),
        timestamp_ms=timestamp_ms,
        key=key,
        value=value,
        headers=headers,
    )
    return record, end


def _read_nullable(data: bytes, position: int) -> tuple[bytes | None, int]:
    length, position = read_varint(data, position)
    if length == -1:
        return None, position
    if length < 0:  # or the position would go back, perhaps for ever
        raise CorruptRecordBatch(f"a field of {length} bytes")
    return data[position : position + length], position + length


def _read_headers(data: bytes, position: int) -> tuple[Headers, int]:
    count, position = read_varint(data, position)
    if count == 0:
        return (), position
    if count < 0:
        raise CorruptRecordBatch(f"a record claims {count} headers")
    headers = []
    for _ in range(count):
        name, position = _read_nullable(data, position)
        value, position = _read_nullable(data, position)
        if name is None:
            raise CorruptRecordBatch("a header without a name")
        headers.append((name.decode(), value))
    return tuple(headers), position


def assign(
    buffer: bytearray | memoryview,
    position: int = 0,
    *,
    base_offset: Offset,
    leader_epoch: LeaderEpoch,
) -> None:
    """Gives the batch at `position` its place in the log; its CRC stays true."""
    decode_header(buffer, position)
    _OFFSET.pack_into(buffer, position, base_offset)
    _LEADER_EPOCH.pack_into(buffer, position + 12, leader_epoch)


def stamp_append_time(
    buffer: bytearray | memoryview, position: int = 0, *, timestamp_ms: int
) -> None:
    """Gives all records of the batch at `position` the broker's time, and the batch a new CRC."""
    header = decode_header(buffer, position)
    end = position + header.size_in_bytes
    if end > len(buffer):
        raise CorruptRecordBatch(f"the batch at position {position} is cut short")
    _ATTRIBUTES.pack_into(buffer, position + 21, header.attributes | Attributes.LOG_APPEND_TIME)
    _MAX_TIMESTAMP.pack_into(buffer, position + 35, timestamp_ms)
    _CRC.pack_into(
        buffer, position + 17, crc32c(memoryview(buffer)[position + CRC_STARTS_AT : end])
    )
