"""In the end all is well, and every invariant of liveness says so if it is not."""

import pytest

from actors.broker.purgatory import Waiting
from actors.controller.elections import Elections
from actors.faults.goodbyes import GoodbyesEndAtOnce
from actors.faults.liveness import (
    EverybodyIsInSync,
    LeadersAreBalanced,
    MetadataIsTrue,
    NobodyWaits,
    OneControllerInTheEnd,
    RequestsAreConsumed,
    StraysAreRemoved,
    liveness,
)
from actors.faults.violation import Violation
from runtime.keeper import Create, Delete, Set
from runtime.simulation.simulator import run
from tests.actors.faults.planted import LONG_MS, ORDERS, Planted, adventures, disturbed
from wire.control import ControlledShutdown, ControlledShutdownResponse
from wire.data import Produce, ProducePartition, ProduceResponse
from wire.ids import BrokerEpoch, BrokerId, Offset
from wire.records import Record, encode_batch
from wire.trace import ControlledShutdownTried, ControllerElected, TopicDeletionStep

KINDS = tuple(type(each) for each in liveness())


def fires(planted: Planted, match: str):
    with pytest.raises(Violation, match=match):
        planted.check_in_the_end()


# --- silence --------------------------------------------------------------------------------------


def test_there_is_one_for_each_number():
    assert [each.name for each in liveness()] == [f"L-{number}" for number in range(1, 9)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
async def test_it_is_silent_when_all_is_well_again(sim, kind):
    planted = await Planted.with_topic(sim, kind(), brokers=4)

    await adventures(planted)

    planted.check_in_the_end()


@pytest.mark.parametrize("seed", [5064, 8689, *range(1, 7)])
@pytest.mark.parametrize("is_wide", [True, False])
def test_all_are_silent_after_chaos(seed, is_wide):
    run(lambda: disturbed(seed, *liveness(), is_wide=is_wide))


# --- L-1 ------------------------------------------------------------------------------------------


@pytest.mark.behaviour("L-1")
async def test_a_cluster_without_a_controller_is_found(sim):
    planted = await Planted.with_topic(sim, OneControllerInTheEnd())

    planted.drive.cluster.kill(1)

    fires(planted, "L-1: 0 controllers are active")


@pytest.mark.behaviour("L-1")
async def test_a_controller_that_does_not_own_its_znode_is_found(sim):
    planted = await Planted.with_topic(sim, OneControllerInTheEnd())

    planted.commit("tool", Delete("/controller"))

    fires(planted, "L-1: broker-1 does not own /controller")


@pytest.mark.behaviour("L-1")
async def test_a_controller_of_an_epoch_that_is_over_is_found(sim):
    planted = await Planted.with_topic(sim, OneControllerInTheEnd())

    planted.commit("tool", Set("/controller_epoch", b"2"))

    fires(planted, "L-1: broker-1 does not reign in epoch 2")


@pytest.mark.behaviour("L-1")
async def test_a_broker_that_has_not_heard_of_the_controller_is_found(sim):
    planted = await Planted.with_topic(sim, OneControllerInTheEnd())

    planted.drive.node(3).replica_manager.fence.controller_epoch = 0

    fires(planted, "L-1 on 3: broker-3 heard of epoch 0, not 1")


# --- L-2, L-3, L-4 --------------------------------------------------------------------------------


@pytest.mark.behaviour("L-2")
async def test_a_replica_that_is_not_in_sync_is_found(sim):
    planted = await Planted.with_topic(sim, EverybodyIsInSync())

    planted.write_state("broker-1", isr=(1, 2))

    fires(planted, r"L-2 orders-0: \(1, 2, 3\) are assigned, and in sync are \(1, 2\)")


@pytest.mark.behaviour("L-2")
async def test_a_partition_that_nobody_leads_is_found(sim):
    planted = await Planted.with_topic(sim, EverybodyIsInSync())

    planted.write_state("broker-1", leader=-1, leader_epoch=1)

    fires(planted, "L-2 orders-0: nobody leads it")


@pytest.mark.behaviour("L-2")
async def test_a_leader_that_counts_fewer_than_zookeeper_is_found(sim):
    planted = await Planted.with_topic(sim, EverybodyIsInSync())
    replica = planted.drive.replica(1, "orders")

    replica.hosted = replica.hosted.with_isr((BrokerId(1),), replica.hosted.partition_epoch)

    fires(planted, r"L-2 orders-0 on 1: its leader counts only \(1,\)")


@pytest.mark.behaviour("L-2")
@pytest.mark.parametrize("isr", [(1,), (1, 2, 3)])
async def test_one_that_leads_beside_the_leader_is_found(sim, isr):
    """Alone in its ISR it writes nothing to ZooKeeper, and is as wrong."""
    planted = await Planted.with_topic(sim, EverybodyIsInSync())
    replica = planted.drive.replica(1, "orders")
    former = replica.hosted.with_isr(tuple(map(BrokerId, isr)), replica.hosted.partition_epoch)

    planted.write_state("broker-2", leader=2, leader_epoch=1)
    replica.hosted = former

    fires(planted, "L-2 orders-0 on 1: 1 leads it in epoch 0, and should not")


@pytest.mark.behaviour("L-3")
async def test_a_broker_that_knows_another_leader_is_found(sim):
    planted = await Planted.with_topic(sim, MetadataIsTrue())

    planted.write_state("broker-1", leader=2, leader_epoch=1)

    fires(planted, r"L-3 orders-0 on 1: it knows \(1, 0, .*, not \(2, 1")


@pytest.mark.behaviour("L-3")
async def test_a_broker_that_knows_too_few_brokers_is_found(sim):
    planted = await Planted.with_topic(sim, MetadataIsTrue())

    del planted.drive.node(2).replica_manager.cache.brokers[BrokerId(3)]

    fires(planted, r"L-3 on 2: it knows the brokers \[1, 2\], not \[1, 2, 3\]")


@pytest.mark.behaviour("L-3")
async def test_a_topic_that_is_gone_may_be_known_only_if_another_controller_removed_it(sim):
    planted = await Planted.with_topic(sim, MetadataIsTrue())
    cache = planted.drive.node(2).replica_manager.cache
    cache.topics["gone"] = {}
    planted.leave(1, TopicDeletionStep("gone", "completed"))

    fires(planted, "L-3 on 2: it knows gone, which is gone")

    planted.leave(2, ControllerElected(2, 2, 2))
    planted.check_in_the_end()


@pytest.mark.behaviour("L-4")
@pytest.mark.parametrize(
    "path",
    [
        "/admin/reassign_partitions",
        "/admin/preferred_replica_election",
        "/admin/delete_topics/orders",
        "/isr_change_notification/isr_change_0000000001",
        "/log_dir_event_notification/log_dir_event_0000000001",
    ],
)
async def test_a_wish_or_a_note_that_stays_is_found(sim, path):
    planted = await Planted.with_topic(sim, RequestsAreConsumed())

    planted.commit("tool", Create(path))

    fires(planted, "L-4: /")


@pytest.mark.behaviour("L-4")
async def test_a_move_that_never_ends_is_found(sim):
    planted = await Planted.with_topic(sim, RequestsAreConsumed())

    planted.write_topic("broker-1", 1, 2, 3, removing_replicas=(BrokerId(3),))

    fires(planted, "L-4 orders-0: it is still on the move")


# --- L-5 ------------------------------------------------------------------------------------------


@pytest.mark.behaviour("L-5")
async def test_a_goodbye_that_leaves_something_behind_is_found(sim):
    planted = await Planted.with_topic(sim, GoodbyesEndAtOnce())
    goodbye = ControlledShutdown(broker_id=BrokerId(1), broker_epoch=BrokerEpoch(-1))

    planted.obey(1, 1, goodbye, ControlledShutdownResponse(remaining_partitions=(ORDERS,)))

    fires(planted, r"L-5 orders-0: broker 1 still leads it, and \[2, 3\] could")


async def test_a_goodbye_may_leave_what_nobody_else_can_lead(sim):
    planted = await Planted.with_topic(sim, GoodbyesEndAtOnce())
    await planted.drive.kill(2)
    await planted.drive.kill(3)
    goodbye = ControlledShutdown(broker_id=BrokerId(1), broker_epoch=BrokerEpoch(-1))

    planted.obey(1, 1, goodbye, ControlledShutdownResponse(remaining_partitions=(ORDERS,)))

    planted.check_in_the_end()


@pytest.mark.behaviour("L-5")
async def test_a_broker_that_goes_and_leads_is_found(sim):
    planted = await Planted.with_topic(sim, GoodbyesEndAtOnce())
    goodbye = ControlledShutdown(broker_id=BrokerId(1), broker_epoch=BrokerEpoch(-1))

    planted.leave(1, ControlledShutdownTried(1, "ok", 0))  # whoever answered reigns no more
    planted.check_in_the_end()
    planted.obey(1, 1, goodbye, ControlledShutdownResponse())
    planted.leave(1, ControlledShutdownTried(1, "ok", 0))

    fires(planted, "L-5 orders-0: broker-1 goes, and leads it")


# --- L-6 ------------------------------------------------------------------------------------------


@pytest.mark.behaviour("L-6")
@pytest.mark.parametrize("is_broken", [True, False])
async def test_leaders_that_are_never_balanced_are_found(sim, monkeypatch, is_broken):
    async def rebalance(self):
        pass

    if is_broken:
        monkeypatch.setattr(Elections, "rebalance", rebalance)
    planted = await Planted.with_topic(
        sim, LeadersAreBalanced(), leader_imbalance_check_interval_seconds=20
    )
    await planted.drive.kill(1)
    await planted.drive.restart(1)
    planted.check_in_the_end()  # it is too early
    await sim.sleep(LONG_MS)

    if is_broken:
        fires(planted, "L-6 on 1: others lead 1 of its 1 partitions")
    else:
        planted.check_in_the_end()


# --- L-7, L-8 -------------------------------------------------------------------------------------


@pytest.mark.behaviour("L-7")
async def test_a_request_that_waits_for_ever_is_found(sim):
    planted = await Planted.with_topic(sim, NobodyWaits())

    forgotten = Waiting({}, {ORDERS: Offset(7)}, lambda results: None)
    planted.drive.node(2).replica_manager.leading.purgatory.wait(forgotten)

    fires(planted, "L-7 on 2: 1 wait for in-sync replicas")


@pytest.mark.behaviour("L-8")
async def test_a_replica_that_is_taken_away_and_stays_is_found(sim):
    planted = await Planted.with_topic(sim, StraysAreRemoved())

    planted.write_topic("broker-1", 1, 2)

    fires(planted, "L-8 orders-0 on 3: it holds a replica that is not assigned to it")


async def test_a_replica_that_was_taken_from_a_dead_broker_may_stay(sim):
    planted = await Planted.with_topic(sim, StraysAreRemoved())
    batch = encode_batch([Record(offset=Offset(0), timestamp_ms=1, value=b"something")])
    records = (ProducePartition(ORDERS, memoryview(batch)),)
    request = Produce(acks=-1, timeout_ms=5_000, partitions=records)
    await planted.drive.ask(1, request, ProduceResponse)
    await planted.drive.stop(3)
    await planted.drive.reassign({ORDERS: [1, 2]})
    await planted.drive.settle()
    await planted.drive.restart(3)
    await sim.sleep(LONG_MS)

    assert ORDERS in planted.drive.node(3).replica_manager.hosting.held
    planted.check_in_the_end()
