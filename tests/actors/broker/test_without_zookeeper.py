"""A broker that ZooKeeper does not answer goes on with all that it need not ask for."""

import asyncio

import pytest

from runtime.keeper import KeeperUnreachable
from tests.support.data import fetch, produce, values_in, values_on
from tests.support.drive import Drive
from tests.support.orders import leader_and_isr, order, stop, stop_replica
from wire.admin_znodes import LogDirEventNotificationZNode
from wire.control import LeaderAndIsrResponse, StopReplicaResponse
from wire.errors import ErrorCode
from wire.ids import TopicPartition
from wire.trace import ActorCrashed

ORDERS = TopicPartition("orders", 0)
SALES = TopicPartition("sales", 0)


@pytest.fixture
async def drive(sim):
    """Broker 2 leads orders, alone in sync."""
    drive = await Drive.start(sim)
    await ask(drive, 2, order(ORDERS, 2, 0, isr=(2,)))
    drive.forget()
    return drive


async def ask(drive, to: int, *orders, **fields) -> LeaderAndIsrResponse:
    return await drive.ask(to, leader_and_isr(*orders, **fields), LeaderAndIsrResponse)


async def begin_to_ask(drive, *orders, **fields) -> asyncio.Task:
    """Send orders that are not answered while broker 2 cannot reach ZooKeeper."""
    task = asyncio.ensure_future(ask(drive, 2, *orders, **fields))
    await drive.sim.sleep(100)
    assert not task.done()
    return task


async def is_served(drive) -> bool:
    """Whether records go into orders, and come out."""
    written = await produce(drive, ORDERS, b"a", acks=-1, leader=2)
    read = await fetch(drive, ORDERS, written.base_offset, leader=2)
    return written.error_code is ErrorCode.NONE and values_in(read.records) == [b"a"]


def fail_reads(drive, broker: int, monkeypatch) -> None:
    """Let ZooKeeper refuse what this broker reads."""

    async def read(paths):
        raise KeeperUnreachable("on purpose")

    monkeypatch.setattr(drive.node(broker).world.keeper, "read", read)


async def test_a_new_topic_waits_for_its_configuration_and_nobody_else_does(drive):
    drive.sim.cut("broker-2", "zookeeper")
    waiting = await begin_to_ask(drive, order(SALES, 2, 0, isr=(2,)))
    assert await is_served(drive)
    assert drive.replica(2, "sales") is None

    drive.sim.heal()
    await drive.sim.sleep(2_000)

    assert [each.error_code for each in waiting.result().partitions] == [ErrorCode.NONE]
    assert (await produce(drive, SALES, b"b", leader=2)).error_code is ErrorCode.NONE


async def test_an_order_that_waited_is_refused_if_a_newer_controller_has_spoken_since(drive):
    drive.sim.cut("broker-2", "zookeeper")
    waiting = await begin_to_ask(drive, order(SALES, 2, 0))
    newer = stop_replica(stop(ORDERS, 0), controller_epoch=2)
    await drive.ask(2, newer, StopReplicaResponse)

    drive.sim.heal()
    await drive.sim.sleep(2_000)

    assert waiting.result().error_code is ErrorCode.STALE_CONTROLLER_EPOCH
    assert drive.replica(2, "sales") is None


async def test_a_disk_that_fails_keeps_nobody_waiting_who_is_on_another(drive):
    await ask(drive, 2, order(SALES, 2, 0, isr=(2,)))
    drive.sim.cut("broker-2", "zookeeper")
    notes = len(drive.tree.children(LogDirEventNotificationZNode.folder))

    asyncio.ensure_future(drive.fail_disk(2, SALES))  # noqa: RUF006 - it waits for quiet
    await drive.sim.sleep(100)
    assert drive.replica(2, "sales") is None
    assert await is_served(drive)
    assert len(drive.tree.children(LogDirEventNotificationZNode.folder)) == notes

    told = []
    drive.sim.heal()
    for _ in range(200):
        await drive.sim.sleep(10)
        told += [each for each in drive.transactions if each.node == "broker-2"]
    assert any("/log_dir_event_notification" in str(each.operations) for each in told)


async def test_a_follower_whose_configuration_cannot_be_read_appends_once_it_can(
    drive, monkeypatch
):
    await ask(drive, 1, order(SALES, 1, 0))
    await produce(drive, SALES, b"a", b"b", leader=1)
    with monkeypatch.context() as broken:
        fail_reads(drive, 2, broken)
        response = await ask(drive, 2, order(SALES, 1, 0))
        await drive.sim.sleep(3_000)
        assert [each.error_code for each in response.partitions] == [ErrorCode.NONE]
        assert drive.replica(2, "sales").log is None

    await drive.sim.sleep(4_000)

    assert values_on(drive, 2, SALES) == [b"a", b"b"]
    assert drive.of(ActorCrashed) == []


async def test_a_leader_whose_configuration_cannot_be_read_takes_records_once_it_can(
    drive, monkeypatch
):
    with monkeypatch.context() as broken:
        fail_reads(drive, 2, broken)
        await ask(drive, 2, order(SALES, 2, 0, isr=(2,)))
        code = (await produce(drive, SALES, b"a", leader=2)).error_code
        assert code is ErrorCode.NOT_LEADER_OR_FOLLOWER

    await drive.sim.sleep(3_000)

    assert (await produce(drive, SALES, b"a", leader=2)).error_code is ErrorCode.NONE


@pytest.mark.behaviour("B116")
async def test_a_changed_isr_is_told_when_zookeeper_is_back_and_nobody_waits_for_that(drive):
    books = await drive.create("books", [2, 3])
    drive.shrink(3, books)
    await drive.sim.sleep(1_000)
    drive.sim.cut("broker-2", "zookeeper")
    await drive.sim.sleep(4_500)  # it is time to tell the controller
    assert await is_served(drive)
    assert drive.context.leaderships[books].isr == (2, 3)

    drive.sim.heal()
    await drive.sim.sleep(5_000)

    assert drive.context.leaderships[books].isr == (2,)


@pytest.mark.behaviour("B116")
async def test_an_isr_that_changes_while_it_is_being_told_is_told_again(drive, monkeypatch):
    books = await drive.create("books", [2, 3, 1])
    keeper = drive.node(2).world.keeper
    create, notes = keeper.create, []

    async def create_slowly(*arguments, **options):
        notes.append(drive.state("books").isr)
        await drive.sim.sleep(1_000)
        return await create(*arguments, **options)

    monkeypatch.setattr(keeper, "create", create_slowly)
    drive.shrink(3, books)
    await drive.sim.until(lambda: bool(notes))
    drive.shrink(1, books)
    await drive.sim.sleep(15_000)

    assert notes == [(2, 1), (2,)]
