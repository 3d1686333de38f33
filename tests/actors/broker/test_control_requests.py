"""What a broker does with the orders of a controller: B135 to B137, B139 to B141."""

import pytest

from actors.broker.partition import HostedPartition
from actors.broker.replica_manager import LogDirFailed
from tests.support.drive import Drive
from tests.support.orders import leader_and_isr, news, order, stop, stop_replica, update_metadata
from wire.control import LeaderAndIsrResponse, StopReplicaResponse, UpdateMetadataResponse
from wire.errors import ErrorCode
from wire.ids import LEADER_EPOCH_DURING_DELETE, NO_LEADER_EPOCH, TopicPartition
from wire.message import PartitionResult
from wire.trace import ControlRequestRefused, ReplicaRoleChanged

ORDERS = TopicPartition("orders", 0)
SALES = TopicPartition("sales", 0)
ID, ANOTHER_ID = "J2yxR4FFQOK0gLYhlEcAAA", "hXLNPk2HTLK-OZZbrOPUBg"
STALE = ErrorCode.STALE_CONTROLLER_EPOCH
FENCED = ErrorCode.FENCED_LEADER_EPOCH
STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR


@pytest.fixture
async def drive(sim):
    """Three brokers without topics: all that they hear of one is said here."""
    drive = await Drive.start(sim)
    drive.forget()
    return drive


async def tell(drive, broker: int, *orders, **fields) -> list[ErrorCode]:
    """Send orders; what the broker says to each."""
    request = leader_and_isr(*orders, **fields)
    response = await drive.ask(broker, request, LeaderAndIsrResponse)
    assert response.error_code is ErrorCode.NONE
    assert [each.partition for each in response.partitions] == [each.partition for each in orders]
    return [each.error_code for each in response.partitions]


async def tell_stop(drive, broker: int, *stops) -> list[ErrorCode]:
    response = await drive.ask(broker, stop_replica(*stops), StopReplicaResponse)
    assert response.error_code is ErrorCode.NONE
    return [each.error_code for each in response.partitions]


def roles(drive) -> list[tuple[str, str, int]]:
    return [(each.topic, each.role, each.leader_epoch) for each in drive.of(ReplicaRoleChanged)]


async def break_disk(drive, broker: int, *partitions: TopicPartition) -> None:
    drive.node(broker).replica_manager.ref.tell(LogDirFailed(frozenset(partitions)))
    await drive.settle()


# --- LeaderAndIsr: which orders are taken --------------------------------------------------------


@pytest.mark.behaviour("B135")
async def test_an_order_is_taken_only_with_a_greater_leader_epoch(drive):
    assert await tell(drive, 2, order(ORDERS, 2, 5)) == [ErrorCode.NONE]
    before = drive.hosted(2, "orders")

    assert await tell(drive, 2, order(ORDERS, 2, 5, isr=(2,))) == [STALE]
    assert await tell(drive, 2, order(ORDERS, 3, 4)) == [STALE]
    assert drive.hosted(2, "orders") == before
    assert await tell(drive, 2, order(ORDERS, 2, 6, isr=(2,))) == [ErrorCode.NONE]

    assert drive.hosted(2, "orders").leader_epoch == 6
    assert drive.hosted(2, "orders").isr == (2,)
    assert roles(drive) == [("orders", "leader", 5), ("orders", "leader", 6)]


@pytest.mark.behaviour("B135")
async def test_a_partition_that_was_never_heard_of_is_at_leader_epoch_minus_1(drive):
    assert await tell(drive, 2, order(ORDERS, 2, -1)) == [STALE]
    assert drive.hosted(2, "orders") is None

    assert await tell(drive, 2, order(ORDERS, 2, 0)) == [ErrorCode.NONE]


@pytest.mark.behaviour("B135")
async def test_a_broker_that_is_no_replica_takes_no_order(drive):
    codes = await tell(drive, 2, order(ORDERS, 1, 0, replicas=(1, 3), isr=(1, 3)))

    assert codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert drive.hosted(2, "orders") is None


@pytest.mark.behaviour("B135")
@pytest.mark.parametrize(
    ("topic", "number"),
    [("x" * 250, 0), ("a/b", 0), ("../orders", 0), ("nul\0", 0), ("", 0), (".", 0), ("neg", -1)],
)
async def test_a_partition_that_no_folder_can_be_named_for_is_refused_alone(drive, topic, number):
    odd = TopicPartition(topic, number)

    codes = await tell(drive, 2, order(odd, 2, 0), order(ORDERS, 2, 0))

    assert codes == [ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.NONE]
    assert drive.hosted(2, topic, number) is None
    assert drive.hosted(2, "orders").leader == 2


@pytest.mark.behaviour("B135")
async def test_a_replica_on_a_failed_disk_takes_no_order(drive):
    await tell(drive, 2, order(ORDERS, 2, 0), order(SALES, 2, 0))
    await break_disk(drive, 2, ORDERS)

    codes = await tell(drive, 2, order(ORDERS, 2, 1, is_new=True), order(SALES, 2, 1))

    assert codes == [STORAGE_ERROR, ErrorCode.NONE]
    assert drive.hosted(2, "orders") is None
    assert drive.hosted(2, "sales").leader_epoch == 1


