"""Moving partitions by a plan: B179 to B182.

Broker 1 is the controller and holds no replica, so that cutting others apart only holds up moves.
"""

import json

import pytest

from actors.administration.plans import MalformedPlan, format_reassignment
from actors.client.reassign import MoveState, cancel, execute, generate, moves, verify
from actors.cluster import SimulatedCluster
from wire.errors import (
    InvalidConfig,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    ReassignmentInProgress,
    UnknownTopicOrPartition,
)
from wire.ids import TopicPartition

ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
TOPICS = '{"topics": [{"topic": "orders"}]}'
LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"
RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
IN_PROGRESS, COMPLETED, FAILED = MoveState


class Tool:
    """A cluster with a topic, and what a reassignment may change in it."""

    def __init__(self, sim, cluster):
        self.sim, self.cluster, self.admin = sim, cluster, cluster.admin()

    async def placed(self):
        described = (await self.admin.describe_topics())["orders"]
        return {each.partition: each.replicas for each in described.partitions}

    def config(self, entity):
        tree = self.sim.zookeeper.tree
        if tree.stat(f"/config/{entity}") is None:
            return {}
        return json.loads(tree.get(f"/config/{entity}").data)["config"]

    def rates(self):
        return {
            broker: tuple(config[key] for key in RATES)
            for broker in (1, 2, 3, 4)
            if (config := self.config(f"brokers/{broker}"))
        }

    async def stall(self, throttle=None):
        """Begin to move the first partition to broker 4, which cannot reach the leader."""
        self.sim.cut("broker-2", "broker-4")
        text = plan({ORDERS_0: (2, 4)})
        await execute(self.admin, text, throttle)
        await self.sim.sleep(1_000)
        return text


def plan(targets):
    return format_reassignment(targets)


@pytest.fixture
async def tool(sim):
    cluster = SimulatedCluster(sim, brokers=4, racks={1: "a", 2: "a", 3: "b", 4: "b"})
    await cluster.start_nodes()
    await sim.settle()
    assert cluster.controller is cluster.nodes[1]
    tool = Tool(sim, cluster)
    await tool.admin.create_topic("orders", assignments={0: [2, 3], 1: [3, 2]})
    return tool


# --- generate -------------------------------------------------------------------------------------


@pytest.mark.behaviour("B179")
async def test_a_proposal_uses_the_brokers_given_and_writes_nothing(tool):
    before = tool.sim.zookeeper.tree.zxid

    current, proposed = await generate(tool.admin, TOPICS, [1, 4])

    assert current == {ORDERS_0: (2, 3), ORDERS_1: (3, 2)}
    assert proposed == {ORDERS_0: (1, 4), ORDERS_1: (4, 1)}
    assert tool.sim.zookeeper.tree.zxid == before


@pytest.mark.behaviour("B179")
async def test_a_proposal_minds_racks_unless_told_not_to(tool):
    _, aware = await generate(tool.admin, TOPICS, [1, 2, 3])
    _, unaware = await generate(tool.admin, TOPICS, [1, 2, 3], rack_aware=False)

    assert all(3 in each for each in aware.values())
    assert unaware[ORDERS_0] == (1, 2)


@pytest.mark.behaviour("B179")
@pytest.mark.parametrize(
    ("topics", "brokers", "error", "sentence"),
    [
        ('{"topics": [}', [1], MalformedPlan, "line 1, column 13"),
        ('{"topics": [{"topic": "nowhere"}]}', [1, 2], UnknownTopicOrPartition, "topic: nowhere"),
        (TOPICS, [1, 9], InvalidReplicaAssignment, "Not alive: broker 9; alive are: 1, 2, 3, 4"),
        (TOPICS, [1], InvalidReplicationFactor, "at most the number of live brokers, 1"),
        (TOPICS, [], InvalidReplicationFactor, "at most the number of live brokers, 0"),
    ],
)
async def test_a_proposal_that_cannot_be_is_refused(tool, topics, brokers, error, sentence):
    with pytest.raises(error, match=sentence):
        await generate(tool.admin, topics, brokers)


