"""OffsetCommit: how far a group has read.

Rule: each partition is answered by itself. Versions 0 and 1 are not spoken: 0 means ZooKeeper.
"""

from typing import Any, Final

from actors.doors.kafka.call import Api, Call
from actors.doors.kafka.shapes import by_topic, milliseconds
from wire.groups import OffsetCommit, OffsetCommitPartition, OffsetCommitResponse
from wire.ids import NO_LEADER_EPOCH, TopicPartition


def serve(call: Call) -> None:
    """Offsets by topic."""
    request = call.request
    retention = getattr(request, "retention_time", None)  # only versions 2 to 4 ask for one
    wanted = OffsetCommit(
        group_id=request.group_id,
        generation_id=request.generation_id_or_member_epoch,
        member_id=request.member_id,
        group_instance_id=getattr(request, "group_instance_id", None),
        partitions=tuple(
            _wanted(topic.name, each) for topic in request.topics for each in topic.partitions
        ),
        retention_time_ms=-1 if retention is None else milliseconds(retention),
    )
    call.ask(wanted, lambda response: _answer(call, response))


def _wanted(topic: str, partition: Any) -> OffsetCommitPartition:
    return OffsetCommitPartition(
        partition=TopicPartition(topic, partition.partition_index),
        committed_offset=partition.committed_offset,
        committed_leader_epoch=getattr(partition, "committed_leader_epoch", NO_LEADER_EPOCH),
        metadata=partition.committed_metadata,
    )


def _answer(call: Call, response: OffsetCommitResponse) -> None:
    topics = by_topic(response.partitions)
    call.answer(
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
            for name, results in topics
        ]
    )


API: Final = Api(key=8, name="OffsetCommit", least=2, most=9, serve=serve)
