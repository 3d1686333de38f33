"""Following a leader, and who may be fetched from: B138, B144, B146, B152, B153."""

import pytest

from tests.support.data import values_on
from tests.support.drive import Drive
from tests.support.leader import (
    HANDS,
    ORDERS,
    SALES,
    Leader,
    batch_at,
    fetched,
    follow,
    found,
    named,
    next_names,
    refused,
    tell,
)
from tests.support.orders import broker, news, order, stop, stop_replica, update_metadata
from wire.control import StopReplicaResponse, UpdateMetadataResponse
from wire.data import (
    Fetch,
    FetchPartition,
    FetchResponse,
    FetchResult,
)
from wire.errors import ErrorCode
from wire.ids import TopicPartition
from wire.trace import FollowerFailed, FrameRefused


@pytest.fixture
async def drive(sim):
    drive = await Drive.start(sim)
    drive.forget()
    return drive


async def fetch(drive, to: int, partition: TopicPartition = ORDERS, epoch: int = -1, by: int = -1):
    """Fetch as a client, or as the follower `by`; the one result."""
    part = FetchPartition(
        partition=partition, fetch_offset=0, max_bytes=1, current_leader_epoch=epoch
    )
    request = Fetch(replica_id=by, max_wait_ms=0, min_bytes=0, max_bytes=1, partitions=(part,))
    response = await drive.ask(to, request, FetchResponse)
    (result,) = response.partitions
    assert result.partition == partition
    return result


@pytest.fixture
async def leader(drive):
    """A leader by hand, whom broker 2 follows in two partitions."""
    leader = Leader(drive)
    await follow(drive, 4, ORDERS, SALES)
    assert named(await leader.heard(Fetch)) == [("orders", 4, 0), ("sales", 4, 0)]
    drive.forget()
    return leader


# --- becoming a follower -------------------------------------------------------------------------


@pytest.mark.behaviour("B138")
async def test_a_new_follower_forgets_the_isr(drive):
    await tell(drive, 2, order(ORDERS, 2, 0, isr=(2, 3)))
    assert drive.hosted(2, "orders").isr == (2, 3)

    await tell(drive, 2, order(ORDERS, 3, 1, isr=(3,)))

    follower = drive.hosted(2, "orders")
    assert (follower.is_leader, follower.isr, follower.leader_epoch) == (False, (), 1)


@pytest.mark.behaviour("B138")
async def test_a_new_follower_leaves_its_former_leader_for_the_next(drive):
    await tell(drive, 2, order(ORDERS, 1, 0))
    await drive.sim.sleep(100)

    await tell(drive, 2, order(ORDERS, 3, 1))
    drive.forget()
    await drive.sim.sleep(3_500)

    assert drive.fetches(source=2, to=1) == []
    assert set(drive.fetches(source=2, to=3)) == {("orders", 1)}


@pytest.mark.behaviour("B138")
async def test_a_follower_fetches_if_the_order_names_the_leaders_endpoint(drive):
    await tell(drive, 2, order(ORDERS, HANDS, 0, replicas=(HANDS, 2)), live=(9,))
    await drive.sim.sleep(100)

    assert drive.fetches(source=2, to=9) == [("orders", 0)]


@pytest.mark.behaviour("B138")
async def test_a_follower_fetches_if_the_metadata_has_the_leaders_endpoint(drive):
    update = update_metadata(brokers=[broker(2), broker(9)])
    await drive.ask(2, update, UpdateMetadataResponse)

    await tell(drive, 2, order(ORDERS, HANDS, 0, replicas=(HANDS, 2)))
    await drive.sim.sleep(100)

    assert drive.fetches(source=2, to=9) == [("orders", 0)]


