"""A consumer against brokers that do as they are told."""

import asyncio

import pytest

from actors.client.config import ConsumerConfig
from actors.client.errors import (
    ClientClosed,
    NoOffsetForPartition,
    NotAssigned,
    PositionOutOfRange,
)
from actors.config import BadConfig
from tests.actors.client.brokers import LOST, ORDERS_0, ORDERS_1, FakeBrokers
from wire.codec import decode
from wire.data import (
    AbortedTransaction,
    Fetch,
    FetchResponse,
    FetchResult,
    ListOffsets,
    ListOffsetsResponse,
    ListOffsetsResult,
)
from wire.errors import (
    CorruptRecordBatch,
    ErrorCode,
    InvalidRequest,
    InvalidTopic,
    LeaderNotAvailable,
    MalformedMessage,
    NotLeaderOrFollower,
    RequestTimedOut,
    UnknownTopicOrPartition,
)
from wire.groups import OffsetFetch
from wire.ids import Offset, ProducerEpoch, ProducerId, TopicPartition
from wire.markers import Marker, encode_marker
from wire.metadata import Metadata
from wire.records import Attributes, ProducerStamp, Record, assign, encode_batch


@pytest.fixture
def brokers(sim):
    return FakeBrokers(sim)


@pytest.fixture
async def reading(brokers):
    """A consumer of the first partition from its beginning."""
    async with brokers.consumer(auto_offset_reset="earliest") as consumer:
        consumer.assign([ORDERS_0])
        yield consumer


def values(records):
    return [each.value for each in records]


def fetched(data, code=ErrorCode.NONE, partition=ORDERS_0, **more):
    result = FetchResult(partition=partition, error_code=code, records=memoryview(data), **more)
    return FetchResponse(partitions=(result,))


def batch(*offsets, attributes=0):
    return encode_batch(
        [Record(offset=Offset(each), timestamp_ms=1, value=b"%d" % each) for each in offsets],
        attributes=attributes,
    )


def of_transaction(offset, producer=1):
    stamp = ProducerStamp(
        producer_id=ProducerId(producer), producer_epoch=ProducerEpoch(0), base_sequence=offset
    )
    record = Record(offset=Offset(offset), timestamp_ms=1, value=b"%d" % offset)
    return encode_batch([record], attributes=Attributes.TRANSACTIONAL, producer=stamp)


async def until(consumer, count):
    """Poll until so many records are there."""
    records = []
    while len(records) < count:
        got = await consumer.poll()
        assert got, f"{len(records)} of {count} records came"
        records += got
    return records


# --- reading --------------------------------------------------------------------------------------


async def test_records_are_read_as_they_were_written(sim, brokers, reading):
    brokers.write(ORDERS_0, b"a", b"b", epoch=3)

    records = await reading.poll()

    first = records[0]
    assert values(records) == [b"a", b"b"]
    assert (first.topic, first.partition, first.offset) == ("orders", 0, 0)
    assert (first.timestamp_ms, first.key, first.headers, first.leader_epoch) == (
        1_000,
        None,
        (),
        3,
    )
    assert await reading.position(ORDERS_0) == 2


async def test_a_poll_waits_for_records(sim, brokers, reading):
    waiting = asyncio.create_task(reading.poll(5_000))
    await sim.sleep(2_000)
    brokers.write(ORDERS_0, b"late")

    assert values(await waiting) == [b"late"]
    assert sim.now_ms < 3_000


async def test_a_poll_without_records_ends_in_time(sim, reading):
    assert await reading.poll(1_700) == []
    assert sim.now_ms == pytest.approx(1_700, abs=1)


async def test_polls_that_do_not_wait_come_to_their_records_all_the_same(sim, brokers, reading):
    brokers.write(ORDERS_0, b"a")

    for _ in range(10_000):
        if records := await reading.poll(0):
            break

    assert values(records) == [b"a"]


async def test_a_poll_returns_no_more_than_asked_and_the_rest_without_another_fetch(sim, brokers):
    brokers.write(ORDERS_0, *[b"%d" % each for each in range(10)])
    async with brokers.consumer(auto_offset_reset="earliest", max_poll_records=4) as consumer:
        consumer.assign([ORDERS_0])
        polls = [values(await consumer.poll()) for _ in range(3)]
        position = await consumer.position(ORDERS_0)

    assert [len(each) for each in polls] == [4, 4, 2]
    assert [value for each in polls for value in each] == [b"%d" % each for each in range(10)]
    assert len(brokers.sent(Fetch)) == 1
    assert position == 10


