"""Consumer ⇄ group coordinator: who coordinates, who is a member, and how far a group has read.

Rule: a group's coordinator is the leader of its partition of __consumer_offsets (B175). What
members say of themselves and are given is bytes that only they understand.
"""

from enum import IntEnum
from typing import TypeAlias

from msgspec import Struct

from wire.errors import ErrorCode
from wire.ids import (
    NO_LEADER_EPOCH,
    NO_OFFSET,
    Int32,
    Int64,
    LeaderEpoch,
    Node,
    Offset,
    TopicPartition,
)
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
    retention_time_ms: Int64 = -1  # -1: as the coordinator thinks best; only old clients ask


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


class ListedGroup(Struct, frozen=True, order=True, array_like=True, gc=False):
    """A group in short."""

    group_id: str
    protocol_type: str = ""  # empty: nobody ever joined, somebody has committed
    state: str = ""


class ListGroupsResponse(Message, frozen=True, kw_only=True):
    """The groups that this broker coordinates, sorted."""

    error_code: ErrorCode = ErrorCode.NONE
    groups: tuple[ListedGroup, ...] = ()


class ListGroups(Request[ListGroupsResponse], frozen=True, kw_only=True):
    """Client → each broker: which groups do you coordinate?"""

    states: tuple[str, ...] = ()  # in these states, in capitals or not; none named: in all


# --- membership -----------------------------------------------------------------------------------


class JoinProtocol(Struct, frozen=True, array_like=True, gc=False):
    """A way to share partitions out that a member knows, and what its leader has to know for it."""

    name: str
    metadata: bytes = b""


class JoinedMember(Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """What the leader of a group is told of a member."""

    member_id: str
    group_instance_id: str | None = None
    metadata: bytes = b""


class JoinGroupResponse(Message, frozen=True, kw_only=True):
    """A generation has begun; its leader, and nobody else, is told who is in it."""

    error_code: ErrorCode = ErrorCode.NONE
    generation_id: Int32 = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False  # the leader need not assign anew: only its member id did change
    member_id: str = ""
    members: tuple[JoinedMember, ...] = ()


class JoinGroup(Request[JoinGroupResponse], frozen=True, kw_only=True):
    """Member → coordinator: let me in, or begin a new generation; answered when all have come."""

    group_id: str
    session_timeout_ms: Int32
    rebalance_timeout_ms: Int32 = -1  # -1: as the session's
    member_id: str = ""  # empty: give me one
    group_instance_id: str | None = None  # a static member keeps its place when it comes back
    protocol_type: str = "consumer"
    protocols: tuple[JoinProtocol, ...] = ()  # the one liked best comes first
    reason: str | None = None
    client_id: str = ""
    client_host: str = ""
    requires_known_member_id: bool = True  # first give me an id, then let me in with it (KIP-394)
    supports_skipping_assignment: bool = True  # KIP-814


class MemberAssignment(Struct, frozen=True, array_like=True, gc=False):
    """What the leader gives to one member."""

    member_id: str
    assignment: bytes = b""


class SyncGroupResponse(Message, frozen=True, kw_only=True):
    """What this member is given."""

    error_code: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


class SyncGroup(Request[SyncGroupResponse], frozen=True, kw_only=True):
    """Member → coordinator: what is mine? The leader says so for all."""

    group_id: str
    generation_id: Int32
    member_id: str
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: tuple[MemberAssignment, ...] = ()


class HeartbeatResponse(Message, frozen=True, kw_only=True):
    """Whether the generation goes on."""

    error_code: ErrorCode = ErrorCode.NONE


class Heartbeat(Request[HeartbeatResponse], frozen=True, kw_only=True):
    """Member → coordinator: I am alive."""

    group_id: str
    generation_id: Int32
    member_id: str
    group_instance_id: str | None = None


class LeavingMember(Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """Who leaves; a static member may be named by its instance alone."""

    member_id: str = ""
    group_instance_id: str | None = None
    reason: str | None = None


class LeftMember(Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """How it went for one member."""

    member_id: str
    group_instance_id: str | None = None
    error_code: ErrorCode = ErrorCode.NONE


class LeaveGroupResponse(Message, frozen=True, kw_only=True):
    """One answer a member."""

    error_code: ErrorCode = ErrorCode.NONE
    members: tuple[LeftMember, ...] = ()


class LeaveGroup(Request[LeaveGroupResponse], frozen=True, kw_only=True):
    """Member → coordinator: go on without me; or somebody else → coordinator: without these."""

    group_id: str
    members: tuple[LeavingMember, ...]


# --- for those who look after groups --------------------------------------------------------------


class DescribedMember(Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """A member, and what it has been given."""

    member_id: str
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    metadata: bytes = b""
    assignment: bytes = b""


class DescribedGroup(Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """A group; one that nobody knows is Dead."""

    group_id: str
    error_code: ErrorCode = ErrorCode.NONE
    state: str = ""
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[DescribedMember, ...] = ()


class DescribeGroupsResponse(Message, frozen=True, kw_only=True):
    """One answer a group."""

    groups: tuple[DescribedGroup, ...]


class DescribeGroups(Request[DescribeGroupsResponse], frozen=True, kw_only=True):
    """Client → coordinator: what are these groups doing?"""

    groups: tuple[str, ...]


class GroupResult(Struct, frozen=True, array_like=True, gc=False):
    """How it went for one group."""

    group_id: str
    error_code: ErrorCode = ErrorCode.NONE


class DeleteGroupsResponse(Message, frozen=True, kw_only=True):
    """One answer a group."""

    groups: tuple[GroupResult, ...]


class DeleteGroups(Request[DeleteGroupsResponse], frozen=True, kw_only=True):
    """Client → coordinator: forget these groups, which nobody is a member of."""

    groups: tuple[str, ...]


class OffsetDeleteResponse(Message, frozen=True, kw_only=True):
    """One answer a partition, unless it is the group that is wrong."""

    error_code: ErrorCode = ErrorCode.NONE
    partitions: tuple[PartitionResult, ...] = ()


class OffsetDelete(Request[OffsetDeleteResponse], frozen=True, kw_only=True):
    """Client → coordinator: forget what is committed for these, which nobody is subscribed to."""

    group_id: str
    partitions: tuple[TopicPartition, ...]


GroupRequest: TypeAlias = (
    FindCoordinator
    | OffsetCommit
    | OffsetFetch
    | ListGroups
    | JoinGroup
    | SyncGroup
    | Heartbeat
    | LeaveGroup
    | DescribeGroups
    | DeleteGroups
    | OffsetDelete
)
GroupResponse: TypeAlias = (
    FindCoordinatorResponse
    | OffsetCommitResponse
    | OffsetFetchResponse
    | ListGroupsResponse
    | JoinGroupResponse
    | SyncGroupResponse
    | HeartbeatResponse
    | LeaveGroupResponse
    | DescribeGroupsResponse
    | DeleteGroupsResponse
    | OffsetDeleteResponse
)
