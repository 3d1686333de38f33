"""Administrator ⇄ cluster: the configuration of topics and brokers.

Rule: a value is a string, as in ZooKeeper; only actors/config.py knows what it means.
"""

from enum import IntEnum
from typing import TypeAlias

from msgspec import Struct

from wire.errors import ErrorCode
from wire.message import Message, Request


class ConfigResourceType(IntEnum):
    """What can be configured, as Kafka numbers it."""

    TOPIC = 2
    BROKER = 4


class ConfigSource(IntEnum):
    """Where a value comes from; a smaller number wins over a greater one."""

    TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5


class ConfigResource(Struct, frozen=True, order=True, array_like=True, gc=False):
    """One topic, or one broker by its number; a broker named "" is every broker's default."""

    resource_type: ConfigResourceType
    name: str


class ConfigQuery(Struct, frozen=True, array_like=True, gc=False):
    """Which keys of one resource are asked for."""

    resource: ConfigResource
    keys: tuple[str, ...] | None = None  # None: all


class ConfigEntry(Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """One key and the value that is in force."""

    name: str
    value: str | None  # None: not told, because it is sensitive
    source: ConfigSource
    is_read_only: bool = False
    is_sensitive: bool = False


class ConfigDescription(Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """The configuration of one resource."""

    resource: ConfigResource
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    entries: tuple[ConfigEntry, ...] = ()


class DescribeConfigsResponse(Message, frozen=True, kw_only=True):
    """One answer a resource."""

    resources: tuple[ConfigDescription, ...]


class DescribeConfigs(Request[DescribeConfigsResponse], frozen=True, kw_only=True):
    """Administrator → any broker; a broker's own configuration, from that broker."""

    resources: tuple[ConfigQuery, ...]


class AlterConfigOperation(IntEnum):
    """What to do with a key."""

    SET = 0
    DELETE = 1
    APPEND = 2  # to a list
    SUBTRACT = 3  # from a list


class ConfigChange(Struct, frozen=True, array_like=True, gc=False):
    """One key to change; the others stay as they are."""

    name: str
    operation: AlterConfigOperation
    value: str | None = None


class ConfigChanges(Struct, frozen=True, array_like=True, gc=False):
    """All changes to one resource; made together or not at all."""

    resource: ConfigResource
    changes: tuple[ConfigChange, ...]


class ConfigResult(Struct, frozen=True, array_like=True, gc=False):
    """How the changes to one resource went."""

    resource: ConfigResource
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


class IncrementalAlterConfigsResponse(Message, frozen=True, kw_only=True):
    """One answer a resource."""

    resources: tuple[ConfigResult, ...]


class IncrementalAlterConfigs(Request[IncrementalAlterConfigsResponse], frozen=True, kw_only=True):
    """Administrator → any broker: change these keys."""

    resources: tuple[ConfigChanges, ...]
    validate_only: bool = False


ConfigRequest: TypeAlias = DescribeConfigs | IncrementalAlterConfigs
ConfigResponse: TypeAlias = DescribeConfigsResponse | IncrementalAlterConfigsResponse
