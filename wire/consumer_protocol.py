"""What consumers tell each other through their group: what they subscribe to, and who reads what.

Rule: the coordinator passes these bytes on. The format is Kafka's ConsumerProtocol: a version, and
fields that newer versions only append; whoever reads takes those that it knows. A program's own
protocol type has bytes of its own, which nobody here reads.
"""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from wire.errors import InvalidRecord
from wire.fields import INT16, INT32, Reader, blob, string
from wire.ids import TopicPartition

PROTOCOL_TYPE: Final = "consumer"
NO_GENERATION: Final = -1
_OWNED: Final = 1
_GENERATION: Final = 2
_RACK: Final = 3


class ConsumerSubscription(Struct, frozen=True, kw_only=True, gc=False):
    """What a member wants, and what it has."""

    topics: tuple[str, ...]
    user_data: bytes = b""
    owned: tuple[TopicPartition, ...] = ()  # from version 1 on
    generation_id: int = NO_GENERATION  # in which it got those; from version 2 on
    rack: str | None = None  # from version 3 on


class ConsumerAssignment(Struct, frozen=True, kw_only=True, gc=False):
    """What a member is given."""

    partitions: tuple[TopicPartition, ...]
    user_data: bytes = b""


def encode_subscription(subscription: ConsumerSubscription) -> bytes:
    """As version 2."""
    topics = sorted(subscription.topics)
    parts = (
        INT16.pack(_GENERATION),
        INT32.pack(len(topics)),
        *map(string, topics),
        blob(subscription.user_data),
        _partitions(subscription.owned),
        INT32.pack(subscription.generation_id),
    )
    return b"".join(parts)


def decode_subscription(data: bytes) -> ConsumerSubscription:
    """Of whatever version; raises InvalidRecord."""
    reader = Reader(data)
    version = _version(reader)
    topics = tuple(reader.string() for _ in range(reader.count()))
    user_data = reader.blob()
    return ConsumerSubscription(
        topics=topics,
        user_data=user_data,
        owned=_read_partitions(reader) if version >= _OWNED else (),
        generation_id=reader.number(INT32) if version >= _GENERATION else NO_GENERATION,
        rack=reader.nullable_string() if version >= _RACK else None,
    )


def encode_assignment(assignment: ConsumerAssignment) -> bytes:
    """As version 2, which is as version 0."""
    return b"".join(
        (INT16.pack(_GENERATION), _partitions(assignment.partitions), blob(assignment.user_data))
    )


def decode_assignment(data: bytes) -> ConsumerAssignment:
    """Of whatever version; no bytes at all are nothing given. Raises InvalidRecord."""
    if not data:
        return ConsumerAssignment(partitions=())
    reader = Reader(data)
    _version(reader)
    partitions = _read_partitions(reader)
    return ConsumerAssignment(partitions=partitions, user_data=reader.blob())


def _version(reader: Reader) -> int:
    version = reader.number(INT16)
    if version < 0:
        raise InvalidRecord(f"a consumer protocol of version {version}")
    return version


def _partitions(partitions: Iterable[TopicPartition]) -> bytes:
    by_topic: dict[str, list[int]] = {}
    for each in sorted(partitions):
        by_topic.setdefault(each.topic, []).append(each.partition)
    parts = [INT32.pack(len(by_topic))]
    for topic, numbers in by_topic.items():
        parts += (string(topic), INT32.pack(len(numbers)), *map(INT32.pack, numbers))
    return b"".join(parts)


def _read_partitions(reader: Reader) -> tuple[TopicPartition, ...]:
    found: list[TopicPartition] = []
    for _ in range(reader.count()):
        topic = reader.string()
        found += (TopicPartition(topic, reader.number(INT32)) for _ in range(reader.count()))
    return tuple(found)
