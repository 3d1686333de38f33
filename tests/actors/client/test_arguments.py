"""Arguments of a wrong type: refused by their names, at once, and to nobody's harm."""

import re

import pytest

from actors.client.accumulator import ProducerBatch
from actors.client.group import OffsetAndMetadata
from tests.actors.client.brokers import ORDERS_0, ORDERS_1, FakeBrokers
from wire.errors import ApiError, InvalidRecord, InvalidRequest
from wire.ids import TopicPartition


@pytest.fixture
def brokers(sim):
    return FakeBrokers(sim)


# --- a producer -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "error", "sentence"),
    [
        ({"timestamp_ms": 1.5}, InvalidRecord, "timestamp_ms is 1.5; it must be a whole number"),
        ({"timestamp_ms": True}, InvalidRecord, "timestamp_ms is True; it must be a whole number"),
        ({"timestamp_ms": "7"}, InvalidRecord, "timestamp_ms is '7'; it must be a whole number"),
        ({"partition": True}, InvalidRequest, "partition is True; it must be a whole number"),
        ({"partition": 0.0}, InvalidRequest, "partition is 0.0; it must be a whole number"),
        ({"partition": "0"}, InvalidRequest, "partition is '0'; it must be a whole number"),
        ({"value": "text"}, InvalidRecord, "value is 'text'; it must be bytes or None"),
        ({"key": 7}, InvalidRecord, "key is 7; it must be bytes or None"),
        ({"headers": {"h": b"x"}}, InvalidRecord, "headers is {'h': b'x'}; it must be a list"),
        ({"headers": None}, InvalidRecord, "headers is None; it must be a list of pairs"),
        ({"headers": "ab"}, InvalidRecord, "headers is 'ab'; it must be a list of pairs"),
        ({"headers": ["ab"]}, InvalidRecord, "'ab' is among the headers; it must be a list"),
        ({"headers": [("h",)]}, InvalidRecord, "('h',) is among the headers"),
        ({"headers": [("h", "x")]}, InvalidRecord, "('h', 'x') is among the headers"),
        ({"topic": b"orders"}, InvalidRequest, "topic is b'orders'; it must be a name"),
        ({"topic": None}, InvalidRequest, "topic is None; it must be a name"),
        ({"topic": ""}, InvalidRequest, "topic is ''; it must be a name"),
    ],
)
async def test_a_producer_refuses_it_at_once_and_goes_on(sim, brokers, wrong, error, sentence):
    async with brokers.producer(linger_ms=5) as producer:
        good = await producer.enqueue("orders", b"good", partition=0)
        begun = sim.now_ms

        for put in (producer.enqueue, producer.send):
            with pytest.raises(error, match=f"^{re.escape(sentence)}"):
                await put(**{"topic": "orders"} | wrong)

        assert sim.now_ms == begun
        assert (await good).offset == 0
        assert (await producer.send("orders", b"later", partition=0)).offset == 1


async def test_headers_may_be_pairs_of_any_kind(sim, brokers):
    async with brokers.producer() as producer:
        await producer.send("orders", partition=0, headers=(each for each in [["h", None]]))

    assert brokers.records(ORDERS_0)[0].headers == (("h", None),)


async def test_partitions_are_asked_of_a_name(sim, brokers):
    async with brokers.producer() as producer:
        with pytest.raises(InvalidRequest, match="topic is None"):
            await producer.partitions_for(None)


@pytest.mark.parametrize("acks", [-1, 0])
async def test_a_batch_that_cannot_be_encoded_fails_alone(sim, brokers, monkeypatch, acks):
    encoded = ProducerBatch.encoded

    def odd(batch):
        if batch.records[0].value == b"odd":
            raise TypeError("nobody foresaw this")
        return encoded(batch)

    monkeypatch.setattr(ProducerBatch, "encoded", odd)
    async with brokers.producer(acks=acks, linger_ms=5, batch_size=0) as producer:
        refused = await producer.enqueue("orders", b"odd", partition=0)
        behind = await producer.enqueue("orders", b"behind", partition=0)
        beside = await producer.enqueue("orders", b"beside", partition=1)

        with pytest.raises(InvalidRecord, match=r"orders-0 cannot be .* TypeError: nobody foresaw"):
            await refused
        await behind
        await beside
        assert sim.now_ms < 1_000
        await producer.send("orders", b"later", partition=0)
        await sim.settle()

    assert [each.value for each in brokers.records(ORDERS_0)] == [b"behind", b"later"]
    assert [each.value for each in brokers.records(ORDERS_1)] == [b"beside"]