@pytest.mark.behaviour("B138")
@pytest.mark.parametrize("unreachable", [9, -1], ids=["not known", "nobody"])
async def test_a_follower_of_a_leader_that_is_not_known_waits_for_the_next_order(
    drive, unreachable
):
    await tell(drive, 2, order(ORDERS, unreachable, 0))
    await drive.settle()
    assert drive.hosted(2, "orders").leader == unreachable
    assert drive.sent(Fetch) == []

    await tell(drive, 2, order(ORDERS, 3, 1))
    await drive.sim.sleep(100)

    assert drive.fetches(source=2, to=3) == [("orders", 1)]


@pytest.mark.behaviour("B138")
async def test_a_follower_whose_new_leader_is_not_known_stops_fetching_from_the_former(drive):
    await tell(drive, 2, order(ORDERS, 3, 0))
    await drive.sim.sleep(100)

    await tell(drive, 2, order(ORDERS, 9, 1))
    drive.forget()
    await drive.settle()

    assert drive.sent(Fetch) == []


# --- fetching ------------------------------------------------------------------------------------


@pytest.mark.behaviour("B145", "B153")
async def test_one_fetch_is_under_way_at_a_time(drive, leader):
    await follow(drive, 5, SALES)
    await drive.sim.sleep(5_000)
    assert len(leader.asked) == 1

    await leader.answer(fetched(refused(SALES, ErrorCode.FENCED_LEADER_EPOCH)))

    assert await next_names(leader) == [("sales", 5, 0)]  # that was about its former epoch


@pytest.mark.behaviour("B146", "B152")
@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.KAFKA_STORAGE_ERROR,
    ],
)
async def test_what_the_leader_does_not_have_yet_is_asked_for_again_after_a_second(
    drive, leader, code
):
    await leader.answer(fetched(found(ORDERS, batch_at(0, 4, b"a")), refused(SALES, code)))
    request = await leader.heard(Fetch)
    assert (named(request), request.forgotten) == ([("orders", 4, 1)], (SALES,))

    await drive.sim.sleep(900)
    await leader.answer(fetched())
    assert await next_names(leader) == []
    await drive.sim.sleep(100)
    await leader.answer(fetched())

    assert await next_names(leader) == [("sales", 4, 0)]


@pytest.mark.behaviour("B152")
@pytest.mark.parametrize("code", [ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.INCONSISTENT_TOPIC_ID])
async def test_what_the_leader_fences_is_given_up_until_the_next_order(drive, leader, code):
    await leader.answer(fetched(refused(ORDERS, code)))
    await drive.sim.sleep(10_000)
    request = await leader.heard(Fetch)
    assert (named(request), request.forgotten) == ([], (ORDERS,))
    assert drive.of(FollowerFailed) == [FollowerFailed("orders", 0, 4, code.name)]
    await leader.answer(fetched())
    assert await next_names(leader) == []

    await follow(drive, 5, ORDERS)
    await leader.answer(fetched())

    assert await next_names(leader) == [("orders", 5, 0)]


@pytest.mark.behaviour("B153")
async def test_records_that_were_asked_for_in_a_former_epoch_are_not_taken(drive, leader):
    await follow(drive, 5, ORDERS)

    await leader.answer(fetched(found(ORDERS, batch_at(0, 4, b"late"), high_watermark=1)))

    assert values_on(drive, 2, ORDERS) == []
    assert await next_names(leader) == [("orders", 5, 0)]


@pytest.mark.behaviour("B153")
async def test_records_for_another_place_than_the_logs_end_are_not_taken(drive, leader):
    """Stopped and followed again in the same epoch; meanwhile somebody wrote to the log."""
    drive.replica(2, "orders").opened().append_as_follower(batch_at(0, 3, b"other"), 1)
    await drive.ask(2, stop_replica(stop(ORDERS, 4)), StopReplicaResponse)
    await follow(drive, 4, ORDERS)

    await leader.answer(fetched(found(ORDERS, batch_at(0, 4, b"late"), high_watermark=1)))

    assert values_on(drive, 2, ORDERS) == [b"other"]
    assert await next_names(leader) == [("orders", 4, 1)]


