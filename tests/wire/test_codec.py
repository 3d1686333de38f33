"""Messages to bytes and back, and bytes that are no messages."""

import tracemalloc
from collections.abc import Callable

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from tests.support.by_hand import leader_and_isr, pack_by_hand, unpack_by_hand
from tests.wire.strategies import MESSAGES, fixed, plain, values_of
from wire.admin import DeleteTopics
from wire.codec import MAX_MESSAGE_BYTES, RESPONSE_OF, decode, decode_as, encode
from wire.control import StopReplica, StopReplicaResponse
from wire.data import FetchResponse, FetchResult, Produce, ProducePartition
from wire.errors import ErrorCode, MalformedMessage
from wire.ids import TopicPartition

ORDERS = TopicPartition("orders", 0)
DELETE = encode(DeleteTopics(topics=("orders",), timeout_ms=1000))


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
def test_a_message_comes_back_equal_and_is_plain_msgpack(cls: type[Struct]):
    @fixed(25)
    @given(values_of(cls))
    def check(message: Struct) -> None:
        data = encode(message)
        again = decode(data)
        assert type(again) is cls
        assert again == message
        assert hash(again) == hash(message)
        assert msgpack.unpackb(data) == plain(message)
        assert msgpack.packb(plain(message)) == data

    check()


def test_a_frame_in_the_middle_of_a_buffer_is_decoded_where_it_lies():
    buffer = b"before" + DELETE + b"after"

    message = decode(memoryview(buffer)[6 : 6 + len(DELETE)])

    assert message == DeleteTopics(topics=("orders",), timeout_ms=1000)


def test_records_are_a_view_of_the_frame_and_not_a_copy():
    records = memoryview(b"r" * 1_000_000)
    frame = encode(Produce(acks=1, timeout_ms=1, partitions=(ProducePartition(ORDERS, records),)))

    tracemalloc.start()
    message = decode_as(Produce, frame)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert message.partitions[0].records.obj is frame
    assert message.partitions[0].records == records
    assert peak < 10_000


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_records_of_any_kind_of_bytes_are_sent_alike(kind: Callable[[bytes], memoryview]):
    response = FetchResponse(partitions=(FetchResult(partition=ORDERS, records=kind(b"abc")),))

    assert decode_as(FetchResponse, encode(response)).partitions[0].records == b"abc"


def test_fields_that_a_newer_sender_appends_are_skipped():
    newer = msgpack.packb([504, ["orders"], 1000, "news", {"of": ["any", "kind"]}])

    assert decode(newer) == DeleteTopics(topics=("orders",), timeout_ms=1000)


def test_fields_that_an_older_sender_does_not_know_have_their_defaults():
    assert decode(b"\x91\x67") == StopReplicaResponse(error_code=ErrorCode.NONE, partitions=())


def _nested(opener: bytes, depth: int) -> bytes:
    return b"\x94\xcd\x01\xf8\x90\x01" + opener * depth + b"\x01"  # a third field of DeleteTopics


MALFORMED = {
    "nothing": b"",
    "a bare number": b"\x01",
    "nil": b"\xc0",
    "a string": b"\xa3abc",
    "a map": b"\x81\x01\x02",
    "no code": b"\x90",
    "a code nobody has": b"\x91\x01",
    "a base class's code": b"\x91\x00",
    "a negative code": b"\x91\xff",
    "a code that is text": b"\x91\xa3504",
    "a missing field": b"\x92\xcd\x01\xf8\x90",
    "a number for a list": b"\x93\xcd\x01\xf8\x01\x01",
    "a number for a string": b"\x93\xcd\x01\xf8\x91\x01\x01",
    "a float for a number": b"\x93\xcd\x01\xf8\x90\xca\x3f\x80\x00\x00",
    "a boolean for a number": b"\x93\xcd\x01\xf8\x90\xc3",
    "a number over 32 bits": b"\x93\xcd\x01\xf8\x90\xce\xff\xff\xff\xff",
    "a number over 63 bits": b"\x94\x6a\x01\xcf" + b"\xff" * 8,
    "an error code nobody has": b"\x92\x67\xcd\x03\xe7",
    "bad UTF-8": b"\x93\xcd\x01\xf8\x91\xa1\xff\x01",
    "half a surrogate": b"\x93\xcd\x01\xf8\x91\xa3\xed\xa0\x80\x01",
    "an invalid opcode": b"\x93\xcd\x01\xf8\xc1\x01",
    "something after the end": DELETE + b"\x00",
    "a second message": DELETE + DELETE,
    "nested 100 deep": b"\x91" * 100 + b"\x01",
    "nested 100,000 deep": b"\x91" * 100_000 + b"\x01",
    "arrays nested 100,000 deep in a skipped field": _nested(b"\x91", 100_000),
    "maps nested 100,000 deep in a skipped field": _nested(b"\x81\x01", 100_000),
    "a list said to be huge": b"\x93\xcd\x01\xf8\xdd\xff\xff\xff\xff\xa1a",
    "a string said to be huge": b"\x93\xcd\x01\xf8\x91\xdb\xff\xff\xff\xff\x01",
    "records said to be huge": b"\x94\xcc\xc8\x01\x01\x91\x92\x92\xa1t\x00\xc6\xff\xff\xff\xff",
    "an array said to be huge": b"\xdd\xff\xff\xff\xff\xcd\x01\xf8",
    "a skipped map said to be huge": b"\x94\xcd\x01\xf8\x90\x01\xdf\xff\xff\xff\xff",
}


