"""A broker's settings: Kafka's names, Kafka's defaults, and no broker with impossible ones."""

from dataclasses import FrozenInstanceError, fields

import pytest

from actors.config import BadConfig, BrokerConfig

LEAST = {
    "broker_id": 0,
    "zookeeper_session_timeout_ms": 1,
    "num_partitions": 1,
    "default_replication_factor": 1,
    "leader_imbalance_per_broker_percentage": 0,
    "leader_imbalance_check_interval_seconds": 1,
    "controlled_shutdown_max_retries": 0,
    "controlled_shutdown_retry_backoff_ms": 0,
}


def test_the_defaults_are_kafkas_but_for_the_session_timeout():
    config = BrokerConfig(broker_id=1)

    assert {each.name: getattr(config, each.name) for each in fields(config)} == {
        "broker_id": 1,
        "broker_rack": None,
        "zookeeper_session_timeout_ms": 6_000,  # Kafka: 18,000
        "num_partitions": 1,
        "default_replication_factor": 1,
        "delete_topic_enable": True,
        "unclean_leader_election_enable": False,
        "auto_leader_rebalance_enable": True,
        "leader_imbalance_per_broker_percentage": 10,
        "leader_imbalance_check_interval_seconds": 300,
        "controlled_shutdown_enable": True,
        "controlled_shutdown_max_retries": 3,
        "controlled_shutdown_retry_backoff_ms": 5_000,
    }


@pytest.mark.parametrize(("key", "least"), LEAST.items())
def test_a_value_below_the_least_possible_is_refused_by_its_kafka_name(key: str, least: int):
    values = {"broker_id": 1, key: least}
    assert getattr(BrokerConfig(**values), key) == least

    with pytest.raises(BadConfig) as refused:
        BrokerConfig(**values | {key: least - 1})

    name = key.replace("_", ".")
    assert str(refused.value) == f"{name} is {least - 1}; it must be {least} or more"


def test_every_number_has_a_least_value():
    numbers = {each.name for each in fields(BrokerConfig) if each.type in {int, "int"}}

    assert numbers == LEAST.keys()


def test_a_setting_that_kafka_does_not_have_is_refused():
    with pytest.raises(TypeError, match="brokre_rack"):
        BrokerConfig(broker_id=1, brokre_rack="north")


def test_a_broker_must_have_an_id():
    with pytest.raises(TypeError, match="broker_id"):
        BrokerConfig()


def test_a_config_does_not_change():
    config = BrokerConfig(broker_id=1)

    with pytest.raises(FrozenInstanceError):
        config.num_partitions = 3
