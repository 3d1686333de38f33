"""OffsetForLeaderEpoch: where did this epoch end?

Rule: a consumer asks to find out whether its position is still that of the leader's log (KIP-320).
"""

from typing import Any, Final

from actors.doors.kafka.call import Api, Call
from actors.doors.kafka.shapes import by_topic
from wire.data import (
    OffsetForLeaderEpoch,
    OffsetForLeaderEpochPartition,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderEpochResult,
)
from wire.ids import TopicPartition


def serve(call: Call) -> None:
    """Each partition by itself."""
    wanted = OffsetForLeaderEpoch(
        partitions=tuple(
            OffsetForLeaderEpochPartition(
                partition=TopicPartition(topic.topic, each.partition),
                leader_epoch=each.leader_epoch,
                current_leader_epoch=each.current_leader_epoch,
            )
            for topic in call.request.topics
            for each in topic.partitions
        )
    )
    call.ask(wanted, lambda response: _answer(call, response))


def _answer(call: Call, response: OffsetForLeaderEpochResponse) -> None:
    call.answer(
        topics=[
            {"topic": topic, "partitions": map(_result, results)}
            for topic, results in by_topic(response.partitions)
        ]
    )


def _result(result: OffsetForLeaderEpochResult) -> dict[str, Any]:
    return {
        "error_code": result.error_code,
        "partition": result.partition.partition,
        "leader_epoch": result.leader_epoch,
        "end_offset": result.end_offset,
    }


API: Final = Api(key=23, name="OffsetForLeaderEpoch", least=2, most=4, serve=serve)
