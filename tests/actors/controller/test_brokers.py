"""Brokers that come, go, come back, change their address or lose a disk: B068 to B074."""

import msgspec
import pytest

from actors.controller.brokers import BrokerDifference
from actors.controller.context import Broker, Replica, ReplicaPhase
from tests.support.drive import Drive
from tests.support.states import state
from wire.control import (
    ControlledShutdown,
    ControlledShutdownResponse,
    LeaderAndIsr,
    StopReplica,
    UpdateMetadata,
)
from wire.ids import NO_LEADER, BrokerId, Endpoint
from wire.trace import (
    ActorStarted,
    ActorStopped,
    BrokersChanged,
    ControllerEventFailed,
    LeaderElected,
    PartitionStateChanged,
    ReplicaStateChanged,
    TopicDeletionStep,
)
from wire.znodes import BrokerIdZNode, BrokerRegistration, FeatureRange


@pytest.fixture
async def drive(sim):
    # No election but those that a test asks for; broker 1 stays the controller.
    return await Drive.start(sim, brokers=4, overrides={"auto_leader_rebalance_enable": False})


def told(drive, broker):
    """All that the controller told a broker, in order."""
    kinds = LeaderAndIsr | StopReplica | UpdateMetadata
    return [
        each.request
        for each in drive.requests
        if each.to == broker and isinstance(each.request, kinds)
    ]


def moves_of(drive, broker):
    """How the replicas of a broker changed."""
    return [
        (each.before, each.after) for each in drive.of(ReplicaStateChanged) if each.broker == broker
    ]


# --- who came, who went -------------------------------------------------------------------------


@pytest.mark.behaviour("B068")
def test_the_difference_of_two_looks_tells_new_dead_and_bounced_brokers_apart():
    def look(**epochs):
        nothing = BrokerRegistration(endpoints=(), timestamp_ms=0)
        brokers = {BrokerId(int(name[1:])): epoch for name, epoch in epochs.items()}
        return {each: Broker(each, epoch, nothing) for each, epoch in brokers.items()}

    before = look(b1=10, b2=20, b3=30, b4=40)
    now = look(b9=90, b4=40, b3=31, b1=9, b8=80)

    assert BrokerDifference.between(before, now) == BrokerDifference(
        added=(8, 9), bounced=(3,), removed=(2,)
    )


@pytest.mark.behaviour("B068")
async def test_the_controller_sees_a_death_a_start_and_a_bounce(drive):
    epoch = drive.context.brokers[2].epoch
    drive.forget()

    await drive.kill(2)
    await drive.restart(2)
    await drive.bounce(2)

    assert drive.of(BrokersChanged) == [
        BrokersChanged("", "", "2"),
        BrokersChanged("2", "", ""),
        BrokersChanged("", "2", ""),
    ]
    now = drive.tree.stat("/brokers/ids/2").czxid
    assert drive.context.brokers[2].epoch == drive.node(2).broker_epoch == now > epoch


@pytest.mark.behaviour("B069")
async def test_all_that_happened_between_two_looks_is_handled_in_one_order(drive):
    await drive.create("orders", [1, 2, 3, 4])
    await drive.kill(4)
    drive.forget()
    drive.sim.pause("broker-1")
    drive.vanish(3)
    drive.vanish(2)
    await drive.cluster.start_broker(2)
    await drive.cluster.start_broker(4)
    drive.sim.resume("broker-1")
    await drive.settle()

    def is_channel(event):
        return isinstance(event, ActorStarted) and "/channel-" in event.actor

    assert drive.of(BrokersChanged) == [BrokersChanged("4", "2", "3")]
    changes = [(each.broker, each.after) for each in drive.of(ReplicaStateChanged)]
    assert changes == [
        (4, "OnlineReplica"),
        (2, "OfflineReplica"),
        (2, "OnlineReplica"),
        (3, "OfflineReplica"),
    ]
    kinds = [
        "channel" if is_channel(event) else type(event).__name__
        for _, event in drive.events
        if is_channel(event) or isinstance(event, BrokersChanged | ReplicaStateChanged)
    ]
    assert kinds == ["BrokersChanged", "channel", "channel", *["ReplicaStateChanged"] * 4]
    opened = [event.actor[-1] for event in drive.of(ActorStarted) if is_channel(event)]
    closed = [event.actor[-1] for event in drive.of(ActorStopped) if "/channel-" in event.actor]
    assert opened == ["4", "2"]
    assert sorted(closed) == ["2", "3"]


