"""Topics that appear, grow and vanish, as the controller sees it: B086, B087, B088."""

import pytest

from actors.controller.context import PartitionPhase, Replica, ReplicaPhase
from tests.support.drive import Drive
from wire.control import LeaderAndIsr
from wire.ids import TopicPartition
from wire.trace import (
    ControllerEventFailed,
    LeaderElected,
    PartitionStateChanged,
    ReplicaStateChanged,
    TransitionRefused,
)
from wire.znodes import PartitionState, TopicZNode


@pytest.fixture
async def drive(sim):
    return await Drive.start(sim)


def topic_id(drive, topic):
    return TopicZNode.decode(topic, drive.tree.get(TopicZNode.path(topic)).data).topic_id


def told(drive, topic):
    """Which partitions of a topic any broker was told to lead or follow."""
    return {
        entry.partition.partition
        for request in drive.sent(LeaderAndIsr)
        for entry in request.partitions
        if entry.partition.topic == topic
    }


@pytest.mark.behaviour("B086")
async def test_a_new_topic_goes_new_then_online_partition_before_replicas(drive):
    orders = await drive.create("orders", [2, 3])

    steps = [
        event
        for _, event in drive.events
        if isinstance(event, PartitionStateChanged | ReplicaStateChanged | LeaderElected)
    ]
    assert steps == [
        PartitionStateChanged("orders", 0, "NonExistentPartition", "NewPartition"),
        ReplicaStateChanged("orders", 0, 2, "NonExistentReplica", "NewReplica"),
        ReplicaStateChanged("orders", 0, 3, "NonExistentReplica", "NewReplica"),
        LeaderElected("orders", 0, 2, 0, "2,3", 0, "NewPartition", False, "2,3"),
        PartitionStateChanged("orders", 0, "NewPartition", "OnlinePartition"),
        ReplicaStateChanged("orders", 0, 2, "NewReplica", "OnlineReplica"),
        ReplicaStateChanged("orders", 0, 3, "NewReplica", "OnlineReplica"),
    ]
    assert drive.state("orders") == PartitionState(
        controller_epoch=1, leader=2, leader_epoch=0, isr=(2, 3)
    )
    assert drive.hosted(2, "orders").is_leader
    assert drive.hosted(3, "orders").leader == 2
    assert drive.hosted(1, "orders") is None
    assert {drive.cached(each, "orders").leader for each in (1, 2, 3)} == {2}
    assert drive.context.replicas(orders) == (2, 3)


@pytest.mark.behaviour("B086")
async def test_a_topic_without_an_id_gets_one_that_is_written_back_and_told(drive):
    await drive.create("orders", [2, 3])

    identity = topic_id(drive, "orders")
    assert identity is not None
    assert drive.context.topic_ids == {"orders": identity}
    assert drive.tree.get("/brokers/topics/orders").data.startswith(b'{"version":3,"topic_id":"')
    assert [request.topic_ids for request in drive.sent(LeaderAndIsr)] == [
        (("orders", identity),)
    ] * 2


@pytest.mark.behaviour("B086")
async def test_two_topics_in_one_change_are_both_created_whatever_happens_to_the_ids_write(
    sim, drive
):
    await drive.write_topic("bills", {0: [1]})
    await drive.write_topic("orders", {0: [2]})
    sim.lose_reply("broker-1")  # of the write that gives the first topic its id
    await sim.settle()

    assert drive.of(ControllerEventFailed) == []
    assert drive.state("bills").leader == 1
    assert drive.state("orders").leader == 2
    assert drive.context.topic_ids["bills"] == topic_id(drive, "bills")


@pytest.mark.behaviour("B086")
async def test_a_topic_that_is_changed_while_it_gets_its_id_is_created_as_changed(
    sim, drive, monkeypatch
):
    meddled = []
    topics, with_id = drive.reign.topics, drive.reign.topics._with_id

    async def meddling(topic, assignment, version):
        if not meddled:
            meddled.append(topic)
            await drive.write_topic(topic, {0: [3], 1: [2]})
        return await with_id(topic, assignment, version)

    monkeypatch.setattr(topics, "_with_id", meddling)
    await drive.write_topic("bills", {0: [1]})
    await drive.write_topic("orders", {0: [2]})
    await sim.settle()

    assert meddled == ["bills"]
    assert [drive.state("bills", number).leader for number in (0, 1)] == [3, 2]
    assert drive.assignment("bills", 1).replicas == (2,)
    assert drive.state("orders").leader == 2
    assert drive.context.topic_ids["bills"] == topic_id(drive, "bills")


