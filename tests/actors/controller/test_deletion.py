"""Topics on their way out, as the controller sees it: B090 to B098."""

import pytest

from actors.broker.replica_manager import LogDirFailed
from actors.controller.context import PartitionPhase, Replica, ReplicaPhase
from runtime.keeper import Delete
from tests.support.drive import Drive
from wire.admin import AlterPartitionReassignments, PartitionReassignment
from wire.admin import AlterPartitionReassignmentsResponse as ReassignmentsResponse
from wire.control import (
    LeaderAndIsr,
    StopReplica,
    StopReplicaPartition,
    StopReplicaResponse,
    UpdateMetadata,
)
from wire.errors import ErrorCode
from wire.ids import LEADER_DURING_DELETE, LEADER_EPOCH_DURING_DELETE, TopicPartition
from wire.message import PartitionResult
from wire.metadata import Metadata, MetadataResponse
from wire.trace import (
    ElectionFailed,
    LeaderElected,
    PartitionStateChanged,
    ReplicaRoleChanged,
    ReplicaStateChanged,
    TopicDeletionStep,
)

ORDERS = TopicPartition("orders", 0)


@pytest.fixture
async def drive(sim):
    return await Drive.start(sim)


def steps(drive, topic="orders"):
    return [event.step for event in drive.of(TopicDeletionStep) if event.topic == topic]


def stops(drive, to, topic="orders"):
    """What a broker was told to stop of a topic: in order, (delete, leader epoch)."""
    return [
        (entry.delete, entry.leader_epoch)
        for request in drive.sent(StopReplica, to)
        for entry in request.partitions
        if entry.partition.topic == topic
    ]


def phases(drive, partition=ORDERS):
    """Where each replica of a partition stands."""
    context = drive.context
    return {
        broker: context.replica_phase(Replica(partition, broker))
        for broker in context.replicas(partition)
    }


def is_gone(drive, topic):
    paths = (f"/brokers/topics/{topic}", f"/config/topics/{topic}", f"/admin/delete_topics/{topic}")
    return not any(map(drive.exists, paths)) and topic not in drive.context.topics


def record_deletes(tree, monkeypatch):
    """The paths that anybody deletes from now on, in order."""
    deleted, commit = [], tree.commit

    def recording(operations, *rest):
        done = commit(operations, *rest)
        deleted.extend(each.path for each in operations if isinstance(each, Delete))
        return done

    monkeypatch.setattr(tree, "commit", recording)
    return deleted


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
async def test_an_answer_that_is_not_waited_for_changes_nothing(sim, drive):
    await drive.create("orders", [2, 3])
    sim.hold("broker-3", "broker-1")  # its answers
    await drive.delete("orders")
    await drive.sim.settle()
    await drive.kill(3)  # ineligible from now on, whatever it would have said
    drive.forget()

    sim.heal()
    await drive.settle()

    assert drive.of(ReplicaStateChanged) == []
    assert phases(drive)[3] is ReplicaPhase.OFFLINE
    assert drive.exists("/admin/delete_topics/orders")


