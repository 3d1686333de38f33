"""Records in, and when their producer hears of them: B161, B163, B164."""

import pytest

from runtime.network import Endpoint
from tests.support.data import batch_of, values_in
from tests.support.led import EPOCH, ORDERS, Led, at
from wire.codec import encode
from wire.data import Produce, ProducePartition, ProduceResponse
from wire.errors import ErrorCode
from wire.ids import NO_OFFSET, TopicPartition
from wire.records import Record, encode_batch


def outcomes(results):
    return [(each.partition.partition, each.error_code, each.base_offset) for each in results]


# --- B163: acks ----------------------------------------------------------------------------------


@pytest.mark.behaviour("B163")
async def test_acks_1_is_answered_as_soon_as_the_leader_has_the_records(sim):
    led = await Led.start(sim)

    first, second = await led.produce(b"a", b"b"), await led.produce(b"c")

    assert [each.error_code for each in (first, second)] == [ErrorCode.NONE] * 2
    assert (first.base_offset, second.base_offset, second.log_start_offset) == (0, 2, 0)
    assert (led.replica().log_end_offset, led.high_watermark) == (3, 0)


@pytest.mark.behaviour("B163")
async def test_acks_all_is_answered_once_all_in_sync_replicas_have_the_records(sim):
    led = await Led.start(sim)
    waiting = led.later(led.produce(b"a", acks=-1))
    await led.sim.sleep(50)
    assert led.waiting == (1, 0)

    await led.fetch(1, by=8)
    await led.sim.sleep(50)
    assert not waiting.done()
    await led.fetch(1, by=9)

    result = await waiting
    assert (result.error_code, result.base_offset, led.high_watermark) == (ErrorCode.NONE, 0, 1)
    assert led.waiting == (0, 0)


async def test_only_a_coordinator_writes_the_offsets_of_groups(sim):
    """A record there that makes no sense would silence every coordinator that reads it."""
    led = await Led.start(sim)
    offsets = TopicPartition("__consumer_offsets", 0)
    records = memoryview(bytes(batch_of(b"forged")))
    entries = (ProducePartition(offsets, records), ProducePartition(ORDERS, records))

    answer = await led.drive.ask(
        1, Produce(acks=1, timeout_ms=1_000, partitions=entries), ProduceResponse
    )

    codes = [each.error_code for each in answer.partitions]
    assert codes == [ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.NONE]


@pytest.mark.behaviour("B161", "B163")
async def test_a_leader_alone_in_sync_commits_on_append(sim):
    led = await Led.start(sim, isr=[1])

    result = await led.produce(b"a", acks=-1)

    assert (result.error_code, led.high_watermark) == (ErrorCode.NONE, 1)


@pytest.mark.behaviour("B163")
async def test_acks_0_appends_and_no_answer_comes(sim):
    led = await Led.start(sim, isr=[1])
    network = Endpoint("sender", sim.network, sim.trace.at("sender"))
    entry = ProducePartition(ORDERS, memoryview(batch_of(b"a")))
    led.drive.forget()

    network.send("broker-1", encode(Produce(acks=0, timeout_ms=0, partitions=(entry,))))
    network.send("broker-1", encode(Produce(acks=7, timeout_ms=0, partitions=(entry,))))
    await sim.sleep(100)

    assert (led.replica().log_end_offset, led.high_watermark) == (1, 1)
    assert led.drive.answered(ProduceResponse) == []


@pytest.mark.behaviour("B163")
@pytest.mark.parametrize("acks", [-2, 2, 3, 32_767, -32_768])
async def test_other_acks_are_refused_and_nothing_is_appended(sim, acks):
    led = await Led.start(sim, partitions=2)

    results = await led.produce_to({at(0): batch_of(b"a"), at(1): batch_of(b"b")}, acks, 1_000)

    code = ErrorCode.INVALID_REQUIRED_ACKS
    assert outcomes(results) == [(0, code, NO_OFFSET), (1, code, NO_OFFSET)]
    assert led.replica().log_end_offset == 0


@pytest.mark.behaviour("B163")
async def test_acks_all_with_too_few_in_sync_is_refused_and_nothing_is_appended(sim):
    led = await Led.start(sim, isr=[1], min_insync_replicas="2")

    refused, taken = await led.produce(b"a", acks=-1), await led.produce(b"b", acks=1)

    assert refused.error_code is ErrorCode.NOT_ENOUGH_REPLICAS
    assert (taken.error_code, taken.base_offset) == (ErrorCode.NONE, 0)
    assert led.replica().log_end_offset == 1


@pytest.mark.behaviour("B161", "B163")
async def test_who_waited_hears_that_too_few_were_left_when_all_that_are_left_have_the_records(sim):
    led = await Led.start(sim, isr=[1, 8], min_insync_replicas="2")
    await led.fetch(0, by=8)
    waiting = led.later(led.produce(b"a", acks=-1))
    await sim.sleep(15_100)  # two looks: at the second one broker 8 has lagged for too long

    result = await waiting
    assert led.isr == (1,)
    assert result.error_code is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    assert (led.replica().log_end_offset, led.high_watermark) == (1, 0)


