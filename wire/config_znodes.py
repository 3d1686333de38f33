"""Configuration in ZooKeeper, and the notes that it changed.

Rule: as in znodes.py. An entity's znode is written first, then a notification is created (B183).
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import UNSET, Struct, UnsetType
from msgspec.json import Decoder

from wire.admin_znodes import NotificationZNode
from wire.errors import MalformedZNode
from wire.znode_json import JsonVersion, read_json, write_json

DEFAULT_ENTITY: Final = "<default>"  # as a name: whoever has no configuration of its own


class ConfigEntityType(StrEnum):
    """What can be configured; the value is the folder's name."""

    TOPICS = "topics"
    BROKERS = "brokers"
    CLIENTS = "clients"
    USERS = "users"
    IPS = "ips"


class ConfigEntity(Struct, frozen=True, order=True):
    """One configured thing, its name as Kafka sanitizes it: without a slash."""

    entity_type: ConfigEntityType
    name: str
    client: str | None = None  # of a user: one of its clients

    @property
    def entity_path(self) -> str:
        """Below /config, as notifications say it."""
        suffix = "" if self.client is None else f"/clients/{self.client}"
        return f"{self.entity_type}/{self.name}{suffix}"


def _parse_entity(path: str, entity_path: str) -> ConfigEntity:
    match entity_path.split("/"):
        case ["users", user, "clients", client] if user and client:
            return ConfigEntity(ConfigEntityType.USERS, user, client)
        case [folder, name] if name and folder in list(ConfigEntityType):
            return ConfigEntity(ConfigEntityType(folder), name)
        case _:
            raise MalformedZNode(path, f"{entity_path[:80]!r} is not a configured entity")


class ConfigEntityTypeZNode:
    """The folder whose children are the entities of one type."""

    @staticmethod
    def path(entity_type: ConfigEntityType) -> str:
        return f"/config/{entity_type}"

    @staticmethod
    def entity_of(entity_type: ConfigEntityType, child: str) -> ConfigEntity:
        return _parse_entity(f"/config/{entity_type}/{child}", f"{entity_type}/{child}")


class _ConfigShape(Struct, frozen=True):
    version: JsonVersion
    config: dict[str, str]


_CONFIG: Final = Decoder(_ConfigShape)


class ConfigEntityZNode:
    """What was set for one entity; what is not in it has its default."""

    @staticmethod
    def path(entity: ConfigEntity) -> str:
        return f"/config/{entity.entity_path}"

    @staticmethod
    def encode(config: Mapping[str, str]) -> bytes:
        return write_json(_ConfigShape(1, dict(config)))

    @staticmethod
    def decode(entity: ConfigEntity, data: bytes) -> dict[str, str]:
        return read_json(ConfigEntityZNode.path(entity), data, _CONFIG).config


class _ConfigChangeShape(Struct, frozen=True, kw_only=True):
    version: JsonVersion
    entity_path: str | UnsetType = UNSET
    entity_type: str | UnsetType = UNSET
    entity_name: str | UnsetType = UNSET


_CONFIG_CHANGE: Final = Decoder(_ConfigChangeShape)


class ConfigChangeNotificationZNode(NotificationZNode):
    """The configuration of this entity changed; every broker reads it again."""

    folder = "/config/changes"
    prefix = "config_change_"

    @staticmethod
    def encode(entity: ConfigEntity) -> bytes:
        return write_json(_ConfigChangeShape(version=2, entity_path=entity.entity_path))

    @classmethod
    def decode(cls, sequence: int, data: bytes) -> ConfigEntity:
        path = cls.path(sequence)
        shape = read_json(path, data, _CONFIG_CHANGE)
        if shape.version == 1 and shape.entity_type is not UNSET and shape.entity_name is not UNSET:
            return _parse_entity(path, f"{shape.entity_type}/{shape.entity_name}")
        if shape.version > 1 and shape.entity_path is not UNSET:
            return _parse_entity(path, shape.entity_path)
        raise MalformedZNode(path, f"version {shape.version} does not say what changed")