async def test_leaders_are_read_side_by_side(sim, brokers):
    brokers.write(ORDERS_1, b"b")
    async with brokers.consumer(auto_offset_reset="earliest") as consumer:
        consumer.assign([ORDERS_0, ORDERS_1])

        records = await consumer.poll()

        assert values(records) == [b"b"]
        assert sim.now_ms < 100  # although the other leader keeps its fetch for longer
        brokers.write(ORDERS_0, b"a")
        assert values(await consumer.poll()) == [b"a"]


async def test_a_leader_has_one_fetch_at_a_time_for_all_its_partitions(sim):
    brokers = FakeBrokers(sim, brokers=1, orders=3)
    partitions = [TopicPartition("orders", each) for each in range(3)]
    for each in partitions:
        brokers.write(each, b"x")
    async with brokers.consumer(auto_offset_reset="earliest") as consumer:
        consumer.assign(partitions)
        await until(consumer, 3)

    requests = brokers.sent(Fetch)
    assert sorted(each.partition for each in requests[0].partitions) == partitions


async def test_a_fetch_that_waits_at_the_leader_is_not_sent_again(sim, brokers, reading):
    for _ in range(5):
        assert await reading.poll(20) == []

    assert len(brokers.sent(Fetch)) == 1


async def test_partitions_take_turns(sim):
    brokers = FakeBrokers(sim, brokers=1, orders=2)
    for each in (ORDERS_0, ORDERS_1):
        brokers.write(each, b"1", b"2", b"3", b"4")
    async with brokers.consumer(auto_offset_reset="earliest", max_poll_records=2) as consumer:
        consumer.assign([ORDERS_0, ORDERS_1])
        polls = [{each.partition for each in await consumer.poll()} for _ in range(4)]

    assert polls == [{0}, {1}, {0}, {1}]


async def test_the_fetch_says_what_the_configuration_says(sim, brokers):
    config = {
        "fetch_min_bytes": 7,
        "fetch_max_wait_ms": 70,
        "fetch_max_bytes": 7_000,
        "max_partition_fetch_bytes": 700,
        "isolation_level": "read_committed",
        "auto_offset_reset": "earliest",
    }
    brokers.lead(ORDERS_0, 1, 6)
    async with brokers.consumer(**config) as consumer:
        consumer.assign([ORDERS_0])
        await consumer.poll(100)

    request = brokers.sent(Fetch)[0]
    assert (request.min_bytes, request.max_wait_ms, request.max_bytes) == (7, 70, 7_000)
    assert (request.isolation_level, request.partitions[0].max_bytes) == (1, 700)
    assert (request.replica_id, request.partitions[0].current_leader_epoch) == (-1, 6)
    assert brokers.sent(ListOffsets)[0].isolation_level == 1


async def test_undecoded_batches_show_the_answer_itself(sim, brokers, reading):
    brokers.write(ORDERS_0, b"a", b"b")
    brokers.write(ORDERS_0, b"c")

    (found,) = await reading.poll_batches()

    assert (found.partition, found.start_offset, found.high_watermark) == (ORDERS_0, 0, 3)
    assert [each.header.base_offset for each in found.batches] == [0, 2]
    assert found.batches[0].data.obj is found.batches[1].data.obj
    assert bytes(found.batches[1].data) == bytes(brokers.logs[ORDERS_0][1])
    assert await reading.position(ORDERS_0) == 3


async def test_undecoded_batches_go_on_in_the_middle_of_one(sim, brokers):
    brokers.write(ORDERS_0, b"a", b"b", b"c")
    async with brokers.consumer(auto_offset_reset="earliest", max_poll_records=1) as consumer:
        consumer.assign([ORDERS_0])
        await consumer.poll()

        (found,) = await consumer.poll_batches()

    assert (found.start_offset, len(found.batches)) == (1, 1)


# --- batches of all kinds -------------------------------------------------------------------------


async def test_a_batch_that_is_cut_short_is_fetched_again(sim, brokers, reading):
    whole, cut = bytes(batch(0, 1)), bytes(batch(2, 3))
    brokers.write(ORDERS_0, b"0", b"1")
    brokers.write(ORDERS_0, b"2", b"3")
    brokers.script(Fetch, fetched(whole + cut[:-1]))

    records = await until(reading, 4)

    assert values(records) == [b"0", b"1", b"2", b"3"]
    assert [each.partitions[0].fetch_offset for each in brokers.sent(Fetch)] == [0, 2]


