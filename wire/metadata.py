"""Client ⇄ any broker: what is spoken here, who is in the cluster, and who leads.

Rule: any broker answers these, from what the controller's last UpdateMetadata told it.
"""

from typing import TypeAlias

from msgspec import Struct

from wire.errors import ErrorCode
from wire.ids import (
    NO_BROKER,
    NO_LEADER_EPOCH,
    BrokerId,
    Int16,
    Int32,
    LeaderEpoch,
    Node,
    TopicId,
)
from wire.message import Message, Request


class ApiVersionRange(Struct, frozen=True, array_like=True, gc=False):
    """The versions of one API that a broker speaks."""

    api_key: Int16
    min_version: Int16
    max_version: Int16


class ApiVersionsResponse(Message, frozen=True, kw_only=True):
    """All that a broker speaks."""

    error_code: ErrorCode = ErrorCode.NONE
    api_keys: tuple[ApiVersionRange, ...] = ()


class ApiVersions(Request[ApiVersionsResponse], frozen=True, kw_only=True):
    """Client → broker: what do you speak?"""

    client_software_name: str = ""
    client_software_version: str = ""


class MetadataPartition(Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """One partition as a client sees it."""

    partition: Int32
    error_code: ErrorCode = ErrorCode.NONE
    leader: BrokerId
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH
    replicas: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]
    offline_replicas: tuple[BrokerId, ...] = ()


class MetadataTopic(Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """One topic as a client sees it."""

    topic: str
    error_code: ErrorCode = ErrorCode.NONE
    topic_id: TopicId | None = None
    is_internal: bool = False
    partitions: tuple[MetadataPartition, ...] = ()


class MetadataResponse(Message, frozen=True, kw_only=True):
    """The cluster, as this broker was last told."""

    brokers: tuple[Node, ...]
    cluster_id: str | None = None
    controller_id: BrokerId = NO_BROKER
    topics: tuple[MetadataTopic, ...] = ()


class Metadata(Request[MetadataResponse], frozen=True, kw_only=True):
    """Client → any broker: who leads these topics?"""

    topics: tuple[str, ...] | None = None  # None: all of them; (): only the brokers
    allow_auto_topic_creation: bool = False
    listener: str | None = None  # whose addresses are wanted; None: the brokers' own


class DescribeClusterResponse(Message, frozen=True, kw_only=True):
    """Who is in the cluster."""

    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    cluster_id: str = ""
    controller_id: BrokerId = NO_BROKER
    brokers: tuple[Node, ...] = ()


class DescribeCluster(Request[DescribeClusterResponse], frozen=True, kw_only=True):
    """Client → any broker: who is in the cluster?"""

    listener: str | None = None  # whose addresses are wanted; None: the brokers' own


ClusterRequest: TypeAlias = ApiVersions | Metadata | DescribeCluster
ClusterResponse: TypeAlias = ApiVersionsResponse | MetadataResponse | DescribeClusterResponse
