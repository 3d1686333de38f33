"""What happens in a consumer group, as its coordinator sees it.

Rule: the coordinator speaks; the node in the stamp is the broker that coordinates.
"""

from wire.trace_event import TraceEvent


class GroupStateChanged(TraceEvent, frozen=True):
    """A group's state is another; a rebalance is a change to PreparingRebalance."""

    group: str
    generation: int
    former: str
    state: str
    members: int
    reason: str


class GroupMemberJoined(TraceEvent, frozen=True):
    """Somebody is a member of a group that was none, or whose former self was another."""

    group: str
    generation: int
    member: str
    instance: str
    client: str
    reason: str


class GroupMemberLeft(TraceEvent, frozen=True):
    """Somebody is no member any longer."""

    group: str
    generation: int
    member: str
    instance: str
    reason: str


class GroupForgotten(TraceEvent, frozen=True):
    """An empty group without offsets, or one that was deleted, has got its tombstone."""

    group: str
    generation: int
    reason: str
