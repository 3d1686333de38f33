"""Record batches, as we and as kafka-python read and write them."""

import struct
import tracemalloc

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.kafka_python import DefaultRecordBatchBuilder, MemoryRecords
from tests.wire.strategies import fixed
from wire.errors import CorruptRecordBatch, ErrorCode, UnsupportedCompressionType
from wire.ids import LeaderEpoch, Offset, ProducerEpoch, ProducerId
from wire.records import (
    CRC_STARTS_AT,
    HEADER_BYTES,
    Attributes,
    Compression,
    ProducerStamp,
    Record,
    RecordBatch,
    assign,
    batches,
    decode_header,
    decode_records,
    encode_batch,
    stamp_append_time,
    verify,
)

NULLABLE = st.none() | st.binary(max_size=200)
HEADERS = st.lists(st.tuples(st.text(max_size=8), NULLABLE), max_size=3).map(tuple)
TIMESTAMPS = st.integers(-1, 2**62)
STAMPS = st.builds(
    ProducerStamp,
    producer_id=st.integers(-1, 2**63 - 1),
    producer_epoch=st.integers(-1, 2**15 - 1),
    base_sequence=st.integers(-1, 2**31 - 1),
)
BODIES = st.lists(st.tuples(TIMESTAMPS, NULLABLE, NULLABLE, HEADERS), min_size=1, max_size=6)


@st.composite
def record_lists(draw: st.DrawFn, gaps: bool = True) -> list[Record]:
    offset = draw(st.integers(0, 2**62)) if gaps else 0
    records = []
    for timestamp_ms, key, value, headers in draw(BODIES):
        records.append(
            Record(
                offset=Offset(offset),
                timestamp_ms=timestamp_ms,
                key=key,
                value=value,
                headers=headers,
            )
        )
        offset += draw(st.integers(1, 1000)) if gaps else 1
    return records


def _record(offset: int, value: bytes | None = b"v", timestamp_ms: int = 1000) -> Record:
    return Record(offset=Offset(offset), timestamp_ms=timestamp_ms, key=b"k", value=value)


def _only(data: bytes | bytearray) -> RecordBatch:
    (batch,) = batches(data)
    return batch


def _with_crc(data: bytearray) -> bytearray:
    struct.pack_into(">I", data, 17, crc32c(memoryview(data)[CRC_STARTS_AT:]))
    return data


@fixed(200)
@given(record_lists(), STAMPS, st.sampled_from([0, 16, 32, 48]), st.integers(-1, 2**31 - 1))
def test_records_come_back_as_they_went(
    records: list[Record], producer: ProducerStamp, attributes: int, epoch: int
):
    data = encode_batch(
        records,
        attributes=attributes,
        producer=producer,
        partition_leader_epoch=LeaderEpoch(epoch),
    )

    batch = _only(data)
    verify(batch)
    header = batch.header
    assert decode_records(batch) == tuple(records)
    assert header.size_in_bytes == len(data) == len(batch.data)
    assert header.base_offset == records[0].offset
    assert header.last_offset == records[-1].offset
    assert header.next_offset == records[-1].offset + 1
    assert header.record_count == len(records)
    assert header.base_timestamp_ms == records[0].timestamp_ms
    assert header.max_timestamp_ms == max(record.timestamp_ms for record in records)
    assert header.partition_leader_epoch == epoch
    assert header.producer_id == producer.producer_id
    assert header.producer_epoch == producer.producer_epoch
    assert header.base_sequence == producer.base_sequence
    assert header.compression is Compression.NONE
    assert header.is_transactional == bool(attributes & 16)
    assert header.is_control == bool(attributes & 32)
    assert not header.is_log_append_time


