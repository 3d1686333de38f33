"""Moves by their operations: the seed document's JSON, as text and as objects."""

import json

import pytest

from actors.cluster import SimulatedCluster
from actors.operations.given import Nothing
from actors.operations.operation import BadInput
from actors.operations.reassignments import (
    ExecuteGiven,
    GenerateGiven,
    VerifyGiven,
    cancel,
    execute,
    generate,
    list_moves,
    verify,
)
from wire.errors import InvalidReplicaAssignment, ReassignmentInProgress, UnknownTopicOrPartition

# As the seed document has it, with brokers that are there.
PLAN = """{
    "version":1,
    "partitions":[
        {
            "topic":"orders",
            "partition":0,
            "replicas":[
                3,
                4,
                2
            ]
        }
    ]
}"""


@pytest.fixture
async def cluster(sim):
    cluster = SimulatedCluster(sim, brokers=4)
    await cluster.start_nodes()
    await sim.settle()
    await cluster.admin().create_topic("orders", assignments={0: [2, 3], 1: [3, 2]})
    return cluster


async def placed(cluster):
    described = (await cluster.admin().describe_topics(["orders"]))["orders"]
    return {each.partition: each.replicas for each in described.partitions}


async def stall(sim, cluster):
    """Begin a move to broker 4, which cannot reach the leader."""
    sim.cut("broker-2", "broker-4")
    text = '{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[2,4]}]}'
    await execute(cluster, ExecuteGiven(plan=text))
    return text


@pytest.mark.parametrize("form", [str, json.loads])
async def test_a_plan_is_carried_out_and_the_answer_takes_it_back(sim, cluster, form):
    before = await placed(cluster)

    begun = await execute(cluster, ExecuteGiven(plan=form(PLAN)))
    await sim.settle()
    verified = await verify(cluster, VerifyGiven(plan=form(PLAN)))

    assert (await placed(cluster))[0] == (3, 4, 2)
    assert verified.is_complete
    assert [each.state for each in verified.partitions] == ["completed"]
    back = {
        "version": begun.previous.version,
        "partitions": [
            {"topic": each.topic, "partition": each.partition, "replicas": list(each.replicas)}
            for each in begun.previous.partitions
        ],
    }
    await execute(cluster, ExecuteGiven(plan=back))
    await sim.settle()
    assert await placed(cluster) == before


@pytest.mark.parametrize(
    "topics",
    [["orders"], '{"topics":[{"topic":"orders"}],"version":1}', {"topics": [{"topic": "orders"}]}],
)
async def test_a_proposal_changes_nothing_and_can_be_carried_out(sim, cluster, topics):
    before = await placed(cluster)

    proposal = await generate(cluster, GenerateGiven(topics=topics, broker_list=[1, 4]))

    assert {each.partition: each.replicas for each in proposal.current.partitions} == before
    assert {broker for each in proposal.proposed.partitions for broker in each.replicas} == {1, 4}
    assert await placed(cluster) == before


async def test_what_moves_is_listed_and_can_be_cancelled(sim, cluster):
    text = await stall(sim, cluster)

    (move,) = await list_moves(cluster, Nothing())
    verified = await verify(cluster, VerifyGiven(plan=text))
    cancelled = await cancel(cluster, VerifyGiven(plan=text))

    assert (move.topic, move.partition, move.adding, move.removing) == ("orders", 0, (4,), (3,))
    assert not verified.is_complete
    assert [each.state for each in verified.partitions] == ["in progress"]
    assert [(each.topic, each.partition) for each in cancelled.cancelled] == [("orders", 0)]
    assert await list_moves(cluster, Nothing()) == []
    assert (await placed(cluster))[0] == (2, 3)


async def test_a_second_plan_waits_for_the_first_unless_it_is_additional(sim, cluster):
    await stall(sim, cluster)
    second = '{"partitions":[{"topic":"orders","partition":1,"replicas":[3,1]}]}'

    with pytest.raises(ReassignmentInProgress, match="orders-0"):
        await execute(cluster, ExecuteGiven(plan=second))
    assert (await placed(cluster))[1] == (3, 2)
    await execute(cluster, ExecuteGiven(plan=second, additional=True))

    assert 1 in {each.partition for each in await list_moves(cluster, Nothing())} or (
        await placed(cluster)
    )[1] == (3, 1)


async def test_a_throttle_is_set_before_the_move_and_removed_by_verify(sim, cluster):
    tree = sim.zookeeper.tree

    await execute(cluster, ExecuteGiven(plan=PLAN, throttle=1_000_000))
    rate = json.loads(tree.get("/config/brokers/4").data)["config"]
    await sim.settle()
    await verify(cluster, VerifyGiven(plan=PLAN))

    assert rate["follower.replication.throttled.rate"] == "1000000"
    assert json.loads(tree.get("/config/brokers/4").data)["config"] == {}


@pytest.mark.parametrize(
    ("plan", "error", "sentence"),
    [
        ('{"partitions":[', BadInput, "line 1, column"),
        ('{\n"partitions":[]}', BadInput, "the list is empty"),
        ({"partitions": [{"topic": "orders"}]}, BadInput, r"partitions\[0\]"),
        ({"partitions": [{"topic": "orders", "partition": 0, "replicas": [9]}]},
         InvalidReplicaAssignment, "9; alive are: 1, 2, 3, 4"),
        ({"partitions": [{"topic": "orders", "partition": 7, "replicas": [1]}]},
         UnknownTopicOrPartition, "orders-7"),
        ({"partitions": [{"topic": "payments", "partition": 0, "replicas": [1]}]},
         UnknownTopicOrPartition, "payments"),
        ({"partitions": [
            {"topic": "orders", "partition": 0, "replicas": [1]},
            {"topic": "orders", "partition": 7, "replicas": [1]},
        ]}, UnknownTopicOrPartition, "orders-7"),
        ({"version": 2, "partitions": []}, BadInput, "version"),
        ("[]", BadInput, "the JSON"),
    ],
)  # fmt: skip
async def test_a_plan_that_cannot_be_carried_out_moves_nothing(sim, cluster, plan, error, sentence):
    before = await placed(cluster)

    with pytest.raises(error, match=sentence):
        await execute(cluster, ExecuteGiven(plan=plan, throttle=5))
    await sim.settle()

    assert await placed(cluster) == before
    assert sim.zookeeper.tree.children("/config/brokers") == ()
