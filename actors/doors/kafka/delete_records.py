"""DeleteRecords: forget all records before these offsets.

Rule: a partition's leader does it, and answers once the replicas that are alive have followed.
"""

from typing import Final

from actors.doors.kafka.call import Api, Call
from actors.doors.kafka.shapes import by_topic, milliseconds
from wire.admin import DeleteRecords, DeleteRecordsPartition, DeleteRecordsResponse
from wire.ids import TopicPartition


def serve(call: Call) -> None:
    """Each partition by itself."""
    request = call.request
    wanted = DeleteRecords(
        partitions=tuple(
            DeleteRecordsPartition(TopicPartition(topic.name, each.partition_index), each.offset)
            for topic in request.topics
            for each in topic.partitions
        ),
        timeout_ms=milliseconds(request.timeout),
    )
    call.ask(wanted, lambda response: _answer(call, response))


def _answer(call: Call, response: DeleteRecordsResponse) -> None:
    call.answer(
        topics=[
            {
                "name": topic,
                "partitions": [
                    {
                        "partition_index": each.partition.partition,
                        "low_watermark": each.low_watermark,
                        "error_code": each.error_code,
                    }
                    for each in results
                ],
            }
            for topic, results in by_topic(response.partitions)
        ]
    )


API: Final = Api(key=21, name="DeleteRecords", least=0, most=2, serve=serve)
