"""The settings of topics and brokers: describe, alter.

Rule: changes to one entity are made together or not at all. A broker named "" is every broker's
default, as `--entity-default` means.
"""

from typing import Annotated, Final

from msgspec import Meta, Struct

from actors.clients import Clients
from actors.operations.given import Configs, EntityName
from actors.operations.operation import BadInput, Operation
from wire.configs import (
    AlterConfigOperation,
    ConfigChange,
    ConfigResource,
    ConfigResourceType,
    ConfigSource,
)
from wire.errors import ApiError, BrokerNotAvailable

DEFAULT: Final = "<default>"
KINDS: Final = {"topics": ConfigResourceType.TOPIC, "brokers": ConfigResourceType.BROKER}
DYNAMIC: Final = (
    ConfigSource.TOPIC_CONFIG,
    ConfigSource.DYNAMIC_BROKER_CONFIG,
    ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
)


class DescribeConfigs(Struct, kw_only=True, forbid_unknown_fields=True):
    """Whose settings; all of them, or only those that were set."""

    entity_type: str
    entity_name: EntityName
    all: bool = False


class ConfigDescribed(Struct):
    """One setting, and where its value comes from."""

    name: str
    value: str | None
    source: str
    is_read_only: bool
    is_sensitive: bool


class ConfigsDescribed(Struct):
    """The settings of one entity."""

    entity_type: str
    entity_name: str
    configs: list[ConfigDescribed]


class AlterConfigs(Struct, kw_only=True, forbid_unknown_fields=True):
    """What to set, and what to take back."""

    entity_type: str
    entity_name: EntityName
    add: Configs = {}
    delete: Annotated[list[str], Meta(max_length=200)] = []


def resource_of(entity_type: str, entity_name: str) -> ConfigResource:
    """The entity, if there can be such a one."""
    kind = KINDS.get(entity_type)
    if kind is None:
        raise BadInput(f"entity_type is {entity_type!r:.50}; it must be one of {', '.join(KINDS)}")
    if kind is ConfigResourceType.BROKER:
        if entity_name == DEFAULT:
            return ConfigResource(kind, "")
        if not entity_name.isdecimal():
            raise BadInput(
                f"entity_name is {entity_name!r:.50}; it must be a broker's number or {DEFAULT}"
            )
    elif not entity_name:
        raise BadInput("entity_name is empty; it must be a topic's name")
    return ConfigResource(kind, entity_name)


async def describe_configs(clients: Clients, given: DescribeConfigs) -> ConfigsDescribed:
    """What is in force."""
    resource = resource_of(given.entity_type, given.entity_name)
    if resource.resource_type is ConfigResourceType.BROKER and resource.name:
        await _check_alive(clients, resource.name)
    entries = (await clients.admin().describe_configs(resource))[resource]
    if isinstance(entries, ApiError):
        raise entries
    return ConfigsDescribed(
        given.entity_type,
        given.entity_name,
        [
            ConfigDescribed(
                each.name, each.value, each.source.name, each.is_read_only, each.is_sensitive
            )
            for each in sorted(entries, key=lambda each: each.name)
            if given.all or each.source in DYNAMIC
        ],
    )


async def _check_alive(clients: Clients, broker: str) -> None:
    """Only a broker itself knows its settings: one that is gone would be waited for."""
    live = [str(node.id) for node in (await clients.admin().describe_cluster()).brokers]
    if broker not in live:
        raise BrokerNotAvailable(
            f"Broker {broker:.20} is not alive; alive are: {', '.join(sorted(live, key=int))}."
        )


async def alter_configs(clients: Clients, given: AlterConfigs) -> None:
    """Change some settings."""
    resource = resource_of(given.entity_type, given.entity_name)
    if not given.add and not given.delete:
        raise BadInput("nothing is to be changed: give add or delete")
    if both := sorted(given.add.keys() & set(given.delete)):
        raise BadInput(f"{both[0]} is to be set and deleted at once")
    changes = [
        *(ConfigChange(key, AlterConfigOperation.SET, of) for key, of in given.add.items()),
        *(ConfigChange(key, AlterConfigOperation.DELETE) for key in given.delete),
    ]
    error = (await clients.admin().alter_configs({resource: changes}))[resource]
    if error is not None:
        raise error


OPERATIONS: Final = (
    Operation(
        "describeConfigs",
        "GET",
        "/api/configs/{entity_type}/{entity_name}",
        "The settings of a topic or a broker, and where they come from.",
        DescribeConfigs,
        ConfigsDescribed,
        describe_configs,
    ),
    Operation(
        "alterConfigs",
        "PATCH",
        "/api/configs/{entity_type}/{entity_name}",
        "Set some settings, and take back others.",
        AlterConfigs,
        None,
        alter_configs,
    ),
)