@pytest.mark.behaviour("B095")
async def test_when_all_replicas_are_deleted_nothing_of_the_topic_stays(drive, monkeypatch):
    await drive.configure("topics", "orders", retention_ms="1000")
    await drive.create("orders", {0: [1, 2], 1: [2, 3]})
    await drive.keeper.create("/brokers/topics/orders/partitions/0/left", b"by a stranger")
    deleted = record_deletes(drive.tree, monkeypatch)
    await drive.delete("orders")
    await drive.settle()

    assert is_gone(drive, "orders")
    assert deleted[-3:] == [
        "/brokers/topics/orders",
        "/config/topics/orders",
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


@pytest.mark.behaviour("B096")
async def test_a_deletion_that_failed_is_tried_again_only_when_the_broker_starts(sim, drive):
    await drive.create("orders", [1, 2])
    sim.hold("broker-1", "broker-2")
    await drive.delete("orders")
    await sim.settle()
    await drive.kill(2)
    assert phases(drive) == {1: ReplicaPhase.DELETION_SUCCESSFUL, 2: ReplicaPhase.OFFLINE}
    sim.heal()
    drive.forget()

    await drive.create("bills", [3])  # many events, and none that would help
    await drive.delete("bills")
    await drive.settle()

    assert is_gone(drive, "bills")
    assert stops(drive, 1) == stops(drive, 2) == []
    assert drive.context.topics_ineligible == {"orders"}
    drive.forget()

    await drive.restart(2)

    assert stops(drive, 1) == []  # it is done there
    assert (True, LEADER_EPOCH_DURING_DELETE) in stops(drive, 2)
    assert is_gone(drive, "orders")


@pytest.mark.behaviour("B096")
async def test_a_broker_that_dies_while_others_still_answer_is_set_aside_only_after_them(
    sim, drive
):
    await drive.create("orders", [1, 2, 3])
    sim.hold("broker-1", "broker-2")
    sim.hold("broker-1", "broker-3")
    await drive.delete("orders")
    await sim.settle()

    await drive.kill(3)

    assert phases(drive)[2] is ReplicaPhase.DELETION_STARTED
    assert phases(drive)[3] is ReplicaPhase.DELETION_INELIGIBLE

    sim.heal()
    await drive.settle()

    assert phases(drive)[2] is ReplicaPhase.DELETION_SUCCESSFUL
    assert phases(drive)[3] is ReplicaPhase.OFFLINE


@pytest.mark.behaviour("B097", "B048")
async def test_topics_queued_for_deletion_are_neither_elected_for_nor_counted(sim):
    """A new controller finds the request, and a dead replica that makes the deletion wait."""
    drive = await Drive.start(sim, brokers=4)
    both = {0: [2, 3, 4], 1: [3, 2, 4]}
    await drive.create("orders", both)
    await drive.create("bills", both)
    await drive.create("lone", {0: [2], 1: [3]})
    await drive.kill(4)
    drive.cluster.kill(1)
    await drive.delete("orders")
    await drive.settle()
    victim = 5 - drive.controller_id  # 2 or 3
    led = both[0].index(victim)  # the partition of each topic that it leads
    before = drive.state("orders", led)
    assert (before.leader, steps(drive)) == (victim, [])
    drive.forget()

    await drive.kill(victim)

    assert {event.topic for event in drive.of(LeaderElected)} == {"bills"}
    assert {event.topic for event in drive.of(ElectionFailed)} == {"lone"}
    assert {event.topic for event in drive.of(PartitionStateChanged)} == {"bills", "lone"}
    assert drive.state("orders", led) == before
    assert drive.context.waiting_for_leader() == [TopicPartition("lone", led)]
    assert drive.context.offline_partition_count == 1

    for broker in (victim, 4):
        await drive.restart(broker)

    assert is_gone(drive, "orders")


@pytest.mark.behaviour("B091")
async def test_a_topic_that_waits_for_its_move_keeps_a_leader_so_that_the_move_can_end(drive):
    """Unlike Kafka, which elects nobody for a queued topic and leaves move and topic hanging."""
    await drive.create("orders", [2, 1])
    await drive.kill(3)
    await drive.reassign({ORDERS: [3]})
    await drive.settle()
    await drive.delete("orders")
    await drive.settle()

    await drive.kill(2)
    assert drive.state("orders").leader == 1
    await drive.restart(3)
    await drive.restart(2)

    assert is_gone(drive, "orders")
    assert drive.context.reassigning == {}


@pytest.mark.behaviour("B098")
async def test_a_broker_that_slept_through_a_deletion_deletes_when_it_is_back(drive):
    await drive.create("orders", [1, 2])
    await drive.kill(2)
    await drive.delete("orders")
    await drive.settle()
    drive.forget()

    await drive.restart(2)

    sentinel = LEADER_EPOCH_DURING_DELETE
    assert stops(drive, 2) == [(False, sentinel), (True, sentinel)]
    # When it is told to delete it hosts the partition no longer, and yet its answer counts.
    assert [event.role for event in drive.of(ReplicaRoleChanged)] == ["follower", "stopped"]
    assert drive.hosted(2, "orders") is None
    assert drive.cached(2, "orders") is None
    assert is_gone(drive, "orders")


@pytest.mark.behaviour("B098", "B141")
async def test_a_broker_is_told_to_delete_what_it_does_not_host_and_says_that_it_is_gone(drive):
    stray = TopicPartition("stray", 0)
    request = StopReplica(
        controller_id=1,
        controller_epoch=1,
        broker_epoch=drive.context.brokers[2].epoch,
        partitions=(
            StopReplicaPartition(
                partition=stray, leader_epoch=LEADER_EPOCH_DURING_DELETE, delete=True
            ),
        ),
    )

    answer = await drive.ask(2, request, StopReplicaResponse)

    assert answer == StopReplicaResponse(partitions=(PartitionResult(stray, ErrorCode.NONE),))