@fixed(200)
@given(record_lists(gaps=False), STAMPS, st.booleans())
def test_kafka_python_reads_what_we_write(
    records: list[Record], producer: ProducerStamp, transactional: bool
):
    attributes = Attributes.TRANSACTIONAL if transactional else Attributes.NONE
    data = encode_batch(records, attributes=attributes, producer=producer)

    theirs = MemoryRecords(bytes(data)).next_batch()
    assert theirs.validate_crc()
    assert theirs.is_transactional == transactional
    assert theirs.producer_id == producer.producer_id
    assert theirs.producer_epoch == producer.producer_epoch
    assert theirs.base_sequence == producer.base_sequence
    assert theirs.max_timestamp == max(record.timestamp_ms for record in records)
    assert [
        (each.offset, each.timestamp, each.key, each.value, tuple(each.headers)) for each in theirs
    ] == [(each.offset, each.timestamp_ms, each.key, each.value, each.headers) for each in records]


@fixed(200)
@given(record_lists(gaps=False), STAMPS, st.booleans())
def test_we_read_and_write_what_kafka_python_writes(
    records: list[Record], producer: ProducerStamp, transactional: bool
):
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=transactional,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=producer.base_sequence,
        batch_size=1_000_000,
    )
    for each in records:
        builder.append(each.offset, each.timestamp_ms, each.key, each.value, list(each.headers))
    theirs = bytes(builder.build())

    batch = _only(theirs)
    verify(batch)
    assert decode_records(batch) == tuple(records)
    ours = encode_batch(
        records,
        attributes=Attributes.TRANSACTIONAL if transactional else Attributes.NONE,
        producer=producer,
        partition_leader_epoch=LeaderEpoch(0),
    )
    assert ours == theirs


def test_a_batch_is_these_bytes():
    record = Record(offset=Offset(5), timestamp_ms=9, key=None, value=b"hi", headers=(("h", None),))

    data = encode_batch([record], partition_leader_epoch=LeaderEpoch(3))

    assert data[:8] == b"\0\0\0\0\0\0\0\x05"
    assert data[8:17] == b"\0\0\0\x3d" + b"\0\0\0\x03" + b"\x02"
    assert data[21:27] == b"\0\0" + b"\0\0\0\0"
    assert data[27:43] == b"\0\0\0\0\0\0\0\x09" * 2
    assert data[43:57] == b"\xff" * 14
    assert data[57:] == b"\0\0\0\x01" + b"\x16" + b"\0\0\0\x01" + b"\x04hi" + b"\x02\x02h\x01"


def test_crc32c_is_the_castagnoli_one():
    assert crc32c(b"123456789") == 0xE3069283


def test_assigning_an_offset_and_an_epoch_leaves_the_crc_true():
    data = encode_batch([_record(0), _record(1)])

    assign(data, base_offset=Offset(41), leader_epoch=LeaderEpoch(7))

    batch = _only(data)
    verify(batch)
    assert batch.header.partition_leader_epoch == 7
    assert [record.offset for record in decode_records(batch)] == [41, 42]


def test_a_batch_is_assigned_in_the_middle_of_a_buffer():
    first, second = encode_batch([_record(0)]), encode_batch([_record(0)])
    buffer = memoryview(bytearray(first + second))

    assign(buffer, len(first), base_offset=Offset(9), leader_epoch=LeaderEpoch(1))

    assert [batch.header.base_offset for batch in batches(buffer)] == [0, 9]
    assert buffer[: len(first)] == first


def test_append_time_is_every_records_time():
    data = encode_batch([_record(0, timestamp_ms=1), _record(1, timestamp_ms=2)])

    stamp_append_time(data, timestamp_ms=77)

    batch = _only(data)
    verify(batch)
    assert batch.header.is_log_append_time
    assert [record.timestamp_ms for record in decode_records(batch)] == [77, 77]
    theirs = MemoryRecords(bytes(data)).next_batch()
    assert theirs.validate_crc()
    assert [record.timestamp for record in theirs] == [77, 77]


def test_batches_follow_one_another_and_each_knows_its_place():
    first, second = encode_batch([_record(0)]), encode_batch([_record(1), _record(2)])

    found = list(batches(first + second))

    assert [batch.position for batch in found] == [0, len(first)]
    assert [batch.header.base_offset for batch in found] == [0, 1]
    assert found[1].data == second
    assert [batch.position for batch in batches(first + second, len(first))] == [len(first)]


