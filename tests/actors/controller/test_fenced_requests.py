"""Which control requests a broker takes: none of the past, neither its own nor a controller's."""

import pytest
from msgspec.structs import replace

from tests.support.data import produce, values_on
from tests.support.drive import Drive
from wire.control import (
    ControlledShutdown,
    ControlledShutdownResponse,
    LeaderAndIsr,
    LeaderAndIsrResponse,
    StopReplica,
    StopReplicaPartition,
    StopReplicaResponse,
    UpdateMetadata,
    UpdateMetadataResponse,
)
from wire.errors import ErrorCode
from wire.ids import UNKNOWN_BROKER_EPOCH, BrokerId, TopicPartition
from wire.trace import ControlRequestRefused

ORDERS = TopicPartition("orders", 0)
KINDS = (LeaderAndIsr, UpdateMetadata, StopReplica)
RESPONSES = {
    LeaderAndIsr: LeaderAndIsrResponse,
    UpdateMetadata: UpdateMetadataResponse,
    StopReplica: StopReplicaResponse,
}


@pytest.fixture
async def drive(sim):
    drive = await Drive.start(sim)
    await drive.create("orders", [2, 3])
    return drive


def news(drive, kind):
    """A request of the present controller to broker 2 that changes something there."""
    lead, tell = drive.sent(LeaderAndIsr, to=2)[-1], drive.sent(UpdateMetadata, to=2)[-1]
    lead = replace(lead, sequence=tell.sequence)  # it comes as the last, not as a late copy
    if kind is LeaderAndIsr:
        (entry,) = lead.partitions
        return replace(lead, partitions=(replace(entry, leader=BrokerId(3), leader_epoch=1),))
    if kind is UpdateMetadata:
        (entry,) = tell.partitions
        return replace(tell, partitions=(replace(entry, leader=BrokerId(3), leader_epoch=1),))
    stop = StopReplicaPartition(partition=ORDERS, leader_epoch=0, delete=False)
    return StopReplica(
        controller_id=lead.controller_id,
        controller_epoch=lead.controller_epoch,
        broker_epoch=lead.broker_epoch,
        partitions=(stop,),
    )


def knows(drive):
    """What broker 2 holds and tells of the partition."""
    return drive.hosted(2, "orders"), drive.cached(2, "orders")


async def send(drive, request):
    return (await drive.ask(2, request, RESPONSES[type(request)])).error_code


@pytest.mark.behaviour("B023")
async def test_every_control_request_carries_the_epoch_of_its_broker(drive):
    epochs = {broker: drive.tree.stat(f"/brokers/ids/{broker}").czxid for broker in (1, 2, 3)}
    drive.forget()

    await drive.create("payments", [1, 2, 3])
    await drive.delete("payments")
    await drive.settle()

    control = [each for each in drive.requests if isinstance(each.request, KINDS)]
    assert {type(each.request) for each in control} == set(KINDS)
    assert {each.to for each in control} == {1, 2, 3}
    assert all(each.request.broker_epoch == epochs[each.to] for each in control)


@pytest.mark.behaviour("B023")
async def test_after_a_restart_requests_carry_the_new_epoch(drive):
    before = drive.tree.stat("/brokers/ids/2").czxid
    await drive.kill(2)
    drive.forget()

    await drive.restart(2)

    now = drive.tree.stat("/brokers/ids/2").czxid
    assert now > before
    assert {each.broker_epoch for each in drive.sent(UpdateMetadata, to=2)} == {now}
    assert {each.broker_epoch for each in drive.sent(LeaderAndIsr, to=2)} == {now}


@pytest.mark.behaviour("B023")
@pytest.mark.parametrize("kind", KINDS)
async def test_a_request_for_an_earlier_life_of_the_broker_is_refused(drive, kind):
    request = news(drive, kind)
    before = knows(drive)

    code = await send(drive, replace(request, broker_epoch=request.broker_epoch - 1))

    assert code is ErrorCode.STALE_BROKER_EPOCH
    assert knows(drive) == before
    assert drive.of(ControlRequestRefused)[-1] == ControlRequestRefused(
        kind.__name__, 1, 1, "STALE_BROKER_EPOCH"
    )


@pytest.mark.behaviour("B023")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("later", [0, 1, None], ids=["equal", "greater", "unknown"])
async def test_a_request_for_this_a_later_or_an_unknown_life_is_taken(drive, kind, later):
    request = news(drive, kind)
    before = knows(drive)
    epoch = UNKNOWN_BROKER_EPOCH if later is None else request.broker_epoch + later

    assert await send(drive, replace(request, broker_epoch=epoch)) is ErrorCode.NONE
    assert knows(drive) != before


