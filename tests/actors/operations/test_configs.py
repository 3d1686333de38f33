"""Settings by their operations, on a simulated cluster."""

import pytest

from actors.operations.configs import (
    AlterConfigs,
    DescribeConfigs,
    alter_configs,
    describe_configs,
)
from actors.operations.operation import BadInput
from wire.errors import ApiError, BrokerNotAvailable, InvalidConfig, UnknownTopicOrPartition


@pytest.fixture
async def orders(cluster):
    await cluster.admin().create_topic("orders", configs={"retention.ms": "5"})
    return {"entity_type": "topics", "entity_name": "orders"}


async def values(cluster, entity, **options):
    described = await describe_configs(cluster, DescribeConfigs(**entity, **options))
    return {each.name: each.value for each in described.configs}


async def test_what_was_set_is_described_and_the_rest_if_all_is_asked_for(cluster, orders):
    everything = await describe_configs(cluster, DescribeConfigs(**orders, all=True))

    sources = {each.name: (each.value, each.source) for each in everything.configs}
    assert await values(cluster, orders) == {"retention.ms": "5"}
    assert sources["retention.ms"] == ("5", "TOPIC_CONFIG")
    assert sources["cleanup.policy"] == ("delete", "DEFAULT_CONFIG")


async def test_settings_are_added_and_taken_back_together(cluster, orders):
    change = {"add": {"cleanup.policy": "compact,delete"}, "delete": ["retention.ms"]}

    await alter_configs(cluster, AlterConfigs(**orders, **change))

    assert await values(cluster, orders) == {"cleanup.policy": "compact,delete"}


@pytest.mark.parametrize("name", ["2", "<default>"])
async def test_a_broker_and_the_default_of_all_have_settings(sim, cluster, name):
    entity = {"entity_type": "brokers", "entity_name": name}
    rate = {"leader.replication.throttled.rate": "100"}

    await alter_configs(cluster, AlterConfigs(**entity, add=rate))
    await sim.settle()

    assert await values(cluster, entity) == rate


@pytest.mark.parametrize(
    ("change", "error", "sentence"),
    [
        ({}, BadInput, "nothing is to be changed"),
        ({"add": {"no.such": "1"}}, InvalidConfig, "'no.such' is not a key"),
        ({"add": {"retention.ms": "x"}, "delete": []}, InvalidConfig, "'x'; it must be a number"),
        ({"add": {"segment.bytes": "1000", "no.such": "1"}}, InvalidConfig, "no.such"),
        ({"add": {"retention.ms": "1"}, "delete": ["retention.ms"]}, BadInput, "retention.ms"),
    ],
)
async def test_a_change_that_cannot_be_changes_nothing(cluster, orders, change, error, sentence):
    with pytest.raises(error, match=sentence):
        await alter_configs(cluster, AlterConfigs(**orders, **change))

    assert await values(cluster, orders) == {"retention.ms": "5"}


@pytest.mark.parametrize(
    ("kind", "name", "error"),
    [
        ("topics", "payments", UnknownTopicOrPartition),
        ("topics", "", BadInput),
        ("brokers", "one", BadInput),
        ("brokers", "", BadInput),
        ("brokers", "³", BadInput),
        ("users", "me", BadInput),
    ],
)
async def test_an_entity_that_cannot_be_is_refused(cluster, kind, name, error):
    with pytest.raises(error):
        await describe_configs(cluster, DescribeConfigs(entity_type=kind, entity_name=name))
    with pytest.raises((error, ApiError)):
        await alter_configs(
            cluster, AlterConfigs(entity_type=kind, entity_name=name, add={"retention.ms": "1"})
        )


@pytest.mark.parametrize("broker", ["9", "99999999999999999999"])
async def test_a_broker_that_is_not_alive_is_told_at_once(sim, cluster, broker):
    began_ms = sim.clock.elapsed_ms()

    with pytest.raises(BrokerNotAvailable, match=f"{broker}.*alive are: 1, 2, 3"):
        await describe_configs(cluster, DescribeConfigs(entity_type="brokers", entity_name=broker))

    assert sim.clock.elapsed_ms() - began_ms < 1_000
