"""What the controller is told by its own node, besides watches and requests.

Rule: an event carries no data that ZooKeeper has: the handler reads it when the event is handled,
so that several events of one kind collapse to the newest state (B015).
"""

from dataclasses import dataclass

from wire.control import LeaderAndIsrResponse, StopReplicaResponse
from wire.ids import (
    UNKNOWN_BROKER_EPOCH,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    TopicPartition,
)


@dataclass(frozen=True)
class Expired:
    """Session → controller: all that waited is dropped; give everything up (B017)."""

    session: int


@dataclass(frozen=True)
class RebalanceDue:
    """Timer: look whether leadership has drifted from the preferred replicas (B114)."""

    epoch: ControllerEpoch  # of the election that began the timer: an older one's is void


@dataclass(frozen=True)
class UncleanElectionEnabled:
    """Config watcher → controller: offline partitions may now get a leader (B063)."""

    topic: str | None  # None: by default, for all


@dataclass(frozen=True)
class LeaderAndIsrAnswered:
    """Channel → controller: how a broker took its orders; tells of failed disks (B074)."""

    broker: BrokerId
    epoch: ControllerEpoch  # under which the request was sent
    response: LeaderAndIsrResponse
    broker_epoch: BrokerEpoch = UNKNOWN_BROKER_EPOCH  # an answer of a former life is void


@dataclass(frozen=True)
class StopReplicaAnswered:
    """Channel → controller: a topic's deletion goes on when its replicas are gone (B094)."""

    broker: BrokerId
    epoch: ControllerEpoch
    response: StopReplicaResponse
    deleted: frozenset[TopicPartition]  # what the request deleted; the rest it only stopped
    broker_epoch: BrokerEpoch = UNKNOWN_BROKER_EPOCH
