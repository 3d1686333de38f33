"""A producer against brokers that do as they are told."""

import asyncio

import pytest

from actors.client.config import ProducerConfig
from actors.client.deadline import Deadline
from actors.client.errors import BufferExhausted, ClientClosed, DeliveryTimedOut
from actors.client.memory import Memory
from actors.client.partitioner import partition_of_key
from actors.config import BadConfig
from runtime.clock import RealClock, real_trace
from runtime.network import Endpoint, MemoryTransport
from tests.actors.client.brokers import DONE_AND_LOST, LOST, ORDERS_0, ORDERS_1, FakeBrokers
from wire.data import Produce, ProduceResponse, ProduceResult
from wire.errors import (
    ErrorCode,
    InvalidRecord,
    InvalidRequest,
    InvalidTopic,
    MalformedMessage,
    MessageTooLarge,
    NotEnoughReplicas,
    RequestTimedOut,
    UnknownTopicOrPartition,
)
from wire.ids import NO_OFFSET, TopicPartition
from wire.metadata import ApiVersionsResponse, Metadata, MetadataResponse


@pytest.fixture
def brokers(sim):
    return FakeBrokers(sim)


def refusing(code):
    """A step of a script: every partition of the request has this error."""

    def answer(_, request):
        return ProduceResponse(
            partitions=tuple(
                ProduceResult(partition=each.partition, error_code=code)
                for each in request.partitions
            )
        )

    return answer


# --- sending --------------------------------------------------------------------------------------


async def test_a_record_is_where_its_metadata_says(sim, brokers):
    brokers.write(ORDERS_1, b"earlier")

    async with brokers.producer() as producer:
        sent = await producer.send(
            "orders", b"value", b"key", partition=1, headers=[("h", b"1")], timestamp_ms=77
        )

    assert (sent.topic, sent.partition, sent.offset, sent.timestamp_ms) == ("orders", 1, 1, 77)
    record = brokers.records(ORDERS_1)[1]
    assert (record.key, record.value, record.headers) == (b"key", b"value", (("h", b"1"),))
    assert record.timestamp_ms == 77


async def test_a_record_has_the_clients_time_unless_the_broker_says_its_own(sim, brokers):
    def stamped(_, request):
        brokers.answer(1, request)
        result = ProduceResult(partition=ORDERS_0, base_offset=0, log_append_time_ms=5)
        return ProduceResponse(partitions=(result,))

    brokers.script(Produce, None, stamped)
    async with brokers.producer() as producer:
        first = await producer.send("orders", b"1", partition=0)
        second = await producer.send("orders", b"2", partition=0)

    assert first.timestamp_ms == brokers.records(ORDERS_0)[0].timestamp_ms >= 1_600_000_000_000
    assert second.timestamp_ms == 5


async def test_a_key_always_goes_to_its_partition(sim, brokers):
    keys = [f"key-{number}".encode() for number in range(20)]

    async with brokers.producer() as producer:
        sent = [await producer.send("orders", b"", key) for key in keys]

    assert [each.partition for each in sent] == [partition_of_key(key, 2) for key in keys]


async def test_without_a_key_partitions_take_turns_by_batch(sim, brokers):
    async with brokers.producer(linger_ms=5) as producer:
        for _ in range(2):
            deliveries = [await producer.enqueue("orders", b"x") for _ in range(3)]
            await producer.flush()
            assert len({(await each).partition for each in deliveries}) == 1

    assert len(brokers.logs[ORDERS_0]) == len(brokers.logs[ORDERS_1]) == 1


async def test_without_a_key_a_partition_without_a_leader_is_avoided(sim, brokers):
    brokers.lead(ORDERS_0, -1, 1)

    async with brokers.producer() as producer:
        sent = [await producer.send("orders", b"x") for _ in range(3)]

    assert {each.partition for each in sent} == {1}


# --- batching -------------------------------------------------------------------------------------


async def test_records_that_linger_share_a_batch(sim, brokers):
    async with brokers.producer(linger_ms=50) as producer:
        first = await producer.enqueue("orders", b"0", partition=0)
        begun = sim.now_ms
        others = [await producer.enqueue("orders", b"x", partition=0) for _ in range(9)]
        await first
        took = sim.now_ms - begun
        offsets = [(await each).offset for each in (first, *others)]

    assert 50 <= took < 60
    assert offsets == list(range(10))
    assert len(brokers.logs[ORDERS_0]) == 1


