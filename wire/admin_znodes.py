"""What administrators ask of the controller through ZooKeeper, and what brokers tell it there.

Rule: as in znodes.py. The controller removes a request once it is done or refused, and a
notification once it was read.
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import ClassVar, Final

from msgspec import Struct
from msgspec.json import Decoder

from wire.errors import MalformedZNode
from wire.ids import BrokerId, TopicPartition
from wire.znode_json import (
    JsonNumber,
    JsonTopic,
    JsonVersion,
    PartitionShape,
    broker_ids,
    read_json,
    read_sequence,
    read_topic,
    write_json,
)


class DeleteTopicsZNode:
    """The folder whose children are the topics to delete."""

    @staticmethod
    def path() -> str:
        return "/admin/delete_topics"

    @staticmethod
    def topic_of(child: str) -> str:
        return read_topic(f"/admin/delete_topics/{child}", child)


class DeleteTopicsTopicZNode:
    """Empty: that it exists is the request."""

    @staticmethod
    def path(topic: str) -> str:
        return f"/admin/delete_topics/{topic}"


class _ReassignmentShape(Struct, frozen=True):
    topic: JsonTopic
    partition: JsonNumber
    replicas: tuple[JsonNumber, ...]


class _ReassignmentsShape(Struct, frozen=True):
    version: JsonVersion
    partitions: tuple[_ReassignmentShape, ...]


_REASSIGNMENTS: Final = Decoder(_ReassignmentsShape)


class ReassignPartitionsZNode:
    """Partitions to move, each with all of its replicas; only its creation is acted on (B099)."""

    @staticmethod
    def path() -> str:
        return "/admin/reassign_partitions"

    @staticmethod
    def encode(reassignments: Mapping[TopicPartition, tuple[BrokerId, ...]]) -> bytes:
        partitions = tuple(
            _ReassignmentShape(partition.topic, partition.partition, replicas)
            for partition, replicas in reassignments.items()
        )
        return write_json(_ReassignmentsShape(1, partitions))

    @staticmethod
    def decode(data: bytes) -> dict[TopicPartition, tuple[BrokerId, ...]]:
        path = ReassignPartitionsZNode.path()
        shape = read_json(path, data, _REASSIGNMENTS)
        reassignments: dict[TopicPartition, tuple[BrokerId, ...]] = {}
        for each in shape.partitions:
            partition = TopicPartition(each.topic, each.partition)
            if partition in reassignments:
                raise MalformedZNode(path, f"{partition} is listed twice")
            reassignments[partition] = broker_ids(each.replicas)
        return reassignments


class _PartitionsShape(Struct, frozen=True):
    version: JsonVersion
    partitions: tuple[PartitionShape, ...]


_PARTITIONS: Final = Decoder(_PartitionsShape)


def _encode_partitions(partitions: Iterable[TopicPartition]) -> bytes:
    shapes = tuple(PartitionShape(each.topic, each.partition) for each in partitions)
    return write_json(_PartitionsShape(1, shapes))


def _decode_partitions(path: str, data: bytes) -> tuple[TopicPartition, ...]:
    return tuple(each.partition_id() for each in read_json(path, data, _PARTITIONS).partitions)


class PreferredReplicaElectionZNode:
    """Partitions that their preferred replica shall lead (B112)."""

    @staticmethod
    def path() -> str:
        return "/admin/preferred_replica_election"

    @staticmethod
    def encode(partitions: Iterable[TopicPartition]) -> bytes:
        return _encode_partitions(partitions)

    @staticmethod
    def decode(data: bytes) -> tuple[TopicPartition, ...]:
        return _decode_partitions(PreferredReplicaElectionZNode.path(), data)


class NotificationZNode:
    """A sequential child of a folder: a fact for whoever watches the folder."""

    folder: ClassVar[str]
    prefix: ClassVar[str]

    @classmethod
    def prefix_path(cls) -> str:
        """What to create as sequential; ZooKeeper appends the number."""
        return f"{cls.folder}/{cls.prefix}"

    @classmethod
    def path(cls, sequence: int) -> str:
        return f"{cls.folder}/{cls.prefix}{sequence:010d}"

    @classmethod
    def sequence_of(cls, child: str) -> int:
        return read_sequence(f"{cls.folder}/{child}", cls.prefix, child)


class IsrChangeNotificationZNode(NotificationZNode):
    """A leader changed the ISRs of these partitions (B116)."""

    folder = "/isr_change_notification"
    prefix = "isr_change_"

    @staticmethod
    def encode(partitions: Iterable[TopicPartition]) -> bytes:
        return _encode_partitions(partitions)

    @classmethod
    def decode(cls, sequence: int, data: bytes) -> tuple[TopicPartition, ...]:
        return _decode_partitions(cls.path(sequence), data)


class LogDirEvent(IntEnum):
    """What happened to a log directory; Kafka knows only this."""

    FAILURE = 1


class _LogDirEventShape(Struct, frozen=True):
    version: JsonVersion
    broker: JsonNumber
    event: LogDirEvent


_LOG_DIR_EVENT: Final = Decoder(_LogDirEventShape)


class LogDirEventNotificationZNode(NotificationZNode):
    """A log directory of this broker failed (B074)."""

    folder = "/log_dir_event_notification"
    prefix = "log_dir_event_"

    @staticmethod
    def encode(broker: BrokerId) -> bytes:
        return write_json(_LogDirEventShape(1, broker, LogDirEvent.FAILURE))

    @classmethod
    def decode(cls, sequence: int, data: bytes) -> BrokerId:
        return BrokerId(read_json(cls.path(sequence), data, _LOG_DIR_EVENT).broker)
