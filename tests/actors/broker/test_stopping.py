"""What becomes of the log of a replica that is stopped, deleted or on a bad disk: B140, B141."""

import asyncio

import pytest

from actors.broker.log.checkpoints import (
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    read_offsets,
)
from actors.broker.log.folders import is_to_be_deleted
from tests.support.data import fetch, produce, values_on
from tests.support.drive import Drive
from tests.support.orders import leader_and_isr, news, order, stop, stop_replica, update_metadata
from wire.control import LeaderAndIsrResponse, StopReplicaResponse, UpdateMetadataResponse
from wire.errors import ErrorCode
from wire.ids import TopicPartition
from wire.trace import LogDirWentOffline

ORDERS = TopicPartition("orders", 0)
SALES = TopicPartition("sales", 0)
OK = ErrorCode.NONE
STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR
LONG_MS = 60_000


@pytest.fixture
async def drive(sim):
    """Three brokers without topics: all that they hear of one is said here."""
    drive = await Drive.start(sim)
    drive.forget()
    return drive


async def tell(drive, to: int, *orders) -> list[ErrorCode]:
    response = await drive.ask(to, leader_and_isr(*orders), LeaderAndIsrResponse)
    return [each.error_code for each in response.partitions]


async def tell_stop(drive, to: int, *stops) -> list[ErrorCode]:
    response = await drive.ask(to, stop_replica(*stops), StopReplicaResponse)
    return [each.error_code for each in response.partitions]


async def lead(drive, *partitions: TopicPartition, epoch: int = 0) -> None:
    """Let broker 2 lead these alone, and give each two records."""
    await tell(drive, 2, *(order(each, 2, epoch, isr=(2,)) for each in partitions))
    for each in partitions:
        await produce(drive, each, b"a", b"b", leader=2)


def disk(drive, broker: int = 2):
    return drive.node(broker).world.disk


def folders(drive, broker: int = 2) -> list[str]:
    """The folders of logs, and `<partition>…` for those that were deleted."""
    names = [each for each in disk(drive, broker).list() if disk(drive, broker).is_directory(each)]
    return [f"{each.split('.')[0]}…" if is_to_be_deleted(each) else each for each in names]


def noted(drive, file: str, broker: int = 2) -> set[TopicPartition]:
    return set(read_offsets(disk(drive, broker), file))


# --- moved away, and nobody says so ---------------------------------------------------------------


async def hear(drive, to: int, *entries, **fields) -> None:
    request = update_metadata(*entries, **fields)
    response = await drive.ask(to, request, UpdateMetadataResponse)
    assert response.error_code is OK


@pytest.mark.behaviour("B141", "B142", "L-8")
async def test_who_was_moved_away_unheard_leads_no_more_once_metadata_says_so(drive):
    """Its broker had no session then; what is wanted of it was never sent (seed 8502)."""
    await lead(drive, ORDERS)

    await hear(drive, 2, news(ORDERS, 1, 1, replicas=(1, 3), isr=(1, 3)))

    assert drive.replica(2, "orders") is None
    assert folders(drive) == ["orders-0"]  # as long as nobody says that it is to be deleted
    refused = await produce(drive, ORDERS, b"c", leader=2)
    assert refused.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.behaviour("B141", "B142", "L-8")
async def test_who_was_moved_away_unheard_follows_no_more(drive):
    await tell(drive, 1, order(ORDERS, 1, 0))
    await tell(drive, 2, order(ORDERS, 1, 0))

    await hear(drive, 2, news(ORDERS, 1, 1, replicas=(1, 3), isr=(1, 3)))

    assert drive.replica(2, "orders") is None


@pytest.mark.behaviour("B141", "B142")
@pytest.mark.parametrize(
    "said",
    [
        {"epoch": 1},  # it is assigned: a LeaderAndIsr says what it shall be
        {"epoch": 0, "replicas": (1, 3)},  # as old as what it was told
    ],
)
async def test_metadata_stops_nobody_who_is_assigned_or_knows_better(drive, said):
    await lead(drive, ORDERS)

    await hear(drive, 2, news(ORDERS, 1, said.pop("epoch"), **said))

    assert drive.replica(2, "orders").is_leader


