"""Topics by their operations, on a simulated cluster."""

import pytest

from actors.operations.operation import BadInput
from actors.operations.topics import (
    AlterTopic,
    CreateTopic,
    DeleteTopic,
    DescribeTopics,
    ListTopics,
    TopicGiven,
    alter_topic,
    create_topic,
    delete_topic,
    describe_topic,
    describe_topics,
    list_topics,
)
from wire.errors import (
    InvalidConfig,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidTopic,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)


async def names(cluster, **options):
    return (await list_topics(cluster, ListTopics(**options))).topics


async def troubled(cluster, **filters):
    described = await describe_topics(cluster, DescribeTopics(**filters))
    return {each.topic: [of.partition for of in each.partitions] for each in described}


async def test_a_created_topic_is_listed_and_described_with_what_was_set_for_it(cluster):
    created = await create_topic(
        cluster,
        CreateTopic(
            topic="orders", replica_assignment=[[1, 2], [3, 1]], configs={"retention.ms": "5"}
        ),
    )

    described = await describe_topic(cluster, TopicGiven(topic="orders"))
    assert (created.partitions, created.replication_factor, created.is_new) == (2, 2, True)
    assert created.topic_id == described.topic_id
    assert (described.partition_count, described.replication_factor) == (2, 2)
    assert described.configs == {"retention.ms": "5"}
    assert [(each.partition, each.leader) for each in described.partitions] == [(0, 1), (1, 3)]
    assert [each.isr for each in described.partitions] == [(1, 2), (3, 1)]
    assert await names(cluster) == ("orders",)


async def test_a_topic_that_is_there_is_no_error_for_who_says_so(cluster):
    await create_topic(cluster, CreateTopic(topic="orders", partitions=2))

    again = await create_topic(cluster, CreateTopic(topic="orders", if_not_exists=True))

    assert not again.is_new
    with pytest.raises(TopicAlreadyExists, match="'orders' exists already"):
        await create_topic(cluster, CreateTopic(topic="orders"))


@pytest.mark.parametrize(
    ("wrong", "error", "sentence"),
    [
        ({"topic": "or ders"}, InvalidTopic, "' ' at position 2"),
        ({"topic": ".."}, InvalidTopic, "is a folder"),
        ({"configs": {"retention": "5"}}, InvalidConfig, "'retention' is not a key"),
        ({"configs": {"retention.ms": "soon"}}, InvalidConfig, "'soon'; it must be a number"),
        ({"replica_assignment": [[1, 1]]}, InvalidReplicaAssignment, "1"),
        ({"replica_assignment": [[9]]}, InvalidReplicaAssignment, "9"),
        ({"replica_assignment": [[1], [1, 2]]}, InvalidReplicaAssignment, "must have 1"),
        ({"replica_assignment": [[1]], "partitions": 1}, BadInput, "partitions"),
        ({"replica_assignment": [[1]], "replication_factor": 1}, BadInput, "replication_factor"),
    ],
)
async def test_a_topic_that_cannot_be_is_refused_and_nothing_is_created(
    cluster, wrong, error, sentence
):
    with pytest.raises(error, match=sentence):
        await create_topic(cluster, CreateTopic(**{"topic": "orders", **wrong}))

    assert await names(cluster) == ()


async def test_validating_creates_nothing(cluster):
    await create_topic(cluster, CreateTopic(topic="orders", validate_only=True))

    assert await names(cluster) == ()


async def test_a_topic_grows_and_never_shrinks(cluster):
    await create_topic(cluster, CreateTopic(topic="orders", replica_assignment=[[1, 2]]))

    await alter_topic(
        cluster, AlterTopic(topic="orders", partitions=2, replica_assignment=[[3, 2]])
    )

    described = await describe_topic(cluster, TopicGiven(topic="orders"))
    assert [each.replicas for each in described.partitions] == [(1, 2), (3, 2)]
    with pytest.raises(InvalidPartitions, match="can only grow"):
        await alter_topic(cluster, AlterTopic(topic="orders", partitions=1))


async def test_a_deleted_topic_is_gone_and_a_second_deletion_needs_if_exists(cluster):
    await create_topic(cluster, CreateTopic(topic="orders"))

    await delete_topic(cluster, DeleteTopic(topic="orders"))

    assert await names(cluster) == ()
    await delete_topic(cluster, DeleteTopic(topic="orders", if_exists=True))
    with pytest.raises(UnknownTopicOrPartition, match="'orders' does not exist"):
        await delete_topic(cluster, DeleteTopic(topic="orders"))
    with pytest.raises(UnknownTopicOrPartition, match="orders"):
        await describe_topic(cluster, TopicGiven(topic="orders"))


async def test_filters_show_only_partitions_in_trouble(sim, cluster):
    await create_topic(
        cluster,
        CreateTopic(
            topic="orders",
            replica_assignment=[[1, 3], [3, 1], [1, 2]],
            configs={"min.insync.replicas": "2"},
        ),
    )
    await create_topic(cluster, CreateTopic(topic="lonely", replica_assignment=[[3], [2]]))
    whole = {"orders": [0, 1, 2], "lonely": [0, 1]}
    assert await troubled(cluster) == whole
    assert await troubled(cluster, under_replicated=True) == {}

    cluster.kill(3)
    await sim.settle(10_000)  # its session ends

    assert await troubled(cluster) == whole
    assert await troubled(cluster, under_replicated=True) == {"orders": [0, 1]}
    assert await troubled(cluster, unavailable=True) == {"lonely": [0]}
    assert await troubled(cluster, under_min_isr=True) == {"orders": [0, 1]}
    assert await troubled(cluster, at_min_isr=True) == {"orders": [2], "lonely": [0, 1]}
    assert await troubled(cluster, unavailable=True, topics=["orders"]) == {}
    (lonely,) = await describe_topics(cluster, DescribeTopics(topics=["lonely"]))
    assert lonely.partitions[0].leader is None
    assert lonely.partitions[0].offline == (3,)


async def test_internal_topics_can_be_left_out(cluster):
    await create_topic(cluster, CreateTopic(topic="orders"))
    await cluster.admin().group_offsets("billing")  # makes the coordinators' topic

    assert await names(cluster) == ("__consumer_offsets", "orders")
    assert await names(cluster, exclude_internal=True) == ("orders",)
    assert set(await troubled(cluster, exclude_internal=True)) == {"orders"}
