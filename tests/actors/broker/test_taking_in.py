"""What a follower does with what its leader answers: B155 to B157."""

import pytest

from actors.broker.settings import Settings
from tests.support.data import values_on
from tests.support.drive import Drive
from tests.support.leader import (
    ORDERS,
    SALES,
    Leader,
    batch_at,
    fetched,
    follow,
    found,
    lead,
    named,
    next_names,
    refused,
)
from wire.data import (
    EARLIEST_TIMESTAMP_MS,
    LATEST_TIMESTAMP_MS,
    Fetch,
    ListOffsets,
    ListOffsetsResponse,
    ListOffsetsResult,
)
from wire.errors import ErrorCode
from wire.trace import FollowerFailed, LogDirWentOffline, LogTruncated


@pytest.fixture
async def drive(sim):
    drive = await Drive.start(sim)
    drive.forget()
    return drive


@pytest.fixture
async def leader(drive):
    """A leader by hand, whom broker 2 follows in two partitions."""
    leader = Leader(drive)
    await follow(drive, 4, ORDERS, SALES)
    assert named(await leader.heard(Fetch)) == [("orders", 4, 0), ("sales", 4, 0)]
    drive.forget()
    return leader


# --- taking in -----------------------------------------------------------------------------------


@pytest.mark.behaviour("B157")
async def test_a_follower_appends_what_comes_as_it_is_and_asks_for_what_follows(drive, leader):
    sent = batch_at(0, 2, b"a", b"b") + batch_at(2, 4, b"c")

    await leader.answer(fetched(found(ORDERS, sent, high_watermark=2)))

    replica = drive.replica(2, "orders")
    assert bytes(replica.log.read(0, 1 << 20)) == sent
    assert replica.log.epochs.entries == ((2, 0), (4, 2))
    assert await next_names(leader) == [("orders", 4, 3)]
    (part,) = (await leader.heard(Fetch)).partitions
    assert part.last_fetched_epoch == 4


@pytest.mark.behaviour("B157")
@pytest.mark.parametrize(("told", "expected"), [(0, 0), (1, 1), (2, 2), (9, 2)])
async def test_a_followers_high_watermark_is_its_leaders_within_its_own_log(
    drive, leader, told, expected
):
    await leader.answer(fetched(found(ORDERS, batch_at(0, 4, b"a", b"b"), high_watermark=told)))

    assert drive.replica(2, "orders").high_watermark == expected


@pytest.mark.behaviour("B157")
async def test_a_high_watermark_comes_without_records_too(drive, leader):
    await leader.answer(fetched(found(ORDERS, batch_at(0, 4, b"a", b"b"))))

    await leader.answer(fetched(found(ORDERS, high_watermark=2)))

    assert drive.replica(2, "orders").high_watermark == 2
    assert await next_names(leader) == []  # it stands where it stood


@pytest.mark.behaviour("B157")
async def test_a_followers_log_start_follows_its_leaders_and_the_leader_hears_of_it(drive, leader):
    sent = batch_at(0, 4, b"a") + batch_at(1, 4, b"b")
    await leader.answer(fetched(found(ORDERS, sent, high_watermark=2)))

    await leader.answer(fetched(found(ORDERS, high_watermark=2, log_start_offset=1)))

    assert drive.replica(2, "orders").log_start_offset == 1
    (part,) = (await leader.heard(Fetch)).partitions
    assert (part.fetch_offset, part.log_start_offset) == (2, 1)


@pytest.mark.behaviour("B157")
async def test_a_batch_that_was_cut_short_is_asked_for_again(drive, leader):
    whole = batch_at(0, 4, b"a")

    await leader.answer(fetched(found(ORDERS, whole + batch_at(1, 4, b"b")[:-1])))

    assert values_on(drive, 2, ORDERS) == [b"a"]
    assert await next_names(leader) == [("orders", 4, 1)]