@pytest.mark.behaviour("B142", "I-15")
async def test_metadata_of_a_namesake_stops_the_replica_of_a_topic_that_is_gone(drive):
    """The epochs of two topics are not compared."""
    former, other = (("orders", "A" * 22),), (("orders", "B" * 22),)
    request = leader_and_isr(order(ORDERS, 2, 5, isr=(2,)), topic_ids=former)
    await drive.ask(2, request, LeaderAndIsrResponse)
    moved = news(ORDERS, 1, 0, replicas=(1, 3))

    await hear(drive, 2, moved, topic_ids=former)
    await hear(drive, 2, moved)
    assert drive.replica(2, "orders").is_leader
    await hear(drive, 2, moved, topic_ids=other)

    assert drive.replica(2, "orders") is None


@pytest.mark.behaviour("L-8")
async def test_a_process_that_lives_on_in_another_session_leads_nothing_that_was_moved_away(sim):
    drive = await Drive.start(sim)
    orders = await drive.create("orders", [2, 3])
    await produce(drive, orders, b"committed", acks=-1)
    sim.cut("broker-2", "zookeeper")
    await drive.sim.sleep(LONG_MS)
    assert drive.state("orders").leader == 3
    assert drive.replica(2, "orders").is_leader  # it has heard of nothing

    await drive.reassign({orders: [3, 1]})
    await drive.settle()
    sim.heal()
    await drive.settle()

    assert drive.state("orders").isr == (3, 1)
    assert drive.replica(2, "orders") is None


# --- stopped --------------------------------------------------------------------------------------


@pytest.mark.behaviour("B141")
async def test_a_replica_that_is_only_stopped_keeps_its_log_and_its_high_watermark(drive):
    await lead(drive, ORDERS)

    assert await tell_stop(drive, 2, stop(ORDERS, 0)) == [OK]
    await drive.sim.sleep(10 * LONG_MS)
    assert drive.replica(2, "orders") is None
    assert folders(drive) == ["orders-0"]
    assert await tell(drive, 2, order(ORDERS, 2, 1)) == [OK]

    assert drive.replica(2, "orders").high_watermark == 2
    assert values_on(drive, 2, ORDERS) == [b"a", b"b"]


@pytest.mark.behaviour("B141")
async def test_a_stopped_replica_is_still_there_after_a_restart(drive):
    await lead(drive, ORDERS)
    await drive.sim.sleep(6_000)  # its high watermark is noted
    await tell_stop(drive, 2, stop(ORDERS, 0))

    await drive.stop(2)
    await drive.restart(2)
    await tell(drive, 2, order(ORDERS, 2, 1))

    assert drive.replica(2, "orders").high_watermark == 2
    assert values_on(drive, 2, ORDERS) == [b"a", b"b"]


@pytest.mark.behaviour("B141")
async def test_whoever_waits_at_a_replica_that_is_stopped_is_told(drive):
    await drive.ask(2, update_metadata(news(ORDERS, 2)), UpdateMetadataResponse)
    await tell(drive, 2, order(ORDERS, 2, 0))
    waiting = [
        asyncio.ensure_future(produce(drive, ORDERS, b"a", acks=-1, leader=2)),
        asyncio.ensure_future(fetch(drive, ORDERS, leader=2, max_wait_ms=LONG_MS)),
    ]
    await drive.sim.sleep(1_000)
    assert not any(each.done() for each in waiting)

    await tell_stop(drive, 2, stop(ORDERS, 0, delete=True))
    await drive.sim.sleep(10)

    codes = [each.result().error_code for each in waiting]
    assert codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2


@pytest.mark.behaviour("B141")
async def test_a_follower_that_is_deleted_fetches_no_more_and_has_no_fetcher(drive):
    await tell(drive, 1, order(ORDERS, 1, 0))
    await tell(drive, 2, order(ORDERS, 1, 0))
    await produce(drive, ORDERS, b"a", leader=1)
    await drive.sim.sleep(1_000)
    assert values_on(drive, 2, ORDERS) == [b"a"]

    await tell_stop(drive, 2, stop(ORDERS, 0, delete=True))
    drive.forget()
    await produce(drive, ORDERS, b"b", leader=1)
    await drive.sim.sleep(5_000)

    assert [each for each in drive.fetched if each.source == "broker-2"] == []
    assert drive.node(2).system.lookup("fetcher-0-1") is None
    assert folders(drive) == ["orders-0…"]