@pytest.mark.behaviour("B135")
async def test_an_order_for_a_namesake_of_the_topic_is_refused(drive):
    await tell(drive, 2, order(ORDERS, 2, 0), topic_ids=(("orders", ID),))

    codes = await tell(drive, 2, order(ORDERS, 2, 1), topic_ids=(("orders", ANOTHER_ID),))

    assert codes == [ErrorCode.INCONSISTENT_TOPIC_ID]
    assert drive.hosted(2, "orders").leader_epoch == 0
    assert await tell(drive, 2, order(ORDERS, 2, 1), topic_ids=(("orders", ID),)) == [
        ErrorCode.NONE
    ]
    assert await tell(drive, 2, order(ORDERS, 2, 2)) == [ErrorCode.NONE]  # of a topic without an id


@pytest.mark.behaviour("B135")
async def test_a_topic_that_was_deleted_may_come_again_with_another_id(drive):
    await tell(drive, 2, order(ORDERS, 2, 7), topic_ids=(("orders", ID),))
    await tell_stop(drive, 2, stop(ORDERS, LEADER_EPOCH_DURING_DELETE, delete=True))

    codes = await tell(drive, 2, order(ORDERS, 2, 0), topic_ids=(("orders", ANOTHER_ID),))

    assert codes == [ErrorCode.NONE]
    assert drive.hosted(2, "orders").leader_epoch == 0


@pytest.mark.behaviour("B135")
async def test_one_refused_order_does_not_keep_a_broker_from_the_others(drive):
    await tell(drive, 2, order(ORDERS, 2, 3))

    codes = await tell(drive, 2, order(ORDERS, 2, 3), order(SALES, 2, 0))

    assert codes == [STALE, ErrorCode.NONE]
    assert drive.hosted(2, "sales").is_leader


@pytest.mark.behaviour("B135", "B141")
@pytest.mark.parametrize(
    ("stale", "error"),
    [
        ({"controller_epoch": 0}, STALE),
        ({"broker_epoch": 0}, ErrorCode.STALE_BROKER_EPOCH),
    ],
)
async def test_a_request_of_the_past_is_refused_as_a_whole(drive, stale, error):
    requests = (
        (leader_and_isr(order(SALES, 2, 0), **stale), LeaderAndIsrResponse),
        (stop_replica(stop(ORDERS, NO_LEADER_EPOCH), **stale), StopReplicaResponse),
        (update_metadata(news(SALES, 2), **stale), UpdateMetadataResponse),
    )
    await tell(drive, 2, order(ORDERS, 2, 0))

    for request, expected in requests:
        assert await drive.ask(2, request, expected) == expected(error_code=error)

    assert drive.hosted(2, "orders").leader_epoch == 0
    assert drive.hosted(2, "sales") is None
    assert drive.cached(2, "sales") is None
    refused = [(each.request, each.error) for each in drive.of(ControlRequestRefused)]
    assert refused == [
        ("LeaderAndIsr", error.name),
        ("StopReplica", error.name),
        ("UpdateMetadata", error.name),
    ]


# --- LeaderAndIsr: what an order does ------------------------------------------------------------


@pytest.mark.behaviour("B136")
async def test_leaders_are_made_before_followers_whatever_the_order_of_the_request(drive):
    partitions = [TopicPartition("orders", number) for number in range(4)]
    orders = [order(each, 1 if each.partition % 2 == 0 else 2, 0) for each in partitions]

    codes = await tell(drive, 2, *orders, live=(1, 2))

    made = [(each.role, each.partition) for each in drive.of(ReplicaRoleChanged)]
    assert made == [("leader", 1), ("leader", 3), ("follower", 0), ("follower", 2)]
    assert codes == [ErrorCode.NONE] * 4


@pytest.mark.behaviour("B136")
async def test_a_fetcher_with_nothing_left_to_follow_is_stopped(drive):
    lookup = drive.node(2).system.lookup
    await tell(drive, 2, order(ORDERS, 1, 0), order(SALES, 3, 0))
    former = lookup("fetcher-0-3")
    assert former is not None

    await tell(drive, 2, order(SALES, 1, 1))

    assert lookup("fetcher-0-3") is None
    assert not former.is_alive
    assert lookup("fetcher-0-1") is not None


@pytest.mark.behaviour("B137")
async def test_a_new_leader_takes_all_from_the_order_and_stops_fetching(drive):
    await tell(drive, 2, order(ORDERS, 3, 4))  # broker 3 knows nothing of it: asked again and again
    await drive.sim.sleep(3_000)
    assert drive.fetches(source=2, to=3) == [("orders", 4)] * 3

    await tell(
        drive,
        2,
        order(
            ORDERS,
            2,
            5,
            isr=(3, 2),
            partition_epoch=17,
            replicas=(1, 3, 2),
            adding_replicas=(1,),
            removing_replicas=(3,),
        ),
    )
    drive.forget()
    await drive.sim.sleep(5_000)

    assert drive.fetches(source=2, to=3) == []
    assert drive.hosted(2, "orders") == HostedPartition(
        partition=ORDERS,
        me=2,
        leader=2,
        leader_epoch=5,
        controller_epoch=1,
        partition_epoch=17,
        isr=(3, 2),
        replicas=(1, 3, 2),
        adding=(1,),
        removing=(3,),
    )


