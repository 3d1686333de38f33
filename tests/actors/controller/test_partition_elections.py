"""How a partition gets another leader, who hears of it, and when it is tried: B044 to B049."""

import pytest

from actors.controller.context import PartitionPhase
from actors.controller.election import Strategy
from actors.controller.partition_states import StateChangeFailed
from tests.support.drive import Drive
from wire.control import LeaderAndIsr
from wire.errors import EligibleLeadersNotAvailable, PreferredLeaderNotAvailable
from wire.trace import (
    BrokersChanged,
    ElectionFailed,
    KeeperOperation,
    LeaderElected,
    PartitionStateChanged,
    ZNodeSkipped,
)
from wire.znodes import PartitionState, PartitionStateZNode, ReplicaAssignment

ONLINE, OFFLINE = PartitionPhase.ONLINE, PartitionPhase.OFFLINE


@pytest.fixture
async def drive(sim):
    return await Drive.start(sim, brokers=5, overrides={"auto_leader_rebalance_enable": False})


def elect(drive, strategy, *partitions):
    return drive.reign.office.partitions.change(partitions, ONLINE, strategy)


def told(drive, partition):
    """Who was told to lead or follow a partition."""
    return [
        sent.to
        for sent in drive.requests
        if isinstance(sent.request, LeaderAndIsr)
        and partition in {entry.partition for entry in sent.request.partitions}
    ]


def state(leader, leader_epoch, *isr, controller_epoch=1):
    return PartitionState(
        controller_epoch=controller_epoch, leader=leader, leader_epoch=leader_epoch, isr=isr
    )


async def led_by_another(drive, numbers=1):
    """Partitions that prefer broker 2 and are led by 3, all three replicas in sync."""
    await drive.create("orders", dict.fromkeys(range(numbers), (2, 3, 4)))
    await drive.kill(2)
    await drive.restart(2)
    for number in range(numbers):
        assert drive.state("orders", number) == state(3, 1, 3, 4, 2)
    drive.forget()
    return drive.context.partitions_of("orders")


async def without_leader(drive):
    """A partition whose only replica in sync is dead, and another one lives."""
    orders = await drive.create("orders", [2, 3])
    drive.shrink(3, orders)
    await drive.settle()
    await drive.kill(2)
    assert drive.context.partition_phase(orders) is OFFLINE
    assert drive.state("orders") == state(-1, 1, 2)
    drive.forget()
    return orders


# --- read, decide, write --------------------------------------------------------------------------


@pytest.mark.behaviour("B044", "B067")
async def test_a_partition_whose_isr_changes_meanwhile_is_read_again_and_the_others_are_not(drive):
    first, second = await led_by_another(drive, numbers=2)

    async def the_leader_shrinks_the_isr():
        drive.shrink(4, second)
        await drive.sim.until(lambda: drive.state("orders", 1).isr == (3, 2))

    writes = drive.before_state_writes(the_leader_shrinks_the_isr)
    results = await elect(drive, Strategy.PREFERRED, first, second)

    assert results == {first: None, second: None}
    assert writes == [[first, second], [second]]
    assert drive.state("orders", 0) == state(2, 2, 3, 4, 2)
    assert drive.state("orders", 1) == state(2, 2, 3, 2)  # decided anew, of the newer ISR
    assert drive.context.leaderships[second].partition_epoch == drive.version("orders", 1)
    assert [each.partition for each in drive.of(LeaderElected)] == [0, 1]


@pytest.mark.behaviour("B044", "B047")
async def test_what_was_electable_before_the_isr_changed_may_not_be_it_after(drive):
    (orders,) = await led_by_another(drive)

    def the_leader_drops(broker, *left):
        async def drop():
            drive.shrink(broker, orders)
            await drive.sim.until(lambda: drive.state("orders").isr == left)

        return drop

    writes = drive.before_state_writes(the_leader_drops(4, 3, 2), the_leader_drops(2, 3))
    results = await elect(drive, Strategy.PREFERRED, orders)

    assert writes == [[orders], [orders]]  # the third time there is nothing to write
    assert isinstance(results[orders], PreferredLeaderNotAvailable)
    assert drive.state("orders") == state(3, 1, 3)
    assert drive.of(LeaderElected) == []


