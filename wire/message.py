"""What all messages share, and the number by which each is known.

Rule: CODES is the one table from a message's name to the msgpack code that its frames begin with. A
code is never reused: a frame recorded today must not become another message tomorrow. Each file of
messages has a hundred codes; a request is even, and its response is the next number.
"""

from collections.abc import Mapping
from typing import Final, Generic, TypeVar

from msgspec import Struct

from wire.errors import ErrorCode
from wire.ids import TopicPartition

CODES: Final[Mapping[str, int]] = {
    # control.py
    "LeaderAndIsr": 100,
    "LeaderAndIsrResponse": 101,
    "StopReplica": 102,
    "StopReplicaResponse": 103,
    "UpdateMetadata": 104,
    "UpdateMetadataResponse": 105,
    "ControlledShutdown": 106,
    "ControlledShutdownResponse": 107,
    "AlterPartition": 108,
    "AlterPartitionResponse": 109,
    # data.py
    "Produce": 200,
    "ProduceResponse": 201,
    "Fetch": 202,
    "FetchResponse": 203,
    "ListOffsets": 204,
    "ListOffsetsResponse": 205,
    "OffsetForLeaderEpoch": 206,
    "OffsetForLeaderEpochResponse": 207,
    # metadata.py
    "ApiVersions": 300,
    "ApiVersionsResponse": 301,
    "Metadata": 302,
    "MetadataResponse": 303,
    "DescribeCluster": 304,
    "DescribeClusterResponse": 305,
    # groups.py
    "FindCoordinator": 400,
    "FindCoordinatorResponse": 401,
    "OffsetCommit": 402,
    "OffsetCommitResponse": 403,
    "OffsetFetch": 404,
    "OffsetFetchResponse": 405,
    "ListGroups": 406,
    "ListGroupsResponse": 407,
    "JoinGroup": 408,
    "JoinGroupResponse": 409,
    "SyncGroup": 410,
    "SyncGroupResponse": 411,
    "Heartbeat": 412,
    "HeartbeatResponse": 413,
    "LeaveGroup": 414,
    "LeaveGroupResponse": 415,
    "DescribeGroups": 416,
    "DescribeGroupsResponse": 417,
    "DeleteGroups": 418,
    "DeleteGroupsResponse": 419,
    "OffsetDelete": 420,
    "OffsetDeleteResponse": 421,
    # admin.py
    "CreateTopics": 500,
    "CreateTopicsResponse": 501,
    "CreatePartitions": 502,
    "CreatePartitionsResponse": 503,
    "DeleteTopics": 504,
    "DeleteTopicsResponse": 505,
    "DeleteRecords": 506,
    "DeleteRecordsResponse": 507,
    "ElectLeaders": 508,
    "ElectLeadersResponse": 509,
    "AlterPartitionReassignments": 510,
    "AlterPartitionReassignmentsResponse": 511,
    "ListPartitionReassignments": 512,
    "ListPartitionReassignmentsResponse": 513,
    "DescribeLogDirs": 514,
    "DescribeLogDirsResponse": 515,
    # configs.py
    "DescribeConfigs": 600,
    "DescribeConfigsResponse": 601,
    "IncrementalAlterConfigs": 602,
    "IncrementalAlterConfigsResponse": 603,
    # observation.py
    "Observe": 700,
    "ObserveResponse": 701,
    # transactions.py
    "InitProducerId": 800,
    "InitProducerIdResponse": 801,
    "AddPartitionsToTxn": 802,
    "AddPartitionsToTxnResponse": 803,
    "AddOffsetsToTxn": 804,
    "AddOffsetsToTxnResponse": 805,
    "EndTxn": 806,
    "EndTxnResponse": 807,
    "TxnOffsetCommit": 808,
    "TxnOffsetCommitResponse": 809,
    "WriteTxnMarkers": 810,
    "WriteTxnMarkersResponse": 811,
    "DescribeTransactions": 812,
    "DescribeTransactionsResponse": 813,
    "ListTransactions": 814,
    "ListTransactionsResponse": 815,
}


def _code_of(name: str) -> int:
    if name in ("Message", "Request"):
        return 0  # msgspec asks for the bases too; nobody sends them
    return CODES[name]


# No collector need look at messages (gc=False): frozen values cannot make a cycle.
class Message(Struct, frozen=True, kw_only=True, array_like=True, tag=_code_of, gc=False):
    """A frozen value that travels as one msgpack array: its code, then its fields in order."""


Response = TypeVar("Response", bound=Message)


class Request(Message, Generic[Response], frozen=True, kw_only=True):
    """A message that is answered with exactly one `Response`; the type says with which."""


class PartitionResult(Struct, frozen=True, array_like=True, gc=False):
    """How a request went for one partition."""

    partition: TopicPartition
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


class TopicResult(Struct, frozen=True, array_like=True, gc=False):
    """How a request went for one topic."""

    topic: str
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