async def test_compaction_leaves_gaps(sim, brokers, reading):
    brokers.script(Fetch, fetched(batch(0, 4, 5) + batch(9, 12)))

    records = await until(reading, 5)

    assert [each.offset for each in records] == [0, 4, 5, 9, 12]
    assert await reading.position(ORDERS_0) == 13


async def test_a_batch_that_compaction_has_emptied_is_passed(sim, brokers, reading):
    empty = bytearray(batch(0, 6)[:61])
    empty[8:12] = (49).to_bytes(4, "big")  # the length of a header alone
    empty[57:61] = bytes(4)  # no records
    brokers.script(Fetch, fetched(empty))
    async with brokers.consumer(auto_offset_reset="earliest", check_crcs=False) as consumer:
        consumer.assign([ORDERS_0])
        brokers.script(Fetch, fetched(batch(7)))

        records = await consumer.poll()

    assert [each.offset for each in records] == [7]
    assert brokers.sent(Fetch)[1].partitions[0].fetch_offset == 7


async def test_records_before_the_position_are_skipped(sim, brokers, reading):
    brokers.write(ORDERS_0, b"0", b"1", b"2")
    await reading.seek(ORDERS_0, 1)

    assert values(await reading.poll()) == [b"1", b"2"]


async def test_markers_of_transactions_are_skipped(sim, brokers, reading):
    brokers.write(ORDERS_0, b"0")
    brokers.write(ORDERS_0, b"marker", attributes=Attributes.CONTROL)
    brokers.write(ORDERS_0, b"2")

    assert values(await until(reading, 2)) == [b"0", b"2"]
    await reading.seek(ORDERS_0, 0)
    (found,) = await reading.poll_batches()
    assert [each.header.base_offset for each in found.batches] == [0, 2]


async def test_a_bad_batch_is_told_after_what_lies_before_it_and_can_be_passed(sim, brokers):
    for value in (b"0", b"1", b"2"):
        brokers.write(ORDERS_0, value)
    brokers.logs[ORDERS_0][1][-2] ^= 1
    async with brokers.consumer(auto_offset_reset="earliest") as consumer:
        consumer.assign([ORDERS_0])

        assert values(await consumer.poll()) == [b"0"]
        for _ in range(2):
            with pytest.raises(CorruptRecordBatch, match="orders-0 at offset 1: CRC"):
                await consumer.poll()
        await consumer.seek(ORDERS_0, 2)
        assert values(await consumer.poll()) == [b"2"]


async def test_a_bad_batch_of_one_partition_loses_no_record_of_another(sim):
    brokers = FakeBrokers(sim, brokers=1, orders=2)
    brokers.write(ORDERS_0, b"good")
    brokers.write(ORDERS_1, b"bad")
    brokers.logs[ORDERS_1][0][-2] ^= 1
    async with brokers.consumer(auto_offset_reset="earliest") as consumer:
        consumer.assign([ORDERS_0, ORDERS_1])

        assert values(await consumer.poll()) == [b"good"]
        with pytest.raises(CorruptRecordBatch, match="orders-1"):
            await consumer.poll()


async def test_a_batch_that_was_damaged_on_the_way_is_good_the_next_time(sim, brokers, reading):
    brokers.write(ORDERS_0, b"0")
    damaged = bytearray(brokers.logs[ORDERS_0][0])
    damaged[-2] ^= 1
    brokers.script(Fetch, fetched(damaged))

    with pytest.raises(CorruptRecordBatch):
        await reading.poll()
    assert values(await reading.poll()) == [b"0"]


async def test_crcs_may_go_unchecked(sim, brokers):
    brokers.write(ORDERS_0, b"value")
    brokers.logs[ORDERS_0][0][-2] ^= 1
    async with brokers.consumer(auto_offset_reset="earliest", check_crcs=False) as consumer:
        consumer.assign([ORDERS_0])

        assert len(await consumer.poll()) == 1


