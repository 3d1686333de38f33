"""Bugs that Kafka once had with brokers that die, bounce or are told too late.

Each scenario runs as it is, and once more without the guard that was Kafka's answer: there it must
show the bug, or it would prove nothing.
"""

import pytest

from actors.broker.fence import Fence
from actors.controller.brokers import BrokerDifference
from actors.controller.context import ReplicaPhase
from actors.controller.office import Office
from actors.controller.outbox import Outbox
from actors.controller.replica_states import ReplicaStates
from tests.support.drive import Drive
from tests.support.states import state
from wire.codec import decode
from wire.control import (
    ControlledShutdown,
    ControlledShutdownResponse,
    LeaderAndIsr,
    StopReplica,
    StopReplicaResponse,
)
from wire.errors import ErrorCode
from wire.frame import FrameKind
from wire.ids import NO_CONTROL_SEQUENCE, NO_LEADER_EPOCH, UNKNOWN_BROKER_EPOCH
from wire.trace import BrokersChanged

guarded = pytest.mark.parametrize("is_guarded", [True, False], ids=["guarded", "as it was"])


@pytest.fixture
async def drive(sim):
    # No election but those that a test asks for; broker 1 stays the controller.
    return await Drive.start(sim, brokers=4, overrides={"auto_leader_rebalance_enable": False})


def copies_of_stop_replica(drive, broker):
    """Every StopReplica to a broker from now on, so that a copy of it can arrive late."""
    frames, transmit = [], drive.sim.network.transmit

    def copy(frame):
        is_request = frame.kind is FrameKind.REQUEST and frame.destination == f"broker-{broker}"
        if is_request and isinstance(decode(frame.payload), StopReplica):
            frames.append(frame)
        transmit(frame)

    drive.sim.network.transmit = copy
    return frames


def unnumbered(monkeypatch):
    """Requests as Kafka's: by its number, too, a late copy would be known."""
    monkeypatch.setattr(Outbox, "_next_sequence", lambda self: NO_CONTROL_SEQUENCE)


# --- H11, KAFKA-7235 and KIP-380 ------------------------------------------------------------------


@pytest.mark.behaviour("H11")
@guarded
async def test_a_broker_that_bounced_unseen_gets_all_its_orders(drive, monkeypatch, is_guarded):
    if not is_guarded:
        looked = BrokerDifference.between

        def by_id_alone(before, now):
            change = looked(before, now)
            return BrokerDifference(added=change.added, bounced=(), removed=change.removed)

        monkeypatch.setattr(BrokerDifference, "between", by_id_alone)
    await drive.create("orders", {0: [2, 3], 1: [3, 2]})
    drive.forget()

    await drive.bounce(2)

    if is_guarded:
        assert drive.of(BrokersChanged) == [BrokersChanged("", "2", "")]
        (orders,) = (each for each in drive.sent(LeaderAndIsr, 2) if len(each.partitions) == 2)
        assert orders.broker_epoch == drive.node(2).broker_epoch
        assert drive.hosted(2, "orders", 0).leader == drive.hosted(2, "orders", 1).leader == 3
        assert drive.state("orders", 0) == drive.state("orders", 1) == state(3, 1, 3, 2)
    else:
        assert drive.sent(LeaderAndIsr, 2) == []
        assert drive.hosted(2, "orders", 0) is None  # the leader, as everybody else believes
        assert drive.state("orders", 0) == state(2, 0, 2, 3)


@pytest.mark.behaviour("H11")
@guarded
async def test_a_request_for_a_former_life_does_nothing_in_the_next(drive, monkeypatch, is_guarded):
    unnumbered(monkeypatch)
    if not is_guarded:
        fence = Fence.check

        def by_controller_epoch_alone(self, request):
            known, self.broker_epoch = self.broker_epoch, UNKNOWN_BROKER_EPOCH
            fence(self, request)
            self.broker_epoch = known

        monkeypatch.setattr(Fence, "check", by_controller_epoch_alone)
    # A replica that is not in sync dies and comes back in the same leader epoch, so that nothing
    # but the broker epoch tells the StopReplica for its former life from one for this life.
    orders = await drive.create("orders", [3, 2])
    drive.shrink(2, orders)
    await drive.settle()
    former = drive.node(2).broker_epoch
    copies = copies_of_stop_replica(drive, 2)
    goodbye = ControlledShutdown(broker_id=2, broker_epoch=former)
    await drive.ask(1, goodbye, ControlledShutdownResponse)
    await drive.kill(2)
    late = copies[0]
    await drive.restart(2)
    assert drive.hosted(2, "orders").leader_epoch == 0
    assert drive.state("orders") == state(3, 0, 3, 2)
    drive.forget()

    drive.sim.network.transmit(late)
    await drive.settle()

    assert decode(late.payload).broker_epoch == former < drive.node(2).broker_epoch
    (answer,) = drive.answered(StopReplicaResponse, 2)
    if is_guarded:
        assert answer == StopReplicaResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
        assert drive.hosted(2, "orders") is not None
    else:
        assert answer.error_code is ErrorCode.NONE
        assert drive.hosted(2, "orders") is None


