"""OffsetDelete: forget what a group has committed for these partitions.

Rule: one answer a partition, unless it is the group that is wrong.
"""

from typing import Final

from actors.doors.kafka.call import Api, Call
from actors.doors.kafka.shapes import by_topic
from wire.groups import OffsetDelete, OffsetDeleteResponse
from wire.ids import TopicPartition


def serve(call: Call) -> None:
    """Partitions by topic."""
    request = call.request
    wanted = OffsetDelete(
        group_id=request.group_id,
        partitions=tuple(
            TopicPartition(topic.name, each.partition_index)
            for topic in request.topics
            for each in topic.partitions
        ),
    )
    call.ask(wanted, lambda response: _answer(call, response))


def _answer(call: Call, response: OffsetDeleteResponse) -> None:
    call.answer(
        error_code=response.error_code,
        topics=[
            {
                "name": name,
                "partitions": [
                    {
                        "partition_index": each.partition.partition,
                        "error_code": each.error_code,
                    }
                    for each in results
                ],
            }
            for name, results in by_topic(response.partitions)
        ],
    )


API: Final = Api(key=47, name="OffsetDelete", least=0, most=0, serve=serve)
