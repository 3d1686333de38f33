"""A replica that goes offline: stopped, out of the ISR, others told: B053 to B056, B058."""

import pytest

from actors.controller.context import PartitionPhase, Replica, ReplicaPhase
from tests.support.drive import Drive
from wire.control import LeaderAndIsr, StopReplica, UpdateMetadata
from wire.trace import ElectionFailed, KeeperOperation, ReplicaLeftIsr
from wire.znodes import PartitionState, PartitionStateZNode

OFFLINE, ONLINE = ReplicaPhase.OFFLINE, ReplicaPhase.ONLINE


async def start(sim, **overrides):
    overrides = {"auto_leader_rebalance_enable": False, **overrides}
    return await Drive.start(sim, brokers=4, overrides=overrides)


@pytest.fixture
async def drive(sim):
    return await start(sim)


def state(leader, leader_epoch, *isr, controller_epoch=1):
    return PartitionState(
        controller_epoch=controller_epoch, leader=leader, leader_epoch=leader_epoch, isr=isr
    )


def phase(drive, replica):
    return drive.context.replica_phase(replica)


def asked(drive, kind):
    """Who was asked for what, entry by entry."""
    return sorted(
        (
            (sent.to, entry)
            for sent in drive.requests
            if isinstance(sent.request, kind)
            for entry in sent.request.partitions
        ),
        key=lambda each: each[0],
    )


def led(drive):
    """To whom which leader, leader epoch and ISR were told."""
    return [
        (to, entry.leader, entry.leader_epoch, entry.isr)
        for to, entry in asked(drive, LeaderAndIsr)
    ]


async def go_offline(drive, *replicas):
    drive.forget()
    await drive.reign.office.replicas.change(replicas, OFFLINE)
    await drive.sim.sleep(100)


# --- out of the ISR -------------------------------------------------------------------------------


@pytest.mark.behaviour("B053")
async def test_a_follower_that_goes_offline_is_stopped_and_leaves_the_isr_and_others_are_told(
    drive,
):
    orders = await drive.create("orders", [2, 3, 4])

    await go_offline(drive, Replica(orders, 3))

    assert drive.state("orders") == state(2, 1, 2, 4)
    assert drive.context.leaderships[orders].isr == (2, 4)
    assert drive.context.leaderships[orders].partition_epoch == drive.version("orders") == 1
    assert led(drive) == [(2, 2, 1, (2, 4)), (4, 2, 1, (2, 4))]
    assert not any(entry.is_new for _, entry in asked(drive, LeaderAndIsr))
    ((to, stopped),) = asked(drive, StopReplica)
    assert (to, stopped.partition, stopped.leader_epoch, stopped.delete) == (3, orders, 0, False)
    assert {to for to, _ in asked(drive, UpdateMetadata)} == {1, 2, 3, 4}
    assert drive.of(ReplicaLeftIsr) == [ReplicaLeftIsr("orders", 0, 3, 2, 1, "2,4")]
    assert phase(drive, Replica(orders, 3)) is OFFLINE
    assert drive.hosted(3, "orders") is None


@pytest.mark.behaviour("B053")
async def test_a_leader_that_goes_offline_is_followed_by_nobody(drive):
    orders = await drive.create("orders", [2, 3, 4])

    await go_offline(drive, Replica(orders, 2))

    assert drive.state("orders") == state(-1, 1, 3, 4)
    assert led(drive) == [(3, -1, 1, (3, 4)), (4, -1, 1, (3, 4))]
    assert [to for to, _ in asked(drive, StopReplica)] == [2]
    assert drive.context.leader(orders) == -1


@pytest.mark.behaviour("B053")
async def test_the_replicas_of_a_topic_being_deleted_leave_the_isr_and_nobody_else_is_told(drive):
    orders = await drive.create("orders", [2, 3])
    drive.context.topics_to_delete["orders"] = None

    await go_offline(drive, Replica(orders, 3))

    assert drive.state("orders") == state(2, 1, 2)
    assert asked(drive, LeaderAndIsr) == []
    ((to, stopped),) = asked(drive, StopReplica)
    assert (to, stopped.leader_epoch, stopped.delete) == (3, -2, False)


