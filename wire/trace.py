"""The events that a run leaves behind.

Rule: an event is a flat, frozen value; its fields are the columns of its table. The recorder and
Spark both make their schemas from COLUMNS, so a field is written down once, here.
"""

from collections.abc import Iterable
from typing import Final, get_type_hints

import msgspec

SCHEMA_VERSION: Final = 1


class TraceEvent(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """What all events share; `Stamp` says when, where and because of what."""


class Stamp(msgspec.Struct, frozen=True, array_like=True):
    """The first columns of every table."""

    id: int  # unique in a run; `cause` of later events points here
    time_us: int  # since 1970, by the clock of the run and not by a broker's skewed one
    node: str
    cause: int  # the id of the MessageHandled during which this happened; 0: from outside


class MessageHandled(TraceEvent, frozen=True):
    """An actor has handled one message."""

    actor: str
    message: str
    queue_us: int  # from tell to the handler's start
    handle_us: int
    outcome: str  # one of OUTCOMES


OUTCOMES: Final = ("ok", "refused", "crashed", "cancelled")


class NodeStarted(TraceEvent, frozen=True):
    """A node's actors may run from now on."""


class NodeStopped(TraceEvent, frozen=True):
    """A node has gone: because it was asked to, was killed, or one of its actors crashed."""

    reason: str


class NodePaused(TraceEvent, frozen=True):
    """A node's actors stand still, as in a long garbage collection."""


class NodeResumed(TraceEvent, frozen=True):
    """A node's actors go on after a pause."""


class ActorStarted(TraceEvent, frozen=True):
    """An actor takes messages."""

    actor: str


class ActorStopped(TraceEvent, frozen=True):
    """An actor takes no more messages."""

    actor: str


class ActorCrashed(TraceEvent, frozen=True):
    """A bug: the handler raised what nobody expected, and the node goes down with it."""

    actor: str
    message: str
    error: str
    traceback: str


class MessageRefused(TraceEvent, frozen=True):
    """An inbox was full or its actor gone: the message was not taken."""

    actor: str
    message: str
    reason: str


class CallFinished(TraceEvent, frozen=True):
    """A request to another node has its answer, or never will."""

    source: str
    destination: str
    request: str
    request_bytes: int
    response_bytes: int
    latency_us: int
    outcome: str


class FrameRefused(TraceEvent, frozen=True):
    """Bytes from another node were no frame, or too large: they were dropped."""

    source: str
    reason: str


class KeeperOperation(TraceEvent, frozen=True):
    """ZooKeeper has answered."""

    operation: str
    path: str  # the first one, for bulk operations
    count: int
    latency_us: int
    outcome: str


class SessionChanged(TraceEvent, frozen=True):
    """A ZooKeeper session was connected, suspended, expired or closed."""

    state: str
    session: int  # counts the sessions of this node from 1


class WatchFired(TraceEvent, frozen=True):
    """A one-shot watch has gone off."""

    path: str
    change: str
    session: int


class FaultInjected(TraceEvent, frozen=True):
    """Somebody broke something on purpose."""

    fault: str
    target: str
    detail: str


class FaultHealed(TraceEvent, frozen=True):
    """Somebody mended what they broke."""

    fault: str
    target: str


class BrokerRegistered(TraceEvent, frozen=True):
    """A broker's znode is there, and its creation zxid is the broker's epoch."""

    broker: int
    broker_epoch: int
    session: int


# --- the controller -------------------------------------------------------------------------------


class BrokerStateChanged(TraceEvent, frozen=True):
    """A broker is starting, running, running as controller, or not running."""

    state: str


class ControllerElected(TraceEvent, frozen=True):
    """This broker holds `/controller` under a new epoch."""

    broker: int
    controller_epoch: int
    epoch_version: int  # of the znode: what every write of this controller checks


class ControllerResigned(TraceEvent, frozen=True):
    """This broker is no longer the controller, and has forgotten all that it knew as one."""

    broker: int
    controller_epoch: int
    reason: str


class FailoverStep(TraceEvent, frozen=True):
    """One step of taking office, in its order (B027)."""

    controller_epoch: int
    step: str
    count: int  # of things read, moved or told
    took_us: int


class ResignationStep(TraceEvent, frozen=True):
    """One step of leaving office, in its order (B012)."""

    controller_epoch: int
    step: str
    took_us: int


class ControllerEventFailed(TraceEvent, frozen=True):
    """An event could not be handled to its end; the controller goes on (B016)."""

    event: str
    error: str


class PartitionStateChanged(TraceEvent, frozen=True):
    """A partition went from one state to the next."""

    topic: str
    partition: int
    before: str
    after: str


class ReplicaStateChanged(TraceEvent, frozen=True):
    """A replica went from one state to the next."""

    topic: str
    partition: int
    broker: int
    before: str
    after: str


class TransitionRefused(TraceEvent, frozen=True):
    """A change that is no row of its table: nothing was changed."""

    topic: str
    partition: int
    broker: int  # -1: the partition itself
    before: str
    wanted: str


class LeaderElected(TraceEvent, frozen=True):
    """A partition has a leader, in ZooKeeper too; also when it is the same one again."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    isr: str
    partition_epoch: int
    reason: str
    is_unclean: bool


class ElectionFailed(TraceEvent, frozen=True):
    """Nobody could be elected, or it could not be written."""

    topic: str
    partition: int
    strategy: str
    error: str


class ReplicaLeftIsr(TraceEvent, frozen=True):
    """The controller took a replica out of the in-sync ones, and raised the leader epoch."""

    topic: str
    partition: int
    broker: int
    leader: int
    leader_epoch: int
    isr: str


class BrokersChanged(TraceEvent, frozen=True):
    """What the controller saw under `/brokers/ids`; lists of ids."""

    added: str
    bounced: str
    removed: str


class TopicDeletionStep(TraceEvent, frozen=True):
    """A topic on its way out."""

    topic: str
    step: str


class ReassignmentStep(TraceEvent, frozen=True):
    """A partition on the move."""

    topic: str
    partition: int
    step: str
    replicas: str
    adding: str
    removing: str


class RequestDropped(TraceEvent, frozen=True):
    """A request to a broker that the controller does not know."""

    broker: int
    request: str
    reason: str


class ZNodeSkipped(TraceEvent, frozen=True):
    """ZooKeeper holds what nobody can read there; it was passed over."""

    path: str
    reason: str


# --- the brokers' side of control -----------------------------------------------------------------


class ControlRequestRefused(TraceEvent, frozen=True):
    """A broker did not do what a controller asked for, as a whole."""

    request: str
    controller: int
    controller_epoch: int
    error: str


class ReplicaRoleChanged(TraceEvent, frozen=True):
    """A broker leads a partition, follows in it, or no longer holds it."""

    topic: str
    partition: int
    role: str
    leader: int
    leader_epoch: int


class IsrChanged(TraceEvent, frozen=True):
    """A leader changed the in-sync replicas in ZooKeeper."""

    topic: str
    partition: int
    leader_epoch: int
    isr: str
    partition_epoch: int


class RecordsAppended(TraceEvent, frozen=True):
    """A replica's log has grown."""

    topic: str
    partition: int
    role: str
    leader_epoch: int
    first_offset: int
    last_offset: int


class HighWatermarkMoved(TraceEvent, frozen=True):
    """A replica knows of more, or a follower of less, that is on all in-sync replicas."""

    topic: str
    partition: int
    role: str
    leader_epoch: int
    high_watermark: int


class LogTruncated(TraceEvent, frozen=True):
    """A follower has thrown away records that its leader does not have."""

    topic: str
    partition: int
    leader_epoch: int
    log_end_offset: int  # before
    offset: int  # the first that is gone


class FollowerFailed(TraceEvent, frozen=True):
    """A partition is no longer fetched until the controller speaks again, or for a while (B156)."""

    topic: str
    partition: int
    leader_epoch: int
    reason: str


class LogDirWentOffline(TraceEvent, frozen=True):
    """A disk refused to work; the replicas on it are given up (B074)."""

    partitions: int
    reason: str


class ControlledShutdownTried(TraceEvent, frozen=True):
    """A broker asked the controller to let it go."""

    broker: int
    outcome: str
    tries_left: int


class ConfigChanged(TraceEvent, frozen=True):
    """A broker took note of a changed configuration."""

    entity: str


class TopicNotCreated(TraceEvent, frozen=True):
    """A topic that was to be created because somebody needs it was not."""

    topic: str
    error: str
    reason: str


def ids(brokers: Iterable[int]) -> str:
    """A list of ids as one column."""
    return ",".join(map(str, brokers))


EVENTS: Final[tuple[type[TraceEvent], ...]] = tuple(TraceEvent.__subclasses__())


def columns(event: type[TraceEvent]) -> dict[str, type]:
    """The columns of an event's table, stamp first."""
    fields = get_type_hints(Stamp) | get_type_hints(event)
    return {name: kind for name, kind in fields.items() if not name.startswith("__")}


COLUMNS: Final[dict[str, dict[str, type]]] = {event.__name__: columns(event) for event in EVENTS}
