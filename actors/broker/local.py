"""What the actors of one broker ask of its replica manager, and hear from it.

Rule: nothing here leaves the broker. `done` runs inside the replica manager, so it only tells its
own actor; it is called exactly once.
"""

from collections.abc import Callable
from dataclasses import dataclass

from wire.data import ProduceResult
from wire.errors import ErrorCode
from wire.ids import LeaderEpoch, Offset, ProducerId, TopicPartition


@dataclass(frozen=True)
class AppendRecords:
    """Append batches to a partition that this broker leads in that epoch, as Produce does."""

    partition: TopicPartition
    leader_epoch: LeaderEpoch  # led in another: NOT_LEADER_OR_FOLLOWER
    records: bytearray  # gets its offsets in place
    acks: int
    timeout_ms: int
    done: Callable[[ProduceResult], None]


@dataclass(frozen=True)
class TransactionEnded:
    """Replica manager → group coordinator: offsets of this producer count now, or never will."""

    partition: TopicPartition  # of __consumer_offsets
    producer_id: ProducerId
    is_committed: bool


@dataclass(frozen=True)
class RecordsRead:
    """What ReadRecords found: whole batches, none at or above the high watermark."""

    error_code: ErrorCode
    records: bytes
    log_start_offset: Offset
    high_watermark: Offset
    log_end_offset: Offset


@dataclass(frozen=True)
class ReadRecords:
    """Read committed batches of a partition that this broker leads in that epoch.

    An offset before the log's start is read from there. At least one batch comes, however large,
    if there is one below the high watermark.
    """

    partition: TopicPartition
    leader_epoch: LeaderEpoch
    offset: Offset
    max_bytes: int
    done: Callable[[RecordsRead], None]


@dataclass(frozen=True)
class LeadershipChanged:
    """Replica manager → coordinator: this broker leads a partition now, or does no longer."""

    partition: TopicPartition
    leader_epoch: LeaderEpoch  # of the decision: an older one that comes late is ignored (B176)
    is_leader: bool
