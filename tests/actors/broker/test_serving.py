"""Records out, at once or when there are enough: B165, B166."""

import pytest

from actors.broker.log.log import Log
from actors.broker.serving import MAX_WAIT_MS
from tests.support.data import batch_of, values_in
from tests.support.led import EPOCH, ORDERS, Led, at
from tests.support.orders import stop, stop_replica
from wire.control import StopReplicaResponse
from wire.data import EpochEndOffset, Fetch, FetchPartition, FetchResponse
from wire.errors import ErrorCode
from wire.ids import TopicPartition

SIZE = len(batch_of(b"a"))


@pytest.fixture
async def led(sim):
    return await Led.start(sim, isr=[1, 8])


# --- who sees what -------------------------------------------------------------------------------


@pytest.mark.behaviour("B165")
async def test_consumers_see_what_is_below_the_high_watermark_and_followers_all(led):
    for value in (b"a", b"b", b"c"):
        await led.produce(value)
    await led.fetch(1, by=8)

    consumer, follower = await led.fetch(0), await led.fetch(0, by=9)

    assert (values_in(consumer.records), consumer.high_watermark) == ([b"a"], 1)
    assert values_in(follower.records) == [b"a", b"b", b"c"]


@pytest.mark.behaviour("B165")
async def test_a_consumer_between_the_high_watermark_and_the_end_sees_nothing_yet(led):
    await led.produce(b"a")

    result = await led.fetch(1)

    assert (result.error_code, result.records, result.high_watermark) == (ErrorCode.NONE, None, 0)


@pytest.mark.behaviour("B165")
@pytest.mark.parametrize("offset", [-(2**63), -1, 2, 2**62])
@pytest.mark.parametrize("by", [-1, 8])
async def test_an_offset_outside_the_log_is_an_error_at_once(led, offset, by):
    await led.produce(b"a")

    result = await led.fetch(offset, by=by, max_wait_ms=9_000)

    assert result.error_code is ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.behaviour("B165")
@pytest.mark.parametrize("offset", [-1, 1])
async def test_a_log_that_was_never_written_to_has_one_offset(led, offset):
    assert (await led.fetch(offset)).error_code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert (await led.fetch(0)).error_code is ErrorCode.NONE


# --- B165: how waiting ends ----------------------------------------------------------------------


async def took_ms(led, waiting, *, until_ms: float) -> float:
    begun_ms = led.sim.now_ms
    await led.sim.until(waiting.done, limit_ms=until_ms)
    return float(led.sim.now_ms - begun_ms)


@pytest.mark.behaviour("B165")
async def test_a_follower_is_answered_with_the_first_record(led):
    waiting = led.later(led.fetch(0, by=8, max_wait_ms=9_000))
    await led.sim.sleep(100)
    assert led.waiting == (0, 1)

    await led.produce(b"a")

    assert await took_ms(led, waiting, until_ms=50) < 10
    assert values_in(waiting.result().records) == [b"a"]
    assert led.waiting == (0, 0)


@pytest.mark.behaviour("B165")
async def test_a_consumer_is_answered_when_the_record_is_committed_and_not_before(led):
    waiting = led.later(led.fetch(0, max_wait_ms=9_000))
    await led.produce(b"a")
    await led.sim.sleep(100)
    assert not waiting.done()

    await led.fetch(1, by=8)

    assert values_in((await waiting).records) == [b"a"]


@pytest.mark.behaviour("B165")
async def test_it_waits_for_as_many_bytes_as_were_asked_for(led):
    waiting = led.later(led.fetch(0, by=8, max_wait_ms=9_000, min_bytes=2 * SIZE + 1))
    for value in (b"a", b"b"):
        await led.produce(value)
    await led.sim.sleep(100)
    assert not waiting.done()

    await led.produce(b"c")

    assert values_in((await waiting).records) == [b"a", b"b", b"c"]


@pytest.mark.behaviour("B165")
async def test_bytes_of_all_partitions_count_together(sim):
    led = await Led.start(sim, isr=[1], partitions=2)
    offsets = {at(0): 0, at(1): 0}
    waiting = led.later(led.fetch_of(offsets, max_wait_ms=9_000, min_bytes=2 * SIZE))
    await led.produce_to({at(0): batch_of(b"a")}, 1, 0)
    await sim.sleep(100)
    assert not waiting.done()

    await led.produce_to({at(1): batch_of(b"b")}, 1, 0)

    results, _ = await waiting
    assert [values_in(each.records) for each in results] == [[b"a"], [b"b"]]


