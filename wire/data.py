"""Client or follower ⇄ broker: records in, records out, and where they are.

Rule: record batches pass as a `memoryview`: decoding a frame copies none of them, and the view
keeps the frame alive. Wrap bytes to send them. A view equals the bytes it shows, and hashes as
they do unless it is writable (of a bytearray), when it has no hash.
"""

from enum import IntEnum
from typing import TypeAlias

from msgspec import Struct

from wire.errors import ErrorCode
from wire.ids import (
    CONSUMER_REPLICA_ID,
    NO_LEADER_EPOCH,
    NO_OFFSET,
    NO_TIMESTAMP_MS,
    BrokerId,
    Int16,
    Int32,
    Int64,
    LeaderEpoch,
    Offset,
    ProducerId,
    TopicPartition,
)
from wire.message import Message, Request


class IsolationLevel(IntEnum):
    """How far a consumer may read: to the high watermark, or to the last stable offset."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class ProducePartition(Struct, frozen=True, array_like=True, gc=False):
    """Record batches to append to one partition."""

    partition: TopicPartition
    records: memoryview


class ProduceResult(Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """Where one partition's records went."""

    partition: TopicPartition
    error_code: ErrorCode = ErrorCode.NONE
    base_offset: Offset = NO_OFFSET
    log_append_time_ms: Int64 = NO_TIMESTAMP_MS  # unless the topic keeps the producer's time
    log_start_offset: Offset = NO_OFFSET
    error_message: str | None = None


class ProduceResponse(Message, frozen=True, kw_only=True):
    """Sent once the records are as safe as `acks` asked."""

    partitions: tuple[ProduceResult, ...]


class Produce(Request[ProduceResponse], frozen=True, kw_only=True):
    """Client → leader: append these."""

    acks: Int16  # 0: no answer wanted, 1: the leader has it, -1: all in-sync replicas have it
    timeout_ms: Int32
    partitions: tuple[ProducePartition, ...]
    transactional_id: str | None = None


class FetchPartition(Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """From where on to read one partition."""

    partition: TopicPartition
    fetch_offset: Offset  # a follower's is its log end offset, and tells the leader so (B158)
    max_bytes: Int32
    current_leader_epoch: LeaderEpoch = NO_LEADER_EPOCH  # both sides must agree on it (B152)
    last_fetched_epoch: LeaderEpoch = NO_LEADER_EPOCH  # shows the leader where logs diverge (B154)
    log_start_offset: Offset = NO_OFFSET  # a follower's own; the leader deletes no record before


class EpochEndOffset(Struct, frozen=True, array_like=True, gc=False):
    """The last offset, plus one, that a leader epoch has written."""

    leader_epoch: LeaderEpoch
    end_offset: Offset


class AbortedTransaction(Struct, frozen=True, array_like=True, gc=False):
    """From here on a read_committed consumer skips this producer's records."""

    producer_id: ProducerId
    first_offset: Offset


class FetchResult(Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """What one partition holds from the asked offset on."""

    partition: TopicPartition
    error_code: ErrorCode = ErrorCode.NONE
    high_watermark: Offset = NO_OFFSET  # a follower takes min(this, its log end offset) (B157)
    last_stable_offset: Offset = NO_OFFSET
    log_start_offset: Offset = NO_OFFSET
    diverging_epoch: EpochEndOffset | None = None  # given: no records, truncate first
    aborted_transactions: tuple[AbortedTransaction, ...] | None = None  # for read_committed only
    records: memoryview | None = None  # may end in the middle of a batch


NO_SESSION = 0  # in Fetch: none is wanted, or it is to be made; in FetchResponse: there is none
INITIAL_SESSION_EPOCH = 0  # begin a session; the epochs of its requests are 1, 2, …
FINAL_SESSION_EPOCH = -1  # no session, and if there is one it ends


class FetchResponse(Message, frozen=True, kw_only=True):
    """In the order of the request's partitions, until max_bytes are full.

    In a session only partitions with news are there.
    """

    error_code: ErrorCode = ErrorCode.NONE
    partitions: tuple[FetchResult, ...] = ()
    session_id: Int32 = NO_SESSION


class Fetch(Request[FetchResponse], frozen=True, kw_only=True):
    """Client or follower → leader: what follows these offsets?"""

    replica_id: BrokerId = CONSUMER_REPLICA_ID
    max_wait_ms: Int32  # wait so long for min_bytes
    min_bytes: Int32
    max_bytes: Int32  # over all partitions; the first batch is sent even if it is larger
    isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
    partitions: tuple[FetchPartition, ...]  # in a session, those that differ from the last request
    session_id: Int32 = NO_SESSION  # the leader remembers the partitions (KIP-227)
    session_epoch: Int32 = FINAL_SESSION_EPOCH
    forgotten: tuple[TopicPartition, ...] = ()  # of the session: no longer wanted


EARLIEST_TIMESTAMP_MS = -2  # in ListOffsets: the log start offset
LATEST_TIMESTAMP_MS = -1  # in ListOffsets: the end that the asker may see
MAX_TIMESTAMP_MS = -3  # in ListOffsets: the first record that has the greatest time


class ListOffsetsPartition(Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """Which offset of one partition is asked for."""

    partition: TopicPartition
    timestamp_ms: Int64  # the first record at or after it; or one of those above
    current_leader_epoch: LeaderEpoch = NO_LEADER_EPOCH


class ListOffsetsResult(Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """The offset found; NO_OFFSET when no record is that late."""

    partition: TopicPartition
    error_code: ErrorCode = ErrorCode.NONE
    timestamp_ms: Int64 = NO_TIMESTAMP_MS
    offset: Offset = NO_OFFSET
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH


class ListOffsetsResponse(Message, frozen=True, kw_only=True):
    """One answer a partition."""

    partitions: tuple[ListOffsetsResult, ...]


class ListOffsets(Request[ListOffsetsResponse], frozen=True, kw_only=True):
    """Client or follower → leader: which offset belongs to this time?"""

    replica_id: BrokerId = CONSUMER_REPLICA_ID  # a follower sees the log's end, a client less
    isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
    partitions: tuple[ListOffsetsPartition, ...]


class OffsetForLeaderEpochPartition(Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """Which epoch of one partition is asked for."""

    partition: TopicPartition
    leader_epoch: LeaderEpoch  # the latest one that the asker's log has
    current_leader_epoch: LeaderEpoch = NO_LEADER_EPOCH


class OffsetForLeaderEpochResult(Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """The largest epoch not above the asked one, and where it ends; both -1 if there is none."""

    partition: TopicPartition
    error_code: ErrorCode = ErrorCode.NONE
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH
    end_offset: Offset = NO_OFFSET


class OffsetForLeaderEpochResponse(Message, frozen=True, kw_only=True):
    """One answer a partition."""

    partitions: tuple[OffsetForLeaderEpochResult, ...]


class OffsetForLeaderEpoch(Request[OffsetForLeaderEpochResponse], frozen=True, kw_only=True):
    """Follower or client → leader: where did this epoch end? So far our logs agree (KIP-101)."""

    replica_id: BrokerId = CONSUMER_REPLICA_ID
    partitions: tuple[OffsetForLeaderEpochPartition, ...]


DataRequest: TypeAlias = Produce | Fetch | ListOffsets | OffsetForLeaderEpoch
DataResponse: TypeAlias = (
    ProduceResponse | FetchResponse | ListOffsetsResponse | OffsetForLeaderEpochResponse
)