# --- execute --------------------------------------------------------------------------------------


@pytest.mark.behaviour("B180")
async def test_a_plan_is_executed_and_the_answer_takes_it_back(tool):
    before = await execute(tool.admin, plan({ORDERS_0: (4, 3), ORDERS_1: (2, 3)}))
    await tool.sim.settle()
    moved = await tool.placed()
    await execute(tool.admin, plan(before))
    await tool.sim.settle()

    assert before == {ORDERS_0: (2, 3), ORDERS_1: (3, 2)}
    assert moved == {0: (4, 3), 1: (2, 3)}
    assert await tool.placed() == {0: (2, 3), 1: (3, 2)}


@pytest.mark.behaviour("B180")
@pytest.mark.parametrize(
    ("text", "error", "sentence"),
    [
        ('{"version": 1,\n "partitions": [}', MalformedPlan, "line 2, column 17"),
        ('{"version":1,"partitions":[]}', MalformedPlan, "the list is empty"),
        (plan({ORDERS_0: ()}), MalformedPlan, r"partitions\[0\].replicas: the list is empty"),
        (plan({ORDERS_0: (2, 2)}), MalformedPlan, "listed more than once: 2"),
        (plan({ORDERS_0: (2, 9)}), InvalidReplicaAssignment, "Not alive: broker 9"),
        (plan({TopicPartition("orders", 7): (2,)}), UnknownTopicOrPartition, "orders-7"),
        (plan({TopicPartition("nowhere", 0): (2,)}), UnknownTopicOrPartition, "nowhere"),
    ],
)
async def test_a_plan_that_cannot_be_is_refused_and_nothing_is_written(tool, text, error, sentence):
    before = tool.sim.zookeeper.tree.zxid

    with pytest.raises(error, match=sentence):
        await execute(tool.admin, text, throttle=1_000)

    assert tool.sim.zookeeper.tree.zxid == before


@pytest.mark.behaviour("B180")
async def test_while_something_moves_more_must_be_asked_for_as_such(tool):
    await tool.stall()
    more = plan({ORDERS_1: (3, 4)})
    before = tool.sim.zookeeper.tree.zxid

    with pytest.raises(ReassignmentInProgress, match=r"on the move already: orders-0\."):
        await execute(tool.admin, more, throttle=1_000)
    assert tool.sim.zookeeper.tree.zxid == before
    await execute(tool.admin, more, additional=True)
    await tool.sim.sleep(1_000)

    assert (await tool.placed())[1] == (3, 4)
    assert set(await moves(tool.admin)) == {ORDERS_0}


# --- throttles ------------------------------------------------------------------------------------


@pytest.mark.behaviour("B181")
async def test_throttles_are_set_before_the_move(tool):
    await tool.stall(throttle=1_000)

    assert tool.config("topics/orders") == {LEADER_REPLICAS: "0:2,0:3", FOLLOWER_REPLICAS: "0:4"}
    assert tool.rates() == dict.fromkeys((2, 3, 4), ("1000", "1000"))
    tree = tool.sim.zookeeper.tree
    throttled = max(
        tree.stat(path).mzxid
        for path in ("/config/topics/orders", *(f"/config/brokers/{each}" for each in (2, 3, 4)))
    )
    assert throttled < tree.stat("/brokers/topics/orders").mzxid
    assert len(tree.children("/config/changes")) == 4


@pytest.mark.behaviour("B181")
async def test_the_throttles_of_an_additional_move_are_merged_with_those_that_are_set(tool):
    await tool.stall(throttle=1_000)

    text = plan({ORDERS_0: (2, 4), ORDERS_1: (3, 4)})
    await execute(tool.admin, text, throttle=2_000, additional=True)

    # Broker 4 holds a replica of the first partition by now, but nothing to copy from.
    assert tool.config("topics/orders") == {
        LEADER_REPLICAS: "0:2,0:3,1:2,1:3",
        FOLLOWER_REPLICAS: "0:4,1:4",
    }
    assert tool.rates() == dict.fromkeys((2, 3, 4), ("2000", "2000"))