@pytest.mark.behaviour("B165")
async def test_more_bytes_than_may_come_are_not_waited_for(led):
    await led.produce(b"a")
    fields = {"max_wait_ms": 9_000, "min_bytes": 10 * SIZE, "max_bytes": SIZE}

    waiting = led.later(led.fetch(0, by=8, **fields))

    assert await took_ms(led, waiting, until_ms=50) < 10


@pytest.mark.behaviour("B165")
async def test_nor_more_than_the_broker_lets_come(sim):
    led = await Led.start(sim, overrides={"fetch_max_bytes": 5_000})
    await led.produce(b"x" * 6_000)

    waiting = led.later(led.fetch(0, by=8, max_wait_ms=9_000, min_bytes=50_000))

    assert await took_ms(led, waiting, until_ms=50) < 10


@pytest.mark.behaviour("B165")
@pytest.mark.parametrize("by", [-1, 8])
async def test_what_is_not_yet_enough_is_not_read_at_every_append(sim, monkeypatch, by):
    led = await Led.start(sim, isr=[1])
    await led.produce(b"x" * 20_000)
    waiting = led.later(led.fetch(0, by=by, max_wait_ms=9_000, min_bytes=50_000))
    await sim.sleep(100)
    reads, read = [], Log.read
    monkeypatch.setattr(Log, "read", lambda *args, **more: reads.append(0) or read(*args, **more))

    for _ in range(5):
        await led.produce(b"y")
    assert (reads, waiting.done()) == ([], False)
    await led.produce(b"z" * 30_000)

    assert len(values_in((await waiting).records)) == 7
    assert len(reads) == 1


@pytest.mark.behaviour("B165")
async def test_who_waits_for_much_is_told_of_an_error_at_once(led):
    waiting = led.later(led.fetch(0, by=8, epoch=EPOCH, max_wait_ms=9_000, min_bytes=50_000))
    await led.sim.sleep(100)

    await led.lead(epoch=EPOCH + 1)

    assert await took_ms(led, waiting, until_ms=50) < 10
    assert waiting.result().error_code is ErrorCode.FENCED_LEADER_EPOCH


@pytest.mark.behaviour("B165")
async def test_much_may_come_from_several_partitions(sim):
    led = await Led.start(sim, isr=[1], partitions=2)
    offsets = {at(0): 0, at(1): 0}
    waiting = led.later(led.fetch_of(offsets, max_wait_ms=9_000, min_bytes=10_000))
    await led.produce_to({at(0): batch_of(b"a" * 6_000)}, 1, 0)
    await sim.sleep(100)
    assert not waiting.done()

    await led.produce_to({at(1): batch_of(b"b" * 6_000)}, 1, 0)

    assert await took_ms(led, waiting, until_ms=50) < 10


@pytest.mark.behaviour("B165")
async def test_nobody_waits_for_weeks(led):
    waiting = led.later(led.fetch(0, max_wait_ms=2**31 - 1))
    await led.sim.sleep(MAX_WAIT_MS - 1_000)
    assert led.waiting == (0, 1)

    await led.sim.sleep(2_000)

    assert led.waiting == (0, 0)
    waiting.cancel()  # the client may have gone before


@pytest.mark.behaviour("B165")
async def test_when_time_is_up_it_is_answered_with_what_there_is(led):
    waiting = led.later(led.fetch(0, by=8, max_wait_ms=700, min_bytes=1_000))
    await led.produce(b"a")

    assert 690 < await took_ms(led, waiting, until_ms=800) < 710
    assert values_in(waiting.result().records) == [b"a"]


@pytest.mark.behaviour("B165")
@pytest.mark.parametrize("max_wait_ms", [0, -1, -(2**31)])
async def test_who_does_not_want_to_wait_does_not(led, max_wait_ms):
    waiting = led.later(led.fetch(0, max_wait_ms=max_wait_ms, min_bytes=2**31 - 1))

    assert await took_ms(led, waiting, until_ms=50) < 10
    assert waiting.result().records is None


