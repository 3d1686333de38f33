"""The cluster as ZooKeeper holds it: one class a path.

Rule: a path is written once, here or in admin_znodes.py or config_znodes.py, with Kafka's own JSON.
`path` takes what the path names; `decode` takes the same and the bytes, to name the path if they
are malformed; a folder's class reads the names of its children.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Final

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.json import Decoder

from wire.errors import MalformedZNode
from wire.ids import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    Endpoint,
    LeaderEpoch,
    TopicId,
    TopicPartition,
)
from wire.znode_json import (
    JsonLeader,
    JsonNumber,
    JsonPort,
    JsonText64,
    JsonVersion,
    JsonZxid,
    broker_ids,
    read_json,
    read_number,
    read_number_data,
    read_topic,
    write_json,
)

# Made by every broker as it starts, with all their parents; node-exists is no error.
PERSISTENT_ROOTS: Final = (
    "/consumers",
    "/brokers/ids",
    "/brokers/topics",
    "/config/changes",
    "/admin/delete_topics",
    "/brokers/seqid",
    "/isr_change_notification",
    "/latest_producer_id_block",
    "/log_dir_event_notification",
    "/config/topics",
    "/config/clients",
    "/config/users",
    "/config/brokers",
    "/config/ips",
)

PLAINTEXT: Final = "PLAINTEXT"

_VERSION_WITH_ENDPOINTS: Final = 2
_VERSION_WITH_LISTENERS: Final = 4
_ENDPOINT: Final = re.compile(r"([^:/]+)://(?:\[([^\[\]/]*)\]|([^\[\]:/]*)):([0-9]{1,5})", re.ASCII)

_BROKER_PATH: Final = re.compile(r"/brokers/ids/([0-9]{1,10})", re.ASCII)
_TOPIC_PATH: Final = re.compile(r"/brokers/topics/([^/]+)")
_STATE_PATH: Final = re.compile(r"/brokers/topics/([^/]+)/partitions/([0-9]{1,10})/state", re.ASCII)


class ControllerRegistration(Struct, frozen=True, kw_only=True):
    """Who became controller, and when by its own clock."""

    broker: BrokerId
    timestamp_ms: int


class _ControllerShape(Struct, frozen=True):
    version: JsonVersion
    brokerid: JsonNumber
    timestamp: JsonText64


_CONTROLLER: Final = Decoder(_ControllerShape)


class ControllerZNode:
    """Ephemeral: whoever creates it is the controller as long as its session lives."""

    @staticmethod
    def path() -> str:
        return "/controller"

    @staticmethod
    def encode(registration: ControllerRegistration) -> bytes:
        timestamp = str(registration.timestamp_ms)
        return write_json(_ControllerShape(1, registration.broker, timestamp))

    @staticmethod
    def decode(data: bytes) -> ControllerRegistration:
        shape = read_json(ControllerZNode.path(), data, _CONTROLLER)
        broker = BrokerId(shape.brokerid)
        return ControllerRegistration(broker=broker, timestamp_ms=int(shape.timestamp))


class ControllerEpochZNode:
    """Its number is the controller epoch; its version fences every write of a controller (B006)."""

    @staticmethod
    def path() -> str:
        return "/controller_epoch"

    @staticmethod
    def encode(epoch: ControllerEpoch) -> bytes:
        return b"%d" % epoch

    @staticmethod
    def decode(data: bytes) -> ControllerEpoch:
        return ControllerEpoch(read_number_data(ControllerEpochZNode.path(), data))


class BrokerIdsZNode:
    """The folder whose children are the live brokers."""

    @staticmethod
    def path() -> str:
        return "/brokers/ids"

    @staticmethod
    def broker_of(child: str) -> BrokerId:
        return BrokerId(read_number(f"/brokers/ids/{child}", child))


class FeatureRange(Struct, frozen=True):
    """The versions of a feature that a broker supports."""

    min_version: JsonNumber
    max_version: JsonNumber


class BrokerRegistration(Struct, frozen=True, kw_only=True):
    """How a live broker can be reached, and what it can do."""

    endpoints: tuple[Endpoint, ...]
    timestamp_ms: int
    rack: str | None = None
    jmx_port: int = -1
    features: Mapping[str, FeatureRange] = {}
    # Not Kafka's: the epoch that its process had first, if this is another session of it.
    first_epoch: BrokerEpoch | None = None


class _BrokerShape(Struct, frozen=True, kw_only=True):
    version: JsonVersion
    host: str | None
    port: JsonPort
    jmx_port: JsonPort
    timestamp: JsonText64
    endpoints: tuple[str, ...] | UnsetType = UNSET
    listener_security_protocol_map: dict[str, str] | UnsetType = UNSET
    rack: str | UnsetType | None = UNSET
    features: dict[str, FeatureRange] | UnsetType = UNSET
    first_epoch: JsonZxid | UnsetType = UNSET


_BROKER: Final = Decoder(_BrokerShape)


class BrokerIdZNode:
    """Ephemeral: a broker's life. Its czxid is the broker epoch."""

    @staticmethod
    def path(broker: BrokerId) -> str:
        return f"/brokers/ids/{broker}"

    @staticmethod
    def broker_at(path: str) -> BrokerId | None:
        """Whose znode this is the path of, if of anybody's."""
        match = _BROKER_PATH.fullmatch(path)
        return None if match is None else BrokerId(int(match[1]))

    @staticmethod
    def encode(registration: BrokerRegistration) -> bytes:
        """Version 5. As in Kafka: host and port are of the first plaintext endpoint, if any."""
        endpoints = registration.endpoints
        plain = next((each for each in endpoints if each.security_protocol == PLAINTEXT), None)
        shape = _BrokerShape(
            version=5,
            host=plain.host if plain else None,
            port=plain.port if plain else -1,
            jmx_port=registration.jmx_port,
            timestamp=str(registration.timestamp_ms),
            endpoints=tuple(str(each) for each in endpoints),
            listener_security_protocol_map={
                each.listener: each.security_protocol for each in endpoints
            },
            rack=UNSET if registration.rack is None else registration.rack,
            features=dict(registration.features),
            first_epoch=UNSET if registration.first_epoch is None else registration.first_epoch,
        )
        return write_json(shape)

    @staticmethod
    def decode(broker: BrokerId, data: bytes) -> BrokerRegistration:
        path = BrokerIdZNode.path(broker)
        shape = read_json(path, data, _BROKER)
        return BrokerRegistration(
            endpoints=_endpoints(path, shape),
            timestamp_ms=int(shape.timestamp),
            rack=None if shape.rack is UNSET else shape.rack,
            jmx_port=shape.jmx_port,
            features={} if shape.features is UNSET else shape.features,
            first_epoch=None if shape.first_epoch is UNSET else BrokerEpoch(shape.first_epoch),
        )


