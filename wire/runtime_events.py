"""What happens to nodes and actors, on the network, at ZooKeeper, and by the hand of a tester.

Rule: no event here knows what the actors are about.
"""

from typing import Final

from wire.trace_event import TraceEvent


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
    number: int = 0  # by which it can be healed, if whoever injected it counts


class FaultHealed(TraceEvent, frozen=True):
    """Somebody mended what they broke."""

    fault: str
    target: str
    number: int = 0  # of what was injected; 0: of more than one