@pytest.mark.behaviour("B165")
@pytest.mark.parametrize("min_bytes", [0, -1, -(2**31)])
async def test_who_wants_no_bytes_does_not_wait_for_any(led, min_bytes):
    waiting = led.later(led.fetch(0, max_wait_ms=2**31 - 1, min_bytes=min_bytes))

    assert await took_ms(led, waiting, until_ms=50) < 10


@pytest.mark.behaviour("B165")
async def test_an_error_in_one_partition_ends_the_wait_for_all(sim):
    led = await Led.start(sim, partitions=2)
    offsets = {at(0): 0, TopicPartition("sales", 0): 0, at(1): 7}

    results, _ = await led.fetch_of(offsets, max_wait_ms=9_000)

    assert [each.error_code for each in results] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.OFFSET_OUT_OF_RANGE,
    ]


@pytest.mark.behaviour("B165")
async def test_a_segment_that_is_complete_ends_the_wait(sim):
    led = await Led.start(sim, isr=[1, 8], segment_bytes=str(2 * SIZE))
    await led.produce(b"a")
    await led.produce(b"b")
    waiting = led.later(led.fetch(0, by=8, max_wait_ms=9_000, min_bytes=5_000))
    await sim.sleep(100)
    assert not waiting.done()

    await led.produce(b"c")

    assert await took_ms(led, waiting, until_ms=50) < 10
    assert values_in(waiting.result().records) == [b"a", b"b"]


@pytest.mark.behaviour("B165")
async def test_a_complete_segment_without_anything_to_see_ends_no_wait(sim):
    led = await Led.start(sim, isr=[1, 8], segment_bytes=str(2 * SIZE))
    waiting = led.later(led.fetch(0, max_wait_ms=9_000, min_bytes=5_000))
    for value in (b"a", b"b", b"c"):
        await led.produce(value)
    await sim.sleep(100)
    assert not waiting.done()

    await led.fetch(2, by=8)

    assert values_in((await waiting).records) == [b"a", b"b"]


@pytest.mark.behaviour("B165")
@pytest.mark.parametrize("by", [-1, 8])
async def test_who_means_a_former_epoch_is_fenced_when_the_next_begins(led, by):
    waiting = led.later(led.fetch(0, by=by, epoch=EPOCH, max_wait_ms=9_000))
    await led.sim.sleep(100)

    await led.lead(epoch=EPOCH + 1)

    assert await took_ms(led, waiting, until_ms=50) < 10
    assert waiting.result().error_code is ErrorCode.FENCED_LEADER_EPOCH


@pytest.mark.behaviour("B165")
async def test_who_means_no_epoch_waits_on_in_the_next(led):
    waiting = led.later(led.fetch(0, max_wait_ms=9_000))
    await led.sim.sleep(100)
    await led.lead(epoch=EPOCH + 1, isr=[1])
    await led.sim.sleep(100)
    assert not waiting.done()

    await led.produce(b"a")

    assert values_in((await waiting).records) == [b"a"]


@pytest.mark.behaviour("B165")
async def test_who_waits_is_told_that_this_broker_leads_no_longer(led):
    waiting = led.later(led.fetch(0, max_wait_ms=9_000))
    await led.sim.sleep(100)

    await led.lead(epoch=EPOCH + 1, leader=8)

    assert await took_ms(led, waiting, until_ms=50) < 10
    assert waiting.result().error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.behaviour("B165")
async def test_who_waits_is_told_that_the_replica_is_gone(led):
    waiting = led.later(led.fetch(0, by=8, max_wait_ms=9_000))
    await led.sim.sleep(100)

    request = stop_replica(stop(ORDERS, EPOCH + 1, delete=True))
    await led.drive.ask(1, request, StopReplicaResponse)

    assert await took_ms(led, waiting, until_ms=50) < 10
    assert waiting.result().error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.behaviour("B165")
async def test_logs_that_part_end_the_wait_and_say_where(led):
    await led.produce(b"a", b"b")
    await led.lead(epoch=EPOCH + 3, isr=[1])
    await led.produce(b"c")

    parted = await led.fetch(3, by=8, last_epoch=EPOCH + 1, max_wait_ms=9_000)
    unheard_of = await led.fetch(3, by=8, last_epoch=EPOCH + 4, max_wait_ms=9_000)

    assert parted.diverging_epoch == EpochEndOffset(EPOCH, 2)
    assert (parted.error_code, parted.records) == (ErrorCode.NONE, None)
    assert unheard_of.error_code is ErrorCode.OFFSET_OUT_OF_RANGE


