"""Bugs that Kafka had around the controller itself: each runs with its guard and without it."""

import asyncio

import pytest

from actors.broker.fence import Fence
from actors.broker.registration import Registration
from actors.controller import controller as controller_module
from actors.controller.controller import Controller
from actors.controller.outbox import Outbox
from actors.controller.store import Store
from runtime.keeper import KeeperError
from runtime.network import CallTimedOut
from runtime.session import SessionKeeper
from tests.support.drive import Drive
from wire.admin import (
    AlterPartitionReassignments,
    AlterPartitionReassignmentsResponse,
    ElectionType,
    ElectLeaders,
    ElectLeadersResponse,
    PartitionReassignment,
)
from wire.control import LeaderAndIsr
from wire.errors import ErrorCode
from wire.ids import TopicPartition
from wire.trace import (
    ControllerEventFailed,
    ControllerResigned,
    ControlRequestRefused,
    NodeStopped,
)
from wire.znodes import ReplicaAssignment

ORDERS = TopicPartition("orders", 0)
MOVE = AlterPartitionReassignments(
    partitions=(PartitionReassignment(ORDERS, (4, 3)),), timeout_ms=10_000
)


@pytest.fixture
async def drive(sim):
    return await Drive.start(sim, brokers=4)


@pytest.fixture(params=[True, False], ids=["guarded", "unguarded"])
def guarded(request):
    return request.param


# --- H1: KAFKA-532 --------------------------------------------------------------------------------


@pytest.mark.behaviour("H1")
async def test_what_a_controller_sent_before_its_pause_has_no_effect_after_its_fall(
    sim, drive, monkeypatch, guarded
):
    if not guarded:
        monkeypatch.setattr(Fence, "check", lambda self, request: None)
    sim.hold("broker-1", "broker-3")
    await drive.create("orders", [2, 4])  # broker 3 shall hear that 2 leads
    assert drive.cached(3, "orders") is None

    sim.pause("broker-1")  # past its session
    await drive.settle()
    await drive.kill(2)  # the next controller lets 4 lead
    decided = drive.cached(3, "orders")
    assert (decided.leader, decided.controller_epoch > 1) == (4, True)
    sim.heal()  # the old word arrives
    await sim.sleep(100)
    sim.resume("broker-1")
    await drive.settle()

    assert drive.state("orders").leader == 4
    assert drive.controller_id != 1
    if guarded:
        assert drive.cached(3, "orders") == decided
        refused = ControlRequestRefused("UpdateMetadata", 1, 1, "STALE_CONTROLLER_EPOCH")
        assert refused in drive.of(ControlRequestRefused)
    else:
        assert drive.cached(3, "orders").leader == 2  # dead, and deposed by a newer controller


# --- H3: KAFKA-6082 -------------------------------------------------------------------------------


async def unfenced(self, operations):
    """Store.write as it was before 2.1."""
    return await self.keeper.write(operations)


@pytest.mark.behaviour("H3")
async def test_the_late_write_of_a_deposed_controller_does_not_land(
    sim, drive, monkeypatch, guarded
):
    if not guarded:
        monkeypatch.setattr(Store, "write", unfenced)
    await drive.create("orders", [2, 3])
    winner = await drive.depose_unawares()
    asked = asyncio.ensure_future(drive.ask(1, MOVE, AlterPartitionReassignmentsResponse))
    await sim.sleep(10)

    sim.heal()
    answer = await asked
    await drive.settle()

    assert drive.controller_id == winner != 1
    believed = drive.context.assignments[ORDERS]
    assert believed == ReplicaAssignment(replicas=(2, 3))
    if guarded:
        assert answer.error_code is ErrorCode.NOT_CONTROLLER
        assert drive.assignment("orders") == believed
    else:
        assert (
            drive.assignment("orders") != believed
        )  # a move of which its controller knows nothing


# --- H6: KAFKA-1387, KAFKA-7165 -------------------------------------------------------------------