# --- H12, KAFKA-9539 and KIP-570 ------------------------------------------------------------------


@pytest.mark.behaviour("H12")
@guarded
async def test_a_late_stop_replica_stops_nobody_who_was_told_to_run(drive, monkeypatch, is_guarded):
    unnumbered(monkeypatch)
    if not is_guarded:
        monkeypatch.setattr(Outbox, "_stop_epoch", lambda self, partition: NO_LEADER_EPOCH)
    # The replica moves away and back: the same broker, the same life, a greater leader epoch.
    orders = await drive.create("orders", [2, 3])
    copies = copies_of_stop_replica(drive, 3)
    await drive.reassign({orders: [2, 4]})
    await drive.settle()
    late = copies[0]
    assert not decode(late.payload).partitions[0].delete  # from Offline
    assert drive.hosted(3, "orders") is None
    await drive.reassign({orders: [2, 3]})
    await drive.settle()
    assert drive.hosted(3, "orders").leader_epoch == drive.state("orders").leader_epoch
    drive.forget()

    drive.sim.network.transmit(late)
    await drive.settle()

    (answer,) = drive.answered(StopReplicaResponse, 3)
    (result,) = answer.partitions
    if is_guarded:
        assert result.error_code is ErrorCode.FENCED_LEADER_EPOCH
        assert drive.hosted(3, "orders") is not None
    else:
        assert result.error_code is ErrorCode.NONE
        assert drive.hosted(3, "orders") is None
        assert 3 in drive.assignment("orders").replicas


# --- H25, KAFKA-3143 ------------------------------------------------------------------------------


@pytest.mark.behaviour("H25")
@guarded
async def test_a_broker_that_dies_with_the_controller_leaves_the_isrs(
    drive, monkeypatch, is_guarded
):
    if not is_guarded:
        startup = ReplicaStates.startup

        async def online_alone(self):
            change = self.change

            async def only(replicas, target):
                if target is ReplicaPhase.ONLINE:
                    await change(replicas, target)

            self.change = only
            try:
                await startup(self)
            finally:
                self.change = change

        monkeypatch.setattr(ReplicaStates, "startup", online_alone)
    await drive.create("orders", [2, 3, 4])

    drive.cluster.kill(3)
    await drive.kill(1)

    if is_guarded:
        assert drive.state("orders") == state(2, 1, 2, 4, controller_epoch=2)
        assert [drive.cached(broker, "orders").isr for broker in (2, 4)] == [(2, 4)] * 2
        assert [drive.cached(each, "orders").offline_replicas for each in (2, 4)] == [(3,)] * 2
    else:
        assert drive.state("orders") == state(2, 0, 2, 3, 4)


# --- H45, KAFKA-13225 and KAFKA-1867 --------------------------------------------------------------


@pytest.mark.behaviour("H45")
@guarded
async def test_the_death_of_a_broker_without_replicas_is_told_to_all(
    drive, monkeypatch, is_guarded
):
    await drive.create("orders", [1, 2, 3])
    if not is_guarded:
        send = Office.send_metadata

        def of_partitions_alone(self, partitions, brokers=None):
            if tuple(partitions):
                send(self, partitions, brokers)

        monkeypatch.setattr(Office, "send_metadata", of_partitions_alone)

    await drive.kill(4)

    registered = set(map(int, drive.tree.children("/brokers/ids")))
    caches = [set(drive.node(each).replica_manager.cache.brokers) for each in (1, 2, 3)]
    assert registered == {1, 2, 3}
    assert caches == [registered if is_guarded else {1, 2, 3, 4}] * 3
