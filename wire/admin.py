"""Administrator ⇄ cluster: topics made, grown, deleted; leaders elected; replicas moved.

Rule: a request names many things and is answered for each of them; only what concerns the
request as a whole (not the controller, timed out) is a top-level error.
"""

from enum import IntEnum
from typing import TypeAlias

from msgspec import Struct

from wire.errors import ErrorCode
from wire.ids import BrokerId, Int16, Int32, Int64, Offset, TopicId, TopicPartition
from wire.message import Message, PartitionResult, Request, TopicResult


class PartitionAssignment(Struct, frozen=True, array_like=True, gc=False):
    """The brokers that shall hold one partition, the preferred leader first."""

    partition: Int32
    replicas: tuple[BrokerId, ...]


class NewTopic(Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """A topic to create, with counts or with assignments, never both."""

    topic: str
    num_partitions: Int32 = -1  # -1: the broker's default, or as many as there are assignments
    replication_factor: Int16 = -1
    assignments: tuple[PartitionAssignment, ...] = ()
    configs: tuple[tuple[str, str | None], ...] = ()


class CreatedTopic(Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """A topic as it was created, or why it was not."""

    topic: str
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    topic_id: TopicId | None = None
    num_partitions: Int32 = -1
    replication_factor: Int16 = -1


class CreateTopicsResponse(Message, frozen=True, kw_only=True):
    """One answer a topic."""

    topics: tuple[CreatedTopic, ...]


class CreateTopics(Request[CreateTopicsResponse], frozen=True, kw_only=True):
    """Administrator → controller: create these, and answer when their leaders are known."""

    topics: tuple[NewTopic, ...]
    timeout_ms: Int32
    validate_only: bool = False


class NewPartitions(Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """How many partitions a topic shall have; the number only grows."""

    topic: str
    count: Int32  # the new total
    assignments: tuple[tuple[BrokerId, ...], ...] | None = None  # of the new ones; None: you choose


class CreatePartitionsResponse(Message, frozen=True, kw_only=True):
    """One answer a topic."""

    topics: tuple[TopicResult, ...]


class CreatePartitions(Request[CreatePartitionsResponse], frozen=True, kw_only=True):
    """Administrator → controller: give these topics more partitions."""

    topics: tuple[NewPartitions, ...]
    timeout_ms: Int32
    validate_only: bool = False


class DeleteTopicsResponse(Message, frozen=True, kw_only=True):
    """One answer a topic."""

    topics: tuple[TopicResult, ...]


class DeleteTopics(Request[DeleteTopicsResponse], frozen=True, kw_only=True):
    """Administrator → controller: delete these. The answer may come before the logs are gone."""

    topics: tuple[str, ...]
    timeout_ms: Int32


class DeleteRecordsPartition(Struct, frozen=True, array_like=True, gc=False):
    """Up to where one partition's records may go."""

    partition: TopicPartition
    offset: Offset  # the first to keep; -1: the high watermark


class DeleteRecordsResult(Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """Where the log now starts."""

    partition: TopicPartition
    error_code: ErrorCode = ErrorCode.NONE
    low_watermark: Offset = Offset(-1)  # the least log start offset among the replicas


class DeleteRecordsResponse(Message, frozen=True, kw_only=True):
    """One answer a partition."""

    partitions: tuple[DeleteRecordsResult, ...]


class DeleteRecords(Request[DeleteRecordsResponse], frozen=True, kw_only=True):
    """Administrator → leader: forget all records before these offsets."""

    partitions: tuple[DeleteRecordsPartition, ...]
    timeout_ms: Int32


class ElectionType(IntEnum):
    """Who may win."""

    PREFERRED = 0  # the first assigned replica, if it is alive and in sync
    UNCLEAN = 1  # any live replica, even at the price of records, where there is no leader


class ElectLeadersResponse(Message, frozen=True, kw_only=True):
    """One answer a partition asked for; for all partitions, only those that were elected."""

    error_code: ErrorCode = ErrorCode.NONE
    partitions: tuple[PartitionResult, ...] = ()


class ElectLeaders(Request[ElectLeadersResponse], frozen=True, kw_only=True):
    """Administrator → controller: elect leaders for these partitions."""

    election_type: ElectionType
    partitions: tuple[TopicPartition, ...] | None = None  # None: all
    timeout_ms: Int32


class PartitionReassignment(Struct, frozen=True, array_like=True, gc=False):
    """Where one partition shall live."""

    partition: TopicPartition
    replicas: tuple[BrokerId, ...] | None  # None: cancel the move that is under way


class AlterPartitionReassignmentsResponse(Message, frozen=True, kw_only=True):
    """Per partition, whether the move was accepted; it takes its time."""

    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    partitions: tuple[PartitionResult, ...] = ()


class AlterPartitionReassignments(
    Request[AlterPartitionReassignmentsResponse], frozen=True, kw_only=True
):
    """Administrator → controller: move these partitions. The newest request wins (B107)."""

    partitions: tuple[PartitionReassignment, ...]
    timeout_ms: Int32


class OngoingReassignment(Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """A partition on the move."""

    partition: TopicPartition
    replicas: tuple[BrokerId, ...]
    adding_replicas: tuple[BrokerId, ...]
    removing_replicas: tuple[BrokerId, ...]


class ListPartitionReassignmentsResponse(Message, frozen=True, kw_only=True):
    """Those of the asked partitions that are on the move."""

    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    partitions: tuple[OngoingReassignment, ...] = ()


class ListPartitionReassignments(
    Request[ListPartitionReassignmentsResponse], frozen=True, kw_only=True
):
    """Administrator → controller: what is on the move?"""

    partitions: tuple[TopicPartition, ...] | None = None  # None: all
    timeout_ms: Int32


class LogDirReplica(Struct, frozen=True, array_like=True, gc=False):
    """One replica on a disk."""

    partition: TopicPartition
    size_in_bytes: Int64
    offset_lag: Int64  # behind the high watermark; 0 where the broker leads


class DescribeLogDirsResponse(Message, frozen=True, kw_only=True):
    """The one disk of a broker."""

    error_code: ErrorCode = ErrorCode.NONE  # of the disk
    log_dir: str = ""
    usable_bytes: Int64 = -1
    partitions: tuple[LogDirReplica, ...] = ()


class DescribeLogDirs(Request[DescribeLogDirsResponse], frozen=True, kw_only=True):
    """Administrator → any broker: how much room do your replicas take?"""

    partitions: tuple[TopicPartition, ...] | None = None  # None: all


AdminRequest: TypeAlias = (
    CreateTopics
    | CreatePartitions
    | DeleteTopics
    | DeleteRecords
    | ElectLeaders
    | AlterPartitionReassignments
    | ListPartitionReassignments
    | DescribeLogDirs
)
AdminResponse: TypeAlias = (
    CreateTopicsResponse
    | CreatePartitionsResponse
    | DeleteTopicsResponse
    | DeleteRecordsResponse
    | ElectLeadersResponse
    | AlterPartitionReassignmentsResponse
    | ListPartitionReassignmentsResponse
    | DescribeLogDirsResponse
)