# --- leaders that change --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.BROKER_NOT_AVAILABLE,
    ],
)
async def test_what_may_pass_is_asked_again_with_leaders_looked_up_anew(
    sim, brokers, reading, code
):
    brokers.write(ORDERS_0, b"a")
    brokers.script(Fetch, fetched(b"", code))

    assert values(await reading.poll()) == [b"a"]
    assert len(brokers.sent(Metadata)) == 2
    assert 100 <= sim.now_ms < 300


async def test_a_consumer_follows_the_leader(sim, brokers, reading):
    brokers.write(ORDERS_0, b"a")
    await reading.poll()
    brokers.lead(ORDERS_0, 2, 1)
    brokers.write(ORDERS_0, b"b", epoch=1)

    assert values(await reading.poll()) == [b"b"]
    last = brokers.sent(Fetch)[-1].partitions[0]
    assert (last.current_leader_epoch, last.fetch_offset) == (1, 1)


async def test_what_a_former_leader_answers_late_is_not_shown_twice(sim, brokers):
    def answer_and_move(me, request):
        if me == 2:
            return fetched(b"", ErrorCode.FENCED_LEADER_EPOCH, ORDERS_1)
        answer = brokers.answer(me, request)
        for each in (ORDERS_0, ORDERS_1):
            brokers.lead(each, 2, 1)
        return answer

    async with brokers.consumer(auto_offset_reset="none") as consumer:
        consumer.assign([ORDERS_0, ORDERS_1])
        await consumer.beginning_offsets([ORDERS_0, ORDERS_1])  # the leaders are known
        for each in (ORDERS_0, ORDERS_1):
            await consumer.seek(each, 0)
        brokers.write(ORDERS_0, b"a")
        brokers.script(Fetch, answer_and_move, answer_and_move)
        sim.hold("broker-1", "client-1")
        first = await consumer.poll(10_000)
        late = sim.network.under_hold()["broker-1", "client-1"]
        sim.heal()

        assert values(first) == [b"a"]
        assert any(isinstance(decode(each.payload), FetchResponse) for each in late)
        assert await consumer.poll() == []


async def test_a_consumer_outlives_a_dead_leader(sim, brokers, reading):
    brokers.write(ORDERS_0, b"a")
    await reading.poll()
    brokers.networks[1].close()
    brokers.lead(ORDERS_0, 2, 1)
    brokers.write(ORDERS_0, b"b", epoch=1)

    assert values(await reading.poll()) == [b"b"]


async def test_a_partition_without_a_leader_holds_up_no_other(sim, brokers):
    brokers.lead(ORDERS_0, -1, 1)
    brokers.write(ORDERS_1, b"b")
    async with brokers.consumer(auto_offset_reset="earliest") as consumer:
        consumer.assign([ORDERS_0, ORDERS_1])
        assert values(await consumer.poll()) == [b"b"]

        brokers.write(ORDERS_0, b"a")
        brokers.lead(ORDERS_0, 1, 2)
        assert values(await consumer.poll()) == [b"a"]


async def test_a_topic_that_is_not_there_yet_is_waited_for(sim, brokers):
    new = TopicPartition("new", 0)
    async with brokers.consumer(auto_offset_reset="earliest") as consumer:
        consumer.assign([new])
        assert await consumer.poll(1_000) == []

        brokers.lead(new, 1, 0)
        brokers.write(new, b"x")
        assert values(await consumer.poll(1_000)) == [b"x"]
    assert all(each.allow_auto_topic_creation for each in brokers.sent(Metadata))


async def test_a_consumer_may_be_kept_from_creating_topics(sim, brokers):
    async with brokers.consumer(allow_auto_create_topics=False) as consumer:
        consumer.assign([TopicPartition("new", 0)])
        await consumer.poll(300)

    assert not any(each.allow_auto_topic_creation for each in brokers.sent(Metadata))


async def test_a_name_that_no_topic_may_have_is_told(sim, brokers):
    brokers.topic_errors["a b"] = ErrorCode.INVALID_TOPIC_EXCEPTION
    async with brokers.consumer() as consumer:
        consumer.assign([TopicPartition("a b", 0)])
        with pytest.raises(InvalidTopic, match="'a b'"):
            await consumer.poll(10_000)

    assert sim.now_ms < 1_000


# --- where to begin -------------------------------------------------------------------------------


async def test_latest_is_where_a_consumer_begins_unless_told_otherwise(sim, brokers):
    brokers.write(ORDERS_0, b"old")
    async with brokers.consumer() as consumer:
        consumer.assign([ORDERS_0])
        assert await consumer.position(ORDERS_0) == 1

        brokers.write(ORDERS_0, b"new")
        assert values(await consumer.poll()) == [b"new"]


