"""A person's program ⇄ any broker: what is there to be seen of it.

Rule: an observation is one broker's own word at one moment; putting those of all brokers together
is for whoever looks (actors/view.py). Nobody decides anything by it.
"""

from typing import TypeAlias

from msgspec import Struct

from wire.errors import ErrorCode
from wire.ids import (
    NO_LEADER_EPOCH,
    NO_OFFSET,
    NO_PARTITION_EPOCH,
    UNKNOWN_BROKER_EPOCH,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    Offset,
    PartitionEpoch,
    TopicPartition,
)
from wire.message import Message, Request

NOT_ACTIVE: ControllerEpoch = ControllerEpoch(-1)


class ReplicaSight(Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """One replica as its own broker holds it."""

    partition: TopicPartition
    leader: BrokerId
    leader_epoch: LeaderEpoch
    log_start_offset: Offset = NO_OFFSET
    high_watermark: Offset = NO_OFFSET
    log_end_offset: Offset = NO_OFFSET
    partition_epoch: PartitionEpoch = NO_PARTITION_EPOCH
    isr: tuple[BrokerId, ...] = ()  # a leader's; followers do not know (B138)


class PartitionSight(Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """One partition as the broker was last told by the controller, or as it knows as such."""

    partition: TopicPartition
    leader: BrokerId
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH
    partition_epoch: PartitionEpoch = NO_PARTITION_EPOCH
    replicas: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]
    offline: tuple[BrokerId, ...] = ()
    adding: tuple[BrokerId, ...] = ()  # only the controller knows
    removing: tuple[BrokerId, ...] = ()


class Metric(Struct, frozen=True, array_like=True, gc=False):
    """One of Kafka's MBeans: its name as Kafka writes it, and the values of its attributes.

    `kafka.network:type=RequestMetrics,name=TotalTimeMs,request=Produce` has Count, 50thPercentile …
    """

    mbean: str
    attributes: tuple[tuple[str, float], ...]


class ObserveResponse(Message, frozen=True, kw_only=True):
    """What one broker is and has."""

    error_code: ErrorCode = ErrorCode.NONE
    broker_id: BrokerId = BrokerId(-1)
    broker_epoch: BrokerEpoch = UNKNOWN_BROKER_EPOCH
    state: str = ""  # as NodeState spells it
    controller_epoch: ControllerEpoch = NOT_ACTIVE  # of the reign, if this is the controller
    brokers: tuple[BrokerId, ...] = ()  # those it was told of
    replicas: tuple[ReplicaSight, ...] = ()
    partitions: tuple[PartitionSight, ...] = ()
    metrics: tuple[Metric, ...] = ()


class Observe(Request[ObserveResponse], frozen=True, kw_only=True):
    """Anybody → broker: what is there to be seen? Each part only if it is asked for."""

    replicas: bool = False
    partitions: bool = False
    metrics: bool = False


ObservationRequest: TypeAlias = Observe
ObservationResponse: TypeAlias = ObserveResponse
