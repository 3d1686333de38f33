"""Who is in sync, as the leader sees it and ZooKeeper has it: B121, B158 to B162."""

import pytest

from actors.broker import in_sync
from actors.broker.isr import write_isrs
from runtime.keeper import KeeperSessionLost
from tests.support.led import EPOCH, LAG_MS, ORDERS, FollowerSession, Led, at
from wire.trace import IsrChanged
from wire.znodes import PartitionStateZNode

LOOK_MS = LAG_MS / 2


@pytest.fixture
async def led(sim):
    return await Led.start(sim)


def writes(led):
    """How often the leader has written the state of a partition."""
    return sum(
        each.path == PartitionStateZNode.path(ORDERS)
        for transaction in led.drive.transactions
        for each in transaction.operations
    )


async def keep_up(led, by, *, for_ms, every_ms=400):
    """A follower asks for the end, again and again, in a session that says nothing new."""
    session = FollowerSession(led, by)
    await session.fetch(led.replica().log_end_offset)
    until_ms = led.sim.now_ms + for_ms
    while led.sim.now_ms < until_ms:
        await session.fetch(max_wait_ms=every_ms)
    return session


# --- B159: out -----------------------------------------------------------------------------------


@pytest.mark.behaviour("B159")
async def test_who_never_asks_leaves_the_isr_at_the_first_look_after_the_lag(sim, led):
    begun_ms = sim.now_ms
    session = FollowerSession(led, 8)
    await session.fetch(0)

    await sim.until(lambda: led.isr != (1, 8, 9), limit_ms=3 * LAG_MS)

    assert led.isr == led.drive.state("orders").isr == (1, 8)
    assert LAG_MS < sim.now_ms - begun_ms <= LAG_MS + LOOK_MS + 50
    assert led.drive.hosted(1, "orders").partition_epoch == led.drive.version("orders")


@pytest.mark.behaviour("B158", "B159")
async def test_a_follower_whose_session_says_nothing_new_stays_in_sync(sim, led):
    await led.produce(b"a")
    nine = led.later(keep_up(led, 9, for_ms=5 * LAG_MS))
    eight = await keep_up(led, 8, for_ms=5 * LAG_MS)
    await nine
    await led.produce(b"b")

    await sim.sleep(LAG_MS - 500)  # a record it lacks, but it had all a moment ago
    assert led.isr == (1, 8, 9)
    await eight.fetch(2)
    await sim.sleep(LOOK_MS + 1_000)

    assert led.isr == led.drive.state("orders").isr == (1, 8)


@pytest.mark.behaviour("B158", "B159")
async def test_one_that_fell_silent_long_ago_leaves_at_the_first_look_after_an_append(sim, led):
    await led.fetch(0, by=8)
    await led.fetch(0, by=9)
    await sim.sleep(5 * LAG_MS)
    assert led.isr == (1, 8, 9)  # they have all there is

    await led.produce(b"a")
    await led.fetch(1, by=9)
    await sim.sleep(LOOK_MS + 100)

    assert led.isr == (1, 9)


@pytest.mark.behaviour("B158", "B159")
async def test_one_that_copies_without_ever_being_at_the_end_stays(sim, led):
    for offset in range(40):
        await led.produce(b"a")
        await led.fetch(offset, by=8)
        await led.fetch(offset + 1, by=9)
        await sim.sleep(1_000)

    assert led.isr == (1, 8, 9)


@pytest.mark.behaviour("B158", "B159")
async def test_one_that_asks_for_the_same_again_and_again_leaves(sim, led):
    await led.produce(b"a")
    for _ in range(40):
        await led.fetch(0, by=8)
        await led.fetch(1, by=9)
        await sim.sleep(500)

    assert led.isr == (1, 9)