@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED.keys())
def test_malformed_bytes_are_refused_with_a_sentence_and_without_much_memory(data: bytes):
    tracemalloc.start()
    with pytest.raises(MalformedMessage, match="bytes are not a message: "):
        decode(data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 1_000_000


@pytest.mark.parametrize("end", range(len(DELETE)))
def test_a_truncated_message_is_refused_wherever_it_ends(end: int):
    with pytest.raises(MalformedMessage):
        decode(DELETE[:end])


def test_a_message_over_the_limit_is_refused_before_it_is_read():
    assert decode(DELETE, max_bytes=len(DELETE))

    with pytest.raises(MalformedMessage, match="over the limit"):
        decode(DELETE, max_bytes=len(DELETE) - 1)
    with pytest.raises(MalformedMessage, match="over the limit"):
        decode(bytes(MAX_MESSAGE_BYTES + 1))
    with pytest.raises(MalformedMessage, match="over the limit"):
        decode(memoryview(bytes(400)).cast("I"), max_bytes=399)


def test_another_message_than_the_expected_one_is_refused():
    assert decode_as(DeleteTopics, DELETE).topics == ("orders",)

    with pytest.raises(MalformedMessage, match="StopReplica was due, not DeleteTopics"):
        decode_as(StopReplica, DELETE)


def test_a_response_is_found_by_its_request():
    assert RESPONSE_OF[StopReplica] is StopReplicaResponse


@fixed(1200)
@given(st.one_of(*map(values_of, MESSAGES)), st.data())
def test_a_damaged_message_is_a_message_or_malformed(message: Struct, data: st.DataObject):
    damaged = bytearray(encode(message))
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(damaged)))
        match data.draw(st.sampled_from(["set", "insert", "cut", "repeat"])):
            case "set" if position < len(damaged):
                damaged[position] = data.draw(st.integers(0, 255))
            case "insert":
                damaged[position:position] = data.draw(st.binary(min_size=1, max_size=6))
            case "cut":
                del damaged[position : position + data.draw(st.integers(1, 8))]
            case _:
                damaged[position:position] = damaged[: data.draw(st.integers(1, 16))]
    _decode_or_refuse(bytes(damaged))


@fixed(1000)
@given(st.sampled_from(MESSAGES), st.binary(max_size=60))
def test_random_fields_are_a_message_or_malformed(cls: type[Struct], fields: bytes):
    head = msgpack.packb(cls.__struct_config__.tag)
    for count in (len(cls.__struct_fields__) + 1, 15):
        _decode_or_refuse(bytes([0x90 + count]) + head + fields)


@fixed(1000)
@given(st.binary(max_size=200))
def test_random_bytes_are_a_message_or_malformed(data: bytes):
    _decode_or_refuse(data)


def _decode_or_refuse(data: bytes) -> None:
    try:
        message = decode(data)
    except MalformedMessage:
        return
    assert decode(encode(message)) == message


def test_a_large_request_has_the_bytes_that_plain_msgpack_makes_of_the_same_objects():
    request = leader_and_isr(1_000)

    data = encode(request)

    assert pack_by_hand(request) == data
    assert unpack_by_hand(data) == decode(data) == request
