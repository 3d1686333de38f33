"""Topics on their way out, as the controller sees it: B090 to B095."""

import pytest

from actors.broker.replica_manager import LogDirFailed
from actors.controller.context import PartitionPhase, ReplicaPhase
from runtime.keeper import Create, Delete
from tests.support.deletions import ORDERS, is_gone, phases, steps, stops
from tests.support.drive import Drive
from wire.admin import AlterPartitionReassignments, PartitionReassignment
from wire.admin import AlterPartitionReassignmentsResponse as ReassignmentsResponse
from wire.control import (
    LeaderAndIsr,
    UpdateMetadata,
)
from wire.errors import ErrorCode
from wire.ids import LEADER_DURING_DELETE, LEADER_EPOCH_DURING_DELETE
from wire.metadata import Metadata, MetadataResponse
from wire.trace import (
    PartitionStateChanged,
    ReplicaStateChanged,
    TransitionRefused,
)


@pytest.fixture
async def drive(sim):
    return await Drive.start(sim)


@pytest.mark.behaviour("B090")
async def test_a_topic_is_deleted_by_an_empty_znode(drive):
    await drive.create("orders", [1, 2, 3])
    await drive.create("bills", [1, 2, 3])

    await drive.delete("orders")
    await drive.settle()

    assert drive.tree.children("/brokers/topics") == ("bills",)
    assert is_gone(drive, "orders")
    assert [drive.hosted(broker, "orders") for broker in (1, 2, 3)] == [None] * 3
    assert [drive.hosted(broker, "bills").leader for broker in (1, 2, 3)] == [1] * 3
    assert steps(drive) == ["queued", "started", "completed"]


@pytest.mark.behaviour("B090")
async def test_the_request_to_delete_an_unknown_topic_is_removed(drive):
    drive.forget()

    await drive.delete("nothing")
    await drive.settle()

    assert drive.tree.children("/admin/delete_topics") == ()
    assert steps(drive, "nothing") == ["request removed"]
    assert drive.requests == []


@pytest.mark.behaviour("B090")
async def test_where_deletion_is_disabled_the_request_is_removed_and_the_topic_kept(sim):
    drive = await Drive.start(sim, overrides={"delete_topic_enable": False})
    await drive.create("orders", [2, 3])
    drive.forget()

    await drive.delete("orders")
    await drive.settle()

    assert drive.tree.children("/admin/delete_topics") == ()
    assert steps(drive) == ["request removed"]
    assert drive.requests == []
    assert drive.hosted(2, "orders").is_leader

    drive.cluster.kill(drive.controller_id)
    await drive.delete("orders")  # while nobody reigns: the next controller finds it
    await drive.settle()

    assert drive.tree.children("/admin/delete_topics") == ()
    assert drive.state("orders").leader == 2


@pytest.mark.behaviour("B091")
async def test_a_topic_on_the_move_is_deleted_only_after_its_move(drive):
    await drive.create("orders", {0: [1], 1: [1]})
    await drive.kill(3)
    await drive.reassign({ORDERS: [3]})  # nobody there to catch up
    await drive.settle()

    await drive.delete("orders")
    await drive.settle()

    assert steps(drive) == ["queued", "ineligible"]
    assert drive.context.partition_phase(ORDERS) is PartitionPhase.ONLINE
    assert drive.cached(2, "orders").leader == 1
    assert drive.exists("/admin/delete_topics/orders")

    await drive.restart(3)

    assert is_gone(drive, "orders")
    assert steps(drive)[-2:] == ["started", "completed"]
    assert drive.hosted(3, "orders") is None


@pytest.mark.behaviour("B091")
async def test_a_topic_queued_for_deletion_is_not_moved(drive):
    await drive.create("orders", [2, 3])
    await drive.kill(3)
    await drive.delete("orders")
    await drive.settle()
    before = drive.tree.get("/brokers/topics/orders")

    wish = (PartitionReassignment(ORDERS, (1, 2)),)
    request = AlterPartitionReassignments(partitions=wish, timeout_ms=1_000)
    answer = await drive.ask(1, request, ReassignmentsResponse)
    await drive.reassign({ORDERS: [1, 2]})
    await drive.settle()

    codes = [each.error_code for each in answer.partitions]
    assert codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert not drive.exists("/admin/reassign_partitions")
    assert drive.tree.get("/brokers/topics/orders") == before
    assert drive.context.reassigning == {}


@pytest.mark.behaviour("B092")
async def test_a_topic_being_deleted_first_vanishes_from_all_metadata(drive):
    await drive.create("orders", {0: [2, 3], 1: [3, 2]})
    await drive.kill(3)
    drive.forget()

    await drive.delete("orders")
    await drive.settle()

    numbers = (0, 1)
    changes = [(each.partition, each.after) for each in drive.of(PartitionStateChanged)]
    assert changes == [
        *((number, "OfflinePartition") for number in numbers),
        *((number, "NonExistentPartition") for number in numbers),
    ]
    for broker in (1, 2):
        requests = [each.request for each in drive.requests if each.to == broker]
        first = requests[0]
        assert isinstance(first, UpdateMetadata)
        assert [(each.partition.partition, each.leader) for each in first.partitions] == [
            (number, LEADER_DURING_DELETE) for number in numbers
        ]
        assert drive.cached(broker, "orders") is None
        answer = await drive.ask(broker, Metadata(topics=("orders",)), MetadataResponse)
        assert [each.error_code for each in answer.topics] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert drive.exists("/brokers/topics/orders")  # as broker 3 is still away