@pytest.mark.behaviour("B161")
async def test_when_the_slow_one_is_out_what_the_others_have_is_committed(sim, led):
    await led.produce(b"a")
    await led.fetch(1, by=8)
    assert led.high_watermark == 0

    await sim.sleep(LAG_MS + LOOK_MS + 100)

    assert (led.isr, led.high_watermark) == ((1, 8), 1)


@pytest.mark.behaviour("B159", "B160")
async def test_a_silent_one_stays_out_though_the_high_watermark_waits_for_it(sim):
    led = await Led.start(sim, isr=[1, 8], min_insync_replicas="2")
    await led.fetch(0, by=8)
    await led.produce(b"a", acks=1)
    await sim.sleep(LAG_MS + LOOK_MS + 100)
    assert (led.isr, led.high_watermark) == ((1,), 0)
    led.drive.forget()

    await sim.sleep(5 * LAG_MS)

    assert (led.isr, writes(led)) == ((1,), 0)


# --- B160: in ------------------------------------------------------------------------------------


@pytest.mark.behaviour("B160")
async def test_a_follower_joins_with_the_fetch_that_shows_it_has_all_that_is_committed(sim):
    led = await Led.start(sim, isr=[1])
    for _ in range(3):
        await led.produce(b"a")
    assert led.high_watermark == 3

    await led.fetch(2, by=8)
    await sim.sleep(100)
    assert led.isr == (1,)
    await led.fetch(3, by=8)
    await sim.sleep(100)

    assert led.isr == led.drive.state("orders").isr == (1, 8)
    assert led.drive.of(IsrChanged)[-1].isr == "1,8"


@pytest.mark.behaviour("B160")
async def test_a_follower_joins_only_from_the_start_of_the_epoch_on(sim):
    led = await Led.start(sim, isr=[1, 9])
    for _ in range(4):
        await led.produce(b"a")
    await led.fetch(2, by=9)
    await led.lead(epoch=EPOCH + 1, isr=[1, 9])
    assert (led.high_watermark, led.replica().epoch_start_offset) == (2, 4)

    await led.fetch(3, by=8, epoch=EPOCH + 1)
    await sim.sleep(100)
    assert led.isr == (1, 9)
    await led.fetch(4, by=8, epoch=EPOCH + 1)
    await sim.sleep(100)

    assert led.isr == (1, 9, 8)


@pytest.mark.behaviour("B161")
async def test_one_on_its_way_in_counts_before_zookeeper_has_answered(sim):
    led = await Led.start(sim, isr=[1])
    await led.produce(b"a")
    sim.cut("broker-1", "zookeeper")
    await led.fetch(1, by=8)
    assert led.replica().pending_isr == (1, 8)

    await led.produce(b"b")
    assert (led.isr, led.high_watermark) == ((1,), 1)
    await led.fetch(2, by=8)

    assert led.high_watermark == 2
    sim.heal()
    await sim.sleep(1_000)
    assert (led.isr, led.replica().pending_isr) == ((1, 8), None)


@pytest.mark.behaviour("B160")
async def test_who_catches_up_while_another_one_is_on_its_way_in_joins_next(sim):
    led = await Led.start(sim, isr=[1])
    sim.cut("broker-1", "zookeeper")
    for by in (8, 9):
        await FollowerSession(led, by).fetch(0)

    sim.heal()
    await sim.sleep(1_000)

    assert led.isr == led.drive.state("orders").isr == (1, 8, 9)


@pytest.mark.behaviour("B161")
async def test_one_on_its_way_out_counts_until_zookeeper_has_answered(sim, led):
    await led.produce(b"a")
    await led.fetch(1, by=8)
    await sim.sleep(LAG_MS)  # the next look finds broker 9 lagging
    sim.cut("broker-1", "zookeeper")
    await sim.until(lambda: led.replica().pending_isr is not None, limit_ms=LAG_MS)
    await led.fetch(1, by=8)

    assert (led.replica().pending_isr, led.high_watermark) == ((1, 8), 0)
    sim.heal()
    await sim.sleep(1_000)
    assert (led.isr, led.high_watermark) == ((1, 8), 1)


