"""The main paths once more, on a real ZooKeeper."""

import pytest

from actors.node import NodeState
from runtime.keeper import NoNode
from tests.support.real_cluster import real_cluster
from wire.admin import ElectionType
from wire.ids import TopicPartition
from wire.trace import ControllerElected, TopicDeletionStep
from wire.znodes import TopicZNode

ORDERS = TopicPartition("orders", 0)
REPLICAS = {0: (1, 2, 3)}
MORTAL_MS = 6_000  # how long the dead keep their znodes


@pytest.mark.behaviour("B001", "B002", "B004")
async def test_one_broker_is_the_controller_and_the_next_one_has_the_next_epoch(zookeeper):
    async with real_cluster(zookeeper, session_timeout_ms=MORTAL_MS) as drive:
        first = drive.cluster.controller

        drive.cluster.kill(first.config.broker_id)
        await drive.until(lambda: drive.cluster.controller not in (None, first))

        states = [node.state for node in drive.cluster.nodes.values()]
        (elected,) = [each for each in drive.events if isinstance(each, ControllerElected)]
        assert sorted(state.name for state in states) == ["CONTROLLER", "RUNNING", "STOPPED"]
        assert (elected.controller_epoch, elected.epoch_version) == (2, 2)


@pytest.mark.behaviour("B041", "B086")
async def test_a_topic_is_created_and_everybody_knows_its_leader(zookeeper):
    async with real_cluster(zookeeper) as drive:
        await drive.admin.create_topic("orders", assignments=REPLICAS)
        await drive.until(drive.everybody_sees(ORDERS, leader=1, leader_epoch=0, isr=(1, 2, 3)))

        assert (await drive.state(ORDERS)).isr == (1, 2, 3)


@pytest.mark.behaviour("B060", "B071", "B070")
async def test_a_leader_dies_another_leads_and_the_dead_one_comes_back_in_sync(zookeeper):
    async with real_cluster(zookeeper, session_timeout_ms=MORTAL_MS) as drive:
        await drive.admin.create_topic("orders", assignments={0: (2, 3, 1)})

        drive.cluster.kill(2)
        await drive.until(drive.everybody_sees(ORDERS, leader=3, isr=(3, 1)))
        await drive.cluster.start_broker(2)
        await drive.until(drive.everybody_sees(ORDERS, leader=3, isr=(3, 1, 2)))

        assert (await drive.state(ORDERS)).leader_epoch == 1


@pytest.mark.behaviour("B035", "B075")
async def test_the_controller_dies_with_the_leader_and_the_next_one_elects_another(zookeeper):
    async with real_cluster(zookeeper, session_timeout_ms=MORTAL_MS) as drive:
        await drive.admin.create_topic("orders", assignments=REPLICAS)
        assert drive.cluster.nodes[1].state is NodeState.CONTROLLER

        drive.cluster.kill(1)
        await drive.until(drive.everybody_sees(ORDERS, leader=2, isr=(2, 3)))

        assert (await drive.state(ORDERS)).leader_epoch == 2


@pytest.mark.behaviour("B079", "B080", "B081")
async def test_a_broker_that_leaves_hands_over_first(zookeeper):
    async with real_cluster(zookeeper) as drive:
        await drive.admin.create_topic("orders", assignments={0: (3, 2, 1)})

        await drive.cluster.stop_broker(3)
        await drive.until(drive.everybody_sees(ORDERS, leader=2, isr=(2, 1)))

        assert (await drive.state(ORDERS)).leader_epoch == 1


@pytest.mark.behaviour("B105", "B106")
async def test_a_partition_moves_to_other_brokers(zookeeper):
    async with real_cluster(zookeeper, 4) as drive:
        await drive.admin.create_topic("orders", assignments={0: (1, 2)})

        await drive.admin.alter_reassignments({ORDERS: (3, 4)})
        await drive.until(drive.everybody_sees(ORDERS, leader=3, replicas=(3, 4)))
        await drive.until(lambda: sorted(drive.cached(1, ORDERS).isr) == [3, 4])

        # Begun, elected, and once more for each replica that left.
        assert (await drive.state(ORDERS)).leader_epoch == 4
        assert await drive.admin.list_reassignments() == {}


@pytest.mark.behaviour("B090", "B095")
async def test_a_deleted_topic_leaves_nothing_behind(zookeeper):
    async with real_cluster(zookeeper) as drive:
        await drive.admin.create_topic("orders", assignments=REPLICAS)

        await drive.admin.delete_topic("orders")
        done = TopicDeletionStep("orders", "completed")
        await drive.until(lambda: done in drive.events)

        with pytest.raises(NoNode):
            await drive.cluster.nodes[1].world.keeper.get(TopicZNode.path("orders"))
        assert drive.cached(2, ORDERS) is None


@pytest.mark.behaviour("B065", "B113")
async def test_the_preferred_replica_leads_again_when_asked_for(zookeeper):
    async with real_cluster(zookeeper) as drive:
        await drive.admin.create_topic("orders", assignments={0: (3, 2, 1)})
        await drive.cluster.stop_broker(3)
        await drive.cluster.start_broker(3)
        await drive.until(drive.everybody_sees(ORDERS, leader=2, isr=(2, 1, 3)))

        results = await drive.admin.elect_leaders(ElectionType.PREFERRED, [ORDERS])
        await drive.until(drive.everybody_sees(ORDERS, leader=3))

        assert results == {ORDERS: None}