# --- deleted --------------------------------------------------------------------------------------


@pytest.mark.behaviour("B141")
async def test_a_deleted_log_is_renamed_at_once_and_removed_after_the_delay(drive):
    await lead(drive, ORDERS, SALES)
    await drive.sim.sleep(1.5 * LONG_MS)

    assert await tell_stop(drive, 2, stop(ORDERS, 0, delete=True)) == [OK]

    assert folders(drive) == ["orders-0…", "sales-0"]
    await drive.sim.sleep(LONG_MS - 1_000)  # file.delete.delay.ms is a minute
    assert folders(drive) == ["orders-0…", "sales-0"]
    await drive.sim.sleep(LONG_MS + 2_000)  # and it is looked for every minute
    assert folders(drive) == ["sales-0"]
    assert values_on(drive, 2, SALES) == [b"a", b"b"]


@pytest.mark.behaviour("B141")
async def test_the_delay_is_the_topics_own(drive):
    await drive.configure("topics", "orders", file_delete_delay_ms="180000")
    await lead(drive, ORDERS)
    await tell_stop(drive, 2, stop(ORDERS, 0, delete=True))

    await drive.sim.sleep(179_000)
    assert folders(drive) == ["orders-0…"]
    await drive.sim.sleep(LONG_MS + 2_000)

    assert folders(drive) == []


@pytest.mark.behaviour("B141")
async def test_the_name_of_a_deleted_log_is_free_at_once(drive):
    await lead(drive, ORDERS)
    await tell_stop(drive, 2, stop(ORDERS, 0, delete=True))

    await tell(drive, 2, order(ORDERS, 2, 0, isr=(2,), is_new=True))
    written = await produce(drive, ORDERS, b"new", leader=2)

    assert written.base_offset == 0
    assert values_on(drive, 2, ORDERS) == [b"new"]
    assert folders(drive) == ["orders-0", "orders-0…"]
    await drive.sim.sleep(3 * LONG_MS)
    assert folders(drive) == ["orders-0"]
    assert values_on(drive, 2, ORDERS) == [b"new"]


@pytest.mark.behaviour("B141")
async def test_nothing_is_noted_of_a_deleted_log(drive):
    await lead(drive, ORDERS, SALES)
    await drive.sim.sleep(2 * LONG_MS)
    assert noted(drive, HIGH_WATERMARKS) == noted(drive, RECOVERY_POINTS) == {ORDERS, SALES}

    await tell_stop(drive, 2, stop(ORDERS, 0, delete=True))

    for file in (HIGH_WATERMARKS, RECOVERY_POINTS, LOG_START_OFFSETS):
        assert ORDERS not in noted(drive, file)
    await drive.sim.sleep(2 * LONG_MS)
    assert noted(drive, HIGH_WATERMARKS) == noted(drive, RECOVERY_POINTS) == {SALES}


@pytest.mark.behaviour("B141")
async def test_a_delete_of_the_past_leaves_the_log_alone(drive):
    await lead(drive, ORDERS, epoch=5)

    codes = await tell_stop(drive, 2, stop(ORDERS, 4, delete=True))

    assert codes == [ErrorCode.FENCED_LEADER_EPOCH]
    assert drive.replica(2, "orders").is_leader
    assert values_on(drive, 2, ORDERS) == [b"a", b"b"]
    assert folders(drive) == ["orders-0"]


@pytest.mark.behaviour("B141")
async def test_a_replica_that_was_stopped_before_is_deleted_by_the_next_request(drive):
    await lead(drive, ORDERS)
    await tell_stop(drive, 2, stop(ORDERS, 0))

    assert await tell_stop(drive, 2, stop(ORDERS, 0, delete=True)) == [OK]
    assert folders(drive) == ["orders-0…"]
    await tell(drive, 2, order(ORDERS, 2, 0, is_new=True))

    assert drive.replica(2, "orders").log_end_offset == 0