async def test_a_full_batch_does_not_linger(sim, brokers):
    async with brokers.producer(linger_ms=10_000, batch_size=400) as producer:
        deliveries = [await producer.enqueue("orders", bytes(100), partition=0) for _ in range(5)]
        await deliveries[0]
        took = sim.now_ms
        assert not deliveries[-1].is_done

    assert took < 1_000
    assert [each.value for each in brokers.records(ORDERS_0)] == [bytes(100)] * 5
    assert len(brokers.logs[ORDERS_0]) == 3


async def test_a_record_larger_than_a_batch_goes_alone(sim, brokers):
    async with brokers.producer(batch_size=0) as producer:
        deliveries = [await producer.enqueue("orders", b"x", partition=0) for _ in range(3)]
        assert [(await each).offset for each in deliveries] == [0, 1, 2]

    assert len(brokers.logs[ORDERS_0]) == 3


async def test_a_flush_ends_lingering_and_waits_for_all(sim, brokers):
    async with brokers.producer(linger_ms=60_000) as producer:
        deliveries = [await producer.enqueue("orders", b"x", partition=each) for each in (0, 1)]

        await producer.flush()

        assert all(each.is_done for each in deliveries)
    assert sim.now_ms < 1_000


async def test_batches_for_one_leader_share_a_request_up_to_its_size(sim):
    brokers = FakeBrokers(sim, brokers=1, orders=4)
    async with brokers.producer(linger_ms=10, max_request_size=500) as producer:
        for partition in range(4):
            await producer.enqueue("orders", bytes(100), partition=partition)
        await producer.flush()

    sizes = [len(request.partitions) for request in brokers.sent(Produce)]
    assert sizes == [2, 2]


async def test_requests_in_flight_are_limited(sim):
    brokers = FakeBrokers(sim, brokers=1, orders=4)
    brokers.script(Produce, LOST, LOST)
    async with brokers.producer(
        max_request_size=150, max_in_flight_requests_per_connection=2, request_timeout_ms=1_000
    ) as producer:
        for partition in range(4):
            await producer.enqueue("orders", bytes(20), partition=partition)
        await sim.sleep(900)
        before = len(brokers.sent(Produce))
        await producer.flush()

    assert before == 2
    assert all(len(brokers.logs[TopicPartition("orders", each)]) == 1 for each in range(4))


# --- acks -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("acks", [1, -1])
async def test_the_broker_is_told_how_safe_it_must_be(sim, brokers, acks):
    async with brokers.producer(acks=acks) as producer:
        await producer.send("orders", b"x")

    (request,) = brokers.sent(Produce)
    assert (request.acks, request.timeout_ms) == (acks, 30_000)


async def test_without_acks_nobody_says_where_the_records_are(sim, brokers):
    brokers.script(Produce, *[DONE_AND_LOST] * 20)
    async with brokers.producer(acks=0, batch_size=0) as producer:
        deliveries = [
            await producer.enqueue("orders", b"%d" % each, partition=0) for each in range(9)
        ]
        offsets = {(await each).offset for each in deliveries}
        await sim.sleep(100)

    assert offsets == {NO_OFFSET}
    assert brokers.values(ORDERS_0) == [b"%d" % each for each in range(9)]


# --- trying again ---------------------------------------------------------------------------------


async def test_a_record_follows_its_leader(sim, brokers):
    async with brokers.producer() as producer:
        await producer.send("orders", b"1", partition=0)
        brokers.lead(ORDERS_0, 2, 1)
        sent = await producer.send("orders", b"2", partition=0)

    assert sent.offset == 1
    assert [number for number, each in brokers.requests if isinstance(each, Produce)] == [1, 1, 2]