# --- start ----------------------------------------------------------------------------------------


@pytest.mark.behaviour("B070")
async def test_a_started_broker_hears_everything_and_the_others_only_of_it(drive):
    await drive.create("orders", {0: [2, 3], 1: [1, 2]})
    await drive.create("other", [4])
    await drive.kill(3)
    drive.forget()

    await drive.restart(3)

    news, orders = told(drive, 3)[:2]
    assert isinstance(news, UpdateMetadata)
    assert sorted(str(each.partition) for each in news.partitions) == [
        "orders-0",
        "orders-1",
        "other-0",
    ]
    assert [each.id for each in news.live_brokers] == [1, 2, 4, 3]
    assert isinstance(orders, LeaderAndIsr)
    assert [str(each.partition) for each in orders.partitions] == ["orders-0"]
    assert orders.broker_epoch == drive.node(3).broker_epoch
    for broker in (1, 2, 4):
        first = told(drive, broker)[0]
        assert isinstance(first, UpdateMetadata)
        assert first.partitions == ()
        assert [each.id for each in first.live_brokers] == [1, 2, 4, 3]
    assert moves_of(drive, 3) == [("OfflineReplica", "OnlineReplica")]
    assert drive.state("orders") == state(2, 1, 2, 3)


@pytest.mark.behaviour("B070")
async def test_partitions_without_a_leader_get_one_when_their_broker_starts(drive):
    await drive.create("orders", [3])
    await drive.kill(3)
    assert drive.context.offline_partition_count == 1
    drive.forget()

    await drive.restart(3)

    assert [(each.topic, each.leader) for each in drive.of(LeaderElected)] == [("orders", 3)]
    assert drive.state("orders") == state(3, 2, 3)
    assert drive.context.offline_partition_count == 0


@pytest.mark.behaviour("B070")
async def test_a_started_broker_ends_the_waiting_of_moves_and_deletions(drive):
    moving = await drive.create("moving", [2])
    await drive.create("doomed", [2, 3])
    await drive.kill(3)
    await drive.reassign({moving: [3]})
    await drive.delete("doomed")
    await drive.settle()
    assert drive.assignment("moving").adding_replicas == (3,)
    assert drive.exists("/brokers/topics/doomed")

    await drive.restart(3)

    assert drive.assignment("moving").replicas == (3,)
    assert drive.state("moving").leader == 3
    assert not drive.exists("/brokers/topics/doomed")


@pytest.mark.behaviour("B070")
async def test_a_started_broker_begins_with_healthy_disks(drive):
    orders = await drive.create("orders", [3])
    await drive.fail_disk(3, orders)
    assert drive.context.offline_dirs[3] == {orders: None}
    assert drive.state("orders") == state(NO_LEADER, 1, 3)

    await drive.bounce(3)

    assert not drive.context.offline_dirs.get(3)
    # One for its death, as the last in-sync replica, and one for the election: a replica that
    # is still marked could not be elected.
    assert drive.state("orders") == state(3, 3, 3)


# --- death ----------------------------------------------------------------------------------------


@pytest.mark.behaviour("B071")
async def test_what_a_dead_broker_led_is_led_by_others_and_its_replicas_go_offline(drive):
    led, followed = await drive.create("led", [2, 3]), await drive.create("followed", [3, 2])
    drive.forget()

    await drive.kill(2)

    changes = [(each.topic, each.after) for each in drive.of(PartitionStateChanged)]
    assert changes == [("led", "OfflinePartition"), ("led", "OnlinePartition")]
    assert moves_of(drive, 2) == [("OnlineReplica", "OfflineReplica")] * 2
    kinds = [
        type(event)
        for _, event in drive.events
        if isinstance(event, PartitionStateChanged | LeaderElected | ReplicaStateChanged)
    ]
    assert kinds == [
        PartitionStateChanged,
        LeaderElected,
        PartitionStateChanged,
        ReplicaStateChanged,
        ReplicaStateChanged,
    ]
    assert drive.state("led") == drive.state("followed") == state(3, 1, 3)
    for partition in (led, followed):
        assert drive.context.replica_phase(Replica(partition, BrokerId(2))) is ReplicaPhase.OFFLINE
        assert drive.cached(4, partition.topic).leader == 3
        assert drive.cached(4, partition.topic).offline_replicas == (2,)


