"""What becoming a leader or a follower does to a log and to those who wait: B136 to B139."""

import asyncio

import pytest

from actors.broker.local import LeadershipChanged
from actors.broker.log.checkpoints import HIGH_WATERMARKS, read_offsets
from actors.broker.upkeep import Round
from tests.support.data import fetch, produce, values_in, values_on
from tests.support.drive import Drive
from tests.support.mailbox import Mailbox
from tests.support.orders import leader_and_isr, order, stop, stop_replica
from wire.control import LeaderAndIsrResponse, StopReplicaResponse
from wire.data import (
    Fetch,
    FetchPartition,
    FetchResponse,
    OffsetForLeaderEpoch,
    OffsetForLeaderEpochPartition,
    OffsetForLeaderEpochResponse,
)
from wire.errors import ErrorCode
from wire.ids import TopicPartition
from wire.trace import ReplicaRoleChanged

ORDERS = TopicPartition("orders", 0)
SALES = TopicPartition("sales", 0)
OFFSETS = TopicPartition("__consumer_offsets", 7)
NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER
LONG_MS = 60_000


@pytest.fixture
async def drive(sim):
    """Three brokers without topics: all that they hear of one is said here."""
    drive = await Drive.start(sim)
    drive.forget()
    return drive


async def tell(drive, to: int, *orders, **fields) -> None:
    response = await drive.ask(to, leader_and_isr(*orders, **fields), LeaderAndIsrResponse)
    assert {each.error_code for each in response.partitions} == {ErrorCode.NONE}


async def follow(drive, offset: int, epoch: int, by: int = 3, to: int = 2):
    """Fetch once as a follower does."""
    wanted = FetchPartition(
        partition=ORDERS, fetch_offset=offset, max_bytes=1_000, current_leader_epoch=epoch
    )
    request = Fetch(
        replica_id=by, max_wait_ms=0, min_bytes=1, max_bytes=1_000, partitions=(wanted,)
    )
    (result,) = (await drive.ask(to, request, FetchResponse)).partitions
    return result


async def end_of(drive, epoch: int, to: int = 2):
    """Where a leader says that an epoch ends."""
    asked = OffsetForLeaderEpochPartition(partition=ORDERS, leader_epoch=epoch)
    request = OffsetForLeaderEpoch(partitions=(asked,))
    (result,) = (await drive.ask(to, request, OffsetForLeaderEpochResponse)).partitions
    assert result.error_code is ErrorCode.NONE
    return result.leader_epoch, result.end_offset


async def wait_for_it(drive, waiting) -> asyncio.Task:
    """Begin to wait for an answer that does not come by itself."""
    task = asyncio.ensure_future(waiting)
    await drive.sim.sleep(1_000)
    assert not task.done()
    return task


async def answer_to(drive, task):
    """An answer that must have come at once."""
    await drive.sim.sleep(10)
    assert task.done()
    return task.result()


def rounds(drive, broker: int) -> list[Round]:
    """The rounds that a broker's upkeep begins from now on."""
    begun = []
    upkeep = drive.node(broker).replica_manager._upkeep
    on_due = upkeep.on_due

    def record(due, logs):
        begun.append(due.work)
        on_due(due, logs)

    upkeep.on_due = record
    return begun


# --- one request ----------------------------------------------------------------------------------


@pytest.mark.behaviour("B136")
async def test_leaders_take_records_and_followers_fetch_after_one_and_the_same_request(drive):
    await tell(drive, 1, order(ORDERS, 1, 0, isr=(1,)), order(SALES, 2, 0))
    await tell(drive, 2, order(ORDERS, 1, 0), order(SALES, 2, 0, isr=(2,)))

    await produce(drive, ORDERS, b"a", leader=1)
    await produce(drive, SALES, b"b", leader=2)
    await drive.sim.sleep(1_000)

    made = [(each.role, each.topic) for each in drive.of(ReplicaRoleChanged)]
    assert made == [
        ("leader", "orders"),
        ("follower", "sales"),
        ("leader", "sales"),
        ("follower", "orders"),
    ]
    assert values_on(drive, 2, ORDERS) == [b"a"]
    assert values_on(drive, 1, SALES) == [b"b"]


@pytest.mark.behaviour("B136")
async def test_the_coordinator_hears_who_leads_partitions_of_consumer_offsets_and_no_others(drive):
    drive.node(2).replica_manager.coordinator = coordinator = Mailbox()

    await tell(drive, 2, order(OFFSETS, 2, 0), order(ORDERS, 2, 0))
    await tell(drive, 2, order(OFFSETS, 1, 1), order(ORDERS, 1, 1))
    await drive.ask(2, stop_replica(stop(OFFSETS, 2)), StopReplicaResponse)

    assert coordinator.messages == [
        LeadershipChanged(OFFSETS, 0, True),
        LeadershipChanged(OFFSETS, 1, False),
        LeadershipChanged(OFFSETS, 1, False),
    ]