async def test_order_is_kept_whatever_fails(sim, brokers):
    steps = [None, LOST, refusing(ErrorCode.NOT_LEADER_OR_FOLLOWER), None]
    steps += [refusing(ErrorCode.NOT_ENOUGH_REPLICAS)] * 3
    brokers.script(Produce, *steps)
    async with brokers.producer(batch_size=200, request_timeout_ms=2_000) as producer:
        values = [b"%d" % each for each in range(50)]
        deliveries = [await producer.enqueue("orders", each, partition=0) for each in values]
        offsets = [(await each).offset for each in deliveries]

    assert brokers.values(ORDERS_0) == values
    assert offsets == list(range(50))


async def test_a_batch_whose_answer_was_lost_may_be_there_twice(sim, brokers):
    brokers.script(Produce, DONE_AND_LOST)
    async with brokers.producer(request_timeout_ms=1_000) as producer:
        first = await producer.send("orders", b"1", partition=0)
        second = await producer.send("orders", b"2", partition=0)

    assert brokers.values(ORDERS_0) == [b"1", b"1", b"2"]
    assert (first.offset, second.offset) == (1, 2)


async def test_a_dead_broker_is_passed_over_when_its_partitions_have_moved(sim, brokers):
    async with brokers.producer() as producer:
        await producer.send("orders", b"1", partition=0)
        brokers.networks[1].close()
        brokers.lead(ORDERS_0, 2, 1)

        sent = await producer.send("orders", b"2", partition=0)

    assert sent.offset == 1


async def test_retries_wait_in_between(sim, brokers):
    brokers.script(Produce, *[refusing(ErrorCode.NOT_ENOUGH_REPLICAS)] * 4)
    async with brokers.producer(retry_backoff_ms=300) as producer:
        await producer.send("orders", b"1", partition=0)

    assert 1_200 <= sim.now_ms < 1_500


async def test_retries_may_be_used_up(sim, brokers):
    brokers.script(Produce, *[refusing(ErrorCode.NOT_ENOUGH_REPLICAS)] * 9)
    async with brokers.producer(retries=2) as producer:
        with pytest.raises(NotEnoughReplicas, match="orders-0"):
            await producer.send("orders", b"1", partition=0)

    assert len(brokers.sent(Produce)) == 3


async def test_what_is_too_old_fails_with_what_went_wrong_last(sim, brokers):
    brokers.script(Produce, *[refusing(ErrorCode.NOT_ENOUGH_REPLICAS)] * 999)
    async with brokers.producer(delivery_timeout_ms=5_000, request_timeout_ms=1_000) as producer:
        with pytest.raises(DeliveryTimedOut, match=r"orders-0 .* 5000 ms.*NOT_ENOUGH_REPLICAS"):
            await producer.send("orders", b"1", partition=0)

        assert 5_000 <= sim.now_ms < 5_200


async def test_a_request_under_way_does_not_keep_records_from_growing_too_old(sim, brokers):
    brokers.script(Produce, LOST, LOST)
    async with brokers.producer(delivery_timeout_ms=5_000, request_timeout_ms=4_000) as producer:
        first = await producer.enqueue("orders", b"1", partition=0)
        await sim.sleep(4_900)
        second = await producer.enqueue("orders", b"2", partition=0)

        with pytest.raises(DeliveryTimedOut):
            await first
        assert sim.now_ms < 5_050
        await second  # it does not overtake the first, which may yet be taken

    assert sim.now_ms > 9_000
    assert brokers.values(ORDERS_0) == [b"2"]


async def test_a_batch_is_the_same_when_it_is_sent_again(sim, brokers):
    brokers.script(Produce, refusing(ErrorCode.NOT_ENOUGH_REPLICAS))
    async with brokers.producer() as producer:
        first = await producer.enqueue("orders", b"1", partition=0)
        await sim.sleep(50)
        second = await producer.enqueue("orders", b"2", partition=0)
        offsets = [(await first).offset, (await second).offset]

    sent = [bytes(each.partitions[0].records) for each in brokers.sent(Produce)]
    assert sent[0] == sent[1]
    assert offsets == [0, 1]
    assert brokers.values(ORDERS_0) == [b"1", b"2"]


async def test_a_broker_that_knows_no_better_is_not_the_only_one_asked(sim, brokers):
    stale = brokers.answer(1, Metadata(topics=("orders",)))
    brokers.lead(ORDERS_0, 2, 1)

    def answer(me, request):
        return stale if me == 1 else brokers.answer(me, request)

    brokers.script(Metadata, *[answer] * 99)
    async with brokers.producer() as producer:
        await producer.send("orders", b"x", partition=0)

    assert sim.now_ms < 1_000