# --- how much ------------------------------------------------------------------------------------


@pytest.mark.parametrize("fields", [{"max_bytes": 1}, {"partition_max_bytes": 1}])
async def test_the_first_batch_comes_however_large_it_is(led, fields):
    await led.produce(b"x" * 5_000)
    await led.produce(b"b")

    result = await led.fetch(0, by=8, **fields)

    assert values_in(result.records) == [b"x" * 5_000]


@pytest.mark.parametrize("most", [0, -1, -(2**31)])
async def test_a_limit_that_is_none_lets_one_batch_through(led, most):
    await led.produce(b"a")
    await led.produce(b"b")

    result = await led.fetch(0, by=8, max_bytes=most, partition_max_bytes=most)

    assert values_in(result.records) == [b"a"]


async def test_all_partitions_together_keep_to_the_limit(sim):
    led = await Led.start(sim, isr=[1], partitions=3)
    for number in range(3):
        await led.produce_to({at(number): batch_of(b"a")}, 1, 0)
    offsets = dict.fromkeys(map(at, range(3)), 0)

    results, _ = await led.fetch_of(offsets, max_bytes=2 * SIZE)

    assert [len(each.records or b"") for each in results] == [SIZE, SIZE, 0]


async def test_a_batch_that_is_cut_short_is_not_sent_after_others(sim):
    led = await Led.start(sim, isr=[1], partitions=2)
    for number in range(2):
        await led.produce_to({at(number): batch_of(b"a")}, 1, 0)

    results, _ = await led.fetch_of(dict.fromkeys(map(at, range(2)), 0), max_bytes=2 * SIZE - 1)

    assert [len(each.records or b"") for each in results] == [SIZE, 0]


# --- B166: what a follower's offset counts for ---------------------------------------------------


def known_of(led, broker):
    return led.replica().followers[broker].log_end_offset


@pytest.mark.behaviour("B158", "B166")
async def test_a_followers_offset_counts_once_it_was_read_from(led):
    await led.produce(b"a")

    await led.fetch(1, by=8)

    assert (known_of(led, 8), led.high_watermark) == (1, 1)


@pytest.mark.behaviour("B166")
@pytest.mark.parametrize(
    "fields",
    [
        {"offset": 2},
        {"offset": -1},
        {"offset": 1, "epoch": EPOCH - 1},
        {"offset": 1, "epoch": EPOCH + 1},
        {"offset": 1, "last_epoch": EPOCH - 1},
        {"offset": 1, "last_epoch": EPOCH + 1},
    ],
    ids=str,
)
async def test_an_offset_that_could_not_be_read_from_counts_for_nothing(led, fields):
    await led.produce(b"a")

    result = await led.fetch(by=8, **fields)

    assert result.error_code is not ErrorCode.NONE or result.diverging_epoch is not None
    assert (known_of(led, 8), led.high_watermark) == (-1, 0)


@pytest.mark.behaviour("B166")
@pytest.mark.parametrize("stranger", [1, 7, 2**31 - 1])
async def test_a_stranger_among_followers_gets_an_error_and_nothing_else(led, stranger):
    await led.produce(b"a")

    result = await led.fetch(1, by=stranger, max_wait_ms=9_000)

    assert (result.error_code, result.records) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, None)
    assert sorted(led.replica().followers) == [8, 9]
    assert led.isr == (1, 8)


@pytest.mark.behaviour("B166")
@pytest.mark.parametrize("order", [(99, 0), (0, 99)])
async def test_of_a_partition_named_twice_the_last_naming_is_read_and_counts(sim, order):
    led = await Led.start(sim, isr=[1])
    await led.produce(b"a")
    wanted = tuple(
        FetchPartition(partition=ORDERS, fetch_offset=each, max_bytes=9) for each in order
    )
    request = Fetch(replica_id=9, max_wait_ms=0, min_bytes=0, max_bytes=9, partitions=wanted)

    response = await led.drive.ask(1, request, FetchResponse)
    await led.sim.sleep(100)

    assert len(response.partitions) == 1
    assert known_of(led, 9) == (0 if order[-1] == 0 else -1)
    assert led.isr == (1,)  # though it claimed, for a moment, to have all there is
