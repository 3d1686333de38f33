"""A replica's states, and what entering one does: B050 to B052, B057, B059."""

import pytest

from actors.broker.replica_manager import LogDirFailed
from actors.controller.context import PartitionPhase, Replica, ReplicaPhase
from actors.controller.replica_states import LEGAL_FROM
from tests.support.drive import Drive
from wire.control import LeaderAndIsr, StopReplica, UpdateMetadata
from wire.trace import ReplicaLeftIsr, ReplicaStateChanged, TransitionRefused
from wire.znodes import PartitionState, ReplicaAssignment

NON_EXISTENT = ReplicaPhase.NON_EXISTENT
NEW = ReplicaPhase.NEW
ONLINE = ReplicaPhase.ONLINE
OFFLINE = ReplicaPhase.OFFLINE
STARTED = ReplicaPhase.DELETION_STARTED
SUCCESSFUL = ReplicaPhase.DELETION_SUCCESSFUL
INELIGIBLE = ReplicaPhase.DELETION_INELIGIBLE

LEGAL, ILLEGAL = True, False
EVERY_PAIR = [  # from, to
    (NON_EXISTENT, NON_EXISTENT, ILLEGAL),
    (NON_EXISTENT, NEW, LEGAL),
    (NON_EXISTENT, ONLINE, ILLEGAL),
    (NON_EXISTENT, OFFLINE, ILLEGAL),
    (NON_EXISTENT, STARTED, ILLEGAL),
    (NON_EXISTENT, SUCCESSFUL, ILLEGAL),
    (NON_EXISTENT, INELIGIBLE, ILLEGAL),
    (NEW, NON_EXISTENT, ILLEGAL),
    (NEW, NEW, ILLEGAL),
    (NEW, ONLINE, LEGAL),
    (NEW, OFFLINE, LEGAL),
    (NEW, STARTED, ILLEGAL),
    (NEW, SUCCESSFUL, ILLEGAL),
    (NEW, INELIGIBLE, ILLEGAL),
    (ONLINE, NON_EXISTENT, ILLEGAL),
    (ONLINE, NEW, ILLEGAL),
    (ONLINE, ONLINE, LEGAL),
    (ONLINE, OFFLINE, LEGAL),
    (ONLINE, STARTED, ILLEGAL),
    (ONLINE, SUCCESSFUL, ILLEGAL),
    (ONLINE, INELIGIBLE, ILLEGAL),
    (OFFLINE, NON_EXISTENT, ILLEGAL),
    (OFFLINE, NEW, ILLEGAL),
    (OFFLINE, ONLINE, LEGAL),
    (OFFLINE, OFFLINE, LEGAL),
    (OFFLINE, STARTED, LEGAL),
    (OFFLINE, SUCCESSFUL, ILLEGAL),
    (OFFLINE, INELIGIBLE, LEGAL),
    (STARTED, NON_EXISTENT, ILLEGAL),
    (STARTED, NEW, ILLEGAL),
    (STARTED, ONLINE, ILLEGAL),
    (STARTED, OFFLINE, ILLEGAL),
    (STARTED, STARTED, ILLEGAL),
    (STARTED, SUCCESSFUL, LEGAL),
    (STARTED, INELIGIBLE, LEGAL),
    (SUCCESSFUL, NON_EXISTENT, LEGAL),
    (SUCCESSFUL, NEW, ILLEGAL),
    (SUCCESSFUL, ONLINE, ILLEGAL),
    (SUCCESSFUL, OFFLINE, ILLEGAL),
    (SUCCESSFUL, STARTED, ILLEGAL),
    (SUCCESSFUL, SUCCESSFUL, ILLEGAL),
    (SUCCESSFUL, INELIGIBLE, ILLEGAL),
    (INELIGIBLE, NON_EXISTENT, ILLEGAL),
    (INELIGIBLE, NEW, ILLEGAL),
    (INELIGIBLE, ONLINE, LEGAL),
    (INELIGIBLE, OFFLINE, LEGAL),
    (INELIGIBLE, STARTED, ILLEGAL),
    (INELIGIBLE, SUCCESSFUL, ILLEGAL),
    (INELIGIBLE, INELIGIBLE, ILLEGAL),
]


@pytest.fixture
async def drive(sim):
    return await Drive.start(sim, brokers=4, overrides={"auto_leader_rebalance_enable": False})


def phase(drive, replica):
    return drive.context.replica_phase(replica)


def asked(drive):
    """Kind and recipient of each request, but for UpdateMetadata."""
    return [
        (type(sent.request), sent.to)
        for sent in drive.requests
        if isinstance(sent.request, LeaderAndIsr | StopReplica)
    ]


async def change(drive, after, *replicas):
    """Move replicas, and let everybody who is told answer."""
    drive.forget()
    await drive.reign.office.replicas.change(replicas, after)
    await drive.sim.sleep(100)


async def replica_in(drive, before, broker=3):
    """A replica that is a follower and stands where it is told to."""
    orders = await drive.create("orders", [2, 3])
    replica = Replica(orders, broker)
    drive.context.set_replica_phase(replica, before)
    return replica