async def test_a_broker_is_found_that_was_not_named(sim, brokers):
    async with brokers.producer(bootstrap=[1]) as producer:
        await producer.send("orders", b"1", partition=0)
        brokers.networks[1].close()
        brokers.lead(ORDERS_0, 2, 1)

        await producer.send("orders", b"2", partition=0)

    assert brokers.values(ORDERS_0) == [b"1", b"2"]


async def test_a_topic_that_was_made_anew_has_its_own_epochs(sim, brokers):
    brokers.topic_ids["orders"] = "A" * 22
    brokers.lead(ORDERS_0, 1, 7)
    async with brokers.producer() as producer:
        await producer.send("orders", b"1", partition=0)
        brokers.topic_ids["orders"] = "B" * 22
        brokers.lead(ORDERS_0, 2, 0)

        await producer.send("orders", b"2", partition=0)

    assert sim.now_ms < 1_000


async def test_a_loop_that_never_waits_does_not_keep_the_sender_from_sending(sim, brokers):
    async with brokers.producer(batch_size=400) as producer:
        await producer.partitions_for("orders")
        for _ in range(20):
            await producer.enqueue("orders", bytes(100), partition=0)

        assert producer._sender.batches._in_flight


async def test_a_partition_that_waits_holds_up_no_other(sim, brokers):
    brokers.lead(ORDERS_0, -1, 1)
    async with brokers.producer(delivery_timeout_ms=9_000, request_timeout_ms=9_000) as producer:
        stuck = await producer.enqueue("orders", b"1", partition=0)
        await producer.send("orders", b"2", partition=1)

        assert sim.now_ms < 1_000
        brokers.lead(ORDERS_0, 2, 2)
        await stuck


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (ErrorCode.MESSAGE_TOO_LARGE, MessageTooLarge),
        (ErrorCode.INVALID_RECORD, InvalidRecord),
        (ErrorCode.INVALID_TOPIC_EXCEPTION, InvalidTopic),
    ],
)
async def test_what_will_not_pass_fails_that_batch_alone(sim, brokers, code, error):
    brokers.script(Produce, refusing(code))
    async with brokers.producer(linger_ms=10, batch_size=150) as producer:
        refused = [await producer.enqueue("orders", bytes(20), partition=0) for _ in range(2)]
        taken = await producer.enqueue("orders", b"good", partition=0)

        for each in refused[:1]:
            with pytest.raises(error, match="orders-0"):
                await each
        await taken

    assert brokers.values(ORDERS_0)[-1] == b"good"


# --- hostile answers ------------------------------------------------------------------------------

OK_0 = ProduceResult(partition=ORDERS_0, base_offset=0)


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (ProduceResponse(partitions=()), "not answered for orders-0"),
        (ProduceResponse(partitions=(OK_0, OK_0)), "twice for orders-0"),
        (
            ProduceResponse(partitions=(OK_0, ProduceResult(partition=ORDERS_1, base_offset=0))),
            "orders-1, which nobody asked about",
        ),
        (
            ProduceResponse(partitions=(ProduceResult(partition=ORDERS_0, base_offset=-5),)),
            "offset -5",
        ),
        (MetadataResponse(brokers=()), "answered Produce with MetadataResponse"),
    ],
)
async def test_an_answer_that_is_none_fails_the_batch_and_is_not_asked_for_again(
    sim, brokers, answer, sentence
):
    brokers.script(Produce, answer)
    async with brokers.producer() as producer:
        with pytest.raises(MalformedMessage, match=sentence):
            await producer.send("orders", b"x", partition=0)
        await producer.send("orders", b"y", partition=0)

    assert brokers.values(ORDERS_0) == [b"y"]


async def test_a_broker_that_does_not_take_produce_says_so(sim, brokers):
    brokers.script(Produce, ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION))
    async with brokers.producer() as producer:
        with pytest.raises(Exception, match="does not take Produce") as raised:
            await producer.send("orders", b"x", partition=0)

    assert raised.value.code is ErrorCode.UNSUPPORTED_VERSION