@pytest.mark.behaviour("B053")
async def test_a_dead_follower_leaves_its_isrs_at_the_next_epoch(drive):
    orders = await drive.create("orders", [2, 3])
    drive.forget()

    await drive.kill(3)

    assert drive.state("orders") == state(2, 1, 2)
    assert led(drive) == [(2, 2, 1, (2,))]
    assert asked(drive, StopReplica) == []  # nobody is there to be stopped
    assert drive.hosted(2, "orders").leader_epoch == 1
    assert phase(drive, Replica(orders, 3)) is OFFLINE


# --- the last one ---------------------------------------------------------------------------------


@pytest.mark.behaviour("B054")
@pytest.mark.parametrize("unclean", [False, True])  # before 1.1, true made the ISR empty
async def test_the_last_replica_in_sync_stays_in_the_isr_and_nobody_leads(sim, unclean):
    drive = await start(sim, unclean_leader_election_enable=unclean)
    orders = await drive.create("orders", [2])

    await drive.kill(2)

    assert (drive.state("orders"), drive.version("orders")) == (state(-1, 1, 2), 1)
    assert drive.context.partition_phase(orders) is PartitionPhase.OFFLINE
    assert drive.cached(3, "orders").leader == -1

    await drive.restart(2)

    assert drive.state("orders") == state(2, 2, 2)


@pytest.mark.behaviour("B054")
async def test_of_two_that_go_offline_together_the_second_stays_in_the_isr(drive):
    orders = await drive.create("orders", [2, 3])

    await go_offline(drive, Replica(orders, 2), Replica(orders, 3))

    assert (drive.state("orders"), drive.version("orders")) == (state(-1, 2, 3), 2)


@pytest.mark.behaviour("B054", "B055")
async def test_a_replica_that_stayed_in_the_isr_keeps_others_from_leading_without_the_data(drive):
    orders = await drive.create("orders", [2, 3])
    drive.shrink(3, orders)
    await drive.settle()
    await drive.kill(2)
    await drive.kill(3)

    await drive.restart(3)
    assert drive.context.partition_phase(orders) is PartitionPhase.OFFLINE
    assert drive.state("orders") == state(-1, 1, 2)

    await drive.restart(2)
    assert drive.state("orders") == state(2, 2, 2, 3)


# --- nothing to leave -----------------------------------------------------------------------------


@pytest.mark.behaviour("B055")
async def test_a_replica_outside_the_isr_goes_offline_without_a_write_and_a_new_epoch(drive):
    orders = await drive.create("orders", [2, 3, 4])
    drive.shrink(3, orders)
    await drive.settle()
    before = (drive.state("orders"), drive.version("orders"))
    assert before == (state(2, 0, 2, 4), 1)

    await go_offline(drive, Replica(orders, 3))

    assert (drive.state("orders"), drive.version("orders")) == before
    writes = [each for each in drive.of(KeeperOperation) if each.operation != "read"]
    assert writes == []
    assert drive.of(ReplicaLeftIsr) == []
    assert phase(drive, Replica(orders, 3)) is OFFLINE
    assert led(drive) == [(2, 2, 0, (2, 4)), (4, 2, 0, (2, 4))]
    assert [(to, entry.delete) for to, entry in asked(drive, StopReplica)] == [(3, False)]


@pytest.mark.behaviour("B056")
async def test_a_replica_without_leadership_goes_offline_and_all_get_an_update_of_metadata(drive):
    await drive.kill(4)
    orders = await drive.create("orders", [4])
    assert orders not in drive.context.leaderships

    await go_offline(drive, Replica(orders, 4))

    assert phase(drive, Replica(orders, 4)) is OFFLINE
    # As Kafka: a partition that never had a leader has no entry, only the brokers are news.
    assert [(type(sent.request), sent.to, sent.request.partitions) for sent in drive.requests] == [
        (UpdateMetadata, 1, ()),
        (UpdateMetadata, 2, ()),
        (UpdateMetadata, 3, ()),
    ]
    assert not drive.exists(PartitionStateZNode.path(orders))


