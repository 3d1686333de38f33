"""Topics created because somebody needs them: what they shall be, and what the client is told."""

import pytest

from actors.administration.auto_topics import OFFSETS_TOPIC, auto_creatable, auto_topic
from actors.administration.topic_configs import TOPIC_KEYS, check_configs
from actors.config import BrokerConfig
from wire.admin import NewTopic
from wire.errors import ErrorCode


def test_a_topic_has_the_brokers_defaults():
    config = BrokerConfig(broker_id=1, num_partitions=4, default_replication_factor=2)

    assert auto_topic("orders", config) == NewTopic(
        topic="orders", num_partitions=4, replication_factor=2
    )


def test_the_offsets_topic_is_compacted_and_has_counts_of_its_own():
    config = BrokerConfig(
        broker_id=1,
        num_partitions=4,
        offsets_topic_num_partitions=7,
        offsets_topic_replication_factor=2,
        offsets_topic_segment_bytes=1_000,
    )

    new = auto_topic("__consumer_offsets", config)

    assert (new.num_partitions, new.replication_factor) == (7, 2)
    assert dict(new.configs) == {
        "cleanup.policy": "compact",
        "segment.bytes": "1000",
        "compression.type": "producer",
    }
    assert check_configs(TOPIC_KEYS, dict(new.configs)) == dict(new.configs)


@pytest.mark.parametrize("topic", ["orders", OFFSETS_TOPIC, "a.b-c_d", "o" * 249])
def test_who_asks_for_a_topic_that_can_be_shall_ask_again(topic):
    assert auto_creatable(topic) is ErrorCode.LEADER_NOT_AVAILABLE
    assert auto_creatable(topic, replicas=3, live_brokers=3) is ErrorCode.LEADER_NOT_AVAILABLE


@pytest.mark.parametrize("topic", ["", ".", "..", "a b", "a/b", "o" * 250])
def test_a_name_that_cannot_be_is_refused_however_many_brokers_live(topic):
    assert auto_creatable(topic) is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert auto_creatable(topic, replicas=3, live_brokers=1) is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_too_few_brokers_are_told_of():
    assert (
        auto_creatable("orders", replicas=3, live_brokers=2) is ErrorCode.INVALID_REPLICATION_FACTOR
    )
