"""Which fetcher follows what: B145, and B136's end of those that follow nothing."""

import pytest

from actors.broker.fetchers import fetcher_id
from tests.support.data import produce, values_on
from tests.support.drive import Drive
from tests.support.leader import HANDS, ORDERS, SALES, Leader, follow, tell
from tests.support.orders import order, stop, stop_replica
from wire.control import StopReplicaResponse
from wire.data import Fetch
from wire.ids import TopicPartition

SMALLEST = "polygenelubricants"  # its hash is the one number that has no opposite, -2**31


@pytest.mark.behaviour("B145")
@pytest.mark.parametrize(
    ("topic", "partition", "fetchers", "expected"),
    [
        pytest.param("a", 0, 4, 3, id="31 x 97 = 3007"),
        pytest.param("a", 1, 4, 0, id="3008"),
        pytest.param("ab", 0, 7, 5, id="31 x (31 x 97 + 98) = 96255"),
        pytest.param("orders", 0, 3, 2, id="-1207109189"),
        pytest.param("orders", 0, 4, 1, id="-1207109189, among four"),
        pytest.param("orders", 1, 4, 0, id="-1207109188: its amount falls"),
        pytest.param(SMALLEST, 0, 7, 0, id="-2147483648 counts as 0"),
        pytest.param(SMALLEST, 1, 10, 7, id="-2147483647"),
        pytest.param("orders", 5, 1, 0, id="with one there is no choice"),
    ],
)
def test_name_and_number_choose_the_fetcher(topic, partition, fetchers, expected):
    assert fetcher_id(TopicPartition(topic, partition), fetchers) == expected


def fetchers_of(drive, broker):
    """The fetchers that a broker runs: their numbers, and whom they follow."""
    names = [address.rpartition("/")[2] for address in drive.node(broker).system.addresses()]
    return sorted(name for name in names if name.startswith("fetcher-"))


@pytest.mark.behaviour("B145")
async def test_a_broker_has_as_many_fetchers_for_a_leader_as_its_partitions_choose(sim):
    drive = await Drive.start(sim, overrides={"num_replica_fetchers": 3})
    assignment = {number: [1, 2] for number in range(6)} | {6: [3, 2]}
    await drive.create("orders", assignment)

    chosen = {number: fetcher_id(TopicPartition("orders", number), 3) for number in range(6)}
    assert set(chosen.values()) == {0, 1, 2}
    last = fetcher_id(TopicPartition("orders", 6), 3)
    assert fetchers_of(drive, 2) == [
        "fetcher-0-1",
        "fetcher-1-1",
        "fetcher-2-1",
        f"fetcher-{last}-3",
    ]
    for number in range(7):
        await produce(drive, TopicPartition("orders", number), b"value", acks=-1)
        assert values_on(drive, 2, TopicPartition("orders", number)) == [b"value"]


@pytest.mark.behaviour("B145")
async def test_each_fetcher_has_one_request_under_way(sim):
    drive = await Drive.start(sim, overrides={"num_replica_fetchers": 2})
    leader = Leader(drive)
    partitions = [TopicPartition("a", number) for number in range(4)]

    await follow(drive, 4, *partitions)
    await drive.sim.sleep(5_000)  # nobody answers, and nobody asks again

    asked = [each.request for each in drive.fetched if each.to == HANDS]
    assert len(leader.asked) == len(asked) == 2
    named = sorted(tuple(part.partition.partition for part in each.partitions) for each in asked)
    assert named == [(0, 2), (1, 3)]


@pytest.mark.behaviour("B136", "B145")
async def test_a_fetcher_that_follows_nothing_is_stopped_and_may_begin_again(sim):
    drive = await Drive.start(sim)
    leader = Leader(drive)
    await follow(drive, 4, ORDERS, SALES)
    assert fetchers_of(drive, 2) == [f"fetcher-0-{HANDS}"]

    await drive.ask(2, stop_replica(stop(ORDERS, 4)), StopReplicaResponse)
    assert fetchers_of(drive, 2) == [f"fetcher-0-{HANDS}"]
    await tell(drive, 2, order(SALES, 2, 5, replicas=(HANDS, 2)))
    assert fetchers_of(drive, 2) == []

    await drive.sim.sleep(10)
    leader.asked.clear()
    await follow(drive, 6, SALES)
    (part,) = (await leader.heard(Fetch)).partitions
    assert (part.partition, part.current_leader_epoch) == (SALES, 6)
    assert fetchers_of(drive, 2) == [f"fetcher-0-{HANDS}"]


@pytest.mark.behaviour("B145")
async def test_a_partition_leaves_one_leaders_fetcher_for_the_others(sim):
    drive = await Drive.start(sim)
    nine, eight = Leader(drive), Leader(drive, 8)
    await follow(drive, 4, ORDERS, SALES)
    await nine.heard(Fetch)

    await tell(drive, 2, order(ORDERS, 8, 5, replicas=(8, 2)), live=(8,))

    (part,) = (await eight.heard(Fetch)).partitions
    assert part.partition == ORDERS
    assert fetchers_of(drive, 2) == ["fetcher-0-8", "fetcher-0-9"]
