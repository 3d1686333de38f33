"""A new controller takes office: its state machines start, brokers hear of it (B035 to B038)."""

import pytest

from tests.support.drive import Drive
from tests.support.states import state
from wire.admin_znodes import PreferredReplicaElectionZNode
from wire.control import LeaderAndIsr, LeaderAndIsrResponse
from wire.errors import ErrorCode
from wire.ids import NO_LEADER, TopicPartition
from wire.trace import (
    ControllerEventFailed,
    ElectionFailed,
    LeaderElected,
    PartitionStateChanged,
    ReplicaRoleChanged,
    ReplicaStateChanged,
)


@pytest.fixture
async def drive(sim):
    # No election but those that a test asks for.
    return await Drive.start(sim, brokers=4, overrides={"auto_leader_rebalance_enable": False})


@pytest.mark.behaviour("B035")
async def test_replicas_on_live_brokers_go_online_and_the_others_leave_their_isrs(drive):
    await drive.create("orders", [2, 3, 4])
    drive.forget()
    drive.cluster.kill(1)
    await drive.kill(4)

    changes = [(each.broker, each.before, each.after) for each in drive.of(ReplicaStateChanged)]
    assert changes == [
        (2, "NonExistentReplica", "OnlineReplica"),
        (3, "NonExistentReplica", "OnlineReplica"),
        (4, "NonExistentReplica", "ReplicaDeletionIneligible"),
        (4, "ReplicaDeletionIneligible", "OfflineReplica"),
    ]
    assert drive.state("orders") == state(2, 1, 2, 3, controller_epoch=2)
    for broker in (2, 3):
        told = [each for each in drive.sent(LeaderAndIsr, broker) if each.controller_epoch == 2]
        entries = [entry for each in told for entry in each.partitions]
        assert [(entry.leader_epoch, entry.is_new) for entry in entries] == [(0, False), (1, False)]
        assert drive.hosted(broker, "orders").leader_epoch == 1
    assert drive.hosted(2, "orders").isr == (2, 3)


@pytest.mark.behaviour("B036")
async def test_partitions_become_new_online_or_offline_and_are_tried_for_a_leader(drive):
    await drive.create("led", [2, 3])
    await drive.create("leaderless", [4, 3])
    await drive.create("lost", [4])
    await drive.create("doomed", [4, 3])
    drive.cluster.kill(1)
    drive.cluster.kill(4)
    await drive.write_topic("born", {0: [3, 2]})
    await drive.delete("doomed")
    drive.forget()

    await drive.settle()

    by_topic = {}
    for each in drive.of(PartitionStateChanged):
        by_topic.setdefault(each.topic, []).append((each.before, each.after))
    assert by_topic == {
        "led": [("NonExistentPartition", "OnlinePartition")],
        "leaderless": [
            ("NonExistentPartition", "OfflinePartition"),
            ("OfflinePartition", "OnlinePartition"),
        ],
        "lost": [("NonExistentPartition", "OfflinePartition")],
        "born": [("NonExistentPartition", "NewPartition"), ("NewPartition", "OnlinePartition")],
        "doomed": [("NonExistentPartition", "OfflinePartition")],
    }
    elected = {each.topic: each.reason for each in drive.of(LeaderElected)}
    strategy = "OfflinePartitionLeaderElectionStrategy"
    assert elected == {"leaderless": strategy, "born": "NewPartition"}
    assert [(each.topic, each.strategy) for each in drive.of(ElectionFailed)] == [
        ("lost", strategy)
    ]
    assert drive.state("born") == state(3, 0, 3, 2, controller_epoch=2)
    assert drive.state("lost") == state(NO_LEADER, 1, 4, controller_epoch=2)


@pytest.mark.behaviour("B037")
async def test_orders_that_brokers_know_already_are_refused_one_by_one_and_change_nothing(drive):
    await drive.create("orders", {0: [2, 3], 1: [3, 4], 2: [4, 2]})
    before = [(drive.state("orders", each), drive.version("orders", each)) for each in range(3)]
    hosted = [drive.hosted(broker, "orders", 0) for broker in (2, 3)]
    drive.forget()

    await drive.depose()

    for broker, numbers in {2: {0, 2}, 3: {0, 1}, 4: {1, 2}}.items():
        (order,) = drive.sent(LeaderAndIsr, broker)
        assert {each.partition.partition for each in order.partitions} == numbers
        assert {each.leader_epoch for each in order.partitions} == {0}
        (answer,) = drive.answered(LeaderAndIsrResponse, broker)
        assert answer.error_code is ErrorCode.NONE
        assert [each.error_code for each in answer.partitions] == (
            [ErrorCode.STALE_CONTROLLER_EPOCH] * 2
        )
    after = [(drive.state("orders", each), drive.version("orders", each)) for each in range(3)]
    assert after == before
    assert [drive.hosted(broker, "orders", 0) for broker in (2, 3)] == hosted
    assert drive.of(ReplicaRoleChanged) == []
    assert drive.of(ControllerEventFailed) == []
    assert {each.after for each in drive.of(ReplicaStateChanged)} == {"OnlineReplica"}


@pytest.mark.behaviour("B038")
async def test_preferred_elections_found_in_zookeeper_are_sifted_and_run(drive):
    topics = ("strayed", "content", "doomed", "not-asked")
    others = {"content": [3, 2], "doomed": [2, 3, 4]}
    for topic in topics:
        await drive.create(topic, others.get(topic, [2, 3]))
    await drive.kill(2)
    await drive.restart(2)
    assert [drive.state(topic).leader for topic in topics] == [3, 3, 3, 3]
    drive.cluster.kill(1)
    drive.cluster.kill(4)  # so the doomed topic cannot go, and has a leader until it can
    await drive.delete("doomed")
    await drive.prefer(*(TopicPartition(each, 0) for each in (*topics[:3], "unheard-of")))
    drive.forget()

    await drive.settle()

    assert [(each.topic, each.leader, each.reason) for each in drive.of(LeaderElected)] == [
        ("strayed", 2, "PreferredReplicaPartitionLeaderElectionStrategy")
    ]
    assert drive.state("strayed") == state(2, 2, 3, 2, controller_epoch=2)
    assert drive.state("content") == state(3, 1, 3, 2)
    assert drive.state("doomed") == state(3, 2, 3, 2, controller_epoch=2)
    assert drive.state("not-asked") == state(3, 1, 3, 2)
    assert drive.of(ElectionFailed) == []
    assert not drive.exists(PreferredReplicaElectionZNode.path())
