"""What comes back to a group coordinator: answers, ends of waits, and what its broker tells it.

Rule: a handler awaits nobody, so whatever it asked for comes as one of these.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from actors.asked import Asked
from actors.broker.local import LeadershipChanged, RecordsRead, TransactionEnded
from actors.coordinator.finding import CountDue, Counted, Found
from actors.coordinator.group import Group, Member
from actors.coordinator.messages import TopicsDeleted
from actors.coordinator.records import Change
from actors.coordinator.shards import Shard
from runtime.keeper import SessionEvent
from wire.data import ProduceResult
from wire.errors import ErrorCode
from wire.groups import OffsetCommit
from wire.ids import TopicPartition
from wire.records import ProducerStamp

Finish = Callable[[ErrorCode], None]


@dataclass(frozen=True)
class Looked:
    """Metadata knows some of what is to be committed for."""

    asked: Asked
    request: OffsetCommit
    known: frozenset[TopicPartition]


@dataclass(frozen=True)
class Read:
    """The replica manager has read on."""

    shard: Shard
    read: RecordsRead


@dataclass(frozen=True)
class ReadDue:
    """Time to read on."""

    shard: Shard


@dataclass(frozen=True)
class Appended:
    """The replica manager is done with an append."""

    shard: Shard
    changes: Sequence[Change]
    result: ProduceResult
    finish: Finish
    producer: ProducerStamp | None = None  # whose transaction they belong to


@dataclass(frozen=True)
class GroupAppended:
    """The replica manager is done with an append of a group."""

    result: ProduceResult
    finish: Finish


@dataclass(frozen=True)
class MemberDue:
    """A member's session is over, unless it was heard of."""

    shard: Shard
    group: Group
    member: Member


@dataclass(frozen=True)
class PendingDue:
    """An id that was given out has waited long enough for its member."""

    shard: Shard
    group: Group
    member_id: str


@dataclass(frozen=True)
class JoinDue:
    """Members have had their time to join."""

    shard: Shard
    group: Group
    turn: int


@dataclass(frozen=True)
class SyncDue:
    """Members have had their time to sync."""

    shard: Shard
    group: Group
    generation_id: int


GroupTimer = MemberDue | PendingDue | JoinDue | SyncDue


@dataclass(frozen=True)
class ExpiryDue:
    """Time to look for offsets that are too old."""


CoordinatorMessage = (
    Asked
    | LeadershipChanged
    | TopicsDeleted
    | TransactionEnded
    | SessionEvent
    | Counted
    | CountDue
    | Found
    | Looked
    | Read
    | ReadDue
    | Appended
    | GroupAppended
    | GroupTimer
    | ExpiryDue
)