async def test_without_a_committed_offset_and_a_reset_there_is_no_position(sim, brokers):
    for group in (None, "shop"):
        async with brokers.consumer(group_id=group, auto_offset_reset="none") as consumer:
            consumer.assign([ORDERS_0])
            with pytest.raises(NoOffsetForPartition, match="orders-0") as raised:
                await consumer.poll(60_000)
            assert raised.value.partition == ORDERS_0
            await consumer.seek(ORDERS_0, 0)
            assert await consumer.poll(100) == []
    assert sim.now_ms < 2_000


async def test_a_position_outside_the_log_is_reset(sim, brokers, reading):
    brokers.write(ORDERS_0, b"a")
    await reading.seek(ORDERS_0, 50)

    assert values(await reading.poll()) == [b"a"]


async def test_a_position_outside_the_log_is_told_if_there_is_no_reset(sim, brokers):
    async with brokers.consumer(auto_offset_reset="none") as consumer:
        consumer.assign([ORDERS_0])
        await consumer.seek(ORDERS_0, 50)

        with pytest.raises(PositionOutOfRange, match="orders-0 has no offset 50") as raised:
            await consumer.poll()
    assert (raised.value.partition, raised.value.offset) == (ORDERS_0, 50)


async def test_seeking(sim, brokers):
    for each in range(6):
        brokers.write(ORDERS_0, b"%d" % each, time=10_000)
    brokers.write(ORDERS_1, b"x")
    async with brokers.consumer() as consumer:
        consumer.assign([ORDERS_0, ORDERS_1])

        await consumer.seek_to_beginning()
        assert await consumer.position(ORDERS_0) == await consumer.position(ORDERS_1) == 0
        await consumer.seek_to_end(ORDERS_0)
        assert await consumer.position(ORDERS_0) == 6
        assert await consumer.position(ORDERS_1) == 0
        await consumer.seek_to_timestamp(ORDERS_0, 10_004)
        assert await consumer.position(ORDERS_0) == 4
        await consumer.seek_to_timestamp(ORDERS_0, 99_999)
        assert await consumer.position(ORDERS_0) == 6


async def test_a_seek_forgets_what_was_fetched_and_what_is_under_way(sim, brokers):
    brokers.write(ORDERS_0, *[b"%d" % each for each in range(6)])
    async with brokers.consumer(auto_offset_reset="earliest", max_poll_records=2) as consumer:
        consumer.assign([ORDERS_0])
        await consumer.poll()
        await consumer.seek(ORDERS_0, 5)
        assert values(await consumer.poll()) == [b"5"]

        assert await consumer.poll(10) == []  # a fetch at 6 stays with the leader
        await consumer.seek(ORDERS_0, 0)
        brokers.write(ORDERS_0, b"6")
        assert values(await consumer.poll()) == [b"0", b"1"]


@pytest.mark.parametrize("group", [None, "shop"])
async def test_a_seek_counts_more_than_a_position_that_is_being_looked_up(sim, brokers, group):
    async with brokers.consumer(group_id=group, auto_offset_reset="earliest") as consumer:
        consumer.assign([ORDERS_0])
        await consumer.beginning_offsets([ORDERS_0])
        if group is not None:
            await consumer.commit({ORDERS_0: 3})
        sim.hold("broker-1", "client-1")
        await consumer.poll(50)
        await consumer.seek(ORDERS_0, 5)
        sim.heal()
        await sim.sleep(50)

        assert await consumer.position(ORDERS_0) == 5


async def test_offsets_by_time_and_at_both_ends(sim, brokers):
    brokers.starts[ORDERS_0] = 3
    brokers.write(ORDERS_0, b"a", b"b", time=10_000)
    async with brokers.consumer() as consumer:
        by_time = await consumer.offsets_for_times({ORDERS_0: 10_004, ORDERS_1: 5})
        begin = await consumer.beginning_offsets([ORDERS_0, ORDERS_1])
        end = await consumer.end_offsets([ORDERS_0, ORDERS_1])

    assert (by_time[ORDERS_0].offset, by_time[ORDERS_0].timestamp_ms) == (4, 10_004)
    assert by_time[ORDERS_1] is None
    assert (begin, end) == ({ORDERS_0: 3, ORDERS_1: 0}, {ORDERS_0: 5, ORDERS_1: 0})