@pytest.mark.behaviour("H6")
async def test_a_broker_registers_although_its_former_registration_lingers(
    sim, drive, monkeypatch, guarded
):
    if not guarded:
        monkeypatch.setattr(SessionKeeper, "previous_session_id", 0)
        nobody = property(lambda self: -1, lambda self, session: None)
        monkeypatch.setattr(Registration, "_registered_by", nobody, raising=False)
    before = drive.tree.get("/brokers/ids/2")
    monkeypatch.setattr(drive.tree, "ephemerals_of", lambda session: ())  # the server is slow

    sim.expire_session("broker-2")
    await sim.sleep(1_000)

    now = drive.tree.get("/brokers/ids/2")
    if guarded:
        assert now.stat.czxid > before.stat.czxid
        assert now.stat.ephemeral_owner == drive.node(2).world.keeper.session_id
        assert drive.node(2).broker_epoch == now.stat.czxid
    else:
        assert now == before
        assert "BrokerIdTaken" in drive.of(NodeStopped)[-1].reason


# --- H9: KAFKA-2300 -------------------------------------------------------------------------------


def never_clear_but_after_sending(monkeypatch):
    """As before KAFKA-2300: what an error leaves in the batch stays there."""
    send, clear = Outbox.send, Outbox.clear

    def send_then_clear(self):
        send(self)
        clear(self)

    monkeypatch.setattr(Outbox, "send", send_then_clear)
    monkeypatch.setattr(Outbox, "clear", lambda self: None)


async def never_give_up(self, reason):
    """As before KAFKA-2300: who cannot send stays in office."""


@pytest.mark.behaviour("H9")
@pytest.mark.parametrize("guards", [2, 1, 0], ids=["guarded", "half guarded", "unguarded"])
async def test_after_an_error_between_add_and_send_the_controller_works_or_resigns(
    drive, monkeypatch, guards
):
    if guards < 2:
        never_clear_but_after_sending(monkeypatch)
    if guards < 1:
        monkeypatch.setattr(Controller, "_give_up", never_give_up)
    await fail_between_add_and_send(drive)

    await drive.create("later", [2, 3])
    await drive.settle()

    resigned = [each.broker for each in drive.of(ControllerResigned)]
    if guards == 2:
        assert (drive.controller_id, resigned) == (1, [])
    elif guards == 1:
        assert (drive.controller_id != 1, resigned) == (True, [1])
    if guards:
        assert drive.state("later").controller_epoch == drive.context.epoch
        assert drive.hosted(2, "later").is_leader
    else:
        assert (drive.controller_id, resigned) == (1, [])  # active, yet of no use
        assert not drive.exists("/brokers/topics/later/partitions")
        assert "BatchNotEmpty" in drive.of(ControllerEventFailed)[-1].error


async def fail_between_add_and_send(drive):
    """Two partitions wait for broker 4; the first is added, then the second one fails the event."""
    await drive.create("offline", [4])
    await drive.kill(4)
    await drive.create("new", [4])
    store = drive.reign.office.store
    read = store.read_changeable

    async def fail_once(partitions, epoch):
        store.read_changeable = read
        raise KeeperError("/brokers/topics/offline", "out of order")

    store.read_changeable = fail_once
    drive.forget()

    await drive.restart(4)

    failed, *_ = drive.of(ControllerEventFailed)
    assert "out of order" in failed.error
    assert drive.state("new").leader == 4  # added
    told = [each.partition.topic for sent in drive.sent(LeaderAndIsr) for each in sent.partitions]
    assert "new" not in told  # not sent


# --- H47: KAFKA-10193 -----------------------------------------------------------------------------


@pytest.mark.behaviour("H47")
async def test_a_queued_request_is_answered_when_the_session_expires(
    sim, drive, monkeypatch, guarded
):
    if not guarded:
        monkeypatch.setattr(controller_module, "preempted", lambda message: None)
    await drive.create("orders", [2, 3])
    elect = ElectLeaders(election_type=ElectionType.PREFERRED, timeout_ms=10_000)
    sim.cut("broker-1", "zookeeper")
    busy = asyncio.ensure_future(drive.ask(1, MOVE, AlterPartitionReassignmentsResponse))
    await sim.sleep(10)
    queued = asyncio.ensure_future(drive.ask(1, elect, ElectLeadersResponse))
    await sim.sleep(10)

    sim.expire_session("broker-1")
    sim.heal()

    assert (await busy).error_code is ErrorCode.NOT_CONTROLLER
    if guarded:
        assert (await queued).error_code is ErrorCode.NOT_CONTROLLER
    else:
        with pytest.raises(CallTimedOut):
            await queued