# --- B161: the high watermark --------------------------------------------------------------------


@pytest.mark.behaviour("B161")
async def test_the_high_watermark_rises_with_the_slowest_and_never_falls(sim):
    led = await Led.start(sim)
    for _ in range(5):
        await led.produce(b"a")
    seen = []

    for by, offset in [(8, 5), (9, 3), (9, 5), (8, 1), (9, 0)]:
        await led.fetch(offset, by=by)
        seen.append(led.high_watermark)

    assert seen == [0, 3, 5, 5, 5]


@pytest.mark.behaviour("B161")
async def test_it_stands_still_while_too_few_are_in_sync_and_goes_on_when_there_are_enough(sim):
    led = await Led.start(sim, isr=[1], min_insync_replicas="2")
    await led.produce(b"a", acks=1)
    assert led.high_watermark == 0

    await led.fetch(1, by=8)
    await sim.sleep(100)

    assert (led.isr, led.high_watermark) == ((1, 8), 1)


@pytest.mark.behaviour("B161")
async def test_it_goes_on_when_fewer_replicas_are_asked_for(sim):
    led = await Led.start(sim, isr=[1], min_insync_replicas="2")
    await led.produce(b"a", acks=1)
    await led.drive.configure("topics", "orders", min_insync_replicas="1")

    settings = led.manager._settings
    led.manager._on_settings(settings.topic_changed("orders", {"min.insync.replicas": "1"}))

    assert led.high_watermark == 1


@pytest.mark.behaviour("B161")
async def test_it_stands_still_while_it_is_not_known_how_many_must_be_in_sync(sim):
    led = await Led.start(sim, isr=[1])
    led.replica().log = None
    led.replica().high_watermark = 0
    await led.produce(b"a")
    replica = led.replica()
    replica.high_watermark, settings, replica.settings = 0, replica.settings, None

    led.manager.leading.advance(replica)
    assert replica.high_watermark == 0

    replica.settings = settings
    led.manager.leading.advance(replica)
    assert replica.high_watermark == 1


# --- B164: how waiting ends ----------------------------------------------------------------------


@pytest.mark.behaviour("B164")
@pytest.mark.parametrize(("timeout_ms", "took_ms"), [(3_000, 3_000), (0, 0), (-5, 0)])
async def test_time_is_up_when_it_is_up(sim, timeout_ms, took_ms):
    led = await Led.start(sim)
    begun_ms = sim.now_ms

    result = await led.produce(b"a", acks=-1, timeout_ms=timeout_ms)

    assert result.error_code is ErrorCode.REQUEST_TIMED_OUT
    assert result.base_offset == NO_OFFSET
    assert sim.now_ms - begun_ms == pytest.approx(took_ms, abs=5)
    assert led.waiting == (0, 0)


@pytest.mark.behaviour("B164")
async def test_what_timed_out_may_be_committed_all_the_same(sim):
    led = await Led.start(sim)
    result = await led.produce(b"a", acks=-1, timeout_ms=10)
    assert result.error_code is ErrorCode.REQUEST_TIMED_OUT

    await led.fetch(1, by=8)
    await led.fetch(1, by=9)

    assert values_in((await led.fetch(0)).records) == [b"a"]


@pytest.mark.behaviour("B164")
async def test_one_answer_is_given_when_the_last_partition_is_committed(sim):
    led = await Led.start(sim, isr=[1, 8], partitions=2)
    batches = {at(0): batch_of(b"a"), at(1): batch_of(b"b", b"c")}
    waiting = led.later(led.produce_to(batches, acks=-1, timeout_ms=5_000))
    await sim.sleep(10)
    await led.fetch_of({at(1): 2}, by=8)
    await sim.sleep(10)
    assert not waiting.done()

    await led.fetch_of({at(0): 1}, by=8)

    assert outcomes(await waiting) == [(0, ErrorCode.NONE, 0), (1, ErrorCode.NONE, 0)]