@pytest.mark.parametrize("stranger", [b"no message", b""])
async def test_an_answer_that_is_none_is_traced_and_all_is_asked_for_again(drive, leader, stranger):
    await leader.answer(stranger)
    assert leader.asked == []
    await drive.sim.sleep(1_000)

    assert [event.source for event in drive.of(FrameRefused)] == ["broker-9"]
    assert await next_names(leader) == [("orders", 4, 0), ("sales", 4, 0)]


@pytest.mark.behaviour("B146")
async def test_a_leader_that_refuses_the_whole_fetch_is_asked_again_after_a_second(drive, leader):
    await leader.answer(FetchResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR))
    await drive.sim.sleep(900)
    assert leader.asked == []
    await drive.sim.sleep(100)

    assert await next_names(leader) == [("orders", 4, 0), ("sales", 4, 0)]


@pytest.mark.behaviour("B146")
async def test_a_leader_that_does_not_answer_is_asked_again_after_its_time_and_a_second(
    drive, leader
):
    leader.asked.clear()
    await drive.sim.sleep(30_900)  # replica.socket.timeout.ms, and the most of a second
    assert leader.asked == []
    await drive.sim.sleep(100)

    assert await next_names(leader) == [("orders", 4, 0), ("sales", 4, 0)]


async def test_an_answer_about_a_partition_that_was_stopped_meanwhile_is_ignored(drive, leader):
    await drive.ask(2, stop_replica(stop(ORDERS, 4)), StopReplicaResponse)

    await leader.answer(fetched(refused(ORDERS, ErrorCode.NOT_LEADER_OR_FOLLOWER)))
    await drive.sim.sleep(2_000)

    request = await leader.heard(Fetch)
    assert (named(request), request.forgotten) == ([], (ORDERS,))


# --- being fetched from --------------------------------------------------------------------------


@pytest.mark.behaviour("B144")
async def test_the_leader_answers_a_fetch_of_its_epoch_or_of_none(drive):
    await tell(drive, 2, order(ORDERS, 2, 5))

    assert (await fetch(drive, 2)).error_code is ErrorCode.NONE
    assert (await fetch(drive, 2, epoch=5)).error_code is ErrorCode.NONE


@pytest.mark.behaviour("B144")
async def test_who_does_not_lead_a_partition_refuses_to_be_fetched_from(drive):
    await tell(drive, 2, order(ORDERS, 1, 5))

    for by in (-1, 3):
        result = await fetch(drive, 2, epoch=5, by=by)
        assert result == FetchResult(partition=ORDERS, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)


@pytest.mark.behaviour("B144")
async def test_a_partition_that_is_elsewhere_is_told_from_one_that_is_nowhere(drive):
    await drive.ask(2, update_metadata(news(ORDERS, 1)), UpdateMetadataResponse)

    elsewhere, nowhere = await fetch(drive, 2, ORDERS), await fetch(drive, 2, SALES)

    assert elsewhere.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert nowhere.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.behaviour("B144")
@pytest.mark.parametrize("role", [1, 2], ids=["follower", "leader"])
async def test_a_fetch_of_another_leader_epoch_is_refused(drive, role):
    await tell(drive, 2, order(ORDERS, role, 5))

    older, newer = await fetch(drive, 2, epoch=4), await fetch(drive, 2, epoch=6)

    assert older.error_code is ErrorCode.FENCED_LEADER_EPOCH
    assert newer.error_code is ErrorCode.UNKNOWN_LEADER_EPOCH


async def test_a_stranger_to_the_partition_may_not_fetch_as_a_follower(drive):
    await tell(drive, 2, order(ORDERS, 2, 5, replicas=(1, 2), isr=(1, 2)))

    assert (await fetch(drive, 2, by=1)).error_code is ErrorCode.NONE
    assert (await fetch(drive, 2, by=3)).error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
