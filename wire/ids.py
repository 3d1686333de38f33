"""The nouns: who, which partition, and which epoch of it.

Rule: an id or epoch is a NewType, so that one is never passed for another. It carries the range
that Kafka's protocol gives it, so that a number read from a frame fits wherever it is written next.
"""

from typing import Annotated, Final, NewType

from msgspec import Meta, Struct

Int16 = Annotated[int, Meta(ge=-(2**15), le=2**15 - 1)]
Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]

BrokerId = NewType("BrokerId", Int32)
ControllerEpoch = NewType("ControllerEpoch", Int32)  # grows by one with each controller elected
LeaderEpoch = NewType("LeaderEpoch", Int32)  # grows by one with each leader elected for a partition
BrokerEpoch = NewType("BrokerEpoch", Int64)  # czxid of /brokers/ids/<id>: one life of a broker
ControlSequence = NewType("ControlSequence", Int64)  # a controller counts what it tells brokers
ZkVersion = NewType("ZkVersion", Int32)  # a znode's version: what a conditional write expects
PartitionEpoch = NewType("PartitionEpoch", Int32)  # the ZkVersion of a partition's state znode
Offset = NewType("Offset", Int64)
ProducerId = NewType("ProducerId", Int64)
ProducerEpoch = NewType("ProducerEpoch", Int16)
TopicId = NewType("TopicId", str)  # a UUID as Kafka prints it: 22 characters of URL-safe base64

NO_BROKER: Final = BrokerId(-1)
NO_LEADER: Final = BrokerId(-1)
LEADER_DURING_DELETE: Final = BrokerId(-2)  # in UpdateMetadata: forget this partition
CONSUMER_REPLICA_ID: Final = BrokerId(-1)  # the fetcher is a client, not a follower

INITIAL_CONTROLLER_EPOCH: Final = ControllerEpoch(0)  # before the first election
INITIAL_LEADER_EPOCH: Final = LeaderEpoch(0)
NO_LEADER_EPOCH: Final = LeaderEpoch(-1)  # in a request: do not compare; in an answer: unknown
LEADER_EPOCH_DURING_DELETE: Final = LeaderEpoch(-2)  # in StopReplica: stop whatever the epoch
UNKNOWN_BROKER_EPOCH: Final = BrokerEpoch(-1)  # do not compare
NO_CONTROL_SEQUENCE: Final = ControlSequence(-1)  # do not compare
ANY_VERSION: Final = ZkVersion(-1)
NO_PARTITION_EPOCH: Final = PartitionEpoch(-1)

NO_OFFSET: Final = Offset(-1)
NO_TIMESTAMP_MS: Final = -1
NO_PRODUCER_ID: Final = ProducerId(-1)
NO_PRODUCER_EPOCH: Final = ProducerEpoch(-1)
NO_SEQUENCE: Final = -1


class TopicPartition(Struct, frozen=True, order=True, array_like=True, gc=False):
    """One partition of one topic; sorts by topic, then by number."""

    topic: str
    partition: Int32

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Endpoint(Struct, frozen=True, order=True, array_like=True, gc=False):
    """Where one listener of a broker can be reached."""

    listener: str
    security_protocol: str
    host: str
    port: Int32

    @property
    def address(self) -> str:
        """Its host and port, as people write them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.listener}://{self.address}"


class Node(Struct, frozen=True, order=True, array_like=True, gc=False):
    """A broker as one listener shows it to those who connect there."""

    id: BrokerId
    host: str
    port: Int32
    rack: str | None = None