@pytest.mark.behaviour("B136")
async def test_the_rounds_of_upkeep_begin_with_the_first_order(drive):
    begun, elsewhere = rounds(drive, 2), rounds(drive, 1)
    await drive.sim.sleep(LONG_MS)
    assert begun == []

    await tell(drive, 2, order(ORDERS, 2, 0, isr=(2,)))
    await produce(drive, ORDERS, b"a", b"b", leader=2)
    await drive.sim.sleep(4_900)
    assert read_offsets(drive.node(2).world.disk, HIGH_WATERMARKS) == {}
    await drive.sim.sleep(200)

    assert read_offsets(drive.node(2).world.disk, HIGH_WATERMARKS) == {ORDERS: 2}
    assert begun == [Round.HIGH_WATERMARKS]
    assert elsewhere == []  # nobody has told broker 1 anything


@pytest.mark.behaviour("B136")
async def test_more_orders_do_not_begin_more_rounds(drive):
    begun = rounds(drive, 2)

    for epoch in range(3):
        await tell(drive, 2, order(ORDERS, 2, epoch))
    await drive.sim.sleep(14_000)

    assert begun == [Round.HIGH_WATERMARKS] * 2


# --- becoming a leader ----------------------------------------------------------------------------


@pytest.mark.behaviour("B137")
async def test_a_new_leaders_epoch_begins_at_its_logs_end_before_anything_is_appended(drive):
    await tell(drive, 2, order(ORDERS, 2, 0))
    await produce(drive, ORDERS, b"a", b"b", leader=2)

    await tell(drive, 2, order(ORDERS, 2, 5))

    assert drive.replica(2, "orders").log.epochs.entries == ((0, 0), (5, 2))
    assert drive.replica(2, "orders").epoch_start_offset == 2
    assert await end_of(drive, 0) == (0, 2)
    assert await end_of(drive, 4) == (0, 2)
    assert await end_of(drive, 5) == (5, 2)


@pytest.mark.behaviour("B137")
async def test_also_a_leader_that_has_no_log_yet_says_where_its_epoch_begins(drive):
    await tell(drive, 2, order(ORDERS, 2, 3))

    assert await end_of(drive, 3) == (3, 0)
    assert drive.replica(2, "orders").epoch_start_offset == 0


@pytest.mark.behaviour("B137")
async def test_a_follower_that_is_made_leader_begins_its_epoch_where_its_copy_ends(drive):
    for each in (1, 2):
        await tell(drive, each, order(ORDERS, 1, 0))
    await produce(drive, ORDERS, b"a", b"b", b"c", leader=1)
    await drive.sim.sleep(1_000)

    await tell(drive, 2, order(ORDERS, 2, 1))

    assert drive.replica(2, "orders").log.epochs.entries == ((0, 0), (1, 3))
    assert (await produce(drive, ORDERS, b"d", leader=2)).base_offset == 3
    assert values_on(drive, 2, ORDERS) == [b"a", b"b", b"c", b"d"]


@pytest.mark.behaviour("B137")
async def test_what_followers_had_under_the_former_epoch_counts_no_more(drive):
    await tell(drive, 2, order(ORDERS, 2, 0, isr=(2, 3)))
    await produce(drive, ORDERS, b"a", b"b", leader=2)
    await follow(drive, 2, 0)
    assert drive.replica(2, "orders").high_watermark == 2
    await produce(drive, ORDERS, b"c", leader=2)

    await tell(drive, 2, order(ORDERS, 2, 1, isr=(2, 3)))

    replica = drive.replica(2, "orders")
    assert {each.log_end_offset for each in replica.followers.values()} == {-1}
    assert replica.high_watermark == 2  # never lowered, and not raised either
    assert (await follow(drive, 3, 0)).error_code is ErrorCode.FENCED_LEADER_EPOCH
    assert replica.high_watermark == 2
    await follow(drive, 3, 1)
    assert replica.high_watermark == 3


@pytest.mark.behaviour("B137")
async def test_members_of_the_isr_count_as_caught_up_when_the_epoch_begins_and_others_never(drive):
    await tell(drive, 2, order(ORDERS, 2, 0, isr=(2, 3)))

    followers = drive.replica(2, "orders").followers
    caught_up = {each: follower.caught_up_ms(0) for each, follower in followers.items()}
    assert caught_up[3] == pytest.approx(drive.sim.now_ms, abs=10)
    assert caught_up[1] == float("-inf")


@pytest.mark.behaviour("B137")
async def test_a_leader_alone_in_the_isr_commits_all_it_has_and_whoever_waits_is_answered(drive):
    await tell(drive, 2, order(ORDERS, 2, 0, isr=(2, 3)))
    writing = await wait_for_it(drive, produce(drive, ORDERS, b"a", b"b", acks=-1, leader=2))
    reading = await wait_for_it(drive, fetch(drive, ORDERS, leader=2, max_wait_ms=LONG_MS))
    assert drive.replica(2, "orders").high_watermark == 0

    await tell(drive, 2, order(ORDERS, 2, 1, isr=(2,)))

    written, read = await answer_to(drive, writing), await answer_to(drive, reading)
    assert (written.error_code, written.base_offset) == (ErrorCode.NONE, 0)
    assert (values_in(read.records), read.high_watermark) == ([b"a", b"b"], 2)


