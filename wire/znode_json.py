"""How any znode is read and written.

Rule: what is written is Kafka's own compact JSON, in Kafka's order of keys; what is read may have
its keys in any order and keys that nobody here knows. All else is a MalformedZNode with its path.
"""

import re
from typing import Annotated, Final, TypeVar, cast

import msgspec
from msgspec import Meta

from wire.errors import MalformedZNode
from wire.ids import BrokerId, TopicPartition

MAX_INT32: Final = 2**31 - 1
MAX_INT64: Final = 2**63 - 1
TOPIC_PATTERN: Final = r"\A(?!\.{1,2}\Z)[a-zA-Z0-9._-]{1,249}\Z"  # B083

# In ZooKeeper ids and epochs are never the protocol's sentinels below zero, but for the leader.
JsonVersion = Annotated[int, Meta(ge=1, le=MAX_INT32)]
JsonNumber = Annotated[int, Meta(ge=0, le=MAX_INT32)]
JsonZxid = Annotated[int, Meta(ge=0, le=2**63 - 1)]
JsonPort = Annotated[int, Meta(ge=-1, le=65535)]
JsonLeader = Annotated[int, Meta(ge=-1, le=MAX_INT32)]
JsonTopic = Annotated[str, Meta(pattern=TOPIC_PATTERN)]
JsonText64 = Annotated[str, Meta(pattern=r"\A(-1|[0-9]{1,18})\Z")]  # an int64 that Kafka quotes

_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,18}", re.ASCII)
_TOPIC: Final = re.compile(TOPIC_PATTERN)

Shape = TypeVar("Shape")


class PartitionShape(msgspec.Struct, frozen=True):
    """A partition in a list of partitions."""

    topic: JsonTopic
    partition: JsonNumber

    def partition_id(self) -> TopicPartition:
        """The same as the rest of the cluster writes it."""
        return TopicPartition(self.topic, self.partition)


def read_json(path: str, data: bytes, decoder: msgspec.json.Decoder[Shape]) -> Shape:
    """The JSON object that a znode holds, its types checked."""
    try:
        return decoder.decode(data.decode())  # msgspec alone lets bad UTF-8 pass in skipped keys
    except (ValueError, RecursionError, MemoryError) as error:
        raise MalformedZNode(path, str(error)) from error


def write_json(shape: object) -> bytes:
    """The object as compact JSON, keys in the order of its fields."""
    return msgspec.json.encode(shape)


def broker_ids(numbers: tuple[int, ...]) -> tuple[BrokerId, ...]:
    """The same tuple: an id is a number with a name that only the type checker sees."""
    return cast("tuple[BrokerId, ...]", numbers)


def read_number(path: str, text: str, maximum: int = MAX_INT32) -> int:
    """A number that is a znode's whole content or part of its name, written as Kafka writes it."""
    if not _NUMBER.fullmatch(text) or int(text) > maximum:
        raise MalformedZNode(path, f"{text[:40]!r} is not a number from 0 to {maximum}")
    return int(text)


def read_number_data(path: str, data: bytes, maximum: int = MAX_INT32) -> int:
    """A number that is a znode's whole content."""
    return read_number(path, data.decode("ascii", "replace"), maximum)


def read_topic(path: str, name: str) -> str:
    """A topic's name, if it can be one."""
    if not _TOPIC.match(name):
        raise MalformedZNode(path, f"{name[:40]!r} is not a topic's name")
    return name


def read_sequence(path: str, prefix: str, child: str) -> int:
    """The number that ZooKeeper gave to a sequential child."""
    digits = child.removeprefix(prefix)
    if not child.startswith(prefix) or not re.fullmatch(r"[0-9]{10}", digits):
        raise MalformedZNode(path, f"{child[:40]!r} is not {prefix} and ten digits")
    return int(digits)
