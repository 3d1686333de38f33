"""A broker says goodbye: B076 to B082."""

import asyncio
from itertools import pairwise

import pytest

from actors.asked import Asked
from actors.controller.context import PartitionPhase
from runtime.keeper import Create
from tests.support.drive import Drive
from tests.support.orders import leader_and_isr, order
from tests.support.states import state
from wire.admin import ElectionType, ElectLeaders, ElectLeadersResponse
from wire.control import (
    ControlledShutdown,
    ControlledShutdownResponse,
    LeaderAndIsr,
    StopReplica,
    UpdateMetadata,
)
from wire.errors import ErrorCode
from wire.ids import BrokerId, TopicPartition
from wire.trace import (
    ActorStarted,
    ActorStopped,
    ControlledShutdownTried,
    LeaderElected,
    ReplicaStateChanged,
)
from wire.znodes import ReplicaAssignment, TopicAssignment, TopicZNode


@pytest.fixture
async def drive(sim):
    # No election but those that a test asks for; broker 1 stays the controller.
    return await Drive.start(sim, brokers=4, overrides={"auto_leader_rebalance_enable": False})


async def goodbye(drive, broker, to=1, **fields):
    """Ask for a broker's shutdown without an exit after it."""
    epoch = fields.get("broker_epoch", drive.node(broker).broker_epoch)
    request = ControlledShutdown(broker_id=broker, broker_epoch=epoch)
    return await drive.ask(to, request, ControlledShutdownResponse)


def refused(code):
    return ControlledShutdownResponse(error_code=code)


# --- the broker -----------------------------------------------------------------------------------


@pytest.mark.behaviour("B076")
async def test_a_leaving_broker_asks_the_controller_and_leaves_when_nothing_remains(drive):
    await drive.create("orders", [2, 3])
    epoch = drive.tree.stat("/brokers/ids/2").czxid
    drive.forget()

    await drive.stop(2)

    assert [
        (each.source, each.to, each.request)
        for each in drive.requests
        if isinstance(each.request, ControlledShutdown)
    ] == [("broker-2", 1, ControlledShutdown(broker_id=2, broker_epoch=epoch))]
    assert drive.of(ControlledShutdownTried) == [ControlledShutdownTried(2, "ok", 3)]
    assert not drive.exists("/brokers/ids/2")


@pytest.mark.behaviour("B076")
async def test_a_broker_that_nobody_can_replace_tries_three_times_more_and_leaves_anyway(drive):
    await drive.create("orders", [2, 3])
    await drive.kill(3)
    drive.forget()

    await drive.stop(2)

    outcome = "1 partitions remain"
    assert drive.of(ControlledShutdownTried) == [
        ControlledShutdownTried(2, outcome, left) for left in (3, 2, 1, 0)
    ]
    times = [each.at_ms for each in drive.requests if isinstance(each.request, ControlledShutdown)]
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert gaps == [pytest.approx(5_000, abs=20)] * 3
    assert not drive.exists("/brokers/ids/2")


@pytest.mark.behaviour("B076")
async def test_the_controller_is_looked_up_again_for_each_try(drive):
    await drive.create("orders", [2, 3])
    await drive.kill(3)
    drive.forget()
    leaving = asyncio.ensure_future(drive.cluster.stop_broker(2))
    await drive.sim.until(lambda: len(drive.of(ControlledShutdownTried)) == 1)

    drive.vanish(1)
    await leaving

    asked = [each.to for each in drive.requests if isinstance(each.request, ControlledShutdown)]
    second = asked[1]
    assert asked == [1, second, second, second]
    assert second in {2, 4}  # itself, perhaps: a leaving broker may still be elected


@pytest.mark.behaviour("B076")
async def test_a_broker_without_a_controller_leaves_when_its_tries_are_used_up(drive):
    await drive.create("orders", [2, 3])
    drive.sim.cut("broker-1", "broker-2")
    drive.forget()

    await drive.cluster.stop_broker(2)

    assert [(each.outcome, each.tries_left) for each in drive.of(ControlledShutdownTried)] == [
        ("CallTimedOut", left) for left in (3, 2, 1, 0)
    ]
    drive.sim.heal()
    await drive.settle()
    assert drive.state("orders").leader == 3