async def test_offsets_are_asked_for_again_when_the_leader_has_moved(sim, brokers):
    async with brokers.consumer() as consumer:
        await consumer.end_offsets([ORDERS_0])
        brokers.write(ORDERS_0, b"x")
        brokers.lead(ORDERS_0, 2, 1)

        assert await consumer.end_offsets([ORDERS_0]) == {ORDERS_0: 1}


async def test_offsets_are_asked_for_until_the_deadline(sim, brokers):
    code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    refused = ListOffsetsResponse(
        partitions=(ListOffsetsResult(partition=ORDERS_0, error_code=code),)
    )
    brokers.script(ListOffsets, *[refused] * 999)
    async with brokers.consumer() as consumer:
        with pytest.raises(NotLeaderOrFollower, match="orders-0"):
            await consumer.end_offsets([ORDERS_0], timeout_ms=2_000)
        assert 2_000 <= sim.now_ms < 2_100
        with pytest.raises(UnknownTopicOrPartition, match="nowhere-0"):
            await consumer.end_offsets([TopicPartition("nowhere", 0)], timeout_ms=2_000)
        brokers.scripts.clear()
        brokers.lead(ORDERS_1, -1, 5)
        with pytest.raises(LeaderNotAvailable, match="orders-1"):
            await consumer.end_offsets([ORDERS_1], timeout_ms=2_000)


async def test_a_silent_leader_is_waited_for_no_longer_than_asked(sim, brokers):
    brokers.script(ListOffsets, LOST)
    async with brokers.consumer() as consumer:
        with pytest.raises(RequestTimedOut):
            await consumer.end_offsets([ORDERS_0], timeout_ms=2_000)

    assert sim.now_ms < 2_600


async def test_a_position_that_is_not_found_is_told_in_time(sim, brokers):
    brokers.lead(ORDERS_0, -1, 1)
    async with brokers.consumer() as consumer:
        consumer.assign([ORDERS_0])
        with pytest.raises(RequestTimedOut, match="orders-0 has no position"):
            await consumer.position(ORDERS_0, timeout_ms=1_000)


async def test_partitions_that_stay_assigned_keep_their_positions(sim, brokers, reading):
    brokers.write(ORDERS_0, b"a")
    await reading.poll()

    reading.assign([ORDERS_1, ORDERS_0])

    assert reading.assignment == (ORDERS_0, ORDERS_1)
    assert await reading.position(ORDERS_0) == 1


# --- hostile answers ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (FetchResponse(partitions=()), "not answered for orders-0"),
        (fetched(b"", partition=ORDERS_1), "not answered for orders-0"),
        (fetched(bytes(batch(0))[:-1]), "hold no whole batch from offset 0"),
        (fetched(batch(4) + batch(2)), "not in order"),
    ],
)
async def test_an_answer_that_is_none_is_told_and_the_next_one_is_taken(
    sim, brokers, reading, answer, sentence
):
    brokers.write(ORDERS_0, b"a")
    brokers.script(Fetch, answer)

    with pytest.raises(MalformedMessage, match=sentence):
        await reading.poll(60_000)
    assert values(await reading.poll()) == [b"a"]
    assert sim.now_ms < 1_000


async def test_an_answer_with_older_records_only_is_told(sim, brokers, reading):
    brokers.script(Fetch, *[fetched(batch(0))] * 99)
    await reading.seek(ORDERS_0, 1)

    with pytest.raises(MalformedMessage, match="from offset 1 on"):
        await reading.poll(60_000)


async def test_bytes_that_are_no_batch_are_told(sim, brokers, reading):
    brokers.script(Fetch, fetched(bytes(100)))

    with pytest.raises(CorruptRecordBatch, match="orders-0 at offset 0"):
        await reading.poll(60_000)


@pytest.mark.parametrize("offset", [-7, -1])
async def test_an_offset_below_nothing_is_told(sim, brokers, reading, offset):
    answer = ListOffsetsResponse(
        partitions=(ListOffsetsResult(partition=ORDERS_0, offset=Offset(offset)),)
    )
    brokers.script(ListOffsets, answer, answer)

    with pytest.raises(MalformedMessage, match=f"offset {offset}"):
        await reading.poll(60_000)
    with pytest.raises(MalformedMessage, match=f"offset {offset}"):
        await reading.seek_to_end()