@pytest.mark.behaviour("B023")
async def test_a_goodbye_of_an_earlier_life_is_refused(drive):
    now = drive.tree.stat("/brokers/ids/3").czxid

    async def goodbye(epoch):
        request = ControlledShutdown(broker_id=BrokerId(3), broker_epoch=epoch)
        return (await drive.ask(1, request, ControlledShutdownResponse)).error_code

    assert await goodbye(now - 1) is ErrorCode.STALE_BROKER_EPOCH
    assert drive.context.shutting_down == set()
    assert await goodbye(UNKNOWN_BROKER_EPOCH) is ErrorCode.NONE
    assert await goodbye(now) is ErrorCode.NONE
    assert drive.context.shutting_down == {3}


@pytest.mark.behaviour("B024")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("teacher", KINDS)
async def test_whatever_taught_it_the_epoch_a_broker_refuses_every_lower_one(drive, teacher, kind):
    taught = await send(drive, replace(news(drive, teacher), controller_epoch=5))
    assert taught is ErrorCode.NONE
    before = knows(drive)
    request = news(drive, kind)

    code = await send(drive, replace(request, controller_epoch=4))

    assert code is ErrorCode.STALE_CONTROLLER_EPOCH
    assert knows(drive) == before
    assert drive.of(ControlRequestRefused)[-1] == ControlRequestRefused(
        kind.__name__, 1, 4, "STALE_CONTROLLER_EPOCH"
    )


@pytest.mark.behaviour("B024")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("epoch", [1, 2], ids=["equal", "higher"])
async def test_an_equal_or_higher_controller_epoch_is_taken(drive, kind, epoch):
    before = knows(drive)

    assert await send(drive, replace(news(drive, kind), controller_epoch=epoch)) is ErrorCode.NONE
    assert knows(drive) != before


# --- one controller's requests, in their order ----------------------------------------------------


def said(drive, kind, **more):
    """The first request of a kind to broker 2 that names the partition with these fields."""
    for each in drive.sent(kind, to=2):
        for entry in each.partitions:
            if (
                entry.partition == ORDERS
                and more.items() <= {name: getattr(entry, name) for name in more}.items()
            ):
                return each
    raise AssertionError(f"no {kind.__name__} like that was sent")


async def test_a_late_copy_of_a_decision_does_not_bring_a_deleted_topic_back(drive):
    """It came again since its answer was late, and the first copy came last (seed 9662)."""
    late = said(drive, LeaderAndIsr)
    await drive.delete("orders")
    await drive.settle()
    assert ORDERS not in drive.cluster.nodes[2].replica_manager.replicas

    code = await send(drive, late)

    assert code is ErrorCode.STALE_CONTROLLER_EPOCH
    assert ORDERS not in drive.cluster.nodes[2].replica_manager.replicas


async def test_a_late_copy_of_a_deletion_does_not_delete_the_topic_that_was_made_anew(drive):
    """No leader epoch guards it: a deletion raises none (B132)."""
    await drive.delete("orders")
    await drive.settle()
    late = said(drive, StopReplica, delete=True)
    orders = await drive.create("orders", [2, 3])
    await produce(drive, orders, b"committed", acks=-1)

    code = await send(drive, late)

    assert code is ErrorCode.STALE_CONTROLLER_EPOCH
    assert values_on(drive, 2, orders) == [b"committed"]


async def test_a_late_copy_of_metadata_does_not_tell_of_the_past(drive):
    late = said(drive, UpdateMetadata)
    await drive.kill(3)
    await drive.restart(3)
    await drive.settle()
    known = drive.cached(2, "orders")
    assert known.leader_epoch > late.partitions[0].leader_epoch

    code = await send(drive, late)

    assert code is ErrorCode.STALE_CONTROLLER_EPOCH
    assert drive.cached(2, "orders") == known


async def test_the_last_request_may_come_twice_and_another_controller_counts_anew(drive):
    last = max(drive.sent(UpdateMetadata, to=2), key=lambda each: each.sequence)
    first = replace(last, controller_epoch=last.controller_epoch + 1, sequence=0)

    assert await send(drive, last) is ErrorCode.NONE
    assert await send(drive, first) is ErrorCode.NONE
    assert await send(drive, replace(first, sequence=1)) is ErrorCode.NONE
    assert await send(drive, first) is ErrorCode.STALE_CONTROLLER_EPOCH


async def test_a_controller_counts_its_requests_to_each_broker_upwards(drive):
    await drive.create("payments", [1, 2, 3])
    await drive.delete("payments")
    await drive.settle()

    for to in (1, 2, 3):
        told = [each.request for each in drive.requests if each.to == to]
        numbers = [each.sequence for each in told if isinstance(each, KINDS)]
        assert numbers == sorted(set(numbers))
        assert len(numbers) > len(KINDS)
