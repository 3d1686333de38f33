"""Elections by their operation, on a simulated cluster."""

import pytest

from actors.operations.elections import ElectGiven, elect_leaders
from actors.operations.given import PartitionGiven
from actors.operations.operation import BadInput

ORDERS_0, ORDERS_1 = (PartitionGiven(topic="orders", partition=each) for each in (0, 1))


@pytest.fixture
async def moved(sim, cluster):
    """Partition 0 is led by its second replica, since the first was away."""
    await cluster.admin().create_topic("orders", assignments={0: [2, 3], 1: [3, 2]})
    await sim.settle()
    cluster.kill(2)
    await sim.settle(10_000)
    await cluster.start_broker(2)
    await sim.settle()
    assert await leaders(cluster) == [3, 3]
    return cluster


async def leaders(cluster):
    described = (await cluster.admin().describe_topics(["orders"]))["orders"]
    return [each.leader for each in described.partitions]


@pytest.mark.parametrize("kind", ["preferred", "PREFERRED"])
async def test_the_preferred_leader_leads_again(moved, kind):
    held = await elect_leaders(
        moved, ElectGiven(election_type=kind, partitions=[ORDERS_0, ORDERS_1])
    )

    assert (held.elected, held.not_needed, held.failed) == ([ORDERS_0], [ORDERS_1], [])
    assert await leaders(moved) == [2, 3]


async def test_all_partitions_are_meant_when_none_is_named(moved):
    held = await elect_leaders(moved, ElectGiven(election_type="preferred"))

    assert held.elected == [ORDERS_0]
    assert await leaders(moved) == [2, 3]


async def test_what_cannot_be_elected_is_told_with_its_reason(sim, moved):
    moved.kill(2)
    await sim.settle(10_000)
    missing = PartitionGiven(topic="payments", partition=0)

    held = await elect_leaders(
        moved, ElectGiven(election_type="preferred", partitions=[ORDERS_0, missing])
    )

    assert {each.topic: each.error for each in held.failed} == {
        "orders": "PREFERRED_LEADER_NOT_AVAILABLE",
        "payments": "UNKNOWN_TOPIC_OR_PARTITION",
    }
    assert all(each.message for each in held.failed)


async def test_an_unclean_election_brings_a_dead_partition_back(sim, moved):
    moved.kill(2)
    await sim.settle(10_000)
    moved.kill(3)
    await moved.start_broker(2)
    await sim.settle(10_000)
    assert await leaders(moved) == [-1, -1]

    held = await elect_leaders(moved, ElectGiven(election_type="unclean"))

    assert held.elected == [ORDERS_0, ORDERS_1]
    assert await leaders(moved) == [2, 2]


async def test_another_kind_of_election_is_refused(cluster):
    with pytest.raises(BadInput, match="'fair'; it must be one of preferred, unclean"):
        await elect_leaders(cluster, ElectGiven(election_type="fair"))
