"""What a deposed controller cannot do, and what stops it: in ZooKeeper, and in the brokers."""

import asyncio

import pytest
from msgspec.structs import replace

from actors.broker.replica_manager import ShrinkIsr
from actors.controller.context import PartitionPhase
from actors.controller.election import Strategy
from actors.controller.outbox import BatchNotEmpty
from actors.controller.store import Store
from runtime.keeper import Check, Delete, Set
from tests.support.drive import Drive
from wire.admin import (
    AlterPartitionReassignments,
    AlterPartitionReassignmentsResponse,
    PartitionReassignment,
)
from wire.control import UpdateMetadata
from wire.errors import ControllerMoved, ErrorCode
from wire.ids import BrokerId, TopicPartition
from wire.trace import (
    ActorCrashed,
    ControllerElected,
    ControllerEventFailed,
    ControllerResigned,
    ElectionFailed,
    IsrChanged,
    LeaderElected,
    ReplicaLeftIsr,
)
from wire.znodes import (
    ControllerEpochZNode,
    ControllerZNode,
    PartitionState,
    PartitionStateZNode,
    TopicZNode,
)

CONTROLLER, EPOCH = ControllerZNode.path(), ControllerEpochZNode.path()
ORDERS = TopicPartition("orders", 0)
ORDERS_STATE = PartitionStateZNode.path(ORDERS)


@pytest.fixture
async def drive(sim):
    """Broker 1 is the controller and nothing else: all that it writes, it writes as one."""
    drive = await Drive.start(sim, brokers=4)
    await drive.create("orders", [2, 3])
    return drive


def move(*replicas):
    return AlterPartitionReassignments(
        partitions=(PartitionReassignment(ORDERS, tuple(map(BrokerId, replicas))),),
        timeout_ms=10_000,
    )


def written_by(drive, node):
    return [each.operations for each in drive.transactions if each.node == node]


# --- in ZooKeeper ---------------------------------------------------------------------------------


@pytest.mark.behaviour("B006")
async def test_every_write_of_the_controller_begins_with_a_check_of_its_epoch(drive):
    drive.forget()
    await drive.create("payments", {0: [2, 3], 1: [3, 4]})
    await drive.reassign({TopicPartition("payments", 0): [3, 4]})
    await drive.settle()
    await drive.kill(2)
    await drive.restart(2)
    await drive.prefer(ORDERS)
    await drive.settle()
    await drive.delete("payments")
    await drive.settle()

    written = written_by(drive, "broker-1")
    assert not drive.exists("/brokers/topics/payments")
    assert {type(part).__name__ for each in written for part in each[1:]} == {
        "Create",
        "Set",
        "Delete",
    }
    assert {part.path.split("/")[1] for each in written for part in each[1:]} >= {
        "brokers",
        "admin",
        "isr_change_notification",
    }
    assert {each[0] for each in written} == {Check(EPOCH, 1)}
    assert all(len(each) > 1 for each in written)


@pytest.mark.behaviour("B006", "B016")
async def test_a_deposed_controller_writes_nothing_resigns_and_says_so(sim, drive):
    before = drive.tree.get(TopicZNode.path("orders"))
    winner = await drive.depose_unawares()
    asked = asyncio.ensure_future(drive.ask(1, move(4, 3), AlterPartitionReassignmentsResponse))
    await sim.sleep(10)
    drive.forget()

    sim.heal()
    answer = await asked
    await drive.settle()

    assert answer.error_code is ErrorCode.NOT_CONTROLLER
    assert drive.tree.get(TopicZNode.path("orders")) == before
    assert [each[0] for each in written_by(drive, "broker-1")] == [Check(EPOCH, 1)]
    (failed,) = drive.of(ControllerEventFailed)  # its reads went well (B007)
    assert failed.event == "AlterPartitionReassignments"
    assert "/controller_epoch version 1 is not current" in failed.error
    reason = f"broker {winner} is the controller"
    assert drive.of(ControllerResigned) == [ControllerResigned(1, 1, reason)]
    assert [each for each in drive.requests if each.source == "broker-1"] == []
    assert drive.controller_id == winner


