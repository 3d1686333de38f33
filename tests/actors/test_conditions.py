"""What a test waits for, and what it is told if it waits in vain."""

import pytest

from actors.cluster import SimulatedCluster
from actors.conditions import (
    NotReached,
    broker_state,
    brokers_up,
    controller,
    high_watermark,
    isr,
    leader,
    log_end_offset,
    offline_partitions,
    replicas,
    topics,
    under_replicated_partitions,
)
from actors.view import BrokerState, BrokerView, ClusterView, OffsetsView, PartitionView
from wire.ids import TopicPartition

ORDERS = TopicPartition("orders", 0)


def view_of(leader=2, in_sync=(2, 3)):
    return ClusterView(
        controller=3,
        controller_epoch=5,
        brokers={
            1: BrokerView(1, BrokerState.DOWN),
            2: BrokerView(2, BrokerState.UP),
            3: BrokerView(3, BrokerState.CONTROLLER),
        },
        partitions={
            ORDERS: PartitionView("orders", 0, leader, 1, 2, replicas=(1, 2, 3), isr=in_sync)
        },
        offsets={ORDERS: OffsetsView(0, 7, {2: 9, 3: 7})},
    )


@pytest.mark.parametrize(
    "condition",
    [
        leader("orders") == 2,
        leader("orders") != 1,
        isr("orders", 0) == {2, 3},
        isr("orders", 0) == [3, 2],
        replicas("orders") == {1, 2, 3},
        high_watermark("orders") >= 7,
        log_end_offset("orders", 0, 2) > 8,
        controller() == 3,
        brokers_up() == {2, 3},
        broker_state(1) == "down",
        topics() == {"orders"},
        under_replicated_partitions() == 1,
        offline_partitions() < 1,
        (leader("orders") == 1) | (leader("orders") == 2),
        ~(leader("orders") == 1),
        (leader("orders") == 2) & (isr("orders") == {2, 3}),
    ],
    ids=str,
)
def test_it_holds(condition):
    assert condition.holds(view_of())


@pytest.mark.parametrize(
    "condition",
    [
        leader("orders") == 1,
        leader("payments") == -1,
        leader("payments") != 1,
        isr("orders") == {2},
        high_watermark("orders") > 7,
        log_end_offset("orders", 0, 1) >= 0,
        (leader("orders") == 2) & (isr("orders") == {1}),
    ],
    ids=str,
)
def test_it_does_not_hold(condition):
    assert not condition.holds(view_of())


def test_another_leader_than_one_is_not_nobody():
    assert not (leader("orders") != 1).holds(view_of(leader=-1))
    assert (leader("orders") == -1).holds(view_of(leader=-1))


def test_a_condition_is_no_truth_value():
    with pytest.raises(TypeError, match=r"await cluster.until"):
        assert leader("orders") == 2


async def test_a_wait_in_vain_says_what_is_the_case(sim):
    cluster = SimulatedCluster(sim, brokers=2)
    await cluster.start_nodes()
    await cluster.admin().create_topic("orders", assignments={0: (1, 2)})

    with pytest.raises(NotReached) as raised:
        await cluster.until(isr("orders", 0) == {1, 2, 3}, timeout_ms=500)

    assert str(raised.value) == (
        "isr('orders', 0) == {1, 2, 3} was not so within 500 ms: isr('orders', 0) is {1, 2}"
    )


async def test_a_wait_for_records_ends_when_they_are_there(sim):
    cluster = SimulatedCluster(sim, brokers=2)
    await cluster.start_nodes()
    await cluster.admin().create_topic("orders", assignments={0: (1, 2)})
    async with cluster.producer() as producer:
        await producer.enqueue("orders", b"coffee")

        view = await cluster.until(high_watermark("orders") == 1)

    assert view.offsets[ORDERS].ends == {1: 1, 2: 1}


async def test_a_wait_leaves_nobody_listening(sim):
    cluster = SimulatedCluster(sim, brokers=1)
    await cluster.start_nodes()

    await cluster.until(brokers_up() == {1})

    assert sim.trace.watchers == {}