async def test_metadata_without_the_topic_is_no_answer(sim, brokers):
    brokers.script(Metadata, *[MetadataResponse(brokers=())] * 999)
    async with brokers.producer(max_block_ms=2_000) as producer:
        with pytest.raises(MalformedMessage, match=r"Metadata was not answered for topic 'orders'"):
            await producer.send("orders", b"x")


# --- knowing the topic ----------------------------------------------------------------------------


async def test_a_topic_may_be_created_by_asking_for_it(sim, brokers):
    def create(_, request):
        assert request.allow_auto_topic_creation
        brokers.lead(TopicPartition("new", 0), 1, 0)
        brokers.topic_errors["new"] = ErrorCode.LEADER_NOT_AVAILABLE
        answer = brokers.answer(1, request)
        del brokers.topic_errors["new"]
        return answer

    brokers.script(Metadata, create)
    async with brokers.producer() as producer:
        sent = await producer.send("new", b"x")

    assert (sent.topic, sent.offset) == ("new", 0)


async def test_a_topic_that_never_comes_is_waited_for_no_longer_than_max_block(sim, brokers):
    async with brokers.producer(max_block_ms=3_000) as producer:
        with pytest.raises(UnknownTopicOrPartition, match=r"'nowhere'.* 3000 ms"):
            await producer.send("nowhere", b"x")

        assert 3_000 <= sim.now_ms < 3_100
        await producer.send("orders", b"x")  # and nothing else is harmed
        asked = brokers.sent(Metadata)[-1].topics
    assert asked == ("orders",)


async def test_a_partition_that_never_comes_is_waited_for_no_longer_than_max_block(sim, brokers):
    async with brokers.producer(max_block_ms=3_000) as producer:
        with pytest.raises(UnknownTopicOrPartition, match="has 2 partitions, and still no 7"):
            await producer.send("orders", b"x", partition=7)


async def test_a_partition_that_was_just_added_is_found(sim, brokers):
    async with brokers.producer() as producer:
        await producer.send("orders", b"x")
        brokers.lead(TopicPartition("orders", 2), 1, 0)

        assert (await producer.send("orders", b"x", partition=2)).partition == 2


async def test_a_name_that_no_topic_may_have_is_refused_at_once(sim, brokers):
    brokers.topic_errors["a b"] = ErrorCode.INVALID_TOPIC_EXCEPTION
    async with brokers.producer() as producer:
        with pytest.raises(InvalidTopic, match="'a b'"):
            await producer.send("a b", b"x")

    assert sim.now_ms < 100


async def test_nobody_answers_within_max_block(sim):
    brokers = FakeBrokers(sim)
    for network in brokers.networks.values():
        network.close()
    async with brokers.producer(max_block_ms=2_000) as producer:
        with pytest.raises(Exception, match="nobody is at broker") as raised:
            await producer.send("orders", b"x")

    assert raised.value.code is ErrorCode.NETWORK_EXCEPTION
    assert 2_000 <= sim.now_ms < 2_100


async def test_a_stale_broker_does_not_send_records_back_to_a_former_leader(sim, brokers):
    brokers.lead(ORDERS_0, 2, 5)
    async with brokers.producer() as producer:
        await producer.send("orders", b"1", partition=0)
        brokers.lead(ORDERS_0, 1, 4)
        stale = brokers.answer(1, Metadata(topics=("orders",)))
        brokers.lead(ORDERS_0, 2, 5)
        brokers.script(Produce, refusing(ErrorCode.NOT_ENOUGH_REPLICAS))
        brokers.script(Metadata, stale)

        await producer.send("orders", b"2", partition=0)

    assert {number for number, each in brokers.requests if isinstance(each, Produce)} == {2}


# --- memory ---------------------------------------------------------------------------------------


async def test_a_producer_takes_no_more_than_its_memory_holds(sim, brokers):
    brokers.script(Produce, *[LOST] * 99)
    async with brokers.producer(
        buffer_memory=1_000, max_block_ms=2_000, request_timeout_ms=4_000, delivery_timeout_ms=5_000
    ) as producer:
        for _ in range(2):
            await producer.enqueue("orders", bytes(400), partition=0)
        begun = sim.now_ms
        with pytest.raises(BufferExhausted, match="of 1000 are waiting"):
            await producer.enqueue("orders", bytes(400), partition=0)

        assert 2_000 <= sim.now_ms - begun < 2_100


