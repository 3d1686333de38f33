"""The keys and values of __consumer_offsets, byte by byte."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.coordinator.records import (
    OffsetKey,
    OffsetValue,
    decode_changes,
    decode_key,
    decode_value,
    encode_changes,
    encode_key,
    encode_value,
)
from tests.wire.kafka_python import MemoryRecords
from tests.wire.strategies import fixed
from wire.errors import ApiError, CorruptRecordBatch, InvalidRecord
from wire.fields import MAX_STRING_BYTES, fits
from wire.ids import TopicPartition
from wire.records import Attributes, Record, encode_batch

KEY = OffsetKey("g", TopicPartition("t", 5))
VALUE = OffsetValue(offset=42, leader_epoch=7, metadata="mé", commit_timestamp_ms=1_600_000_000_000)
KEY_BYTES = bytes.fromhex("0001 0001 67 0001 74 00000005")
VALUE_BYTES = bytes.fromhex("0003 000000000000002a 00000007 0003 6dc3a9 00000174876e8000")
OFFSET, METADATA = "000000000000002a", "0003 6dc3a9"
COMMITTED, EXPIRES = "00000174876e8000", "00000174876e8001"


def test_a_key_is_written_as_version_1_and_a_value_as_version_3():
    assert encode_key(KEY) == KEY_BYTES
    assert encode_value(VALUE) == VALUE_BYTES


@pytest.mark.parametrize("version", ["0000", "0001"])
def test_both_versions_of_an_offsets_key_are_read(version):
    assert decode_key(bytes.fromhex(version) + KEY_BYTES[2:]) == KEY


@pytest.mark.parametrize(
    ("data", "epoch", "expires"),
    [
        (f"0000 {OFFSET} {METADATA} {COMMITTED}", -1, -1),
        (f"0001 {OFFSET} {METADATA} {COMMITTED} {EXPIRES}", -1, 1_600_000_000_001),
        (f"0002 {OFFSET} {METADATA} {COMMITTED}", -1, -1),
        (f"0003 {OFFSET} 00000007 {METADATA} {COMMITTED}", 7, -1),
    ],
)
def test_all_versions_of_a_value_are_read(data, epoch, expires):
    value = decode_value(bytes.fromhex(data))

    assert value == OffsetValue(
        offset=42,
        leader_epoch=epoch,
        metadata="mé",
        commit_timestamp_ms=1_600_000_000_000,
        expire_timestamp_ms=expires,
    )


@pytest.mark.parametrize("version", [2, 3, 32767, -1])
def test_a_key_of_another_version_is_somebody_elses(version):
    assert decode_key(version.to_bytes(2, "big", signed=True) + b"\0\1g") is None


@pytest.mark.parametrize("version", ["0004", "ffff"])
def test_a_value_of_an_unknown_version_is_refused(version):
    with pytest.raises(InvalidRecord, match="version"):
        decode_value(bytes.fromhex(version) + VALUE_BYTES[2:])


@pytest.mark.parametrize("length", range(len(KEY_BYTES)))
def test_a_key_cut_short_is_refused(length):
    with pytest.raises(InvalidRecord):
        decode_key(KEY_BYTES[:length])


@pytest.mark.parametrize("length", range(len(VALUE_BYTES)))
def test_a_value_cut_short_is_refused(length):
    with pytest.raises(InvalidRecord):
        decode_value(VALUE_BYTES[:length])


@pytest.mark.parametrize(
    "key", [None, b"", bytes.fromhex("0001 ffff"), bytes.fromhex("0001 0001 ff 0001 74 00000005")]
)
def test_a_key_that_is_none_is_refused(key):
    with pytest.raises(InvalidRecord):
        decode_key(key)


@fixed(200)
@given(st.binary(max_size=40))
def test_whatever_the_bytes_are_they_are_read_or_refused(data):
    for decode in (decode_key, decode_value):
        with suppress(ApiError):
            decode(data)


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@fixed(100)
@given(
    TEXTS,
    TEXTS,
    st.integers(-(2**31), 2**31 - 1),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-(2**31), 2**31 - 1),
)
def test_what_was_written_is_read(group, text, number, offset, epoch):
    key = OffsetKey(group, TopicPartition(text, number))
    value = OffsetValue(offset=offset, leader_epoch=epoch, metadata=text, commit_timestamp_ms=1)

    assert decode_key(encode_key(key)) == key
    assert decode_value(encode_value(value)) == value


def test_a_value_that_expires_is_written_as_version_1():
    value = OffsetValue(offset=42, metadata="mé", commit_timestamp_ms=1, expire_timestamp_ms=9)

    assert encode_value(value)[:2] == b"\0\1"
    assert decode_value(encode_value(value)) == value


def test_a_string_fits_by_its_bytes():
    assert fits("a" * MAX_STRING_BYTES)
    assert not fits("a" * (MAX_STRING_BYTES + 1))
    assert not fits("é" * (MAX_STRING_BYTES // 2 + 1))


# --- batches --------------------------------------------------------------------------------------


def test_a_batch_of_changes_is_read_by_other_peoples_reader():
    batch = encode_changes([(KEY, VALUE), (KEY, None)], 1_600_000_000_000)

    (records,) = list(MemoryRecords(bytes(batch)))
    assert [(each.key, each.value, each.timestamp) for each in records] == [
        (KEY_BYTES, VALUE_BYTES, 1_600_000_000_000),
        (KEY_BYTES, None, 1_600_000_000_000),
    ]


def test_changes_are_read_from_an_offset_on_without_what_is_not_an_offset():
    group_metadata = Record(offset=2, timestamp_ms=1, key=b"\0\2\0\1g", value=b"anything")
    offset = Record(offset=3, timestamp_ms=1, key=KEY_BYTES, value=VALUE_BYTES)
    marker = Record(offset=4, timestamp_ms=1, key=b"\0\0\0\1", value=b"")
    data = encode_changes([(KEY, VALUE), (KEY, None)], 1)
    data += encode_batch([group_metadata, offset])
    data += encode_batch([marker], attributes=Attributes.CONTROL)

    assert list(decode_changes(data, 1)) == [(1, (KEY, None)), (3, (KEY, VALUE))]


def test_bytes_that_a_disk_has_changed_are_refused():
    data = encode_changes([(KEY, VALUE)], 1)
    data[-3] ^= 1

    with pytest.raises(CorruptRecordBatch):
        list(decode_changes(data, 0))
