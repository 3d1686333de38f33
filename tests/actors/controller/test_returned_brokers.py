"""Brokers that came back while no controller looked: they may lack what they had."""

import asyncio

import pytest

from actors.controller.context import ControllerContext
from actors.names import node_name
from runtime.network import Disconnected
from tests.support.data import produce, values_on
from tests.support.drive import Drive
from wire.control import LeaderAndIsr
from wire.ids import NO_LEADER
from wire.metadata import Metadata, MetadataResponse


@pytest.fixture
async def drive(sim) -> Drive:
    return await Drive.start(sim, 3)


async def come_back_unnoticed(drive: Drive, *brokers: int) -> None:
    """Brokers lose power and come back, then the controller dies that saw nothing of it."""
    controller = drive.controller_id
    drive.sim.pause(node_name(controller))
    for broker in brokers:
        drive.sim.lose_unsynced(node_name(broker))
        drive.vanish(broker)
        await drive.cluster.start_broker(broker)
    drive.vanish(controller)
    await drive.settle()


@pytest.mark.parametrize("is_guarded", [True, False], ids=["guarded", "as Kafka 2.8"])
async def test_a_broker_that_came_back_does_not_lead_where_another_stayed(
    drive, monkeypatch, is_guarded
):
    if not is_guarded:
        monkeypatch.setattr(ControllerContext, "note_returned", lambda *_: None)
    orders = await drive.create("orders", [1, 2, 3])
    await produce(drive, orders, b"committed", acks=-1)

    await come_back_unnoticed(drive, 2)

    assert drive.state("orders").leader == (3 if is_guarded else 2)
    assert values_on(drive, 3, orders) == ([b"committed"] if is_guarded else [])


async def test_nobody_is_told_to_follow_a_leader_that_came_back(drive):
    """Else it truncates what the leader has lost, before another is elected."""
    orders = await drive.create("orders", [2, 3, 1])
    await produce(drive, orders, b"committed", acks=-1)
    drive.forget()

    await come_back_unnoticed(drive, 2)

    decisions = [part for each in drive.sent(LeaderAndIsr) for part in each.partitions]
    assert 2 not in {each.leader for each in decisions if each.partition == orders}
    assert drive.state("orders").leader == 3
    assert [values_on(drive, each, orders) for each in (2, 3)] == [[b"committed"]] * 2


async def test_a_broker_that_came_back_is_in_sync_again_once_it_has_everything(drive):
    orders = await drive.create("orders", [1, 2, 3])
    await produce(drive, orders, b"committed", acks=-1)

    await come_back_unnoticed(drive, 2)
    await drive.restart(1)

    assert sorted(drive.state("orders").isr) == [1, 2, 3]
    assert [values_on(drive, each, orders) for each in (1, 2, 3)] == [[b"committed"]] * 3
    assert drive.context.returned == {}


async def test_where_nobody_stayed_one_that_came_back_leads(drive):
    await drive.create("orders", [1, 2, 3])

    await come_back_unnoticed(drive, 2, 3)

    assert drive.state("orders").leader == 2 != NO_LEADER
    assert drive.state("orders").isr == (2, 3)


async def test_one_whose_process_lived_on_in_another_session_stayed(drive):
    """All have registered anew, and only one of them may have lost what it had."""
    orders = await drive.create("orders", [2, 3])
    await produce(drive, orders, b"committed", acks=-1)
    drive.sim.pause(node_name(1))
    drive.sim.expire_session(node_name(3))
    await drive.sim.sleep(500)
    drive.sim.lose_unsynced(node_name(2))
    drive.vanish(2)
    await drive.cluster.start_broker(2)
    drive.vanish(1)
    await drive.settle()

    assert drive.state("orders").leader == 3
    assert values_on(drive, 3, orders) == [b"committed"]
    assert drive.context.brokers[3].first_epoch < drive.context.brokers[3].epoch


async def test_a_leader_that_came_back_with_all_others_begins_another_epoch(drive):
    """Else it writes other records at offsets that a follower has in the same epoch."""
    await drive.create("orders", [2, 3])
    epoch = drive.state("orders").leader_epoch

    await come_back_unnoticed(drive, 2, 3)

    assert drive.state("orders").leader == 2
    assert drive.state("orders").leader_epoch > epoch
    assert drive.state("orders").isr == (2, 3)


async def test_a_leader_that_came_back_is_not_told_that_it_leads_in_its_former_epoch(drive):
    await drive.create("orders", [2, 3])
    epoch = drive.state("orders").leader_epoch
    drive.forget()

    await come_back_unnoticed(drive, 2, 3)

    decisions = [part for each in drive.sent(LeaderAndIsr, to=2) for part in each.partitions]
    assert decisions
    assert all(each.leader_epoch > epoch for each in decisions if each.leader == 2)


async def test_after_a_power_cut_of_the_whole_cluster_every_leader_has_another_epoch(drive):
    await drive.create("orders", [1, 2, 3])
    epoch = drive.state("orders").leader_epoch
    for broker in (1, 2, 3):
        drive.vanish(broker)

    for broker in (1, 2, 3):
        await drive.cluster.start_broker(broker)
    await drive.settle()

    assert drive.state("orders").leader_epoch > epoch
    assert sorted(drive.state("orders").isr) == [1, 2, 3]


async def test_a_session_that_was_lost_with_the_controllers_is_a_life_that_ended(drive):
    orders = await drive.create("orders", [2, 3])
    epoch = drive.state("orders").leader_epoch
    drive.sim.pause(node_name(1))
    drive.sim.expire_session(node_name(2))  # it lives, and registers anew
    await drive.sim.sleep(1_000)

    drive.vanish(1)
    await drive.settle()

    assert drive.state("orders").leader == 3
    assert drive.state("orders").leader_epoch > epoch
    assert sorted(drive.state("orders").isr) == [2, 3]
    assert orders in drive.node(3).replica_manager.replicas


async def test_a_reborn_broker_answers_nobody_before_it_is_registered(drive):
    """Else it takes an order to its former life, and leads without what that one had."""
    await drive.create("orders", [2, 3])
    drive.cluster.kill(2)
    starting = asyncio.ensure_future(drive.cluster.start_broker(2))  # its old znode is there still
    await drive.sim.sleep(1_000)

    with pytest.raises(Disconnected):
        await drive.ask(2, Metadata(), MetadataResponse)
    assert drive.hosted(2, "orders") is None

    await starting
    await drive.settle()
    assert sorted(drive.state("orders").isr) == [2, 3]