@pytest.mark.behaviour("B181")
async def test_a_throttle_that_cannot_be_merged_or_be_is_refused_before_the_move(tool):
    with pytest.raises(InvalidRequest, match="The throttle is 0"):
        await execute(tool.admin, plan({ORDERS_0: (2, 4)}), throttle=0)
    strange = json.dumps({"version": 1, "config": {LEADER_REPLICAS: "x"}}).encode()
    await tool.cluster.nodes[1].world.keeper.set("/config/topics/orders", strange)

    with pytest.raises(InvalidConfig, match="'x' is not a throttled replica"):
        await execute(tool.admin, plan({ORDERS_0: (2, 4)}), throttle=1_000)

    assert await moves(tool.admin) == {}
    assert tool.rates() == {}


# --- verify ---------------------------------------------------------------------------------------


@pytest.mark.behaviour("B182")
async def test_a_plan_is_in_progress_then_completed_and_only_then_the_throttles_go(tool):
    await tool.stall(throttle=1_000)
    text = plan({ORDERS_0: (2, 4), ORDERS_1: (3, 2)})

    assert await verify(tool.admin, text) == {ORDERS_0: IN_PROGRESS, ORDERS_1: COMPLETED}
    assert tool.rates() != {}
    tool.sim.heal()
    await tool.sim.sleep(60_000)
    assert await verify(tool.admin, text) == {ORDERS_0: COMPLETED, ORDERS_1: COMPLETED}

    assert tool.config("topics/orders") == {}
    assert tool.rates() == {}


@pytest.mark.behaviour("B182")
async def test_a_partition_that_does_not_move_and_is_elsewhere_has_failed(tool):
    nowhere = TopicPartition("nowhere", 0)

    states = await verify(tool.admin, plan({ORDERS_0: (3, 2), nowhere: (1,), ORDERS_1: (3, 2)}))

    assert states == {ORDERS_0: FAILED, nowhere: FAILED, ORDERS_1: COMPLETED}


@pytest.mark.behaviour("B182")
async def test_throttles_may_be_preserved(tool):
    text = plan({ORDERS_0: (4, 3)})
    await execute(tool.admin, text, throttle=1_000)
    await tool.sim.settle()

    assert await verify(tool.admin, text, preserve_throttles=True) == {ORDERS_0: COMPLETED}
    assert await cancel(tool.admin, text, preserve_throttles=True) == ()

    assert tool.rates() == dict.fromkeys((2, 3, 4), ("1000", "1000"))


@pytest.mark.behaviour("B182")
async def test_throttles_stay_while_another_plan_moves(tool):
    await tool.stall(throttle=1_000)

    assert await verify(tool.admin, plan({ORDERS_1: (3, 2)})) == {ORDERS_1: COMPLETED}

    assert tool.rates() != {}


# --- cancel and list ------------------------------------------------------------------------------


@pytest.mark.behaviour("B182")
async def test_a_move_is_cancelled_and_its_throttles_go(tool):
    text = await tool.stall(throttle=1_000)
    ongoing = (await moves(tool.admin))[ORDERS_0]
    assert (ongoing.adding_replicas, ongoing.removing_replicas) == ((4,), (3,))

    both = plan({ORDERS_0: (2, 4), ORDERS_1: (2, 3)})
    assert await cancel(tool.admin, both) == (ORDERS_0,)
    await tool.sim.sleep(1_000)

    assert await moves(tool.admin) == {}
    assert await tool.placed() == {0: (2, 3), 1: (3, 2)}
    assert tool.config("topics/orders") == {}
    assert tool.rates() == {}
    assert await verify(tool.admin, text) == {ORDERS_0: FAILED}
    assert await cancel(tool.admin, text) == ()
