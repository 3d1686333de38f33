"""Produce: append these.

Rule: batches pass as they are. With acks=0 nobody waits for an answer, so that an error can only be
told by the end of the connection, as Kafka does.
"""

from contextlib import suppress
from typing import Any, Final

from actors.doors.kafka.call import Api, Call
from actors.doors.kafka.produce_request import read_produce
from actors.doors.kafka.shapes import by_topic
from runtime.tcp_connection import DEFAULT_LIMITS
from wire.data import Produce, ProducePartition, ProduceResponse, ProduceResult
from wire.errors import CorruptRecordBatch, ErrorCode, UnsupportedCompressionType
from wire.records import has_zstd

_WITH_ZSTD: Final = 7  # version


def serve(call: Call) -> None:
    """Append, and answer when it is safe."""
    request = call.request
    produce = Produce(
        acks=request.acks,
        timeout_ms=request.timeout_ms,
        transactional_id=request.transactional_id,
        partitions=request.partitions,
    )
    if call.version < _WITH_ZSTD and any(map(_is_zstd, produce.partitions)):
        why = f"Produce {call.version} knows no zstd."
        call.refusal = UnsupportedCompressionType(why)
    acks, call.request = request.acks, None  # its records do not wait for the answer
    call.ask(produce, lambda response: _answer(call, response, acks))


def _is_zstd(partition: ProducePartition) -> bool:
    with suppress(CorruptRecordBatch):  # the log says what is wrong with it
        return has_zstd(partition.records)
    return False


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
    read=read_produce,
)