# --- somebody else writes -------------------------------------------------------------------------


@pytest.mark.behaviour("B058")
async def test_leaving_an_isr_that_changes_meanwhile_is_tried_again_for_that_partition(drive):
    await drive.create("orders", {0: [2, 3, 4], 1: [2, 3, 4]})
    first, second = drive.context.partitions_of("orders")

    async def the_leader_shrinks_the_isr():
        drive.shrink(4, second)
        await drive.sim.until(lambda: drive.state("orders", 1).isr == (2, 3))

    async def somebody_writes_the_same_again():
        await drive.write_state(second, drive.state("orders", 1))

    writes = drive.before_state_writes(the_leader_shrinks_the_isr, somebody_writes_the_same_again)
    await go_offline(drive, Replica(first, 3), Replica(second, 3))

    assert writes == [[first, second], [second], [second]]
    assert drive.of(ReplicaLeftIsr) == [
        ReplicaLeftIsr("orders", 0, 3, 2, 1, "2,4"),
        ReplicaLeftIsr("orders", 1, 3, 2, 1, "2"),  # of the newer ISR; 4 may come back later
    ]
    assert [
        (entry.partition.partition, entry.leader_epoch, entry.isr, entry.partition_epoch)
        for to, entry in asked(drive, LeaderAndIsr)
        if to == 2
    ] == [(0, 1, (2, 4), 1), (1, 1, (2,), 3)]
    assert [phase(drive, Replica(each, 3)) for each in (first, second)] == [OFFLINE] * 2


@pytest.mark.behaviour("B058", "B055")
async def test_who_has_left_the_isr_meanwhile_needs_no_second_write(drive):
    orders = await drive.create("orders", [2, 3])

    async def the_leader_drops_it_first():
        drive.shrink(3, orders)
        await drive.sim.until(lambda: drive.state("orders").isr == (2,))

    writes = drive.before_state_writes(the_leader_drops_it_first)
    await go_offline(drive, Replica(orders, 3))

    assert writes == [[orders]]
    assert (drive.state("orders"), drive.version("orders")) == (state(2, 0, 2), 1)
    assert drive.context.leaderships[orders].isr == (2,)
    assert phase(drive, Replica(orders, 3)) is OFFLINE


@pytest.mark.behaviour("B058")
async def test_a_state_of_a_later_controller_is_left_as_it_is_and_the_leader_not_told(drive):
    orders = await drive.create("orders", [2, 3])
    theirs = state(2, 4, 2, 3, controller_epoch=9)
    await drive.write_state(orders, theirs)
    drive.forget()

    await drive.reign.office.replicas.change([Replica(orders, 3)], OFFLINE)
    await drive.sim.sleep(100)

    assert (drive.state("orders"), drive.version("orders")) == (theirs, 1)
    assert drive.sent(LeaderAndIsr) == drive.sent(UpdateMetadata) == []
    assert phase(drive, Replica(orders, 3)) is ONLINE
    (failed,) = drive.of(ElectionFailed)
    assert "which is after 1" in failed.error


@pytest.mark.behaviour("B058")
async def test_a_state_that_is_gone_fails_for_its_partition_alone(drive):
    await drive.create("orders", {0: [2, 3], 1: [2, 3]})
    missing, sound = drive.context.partitions_of("orders")
    await drive.keeper.delete(PartitionStateZNode.path(missing))

    await go_offline(drive, Replica(missing, 3), Replica(sound, 3))

    assert phase(drive, Replica(missing, 3)) is ONLINE
    assert phase(drive, Replica(sound, 3)) is OFFLINE
    assert drive.state("orders", 1) == state(2, 1, 2)
    assert [(each.partition, each.strategy) for each in drive.of(ElectionFailed)] == [
        (0, "OfflineReplica")
    ]
