"""TxnOffsetCommit: how far a group has read, if the transaction commits.

Rule: each partition is answered by itself. Since version 3 the producer says for which member it
works, so that one who is no longer a member is refused (KIP-447).
"""

from typing import Any, Final

from actors.doors.kafka.call import Api, Call
from actors.doors.kafka.shapes import by_topic
from wire.groups import OffsetCommitPartition
from wire.ids import NO_LEADER_EPOCH, TopicPartition
from wire.transactions import TxnOffsetCommit, TxnOffsetCommitResponse


def serve(call: Call) -> None:
    """Ask the group's coordinator."""
    request = call.request
    wanted = TxnOffsetCommit(
        transactional_id=request.transactional_id,
        group_id=request.group_id,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        generation_id=getattr(request, "generation_id", -1),
        member_id=getattr(request, "member_id", ""),
        group_instance_id=getattr(request, "group_instance_id", None),
        partitions=tuple(
            _wanted(topic.name, each) for topic in request.topics for each in topic.partitions
        ),
    )
    call.ask(wanted, lambda response: _answer(call, response))


def _wanted(topic: str, partition: Any) -> OffsetCommitPartition:
    return OffsetCommitPartition(
        partition=TopicPartition(topic, partition.partition_index),
        committed_offset=partition.committed_offset,
        committed_leader_epoch=getattr(partition, "committed_leader_epoch", NO_LEADER_EPOCH),
        metadata=partition.committed_metadata,
    )


def _answer(call: Call, response: TxnOffsetCommitResponse) -> None:
    call.answer(
        topics=[
            {
                "name": name,
                "partitions": [
                    {"partition_index": each.partition.partition, "error_code": each.error_code}
                    for each in results
                ],
            }
            for name, results in by_topic(response.partitions)
        ]
    )


API: Final = Api(key=28, name="TxnOffsetCommit", least=0, most=3, serve=serve)