def _endpoints(path: str, shape: _BrokerShape) -> tuple[Endpoint, ...]:
    if shape.version < _VERSION_WITH_ENDPOINTS:
        if shape.host is None or shape.port < 0:
            raise MalformedZNode(path, "version 1 without a host and a port")
        return (Endpoint(PLAINTEXT, PLAINTEXT, shape.host, shape.port),)
    if shape.endpoints is UNSET:
        raise MalformedZNode(path, f"version {shape.version} without endpoints")
    protocols: Mapping[str, str] | None = None  # before version 4 a listener is its protocol
    if shape.version >= _VERSION_WITH_LISTENERS:
        if shape.listener_security_protocol_map is UNSET:
            raise MalformedZNode(path, f"version {shape.version} without a listener map")
        protocols = shape.listener_security_protocol_map
    return tuple(_endpoint(path, text, protocols) for text in shape.endpoints)


def _endpoint(path: str, text: str, protocols: Mapping[str, str] | None) -> Endpoint:
    match = _ENDPOINT.fullmatch(text)
    if not match:
        raise MalformedZNode(path, f"{text[:80]!r} is not an endpoint")
    listener, host_in_brackets, host, port = match.groups()
    if int(port) > 65535:  # noqa: PLR2004 (the greatest port there is)
        raise MalformedZNode(path, f"port {port} does not exist")
    protocol = listener if protocols is None else protocols.get(listener)
    if protocol is None:
        raise MalformedZNode(path, f"listener {listener!r} has no security protocol")
    return Endpoint(listener, protocol, host_in_brackets or host or "", int(port))


class TopicsZNode:
    """The folder whose children are the topics."""

    @staticmethod
    def path() -> str:
        return "/brokers/topics"

    @staticmethod
    def topic_of(child: str) -> str:
        return read_topic(f"/brokers/topics/{child}", child)


class ReplicaAssignment(Struct, frozen=True, kw_only=True, gc=False):
    """The brokers that hold one partition, the preferred leader first."""

    replicas: tuple[BrokerId, ...]  # those being added and removed are among them
    adding_replicas: tuple[BrokerId, ...] = ()
    removing_replicas: tuple[BrokerId, ...] = ()


class TopicAssignment(Struct, frozen=True, kw_only=True):
    """Where a topic's partitions live."""

    partitions: Mapping[int, ReplicaAssignment]
    topic_id: TopicId | None = None  # none in topics older than Kafka 2.8


