"""Frames to bytes and back, and bytes that are no frames."""

from contextlib import suppress

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.strategies import fixed
from wire.errors import MalformedMessage
from wire.frame import ENVELOPE_BYTES, Frame, FrameKind, decode_frame, encode_frame

NUMBERS = st.integers(0, 2**63 - 1) | st.sampled_from([0, 1, 2**31, 2**63 - 1])
FRAMES = st.builds(
    Frame,
    st.sampled_from(FrameKind),
    NUMBERS,
    st.text(max_size=255),
    st.text(max_size=255),
    NUMBERS,
    st.binary(max_size=300).map(memoryview),
)
SOUND = [0, 7, "broker-1", "broker-2", 0, b"payload"]


@fixed(300)
@given(FRAMES)
def test_a_frame_comes_back_equal_and_is_plain_msgpack(frame):
    data = encode_frame(frame)

    assert decode_frame(data) == frame
    assert msgpack.unpackb(data) == [
        int(frame.kind),
        frame.correlation,
        frame.source,
        frame.destination,
        frame.cause,
        bytes(frame.payload),
    ]


@fixed(500)
@given(st.binary(max_size=200))
def test_random_bytes_are_malformed_or_a_frame_and_nothing_else(data):
    with suppress(MalformedMessage):
        assert isinstance(decode_frame(data), Frame)


@fixed(500)
@given(FRAMES, st.data())
def test_a_damaged_frame_is_malformed_or_a_frame_and_nothing_else(frame, data):
    whole = bytearray(encode_frame(frame))
    whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(whole)))

    for damaged in (bytes(whole), bytes(whole[:cut])):
        with suppress(MalformedMessage):
            assert isinstance(decode_frame(damaged), Frame)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (0, 4),
        (0, "REQUEST"),
        (1, -1),
        (1, 2**63),
        (1, 1.5),
        (2, 7),
        (2, "x" * 256),
        (3, None),
        (3, "x" * 256),
        (4, 2**64 - 1),
        (4, True),
        (5, "text"),
        (5, [1]),
    ],
)
def test_a_field_that_none_may_have_is_malformed(field, value):
    fields = SOUND.copy()
    fields[field] = value

    with pytest.raises(MalformedMessage):
        decode_frame(msgpack.packb(fields))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        b"\x91" * 200_000,
        b"\xdd\xff\xff\xff\xff",
        msgpack.packb(SOUND) + b"\x00",
        msgpack.packb(SOUND[:5]),
        msgpack.packb({"kind": 0}),
        msgpack.packb(SOUND).replace(b"broker-1", b"broker-\xff"),
    ],
)
def test_bytes_that_are_no_frame_are_malformed(data):
    with pytest.raises(MalformedMessage):
        decode_frame(data)


def test_fields_that_a_newer_sender_appends_are_skipped():
    assert decode_frame(msgpack.packb([*SOUND, "later"])).payload == b"payload"


def test_a_frame_over_the_limit_is_malformed_before_it_is_read():
    data = msgpack.packb(SOUND)

    assert decode_frame(data, max_bytes=len(data)).source == "broker-1"
    with pytest.raises(MalformedMessage, match="over the limit"):
        decode_frame(data, max_bytes=len(data) - 1)


def test_the_payload_is_a_view_of_the_bytes_and_not_a_copy():
    data = msgpack.packb(SOUND)

    assert decode_frame(data).payload.obj is data


def test_the_largest_envelope_is_within_its_bound():
    most, name = 2**63 - 1, "\U0001f3ad" * 255
    frame = Frame(FrameKind.REFUSED, most, name, name, most, memoryview(b""))

    assert len(encode_frame(frame)) <= ENVELOPE_BYTES