@pytest.mark.behaviour("B139")
async def test_the_same_leader_with_the_next_epoch_is_fetched_from_anew(drive):
    # As of 2.2: until 2.0 a follower with the same leader went on in its former epoch.
    await tell(drive, 1, order(ORDERS, 1, 0))
    await tell(drive, 2, order(ORDERS, 1, 0))
    await drive.settle()

    await tell(drive, 1, order(ORDERS, 1, 1))
    await tell(drive, 2, order(ORDERS, 1, 1))
    await drive.settle()

    assert drive.fetches(source=2, to=1) == [("orders", 0), ("orders", 1)]
    assert drive.hosted(2, "orders").leader_epoch == 1
    assert roles(drive)[1::2] == [("orders", "follower", 0), ("orders", "follower", 1)]


@pytest.mark.behaviour("B140")
async def test_a_replica_that_is_not_new_is_not_made_empty_beside_a_failed_disk(drive):
    await tell(drive, 2, order(ORDERS, 2, 0))
    await break_disk(drive, 2, ORDERS)
    old, new = SALES, TopicPartition("sales", 1)

    codes = await tell(drive, 2, order(old, 2, 9), order(new, 2, 0, is_new=True))

    assert codes == [STORAGE_ERROR, ErrorCode.NONE]
    assert drive.hosted(2, "sales", 0) is None
    assert drive.hosted(2, "sales", 1).is_leader


@pytest.mark.behaviour("B140")
async def test_without_a_failed_disk_any_replica_may_be_made(drive):
    assert await tell(drive, 2, order(SALES, 2, 9)) == [ErrorCode.NONE]


# --- StopReplica ---------------------------------------------------------------------------------


@pytest.mark.behaviour("B141")
@pytest.mark.parametrize("delete", [True, False])
@pytest.mark.parametrize(
    ("epoch", "expected"),
    [
        (LEADER_EPOCH_DURING_DELETE, ErrorCode.NONE),
        (NO_LEADER_EPOCH, ErrorCode.NONE),
        (0, FENCED),
        (4, FENCED),
        (5, ErrorCode.NONE),  # as of 3.4 (KAFKA-13972); 2.8 refused the same epoch
        (6, ErrorCode.NONE),
    ],
)
async def test_a_replica_stops_unless_it_is_told_so_by_the_past(drive, epoch, expected, delete):
    await tell(drive, 2, order(ORDERS, 2, 5))

    assert await tell_stop(drive, 2, stop(ORDERS, epoch, delete=delete)) == [expected]

    assert (drive.hosted(2, "orders") is None) == (expected is ErrorCode.NONE)
    role = ("orders", "deleted" if delete else "stopped", 5)
    assert roles(drive)[1:] == ([role] if expected is ErrorCode.NONE else [])


@pytest.mark.behaviour("B141")
async def test_a_replica_on_a_failed_disk_cannot_be_stopped(drive):
    await tell(drive, 2, order(ORDERS, 2, 5))
    await break_disk(drive, 2, ORDERS)

    codes = await tell_stop(drive, 2, stop(ORDERS, LEADER_EPOCH_DURING_DELETE, delete=True))

    assert codes == [STORAGE_ERROR]


@pytest.mark.behaviour("B141")
@pytest.mark.parametrize("delete", [True, False])
async def test_to_stop_what_is_not_there_succeeds(drive, delete):
    response = await drive.ask(2, stop_replica(stop(ORDERS, 3, delete=delete)), StopReplicaResponse)

    assert response == StopReplicaResponse(partitions=(PartitionResult(ORDERS),))
    assert roles(drive) == []


@pytest.mark.behaviour("B141")
async def test_a_stopped_follower_fetches_no_more(drive):
    await tell(drive, 2, order(ORDERS, 3, 5), order(SALES, 3, 5))
    await drive.sim.sleep(100)

    await tell_stop(drive, 2, stop(ORDERS, 5))
    drive.forget()
    await drive.sim.sleep(3_500)
    assert set(drive.fetches(source=2, to=3)) == {("sales", 5)}
    await tell_stop(drive, 2, stop(SALES, 5))
    drive.forget()
    await drive.settle()

    assert drive.fetches(source=2, to=3) == []
    assert drive.node(2).system.lookup("fetcher-0-3") is None


@pytest.mark.behaviour("B141")
async def test_each_partition_of_a_stop_replica_is_judged_alone(drive):
    await tell(drive, 2, order(ORDERS, 2, 5), order(SALES, 2, 5))

    codes = await tell_stop(drive, 2, stop(ORDERS, 4), stop(SALES, 6))

    assert codes == [FENCED, ErrorCode.NONE]
    assert drive.hosted(2, "orders").leader_epoch == 5
    assert drive.hosted(2, "sales") is None