async def test_room_is_made_by_sending_what_lingers(sim, brokers):
    async with brokers.producer(buffer_memory=1_000, linger_ms=60_000) as producer:
        deliveries = [await producer.enqueue("orders", bytes(400), partition=0) for _ in range(9)]
        assert sim.now_ms < 1_000
        await producer.flush()

    assert [(await each).offset for each in deliveries] == list(range(9))


async def test_whoever_waits_longest_gets_room_first(sim, brokers):
    brokers.script(Produce, LOST)
    order = []

    async def put(size):
        await producer.enqueue("orders", bytes(size), partition=0)
        order.append(size)

    async with brokers.producer(buffer_memory=1_000, request_timeout_ms=1_000) as producer:
        await put(900)
        large, small = asyncio.create_task(put(901)), asyncio.create_task(put(10))
        await asyncio.gather(large, small)

    assert order == [900, 901, 10]


async def test_one_who_gives_up_waiting_takes_no_room_along(sim, brokers):
    brokers.script(Produce, LOST)
    async with brokers.producer(buffer_memory=1_000, request_timeout_ms=1_000) as producer:
        await producer.enqueue("orders", bytes(900), partition=0)
        waiting = asyncio.create_task(producer.enqueue("orders", bytes(900), partition=0))
        await sim.sleep(10)
        waiting.cancel()
        await producer.flush()

        assert producer._sender.memory.used == 0


async def test_room_that_is_given_to_one_who_has_just_left_is_given_back(sim):
    memory = Memory(100)
    assert memory.try_reserve(80)
    waiting = asyncio.create_task(memory.reserve(50, Deadline(sim.client("x")[1], 1_000)))
    await sim.sleep(1)

    memory.release(80)
    waiting.cancel()
    await sim.sleep(1)

    assert waiting.cancelled()
    assert memory.used == 0


async def test_one_who_waits_for_room_is_told_when_the_producer_closes(sim, brokers):
    brokers.script(Produce, LOST)
    async with brokers.producer(buffer_memory=1_000, request_timeout_ms=1_000) as producer:
        await producer.enqueue("orders", bytes(900), partition=0)
        waiting = asyncio.create_task(producer.enqueue("orders", bytes(900), partition=0))
        await sim.sleep(10)

    with pytest.raises(ClientClosed):
        await waiting
    assert producer._sender.memory.used == 0


@pytest.mark.parametrize("limits", [{"max_request_size": 500}, {"buffer_memory": 500}])
async def test_a_record_that_can_never_be_sent_is_refused(sim, brokers, limits):
    async with brokers.producer(**limits) as producer:
        with pytest.raises(MessageTooLarge, match="500"):
            await producer.send("orders", bytes(500))


# --- what is no record ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"value": "text"}, InvalidRecord),
        ({"key": 7}, InvalidRecord),
        ({"headers": [("h", "text")]}, InvalidRecord),
        ({"headers": [(b"h", b"x")]}, InvalidRecord),
        ({"headers": [("\udc80", b"x")]}, InvalidRecord),
        ({"timestamp_ms": -1}, InvalidRecord),
        ({"timestamp_ms": 2**63}, InvalidRecord),
        ({"partition": -1}, InvalidRequest),
    ],
)
async def test_what_is_no_record_is_refused_before_it_harms_a_batch(sim, brokers, arguments, error):
    async with brokers.producer() as producer:
        with pytest.raises(error):
            await producer.enqueue("orders", **arguments)
        await producer.send("orders", None, None, timestamp_ms=2**63 - 1)


# --- the end --------------------------------------------------------------------------------------


async def test_closing_sends_what_is_there(sim, brokers):
    async with brokers.producer(linger_ms=60_000) as producer:
        delivery = await producer.enqueue("orders", b"x", partition=0)

    assert (await delivery).offset == 0
    with pytest.raises(ClientClosed):
        await producer.send("orders", b"y")
    await producer.close()


