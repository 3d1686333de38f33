"""What a client did or saw: the events of a history.

Rule: an event is what its client knows, and no more. Times are milliseconds of one clock, or of
clocks that agree; `began_ms` is when the client asked, `at_ms` when it had its answer. Values tell
records apart: a hash is as good as the value, and each record should have its own.
"""

from typing import Annotated, Final

from msgspec import Meta, Struct

from wire.ids import TopicPartition

Milliseconds = float
PartitionNumber = Annotated[int, Meta(ge=-1, le=2**31 - 1)]
Position = Annotated[int, Meta(ge=0, le=2**63 - 1)]
PositionOrNone = Annotated[int, Meta(ge=-1, le=2**63 - 1)]

UNKNOWN_PARTITION: Final = -1  # the partitioner has not chosen yet
UNKNOWN_OFFSET: Final = -1  # nobody said: acks is 0, or a broker remembers only that it has it
NOTHING_COMMITTED: Final = -1
ALL: Final = -1  # acks


def _tag(name: str) -> str:
    """CommittedSeen as committed_seen."""
    return "".join(f"_{each.lower()}" if each.isupper() else each for each in name).lstrip("_")


class Event(Struct, frozen=True, kw_only=True, gc=False, tag_field="event", tag=_tag):
    """Something that a client did or saw."""

    at_ms: Milliseconds


class Sent(Event, frozen=True, kw_only=True, gc=False):
    """A client hands a record over; from now on it may be in the log."""

    client: str
    id: str  # one for each record, whatever its value
    topic: str
    partition: PartitionNumber = UNKNOWN_PARTITION
    value: str
    acks: Annotated[int, Meta(ge=-1, le=1)] = ALL
    is_idempotent: bool = False


class Acknowledged(Event, frozen=True, kw_only=True, gc=False):
    """The cluster said that it has the record."""

    id: str
    offset: PositionOrNone = UNKNOWN_OFFSET
    partition: PartitionNumber = UNKNOWN_PARTITION  # if it was not known when it was sent


class Failed(Event, frozen=True, kw_only=True, gc=False):
    """The client gave up."""

    id: str
    error: str
    is_certain: bool = False  # surely not written; else it may be there, or come later


class Positioned(Event, frozen=True, kw_only=True, gc=False):
    """A reader goes on from here by its own will: a seek, a reset, a new assignment.

    Who never says so may go back, as after a restart, but what it jumps over counts as missed.
    """

    client: str
    topic: str
    partition: Annotated[int, Meta(ge=0)]
    offset: Position


class Polled(Event, frozen=True, kw_only=True, gc=False):
    """A reader was given a record."""

    client: str
    topic: str
    partition: Annotated[int, Meta(ge=0)]
    offset: Position
    value: str


class EndSeen(Event, frozen=True, kw_only=True, gc=False):
    """A reader has read all that was before the end, which it asked for at `began_ms`."""

    client: str
    topic: str
    partition: Annotated[int, Meta(ge=0)]
    offset: Position  # after the last record
    began_ms: Milliseconds | None = None  # at_ms, if it is not given


class Committed(Event, frozen=True, kw_only=True, gc=False):
    """A group's offset was committed."""

    client: str
    group: str
    topic: str
    partition: Annotated[int, Meta(ge=0)]
    offset: Position
    began_ms: Milliseconds | None = None  # at_ms, if it is not given
    is_acknowledged: bool = True  # else it may take effect, at any time


class CommittedSeen(Event, frozen=True, kw_only=True, gc=False):
    """A group's offset was read back."""

    client: str
    group: str
    topic: str
    partition: Annotated[int, Meta(ge=0)]
    offset: PositionOrNone  # NOTHING_COMMITTED if there was none
    began_ms: Milliseconds | None = None  # at_ms, if it is not given


AnyEvent = Sent | Acknowledged | Failed | Positioned | Polled | EndSeen | Committed | CommittedSeen
OfPartition = Positioned | Polled | EndSeen | Committed | CommittedSeen


def partition_of(event: OfPartition) -> TopicPartition:
    """Where it happened."""
    return TopicPartition(event.topic, event.partition)


def began_ms(event: EndSeen | Committed | CommittedSeen) -> Milliseconds:
    """When the client asked."""
    return event.at_ms if event.began_ms is None else event.began_ms
