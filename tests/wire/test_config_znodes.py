"""Configuration in ZooKeeper."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.malformed import assert_reads_any_order_and_unknown_keys, assert_refuses_malformed
from tests.wire.strategies import fixed
from wire.config_znodes import (
    DEFAULT_ENTITY,
    ConfigChangeNotificationZNode,
    ConfigEntity,
    ConfigEntityType,
    ConfigEntityTypeZNode,
    ConfigEntityZNode,
)
from wire.errors import MalformedZNode
from wire.znodes import PERSISTENT_ROOTS

FOO = ConfigEntity(ConfigEntityType.TOPICS, "foo")
CONFIG = b'{"version":1,"config":{"unclean.leader.election.enable":"true"}}'
CHANGE = b'{"version":2,"entity_path":"topics/foo"}'
NAMES = st.text(min_size=1, max_size=6).filter(lambda name: "/" not in name)
ENTITIES = st.builds(ConfigEntity, st.sampled_from(ConfigEntityType), NAMES) | st.builds(
    ConfigEntity, st.just(ConfigEntityType.USERS), NAMES, NAMES
)


def test_every_type_has_its_folder_among_the_roots():
    for entity_type in ConfigEntityType:
        assert ConfigEntityTypeZNode.path(entity_type) in PERSISTENT_ROOTS


def test_an_entity_has_its_path():
    default = ConfigEntity(ConfigEntityType.BROKERS, DEFAULT_ENTITY)
    client = ConfigEntity(ConfigEntityType.USERS, "ann", "app")

    assert ConfigEntityZNode.path(FOO) == "/config/topics/foo"
    assert ConfigEntityZNode.path(default) == "/config/brokers/<default>"
    assert ConfigEntityZNode.path(client) == "/config/users/ann/clients/app"


def test_the_children_of_a_type_are_entities():
    assert ConfigEntityTypeZNode.entity_of(ConfigEntityType.TOPICS, "foo") == FOO
    for child in ("", "a/b"):
        with pytest.raises(MalformedZNode) as caught:
            ConfigEntityTypeZNode.entity_of(ConfigEntityType.TOPICS, child)
        assert caught.value.path == f"/config/topics/{child}"


def test_a_configuration_is_these_bytes():
    config = {"unclean.leader.election.enable": "true"}

    assert ConfigEntityZNode.encode(config) == CONFIG
    assert ConfigEntityZNode.decode(FOO, CONFIG) == config


def test_a_malformed_configuration_is_refused():
    def decode(data: bytes) -> dict[str, str]:
        return ConfigEntityZNode.decode(FOO, data)

    assert_refuses_malformed("/config/topics/foo", CONFIG, decode)
    assert_reads_any_order_and_unknown_keys(CONFIG, decode)
    with pytest.raises(MalformedZNode):
        decode(b'{"version":1,"config":{"retention.ms":1000}}')


@fixed(100)
@given(st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=4))
def test_a_configuration_comes_back(config: dict[str, str]):
    assert ConfigEntityZNode.decode(FOO, ConfigEntityZNode.encode(config)) == config


def test_a_change_is_these_bytes():
    assert ConfigChangeNotificationZNode.encode(FOO) == CHANGE
    assert ConfigChangeNotificationZNode.decode(0, CHANGE) == FOO


def test_a_change_of_version_1_is_read():
    data = b'{"version":1,"entity_type":"topics","entity_name":"foo"}'

    assert ConfigChangeNotificationZNode.decode(0, data) == FOO


@fixed(100)
@given(ENTITIES)
def test_a_change_comes_back(entity: ConfigEntity):
    data = ConfigChangeNotificationZNode.encode(entity)

    assert ConfigChangeNotificationZNode.decode(0, data) == entity


def test_a_malformed_change_is_refused():
    def decode(data: bytes) -> ConfigEntity:
        return ConfigChangeNotificationZNode.decode(9, data)

    assert_refuses_malformed("/config/changes/config_change_0000000009", CHANGE, decode)
    assert_reads_any_order_and_unknown_keys(CHANGE, decode)


@pytest.mark.parametrize(
    "data",
    [
        b'{"version":1,"entity_path":"topics/foo"}',
        b'{"version":1,"entity_type":"topics"}',
        b'{"version":1,"entity_type":"planets","entity_name":"earth"}',
        b'{"version":2,"entity_type":"topics","entity_name":"foo"}',
        b'{"version":2,"entity_path":"planets/earth"}',
        b'{"version":2,"entity_path":"topics"}',
        b'{"version":2,"entity_path":"topics/"}',
        b'{"version":2,"entity_path":"topics/foo/clients/app"}',
        b'{"version":2,"entity_path":"/topics/foo"}',
        b'{"version":2,"entity_path":"users/ann/clients/"}',
        b'{"version":2,"entity_path":"users//clients/app"}',
        b'{"version":2,"entity_path":"users/ann/friends/app"}',
    ],
)
def test_a_change_of_nothing_known_is_refused(data: bytes):
    with pytest.raises(MalformedZNode, match="config_change_0000000009 is malformed"):
        ConfigChangeNotificationZNode.decode(9, data)