@pytest.mark.behaviour("B007")
async def test_a_deposed_controller_still_reads_but_its_write_fails(sim, drive):
    await drive.keeper.delete(CONTROLLER)
    await drive.settle()
    await drive.kill(2)  # decided under a later epoch than 1
    deposed = Store(drive.keeper, sim.trace.at("tool"), epoch_version=1)
    state, version = drive.state("orders"), drive.version("orders")

    found = (await deposed.read_states([ORDERS]))[ORDERS]

    assert (found.leader, found.partition_epoch) == (3, version)
    assert found.controller_epoch == drive.context.epoch > 1
    with pytest.raises(ControllerMoved):
        await deposed.write_states({ORDERS: (state, version)})
    assert drive.version("orders") == version


@pytest.mark.behaviour("B025")
async def test_no_election_overwrites_what_a_newer_controller_decided(drive):
    newer = PartitionState(
        controller_epoch=9, leader=BrokerId(2), leader_epoch=4, isr=(BrokerId(2), BrokerId(3))
    )
    await drive.keeper.set(ORDERS_STATE, PartitionStateZNode.encode(newer))
    drive.forget()

    await drive.kill(2)

    assert (drive.state("orders"), drive.version("orders")) == (newer, 1)
    assert drive.of(LeaderElected) == drive.of(ReplicaLeftIsr) == []
    election, leaving = drive.of(ElectionFailed)
    assert election.strategy == Strategy.OFFLINE.value
    assert leaving.strategy == "OfflineReplica"
    assert "orders-0 was decided by controller epoch 9, which is after 1" in election.error
    # As in Kafka that partition fails; the event does not, and the controller stays.
    assert drive.of(ControllerEventFailed) == []
    assert drive.controller_id == 1
    assert drive.of(ControllerResigned) == []


@pytest.mark.behaviour("B025", "B058")
@pytest.mark.parametrize("is_failover", [False, True])
async def test_a_strange_epoch_in_one_state_hinders_no_other_partition(drive, is_failover):
    payments = await drive.create("payments", [4, 3])
    strange = PartitionState(
        controller_epoch=99, leader=BrokerId(4), leader_epoch=0, isr=(BrokerId(4), BrokerId(3))
    )
    await drive.create("strange", [4, 3])
    await drive.write_state(TopicPartition("strange", 0), strange)

    if is_failover:
        drive.vanish(1)
    drive.vanish(4)
    await drive.sim.sleep(10_000)  # not `settle`: 3 goes on asking 4

    assert drive.state("strange") == strange
    assert drive.state("payments").leader == 3
    assert drive.context.partition_phase(payments) is PartitionPhase.ONLINE
    assert drive.of(ControllerEventFailed) == []


# --- what goes wrong ------------------------------------------------------------------------------


@pytest.mark.behaviour("B016")
async def test_an_event_that_fails_does_not_stop_the_next(drive):
    await drive.kill(4)
    await drive.reassign({ORDERS: [4]})
    await drive.settle()
    path = TopicZNode.path("orders")
    data = drive.tree.get(path).data
    await drive.keeper.set(path, b"neither can this be read nor changed")
    drive.forget()

    await drive.restart(4)  # the move could end now
    await drive.keeper.set(path, data)
    await drive.create("payments", [3, 4])

    failed = drive.of(ControllerEventFailed)[-1]
    assert failed.event == "WatchEvent"
    assert "MalformedZNode" in failed.error
    assert drive.state("payments").leader == 3
    assert drive.controller_id == 1
    assert drive.context.offline_partition_count == 0  # as of now, not of before the failure


@pytest.mark.behaviour("B016", "B006")
async def test_a_session_that_ends_while_a_deposed_controller_resigns_kills_nobody(sim, drive):
    await drive.depose_unawares()
    drive.at_first(ControllerEventFailed, lambda: sim.expire_session("broker-1"))
    asked = asyncio.ensure_future(drive.ask(1, move(4, 3), AlterPartitionReassignmentsResponse))
    await sim.sleep(10)

    sim.heal()
    answer = await asked
    await drive.settle()

    assert answer.error_code is ErrorCode.NOT_CONTROLLER
    assert drive.of(ActorCrashed) == []
    assert drive.of(ControllerResigned) == [ControllerResigned(1, 1, "its session has expired")]
    assert drive.exists("/brokers/ids/1")


