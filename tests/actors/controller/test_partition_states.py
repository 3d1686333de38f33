"""A partition's states, and how it gets its first leader: B039 to B043, B048."""

import pytest

from actors.controller.context import PartitionPhase
from actors.controller.election import Strategy
from actors.controller.events import UncleanElectionEnabled
from actors.controller.partition_states import LEGAL_FROM, StateChangeFailed
from runtime.keeper import Create
from tests.support.drive import Drive
from wire.control import LeaderAndIsr, UpdateMetadata
from wire.ids import TopicPartition
from wire.trace import ElectionFailed, LeaderElected, PartitionStateChanged, TransitionRefused
from wire.znodes import (
    PartitionState,
    PartitionStateZNode,
    PartitionsZNode,
    PartitionZNode,
    ReplicaAssignment,
    TopicAssignment,
    TopicZNode,
)

NON_EXISTENT = PartitionPhase.NON_EXISTENT
NEW = PartitionPhase.NEW
ONLINE = PartitionPhase.ONLINE
OFFLINE = PartitionPhase.OFFLINE

LEGAL, ILLEGAL = True, False
EVERY_PAIR = [  # from, to
    (NON_EXISTENT, NON_EXISTENT, ILLEGAL),
    (NON_EXISTENT, NEW, LEGAL),
    (NON_EXISTENT, ONLINE, ILLEGAL),
    (NON_EXISTENT, OFFLINE, ILLEGAL),
    (NEW, NON_EXISTENT, ILLEGAL),
    (NEW, NEW, ILLEGAL),
    (NEW, ONLINE, LEGAL),
    (NEW, OFFLINE, LEGAL),
    (ONLINE, NON_EXISTENT, ILLEGAL),
    (ONLINE, NEW, ILLEGAL),
    (ONLINE, ONLINE, LEGAL),
    (ONLINE, OFFLINE, LEGAL),
    (OFFLINE, NON_EXISTENT, LEGAL),
    (OFFLINE, NEW, ILLEGAL),
    (OFFLINE, ONLINE, LEGAL),
    (OFFLINE, OFFLINE, LEGAL),
]


@pytest.fixture
async def drive(sim):
    return await Drive.start(sim, brokers=4, overrides={"auto_leader_rebalance_enable": False})


def phase(drive, partition):
    return drive.context.partition_phase(partition)


def told(drive, partition):
    """Who was told to lead or follow a partition, and whether as a new one."""
    return [
        (sent.to, entry.is_new)
        for sent in drive.requests
        if isinstance(sent.request, LeaderAndIsr)
        for entry in sent.request.partitions
        if entry.partition == partition
    ]


async def forget_leader(drive, partition):
    """As if the partition had never had one."""
    await drive.keeper.delete(PartitionStateZNode.path(partition))
    drive.context.drop_leadership(partition)


# --- the table ------------------------------------------------------------------------------------


@pytest.mark.behaviour("B039")
def test_the_hand_written_pairs_are_all_the_pairs_there_are():
    assert len(EVERY_PAIR) == len({pair[:2] for pair in EVERY_PAIR}) == len(PartitionPhase) ** 2
    assert {before for before, _, legal in EVERY_PAIR if legal} == set(PartitionPhase)
    assert LEGAL_FROM.keys() == set(PartitionPhase)


@pytest.mark.behaviour("B039", "B040")
@pytest.mark.parametrize(("before", "after", "is_legal"), EVERY_PAIR)
async def test_a_partition_changes_state_only_as_the_table_says(drive, before, after, is_legal):
    orders = await drive.create("orders", [2, 3])
    if before is NEW:
        await forget_leader(drive, orders)
    drive.context.set_partition_phase(orders, before)
    known = drive.context.leaderships.get(orders)
    drive.forget()

    await drive.reign.office.partitions.change([orders], after, Strategy.OFFLINE)
    await drive.settle()

    refused = TransitionRefused("orders", 0, -1, before.value, after.value)
    changed = PartitionStateChanged("orders", 0, before.value, after.value)
    assert phase(drive, orders) is (after if is_legal else before)
    assert drive.of(TransitionRefused) == ([] if is_legal else [refused])
    assert drive.of(PartitionStateChanged) == ([changed] if is_legal and before != after else [])
    if after is not ONLINE or not is_legal:  # then nothing but the state is anybody's business
        assert drive.of(LeaderElected) == drive.requests == []
        assert drive.context.leaderships.get(orders) == known


@pytest.mark.behaviour("B040")
async def test_an_illegal_change_leaves_its_partition_alone_and_the_others_change(drive):
    await drive.create("orders", {0: [2], 1: [3], 2: [4]})
    first, illegal, last = drive.context.partitions_of("orders")
    drive.context.set_partition_phase(illegal, NON_EXISTENT)
    drive.forget()

    results = await drive.reign.office.partitions.change(
        [first, illegal, last], ONLINE, Strategy.OFFLINE
    )

    assert results == {first: None, last: None}
    assert [each.partition for each in drive.of(LeaderElected)] == [0, 2]
    assert [drive.state("orders", each).leader_epoch for each in range(3)] == [1, 0, 1]
    assert phase(drive, illegal) is NON_EXISTENT
    assert drive.of(TransitionRefused) == [
        TransitionRefused("orders", 1, -1, "NonExistentPartition", "OnlinePartition")
    ]


# --- the first leader -----------------------------------------------------------------------------


