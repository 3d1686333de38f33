"""What a person gets wrong is refused with a sentence, and nothing is written."""

import pytest

from tests.support.real_cluster import real_cluster
from wire.errors import InvalidRequest, UnknownTopicOrPartition
from wire.znodes import TopicsZNode

WRONG = [
    ("orders", {"partitions": "3"}, "does not take CreateTopics: Expected `int`, got `str`"),
    ("orders", {"partitions": 1.5}, "does not take CreateTopics: Expected `int`, got `float`"),
    ("orders", {"partitions": 10**30}, "CreateTopics cannot be sent"),
    ("orders", {"assignments": {0: ("1",)}}, "does not take CreateTopics: Expected `int`"),
    ("orders", {"configs": {"retention.ms": 5}}, "does not take CreateTopics: Expected `str"),
    (None, {}, "does not take CreateTopics: Expected `str`, got `None`"),
    ("\ud800", {}, "CreateTopics cannot be sent"),
]


async def test_a_value_of_another_type_is_named(zookeeper):
    async with real_cluster(zookeeper, 1) as drive:
        for topic, wrong, sentence in WRONG:
            with pytest.raises(InvalidRequest, match=sentence):
                await drive.admin.create_topic(topic, **wrong)

        keeper = drive.cluster.nodes[1].world.keeper
        assert await keeper.children(TopicsZNode.path()) == ()


async def test_a_topic_that_is_not_there_is_named(zookeeper):
    async with real_cluster(zookeeper, 1) as drive:
        described = await drive.admin.describe_topics(["nowhere"])

        error = described["nowhere"]
        assert isinstance(error, UnknownTopicOrPartition)
        assert "'nowhere'" in str(error)


async def test_a_broker_is_started_once_and_only_one_that_is_there_is_stopped(zookeeper):
    async with real_cluster(zookeeper, 1) as drive:
        running = drive.cluster.nodes[1]

        with pytest.raises(ValueError, match="broker 1 is running already"):
            await drive.cluster.start_broker(1)
        with pytest.raises(ValueError, match="no broker 9; there are: 1"):
            drive.cluster.kill(9)
        with pytest.raises(ValueError, match="no broker 9; there are: 1"):
            await drive.cluster.stop_broker(9)

        assert drive.cluster.nodes == {1: running}
        assert running.is_controller


async def test_every_real_broker_knows_all_and_their_racks_from_the_beginning(zookeeper):
    async with real_cluster(zookeeper, 2, racks={1: "a", 2: "b"}) as drive:
        for node in drive.cluster.nodes.values():
            described = node.replica_manager.cache.describe_cluster()

            assert [(each.id, each.rack) for each in described.brokers] == [(1, "a"), (2, "b")]