@pytest.mark.behaviour("B156", "B157")
@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(batch_at(1, 4, b"b"), id="a gap"),
        pytest.param(
            batch_at(0, 4, b"a") + batch_at(0, 4, b"b"), id="an offset for the second time"
        ),
        pytest.param(batch_at(0, 4, b"a") + batch_at(1, 3, b"b"), id="a falling epoch"),
    ],
)
async def test_what_does_not_continue_the_log_ends_its_partition_and_no_other(drive, leader, wrong):
    await leader.answer(fetched(found(ORDERS, wrong), found(SALES, batch_at(0, 4, b"sale"))))
    await drive.sim.sleep(2_000)

    assert values_on(drive, 2, ORDERS) == []
    assert values_on(drive, 2, SALES) == [b"sale"]
    request = await leader.heard(Fetch)
    assert (named(request), request.forgotten) == ([("sales", 4, 1)], (ORDERS,))
    assert [event.topic for event in drive.of(FollowerFailed)] == ["orders"]
    await follow(drive, 5, ORDERS)
    await leader.answer(fetched())
    assert await next_names(leader) == [("orders", 5, 0)]


@pytest.mark.behaviour("B156")
async def test_a_corrupt_batch_is_fetched_again_after_a_second(drive, leader):
    corrupt = bytearray(batch_at(0, 4, b"a"))
    corrupt[-1] ^= 1
    sale = found(SALES, batch_at(0, 4, b"sale"))

    await leader.answer(fetched(found(ORDERS, bytes(corrupt)), sale))

    assert values_on(drive, 2, ORDERS) == []
    assert values_on(drive, 2, SALES) == [b"sale"]
    assert await next_names(leader) == [("sales", 4, 1)]
    await drive.sim.sleep(1_000)
    await leader.answer(fetched())
    assert await next_names(leader) == [("orders", 4, 0)]
    await leader.answer(fetched(found(ORDERS, batch_at(0, 4, b"a"))))
    assert values_on(drive, 2, ORDERS) == [b"a"]


@pytest.mark.behaviour("B156")
async def test_a_disk_that_refuses_ends_what_is_on_it_and_the_broker_lives(drive, leader):
    drive.sim._disk("broker-2").fail("orders-0")

    await leader.answer(fetched(found(ORDERS, batch_at(0, 4, b"a"))))
    await drive.sim.sleep(2_000)

    assert [event.partitions for event in drive.of(LogDirWentOffline)] == [2]
    assert drive.node(2).system.is_up
    assert leader.asked == [] or named(await leader.heard(Fetch)) == []


@pytest.mark.behaviour("B156")
async def test_records_of_a_topic_whose_configuration_is_unknown_are_fetched_again(
    drive, monkeypatch
):
    async def in_vain(self, topics):
        """As if ZooKeeper had lost the session while it was asked."""

    leader = Leader(drive)
    with monkeypatch.context() as patched:
        patched.setattr(Settings, "learn", in_vain)
        await follow(drive, 4, ORDERS)
    assert drive.replica(2, "orders").settings is None

    await leader.heard(Fetch)
    await leader.answer(fetched(found(ORDERS, batch_at(0, 4, b"a"))))
    assert drive.replica(2, "orders").log is None
    await leader.heard(Fetch, within_ms=1_100)
    await leader.answer(fetched(found(ORDERS, batch_at(0, 4, b"a"))))

    assert values_on(drive, 2, ORDERS) == [b"a"]


# --- an offset that the leader does not have -----------------------------------------------------


async def lost(drive, leader, start, end, partition=ORDERS):
    """The leader refuses the offset, and says when asked where its log starts and ends."""
    await leader.heard(Fetch)
    await leader.answer(fetched(refused(partition, ErrorCode.OFFSET_OUT_OF_RANGE)))
    request = await leader.heard(ListOffsets)
    asked = [(part.partition, part.timestamp_ms) for part in request.partitions]
    assert asked == [(partition, EARLIEST_TIMESTAMP_MS), (partition, LATEST_TIMESTAMP_MS)]
    assert request.replica_id == 2
    assert {part.current_leader_epoch for part in request.partitions} == {4}
    spans = tuple(ListOffsetsResult(partition=partition, offset=each) for each in (start, end))
    await leader.answer(ListOffsetsResponse(partitions=spans))