@pytest.mark.behaviour("B044")
async def test_states_are_read_in_one_batch_and_one_that_cannot_be_read_fails_alone(drive):
    await drive.create("orders", dict.fromkeys(range(3), (2, 3)))
    missing, malformed, sound = drive.context.partitions_of("orders")
    await drive.keeper.delete(PartitionStateZNode.path(missing))
    await drive.keeper.set(PartitionStateZNode.path(malformed), b"{")
    drive.forget()

    results = await elect(drive, Strategy.OFFLINE, missing, malformed, sound)

    by_controller = [event for stamp, event in drive.events if stamp.node == "broker-1"]
    reads = [
        (each.path, each.count)
        for each in by_controller
        if isinstance(each, KeeperOperation) and each.operation == "read"
    ]
    assert reads == [(PartitionStateZNode.path(missing), 3)]
    assert isinstance(results[missing], StateChangeFailed)
    assert isinstance(results[malformed], StateChangeFailed)
    assert results[sound] is None
    assert [each.partition for each in drive.of(ElectionFailed)] == [0, 1]
    assert [each.path for each in drive.of(ZNodeSkipped)] == [PartitionStateZNode.path(malformed)]
    assert drive.state("orders", 2) == state(2, 1, 2, 3)
    assert not drive.exists(PartitionStateZNode.path(missing))
    assert drive.tree.get(PartitionStateZNode.path(malformed)).data == b"{"


# --- who hears of it ------------------------------------------------------------------------------


@pytest.mark.behaviour("B045")
@pytest.mark.parametrize(
    ("strategy", "leader", "recipients"),
    [
        (Strategy.OFFLINE, 2, [2, 4]),
        (Strategy.OFFLINE_UNCLEAN, 2, [2, 4]),
        (Strategy.REASSIGN, 4, [3, 4]),  # the target is 3, 4 and 5
        (Strategy.PREFERRED, 2, [2, 3, 4]),
        (Strategy.CONTROLLED_SHUTDOWN, 2, [2, 3, 4]),
    ],
)
async def test_each_strategy_tells_its_own_live_replicas_in_sync_or_not(
    drive, strategy, leader, recipients
):
    orders = await drive.create("orders", [2, 3, 4, 5])
    drive.cluster.kill(5)
    await drive.settle()
    await drive.write_state(orders, state(2, 5, 2, 4))
    drive.context.shutting_down.add(3)
    if strategy is Strategy.REASSIGN:
        moving = ReplicaAssignment(replicas=(2, 3, 4, 5), removing_replicas=(2,))
        drive.context.assign(orders, moving)
    drive.forget()

    await elect(drive, strategy, orders)
    await drive.sim.sleep(100)

    assert drive.state("orders").leader == leader
    assert sorted(told(drive, orders)) == recipients


# --- epochs ---------------------------------------------------------------------------------------


@pytest.mark.behaviour("B046")
@pytest.mark.parametrize("strategy", [Strategy.OFFLINE, Strategy.PREFERRED, Strategy.REASSIGN])
async def test_an_election_raises_the_leader_epoch_also_when_it_elects_the_same_leader(
    drive, strategy
):
    orders = await drive.create("orders", [2, 3])
    assert (drive.state("orders"), drive.version("orders")) == (state(2, 0, 2, 3), 0)

    for count in (1, 2):
        await elect(drive, strategy, orders)
        assert drive.state("orders") == state(2, count, 2, 3)
        assert drive.version("orders") == count
        assert drive.context.leaderships[orders].leader_epoch == count


@pytest.mark.behaviour("B046")
async def test_a_leaders_isr_change_raises_the_version_and_not_the_leader_epoch(drive):
    orders = await drive.create("orders", [2, 3])

    drive.shrink(3, orders)
    await drive.settle()

    assert (drive.state("orders"), drive.version("orders")) == (state(2, 0, 2), 1)
    assert drive.context.leaderships[orders].leader_epoch == 0


# --- elections that fail --------------------------------------------------------------------------


@pytest.mark.behaviour("B047", "B060", "B064", "B065", "B066")
@pytest.mark.parametrize(
    ("strategy", "phase", "error"),
    [
        (Strategy.OFFLINE, OFFLINE, EligibleLeadersNotAvailable),
        (Strategy.REASSIGN, ONLINE, EligibleLeadersNotAvailable),
        (Strategy.PREFERRED, ONLINE, PreferredLeaderNotAvailable),
        (Strategy.CONTROLLED_SHUTDOWN, ONLINE, EligibleLeadersNotAvailable),
    ],
)
async def test_a_failed_election_changes_nothing_neither_in_zookeeper_nor_in_memory(
    drive, strategy, phase, error
):
    orders = await without_leader(drive)
    drive.context.set_partition_phase(orders, phase)
    before = (drive.state("orders"), drive.version("orders"), drive.context.leaderships[orders])

    results = await elect(drive, strategy, orders)
    await drive.sim.sleep(100)

    after = (drive.state("orders"), drive.version("orders"), drive.context.leaderships[orders])
    assert isinstance(results[orders], error)
    assert after == before
    assert drive.context.partition_phase(orders) is phase
    assert drive.requests == drive.of(LeaderElected) == drive.of(PartitionStateChanged) == []
    assert [(each.topic, each.strategy) for each in drive.of(ElectionFailed)] == [
        ("orders", strategy.value)
    ]


