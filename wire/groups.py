"""Consumer ⇄ group coordinator: who coordinates, and how far a group has read.

Rule: a group's coordinator is the leader of its partition of __consumer_offsets (B175).
"""

from enum import IntEnum
from typing import TypeAlias

from msgspec import Struct

from wire.errors import ErrorCode
from wire.ids import NO_LEADER_EPOCH, NO_OFFSET, Int32, LeaderEpoch, Node, Offset, TopicPartition
from wire.message import Message, PartitionResult, Request


class CoordinatorType(IntEnum):
    """What the key of FindCoordinator names."""

    GROUP = 0
    TRANSACTION = 1


class FindCoordinatorResponse(Message, frozen=True, kw_only=True):
    """Who coordinates; nobody when there is an error."""

    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    coordinator: Node | None = None


class FindCoordinator(Request[FindCoordinatorResponse], frozen=True, kw_only=True):
    """Client → any broker: who coordinates this group?"""

    key: str
    key_type: CoordinatorType = CoordinatorType.GROUP


class OffsetCommitPartition(Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """How far the group has read one partition."""

    partition: TopicPartition
    committed_offset: Offset
    committed_leader_epoch: LeaderEpoch = NO_LEADER_EPOCH  # lets the next reader see a truncation
    metadata: str | None = None  # the consumer's own note


class OffsetCommitResponse(Message, frozen=True, kw_only=True):
    """Per partition, whether the commit is on all in-sync replicas of the coordinator's log."""

    partitions: tuple[PartitionResult, ...]


class OffsetCommit(Request[OffsetCommitResponse], frozen=True, kw_only=True):
    """Consumer → coordinator: remember these offsets."""

    group_id: str
    generation_id: Int32 = -1  # -1: the consumer assigns its partitions itself
    member_id: str = ""
    group_instance_id: str | None = None
    partitions: tuple[OffsetCommitPartition, ...]


class OffsetFetchResult(Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """The offset last committed; NO_OFFSET and no error if there is none (B178)."""

    partition: TopicPartition
    error_code: ErrorCode = ErrorCode.NONE
    committed_offset: Offset = NO_OFFSET
    committed_leader_epoch: LeaderEpoch = NO_LEADER_EPOCH
    metadata: str | None = ""  # empty if there is none, as OffsetAndMetadata.NO_METADATA


class OffsetFetchResponse(Message, frozen=True, kw_only=True):
    """One answer a partition."""

    error_code: ErrorCode = ErrorCode.NONE
    partitions: tuple[OffsetFetchResult, ...] = ()


class OffsetFetch(Request[OffsetFetchResponse], frozen=True, kw_only=True):
    """Consumer → coordinator: how far had we read?"""

    group_id: str
    partitions: tuple[TopicPartition, ...] | None = None  # None: all that the group committed
    require_stable: bool = False  # wait for commits of transactions still open


class ListGroupsResponse(Message, frozen=True, kw_only=True):
    """The groups that this broker coordinates, sorted."""

    error_code: ErrorCode = ErrorCode.NONE
    groups: tuple[str, ...] = ()


class ListGroups(Request[ListGroupsResponse], frozen=True, kw_only=True):
    """Client → each broker: which groups do you coordinate?"""


GroupRequest: TypeAlias = FindCoordinator | OffsetCommit | OffsetFetch | ListGroups
GroupResponse: TypeAlias = (
    FindCoordinatorResponse | OffsetCommitResponse | OffsetFetchResponse | ListGroupsResponse
)
