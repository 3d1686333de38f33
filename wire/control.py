"""Controller ⇄ broker: who leads, who follows, who stops, and what everybody may know of it.

Rule: a request of the controller carries its epoch and the broker's, so that neither a deposed
controller nor a request for the broker's earlier life has any effect (B023, B024). It is numbered,
too, and sent again with its number, so that a copy that comes late is known. Kafka has no number:
there a connection keeps the order, and here links keep none.
"""

from typing import TypeAlias

from msgspec import Struct

from wire.errors import ErrorCode
from wire.ids import (
    NO_CONTROL_SEQUENCE,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    ControlSequence,
    Endpoint,
    LeaderEpoch,
    Node,
    PartitionEpoch,
    TopicId,
    TopicPartition,
)
from wire.message import Message, PartitionResult, Request


class LeaderAndIsrPartition(Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """The controller's last decision about one partition."""

    partition: TopicPartition
    controller_epoch: ControllerEpoch  # of the controller that decided; may be an earlier one
    leader: BrokerId
    leader_epoch: LeaderEpoch  # a broker accepts only a greater one than it has (B135)
    isr: tuple[BrokerId, ...]
    partition_epoch: PartitionEpoch  # what the leader's first ISR write must expect
    replicas: tuple[BrokerId, ...]  # in order of preference; includes those being added or removed
    adding_replicas: tuple[BrokerId, ...] = ()
    removing_replicas: tuple[BrokerId, ...] = ()
    is_new: bool = False  # only then may the broker create an empty log beside a failed disk (B140)


class LeaderAndIsrResponse(Message, frozen=True, kw_only=True):
    """Per partition, whether the broker now leads or follows as told."""

    error_code: ErrorCode = ErrorCode.NONE
    partitions: tuple[PartitionResult, ...] = ()


class LeaderAndIsr(Request[LeaderAndIsrResponse], frozen=True, kw_only=True):
    """Controller → broker: lead or follow these partitions."""

    controller_id: BrokerId
    controller_epoch: ControllerEpoch
    broker_epoch: BrokerEpoch  # czxid of /brokers/ids/<id>: fences a reborn broker's past
    partitions: tuple[LeaderAndIsrPartition, ...]
    live_leaders: tuple[Node, ...] = ()  # so that a follower can fetch before any UpdateMetadata
    topic_ids: tuple[tuple[str, TopicId], ...] = ()  # tells a topic from an earlier namesake
    sequence: ControlSequence = NO_CONTROL_SEQUENCE  # what was overtaken is refused


class StopReplicaPartition(Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """One replica to stop."""

    partition: TopicPartition
    leader_epoch: LeaderEpoch  # an older one than the broker's is refused (B141)
    delete: bool  # the log too, not only the fetching


class StopReplicaResponse(Message, frozen=True, kw_only=True):
    """Per partition, whether the replica has stopped; a topic's deletion waits for this (B094)."""

    error_code: ErrorCode = ErrorCode.NONE
    partitions: tuple[PartitionResult, ...] = ()


class StopReplica(Request[StopReplicaResponse], frozen=True, kw_only=True):
    """Controller → broker: stop these replicas, and delete those that say so."""

    controller_id: BrokerId
    controller_epoch: ControllerEpoch
    broker_epoch: BrokerEpoch
    partitions: tuple[StopReplicaPartition, ...]
    sequence: ControlSequence = NO_CONTROL_SEQUENCE


class UpdateMetadataPartition(Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """What clients may know of one partition."""

    partition: TopicPartition
    controller_epoch: ControllerEpoch
    leader: BrokerId  # LEADER_DURING_DELETE: forget the partition
    leader_epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]
    partition_epoch: PartitionEpoch
    replicas: tuple[BrokerId, ...]
    offline_replicas: tuple[BrokerId, ...] = ()


class LiveBroker(Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """A broker that is registered at this moment, by all its listeners."""

    id: BrokerId
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None


class UpdateMetadataResponse(Message, frozen=True, kw_only=True):
    """The broker has replaced its snapshot, or refuses the controller."""

    error_code: ErrorCode = ErrorCode.NONE


class UpdateMetadata(Request[UpdateMetadataResponse], frozen=True, kw_only=True):
    """Controller → broker: all live brokers, and the partitions that changed."""

    controller_id: BrokerId
    controller_epoch: ControllerEpoch
    broker_epoch: BrokerEpoch
    partitions: tuple[UpdateMetadataPartition, ...]  # none: only the brokers are news (B130)
    live_brokers: tuple[LiveBroker, ...]
    topic_ids: tuple[tuple[str, TopicId], ...] = ()
    sequence: ControlSequence = NO_CONTROL_SEQUENCE


class ControlledShutdownResponse(Message, frozen=True, kw_only=True):
    """What the leaving broker still leads; it asks again until nothing remains (B081)."""

    error_code: ErrorCode = ErrorCode.NONE
    remaining_partitions: tuple[TopicPartition, ...] = ()


class ControlledShutdown(Request[ControlledShutdownResponse], frozen=True, kw_only=True):
    """Broker → controller: move leadership away, I am about to stop."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch


class AlterPartitionProposal(Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """The ISR a leader would like to have."""

    partition: TopicPartition
    leader_epoch: LeaderEpoch
    new_isr: tuple[BrokerId, ...]
    partition_epoch: PartitionEpoch  # of the state the leader changed; a newer one refuses it


class AlterPartitionResult(Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """The state that the controller wrote, or why it wrote none."""

    partition: TopicPartition
    error_code: ErrorCode
    leader: BrokerId
    leader_epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]
    partition_epoch: PartitionEpoch


class AlterPartitionResponse(Message, frozen=True, kw_only=True):
    """A top-level error has changed nothing: the leader keeps its proposals and asks again."""

    error_code: ErrorCode = ErrorCode.NONE
    partitions: tuple[AlterPartitionResult, ...] = ()


class AlterPartition(Request[AlterPartitionResponse], frozen=True, kw_only=True):
    """Leader → controller: change these ISRs. AlterIsr in Kafka 2.8 (KIP-497)."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    partitions: tuple[AlterPartitionProposal, ...]


ControlRequest: TypeAlias = (
    LeaderAndIsr | StopReplica | UpdateMetadata | ControlledShutdown | AlterPartition
)
ControlResponse: TypeAlias = (
    LeaderAndIsrResponse
    | StopReplicaResponse
    | UpdateMetadataResponse
    | ControlledShutdownResponse
    | AlterPartitionResponse
)
