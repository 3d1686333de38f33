"""Configuration, told and changed.

Rule: what was set for a topic wins over the broker's value, that over every broker's default, that
over what the broker was started with. A change writes the entity's znode, then a notification for
all brokers (B183); the changes to one entity are made together or not at all.
"""

import dataclasses
from collections import Counter
from collections.abc import Mapping
from typing import Final

from actors.administration.names import check_topic_name
from actors.administration.topic_configs import (
    BROKER_KEYS,
    TOPIC_KEYS,
    ConfigKey,
    change_configs,
)
from actors.broker.topic_store import ATTEMPTS, as_api_error, unknown_topic
from actors.config import BrokerConfig
from runtime.keeper import MAX_DATA_BYTES, BadVersion, NodeExists, NoNode, ZNode
from runtime.world import World
from wire.config_znodes import (
    DEFAULT_ENTITY,
    ConfigChangeNotificationZNode,
    ConfigEntity,
    ConfigEntityType,
    ConfigEntityZNode,
)
from wire.configs import (
    ConfigChanges,
    ConfigDescription,
    ConfigEntry,
    ConfigQuery,
    ConfigResource,
    ConfigResourceType,
    ConfigResult,
    ConfigSource,
    DescribeConfigs,
    DescribeConfigsResponse,
    IncrementalAlterConfigs,
    IncrementalAlterConfigsResponse,
)
from wire.errors import ApiError, InvalidConfig, InvalidRequest, InvalidTopic, MalformedZNode
from wire.znode_json import MAX_INT32
from wire.znodes import TopicZNode

EVERY_BROKER: Final = ConfigEntity(ConfigEntityType.BROKERS, DEFAULT_ENTITY)
MAX_DIGITS: Final = 10  # of a broker's id; Python refuses to read a number of thousands of them
Values = Mapping[str, tuple[str, ConfigSource]]


