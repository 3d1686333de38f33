"""Fetch: what follows these offsets.

Rule: every fetch names all it wants: sessions are declined, which each version allows (KIP-227). A
caller is a consumer, whatever it says: replicas come by the brokers' own door.
"""

from typing import Any, Final

from actors.doors.kafka.call import Api, Call
from actors.doors.kafka.shapes import by_topic, milliseconds, topic_id_of
from wire.data import (
    NO_SESSION,
    Fetch,
    FetchPartition,
    FetchResponse,
    FetchResult,
    IsolationLevel,
)
from wire.errors import ErrorCode
from wire.ids import NO_BROKER, NO_LEADER_EPOCH, TopicId, TopicPartition
from wire.records import has_zstd

_WITH_ZSTD: Final = 10  # version
_BY_ID: Final = 13  # version: topics have ids instead of names
_FIRST_SESSION_EPOCH: Final = 1


def serve(call: Call) -> None:
    """Read, or wait for records."""
    request = call.request
    if getattr(request, "session_epoch", -1) >= _FIRST_SESSION_EPOCH:
        call.answer(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, responses=())
        return
    found, unknown = _wanted(call)
    fetch = Fetch(
        max_wait_ms=milliseconds(request.max_wait) if found else 0,
        min_bytes=request.min_bytes,
        max_bytes=getattr(request, "max_bytes", 2**31 - 1),
        isolation_level=IsolationLevel(request.isolation_level == 1),
        partitions=tuple(found),
    )
    call.ask(fetch, lambda response: _answer(call, response, found, unknown))


def _wanted(call: Call) -> tuple[list[FetchPartition], dict[TopicId, list[int]]]:
    """The partitions, and those of topics whose ids nobody has."""
    found: list[FetchPartition] = []
    unknown: dict[TopicId, list[int]] = {}
    for topic in call.request.topics:
        if call.version < _BY_ID:
            name = topic.topic
        else:
            topic_id = topic_id_of(topic.topic_id) or TopicId("")
            name = call.cluster.topic_names.get(topic_id)
            if name is None:
                unknown.setdefault(topic_id, []).extend(each.partition for each in topic.partitions)
                continue
        found.extend(_partition(name, each) for each in topic.partitions)
    return found, unknown


def _partition(topic: str, partition: Any) -> FetchPartition:
    return FetchPartition(
        partition=TopicPartition(topic, partition.partition),
        fetch_offset=partition.fetch_offset,
        max_bytes=partition.partition_max_bytes,
        current_leader_epoch=getattr(partition, "current_leader_epoch", NO_LEADER_EPOCH),
        last_fetched_epoch=getattr(partition, "last_fetched_epoch", NO_LEADER_EPOCH),
    )


def _answer(
    call: Call,
    response: FetchResponse,
    found: list[FetchPartition],
    unknown: dict[TopicId, list[int]],
) -> None:
    if call.refusal is not None:  # told for each partition, as errors of fetches mostly are
        results = [
            FetchResult(partition=each.partition, error_code=call.refusal.code) for each in found
        ]
        response = FetchResponse(partitions=tuple(results))
    topics = [
        {
            "topic": name,
            "topic_id": call.cluster.topic_ids.get(name),
            "partitions": [_result(call.version, each) for each in results],
        }
        for name, results in by_topic(response.partitions)
    ]
    topics += [
        {"topic_id": topic_id or None, "partitions": [_unknown(each) for each in partitions]}
        for topic_id, partitions in unknown.items()
    ]
    call.answer(error_code=response.error_code, session_id=NO_SESSION, responses=topics)


def _result(version: int, result: FetchResult) -> dict[str, Any]:
    if version < _WITH_ZSTD and result.records and has_zstd(result.records):
        code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        result = FetchResult(partition=result.partition, error_code=code)
    fields: dict[str, Any] = {
        "partition_index": result.partition.partition,
        "error_code": result.error_code,
        "high_watermark": result.high_watermark,
        "last_stable_offset": result.last_stable_offset,
        "log_start_offset": result.log_start_offset,
        "aborted_transactions": None
        if result.aborted_transactions is None
        else [
            {"producer_id": each.producer_id, "first_offset": each.first_offset}
            for each in result.aborted_transactions
        ],
        "preferred_read_replica": NO_BROKER,
        "records": result.records or b"",
    }
    diverging = result.diverging_epoch
    if diverging is not None:
        fields["diverging_epoch"] = {
            "epoch": diverging.leader_epoch,
            "end_offset": diverging.end_offset,
        }
    return fields


def _unknown(partition: int) -> dict[str, Any]:
    return {
        "partition_index": partition,
        "error_code": ErrorCode.UNKNOWN_TOPIC_ID,
        "high_watermark": -1,
        "aborted_transactions": None,
        "records": b"",
    }


API: Final = Api(key=1, name="Fetch", least=4, most=16, serve=serve)
