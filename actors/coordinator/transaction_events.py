"""What comes back to a transaction coordinator.

Rule: as events.py: a handler awaits nobody, so whatever it asked for comes as one of these.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from actors.asked import Asked
from actors.broker.local import LeadershipChanged, RecordsRead
from actors.coordinator.finding import CountDue, Counted, Found
from actors.coordinator.transaction_shards import TransactionShard
from actors.coordinator.transaction_states import Transaction, TransactionValue
from runtime.ref import Outcome
from wire.data import ProduceResult
from wire.errors import ErrorCode
from wire.ids import BrokerId, TopicPartition

Finish = Callable[[ErrorCode], None]


@dataclass(frozen=True)
class BlockTaken:
    """ZooKeeper has given a block of producer ids, or not."""

    outcome: Outcome


@dataclass(frozen=True)
class TransactionsRead:
    """The replica manager has read on."""

    shard: TransactionShard
    read: RecordsRead


@dataclass(frozen=True)
class TransactionsReadDue:
    """Time to read on."""

    shard: TransactionShard


@dataclass(frozen=True)
class TransactionAppended:
    """The replica manager is done with an append."""

    shard: TransactionShard
    transaction: Transaction
    value: TransactionValue | None
    result: ProduceResult
    finish: Finish


@dataclass(frozen=True)
class PartitionsKnown:
    """Metadata has said which of the partitions that a producer wants to add there are."""

    asked: Asked
    unknown: frozenset[TopicPartition]


@dataclass(frozen=True)
class OffsetsTopicRead:
    """ZooKeeper has said how many partitions __consumer_offsets has, or has not."""

    asked: Asked
    outcome: Outcome


@dataclass(frozen=True)
class MarkerRound:
    """One decision that is being carried out: what comes late may be of another."""

    shard: TransactionShard
    transaction: Transaction
    value: TransactionValue


@dataclass(frozen=True)
class LeadersFound:
    """Metadata has said who leads the partitions that need a marker."""

    round: MarkerRound
    leaders: Mapping[BrokerId, tuple[TopicPartition, ...]]
    unknown: tuple[TopicPartition, ...]


@dataclass(frozen=True)
class MarkersWritten:
    """A leader has answered, or has not."""

    round: MarkerRound
    asked_for: tuple[TopicPartition, ...]
    outcome: Outcome


@dataclass(frozen=True)
class TopicsRead:
    """ZooKeeper has said whether topics that nobody leads are there."""

    round: MarkerRound
    topics: tuple[str, ...]
    outcome: Outcome


@dataclass(frozen=True)
class MarkersDue:
    """Time to send the markers that are missing, or to write that none is."""

    shard: TransactionShard
    transaction: Transaction


@dataclass(frozen=True)
class TimeoutsDue:
    """Time to look for transactions that have had their time."""


@dataclass(frozen=True)
class IdExpiryDue:
    """Time to look for transactional ids that nobody uses any more."""


TransactionMessage = (
    Asked
    | BlockTaken
    | LeadershipChanged
    | Counted
    | CountDue
    | Found
    | TransactionsRead
    | TransactionsReadDue
    | TransactionAppended
    | PartitionsKnown
    | OffsetsTopicRead
    | LeadersFound
    | MarkersWritten
    | TopicsRead
    | MarkersDue
    | TimeoutsDue
    | IdExpiryDue
)