@pytest.fixture
async def written(drive):
    """Broker 2 has three records, of which two are committed, and follows the leader by hand."""
    leader = Leader(drive)
    await lead(drive, 0, b"a", b"b", commit=True)
    await lead(drive, 1, b"c", commit=False)
    await follow(drive, 4, ORDERS)
    assert await next_names(leader) == [("orders", 4, 3)]
    drive.forget()
    return leader


@pytest.mark.behaviour("B155")
async def test_a_follower_that_has_more_than_its_leader_cuts_its_log_there(drive, written):
    await lost(drive, written, 0, 1)

    assert values_on(drive, 2, ORDERS) == [b"a"]
    assert drive.replica(2, "orders").high_watermark == 1
    assert await next_names(written) == [("orders", 4, 1)]
    assert drive.of(LogTruncated) == [LogTruncated("orders", 0, 4, 3, 1)]


@pytest.mark.behaviour("B155")
async def test_a_follower_that_is_behind_its_leaders_start_begins_anew_there(drive, written):
    await lost(drive, written, 10, 20)

    replica = drive.replica(2, "orders")
    assert (replica.log_start_offset, replica.log_end_offset, replica.high_watermark) == (10,) * 3
    assert replica.log.epochs.entries == ()
    assert await next_names(written) == [("orders", 4, 10)]
    await written.answer(fetched(found(ORDERS, batch_at(10, 4, b"k"), log_start_offset=10)))
    assert values_on(drive, 2, ORDERS) == [b"k"]


@pytest.mark.behaviour("B155")
async def test_a_follower_whose_offset_is_there_by_now_goes_on_after_a_second(drive, written):
    await lost(drive, written, 0, 5)

    assert values_on(drive, 2, ORDERS) == [b"a", b"b", b"c"]
    assert written.asked == []  # a leader that refuses again and again is not asked all the time
    await drive.sim.sleep(1_000)
    assert await next_names(written) == [("orders", 4, 3)]


@pytest.mark.behaviour("B155")
async def test_the_first_batch_may_begin_before_the_leaders_log_start(drive, leader):
    """A DeleteRecords has cut within a batch, which the leader still has as a whole."""
    await lost(drive, leader, 11, 13)
    assert await next_names(leader) == [("orders", 4, 11)]

    sent = batch_at(10, 3, b"x", b"y") + batch_at(12, 4, b"z")
    await leader.answer(fetched(found(ORDERS, sent, high_watermark=13, log_start_offset=11)))

    replica = drive.replica(2, "orders")
    assert (replica.log_start_offset, replica.log_end_offset, replica.high_watermark) == (
        11,
        13,
        13,
    )
    assert values_on(drive, 2, ORDERS) == [b"x", b"y", b"z"]
    assert replica.log.epochs.latest_epoch == 4
    assert await next_names(leader) == [("orders", 4, 13)]


@pytest.mark.behaviour("B152", "B155")
async def test_a_leader_that_fences_the_question_ends_the_partition(drive, written):
    await written.answer(fetched(refused(ORDERS, ErrorCode.OFFSET_OUT_OF_RANGE)))
    await written.heard(ListOffsets)
    code = ErrorCode.FENCED_LEADER_EPOCH
    spans = (ListOffsetsResult(partition=ORDERS, error_code=code),) * 2
    await written.answer(ListOffsetsResponse(partitions=spans))
    await drive.sim.sleep(2_000)

    assert written.asked == []
    assert drive.of(FollowerFailed) == [FollowerFailed("orders", 0, 4, code.name)]
