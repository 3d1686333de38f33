"""A request that waits for its answer.

Rule: whoever takes an Asked answers it exactly once, or passes it on to somebody who does. Every
request has a refusal in the form of its own response.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from wire.admin import (
    AlterPartitionReassignments,
    AlterPartitionReassignmentsResponse,
    CreatedTopic,
    CreatePartitions,
    CreatePartitionsResponse,
    CreateTopics,
    CreateTopicsResponse,
    DeleteRecords,
    DeleteRecordsResponse,
    DeleteRecordsResult,
    DeleteTopics,
    DeleteTopicsResponse,
    ListPartitionReassignments,
    ListPartitionReassignmentsResponse,
)
from wire.codec import RESPONSE_OF
from wire.configs import (
    ConfigDescription,
    ConfigResult,
    DescribeConfigs,
    DescribeConfigsResponse,
    IncrementalAlterConfigs,
    IncrementalAlterConfigsResponse,
)
from wire.data import (
    ListOffsets,
    ListOffsetsResponse,
    ListOffsetsResult,
    OffsetForLeaderEpoch,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderEpochResult,
    Produce,
    ProduceResponse,
    ProduceResult,
)
from wire.errors import ApiError, ErrorCode
from wire.groups import (
    DeleteGroups,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribeGroups,
    DescribeGroupsResponse,
    GroupResult,
    JoinGroup,
    JoinGroupResponse,
    OffsetCommit,
    OffsetCommitResponse,
)
from wire.message import Message, PartitionResult, Request, TopicResult
from wire.metadata import ApiVersionsResponse, Metadata, MetadataResponse, MetadataTopic
from wire.transactions import (
    AddPartitionsToTxn,
    AddPartitionsToTxnResponse,
    TxnMarkerResult,
    TxnOffsetCommit,
    TxnOffsetCommitResponse,
    WriteTxnMarkers,
    WriteTxnMarkersResponse,
)

Answer = Callable[[Message], None]


@dataclass(frozen=True)
class Asked:
    """A request that came in, from whom, and how to answer it."""

    request: Message
    source: str
    answer: Answer


class _Kinds(dict[type[Message], type[Asked]]):
    """A class of its own for each request: the trace names messages by their classes."""

    def __missing__(self, request: type[Message]) -> type[Asked]:
        kind = self[request] = type(request.__name__, (Asked,), {})
        return kind


_KINDS: Final = _Kinds()


def asked(request: Message, source: str, answer: Answer) -> Asked:
    """An Asked that the trace calls by the name of its request."""
    return _KINDS[type(request)](request, source, answer)


def refusal(request: Message, error: ApiError) -> Message:  # noqa: C901, PLR0911 - a table
    """The request's own response, saying no to all of it."""
    code, why = error.code, str(error)
    match request:
        case Metadata() | CreateTopics() | CreatePartitions() | DeleteTopics():
            return _refused_topics(request, code, why)
        case Produce() | ListOffsets() | OffsetForLeaderEpoch() | DeleteRecords() | OffsetCommit():
            return _refused_partitions(request, code, why)
        case DescribeConfigs():
            queries = (each.resource for each in request.resources)
            return DescribeConfigsResponse(
                resources=tuple(
                    ConfigDescription(resource=each, error_code=code, error_message=why)
                    for each in queries
                )
            )
        case IncrementalAlterConfigs():
            changed = (each.resource for each in request.resources)
            return IncrementalAlterConfigsResponse(
                resources=tuple(ConfigResult(each, code, why) for each in changed)
            )
        case AddPartitionsToTxn() | TxnOffsetCommit() | WriteTxnMarkers():
            return _refused_of_transaction(request, code, why)
        case AlterPartitionReassignments():
            return AlterPartitionReassignmentsResponse(error_code=code, error_message=why)
        case DescribeGroups():
            described = (DescribedGroup(group_id=each, error_code=code) for each in request.groups)
            return DescribeGroupsResponse(groups=tuple(described))
        case DeleteGroups():
            results = (GroupResult(each, code) for each in request.groups)
            return DeleteGroupsResponse(groups=tuple(results))
        case JoinGroup():
            return JoinGroupResponse(error_code=code, member_id=request.member_id)
        case ListPartitionReassignments():
            return ListPartitionReassignmentsResponse(error_code=code, error_message=why)
    response: Any = ApiVersionsResponse
    if isinstance(request, Request):
        response = RESPONSE_OF.get(type(request), ApiVersionsResponse)
    refused: Message = response(error_code=code)
    return refused


def _refused_of_transaction(
    request: AddPartitionsToTxn | TxnOffsetCommit | WriteTxnMarkers, code: ErrorCode, why: str
) -> Message:
    """Of a transaction's partitions: the same for each."""
    match request:
        case AddPartitionsToTxn():
            added = (PartitionResult(each, code, why) for each in request.partitions)
            return AddPartitionsToTxnResponse(partitions=tuple(added))
        case TxnOffsetCommit():
            asked = (PartitionResult(each.partition, code, why) for each in request.partitions)
            return TxnOffsetCommitResponse(partitions=tuple(asked))
        case WriteTxnMarkers():
            return WriteTxnMarkersResponse(
                markers=tuple(
                    TxnMarkerResult(
                        producer_id=marker.producer_id,
                        partitions=tuple(
                            PartitionResult(each, code, why) for each in marker.partitions
                        ),
                    )
                    for marker in request.markers
                )
            )


def _refused_topics(
    request: Metadata | CreateTopics | CreatePartitions | DeleteTopics, code: ErrorCode, why: str
) -> Message:
    """Where only topics have an error: the same for each."""
    match request:
        case Metadata():
            names = request.topics or ()
            refused = tuple(MetadataTopic(topic=each, error_code=code) for each in names)
            return MetadataResponse(brokers=(), topics=refused)
        case CreateTopics():
            new = (each.topic for each in request.topics)
            return CreateTopicsResponse(
                topics=tuple(
                    CreatedTopic(topic=each, error_code=code, error_message=why) for each in new
                )
            )
        case CreatePartitions():
            grown = (each.topic for each in request.topics)
            return CreatePartitionsResponse(
                topics=tuple(TopicResult(each, code, why) for each in grown)
            )
        case DeleteTopics():
            return DeleteTopicsResponse(
                topics=tuple(TopicResult(each, code, why) for each in request.topics)
            )


def _refused_partitions(
    request: Produce | ListOffsets | OffsetForLeaderEpoch | DeleteRecords | OffsetCommit,
    code: ErrorCode,
    why: str,
) -> Message:
    """Where only partitions have an error: the same for each."""
    partitions = [each.partition for each in request.partitions]
    match request:
        case Produce():
            return ProduceResponse(
                partitions=tuple(
                    ProduceResult(partition=each, error_code=code, error_message=why)
                    for each in partitions
                )
            )
        case ListOffsets():
            return ListOffsetsResponse(
                partitions=tuple(
                    ListOffsetsResult(partition=each, error_code=code) for each in partitions
                )
            )
        case OffsetForLeaderEpoch():
            return OffsetForLeaderEpochResponse(
                partitions=tuple(
                    OffsetForLeaderEpochResult(partition=each, error_code=code)
                    for each in partitions
                )
            )
        case DeleteRecords():
            return DeleteRecordsResponse(
                partitions=tuple(
                    DeleteRecordsResult(partition=each, error_code=code) for each in partitions
                )
            )
        case OffsetCommit():
            return OffsetCommitResponse(
                partitions=tuple(PartitionResult(each, code, why) for each in partitions)
            )
