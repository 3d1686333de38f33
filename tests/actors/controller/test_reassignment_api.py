"""A partition moves because AlterPartitionReassignments says so: B104 to B108.

Broker 1 is the controller and holds no replica.
"""

import pytest

from actors.controller.context import Replica, ReplicaPhase
from actors.controller.moves import origin_of
from tests.support.drive import Drive
from tests.support.moves import MoveInvariants, stall
from wire.admin import (
    AlterPartitionReassignments,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignments,
    ListPartitionReassignmentsResponse,
    OngoingReassignment,
    PartitionReassignment,
)
from wire.admin_znodes import ReassignPartitionsZNode
from wire.control import (
    ControlledShutdown,
    ControlledShutdownResponse,
    LeaderAndIsr,
    StopReplica,
)
from wire.errors import ErrorCode
from wire.ids import TopicPartition
from wire.message import PartitionResult
from wire.trace import ReassignmentStep, ReplicaStateChanged
from wire.znodes import ReplicaAssignment

REQUEST = ReassignPartitionsZNode.path()


@pytest.fixture
async def drive(sim):
    drive = await Drive.start(sim, brokers=5)
    invariants = MoveInvariants(drive)
    yield drive
    assert invariants.broken == []


def assignment(*replicas, adding=(), removing=()):
    return ReplicaAssignment(
        replicas=replicas, adding_replicas=tuple(adding), removing_replicas=tuple(removing)
    )


async def done(drive):
    """Mend all links, and wait until nothing is on the move."""
    drive.sim.heal()
    await drive.sim.until(lambda: not drive.context.reassigning)
    await drive.settle()


# --- moving, listing ------------------------------------------------------------------------------


@pytest.mark.behaviour("B106")
async def test_a_move_is_accepted_at_once_and_listed_until_it_is_over(drive):
    orders = await drive.create("orders", [2, 3])
    await drive.create("users", [2])

    await stall(drive, orders, [3, 4], missing=4)

    expected = OngoingReassignment(
        partition=orders, replicas=(3, 4, 2), adding_replicas=(4,), removing_replicas=(2,)
    )
    assert await drive.ongoing() == {orders: expected}
    assert await drive.ongoing(orders) == {orders: expected}
    assert await drive.ongoing(TopicPartition("users", 0)) == {}

    await done(drive)

    assert await drive.ongoing() == {}
    assert drive.assignment("orders") == assignment(3, 4)
    assert drive.state("orders").leader == 3
    assert not drive.exists(REQUEST)  # and never was