@pytest.mark.parametrize("missing", [1, 10, 40, 60, 69])
def test_an_incomplete_batch_at_the_end_is_left_out(missing: int):
    first, second = encode_batch([_record(0)]), encode_batch([_record(1)])
    assert len(second) == 70

    found = list(batches((first + second)[:-missing]))

    assert [batch.data for batch in found] == [first]


def test_no_bytes_are_no_batches():
    assert list(batches(b"")) == []


def test_a_batch_is_found_without_being_copied():
    data = bytes(encode_batch([_record(0, b"x" * 1_000_000)]))

    tracemalloc.start()
    batch = _only(data)
    verify(batch)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert batch.data.obj is data
    assert peak < 100_000


def test_a_batch_that_compaction_emptied_has_no_records():
    data = encode_batch([_record(4)])[:HEADER_BYTES]
    struct.pack_into(">i", data, 8, HEADER_BYTES - 12)
    struct.pack_into(">i", data, 57, 0)

    batch = _only(_with_crc(data))

    verify(batch)
    assert decode_records(batch) == ()


@pytest.mark.parametrize("position", [21, 30, 57, 61, 69])
def test_a_changed_byte_breaks_the_crc(position: int):
    data = encode_batch([_record(0)])
    data[position] ^= 0x10

    with pytest.raises(CorruptRecordBatch, match="CRC"):
        verify(_only(data))


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_what_says_that_it_is_packed_and_is_not_is_corrupt(codec: int):
    data = encode_batch([_record(0)])
    data[22] |= codec
    batch = _only(_with_crc(data))

    verify(batch)
    assert batch.header.compression is Compression(codec)
    with pytest.raises(CorruptRecordBatch):
        decode_records(batch)
    with pytest.raises(UnsupportedCompressionType):
        encode_batch([_record(0)], attributes=codec)


def test_a_codec_that_nobody_has_is_corrupt():
    data = encode_batch([_record(0)])
    data[22] |= 5

    with pytest.raises(CorruptRecordBatch):
        decode_records(_only(data))


HEADER_FAULTS = {
    "base offset below zero": (">q", 0, -1),
    "last offset beyond int64": (">q", 0, 2**63 - 1),
    "length below zero": (">i", 8, -1),
    "length below a header's": (">i", 8, 48),
    "magic 1": (">b", 16, 1),
    "magic 3": (">b", 16, 3),
    "last offset before the first": (">i", 23, -1),
    "fewer than no records": (">i", 57, -1),
}


@pytest.mark.parametrize("fault", HEADER_FAULTS.values(), ids=HEADER_FAULTS.keys())
def test_a_header_that_contradicts_itself_is_corrupt(fault: tuple[str, int, int]):
    layout, position, value = fault
    data = encode_batch([_record(0)])
    struct.pack_into(layout, data, position, value)

    with pytest.raises(CorruptRecordBatch) as caught:
        decode_header(data)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
    with pytest.raises(CorruptRecordBatch):
        list(batches(data))
    with pytest.raises(CorruptRecordBatch):
        assign(data, base_offset=Offset(0), leader_epoch=LeaderEpoch(0))


@pytest.mark.parametrize("position", [-1, 11, 10_000])
def test_a_header_that_is_not_there_is_corrupt(position: int):
    data = encode_batch([_record(0)])

    with pytest.raises(CorruptRecordBatch):
        decode_header(data, position)


def test_a_batch_cut_short_gets_no_append_time():
    data = encode_batch([_record(0)])[:-1]

    with pytest.raises(CorruptRecordBatch):
        stamp_append_time(data, timestamp_ms=1)


def _batch_of(records: bytes, count: int = 1) -> RecordBatch:
    data = encode_batch([_record(0)])[:HEADER_BYTES] + records
    struct.pack_into(">i", data, 8, len(data) - 12)
    struct.pack_into(">i", data, 57, count)
    return _only(data)