@pytest.mark.behaviour("B076")
async def test_a_stopped_broker_leaves_no_actor_behind_whatever_it_is_told_last(drive):
    orders = await drive.create("orders", [2, 3])
    drive.forget()
    replicas = drive.node(2).replica_manager.ref
    late = leader_and_isr(order(orders, leader=3, epoch=9), live=[3])
    drive.at_first(
        ActorStopped,
        lambda: replicas.tell(Asked(late, "broker-1", lambda _: None)),
        lambda event: event.actor == "broker-2/api",
    )

    await drive.stop(2)

    started = {each.actor for each in drive.of(ActorStarted) if each.actor.startswith("broker-2/")}
    stopped = {each.actor for each in drive.of(ActorStopped)}
    assert started == {"broker-2/fetcher-0-3"}
    assert started < stopped


# --- the controller -------------------------------------------------------------------------------


@pytest.mark.behaviour("B077")
async def test_a_shutdown_is_refused_to_the_past_to_strangers_and_by_those_who_are_not_asked(drive):
    epoch = drive.node(2).broker_epoch
    stranger = ControlledShutdown(broker_id=9, broker_epoch=epoch)

    assert await goodbye(drive, 2, broker_epoch=epoch - 1) == refused(ErrorCode.STALE_BROKER_EPOCH)
    assert await drive.ask(1, stranger, ControlledShutdownResponse) == refused(
        ErrorCode.BROKER_NOT_AVAILABLE
    )
    # As Kafka: ControllerMovedException travels as the code of a stale controller epoch.
    assert await goodbye(drive, 2, to=3) == refused(ErrorCode.STALE_CONTROLLER_EPOCH)
    assert drive.context.shutting_down == set()

    assert await goodbye(drive, 2) == refused(ErrorCode.NONE)
    assert drive.context.shutting_down == {2}


@pytest.mark.behaviour("B078")
async def test_only_shared_partitions_with_a_leader_that_nobody_deletes_are_considered(drive):
    await drive.create("led", [2, 3])
    await drive.create("followed", [3, 2])
    await drive.create("single", [2])
    await drive.create("doomed", [2, 4])
    await drive.kill(4)
    await drive.delete("doomed")
    # Where a state is already that nobody can read, no leader is elected.
    odd = TopicAssignment(partitions={0: ReplicaAssignment(replicas=(BrokerId(2), BrokerId(3)))})
    path = TopicZNode.path("odd")
    await drive.keeper.multi(
        [
            Create(path, TopicZNode.encode(odd)),
            Create(f"{path}/partitions"),
            Create(f"{path}/partitions/0"),
            Create(f"{path}/partitions/0/state", b"?"),
        ]
    )
    await drive.settle()
    assert drive.context.partition_phases[TopicPartition("odd", 0)] is PartitionPhase.NEW
    doomed = drive.state("doomed")
    drive.forget()

    assert await goodbye(drive, 2) == refused(ErrorCode.NONE)
    await drive.settle()

    assert drive.context.shutting_down == {2}
    assert [each.topic for each in drive.of(LeaderElected)] == ["led"]
    assert [(each.topic, each.after) for each in drive.of(ReplicaStateChanged)] == [
        ("followed", "OfflineReplica")
    ]
    stopped = [each.partition.topic for sr in drive.sent(StopReplica) for each in sr.partitions]
    assert set(stopped) == {"followed"}
    assert drive.state("single") == state(2, 0, 2)
    assert drive.state("doomed") == doomed


@pytest.mark.behaviour("B079")
async def test_what_a_leaving_broker_leads_is_led_by_others_in_one_batch(drive):
    await drive.create("orders", {number: [2, 3, 4] for number in range(3)})
    drive.forget()

    await goodbye(drive, 2)
    elected = drive.of(LeaderElected)
    await drive.settle()

    assert [(each.partition, each.leader, each.isr, each.reason) for each in elected] == [
        (number, 3, "3,4", "ControlledShutdownPartitionLeaderElectionStrategy")
        for number in range(3)
    ]
    for broker in (2, 3, 4):  # also the one that leaves: it is no leader any more
        (told,) = drive.sent(LeaderAndIsr, broker)
        assert [(each.partition.partition, each.leader_epoch) for each in told.partitions] == [
            (number, 1) for number in range(3)
        ]
        assert not drive.hosted(broker, "orders").is_leader or broker == 3
    assert drive.sent(StopReplica) == []


