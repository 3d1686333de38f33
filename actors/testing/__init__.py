"""What the tests of a program import: clusters that fail on command, and what to wait for.

With pytest the fixtures `sim`, `cluster`, `faults` and `blocking_cluster` are there without an
import. This package is the public interface; what lies behind it may change.
"""

from actors.client.admin import Admin
from actors.client.consumer import Consumer
from actors.client.errors import (
    BufferExhausted,
    ClientClosed,
    DeliveryTimedOut,
    NoOffsetForPartition,
    NotAssigned,
    PositionOutOfRange,
)
from actors.client.producer import Producer
from actors.client.subscription import ConsumerRecord
from actors.clients import Clients
from actors.cluster import Cluster, SimulatedCluster
from actors.conditions import (
    Condition,
    NotReached,
    broker_state,
    brokers_up,
    controller,
    controller_epoch,
    high_watermark,
    isr,
    leader,
    leader_epoch,
    log_end_offset,
    offline_partitions,
    replicas,
    topics,
    under_replicated_partitions,
)
from actors.config import BadConfig
from actors.faults.hand import FaultRefused, Faults
from actors.testing.blocking import Blocking, BlockingCluster, BlockingFaults
from actors.view import ClusterView
from wire.errors import (
    ApiError,
    LeaderNotAvailable,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    OffsetOutOfRange,
    RequestTimedOut,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from wire.ids import TopicPartition

__all__ = [
    "Admin",
    "ApiError",
    "BadConfig",
    "Blocking",
    "BlockingCluster",
    "BlockingFaults",
    "BufferExhausted",
    "ClientClosed",
    "Clients",
    "Cluster",
    "ClusterView",
    "Condition",
    "Consumer",
    "ConsumerRecord",
    "DeliveryTimedOut",
    "FaultRefused",
    "Faults",
    "LeaderNotAvailable",
    "NoOffsetForPartition",
    "NotAssigned",
    "NotEnoughReplicas",
    "NotEnoughReplicasAfterAppend",
    "NotReached",
    "OffsetOutOfRange",
    "PositionOutOfRange",
    "Producer",
    "RequestTimedOut",
    "SimulatedCluster",
    "TopicAlreadyExists",
    "TopicPartition",
    "UnknownTopicOrPartition",
    "broker_state",
    "brokers_up",
    "controller",
    "controller_epoch",
    "high_watermark",
    "isr",
    "leader",
    "leader_epoch",
    "log_end_offset",
    "offline_partitions",
    "replicas",
    "topics",
    "under_replicated_partitions",
]
