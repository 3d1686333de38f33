"""Integers of as many bytes as they need."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.strategies import fixed
from wire.errors import CorruptRecordBatch
from wire.varint import read_varint, read_varlong, write_varint

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)


def _written(value: int) -> bytes:
    buffer = bytearray()
    write_varint(buffer, value)
    return bytes(buffer)


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (0, b"\x00"),
        (-1, b"\x01"),
        (1, b"\x02"),
        (63, b"\x7e"),
        (-64, b"\x7f"),
        (64, b"\x80\x01"),
        (300, b"\xd8\x04"),
        (2**31 - 1, b"\xfe\xff\xff\xff\x0f"),
        (-(2**31), b"\xff\xff\xff\xff\x0f"),
    ],
)
def test_a_number_is_zigzag_and_seven_bits_a_byte(value: int, data: bytes):
    assert _written(value) == data
    assert read_varint(data, 0) == (value, len(data))


@fixed(300)
@given(INT32, st.binary(max_size=3))
def test_a_varint_comes_back_with_the_position_after_it(value: int, before: bytes):
    data = before + _written(value)

    assert read_varint(data + b"\xff", len(before)) == (value, len(data))
    assert read_varlong(data + b"\xff", len(before)) == (value, len(data))


@fixed(300)
@given(INT64)
def test_a_varlong_comes_back(value: int):
    data = _written(value)

    assert len(data) <= 10
    assert read_varlong(data, 0) == (value, len(data))


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1, 2**63 - 1])
def test_a_varint_over_32_bits_is_corrupt(value: int):
    with pytest.raises(CorruptRecordBatch):
        read_varint(_written(value), 0)


@pytest.mark.parametrize("data", [b"\x80" * 5 + b"\x00", b"\xff" * 100, b"\xff\xff\xff\xff\x1f"])
def test_a_varint_that_does_not_end_is_corrupt(data: bytes):
    with pytest.raises(CorruptRecordBatch):
        read_varint(data, 0)


@pytest.mark.parametrize("data", [b"\x80" * 10 + b"\x00", b"\xff" * 9 + b"\x02"])
def test_a_varlong_over_64_bits_is_corrupt(data: bytes):
    with pytest.raises(CorruptRecordBatch):
        read_varlong(data, 0)


def test_a_number_past_the_end_is_the_callers_to_name():
    with pytest.raises(IndexError):
        read_varint(b"\x80", 0)
