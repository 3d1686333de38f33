"""ListPartitionReassignments: what is on the move?

Rule: only the controller's broker knows.
"""

from typing import Any, Final

from actors.doors.kafka.call import Api, Call
from actors.doors.kafka.shapes import by_topic, milliseconds
from wire.admin import (
    ListPartitionReassignments,
    ListPartitionReassignmentsResponse,
    OngoingReassignment,
)
from wire.ids import TopicPartition


def serve(call: Call) -> None:
    """All that is on the move, or of these."""
    request = call.request
    partitions = None
    if request.topics is not None:
        partitions = tuple(
            TopicPartition(topic.name, number)
            for topic in request.topics
            for number in topic.partition_indexes
        )
    wanted = ListPartitionReassignments(
        partitions=partitions, timeout_ms=milliseconds(request.timeout)
    )
    call.ask(wanted, lambda response: _answer(call, response))


def _answer(call: Call, response: ListPartitionReassignmentsResponse) -> None:
    call.answer(
        error_code=response.error_code,
        error_message=response.error_message,
        topics=[
            {"name": topic, "partitions": map(_moving, results)}
            for topic, results in by_topic(response.partitions)
        ],
    )


def _moving(moving: OngoingReassignment) -> dict[str, Any]:
    return {
        "partition_index": moving.partition.partition,
        "replicas": moving.replicas,
        "adding_replicas": moving.adding_replicas,
        "removing_replicas": moving.removing_replicas,
    }


API: Final = Api(key=46, name="ListPartitionReassignments", least=0, most=0, serve=serve)