class Configurator:
    """Answers what is configured, and changes it."""

    def __init__(self, world: World, config: BrokerConfig) -> None:
        self._keeper = world.keeper
        self._config = config
        self._me = ConfigEntity(ConfigEntityType.BROKERS, str(config.broker_id))

    # --- DescribeConfigs --------------------------------------------------------------------------

    async def describe(self, request: DescribeConfigs) -> DescribeConfigsResponse:
        """One answer a resource."""
        return DescribeConfigsResponse(
            resources=tuple([await self._describe(each) for each in request.resources])
        )

    async def _describe(self, query: ConfigQuery) -> ConfigDescription:
        resource = query.resource
        try:
            entity = entity_of(resource)
            if entity.entity_type is ConfigEntityType.TOPICS:
                entries = await self._topic_entries(entity)
            else:
                entries = await self._broker_entries(entity)
        except (ApiError, MalformedZNode) as error:
            refused = as_api_error(error)
            return ConfigDescription(
                resource=resource, error_code=refused.code, error_message=str(refused)
            )
        wanted = query.keys
        return ConfigDescription(
            resource=resource,
            entries=tuple(each for each in entries if wanted is None or each.name in wanted),
        )

    async def _topic_entries(self, topic: ConfigEntity) -> list[ConfigEntry]:
        await self._check_topic(topic.name)
        values = await self._broker_values()
        configs, _ = await self._read(topic)
        entries = []
        for name, key in sorted(TOPIC_KEYS.items()):
            default = key.default, ConfigSource.DEFAULT_CONFIG
            value, source = values.get(key.broker_key, default)
            if name in configs:
                value, source = configs[name], ConfigSource.TOPIC_CONFIG
            entries.append(ConfigEntry(name=name, value=value, source=source))
        return entries

    async def _broker_entries(self, broker: ConfigEntity) -> list[ConfigEntry]:
        if broker == EVERY_BROKER:
            configs, _ = await self._read(EVERY_BROKER)
            source = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
            values: Values = {name: (value, source) for name, value in configs.items()}
        elif broker == self._me:
            values = await self._broker_values()
        else:
            raise InvalidRequest(
                f"Broker {broker.name} knows its own configuration; this is {self._me.name}."
            )
        return [
            ConfigEntry(name=name, value=value, source=source, is_read_only=name not in BROKER_KEYS)
            for name, (value, source) in sorted(values.items())
        ]

    async def _broker_values(self) -> Values:
        """All that this broker goes by, and where it comes from."""
        values = {
            name: (key.default, ConfigSource.DEFAULT_CONFIG) for name, key in BROKER_KEYS.items()
        }
        values.update(_static_values(self._config))
        for entity, source in (
            (EVERY_BROKER, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
            (self._me, ConfigSource.DYNAMIC_BROKER_CONFIG),
        ):
            configs, _ = await self._read(entity)
            values.update((name, (value, source)) for name, value in configs.items())
        return values

    # --- IncrementalAlterConfigs ------------------------------------------------------------------

    async def alter(self, request: IncrementalAlterConfigs) -> IncrementalAlterConfigsResponse:
        """One answer a resource."""
        times = Counter(each.resource for each in request.resources)
        results = {}
        for changes in request.resources:
            resource = changes.resource
            try:
                if times[resource] > 1:
                    raise InvalidRequest(f"{resource.name!r} is in the request more than once.")
                await self._alter(changes, validate_only=request.validate_only)
                results[resource] = ConfigResult(resource)
            except (ApiError, MalformedZNode) as error:
                refused = as_api_error(error)
                results[resource] = ConfigResult(resource, refused.code, str(refused))
        return IncrementalAlterConfigsResponse(resources=tuple(results.values()))

    async def _alter(self, changes: ConfigChanges, *, validate_only: bool) -> None:
        entity = entity_of(changes.resource)
        keys: Mapping[str, ConfigKey] = BROKER_KEYS
        if entity.entity_type is ConfigEntityType.TOPICS:
            keys = TOPIC_KEYS
            await self._check_topic(entity.name)
        for _ in range(ATTEMPTS):
            configs, version = await self._read(entity)
            data = ConfigEntityZNode.encode(change_configs(keys, configs, changes.changes))
            if len(data) > MAX_DATA_BYTES:
                raise InvalidConfig(f"{entity.entity_path} would have {len(data)} bytes.")
            if validate_only:
                return
            if await self._write(entity, data, version):
                await self._keeper.create(
                    ConfigChangeNotificationZNode.prefix_path(),
                    ConfigChangeNotificationZNode.encode(entity),
                    sequential=True,
                )
                return
        raise ApiError(f"{entity.entity_path} is being changed by others all the time.")

    async def _write(self, entity: ConfigEntity, data: bytes, version: int | None) -> bool:
        """Unless somebody was faster: any broker may be changing it. The same change made again,
        because a reply was lost, changes nothing.
        """
        path = ConfigEntityZNode.path(entity)
        try:
            if version is None:
                await self._keeper.create(path, data)
            else:
                await self._keeper.set(path, data, version=version)
        except (BadVersion, NodeExists, NoNode):
            return False
        return True

    # --- ZooKeeper --------------------------------------------------------------------------------

    async def _read(self, entity: ConfigEntity) -> tuple[dict[str, str], int | None]:
        """What was set for an entity, and the version of its znode, if it has one."""
        (znode,) = await self._keeper.read([ConfigEntityZNode.path(entity)])
        if isinstance(znode, ZNode):
            return ConfigEntityZNode.decode(entity, znode.data), znode.stat.version
        if isinstance(znode, NoNode):
            return {}, None
        raise znode

    async def _check_topic(self, topic: str) -> None:
        if await self._keeper.exists(TopicZNode.path(topic)) is None:
            raise unknown_topic(topic)


def entity_of(resource: ConfigResource) -> ConfigEntity:
    """What ZooKeeper calls a resource."""
    name = resource.name
    if resource.resource_type is ConfigResourceType.TOPIC:
        try:
            check_topic_name(name)
        except InvalidTopic:
            raise unknown_topic(name) from None
        return ConfigEntity(ConfigEntityType.TOPICS, name)
    if not name:
        return EVERY_BROKER
    is_number = name.isascii() and name.isdigit() and len(name) <= MAX_DIGITS
    if not (is_number and int(name) <= MAX_INT32):
        raise InvalidRequest(f"{name[:40]!r} is not a broker's id.")
    return ConfigEntity(ConfigEntityType.BROKERS, str(int(name)))


def _static_values(config: BrokerConfig) -> Values:
    """What the broker was started with, by Kafka's dotted keys."""
    values = {}
    for setting in dataclasses.fields(config):
        value = getattr(config, setting.name)
        is_default = value == setting.default
        source = ConfigSource.DEFAULT_CONFIG if is_default else ConfigSource.STATIC_BROKER_CONFIG
        if value is not None:
            text = str(value).lower() if isinstance(value, bool) else str(value)
            values[setting.name.replace("_", ".")] = (text, source)
    return values
