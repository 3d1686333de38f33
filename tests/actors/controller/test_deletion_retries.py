"""Deletions that have to wait, and what is not done for topics meanwhile: B096 to B098."""

import pytest

from actors.controller.context import ReplicaPhase
from actors.controller.events import StopReplicaAnswered
from tests.support.deletions import ORDERS, is_gone, phases, steps, stops
from tests.support.drive import Drive
from wire.control import StopReplica, StopReplicaPartition, StopReplicaResponse
from wire.errors import ErrorCode
from wire.ids import LEADER_EPOCH_DURING_DELETE, TopicPartition
from wire.message import PartitionResult
from wire.trace import ElectionFailed, LeaderElected, PartitionStateChanged, ReplicaRoleChanged


@pytest.fixture
async def drive(sim):
    return await Drive.start(sim)


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


@pytest.mark.behaviour("B094")
async def test_an_answer_of_a_brokers_former_life_does_not_fail_the_present_deletion(sim, drive):
    orders = await drive.create("orders", [2, 3])
    former = drive.context.brokers[2].epoch
    await drive.bounce(2)
    sim.hold("broker-1", "broker-2")  # so the deletion has begun and is not answered yet
    await drive.delete("orders")
    await sim.sleep(500)
    refused = StopReplicaResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
    drive.controller.controller.ref.tell(
        StopReplicaAnswered(2, drive.context.epoch, refused, frozenset({orders}), former)
    )
    await sim.sleep(500)
    sim.heal()
    await drive.settle()

    assert not drive.exists("/brokers/topics/orders")
