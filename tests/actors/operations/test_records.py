"""Records in and out by their operations, on a simulated cluster."""

from base64 import b64encode

import pytest

from actors.operations.operation import BadInput
from actors.operations.records import (
    ConsumeGiven,
    ProduceGiven,
    RecordGiven,
    consume,
    produce,
)
from wire.errors import InvalidRequest, MessageTooLarge, OffsetOutOfRange, UnknownTopicOrPartition
from wire.ids import TopicPartition

BINARY = b"\xff\x00"


@pytest.fixture
async def orders(cluster):
    await cluster.admin().create_topic("orders", partitions=2, replication_factor=3)
    return cluster


async def send(cluster, *records, **options):
    given = [RecordGiven(**each) for each in records]
    return await produce(cluster, ProduceGiven(topic="orders", records=given, **options))


async def read(cluster, **options):
    return await consume(cluster, ConsumeGiven(topic="orders", **options))


async def values(cluster, **options):
    return [each.value for each in await read(cluster, **options)]


def numbered(count, partition=0):
    return [{"value": str(number), "partition": partition} for number in range(count)]


async def test_records_come_out_as_they_went_in(orders):
    (sent,) = await send(
        orders, {"key": "k", "value": "v", "partition": 1, "headers": {"h": "é"}, "timestamp_ms": 7}
    )

    (found,) = await read(orders)

    assert (sent.partition, sent.offset, sent.timestamp_ms) == (1, 0, 7)
    assert (found.partition, found.offset, found.timestamp_ms) == (1, 0, 7)
    assert (found.key, found.value, found.headers) == ("k", "v", {"h": "é"})


async def test_bytes_that_are_no_text_are_base64_both_ways(orders):
    encoded = b64encode(BINARY).decode()

    await send(orders, {"key_base64": encoded, "value_base64": encoded})

    (found,) = await read(orders)
    assert (found.key, found.value) == (None, None)
    assert (found.key_base64, found.value_base64) == (encoded, encoded)


@pytest.mark.parametrize("acks", ["0", "1", "-1", "all"])
async def test_every_kind_of_acknowledgement_delivers(sim, orders, acks):
    (sent,) = await send(orders, {"value": "v", "partition": 0}, acks=acks)
    await sim.settle()

    assert sent.offset == (-1 if acks == "0" else 0)
    assert await values(orders) == ["v"]


@pytest.mark.parametrize(
    ("wrong", "error", "sentence"),
    [
        ({"value": "v", "value_base64": "dg=="}, BadInput, "value and value_base64"),
        ({"key_base64": "no base64"}, BadInput, "key_base64 is no base64"),
        (
            {"value": "v", "partition": 2},
            UnknownTopicOrPartition,
            r"records\[1\].*2 partitions, and no partition 2",
        ),
        ({"value": "v" * 2_000_000}, MessageTooLarge, r"records\[1\] has 20.* bytes"),
    ],
)
async def test_one_wrong_record_and_none_is_sent(sim, orders, wrong, error, sentence):
    with pytest.raises(error, match=sentence):
        await send(orders, {"value": "fine", "partition": 0}, wrong)
    await sim.settle()

    assert await read(orders) == []


async def test_acks_that_are_none_are_refused(orders):
    with pytest.raises(BadInput, match="'2'; it must be one of 0, 1, -1, all"):
        await send(orders, {"value": "v"}, acks="2")


async def test_nothing_is_sent_to_a_topic_that_is_not_there_and_none_is_made(orders):
    with pytest.raises(UnknownTopicOrPartition, match="payments"):
        await produce(orders, ProduceGiven(topic="payments", records=[RecordGiven(value="v")]))

    assert await orders.admin().list_topics() == ("orders",)


# --- reading --------------------------------------------------------------------------------------


async def test_no_more_is_answered_than_was_asked_for(orders):
    await send(orders, *numbered(10))

    assert await values(orders, max_records=3) == ["0", "1", "2"]
    assert len(await values(orders)) == 10


async def test_reading_begins_where_it_is_told(orders):
    await send(orders, *numbered(4))

    assert await values(orders, partition=0, offset="2") == ["2", "3"]
    assert await values(orders, partition=0, offset="latest", timeout_ms=10) == []
    assert await values(orders, partition=1) == []


async def test_a_group_goes_on_after_what_was_answered(orders):
    await send(orders, *numbered(5))

    first = await values(orders, group="billing", max_records=2)
    second = await values(orders, group="billing")

    assert (first, second) == (["0", "1"], ["2", "3", "4"])
    assert await values(orders) == ["0", "1", "2", "3", "4"]
    committed = await orders.admin().group_offsets("billing")
    assert committed[TopicPartition("orders", 0)].offset == 5


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        ({"offset": "first"}, BadInput, "'first'; it must be a number, earliest or latest"),
        ({"offset": "-1"}, BadInput, "'-1'"),
        ({"offset": "1"}, BadInput, "partition must be given"),
        ({"partition": 0, "offset": str(2**63)}, InvalidRequest, "offset"),
        ({"partition": 2}, BadInput, "2 partitions, and no partition 2"),
        ({"partition": 0, "offset": "5"}, OffsetOutOfRange, "orders-0 has no offset 5"),
    ],
)
async def test_a_place_that_is_not_there_is_refused(orders, options, error, sentence):
    await send(orders, *numbered(2))

    with pytest.raises(error, match=sentence):
        await read(orders, **options)


async def test_a_topic_that_is_not_there_cannot_be_read(cluster):
    with pytest.raises(UnknownTopicOrPartition, match="orders"):
        await read(cluster)

    assert await cluster.admin().list_topics() == ()


async def test_an_answer_has_a_bound_in_bytes_and_a_group_goes_on_after_it(orders):
    big = "x" * 900_000
    await send(orders, *({"value": big, "partition": 0} for _ in range(20)))

    first = await read(orders, group="billing", max_records=20)
    offset = (await orders.admin().group_offsets("billing"))[TopicPartition("orders", 0)].offset

    assert 1 <= len(first) < 20
    assert sum(len(each.value) for each in first) < 12_000_000
    assert offset == len(first)
