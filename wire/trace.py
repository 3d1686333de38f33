"""The events that a run leaves behind: all of them, from one place.

Rule: whoever leaves or reads an event imports it from here. The recorder and Spark both make their
schemas from COLUMNS, so a field is written down once, in the event's class.
"""

from typing import Final, get_type_hints

from wire.broker_events import (
    BrokerRegistered,
    BrokerStateChanged,
    ConfigChanged,
    ControlledShutdownTried,
    ControlRequestRefused,
    FollowerFailed,
    GroupOffsetsForgotten,
    GroupOffsetsLoaded,
    GroupOffsetsUnloaded,
    HighWatermarkMoved,
    IsrChanged,
    LogDirWentOffline,
    LogSkipped,
    LogTruncated,
    RecordsAppended,
    ReplicaRoleChanged,
    TopicNotCreated,
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
    "FailoverStep",
    "FaultHealed",
    "FaultInjected",
    "FollowerFailed",
    "FrameRefused",
    "GroupOffsetsForgotten",
    "GroupOffsetsLoaded",
    "GroupOffsetsUnloaded",
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
    "TransitionRefused",
    "WatchFired",
    "ZNodeSkipped",
    "columns",
    "ids",
]

SCHEMA_VERSION: Final = 1
# By name, so that their order does not hang on who was imported first.
EVENTS: Final[tuple[type[TraceEvent], ...]] = tuple(
    sorted(TraceEvent.__subclasses__(), key=lambda event: event.__name__)
)


def columns(event: type[TraceEvent]) -> dict[str, type]:
    """The columns of an event's table, stamp first."""
    fields = get_type_hints(Stamp) | get_type_hints(event)
    return {name: kind for name, kind in fields.items() if not name.startswith("__")}


COLUMNS: Final[dict[str, dict[str, type]]] = {event.__name__: columns(event) for event in EVENTS}