@pytest.mark.behaviour("B041", "B067")
async def test_a_new_partition_is_led_by_its_first_live_replica_at_epoch_0(drive):
    await drive.kill(4)

    orders = await drive.create("orders", [4, 3, 2])

    assert drive.state("orders") == PartitionState(
        controller_epoch=1, leader=3, leader_epoch=0, isr=(3, 2)
    )
    assert drive.version("orders") == 0
    assert drive.tree.children(PartitionsZNode.path("orders")) == ("0",)
    assert drive.tree.children(PartitionZNode.path(orders)) == ("state",)
    assert drive.of(LeaderElected) == [
        LeaderElected("orders", 0, 3, 0, "3,2", 0, "NewPartition", False, "4,3,2")
    ]


@pytest.mark.behaviour("B041")
async def test_a_new_partition_bears_the_epoch_of_the_controller_that_created_it(drive):
    await drive.kill(1)

    await drive.create("orders", [3, 2])

    assert drive.state("orders") == PartitionState(
        controller_epoch=2, leader=3, leader_epoch=0, isr=(3, 2)
    )


@pytest.mark.behaviour("B043")
async def test_a_new_partition_is_announced_as_new_to_its_live_replicas_only(drive):
    await drive.kill(4)
    drive.forget()

    orders = await drive.create("orders", [4, 2, 3])
    await drive.settle()

    assert sorted(told(drive, orders)) == [(2, True), (3, True)]
    metadata = [each for each in drive.requests if isinstance(each.request, UpdateMetadata)]
    assert {each.to for each in metadata if each.request.partitions} == {1, 2, 3}

    drive.forget()
    await drive.restart(4)

    assert told(drive, orders)[0] == (4, False)
    assert {to for to, _ in told(drive, orders)} == {4}
    assert drive.state("orders").isr == (2, 3, 4)


@pytest.mark.behaviour("B042", "B049")
async def test_a_partition_without_a_live_replica_stays_new_until_one_starts(drive):
    await drive.kill(4)
    drive.forget()

    orders = await drive.create("orders", [4])
    await drive.settle()

    assert phase(drive, orders) is NEW
    assert not drive.exists(PartitionsZNode.path("orders"))
    assert orders not in drive.context.leaderships
    assert drive.of(ElectionFailed) == [
        ElectionFailed("orders", 0, "NewPartition", "no assigned replica is alive")
    ]

    await drive.restart(4)

    assert phase(drive, orders) is ONLINE
    assert drive.state("orders") == PartitionState(
        controller_epoch=1, leader=4, leader_epoch=0, isr=(4,)
    )


@pytest.mark.behaviour("B041", "B042")
async def test_a_state_that_is_there_already_is_not_overwritten_and_the_partition_stays_new(drive):
    orders = TopicPartition("orders", 0)
    replicas = ReplicaAssignment(replicas=(2, 3))
    somebodys = PartitionState(controller_epoch=1, leader=3, leader_epoch=7, isr=(3,))
    path = PartitionStateZNode.path(orders)
    await drive.keeper.multi(
        [
            Create(
                TopicZNode.path("orders"),
                TopicZNode.encode(TopicAssignment(partitions={0: replicas})),
            ),
            Create(PartitionsZNode.path("orders")),
            Create(PartitionZNode.path(orders)),
            Create(path, PartitionStateZNode.encode(somebodys)),
        ]
    )
    await drive.settle()

    assert drive.state("orders") == somebodys
    assert drive.version("orders") == 0
    assert phase(drive, orders) is NEW
    assert orders not in drive.context.leaderships
    assert told(drive, orders) == drive.of(LeaderElected) == []
    assert [(each.topic, each.strategy) for each in drive.of(ElectionFailed)] == [
        ("orders", "NewPartition")
    ]

    await drive.keeper.delete(path)
    assert phase(drive, orders) is NEW  # nobody has looked yet
    drive.controller.controller.ref.tell(UncleanElectionEnabled("orders"))
    await drive.settle()

    assert phase(drive, orders) is ONLINE
    assert drive.state("orders") == PartitionState(
        controller_epoch=1, leader=2, leader_epoch=0, isr=(2, 3)
    )


@pytest.mark.behaviour("B042")
async def test_a_partition_whose_topic_vanishes_while_it_is_created_gets_no_leader(drive):
    orders = await drive.create("orders", [2])
    await forget_leader(drive, orders)
    drive.context.set_partition_phase(orders, NEW)
    for path in (
        PartitionZNode.path(orders),
        PartitionsZNode.path("orders"),
        TopicZNode.path("orders"),
    ):
        await drive.keeper.delete(path)
    drive.forget()

    results = await drive.reign.office.partitions.change([orders], ONLINE, Strategy.OFFLINE)

    assert isinstance(results[orders], StateChangeFailed)
    assert [(each.topic, each.strategy) for each in drive.of(ElectionFailed)] == [
        ("orders", "NewPartition")
    ]
    assert drive.of(LeaderElected) == told(drive, orders) == []
    assert orders not in drive.context.leaderships


# --- how many are offline -------------------------------------------------------------------------


@pytest.mark.behaviour("B048")
async def test_new_and_offline_partitions_are_counted_but_for_topics_being_deleted(drive):
    await drive.create("orders", {0: [4], 1: [4], 2: [3]})
    await drive.create("returns", [4])
    assert drive.context.offline_partition_count == 0

    await drive.kill(4)
    assert drive.context.offline_partition_count == 3

    await drive.create("refunds", {0: [4], 1: [3]})
    assert drive.context.offline_partition_count == 4

    await drive.delete("orders")
    await drive.settle()
    assert drive.exists(TopicZNode.path("orders"))  # broker 4 cannot delete its replicas
    assert drive.context.offline_partition_count == 2

    await drive.kill(1)
    phases = [phase(drive, each) for each in drive.context.partitions_of("orders")]
    assert phases == [OFFLINE] * 3  # as the next controller finds them
    assert drive.context.offline_partition_count == 2

    await drive.restart(4)
    assert not drive.exists(TopicZNode.path("orders"))
    assert drive.context.offline_partition_count == 0