@pytest.mark.behaviour("B011")
async def test_a_batch_that_cannot_be_sent_is_cleared_and_costs_the_office(drive):
    outbox = drive.reign.office.outbox
    outbox.add_metadata((ORDERS,), [BrokerId(2)])  # as a bug between add and send would leave it
    drive.forget()

    await drive.create("payments", [3, 4])
    await drive.settle()

    failed, *_ = drive.of(ControllerEventFailed)
    assert failed.event == "WatchEvent"
    assert failed.error.startswith(BatchNotEmpty.__name__)
    assert drive.of(ControllerResigned)[0].broker == 1
    assert (Check(EPOCH, 1), Delete(CONTROLLER)) in written_by(drive, "broker-1")
    outbox.begin()  # it is empty
    assert {each.controller_epoch for each in drive.sent(UpdateMetadata)} == {2}
    assert drive.of(ControllerElected)[0].controller_epoch == 2
    assert drive.state("payments") == PartitionState(
        controller_epoch=2, leader=BrokerId(3), leader_epoch=0, isr=(BrokerId(3), BrokerId(4))
    )


@pytest.mark.behaviour("B011", "B019")
async def test_a_request_that_finds_a_batch_unsent_is_answered_all_the_same(drive):
    drive.reign.office.outbox.add_metadata((ORDERS,), [BrokerId(2)])

    answer = await drive.ask(1, move(4, 3), AlterPartitionReassignmentsResponse)
    await drive.settle()

    assert answer.error_code is ErrorCode.NOT_CONTROLLER
    assert drive.of(ControllerElected)[-1].controller_epoch == 2


# --- a leader's own writes ------------------------------------------------------------------------


@pytest.mark.behaviour("B008")
async def test_a_leaders_isr_write_keeps_its_controller_epoch_though_another_one_reigns(sim, drive):
    await drive.keeper.delete(CONTROLLER)
    await drive.settle()
    assert drive.tree.get(EPOCH).data == b"2"
    drive.forget()

    drive.shrink(3, ORDERS)
    await sim.sleep(100)

    wanted = PartitionState(
        controller_epoch=1, leader=BrokerId(2), leader_epoch=0, isr=(BrokerId(2),)
    )
    assert (drive.state("orders"), drive.version("orders")) == (wanted, 1)
    assert written_by(drive, "broker-2") == [
        (Set(ORDERS_STATE, PartitionStateZNode.encode(wanted), 0),)
    ]


@pytest.mark.behaviour("B008")
async def test_a_leaders_isr_write_fails_at_another_version_of_the_state(sim, drive):
    moved_on = replace(drive.state("orders"), leader=BrokerId(3), leader_epoch=1)
    await drive.keeper.set(ORDERS_STATE, PartitionStateZNode.encode(moved_on))
    before = drive.hosted(2, "orders")

    shrink = ShrinkIsr((ORDERS,), frozenset({BrokerId(3)}))
    drive.node(2).replica_manager.ref.tell(shrink)
    await sim.sleep(100)

    assert (drive.state("orders"), drive.version("orders")) == (moved_on, 1)
    assert drive.hosted(2, "orders") == before
    assert drive.of(IsrChanged) == []


@pytest.mark.behaviour("B022")
async def test_a_leader_recognises_an_isr_write_whose_answer_was_lost(sim, drive):
    payments = await drive.create("payments", [2, 3, 4])
    sim.lose_reply("broker-2")
    drive.forget()

    drive.shrink(4, payments)
    await sim.sleep(100)

    assert len(written_by(drive, "broker-2")) == 2  # applied, then refused
    assert (drive.state("payments").isr, drive.version("payments")) == ((2, 3), 1)
    leader = drive.hosted(2, "payments")
    assert (leader.isr, leader.partition_epoch) == ((2, 3), 1)
    assert drive.of(IsrChanged) == [IsrChanged("payments", 0, 0, "2,3", 1)]

    drive.shrink(3, payments)  # this write expects the right version
    await sim.sleep(100)

    assert (drive.state("payments").isr, drive.version("payments")) == ((2,), 2)