@pytest.mark.behaviour("B137")
async def test_a_leader_that_stays_one_lets_its_producers_wait_until_the_isr_has_it(drive):
    # A follower's death raises the leader epoch; what was appended under the former one is there.
    await tell(drive, 2, order(ORDERS, 2, 0))
    writing = await wait_for_it(drive, produce(drive, ORDERS, b"a", acks=-1, leader=2))

    await tell(drive, 2, order(ORDERS, 2, 1, isr=(2, 3)))
    await drive.sim.sleep(100)
    assert not writing.done()
    await follow(drive, 1, 1)

    assert (await answer_to(drive, writing)).error_code is ErrorCode.NONE


@pytest.mark.behaviour("B137")
async def test_a_fetch_that_waits_under_the_former_epoch_is_fenced_at_once(drive):
    await tell(drive, 2, order(ORDERS, 2, 0))
    wanted = FetchPartition(
        partition=ORDERS, fetch_offset=0, max_bytes=1_000, current_leader_epoch=0
    )
    request = Fetch(max_wait_ms=LONG_MS, min_bytes=1, max_bytes=1_000, partitions=(wanted,))
    reading = await wait_for_it(drive, drive.ask(2, request, FetchResponse))

    await tell(drive, 2, order(ORDERS, 2, 1))

    (result,) = (await answer_to(drive, reading)).partitions
    assert result.error_code is ErrorCode.FENCED_LEADER_EPOCH


# --- becoming a follower --------------------------------------------------------------------------


@pytest.mark.behaviour("B138")
async def test_whoever_waits_is_told_when_his_leader_becomes_a_follower(drive):
    await tell(drive, 2, order(ORDERS, 2, 0))
    writing = await wait_for_it(drive, produce(drive, ORDERS, b"a", acks=-1, leader=2))
    reading = await wait_for_it(drive, fetch(drive, ORDERS, leader=2, max_wait_ms=LONG_MS))

    await tell(drive, 2, order(ORDERS, 1, 1))

    assert (await answer_to(drive, writing)).error_code is NOT_LEADER
    assert (await answer_to(drive, reading)).error_code is NOT_LEADER
    replica = drive.replica(2, "orders")
    assert (replica.hosted.isr, replica.followers, replica.epoch_start_offset) == ((), {}, -1)


@pytest.mark.behaviour("B138")
async def test_a_follower_of_an_unknown_leader_has_no_fetcher_and_keeps_its_high_watermark(drive):
    for each in (1, 2, 3):
        await tell(drive, each, order(ORDERS, 1, 0))
    await produce(drive, ORDERS, b"a", b"b", leader=1)
    await drive.sim.sleep(2_000)
    assert drive.replica(2, "orders").high_watermark == 2

    await tell(drive, 2, order(ORDERS, 9, 1))
    drive.forget()
    await drive.sim.sleep(20_000)

    assert drive.fetches(source=2, to=1) == []
    assert drive.node(2).system.lookup("fetcher-0-1") is None
    assert drive.node(2).system.lookup("fetcher-0-9") is None
    assert drive.replica(2, "orders").high_watermark == 2
    assert values_on(drive, 2, ORDERS) == [b"a", b"b"]
    assert read_offsets(drive.node(2).world.disk, HIGH_WATERMARKS) == {ORDERS: 2}


@pytest.mark.behaviour("B138")
async def test_a_follower_that_restarts_before_it_knows_its_leader_still_knows_the_watermark(drive):
    for each in (1, 2, 3):
        await tell(drive, each, order(ORDERS, 1, 0))
    await produce(drive, ORDERS, b"a", b"b", leader=1)
    await drive.sim.sleep(2_000)
    await drive.stop(2)
    await drive.restart(2)

    await tell(drive, 2, order(ORDERS, 9, 1))

    assert drive.replica(2, "orders").high_watermark == 2
    assert values_on(drive, 2, ORDERS) == [b"a", b"b"]


# --- the same leader ------------------------------------------------------------------------------


@pytest.mark.behaviour("B139")
@pytest.mark.parametrize("epoch", [1, 5], ids=["the next epoch", "a later epoch"])
@pytest.mark.parametrize("first", [1, 2], ids=["leader first", "follower first"])
async def test_a_follower_goes_on_at_the_same_leader_under_its_new_epoch(drive, epoch, first):
    for each in (1, 2):
        await tell(drive, each, order(ORDERS, 1, 0))
    await produce(drive, ORDERS, b"a", leader=1)
    await drive.sim.sleep(1_000)
    drive.forget()

    for each in (first, 3 - first):
        await tell(drive, each, order(ORDERS, 1, epoch))
        await drive.sim.sleep(700)  # meanwhile the two mean different epochs
    await produce(drive, ORDERS, b"b", leader=1)
    await drive.sim.sleep(2_000)

    assert values_on(drive, 2, ORDERS) == [b"a", b"b"]
    assert drive.replica(2, "orders").log.epochs.entries == ((0, 0), (epoch, 1))
    assert drive.fetches(source=2, to=1)[-1] == ("orders", epoch)