RECORD_FAULTS = {
    "more records than bytes": (b"\x0c\0\0\0\x01\x01\0", 2),
    "two thousand million records": (b"\x0c\0\0\0\x01\x01\0", 2**31 - 1),
    "fewer records than bytes": (b"\x0c\0\0\0\x01\x01\0" * 2, 1),
    "a record longer than the batch": (b"\x7e\0\0\0\x01\x01\0", 1),
    "a record shorter than its fields": (b"\x0a\0\0\0\x01\x01\0", 1),
    "a record longer than its fields": (b"\x0e\0\0\0\x01\x01\0\0", 1),
    "a record of negative length": (b"\x01\0\0\0\x01\x01\0", 1),
    "an empty record": (b"\0" * 7, 7),
    "a key longer than the record": (b"\x0c\0\0\0\x7e\x01\0", 1),
    "a key of two thousand million bytes": (b"\x14\0\0\0\xfe\xff\xff\xff\x0f\x01\0", 1),
    "a key of length -3 that leads back to sound fields": (b"\x0a\0\x04\0\x05\0", 1),
    "a value of length -2": (b"\x0c\0\0\0\x01\x03\0", 1),
    "headers that are not there": (b"\x0c\0\0\0\x01\x01\x7e", 1),
    "two thousand million headers": (b"\x14\0\0\0\x01\x01\xfe\xff\xff\xff\x0f", 1),
    "a last field longer than the batch": (b"\x18\0\0\0\x01\x01\x02\x02h\x06v", 1),
    "headers fewer than none": (b"\x0c\0\0\0\x01\x01\x01", 1),
    "a header without a name": (b"\x10\0\0\0\x01\x01\x02\x01\x01", 1),
    "a header's name in bad UTF-8": (b"\x12\0\0\0\x01\x01\x02\x02\xff\x01", 1),
    "an offset before the batch": (b"\x0c\0\0\x01\x01\x01\0", 1),
    "an offset after the batch": (b"\x0c\0\0\x02\x01\x01\0", 1),
    "a number that never ends": (b"\xff" * 20, 1),
    "a number cut short": (b"\x0c\0\0\0\x01\x01\x80", 1),
}


@pytest.mark.parametrize("fault", RECORD_FAULTS.values(), ids=RECORD_FAULTS.keys())
def test_records_that_contradict_themselves_are_corrupt(fault: tuple[bytes, int]):
    batch = _batch_of(*fault)

    tracemalloc.start()
    with pytest.raises(CorruptRecordBatch):
        decode_records(batch)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 100_000


def test_the_faults_are_faults_of_a_sound_record():
    assert decode_records(_batch_of(b"\x0c\0\0\0\x01\x01\0")) == (
        Record(offset=Offset(0), timestamp_ms=1000),
    )


@fixed(600)
@given(record_lists(), st.data())
def test_a_damaged_batch_is_records_or_corrupt(records: list[Record], data: st.DataObject):
    damaged = encode_batch(records)
    for _ in range(data.draw(st.integers(1, 3))):
        position = data.draw(st.integers(0, len(damaged) - 1))
        damaged[position] = data.draw(st.integers(0, 255))
    _read_or_refuse(bytes(damaged))
    _read_or_refuse(bytes(_with_crc(damaged)))


@fixed(500)
@given(st.binary(max_size=120))
def test_random_records_are_records_or_corrupt(records: bytes):
    _read_or_refuse(bytes(_batch_of(records, count=2).data))


def _read_or_refuse(data: bytes) -> None:
    try:
        for batch in batches(data):
            records = decode_records(batch)
            assert all(0 <= record.offset <= batch.header.last_offset for record in records)
            verify(batch)
    except (CorruptRecordBatch, UnsupportedCompressionType):
        pass


def test_a_producer_is_stamped_on_its_batch():
    stamp = ProducerStamp(
        producer_id=ProducerId(9), producer_epoch=ProducerEpoch(2), base_sequence=31
    )

    header = decode_header(encode_batch([_record(0)], producer=stamp))

    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 2, 31)
