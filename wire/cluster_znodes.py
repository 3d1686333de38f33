"""What ZooKeeper holds for the cluster as a whole: its id, its features, what it gives out.

Rule: as in znodes.py.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Annotated, Final

from msgspec import Meta, Struct
from msgspec.json import Decoder

from wire.ids import BrokerId, Offset, ProducerId, TopicPartition, ZkVersion
from wire.znode_json import (
    MAX_INT64,
    JsonNumber,
    JsonText64,
    JsonVersion,
    read_json,
    read_number_data,
    write_json,
)


class _ClusterIdShape(Struct, frozen=True):
    version: Annotated[str, Meta(pattern=r"\A[0-9]{1,9}\Z")]  # Kafka quotes this one
    id: Annotated[str, Meta(min_length=1)]


_CLUSTER_ID: Final = Decoder(_ClusterIdShape)


class ClusterIdZNode:
    """Written once, by the first broker ever; a broker of another cluster refuses to start."""

    @staticmethod
    def path() -> str:
        return "/cluster/id"

    @staticmethod
    def encode(cluster_id: str) -> bytes:
        return write_json(_ClusterIdShape("1", cluster_id))

    @staticmethod
    def decode(data: bytes) -> str:
        return read_json(ClusterIdZNode.path(), data, _CLUSTER_ID).id


class BrokerSequenceIdZNode:
    """Its version, raised by writing nothing to it, is the next id for a broker without one."""

    @staticmethod
    def path() -> str:
        return "/brokers/seqid"

    @staticmethod
    def broker_of(version: ZkVersion, reserved_broker_max_id: int = 1000) -> BrokerId:
        return BrokerId(reserved_broker_max_id + version)


class ProducerIdBlock(Struct, frozen=True, kw_only=True):
    """The producer ids that one broker may give out, both ends included."""

    broker: BrokerId
    block_start: ProducerId
    block_end: ProducerId


class _ProducerIdBlockShape(Struct, frozen=True):
    version: JsonVersion
    broker: JsonNumber
    block_start: JsonText64
    block_end: JsonText64


_PRODUCER_ID_BLOCK: Final = Decoder(_ProducerIdBlockShape)


class ProducerIdBlockZNode:
    """The block last given out; a broker takes the next by a conditional write."""

    @staticmethod
    def path() -> str:
        return "/latest_producer_id_block"

    @staticmethod
    def encode(block: ProducerIdBlock) -> bytes:
        start, end = str(block.block_start), str(block.block_end)
        return write_json(_ProducerIdBlockShape(1, block.broker, start, end))

    @staticmethod
    def decode(data: bytes) -> ProducerIdBlock:
        shape = read_json(ProducerIdBlockZNode.path(), data, _PRODUCER_ID_BLOCK)
        return ProducerIdBlock(
            broker=BrokerId(shape.broker),
            block_start=ProducerId(int(shape.block_start)),
            block_end=ProducerId(int(shape.block_end)),
        )


class FeatureStatus(IntEnum):
    """Whether the cluster's finalized features are in force."""

    DISABLED = 0
    ENABLED = 1


class FinalizedRange(Struct, frozen=True):
    """The versions of a feature that every broker of the cluster must support."""

    min_version_level: JsonNumber
    max_version_level: JsonNumber


class Features(Struct, frozen=True, kw_only=True):
    """The cluster's finalized features."""

    status: FeatureStatus
    features: Mapping[str, FinalizedRange] = {}


class _FeatureShape(Struct, frozen=True):
    version: JsonVersion
    status: FeatureStatus
    features: dict[str, FinalizedRange]


_FEATURE: Final = Decoder(_FeatureShape)


class FeatureZNode:
    """Written by the controller; brokers watch it."""

    @staticmethod
    def path() -> str:
        return "/feature"

    @staticmethod
    def encode(features: Features) -> bytes:
        return write_json(_FeatureShape(1, features.status, dict(features.features)))

    @staticmethod
    def decode(data: bytes) -> Features:
        shape = read_json(FeatureZNode.path(), data, _FEATURE)
        return Features(status=shape.status, features=shape.features)


class ConsumerOffsetZNode:
    """Where consumers before Kafka 0.9 kept their offsets (B178)."""

    @staticmethod
    def path(group: str, partition: TopicPartition) -> str:
        return f"/consumers/{group}/offsets/{partition.topic}/{partition.partition}"

    @staticmethod
    def encode(offset: Offset) -> bytes:
        return b"%d" % offset

    @staticmethod
    def decode(group: str, partition: TopicPartition, data: bytes) -> Offset:
        path = ConsumerOffsetZNode.path(group, partition)
        return Offset(read_number_data(path, data, MAX_INT64))