@pytest.mark.behaviour("B093", "B057", "B132")
async def test_replicas_are_stopped_then_deleted_and_those_on_dead_brokers_waited_for(drive):
    await drive.create("orders", [1, 2, 3])
    await drive.kill(3)
    drive.forget()

    await drive.delete("orders")
    await drive.settle()

    sentinel = LEADER_EPOCH_DURING_DELETE
    assert stops(drive, 1) == stops(drive, 2) == [(False, sentinel), (True, sentinel)]
    changes = [(each.broker, each.after) for each in drive.of(ReplicaStateChanged)]
    assert changes[:5] == [
        (3, "ReplicaDeletionIneligible"),
        (1, "OfflineReplica"),
        (2, "OfflineReplica"),
        (1, "ReplicaDeletionStarted"),
        (2, "ReplicaDeletionStarted"),
    ]
    assert steps(drive) == ["queued", "started", "ineligible"]
    assert drive.context.topics_ineligible == {"orders"}
    assert drive.exists("/brokers/topics/orders/partitions/0/state")
    assert drive.sent(LeaderAndIsr) == []  # nobody follows in what is about to go


@pytest.mark.behaviour("B094", "B134")
async def test_a_broker_that_could_not_delete_makes_its_replica_wait(sim, drive):
    await drive.create("orders", [1, 2, 3])
    sim.hold("broker-1", "broker-3")
    await drive.delete("orders")
    await drive.settle()
    assert phases(drive) == {
        1: ReplicaPhase.DELETION_SUCCESSFUL,
        2: ReplicaPhase.DELETION_SUCCESSFUL,
        3: ReplicaPhase.DELETION_STARTED,
    }
    drive.forget()

    # The disk fails just before the request gets there.
    drive.node(3).replica_manager.ref.tell(LogDirFailed(frozenset({ORDERS})))
    sim.heal()
    await drive.settle()

    changes = [(each.broker, each.before, each.after) for each in drive.of(ReplicaStateChanged)]
    assert changes == [
        (3, "ReplicaDeletionStarted", "ReplicaDeletionIneligible"),
        (3, "ReplicaDeletionIneligible", "OfflineReplica"),  # B096
    ]
    assert steps(drive) == ["ineligible"]
    assert drive.exists("/brokers/topics/orders")


@pytest.mark.behaviour("B094")
async def test_an_answer_that_no_deletion_waits_for_changes_nothing(drive):
    await drive.create("orders", [2, 3])
    drive.forget()

    await drive.reassign({ORDERS: [2, 1]})  # deletes the replica on 3, which also answers
    await drive.settle()

    assert stops(drive, 3)[-1][0]
    assert drive.of(TransitionRefused) == []
    assert drive.context.replica_phases[ORDERS].keys() == {1, 2}


@pytest.mark.behaviour("B095")
async def test_when_all_replicas_are_deleted_nothing_of_the_topic_stays(drive):
    await drive.configure("topics", "orders", retention_ms="1000")
    await drive.create("orders", {0: [1, 2], 1: [2, 3]})
    await drive.keeper.create("/brokers/topics/orders/partitions/0/left", b"by a stranger")
    drive.forget()

    await drive.delete("orders")
    await drive.settle()

    assert is_gone(drive, "orders")
    operations = [each for written in drive.transactions for each in written.operations]
    deleted = [each.path for each in operations if isinstance(each, Delete)]
    assert "/config/topics/orders" in deleted[:-3]  # before: the name may be taken again at once
    assert deleted[-2:] == [
        "/brokers/topics/orders",
        "/admin/delete_topics/orders",
    ]
    changes = drive.of(ReplicaStateChanged)[-4:]
    assert {(each.before, each.after) for each in changes} == {
        ("ReplicaDeletionSuccessful", "NonExistentReplica")
    }
    context = drive.context
    assert context.assignments == context.leaderships == context.partition_phases == {}
    assert context.topics_to_delete == {}
    assert context.topics_deleting == context.topics_ineligible == set()


@pytest.mark.behaviour("B095")
async def test_the_end_of_a_topic_takes_no_configuration_from_the_next_of_its_name(drive):
    await drive.configure("topics", "orders", retention_ms="1")
    await drive.create("orders", [1, 2])
    path, commit = "/config/topics/orders", drive.tree.commit
    new = [Create(path, b"new"), Create("/brokers/topics/orders", b"new")]

    def create_at_once(operations, owner, now_ms):
        done = commit(operations, owner, now_ms)
        if Delete("/brokers/topics/orders") in operations:
            commit([each for each in new if not drive.exists(each.path)], 0, 0)
        return done

    drive.tree.commit = create_at_once
    await drive.delete("orders")
    await drive.settle()

    assert drive.tree.get(path).data == b"new"


@pytest.mark.behaviour("B091", "B097")
async def test_whether_a_topic_is_held_by_a_move_is_known_without_a_walk(drive):
    await drive.create("orders", {0: [1, 2], 1: [1, 2]})
    first, second = drive.context.partitions_of("orders")

    for partition in (first, second, first):
        drive.context.begin_move(partition)
    drive.context.end_move(first)
    assert drive.context.is_held_by_move("orders")
    drive.context.end_move(second)
    drive.context.end_move(second)

    assert not drive.context.is_held_by_move("orders")
    assert drive.context.reassigning == {}


@pytest.mark.behaviour("B095")
async def test_a_deleted_topic_may_come_again_at_once(sim, drive):
    await drive.create("orders", [1, 2])
    await drive.delete("orders")
    await sim.until(lambda: not drive.exists("/brokers/topics/orders"))

    await drive.write_topic("orders", {0: [3, 2]})
    await drive.settle()

    assert drive.state("orders").leader == 3
    assert drive.state("orders").leader_epoch == 0
    assert drive.hosted(2, "orders").leader == 3
    assert drive.cached(1, "orders").leader == 3
