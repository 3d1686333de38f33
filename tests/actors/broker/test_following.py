"""Following a leader, and who may be fetched from: B138, B144."""

import pytest

from runtime.network import Endpoint
from tests.support.drive import Drive
from tests.support.orders import (
    broker,
    leader_and_isr,
    news,
    order,
    stop,
    stop_replica,
    update_metadata,
)
from wire.codec import encode
from wire.control import LeaderAndIsrResponse, StopReplicaResponse, UpdateMetadataResponse
from wire.data import Fetch, FetchPartition, FetchResponse, FetchResult
from wire.errors import ErrorCode
from wire.ids import TopicPartition
from wire.trace import FrameRefused

ORDERS = TopicPartition("orders", 0)
SALES = TopicPartition("sales", 0)


@pytest.fixture
async def drive(sim):
    drive = await Drive.start(sim)
    drive.forget()
    return drive


async def tell(drive, to: int, *orders, **fields) -> None:
    response = await drive.ask(to, leader_and_isr(*orders, **fields), LeaderAndIsrResponse)
    assert {each.error_code for each in response.partitions} == {ErrorCode.NONE}


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


class Leader:
    """Broker 9: it answers followers as it is told."""

    def __init__(self, drive) -> None:
        self.asked = []
        network = drive.sim.network
        self._endpoint = Endpoint("broker-9", network, drive.sim.trace.at("broker-9"))
        self._endpoint.serve(self)
        self._drive = drive

    def tell(self, incoming) -> None:
        self.asked.append(incoming)

    async def answer(self, *codes: ErrorCode, partitions=(ORDERS, SALES)) -> None:
        results = tuple(
            FetchResult(partition=each, error_code=code)
            for each, code in zip(partitions, codes, strict=False)
        )
        await self.answer_bytes(encode(FetchResponse(partitions=results)))

    async def answer_bytes(self, payload: bytes) -> None:
        self.asked.pop(0).reply(payload)
        await self._drive.sim.sleep(100)

    def fetches(self):
        return self._drive.fetches(source=2, to=9)


@pytest.fixture
async def leader(drive):
    """A leader by hand, whom broker 2 follows in two partitions."""
    leader = Leader(drive)
    orders = order(ORDERS, 9, 4, replicas=(9, 2)), order(SALES, 9, 4, replicas=(9, 2))
    await tell(drive, 2, *orders, live=(9,))
    await drive.sim.sleep(10)
    assert leader.fetches() == [("orders", 4), ("sales", 4)]
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
    await tell(drive, 2, order(ORDERS, 9, 0, replicas=(9, 2)), live=(9,))
    await drive.sim.sleep(100)

    assert drive.fetches(source=2, to=9) == [("orders", 0)]


@pytest.mark.behaviour("B138")
async def test_a_follower_fetches_if_the_metadata_has_the_leaders_endpoint(drive):
    update = update_metadata(brokers=[broker(2), broker(9)])
    await drive.ask(2, update, UpdateMetadataResponse)

    await tell(drive, 2, order(ORDERS, 9, 0, replicas=(9, 2)))
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


async def test_one_fetch_is_under_way_at_a_time(drive, leader):
    await tell(drive, 2, order(SALES, 9, 5, replicas=(9, 2)), live=(9,))
    await drive.sim.sleep(5_000)
    assert leader.fetches() == []

    await leader.answer(ErrorCode.NONE, ErrorCode.FENCED_LEADER_EPOCH)

    assert leader.fetches() == [("sales", 5)]  # the answer was to its former epoch (B153)


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ],
)
async def test_what_the_leader_does_not_have_yet_is_asked_for_again_after_a_second(
    drive, leader, code
):
    await leader.answer(ErrorCode.NONE, code)
    await drive.sim.sleep(800)
    assert leader.fetches() == []

    await drive.sim.sleep(200)

    assert leader.fetches() == [("sales", 4)]


async def test_what_the_leader_fences_is_given_up_until_the_next_order(drive, leader):
    await leader.answer(ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NONE)
    await drive.settle()
    assert leader.fetches() == []

    await tell(drive, 2, order(ORDERS, 9, 5, replicas=(9, 2)), live=(9,))
    await drive.sim.sleep(100)

    assert leader.fetches() == [("orders", 5)]


async def test_an_answer_that_is_none_is_traced_and_asked_for_again(drive, leader):
    await leader.answer_bytes(b"no message")
    await drive.sim.sleep(1_000)

    assert [event.source for event in drive.of(FrameRefused)] == ["broker-9"]
    assert leader.fetches() == [("orders", 4), ("sales", 4)]


async def test_a_partition_that_the_leader_left_out_is_asked_for_again(drive, leader):
    await leader.answer(ErrorCode.NONE, partitions=(ORDERS,))
    await drive.sim.sleep(1_000)

    assert leader.fetches() == [("sales", 4)]


async def test_an_answer_about_a_partition_that_was_stopped_meanwhile_is_ignored(drive, leader):
    await drive.ask(2, stop_replica(stop(ORDERS, 4)), StopReplicaResponse)

    await leader.answer(ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE)
    await drive.settle()

    assert leader.fetches() == []


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