async def test_what_waits_behind_a_batch_that_cannot_be_encoded_needs_no_other_to_go(
    sim, brokers, monkeypatch
):
    encoded = ProducerBatch.encoded

    def odd(batch):
        if batch.records[0].value == b"odd":
            raise TypeError("nobody foresaw this")
        return encoded(batch)

    monkeypatch.setattr(ProducerBatch, "encoded", odd)
    async with brokers.producer(linger_ms=20, batch_size=0) as producer:
        await producer.partitions_for("orders")
        for value in (b"odd", b"odd", b"behind"):
            delivery = await producer.enqueue("orders", value, partition=0)
        begun = sim.now_ms

        assert (await delivery).offset == 0
        assert sim.now_ms - begun < 100


# --- a consumer -----------------------------------------------------------------------------------

NOT_A_LIST = "; it must be a list of TopicPartition"
NOT_ONE = "is among the partitions; they must be a list of TopicPartition"


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ("t", f"partitions is 't'{NOT_A_LIST}"),
        (ORDERS_0, f"partitions is {ORDERS_0!r}{NOT_A_LIST}"),
        (None, f"partitions is None{NOT_A_LIST}"),
        ([("t", 0)], f"('t', 0) {NOT_ONE}"),
        (["t"], f"'t' {NOT_ONE}"),
        ([TopicPartition("t", "0")], "partition is '0'; it must be a whole number"),
        ([TopicPartition("t", -1)], "there is no partition -1"),
        ([TopicPartition(b"t", 0)], "topic is b't'; it must be a name"),
    ],
)
async def test_a_consumer_is_assigned_partitions_only(sim, brokers, wrong, sentence):
    async with brokers.consumer(group_id="shop") as consumer:
        consumer.assign([ORDERS_1])
        with pytest.raises(InvalidRequest, match=f"^{re.escape(sentence)}"):
            consumer.assign(wrong)
        for ask in (consumer.end_offsets, consumer.beginning_offsets, consumer.committed):
            with pytest.raises(InvalidRequest, match=f"^{re.escape(sentence)}"):
                await ask(wrong)

        assert consumer.assignment == (ORDERS_1,)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda to: to.seek(ORDERS_0, "3"), "offset is '3'; it must be a whole number"),
        (lambda to: to.seek(ORDERS_0, 3.0), "offset is 3.0; it must be a whole number"),
        (lambda to: to.seek(ORDERS_0, True), "offset is True; it must be a whole number"),
        (lambda to: to.seek(ORDERS_0, 2**63), "offset is 9223372036854775808; it must be"),
        (lambda to: to.seek("orders", 3), "partition is 'orders'; it must be a TopicPartition"),
        (lambda to: to.seek_to_end("orders"), f"'orders' {NOT_ONE}"),
        (lambda to: to.seek_to_timestamp(ORDERS_0, 1.5), "timestamp_ms is 1.5; it must be"),
        (lambda to: to.position(("orders", 0)), "partition is ('orders', 0); it must be a Topic"),
        (lambda to: to.position(ORDERS_0, "9"), "timeout_ms is '9'; it must be a number"),
        (lambda to: to.poll(None), "timeout_ms is None; it must be a number"),
        (lambda to: to.poll("1"), "timeout_ms is '1'; it must be a number"),
        (lambda to: to.poll(float("nan")), "timeout_ms is nan; it must be a number"),
        (lambda to: to.poll_batches(True), "timeout_ms is True; it must be a number"),
        (lambda to: to.offsets_for_times([ORDERS_0]), "times is [TopicPartition("),
        (lambda to: to.offsets_for_times({ORDERS_0: "1"}), "timestamp_ms is '1'; it must be"),
        (lambda to: to.commit([ORDERS_0]), "offsets is [TopicPartition("),
        (lambda to: to.commit({"orders": 1}), f"'orders' {NOT_ONE}"),
        (lambda to: to.commit({ORDERS_0: "1"}), "offset is '1'; it must be a whole number"),
        (lambda to: to.commit({ORDERS_0: True}), "offset is True; it must be a whole number"),
        (
            lambda to: to.commit({ORDERS_0: OffsetAndMetadata(1, b"note")}),
            "metadata is b'note'; it must be text",
        ),
        (
            lambda to: to.commit({ORDERS_0: OffsetAndMetadata(1, "", None)}),
            "leader_epoch is None; it must be a whole number",
        ),
    ],
)
async def test_a_consumer_refuses_it_at_once_and_goes_on(sim, brokers, call, sentence):
    brokers.write(ORDERS_0, b"x")
    async with brokers.consumer(group_id="shop", auto_offset_reset="earliest") as consumer:
        consumer.assign([ORDERS_0])
        begun = sim.now_ms
        with pytest.raises(ApiError, match=f"^{re.escape(sentence)}") as refused:
            await call(consumer)

        assert isinstance(refused.value, InvalidRequest)
        assert sim.now_ms == begun
        assert [each.value for each in await consumer.poll()] == [b"x"]
        await consumer.commit({ORDERS_0: OffsetAndMetadata(1, "note")})
        assert (await consumer.committed([ORDERS_0]))[ORDERS_0].offset == 1