@pytest.mark.behaviour("B106")
@pytest.mark.parametrize(
    ("target", "error"),
    [
        ([], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([2, 3, 3], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([2, -1], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([2, 5], ErrorCode.INVALID_REPLICA_ASSIGNMENT),  # 5 is dead
        ([2, 99], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
    ],
)
async def test_a_faulty_move_is_refused_and_the_others_of_its_request_go_on(drive, target, error):
    orders = await drive.create("orders", [2])
    users = await drive.create("users", [2])
    await drive.kill(5)

    response = await drive.alter({orders: target, users: [3]})
    await drive.settle()

    assert response.error_code is ErrorCode.NONE
    assert {each.partition: each.error_code for each in response.partitions} == {
        orders: error,
        users: ErrorCode.NONE,
    }
    assert drive.assignment("orders") == assignment(2)
    assert {each.topic for each in drive.of(ReassignmentStep)} == {"users"}
    assert drive.assignment("users") == assignment(3)


@pytest.mark.behaviour("B106")
async def test_a_dead_broker_may_stay_but_not_come(drive):
    orders = await drive.create("orders", [2, 5])
    await drive.kill(5)

    response = await drive.alter({orders: [5, 2, 3]})
    await drive.settle()

    assert response.partitions[0].error_code is ErrorCode.NONE
    assert drive.assignment("orders") == assignment(5, 2, 3, adding=[3])  # waits for 5


@pytest.mark.behaviour("B106")
async def test_a_broker_that_is_leaving_is_not_moved_to(drive):
    orders = await drive.create("orders", [2])
    leaving = ControlledShutdown(broker_id=5, broker_epoch=drive.node(5).broker_epoch)
    await drive.ask(1, leaving, ControlledShutdownResponse)

    response = await drive.alter({orders: [5]})

    assert response.partitions[0].error_code is ErrorCode.INVALID_REPLICA_ASSIGNMENT


@pytest.mark.behaviour("B106")
@pytest.mark.parametrize("target", [[3], None])
async def test_what_is_not_there_cannot_be_moved(drive, target):
    await drive.create("orders", [2])
    doomed = await drive.create("doomed", [3, 4])
    await drive.kill(4)  # so that the deletion cannot end
    await drive.delete("doomed")
    await drive.settle()

    unknown = TopicPartition("orders", 1)
    response = await drive.alter({unknown: target, doomed: target})

    assert {each.partition: each.error_code for each in response.partitions} == {
        unknown: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        doomed: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert drive.of(ReassignmentStep) == []


@pytest.mark.behaviour("B106")
async def test_only_the_controller_moves_and_lists(drive):
    orders = await drive.create("orders", [2])
    alter = AlterPartitionReassignments(
        partitions=(PartitionReassignment(orders, (3,)),), timeout_ms=1_000
    )
    listing = ListPartitionReassignments(timeout_ms=1_000)

    altered = await drive.ask(2, alter, AlterPartitionReassignmentsResponse)
    listed = await drive.ask(2, listing, ListPartitionReassignmentsResponse)
    await drive.settle()

    assert (altered.error_code, altered.partitions) == (ErrorCode.NOT_CONTROLLER, ())
    assert (listed.error_code, listed.partitions) == (ErrorCode.NOT_CONTROLLER, ())
    assert drive.assignment("orders") == assignment(2)


# --- the newest request wins ----------------------------------------------------------------------


@pytest.mark.behaviour("B105", "B107")
async def test_a_new_target_overrides_the_old_one_and_the_origin_is_kept(drive):
    orders = await drive.create("orders", [2, 3])
    await stall(drive, orders, [4, 5], missing=5)
    assert drive.state("orders").isr == (2, 3, 4)
    drive.forget()

    response = await drive.alter({orders: [3, 5]})
    await drive.sim.sleep(1_000)

    now = drive.assignment("orders")
    assert response.partitions == (PartitionResult(orders),)
    assert now == assignment(3, 5, 2, adding=[5], removing=[2])
    assert origin_of(now) == (3, 2)
    assert set(drive.state("orders").isr) == {2, 3}  # 4 has left, without having been asked for
    assert [each.partitions[0].delete for each in drive.sent(StopReplica, 4)] == [False, True]
    assert drive.hosted(4, "orders") is None
    assert [each.step for each in drive.of(ReassignmentStep)] == ["U1", "U2", "A1", "A2"]

    await done(drive)

    assert drive.assignment("orders") == assignment(3, 5)


@pytest.mark.behaviour("B105", "B107")
async def test_a_replica_that_is_in_sync_before_its_move_goes_on_is_known_from_then_on(drive):
    orders = await drive.create("orders", [2, 3])
    await stall(drive, orders, [2, 4], missing=4)
    drive.at_first(
        ReplicaStateChanged,
        lambda: drive.sim.cut("broker-1", "zookeeper"),  # the controller pauses for a moment
        lambda event: event.after == "NonExistentReplica",
    )

    asking = drive.sim.loop.create_task(drive.alter({orders: [2, 5]}))
    await drive.sim.until(lambda: 5 in drive.state("orders").isr)  # told as 4 was stopped
    drive.sim.heal()
    await asking
    await drive.settle()

    assert drive.assignment("orders") == assignment(2, 5)
    assert drive.context.replica_phase(Replica(orders, 5)) is ReplicaPhase.ONLINE
    await drive.kill(5)
    assert drive.state("orders").isr == (2,)


@pytest.mark.behaviour("B107")
async def test_a_request_to_the_api_takes_the_partition_out_of_the_request_in_zookeeper(drive):
    orders = await drive.create("orders", [2])
    users = await drive.create("users", [2])
    await drive.kill(5)
    await drive.reassign({orders: [5], users: [5]})
    await drive.settle()
    drive.forget()

    await drive.alter({orders: [4]})
    await drive.settle()

    assert drive.assignment("orders") == assignment(4)
    assert drive.assignment("users") == assignment(5, 2, adding=[5], removing=[2])
    left = ReassignPartitionsZNode.decode(drive.tree.get(REQUEST).data)
    assert left == {users: (5,)}
    paths = [each.operations[-1].path for each in drive.transactions if each.node == "broker-1"]
    assert paths[0] == REQUEST  # first of all: else the next controller would go back to 5


@pytest.mark.behaviour("B107")
async def test_a_request_in_zookeeper_overrides_one_to_the_api(drive):
    orders = await drive.create("orders", [2])
    await stall(drive, orders, [5], missing=5)

    await drive.reassign({orders: [4]})
    await drive.sim.until(lambda: not drive.exists(REQUEST))
    await drive.sim.sleep(1_000)

    assert drive.assignment("orders") == assignment(4)
    assert drive.hosted(5, "orders") is None


# --- cancelling -----------------------------------------------------------------------------------


@pytest.mark.behaviour("B106", "B108")
async def test_a_cancelled_move_goes_back_and_deletes_what_was_added(drive):
    orders = await drive.create("orders", [2, 3])
    await stall(drive, orders, [4, 5], missing=5)
    drive.forget()

    response = await drive.alter({orders: None})
    await drive.sim.sleep(1_000)

    state = drive.state("orders")
    assert response.partitions == (PartitionResult(orders),)
    assert drive.assignment("orders") == assignment(2, 3)
    assert (state.leader, state.isr) == (2, (2, 3))
    for broker in (4, 5):
        assert [each.partitions[0].delete for each in drive.sent(StopReplica, broker)] == [
            False,
            True,
        ]
        assert drive.hosted(broker, "orders") is None
    last = drive.sent(LeaderAndIsr, 2)[-1].partitions[0]
    assert (last.leader_epoch, last.replicas) == (state.leader_epoch, (2, 3))
    assert await drive.ongoing() == {}

    again = await drive.alter({orders: None})
    assert again.partitions[0].error_code is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


@pytest.mark.behaviour("B108")
async def test_a_cancelled_move_may_leave_another_preferred_replica(drive):
    orders = await drive.create("orders", [2, 3, 4])
    await stall(drive, orders, [4, 5], missing=5)
    assert drive.assignment("orders").replicas == (4, 5, 2, 3)

    await drive.alter({orders: None})
    await drive.sim.sleep(1_000)

    assert drive.assignment("orders") == assignment(4, 2, 3)  # it was 2 that was preferred
    assert drive.state("orders").leader == 2


@pytest.mark.behaviour("B108")
async def test_a_move_is_cancelled_although_a_replica_of_its_origin_is_dead(drive):
    orders = await drive.create("orders", [2, 3])
    await stall(drive, orders, [4, 5], missing=5)
    drive.cluster.kill(3)
    await drive.sim.until(lambda: 3 not in drive.state("orders").isr)

    await drive.alter({orders: None})
    await drive.sim.sleep(1_000)

    assert drive.assignment("orders") == assignment(2, 3)
    assert drive.state("orders").isr == (2,)
    assert await drive.ongoing() == {}