# --- B162: refused -------------------------------------------------------------------------------


@pytest.mark.behaviour("B162")
async def test_what_zookeeper_refuses_stays_as_it_was_until_the_next_look(sim):
    led = await Led.start(sim, isr=[1])
    before = led.drive.hosted(1, "orders")
    await led.drive.write_state(ORDERS, led.drive.state("orders"))  # somebody was faster
    led.drive.forget()
    session = FollowerSession(led, 8)

    await session.fetch(0)
    await sim.sleep(500)
    assert led.drive.hosted(1, "orders") is before
    assert (led.replica().pending_isr, writes(led)) == (None, 1)
    await sim.sleep(LOOK_MS)

    assert writes(led) == 2
    assert led.drive.hosted(1, "orders") is before
    assert led.drive.state("orders").isr == (1,)


@pytest.mark.behaviour("B162")
async def test_after_the_controllers_next_word_a_refused_follower_joins(sim):
    led = await Led.start(sim, isr=[1])
    await led.drive.write_state(ORDERS, led.drive.state("orders"))
    await led.fetch(0, by=8)
    await sim.sleep(100)

    await led.lead(epoch=EPOCH + 1, isr=[1])
    await led.fetch(0, by=8, epoch=EPOCH + 1)
    await sim.sleep(100)

    assert led.isr == led.drive.state("orders").isr == (1, 8)


@pytest.mark.behaviour("B161", "B162")
async def test_one_who_may_have_been_let_in_counts_until_the_controller_has_spoken(
    sim, monkeypatch
):
    async def written_and_not_heard(world, wanted):
        await write_isrs(world, wanted)
        raise KeeperSessionLost(detail="the answer was on its way")

    led = await Led.start(sim, isr=[1])
    await led.produce(b"a", b"b")
    monkeypatch.setattr(in_sync, "write_isrs", written_and_not_heard)
    await led.fetch(2, by=8)
    await sim.sleep(100)
    assert (led.isr, led.drive.state("orders").isr) == ((1,), (1, 8))  # it may be elected
    monkeypatch.undo()
    await led.fetch(2, by=9)  # refused, for ZooKeeper has another version
    await sim.sleep(2 * LAG_MS)  # nor are they any that had all a moment ago
    assert led.isr == (1,)

    waiting = led.later(led.produce(b"c", acks=-1, timeout_ms=1_000))
    for _ in range(3):
        await led.fetch(3, by=9)  # refused each time
        await sim.sleep(100)

    assert led.high_watermark == 2  # for want of broker 8
    await led.lead(epoch=EPOCH + 1, isr=[1])
    assert ((await waiting).error_code, led.high_watermark) == (0, 3)


@pytest.mark.behaviour("B162")
async def test_what_the_controller_decides_meanwhile_wins(sim):
    led = await Led.start(sim, isr=[1])
    sim.cut("broker-1", "zookeeper")
    await led.fetch(0, by=8)
    assert led.replica().pending_isr == (1, 8)

    await led.lead(epoch=EPOCH + 1, isr=[1], replicas=[1, 9])
    sim.heal()
    await sim.sleep(1_000)

    assert (led.isr, led.replica().pending_isr) == ((1,), None)
    assert led.drive.hosted(1, "orders").leader_epoch == EPOCH + 1


async def test_a_look_changes_many_partitions_in_one_write(sim):
    led = await Led.start(sim, isr=[1, 8], partitions=20)
    led.drive.forget()

    await sim.sleep(LAG_MS + LOOK_MS + 100)

    assert [led.drive.state("orders", number).isr for number in range(20)] == [(1,)] * 20
    (transaction,) = [each for each in led.drive.transactions if "state" in str(each)]
    assert len(transaction.operations) == 20
    assert led.replica(at(19)).hosted.isr == (1,)