async def test_closing_takes_no_longer_than_it_may(sim, brokers):
    brokers.script(Produce, *[LOST] * 99)
    producer = brokers.producer()
    delivery = await producer.enqueue("orders", b"x", partition=0)
    begun = sim.now_ms

    await producer.close(timeout_ms=500)

    assert sim.now_ms - begun == pytest.approx(500, abs=1)
    with pytest.raises(ClientClosed, match="before this was acknowledged"):
        await delivery


async def test_a_flush_may_be_limited(sim, brokers):
    brokers.script(Produce, LOST)
    async with brokers.producer(request_timeout_ms=1_000) as producer:
        await producer.enqueue("orders", b"x", partition=0)
        with pytest.raises(RequestTimedOut):
            await producer.flush(timeout_ms=300)


async def test_a_bug_in_the_sender_leaves_nobody_waiting(sim, brokers, monkeypatch):
    async with brokers.producer() as producer:
        monkeypatch.setattr(producer._sender, "_on_result", None)
        with pytest.raises(TypeError):
            await producer.send("orders", b"x", partition=0)
        with pytest.raises(TypeError):
            await producer.send("orders", b"x", partition=0)


async def test_an_idle_producer_is_quiet(sim, brokers):
    async with brokers.producer() as producer:
        await producer.send("orders", b"x")
        await sim.settle(200_000)

    assert len(brokers.requests) == 2


async def test_two_runs_are_alike(sim):
    async def once():
        brokers = FakeBrokers(sim)
        brokers.script(Produce, LOST, refusing(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        async with brokers.producer(batch_size=150, request_timeout_ms=500) as producer:
            deliveries = [await producer.enqueue("orders", b"%d" % each) for each in range(30)]
            placed = [await each for each in deliveries]
        for network in brokers.networks.values():
            network.close()
        return [(each.partition, each.offset) for each in placed]

    first = await once()

    assert first == await once()
    assert {partition for partition, _ in first} == {0, 1}


# --- configuration --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"acks": 2}, "acks is 2"),
        ({"linger_ms": -1}, "linger.ms is -1"),
        ({"batch_size": -1}, "batch.size"),
        ({"retries": -1}, "retries"),
        ({"request_timeout_ms": 0}, "request.timeout.ms"),
        ({"request_timeout_ms": 2**31}, "request.timeout.ms"),
        ({"delivery_timeout_ms": 20_000}, "linger.ms and request.timeout.ms together, 30000"),
        ({"max_in_flight_requests_per_connection": 0}, "max.in.flight"),
        ({"buffer_memory": 0}, "buffer.memory"),
    ],
)
def test_a_configuration_that_cannot_work_is_refused(wrong, sentence):
    with pytest.raises(BadConfig, match=sentence):
        ProducerConfig(**wrong)


def test_the_defaults_are_kafkas():
    config = ProducerConfig()

    assert (config.acks, config.linger_ms, config.batch_size) == (-1, 0, 16_384)
    assert (config.retries, config.delivery_timeout_ms) == (2**31 - 1, 120_000)
    assert (config.max_request_size, config.buffer_memory) == (1_048_576, 33_554_432)


# --- the real world -------------------------------------------------------------------------------


class RealNetwork:
    """The real clock, and frames that stay in this process."""

    def __init__(self):
        self.transport = MemoryTransport()
        self.trace = real_trace(recording=False)

    def client(self, name):
        return Endpoint(name, self.transport, self.trace.at(name)), RealClock()


async def test_all_of_it_runs_in_the_real_world_too():
    brokers = FakeBrokers(RealNetwork())
    brokers.script(Produce, refusing(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    options = {"retry_backoff_ms": 1, "batch_size": 500}
    values = [b"%d" % each for each in range(100)]

    async with (
        brokers.producer(**options) as producer,
        brokers.consumer(group_id="shop", auto_offset_reset="earliest") as consumer,
    ):
        consumer.assign([ORDERS_0])
        deliveries = [await producer.enqueue("orders", each, partition=0) for each in values]
        await producer.flush()
        read = []
        while len(read) < len(values):
            read += await consumer.poll()
        await consumer.commit()
        committed = await consumer.committed([ORDERS_0])

    assert [(await each).offset for each in deliveries] == list(range(100))
    assert [each.value for each in read] == values
    assert committed[ORDERS_0].offset == 100
