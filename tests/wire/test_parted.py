"""Messages whose records lie beside them."""

import pytest

from wire.codec import decode, encode
from wire.data import FetchResponse, FetchResult, Produce, ProducePartition
from wire.errors import MalformedMessage
from wire.ids import Offset, TopicPartition
from wire.metadata import ApiVersions
from wire.parted import WORTH_SPARING, Parted, pack, unpack, unpack_as, whole

AT, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1)
MANY = bytes(range(256)) * (WORTH_SPARING // 128)


def produce(*records: bytes | bytearray) -> Produce:
    parts = zip((AT, OTHER), records, strict=False)
    return Produce(
        acks=-1,
        timeout_ms=1,
        partitions=tuple(ProducePartition(at, memoryview(each)) for at, each in parts),
    )


def fetched(*records: bytes | None) -> FetchResponse:
    parts = zip((AT, OTHER), records, strict=False)
    return FetchResponse(
        partitions=tuple(
            FetchResult(
                partition=at,
                high_watermark=Offset(7),
                records=None if each is None else memoryview(each),
            )
            for at, each in parts
        )
    )


@pytest.mark.parametrize("message", [produce(MANY, MANY), fetched(MANY, MANY), fetched(None, MANY)])
def test_a_parted_message_comes_out_as_it_went_in_and_leaves_the_process_whole(
    message: Produce | FetchResponse,
) -> None:
    parted = pack(message)
    assert isinstance(parted, Parted)
    assert unpack(parted) == message
    assert whole(parted) == encode(message)
    assert abs(len(parted) - len(encode(message))) < 20


def test_records_are_handed_over_where_they_lie() -> None:
    found = unpack_as(Produce, pack(produce(MANY))).partitions[0].records
    assert found.obj is MANY
    assert found.readonly


def test_records_that_their_owner_could_still_change_are_copied() -> None:
    mine = bytearray(MANY)
    packed = pack(produce(mine))
    mine[0] = 77
    assert isinstance(packed, bytes)
    assert unpack_as(Produce, packed).partitions[0].records == MANY


@pytest.mark.parametrize("message", [produce(b"few"), fetched(None), ApiVersions()])
def test_what_has_few_records_is_packed_whole(message: Produce) -> None:
    packed = pack(message)
    assert isinstance(packed, bytes)
    assert unpack(packed) == decode(packed) == message


def test_the_head_of_a_parted_message_is_checked_as_any_other() -> None:
    wrong = Produce(acks="all", timeout_ms=1, partitions=produce(MANY).partitions)  # type: ignore[arg-type]
    with pytest.raises(MalformedMessage):
        unpack(pack(wrong))
    with pytest.raises(MalformedMessage):
        unpack_as(FetchResponse, pack(produce(MANY)))
