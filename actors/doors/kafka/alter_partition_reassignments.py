"""AlterPartitionReassignments: these partitions shall live elsewhere.

Rule: only the controller's broker does it; a null list of replicas cancels a move.
"""

from typing import Any, Final

from actors.doors.kafka.call import Api, Call
from actors.doors.kafka.shapes import by_topic, milliseconds
from wire.admin import (
    AlterPartitionReassignments,
    AlterPartitionReassignmentsResponse,
    PartitionReassignment,
)
from wire.ids import TopicPartition


def serve(call: Call) -> None:
    """Each partition by itself."""
    request = call.request
    wanted = AlterPartitionReassignments(
        partitions=tuple(
            _wanted(topic.name, each) for topic in request.topics for each in topic.partitions
        ),
        timeout_ms=milliseconds(request.timeout),
    )
    call.ask(wanted, lambda response: _answer(call, response))


def _wanted(topic: str, partition: Any) -> PartitionReassignment:
    replicas = partition.replicas
    return PartitionReassignment(
        TopicPartition(topic, partition.partition_index),
        None if replicas is None else tuple(replicas),
    )


def _answer(call: Call, response: AlterPartitionReassignmentsResponse) -> None:
    call.answer(
        error_code=response.error_code,
        error_message=response.error_message,
        responses=[
            {
                "name": topic,
                "partitions": [
                    {
                        "partition_index": each.partition.partition,
                        "error_code": each.error_code,
                        "error_message": each.error_message,
                    }
                    for each in results
                ],
            }
            for topic, results in by_topic(response.partitions)
        ],
    )


API: Final = Api(key=45, name="AlterPartitionReassignments", least=0, most=0, serve=serve)