@pytest.mark.behaviour("B098", "B141")
@pytest.mark.parametrize("delete", [True, False], ids=["delete", "stop"])
async def test_a_log_of_which_a_broker_knows_nothing_but_its_files_is_deleted_too(drive, delete):
    await lead(drive, ORDERS)
    await drive.stop(2)
    await drive.restart(2)
    assert drive.replica(2, "orders") is None
    assert folders(drive) == ["orders-0"]

    assert await tell_stop(drive, 2, stop(ORDERS, 0, delete=delete)) == [OK]

    assert folders(drive) == (["orders-0…"] if delete else ["orders-0"])


@pytest.mark.behaviour("B098")
async def test_a_broker_that_was_down_when_its_topic_was_deleted_has_no_log_of_it_in_the_end(drive):
    orders = await drive.create("orders", [2, 3])
    await produce(drive, orders, b"a", acks=-1)
    await drive.kill(3)
    await drive.delete("orders")
    await drive.settle()
    assert drive.exists("/brokers/topics/orders")  # it waits for broker 3

    await drive.restart(3)
    await drive.sim.sleep(3 * LONG_MS)

    assert not drive.exists("/brokers/topics/orders")
    assert folders(drive, 2) == folders(drive, 3) == []


# --- bad disks ------------------------------------------------------------------------------------


@pytest.mark.behaviour("B135", "B141")
async def test_a_disk_that_refuses_an_append_takes_no_more_orders(drive):
    await lead(drive, ORDERS)
    disk(drive).fail()

    code = (await produce(drive, ORDERS, b"c", leader=2)).error_code
    await drive.settle()
    codes = await tell(
        drive, 2, order(ORDERS, 2, 1), order(SALES, 2, 0), order(SALES, 2, 0, is_new=True)
    )

    assert code is STORAGE_ERROR
    assert len(drive.of(LogDirWentOffline)) == 1
    assert codes == [STORAGE_ERROR] * len(codes)
    assert await tell_stop(drive, 2, stop(ORDERS, 1, delete=True)) == [STORAGE_ERROR]
    assert drive.node(2).system.is_up
    assert drive.node(2).replica_manager.replicas == {}


@pytest.mark.behaviour("B135", "B141")
async def test_a_log_that_could_not_be_opened_takes_no_orders_and_the_others_do(drive):
    await lead(drive, ORDERS, SALES)
    await drive.stop(2)
    drive.sim._disks["broker-2"].fail("orders-0/")
    await drive.restart(2)
    drive.sim._disks["broker-2"].heal()

    codes = await tell(drive, 2, order(ORDERS, 2, 1), order(SALES, 2, 1, isr=(2,)))

    assert codes == [STORAGE_ERROR, OK]
    assert values_on(drive, 2, SALES) == [b"a", b"b"]
    assert await tell_stop(drive, 2, stop(ORDERS, 1, delete=True)) == [STORAGE_ERROR]
    assert folders(drive) == ["orders-0", "sales-0"]


@pytest.mark.behaviour("B140")
async def test_beside_a_failed_log_only_what_is_new_or_can_be_found_is_hosted(drive):
    lost, stopped, found = (TopicPartition("sales", number) for number in range(3))
    await lead(drive, found)
    await drive.stop(2)
    await drive.restart(2)
    await lead(drive, ORDERS, stopped)
    await tell_stop(drive, 2, stop(stopped, 0))
    await drive.fail_disk(2, ORDERS)

    codes = await tell(drive, 2, *(order(each, 2, 1) for each in (lost, stopped, found)))
    born = await tell(drive, 2, order(lost, 2, 1, is_new=True))

    assert codes == [STORAGE_ERROR, OK, OK]
    assert values_on(drive, 2, stopped) == values_on(drive, 2, found) == [b"a", b"b"]
    assert born == [OK]
    assert drive.replica(2, "sales", 0).log_end_offset == 0
