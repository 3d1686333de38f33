"""What is packed: read as other clients write it, written as they read it, bounded."""

from contextlib import suppress

import cramjam
import pytest
from aiokafka import codec as others
from hypothesis import given
from hypothesis import strategies as st

import wire.packing
from tests.support.packed import packed
from wire.errors import CorruptRecordBatch
from wire.ids import Offset
from wire.packing import Compression, pack_records, unpack_records
from wire.records import Record, batches, decode_records, encode_batch

PACKED = [each for each in Compression if each is not Compression.NONE]
TEXT = b"".join(b"%d bottles of beer on the wall, " % number for number in range(20_000))
THEIRS = {
    Compression.GZIP: (others.gzip_encode, others.gzip_decode),
    Compression.SNAPPY: (others.snappy_encode, others.snappy_decode),
    Compression.LZ4: (others.lz4_encode, others.lz4_decode),
    Compression.ZSTD: (others.zstd_encode, others.zstd_decode),
}


@pytest.mark.parametrize("codec", Compression)
@pytest.mark.parametrize("data", [b"", b"a", b"\0" * 100_000, TEXT], ids=len)
def test_what_is_packed_is_the_same_when_it_is_unpacked(codec, data):
    assert bytes(unpack_records(codec, pack_records(codec, data))) == data


@pytest.mark.parametrize("codec", PACKED)
def test_aiokafka_reads_what_we_pack_and_we_what_it_packs(codec):
    pack, unpack = THEIRS[codec]

    assert bytes(unpack(pack_records(codec, TEXT))) == TEXT
    assert bytes(unpack_records(codec, bytes(pack(TEXT)))) == TEXT


def test_snappy_is_read_without_frames_too_as_librdkafka_may_write_it():
    raw = bytes(cramjam.snappy.compress_raw(TEXT))

    assert unpack_records(Compression.SNAPPY, raw) == TEXT


def test_lz4_blocks_are_independent_for_java_reads_no_others():
    frame = pack_records(Compression.LZ4, TEXT)

    assert frame[:4] == b"\x04\x22\x4d\x18"
    assert frame[4] & 0x20, "the bit of independent blocks"


@pytest.mark.parametrize("codec", PACKED)
def test_more_than_a_batch_may_be_is_not_unpacked(codec, monkeypatch):
    bomb = pack_records(codec, b"\0" * 1_000_000)
    monkeypatch.setattr(wire.packing, "MOST_UNPACKED_BYTES", 999_999)

    with pytest.raises(CorruptRecordBatch):
        unpack_records(codec, bomb)


@pytest.mark.parametrize("codec", PACKED)
@given(data=st.binary(max_size=200))
def test_bytes_that_are_not_packed_are_corrupt_or_something_but_no_crash(codec, data):
    for each in (data, pack_records(codec, b"abc" * 20)[:-1] + data, b"\x82SNAPPY\0" + data):
        with suppress(CorruptRecordBatch):
            unpack_records(codec, each)


@pytest.mark.parametrize("codec", PACKED)
def test_the_records_of_a_packed_batch_are_decoded(codec):
    records = [Record(offset=Offset(n), timestamp_ms=5 + n, value=b"v" * n) for n in range(100)]
    (batch,) = batches(packed(encode_batch(records), codec))

    assert list(decode_records(batch)) == records
