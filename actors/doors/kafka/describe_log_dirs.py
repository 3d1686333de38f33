"""DescribeLogDirs: how much disk each replica of this broker takes.

Rule: a broker has one disk, and tells of itself only.
"""

from typing import Final

from actors.doors.kafka.call import Api, Call
from actors.doors.kafka.shapes import by_topic
from wire.admin import DescribeLogDirs, DescribeLogDirsResponse
from wire.ids import TopicPartition


def serve(call: Call) -> None:
    """All replicas, or these."""
    partitions = None
    if call.request.topics is not None:
        partitions = tuple(
            TopicPartition(topic.topic, number)
            for topic in call.request.topics
            for number in topic.partitions
        )
    call.ask(DescribeLogDirs(partitions=partitions), lambda response: _answer(call, response))


def _answer(call: Call, response: DescribeLogDirsResponse) -> None:
    directory = {
        "error_code": response.error_code,
        "log_dir": response.log_dir,
        "topics": [
            {
                "name": topic,
                "partitions": [
                    {
                        "partition_index": each.partition.partition,
                        "partition_size": each.size_in_bytes,
                        "offset_lag": each.offset_lag,
                        "is_future_key": False,
                    }
                    for each in results
                ],
            }
            for topic, results in by_topic(response.partitions)
        ],
        "total_bytes": -1,
        "usable_bytes": response.usable_bytes,
    }
    call.answer(error_code=0, results=(directory,))


API: Final = Api(key=35, name="DescribeLogDirs", least=1, most=4, serve=serve)