@pytest.mark.behaviour("B080")
async def test_what_a_leaving_broker_follows_is_stopped_and_leaves_the_isr(drive):
    await drive.create("orders", {0: [3, 2], 1: [3, 4, 2]})
    drive.forget()

    await goodbye(drive, 2)
    await drive.settle()

    first = drive.sent(StopReplica, 2)[0]
    assert [(each.partition.partition, each.delete) for each in first.partitions] == [
        (0, False),
        (1, False),
    ]
    at = [
        (type(each.request), each.to)
        for each in drive.requests
        if isinstance(each.request, StopReplica | LeaderAndIsr)
    ]
    assert at[0] == (StopReplica, 2)
    assert [each.after for each in drive.of(ReplicaStateChanged)] == ["OfflineReplica"] * 2
    assert drive.state("orders", 0) == state(3, 1, 3)
    assert drive.state("orders", 1) == state(3, 1, 3, 4)
    assert drive.hosted(2, "orders", 0) is None
    assert drive.hosted(2, "orders", 1) is None
    assert drive.of(LeaderElected) == []
    assert drive.sent(LeaderAndIsr, 2) == []


@pytest.mark.behaviour("B081")
async def test_the_answer_names_what_is_still_led_and_never_a_sole_replica(drive):
    await drive.create("moved", [2, 4])
    await drive.create("stuck", {0: [2, 3], 1: [3, 2], 2: [2, 3]})
    await drive.create("single", [2])
    await drive.kill(3)
    assert [drive.state("stuck", number).isr for number in range(3)] == [(2,)] * 3

    answer = await goodbye(drive, 2)

    remaining = tuple(TopicPartition("stuck", number) for number in range(3))
    assert answer == ControlledShutdownResponse(remaining_partitions=remaining)
    assert drive.state("moved").leader == 4


@pytest.mark.behaviour("B081")
async def test_a_broker_waits_for_another_to_take_over_and_then_leaves(drive):
    await drive.create("orders", [2, 3])
    await drive.kill(3)
    drive.forget()
    leaving = asyncio.ensure_future(drive.cluster.stop_broker(2))
    await drive.sim.until(lambda: len(drive.of(ControlledShutdownTried)) == 1)

    await drive.cluster.start_broker(3)
    await leaving
    await drive.settle()

    assert drive.of(ControlledShutdownTried) == [
        ControlledShutdownTried(2, "1 partitions remain", 3),
        ControlledShutdownTried(2, "ok", 2),
    ]
    assert drive.state("orders").leader == 3


@pytest.mark.behaviour("B082")
async def test_a_leaving_broker_still_gets_requests_but_is_not_elected(drive):
    orders = await drive.create("orders", [2, 3])
    await goodbye(drive, 2)
    await drive.settle()
    drive.forget()

    await drive.create("born", [2, 3])
    request = ElectLeaders(
        election_type=ElectionType.PREFERRED, partitions=(orders,), timeout_ms=1_000
    )
    answer = await drive.ask(1, request, ElectLeadersResponse)

    assert drive.state("born") == state(3, 0, 3)
    assert [each.error_code for each in answer.partitions] == [
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    ]
    assert drive.state("orders").leader == 3
    news = drive.sent(UpdateMetadata, 2)
    assert [each.partition.topic for update in news for each in update.partitions] == ["born"]
    assert [each.id for each in news[-1].live_brokers] == [1, 2, 3, 4]


@pytest.mark.behaviour("B082")
@pytest.mark.parametrize("how", ["death", "bounce"])
async def test_a_broker_is_leaving_until_it_is_gone(drive, how):
    await drive.create("orders", [2, 3])
    await goodbye(drive, 2)
    await goodbye(drive, 2)
    await drive.kill(4)
    assert drive.context.shutting_down == {2}

    if how == "death":
        await drive.kill(2)
        assert drive.context.shutting_down == set()
        await drive.restart(2)
    else:
        await drive.bounce(2)

    assert drive.context.shutting_down == set()
    await drive.create("born", [2, 3])
    assert drive.state("born") == state(2, 0, 2, 3)