async def test_an_error_that_will_not_pass_is_told(sim, brokers, reading):
    brokers.script(
        Fetch,
        fetched(b"", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        fetched(b"", ErrorCode.CORRUPT_MESSAGE),
        FetchResponse(error_code=ErrorCode.INVALID_REQUEST),
    )

    for code in (
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.INVALID_REQUEST,
    ):
        with pytest.raises(Exception, match=code.name) as raised:
            await reading.poll(60_000)
        assert raised.value.code is code


async def test_what_was_aborted_is_passed_over(sim, brokers, reading):
    aborted = (AbortedTransaction(ProducerId(1), Offset(0)),)
    marker = encode_marker(ProducerId(1), ProducerEpoch(0), Marker(False, 0), 1)
    assign(marker, base_offset=Offset(3), leader_epoch=0)
    data = of_transaction(0) + batch(1) + of_transaction(2, producer=2) + marker + of_transaction(4)
    brokers.script(Fetch, fetched(data, aborted_transactions=aborted))

    assert [each.offset for each in await until(reading, 3)] == [1, 2, 4]
    assert await reading.position(ORDERS_0) == 5


async def test_endless_empty_answers_end_with_the_poll(sim, brokers, reading):
    brokers.script(Fetch, *[fetched(b"", ErrorCode.NOT_LEADER_OR_FOLLOWER)] * 9_999)

    assert await reading.poll(5_000) == []
    assert len(brokers.sent(Fetch)) <= 51


# --- the wrong questions, and the end -------------------------------------------------------------


async def test_what_is_not_assigned_cannot_be_read(sim, brokers, reading):
    with pytest.raises(NotAssigned, match="orders-1"):
        await reading.seek(ORDERS_1, 0)
    with pytest.raises(NotAssigned, match="orders-1"):
        await reading.seek_to_end(ORDERS_1)
    with pytest.raises(InvalidRequest, match="offset -1"):
        await reading.seek(ORDERS_0, -1)
    with pytest.raises(InvalidRequest, match="-2 is no time"):
        await reading.offsets_for_times({ORDERS_0: -2})
    reading.assign([])
    with pytest.raises(NotAssigned, match="no partition is assigned"):
        await reading.poll()


async def test_a_closed_consumer_says_so(sim, brokers, reading):
    waiting = asyncio.create_task(reading.poll(60_000))
    await sim.sleep(50)

    await reading.close()

    with pytest.raises(ClientClosed):
        await waiting
    with pytest.raises(ClientClosed):
        await reading.poll()


@pytest.mark.parametrize("is_led", [True, False])
async def test_whoever_waits_for_an_answer_is_told_when_the_consumer_closes(sim, brokers, is_led):
    brokers.script(ListOffsets, LOST)
    brokers.script(OffsetFetch, LOST)
    if not is_led:
        brokers.lead(ORDERS_0, -1, 1)
    consumer = brokers.consumer(group_id="shop")
    waiting = [
        asyncio.create_task(consumer.end_offsets([ORDERS_0])),
        asyncio.create_task(consumer.committed([ORDERS_0])),
    ]
    await sim.sleep(500)

    await consumer.close()
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)

    assert [type(each) for each in outcomes] == [ClientClosed, ClientClosed]
    assert sim.now_ms < 1_000


async def test_a_bug_leaves_nobody_waiting(sim, brokers, reading, monkeypatch):
    monkeypatch.setattr(reading._fetches, "_take", None)

    with pytest.raises(TypeError):
        await reading.poll(60_000)
    assert sim.now_ms < 1_000


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"auto_offset_reset": "newest"}, "auto.offset.reset is 'newest'"),
        ({"isolation_level": "serializable"}, "isolation.level"),
        ({"enable_auto_commit": True}, "enable.auto.commit"),
        ({"group_id": ""}, "group.id is empty"),
        ({"max_poll_records": 0}, "max.poll.records is 0"),
        ({"fetch_min_bytes": -1}, "fetch.min.bytes"),
        ({"fetch_max_wait_ms": 40_000}, "request.timeout.ms, 30000"),
    ],
)
def test_a_configuration_that_cannot_work_is_refused(wrong, sentence):
    with pytest.raises(BadConfig, match=sentence):
        ConsumerConfig(**wrong)