@pytest.mark.behaviour("B086")
async def test_topics_that_vanish_are_forgotten_and_may_come_again(drive):
    orders = await drive.create("orders", [1, 2])
    first = topic_id(drive, "orders")

    for path in ("partitions/0/state", "partitions/0", "partitions"):
        await drive.keeper.delete(f"/brokers/topics/orders/{path}")
    await drive.keeper.delete("/brokers/topics/orders")
    await drive.settle()

    context = drive.context
    assert context.topics == context.topic_ids == {}
    assert context.assignments == context.leaderships == context.replica_phases == {}
    assert context.partition_phase(orders) is PartitionPhase.NON_EXISTENT
    assert context.replicas_on((1, 2, 3)) == []
    drive.forget()

    await drive.create("orders", {0: [3], 1: [3]})

    assert context.topic_ids["orders"] not in {None, first}
    assert [drive.state("orders", number).leader for number in (0, 1)] == [3, 3]
    assert drive.of(TransitionRefused) == []


@pytest.mark.behaviour("B087")
async def test_a_topic_that_grows_gets_its_new_partitions_and_keeps_the_old_ones(drive):
    await drive.create("orders", [1, 2])
    identity, before = topic_id(drive, "orders"), drive.state("orders")
    drive.forget()

    await drive.write_topic("orders", {0: [1, 2], 1: [2, 3], 2: [3, 1]})
    await drive.settle()

    assert [drive.state("orders", number).leader for number in (1, 2)] == [2, 3]
    assert [drive.state("orders", number).leader_epoch for number in (1, 2)] == [0, 0]
    assert (drive.state("orders"), drive.version("orders")) == (before, 0)
    assert told(drive, "orders") == {1, 2}
    assert all(entry.is_new for each in drive.sent(LeaderAndIsr) for entry in each.partitions)
    assert [event.partition for event in drive.of(LeaderElected)] == [1, 2]
    assert topic_id(drive, "orders") == drive.context.topic_ids["orders"]
    # The tool of before Kafka 2.8 writes no id: the topic keeps the one that brokers know.
    assert topic_id(drive, "orders") == identity


@pytest.mark.behaviour("B087")
async def test_other_changes_of_a_topics_znode_are_ignored(drive):
    await drive.create("orders", {0: [1, 2], 1: [2, 3]})
    drive.forget()

    await drive.write_topic("orders", {0: [3, 2]})  # another assignment, and one partition less
    await drive.settle()

    assert drive.context.replicas(TopicPartition("orders", 0)) == (1, 2)
    assert drive.context.replicas(TopicPartition("orders", 1)) == (2, 3)
    assert drive.context.partition_phase(TopicPartition("orders", 1)) is PartitionPhase.ONLINE
    assert drive.requests == []
    assert drive.of(PartitionStateChanged) == drive.of(ReplicaStateChanged) == []
    assert [drive.version("orders", number) for number in (0, 1)] == [0, 0]


@pytest.mark.behaviour("B088")
async def test_a_topic_queued_for_deletion_does_not_grow(drive):
    await drive.create("orders", [2, 3])
    await drive.kill(3)
    await drive.delete("orders")
    await drive.settle()
    drive.forget()

    await drive.write_topic("orders", {0: [2, 3], 1: [1, 2]})
    await drive.settle()

    znode = TopicZNode.decode("orders", drive.tree.get("/brokers/topics/orders").data)
    assert {number: each.replicas for number, each in znode.partitions.items()} == {0: (2, 3)}
    assert drive.context.partitions_of("orders") == [TopicPartition("orders", 0)]
    assert not drive.exists("/brokers/topics/orders/partitions/1")
    assert told(drive, "orders") == set()
    assert drive.of(PartitionStateChanged) == []

    await drive.restart(3)

    assert not drive.exists("/brokers/topics/orders")


@pytest.mark.behaviour("B088")
async def test_what_is_restored_is_what_was_there_before(drive):
    await drive.create("orders", [2, 3])
    identity = topic_id(drive, "orders")
    await drive.kill(3)
    await drive.delete("orders")
    await drive.settle()

    await drive.write_topic("orders", {0: [1], 1: [1, 2]})  # and the id is left out, too
    await drive.settle()

    assert drive.assignment("orders").replicas == (2, 3)
    assert topic_id(drive, "orders") == identity
    assert drive.context.replica_phase(Replica(TopicPartition("orders", 0), 2)) is (
        ReplicaPhase.DELETION_SUCCESSFUL
    )
