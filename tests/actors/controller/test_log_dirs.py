"""Disks that fail: B074."""

import json

import pytest

from actors.broker.replica_manager import LogDirFailed
from tests.support.drive import Drive
from tests.support.states import state
from wire.admin_znodes import LogDirEventNotificationZNode
from wire.control import LeaderAndIsr, LeaderAndIsrResponse
from wire.errors import ErrorCode
from wire.ids import NO_LEADER, BrokerId
from wire.trace import LeaderElected, PartitionStateChanged, ReplicaStateChanged

pytestmark = pytest.mark.behaviour("B074")
FOLDER = LogDirEventNotificationZNode.folder


@pytest.fixture
async def drive(sim):
    # No election but those that a test asks for; broker 1 stays the controller.
    return await Drive.start(sim, overrides={"auto_leader_rebalance_enable": False})


def codes(drive, broker):
    """What a broker said of each partition, answer by answer."""
    return [
        {str(each.partition): each.error_code for each in answer.partitions}
        for answer in drive.answered(LeaderAndIsrResponse, broker)
    ]


async def test_a_broker_with_a_failed_disk_leaves_a_note(drive):
    orders = await drive.create("orders", [2, 3])
    drive.sim.pause("broker-1")  # it would remove the note

    drive.node(2).replica_manager.ref.tell(LogDirFailed(frozenset({orders})))
    await drive.sim.sleep(1_000)

    (name,) = drive.tree.children(FOLDER)
    assert name == "log_dir_event_0000000000"
    note = drive.tree.get(f"{FOLDER}/{name}")
    assert json.loads(note.data) == {"version": 1, "broker": 2, "event": 1}


async def test_a_leader_with_a_failed_disk_is_found_by_leader_and_isr_and_replaced(drive):
    orders = await drive.create("orders", [2, 3])
    await drive.create("healthy", [2, 3])
    drive.forget()

    await drive.fail_disk(2, orders)

    first = drive.sent(LeaderAndIsr, 2)[0]
    assert {str(each.partition) for each in first.partitions} == {"orders-0", "healthy-0"}
    assert codes(drive, 2)[0] == {
        "orders-0": ErrorCode.KAFKA_STORAGE_ERROR,
        "healthy-0": ErrorCode.STALE_CONTROLLER_EPOCH,
    }
    assert drive.context.offline_dirs[2] == {orders: None}
    assert not drive.context.offline_dirs.get(3)
    assert [(each.topic, each.after) for each in drive.of(PartitionStateChanged)] == [
        ("orders", "OfflinePartition"),
        ("orders", "OnlinePartition"),
    ]
    assert [(each.topic, each.leader) for each in drive.of(LeaderElected)] == [("orders", 3)]
    assert [(each.topic, each.broker, each.after) for each in drive.of(ReplicaStateChanged)] == [
        ("orders", 2, "OfflineReplica")
    ]
    assert drive.state("orders") == state(3, 1, 3)
    assert drive.state("healthy") == state(2, 0, 2, 3)
    assert drive.cached(1, "orders").offline_replicas == (2,)
    assert drive.cached(1, "healthy").offline_replicas == ()
    assert drive.tree.children(FOLDER) == ()


async def test_a_follower_with_a_failed_disk_leaves_the_isr(drive):
    orders = await drive.create("orders", [2, 3])

    await drive.fail_disk(3, orders)

    assert drive.state("orders") == state(2, 1, 2)
    assert drive.hosted(3, "orders") is None


async def test_a_partition_whose_only_disk_failed_has_no_leader(drive):
    orders = await drive.create("orders", [2])

    await drive.fail_disk(2, orders)

    assert drive.state("orders") == state(NO_LEADER, 1, 2)
    assert drive.context.offline_partition_count == 1


async def test_a_replica_that_is_taken_again_is_offline_no_more(drive):
    orders = await drive.create("orders", [2, 3])
    await drive.fail_disk(3, orders)
    assert drive.context.offline_dirs[3] == {orders: None}
    drive.node(3).replica_manager.hosting.offline.clear()  # somebody has mended the disk
    drive.forget()

    kind = LogDirEventNotificationZNode
    await drive.keeper.create(kind.prefix_path(), kind.encode(BrokerId(3)), sequential=True)
    await drive.settle()

    assert codes(drive, 3) == [{"orders-0": ErrorCode.NONE}]
    assert drive.context.offline_dirs[3] == {}
    assert [(each.before, each.after) for each in drive.of(ReplicaStateChanged)] == [
        ("OfflineReplica", "OnlineReplica")
    ]
    assert drive.state("orders") == state(2, 1, 2, 3)
    assert drive.tree.children(FOLDER) == ()


async def test_a_note_of_an_unknown_broker_is_removed(drive):
    kind = LogDirEventNotificationZNode
    drive.forget()

    await drive.keeper.create(kind.prefix_path(), kind.encode(BrokerId(9)), sequential=True)
    await drive.settle()

    assert drive.sent(LeaderAndIsr) == []
    assert drive.tree.children(FOLDER) == ()