@pytest.mark.behaviour("B071")
async def test_a_dead_broker_is_no_longer_shutting_down_and_no_longer_watched(drive):
    goodbye = ControlledShutdown(broker_id=2, broker_epoch=drive.node(2).broker_epoch)
    await drive.ask(1, goodbye, ControlledShutdownResponse)
    assert drive.context.shutting_down == {2}
    session = drive.sim.zookeeper._sessions[drive.node(1).world.keeper.session_id]
    assert (False, "/brokers/ids/2") in session.watched

    await drive.kill(2)

    assert drive.context.shutting_down == set()
    assert (False, "/brokers/ids/2") not in session.watched
    assert (False, "/brokers/ids/3") in session.watched
    assert drive.of(ControllerEventFailed) == []


@pytest.mark.behaviour("B071")
async def test_a_deletion_fails_for_the_replicas_of_a_dead_broker(drive):
    await drive.create("doomed", [2, 3])
    drive.sim.hold("broker-1", "broker-3")  # its StopReplica does not arrive
    drive.forget()
    await drive.delete("doomed")
    await drive.sim.until(
        lambda: ("OfflineReplica", "ReplicaDeletionStarted") in moves_of(drive, 3)
    )

    await drive.kill(3)

    assert moves_of(drive, 2)[-1] == ("ReplicaDeletionStarted", "ReplicaDeletionSuccessful")
    assert ("ReplicaDeletionStarted", "ReplicaDeletionIneligible") in moves_of(drive, 3)
    assert TopicDeletionStep("doomed", "ineligible") in drive.of(TopicDeletionStep)
    assert drive.context.topics_ineligible == {"doomed"}
    assert drive.of(LeaderElected) == []  # nobody leads what goes away
    assert drive.exists("/brokers/topics/doomed")


@pytest.mark.behaviour("B072")
@pytest.mark.parametrize("has_replica", [False, True], ids=["no replica", "a replica not in sync"])
async def test_a_death_that_changes_no_partition_is_told_to_all(drive, has_replica):
    if has_replica:
        orders = await drive.create("orders", [2, 3, 4])
        drive.shrink(4, orders)
        await drive.settle()
    drive.forget()

    await drive.kill(4)

    for broker in (1, 2, 3):
        last = drive.sent(UpdateMetadata, broker)[-1]
        assert last.partitions == ()
        assert [each.id for each in last.live_brokers] == [1, 2, 3]
        assert set(drive.node(broker).replica_manager.cache.brokers) == {1, 2, 3}


# --- another address ------------------------------------------------------------------------------


@pytest.mark.behaviour("B073")
@pytest.mark.parametrize("is_restarted", [False, True], ids=["first life", "second life"])
async def test_new_endpoints_of_a_broker_are_told_to_all(drive, is_restarted):
    if is_restarted:
        await drive.kill(3)
        await drive.restart(3)
    path = BrokerIdZNode.path(BrokerId(3))
    known = BrokerIdZNode.decode(BrokerId(3), drive.tree.get(path).data)
    epoch = drive.context.brokers[3].epoch
    drive.forget()

    endpoints = (Endpoint("INTERNAL", "PLAINTEXT", "elsewhere", 9093),)
    changed = msgspec.structs.replace(known, endpoints=endpoints)
    await drive.keeper.set(path, BrokerIdZNode.encode(changed))
    await drive.settle()

    assert drive.context.brokers[3] == Broker(BrokerId(3), epoch, changed)
    for broker in (1, 2, 3, 4):
        (news,) = told(drive, broker)
        assert isinstance(news, UpdateMetadata)
        assert news.partitions == ()
        assert {each.id: each.endpoints for each in news.live_brokers}[3] == endpoints
        assert drive.node(broker).replica_manager.cache.brokers[3].endpoints == endpoints


@pytest.mark.behaviour("B073")
async def test_new_features_are_told_and_a_new_time_stamp_is_not(drive):
    path = BrokerIdZNode.path(BrokerId(3))
    known = BrokerIdZNode.decode(BrokerId(3), drive.tree.get(path).data)
    drive.forget()

    later = msgspec.structs.replace(known, timestamp_ms=known.timestamp_ms + 1)
    await drive.keeper.set(path, BrokerIdZNode.encode(later))
    await drive.settle()
    assert drive.sent(UpdateMetadata) == []

    able = msgspec.structs.replace(later, features={"group": FeatureRange(1, 2)})
    await drive.keeper.set(path, BrokerIdZNode.encode(able))
    await drive.settle()

    assert drive.context.brokers[3].registration.features == {"group": FeatureRange(1, 2)}
    assert [len(told(drive, broker)) for broker in (1, 2, 3, 4)] == [1, 1, 1, 1]
