"""The events that a run leaves behind: all of them, from one place.

Rule: whoever leaves or reads an event imports it from here. The recorder and Spark both make their
schemas from COLUMNS, so a field is written down once, in the event's class.
"""

from functools import reduce
from operator import or_
from typing import Any, Final, get_type_hints

import msgspec

from wire.broker_events import (
    BrokerRegistered,
    BrokerStateChanged,
    ConfigChanged,
    ControlledShutdownTried,
    ControlRequestRefused,
    ErrorAnswered,
    FollowerFailed,
    GroupOffsetsForgotten,
    GroupOffsetsLoaded,
    GroupOffsetsUnloaded,
    HighWatermarkMoved,
    IsrChanged,
    LogDirWentOffline,
    LogSkipped,
    LogTruncated,
    ProducerIdsTaken,
    RecordsAppended,
    ReplicaRoleChanged,
    TopicNotCreated,
    TransactionsLoaded,
    TransactionStateChanged,
    TransactionsUnloaded,
)
from wire.controller_events import (
    BrokersChanged,
    ControllerElected,
    ControllerEventFailed,
    ControllerResigned,
    ElectionFailed,
    FailoverStep,
    LeaderElected,
    PartitionStateChanged,
    ReassignmentStep,
    ReplicaLeftIsr,
    ReplicaStateChanged,
    RequestDropped,
    ResignationStep,
    TopicDeletionStep,
    TransitionRefused,
    ZNodeSkipped,
)
from wire.group_events import (
    GroupForgotten,
    GroupMemberJoined,
    GroupMemberLeft,
    GroupStateChanged,
)
from wire.runtime_events import (
    OUTCOMES,
    ActorCrashed,
    ActorStarted,
    ActorStopped,
    CallFinished,
    FaultHealed,
    FaultInjected,
    FrameRefused,
    KeeperOperation,
    MessageHandled,
    MessageRefused,
    NodePaused,
    NodeResumed,
    NodeStarted,
    NodeStopped,
    SessionChanged,
    WatchFired,
)
from wire.trace_event import (
    Stamp,
    TraceEvent,
    ids,
)

__all__ = [
    "COLUMNS",
    "EVENTS",
    "OUTCOMES",
    "SCHEMA_VERSION",
    "ActorCrashed",
    "ActorStarted",
    "ActorStopped",
    "BrokerRegistered",
    "BrokerStateChanged",
    "BrokersChanged",
    "CallFinished",
    "ConfigChanged",
    "ControlRequestRefused",
    "ControlledShutdownTried",
    "ControllerElected",
    "ControllerEventFailed",
    "ControllerResigned",
    "ElectionFailed",
    "ErrorAnswered",
    "FailoverStep",
    "FaultHealed",
    "FaultInjected",
    "FollowerFailed",
    "FrameRefused",
    "GroupForgotten",
    "GroupMemberJoined",
    "GroupMemberLeft",
    "GroupOffsetsForgotten",
    "GroupOffsetsLoaded",
    "GroupOffsetsUnloaded",
    "GroupStateChanged",
    "HighWatermarkMoved",
    "IsrChanged",
    "KeeperOperation",
    "LeaderElected",
    "LogDirWentOffline",
    "LogSkipped",
    "LogTruncated",
    "MessageHandled",
    "MessageRefused",
    "NodePaused",
    "NodeResumed",
    "NodeStarted",
    "NodeStopped",
    "PartitionStateChanged",
    "ProducerIdsTaken",
    "ReassignmentStep",
    "RecordsAppended",
    "ReplicaLeftIsr",
    "ReplicaRoleChanged",
    "ReplicaStateChanged",
    "RequestDropped",
    "ResignationStep",
    "SessionChanged",
    "Stamp",
    "TopicDeletionStep",
    "TopicNotCreated",
    "TraceEvent",
    "TransactionStateChanged",
    "TransactionsLoaded",
    "TransactionsUnloaded",
    "TransitionRefused",
    "WatchFired",
    "ZNodeSkipped",
    "columns",
    "from_json",
    "ids",
    "to_json",
]

SCHEMA_VERSION: Final = 2  # 2: LeaderElected says which replicas are assigned
# By name, so that their order does not hang on who was imported first.
EVENTS: Final[tuple[type[TraceEvent], ...]] = tuple(
    sorted(TraceEvent.__subclasses__(), key=lambda event: event.__name__)
)


def columns(event: type[TraceEvent]) -> dict[str, type]:
    """The columns of an event's table, stamp first."""
    fields = get_type_hints(Stamp) | get_type_hints(event)
    return {name: kind for name, kind in fields.items() if not name.startswith("__")}


COLUMNS: Final[dict[str, dict[str, type]]] = {event.__name__: columns(event) for event in EVENTS}

_ANY: Final = msgspec.json.Decoder[Any](reduce(or_, EVENTS))


def to_json(event: TraceEvent) -> msgspec.Raw:
    """An event as text, its kind first: for another process."""
    return msgspec.Raw(msgspec.json.encode(event))


def from_json(text: bytes | msgspec.Raw) -> TraceEvent:
    """The event that another process has sent."""
    event: TraceEvent = _ANY.decode(text)
    return event