@pytest.mark.behaviour("B164")
async def test_each_partition_has_its_own_end_in_the_one_answer(sim):
    led = await Led.start(sim, isr=[1, 8], partitions=4)
    batches = {at(number): batch_of(b"a") for number in range(4)}
    batches[at(3)] = bytearray(b"no batch")
    batches[TopicPartition("sales", 0)] = batch_of(b"a")
    waiting = led.later(led.produce_to(batches, acks=-1, timeout_ms=1_000))
    await sim.sleep(10)
    await led.fetch_of({at(0): 1}, by=8)  # committed
    await led.lead(at(1), epoch=EPOCH + 1, leader=8)  # led elsewhere; partition 2 has no end

    results = await waiting

    assert [each.error_code for each in results] == [
        ErrorCode.NONE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert [each.base_offset for each in results] == [0, -1, -1, -1, -1]
    assert led.waiting == (0, 0)


@pytest.mark.behaviour("B164")
async def test_who_waits_at_a_leader_that_leads_no_longer_is_told_so_at_once(sim):
    led = await Led.start(sim)
    waiting = led.later(led.produce(b"a", acks=-1))
    await sim.sleep(10)
    begun_ms = sim.now_ms

    await led.lead(epoch=EPOCH + 1, leader=8)

    assert (await waiting).error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert sim.now_ms - begun_ms < 20


@pytest.mark.behaviour("B164")
async def test_who_waits_at_a_leader_that_leads_on_in_another_epoch_waits_on(sim):
    led = await Led.start(sim, isr=[1, 8])
    waiting = led.later(led.produce(b"a", acks=-1))
    await sim.sleep(10)

    await led.lead(epoch=EPOCH + 1, isr=[1])  # broker 8 has died

    assert (await waiting).error_code is ErrorCode.NONE
    assert led.high_watermark == 1


@pytest.mark.behaviour("B164")
async def test_a_thousand_requests_leave_nothing_behind(sim):
    led = await Led.start(sim, isr=[1, 8])
    timers = len(led.manager._timers)
    waiting = [
        led.later(led.produce(b"%d" % number, acks=-1, timeout_ms=1_000 + number % 7))
        for number in range(1_000)
    ]
    await sim.sleep(500)
    assert led.waiting == (1_000, 0)
    await led.fetch(400, by=8)
    await sim.sleep(1_000)

    results = [await each for each in waiting]

    done = [each for each in results if each.error_code is ErrorCode.NONE]
    late = [each for each in results if each.error_code is ErrorCode.REQUEST_TIMED_OUT]
    assert (len(done), len(late)) == (400, 600)
    assert sorted(each.base_offset for each in done) == list(range(400))
    assert led.waiting == (0, 0)
    assert led.manager.leading.purgatory._of == {}
    assert len(led.manager._timers) == timers


# --- what is refused: one answer, and nothing appended -------------------------------------------


def two_batches() -> bytearray:
    return batch_of(b"a", b"b") + batch_of(b"c")


def with_a_wrong_crc() -> bytearray:
    data = batch_of(b"a")
    data[-1] ^= 1
    return data


@pytest.mark.behaviour("B163")
@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", ErrorCode.CORRUPT_MESSAGE),
        (b"\0" * 200, ErrorCode.CORRUPT_MESSAGE),
        (b"\xff" * 200, ErrorCode.CORRUPT_MESSAGE),
        (bytes(batch_of(b"a"))[:-1], ErrorCode.CORRUPT_MESSAGE),
        (bytes(two_batches())[:-1], ErrorCode.CORRUPT_MESSAGE),
        (with_a_wrong_crc(), ErrorCode.CORRUPT_MESSAGE),
        (batch_of(b"a") + with_a_wrong_crc(), ErrorCode.CORRUPT_MESSAGE),
        (batch_of(b"x" * 2_000), ErrorCode.MESSAGE_TOO_LARGE),
    ],
    ids=["nothing", "zeros", "ones", "cut", "second cut", "crc", "second crc", "too large"],
)
@pytest.mark.parametrize("acks", [-1, 1])
async def test_what_is_not_sound_is_refused_as_a_whole(sim, data, code, acks):
    led = await Led.start(sim, isr=[1], max_message_bytes="1000")

    (result,) = await led.produce_to({ORDERS: data}, acks, 1_000)

    assert (result.error_code, result.base_offset) == (code, NO_OFFSET)
    assert led.replica().log_end_offset == 0
    assert led.waiting == (0, 0)


async def test_several_batches_of_a_request_are_appended_one_after_the_other(sim):
    led = await Led.start(sim, isr=[1])
    await led.produce(b"first")

    (result,) = await led.produce_to({ORDERS: two_batches()}, -1, 1_000)

    assert (result.error_code, result.base_offset) == (ErrorCode.NONE, 1)
    assert values_in((await led.fetch(0)).records) == [b"first", b"a", b"b", b"c"]


@pytest.mark.parametrize("acks", [-1, 0, 1])
async def test_a_partition_named_twice_is_refused_and_each_naming_is_answered(sim, acks):
    led = await Led.start(sim, isr=[1])
    entry = ProducePartition(ORDERS, memoryview(batch_of(b"a")))

    request = Produce(acks=acks, timeout_ms=9, partitions=(entry, entry))
    response = await led.drive.ask(1, request, ProduceResponse)

    assert [each.error_code for each in response.partitions] == [ErrorCode.INVALID_REQUEST] * 2
    assert led.replica().log_end_offset == 0


@pytest.mark.parametrize("acks", [-1, 0, 1])
async def test_a_request_for_no_partition_has_an_answer_without_any(sim, acks):
    led = await Led.start(sim)

    assert await led.produce_to({}, acks, 1_000) == ()
    assert led.waiting == (0, 0)


async def test_a_batch_with_any_offsets_gets_those_of_the_log(sim):
    led = await Led.start(sim, isr=[1])
    far = encode_batch([Record(offset=2**40, timestamp_ms=1, value=b"a")])

    (result,) = await led.produce_to({ORDERS: far}, 1, 1_000)

    assert (result.error_code, result.base_offset) == (ErrorCode.NONE, 0)
    assert led.replica().log_end_offset == 1