# --- the table ------------------------------------------------------------------------------------


@pytest.mark.behaviour("B050")
def test_the_hand_written_pairs_are_all_the_pairs_there_are():
    assert len(EVERY_PAIR) == len({pair[:2] for pair in EVERY_PAIR}) == len(ReplicaPhase) ** 2
    assert LEGAL_FROM.keys() == set(ReplicaPhase)


@pytest.mark.behaviour("B050")
@pytest.mark.parametrize(("before", "after", "is_legal"), EVERY_PAIR)
async def test_a_replica_changes_state_only_as_the_table_says(drive, before, after, is_legal):
    replica = await replica_in(drive, before)

    await change(drive, after, replica)

    refused = TransitionRefused("orders", 0, 3, before.value, after.value)
    changed = ReplicaStateChanged("orders", 0, 3, before.value, after.value)
    assert phase(drive, replica) is (after if is_legal else before)
    assert drive.of(TransitionRefused) == ([] if is_legal else [refused])
    assert drive.of(ReplicaStateChanged) == ([changed] if is_legal and before != after else [])
    if not is_legal:
        assert drive.requests == []
        assert drive.context.replicas(replica.partition) == (2, 3)
        assert drive.version("orders") == 0


@pytest.mark.behaviour("B050")
async def test_an_illegal_change_leaves_its_replica_alone_and_the_others_change(drive):
    await drive.create("orders", {0: [2, 3], 1: [2, 3], 2: [2, 4]})
    first, illegal, last = drive.context.partitions_of("orders")
    drive.context.set_replica_phase(Replica(illegal, 3), STARTED)

    await change(drive, OFFLINE, Replica(first, 3), Replica(illegal, 3), Replica(last, 4))

    assert [phase(drive, Replica(first, 3)), phase(drive, Replica(last, 4))] == [OFFLINE] * 2
    assert phase(drive, Replica(illegal, 3)) is STARTED
    assert [drive.state("orders", each).isr for each in range(3)] == [(2,), (2, 3), (2,)]
    assert len(drive.of(TransitionRefused)) == 1


# --- new ------------------------------------------------------------------------------------------


@pytest.mark.behaviour("B051")
async def test_a_new_replica_of_a_led_partition_is_told_to_follow_as_new_and_nobody_else_is(drive):
    orders = await drive.create("orders", [2, 3])
    drive.context.assign(orders, ReplicaAssignment(replicas=(2, 3, 4), adding_replicas=(4,)))

    await change(drive, NEW, Replica(orders, 4))

    assert asked(drive) == [(LeaderAndIsr, 4)]
    (request,) = drive.sent(LeaderAndIsr)
    (entry,) = request.partitions
    assert (entry.partition, entry.leader, entry.leader_epoch) == (orders, 2, 0)
    assert entry.is_new
    assert entry.replicas == (2, 3, 4)
    assert drive.hosted(4, "orders").leader == 2
    assert phase(drive, Replica(orders, 4)) is NEW


@pytest.mark.behaviour("B051")
async def test_a_leader_never_becomes_a_new_replica(drive):
    leader = await replica_in(drive, NON_EXISTENT, broker=2)

    await change(drive, NEW, leader)

    assert phase(drive, leader) is NON_EXISTENT
    assert drive.requests == []
    assert drive.of(TransitionRefused) == [
        TransitionRefused("orders", 0, 2, "NonExistentReplica", "NewReplica")
    ]


@pytest.mark.behaviour("B051")
async def test_a_new_replica_of_a_partition_without_leadership_is_told_nothing(drive):
    replica = await replica_in(drive, NON_EXISTENT)
    drive.context.drop_leadership(replica.partition)

    await change(drive, NEW, replica)

    assert phase(drive, replica) is NEW
    assert drive.requests == []


# --- online ---------------------------------------------------------------------------------------


@pytest.mark.behaviour("B052")
async def test_a_new_replica_goes_online_without_a_request(drive):
    replica = await replica_in(drive, NEW)

    await change(drive, ONLINE, replica)

    assert phase(drive, replica) is ONLINE
    assert drive.requests == []
    assert drive.context.replicas(replica.partition) == (2, 3)


@pytest.mark.behaviour("B052")
async def test_a_new_replica_that_is_not_assigned_is_assigned_last_in_memory_only(drive):
    orders = await drive.create("orders", [2, 3])
    drive.context.assign(orders, ReplicaAssignment(replicas=(2, 3), removing_replicas=(2,)))
    drive.context.set_replica_phase(Replica(orders, 4), NEW)

    await change(drive, ONLINE, Replica(orders, 4))

    assert drive.context.assignments[orders] == ReplicaAssignment(
        replicas=(2, 3, 4), removing_replicas=(2,)
    )
    assert Replica(orders, 4) in drive.context.replicas_on([4])
    assert drive.assignment("orders").replicas == (2, 3)
    assert drive.requests == []