@pytest.mark.behaviour("B065")
async def test_a_preferred_replica_that_leads_already_is_not_elected_again(drive):
    orders = await drive.create("orders", [2, 3])
    drive.forget()

    await drive.prefer(orders)
    await drive.settle()

    assert (drive.state("orders"), drive.version("orders")) == (state(2, 0, 2, 3), 0)
    assert told(drive, orders) == drive.of(LeaderElected) == drive.of(ElectionFailed) == []


# --- strategies in a cluster ----------------------------------------------------------------------


@pytest.mark.behaviour("B060", "B067")
async def test_a_dead_leader_is_followed_by_the_assignments_next_and_the_isr_keeps_its_order(drive):
    orders = await drive.create("orders", [2, 3, 4, 5])
    await drive.write_state(orders, state(2, 0, 5, 4, 2))  # 3 is not in sync

    await drive.kill(2)

    assert drive.of(LeaderElected)[-1].leader == 4
    assert drive.of(LeaderElected)[-1].isr == "5,4"


@pytest.mark.behaviour("B064")
async def test_the_leader_of_a_move_that_is_done_is_the_first_target_in_sync(drive):
    orders = await drive.create("orders", [2, 3])

    await drive.reassign({orders: [5, 4]})
    await drive.settle()

    elected = drive.of(LeaderElected)[-1]
    assert (elected.leader, elected.reason) == (5, Strategy.REASSIGN.value)
    assert set(map(int, elected.isr.split(","))) == {2, 3, 4, 5}  # as it was: nobody has left yet
    assert drive.state("orders").leader == 5
    assert set(drive.state("orders").isr) == {4, 5}


@pytest.mark.behaviour("B066")
async def test_a_leaving_broker_hands_over_to_the_next_in_sync_and_leaves_the_isr(drive):
    await drive.create("orders", [2, 3, 4])

    await drive.cluster.stop_broker(2)

    elected = drive.of(LeaderElected)[-1]
    assert elected == LeaderElected(
        "orders", 0, 3, 1, "3,4", 1, Strategy.CONTROLLED_SHUTDOWN.value, False, "2,3,4"
    )


# --- when it is tried -----------------------------------------------------------------------------


@pytest.mark.behaviour("B049")
async def test_partitions_are_marked_offline_before_the_dead_brokers_leaders_are_replaced(drive):
    await drive.create("orders", {0: [2, 3], 1: [2, 4]})
    drive.forget()

    await drive.kill(2)

    steps = [
        event
        for _, event in drive.events
        if isinstance(event, PartitionStateChanged | LeaderElected)
    ]
    assert [(type(each).__name__, each.partition) for each in steps] == [
        ("PartitionStateChanged", 0),
        ("PartitionStateChanged", 1),
        ("LeaderElected", 0),
        ("PartitionStateChanged", 0),
        ("LeaderElected", 1),
        ("PartitionStateChanged", 1),
    ]


async def start_a_broker(drive):
    await drive.restart(5)


async def lose_a_broker(drive):
    await drive.kill(4)


async def fail_over(drive):
    await drive.kill(1)
    assert drive.of(BrokersChanged) == []  # the new controller has seen nobody come or go


@pytest.mark.behaviour("B049")
@pytest.mark.parametrize("trigger", [start_a_broker, lose_a_broker, fail_over])
async def test_a_partition_without_a_leader_is_tried_again_whatever_broker_comes_or_goes(
    drive, trigger
):
    orders = await without_leader(drive)
    if trigger is start_a_broker:
        await drive.kill(5)
    await drive.configure("topics", "orders", unclean_leader_election_enable="true")
    await drive.settle()
    assert drive.context.partition_phase(orders) is OFFLINE  # nobody was told
    drive.forget()

    await trigger(drive)

    assert drive.context.partition_phase(orders) is ONLINE
    assert [(each.leader, each.reason) for each in drive.of(LeaderElected)] == [
        (3, Strategy.OFFLINE.value)
    ]
    assert drive.state("orders").leader == 3
