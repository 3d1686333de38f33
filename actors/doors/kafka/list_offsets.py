"""ListOffsets: which offset belongs to a time.

Rule: a client sees what it may read; one that says it is a replica is taken for a client.
"""

from typing import Any, Final

from actors.doors.kafka.call import Api, Call
from actors.doors.kafka.shapes import by_topic
from wire.data import (
    EARLIEST_TIMESTAMP_MS,
    IsolationLevel,
    ListOffsets,
    ListOffsetsPartition,
    ListOffsetsResponse,
    ListOffsetsResult,
)
from wire.ids import NO_LEADER_EPOCH, TopicPartition

EARLIEST_LOCAL_TIMESTAMP_MS: Final = -4  # nothing is elsewhere than here


def serve(call: Call) -> None:
    """Each partition by itself."""
    request = call.request
    wanted = ListOffsets(
        isolation_level=IsolationLevel(getattr(request, "isolation_level", 0) == 1),
        partitions=tuple(
            _wanted(topic.name, each) for topic in request.topics for each in topic.partitions
        ),
    )
    call.ask(wanted, lambda response: _answer(call, response))


def _wanted(topic: str, partition: Any) -> ListOffsetsPartition:
    timestamp_ms = partition.timestamp
    if timestamp_ms == EARLIEST_LOCAL_TIMESTAMP_MS:
        timestamp_ms = EARLIEST_TIMESTAMP_MS
    return ListOffsetsPartition(
        partition=TopicPartition(topic, partition.partition_index),
        timestamp_ms=timestamp_ms,
        current_leader_epoch=getattr(partition, "current_leader_epoch", NO_LEADER_EPOCH),
    )


def _answer(call: Call, response: ListOffsetsResponse) -> None:
    topics = by_topic(response.partitions)
    call.answer(topics=[{"name": name, "partitions": map(_result, each)} for name, each in topics])


def _result(result: ListOffsetsResult) -> dict[str, Any]:
    return {
        "partition_index": result.partition.partition,
        "error_code": result.error_code,
        "timestamp": result.timestamp_ms,
        "offset": result.offset,
        "leader_epoch": result.leader_epoch,
    }


API: Final = Api(key=2, name="ListOffsets", least=1, most=8, serve=serve)