@pytest.mark.behaviour("B052")
@pytest.mark.parametrize("before", [ONLINE, OFFLINE, INELIGIBLE])
async def test_any_other_replica_goes_online_by_being_told_who_leads_not_as_new(drive, before):
    replica = await replica_in(drive, before)

    await change(drive, ONLINE, replica)

    assert asked(drive) == [(LeaderAndIsr, 3)]
    ((entry,),) = [request.partitions for request in drive.sent(LeaderAndIsr)]
    assert (entry.leader, entry.leader_epoch, entry.isr) == (2, 0, (2, 3))
    assert not entry.is_new
    told = [sent.to for sent in drive.requests if isinstance(sent.request, UpdateMetadata)]
    assert sorted(told) == [1, 2, 3, 4]
    assert drive.version("orders") == 0


@pytest.mark.behaviour("B052")
@pytest.mark.parametrize("before", [ONLINE, OFFLINE, INELIGIBLE])
async def test_without_leadership_a_replica_goes_online_untold(drive, before):
    replica = await replica_in(drive, before)
    drive.context.drop_leadership(replica.partition)

    await change(drive, ONLINE, replica)

    assert phase(drive, replica) is ONLINE
    assert drive.requests == []


# --- deletion -------------------------------------------------------------------------------------


@pytest.mark.behaviour("B057")
async def test_deletion_starts_with_stop_replica_and_delete(drive):
    replica = await replica_in(drive, OFFLINE)

    await change(drive, STARTED, replica)

    assert [(type(sent.request), sent.to) for sent in drive.requests] == [(StopReplica, 3)]
    ((entry,),) = [request.partitions for request in drive.sent(StopReplica)]
    assert (entry.partition, entry.delete) == (replica.partition, True)
    assert drive.hosted(3, "orders") is None
    assert drive.hosted(2, "orders").is_leader


@pytest.mark.behaviour("B057")
@pytest.mark.parametrize(
    ("before", "after"), [(STARTED, SUCCESSFUL), (STARTED, INELIGIBLE), (OFFLINE, INELIGIBLE)]
)
async def test_the_outcome_of_a_deletion_is_a_state_and_nothing_else(drive, before, after):
    replica = await replica_in(drive, before)

    await change(drive, after, replica)

    assert phase(drive, replica) is after
    assert drive.requests == []
    assert drive.context.replicas(replica.partition) == (2, 3)
    assert drive.version("orders") == 0


@pytest.mark.behaviour("B057")
async def test_a_replica_that_no_longer_exists_is_forgotten_in_memory_only(drive):
    replica = await replica_in(drive, SUCCESSFUL)

    await change(drive, NON_EXISTENT, replica)

    assert drive.context.replicas(replica.partition) == (2,)
    assert drive.context.replica_phases[replica.partition] == {2: ONLINE}
    assert replica not in drive.context.replicas_on([3])
    assert drive.assignment("orders").replicas == (2, 3)
    assert drive.requests == []


# --- who is online --------------------------------------------------------------------------------


@pytest.mark.behaviour("B059")
async def test_a_replica_is_online_if_its_broker_lives_and_stays_and_its_disk_works(drive):
    await drive.create("orders", {0: [2, 3, 4], 1: [2, 3, 4]})
    orders, other = drive.context.partitions_of("orders")
    await drive.kill(4)
    drive.context.shutting_down.add(3)
    drive.context.offline_dirs[2] = {orders: None}
    is_online = drive.context.is_online

    assert [is_online(other, broker) for broker in (2, 3, 4)] == [True, False, False]
    assert [is_online(orders, broker) for broker in (2, 3, 4)] == [False, False, False]
    assert [is_online(other, each, or_shutting_down=True) for each in (2, 3, 4)] == [
        True,
        True,
        False,
    ]
    assert not is_online(orders, 2, or_shutting_down=True)
    assert drive.context.live_brokers == [1, 2]
    assert drive.context.live_or_shutting_down == [1, 2, 3]


@pytest.mark.behaviour("B059", "B053")
async def test_a_failed_disk_takes_its_replicas_offline_and_leaves_the_others_of_the_broker(drive):
    await drive.create("orders", {0: [2, 3], 1: [2, 3]})
    broken, sound = drive.context.partitions_of("orders")
    drive.forget()

    drive.node(2).replica_manager.ref.tell(LogDirFailed(frozenset({broken})))
    await drive.settle()

    assert phase(drive, Replica(broken, 2)) is OFFLINE
    assert phase(drive, Replica(sound, 2)) is ONLINE
    assert drive.context.partition_phase(broken) is PartitionPhase.ONLINE
    assert drive.state("orders", 0) == PartitionState(
        controller_epoch=1, leader=3, leader_epoch=1, isr=(3,)
    )
    assert drive.state("orders", 1) == PartitionState(
        controller_epoch=1, leader=2, leader_epoch=0, isr=(2, 3)
    )
    assert drive.of(ReplicaLeftIsr) == []  # the election has left it out already
    assert drive.sent(UpdateMetadata, to=4)[-2].partitions[0].offline_replicas == (2,)
