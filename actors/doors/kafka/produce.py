"""Produce: append these.

Rule: batches pass as they are. With acks=0 nobody waits for an answer, so that an error can only be
told by the end of the connection, as Kafka does.
"""

from typing import Any, Final

from actors.doors.kafka.call import Api, Call
from actors.doors.kafka.shapes import by_topic, milliseconds
from runtime.tcp_connection import DEFAULT_LIMITS
from wire.data import Produce, ProducePartition, ProduceResponse, ProduceResult
from wire.errors import ErrorCode
from wire.ids import TopicPartition


def serve(call: Call) -> None:
    """Append, and answer when it is safe."""
    request = call.request
    produce = Produce(
        acks=request.acks,
        timeout_ms=milliseconds(request.timeout),
        transactional_id=request.transactional_id,
        partitions=tuple(
            ProducePartition(
                TopicPartition(topic.name, each.index), memoryview(each.records or b"")
            )
            for topic in request.topic_data
            for each in topic.partition_data
        ),
    )
    call.ask(produce, lambda response: _answer(call, response, produce.acks))


def _answer(call: Call, response: ProduceResponse, acks: int) -> None:
    if acks != 0:
        topics = by_topic(response.partitions)
        call.answer(
            responses=[
                {"name": name, "partition_responses": map(_result, each)} for name, each in topics
            ]
        )
    elif any(each.error_code is not ErrorCode.NONE for each in response.partitions):
        call.refuse("records were refused, and acks is 0")
    else:
        call.leave_unanswered()


def _result(result: ProduceResult) -> dict[str, Any]:
    return {
        "index": result.partition.partition,
        "error_code": result.error_code,
        "base_offset": result.base_offset,
        "log_append_time": result.log_append_time_ms,
        "log_start_offset": result.log_start_offset,
        "record_errors": (),
        "error_message": result.error_message,
    }


API: Final = Api(
    key=0,
    name="Produce",
    least=3,
    most=11,
    serve=serve,
    may_follow=True,
    most_bytes=DEFAULT_LIMITS.frame_bytes,
)