_ReplicasShape = dict[JsonNumber, tuple[JsonNumber, ...]]


class _TopicShape(Struct, frozen=True, kw_only=True):
    version: JsonVersion
    topic_id: Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_-]{22}\Z")] | UnsetType = UNSET
    partitions: _ReplicasShape
    adding_replicas: _ReplicasShape = {}
    removing_replicas: _ReplicasShape = {}


_TOPIC: Final = Decoder(_TopicShape)


class TopicZNode:
    """A topic's assignment; a change of it is how partitions are added and replicas moved."""

    @staticmethod
    def path(topic: str) -> str:
        return f"/brokers/topics/{topic}"

    @staticmethod
    def topic_at(path: str) -> str | None:
        """Which topic this is the path of, if of any."""
        match = _TOPIC_PATH.fullmatch(path)
        return None if match is None else match[1]

    @staticmethod
    def encode(assignment: TopicAssignment) -> bytes:
        """Version 3, or 2 for a topic without an id."""
        items = sorted(assignment.partitions.items())
        shape = _TopicShape(
            version=2 if assignment.topic_id is None else 3,
            topic_id=UNSET if assignment.topic_id is None else assignment.topic_id,
            partitions={number: each.replicas for number, each in items},
            adding_replicas={n: each.adding_replicas for n, each in items if each.adding_replicas},
            removing_replicas={
                n: each.removing_replicas for n, each in items if each.removing_replicas
            },
        )
        return write_json(shape)

    @staticmethod
    def decode(topic: str, data: bytes) -> TopicAssignment:
        path = TopicZNode.path(topic)
        shape = read_json(path, data, _TOPIC)
        adding, removing = shape.adding_replicas, shape.removing_replicas
        if strangers := (adding.keys() | removing.keys()) - shape.partitions.keys():
            raise MalformedZNode(path, f"replicas of no partition: {sorted(strangers)}")
        return TopicAssignment(
            topic_id=None if shape.topic_id is UNSET else TopicId(shape.topic_id),
            partitions={
                number: ReplicaAssignment(
                    replicas=broker_ids(replicas),
                    adding_replicas=broker_ids(adding.get(number, ())),
                    removing_replicas=broker_ids(removing.get(number, ())),
                )
                for number, replicas in shape.partitions.items()
            },
        )


class PartitionsZNode:
    """The folder whose children are the partitions of a topic that ever had a leader."""

    @staticmethod
    def path(topic: str) -> str:
        return f"/brokers/topics/{topic}/partitions"

    @staticmethod
    def partition_of(topic: str, child: str) -> TopicPartition:
        return TopicPartition(topic, read_number(f"{PartitionsZNode.path(topic)}/{child}", child))


class PartitionZNode:
    """Empty; it only carries the state."""

    @staticmethod
    def path(partition: TopicPartition) -> str:
        return f"/brokers/topics/{partition.topic}/partitions/{partition.partition}"


class PartitionState(Struct, frozen=True, kw_only=True, gc=False):
    """Who leads a partition, since which epoch, and who is in sync."""

    controller_epoch: ControllerEpoch  # of the controller that decided it
    leader: BrokerId
    leader_epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]


class _PartitionStateShape(Struct, frozen=True):
    controller_epoch: JsonNumber
    leader: JsonLeader
    version: JsonVersion
    leader_epoch: JsonNumber
    isr: tuple[JsonNumber, ...]


_PARTITION_STATE: Final = Decoder(_PartitionStateShape)


class PartitionStateZNode:
    """Written only with the version last read: a deposed controller's write must fail."""

    @staticmethod
    def path(partition: TopicPartition) -> str:
        return f"/brokers/topics/{partition.topic}/partitions/{partition.partition}/state"

    @staticmethod
    def partition_at(path: str) -> TopicPartition | None:
        """Which partition's state this is the path of, if of any."""
        match = _STATE_PATH.fullmatch(path)
        return None if match is None else TopicPartition(match[1], int(match[2]))

    @staticmethod
    def encode(state: PartitionState) -> bytes:
        shape = _PartitionStateShape(
            state.controller_epoch, state.leader, 1, state.leader_epoch, state.isr
        )
        return write_json(shape)

    @staticmethod
    def decode(partition: TopicPartition, data: bytes) -> PartitionState:
        shape = read_json(PartitionStateZNode.path(partition), data, _PARTITION_STATE)
        return PartitionState(
            controller_epoch=ControllerEpoch(shape.controller_epoch),
            leader=BrokerId(shape.leader),
            leader_epoch=LeaderEpoch(shape.leader_epoch),
            isr=broker_ids(shape.isr),
        )
