"""OffsetFetch: how far had we read?

Rule: since version 8 several groups may be asked about, each answered by itself. No topics at all,
since version 2, means all that the group has committed.
"""

from collections.abc import Sequence
from typing import Any, Final

from actors.doors.kafka.call import Api, Call
from actors.doors.kafka.gathering import ask_each
from actors.doors.kafka.shapes import by_topic
from wire.errors import ErrorCode
from wire.groups import OffsetFetch, OffsetFetchResponse, OffsetFetchResult
from wire.ids import TopicPartition

_HAS_ERROR: Final = 2  # version: before it only partitions have an error
_SEVERAL: Final = 8
_MOST_BYTES: Final = 1 << 20  # each group becomes a request of our own


def serve(call: Call) -> None:
    """A group or more."""
    request = call.request
    groups = request.groups if call.version >= _SEVERAL else (request,)
    is_stable = getattr(request, "require_stable", False)
    wanted = [_wanted(each, is_stable) for each in groups]
    ask_each(call, wanted, lambda found: _answer(call, wanted, found))


def _wanted(group: Any, require_stable: bool) -> OffsetFetch:
    partitions = None
    if group.topics is not None:
        partitions = tuple(
            TopicPartition(topic.name, each)
            for topic in group.topics
            for each in topic.partition_indexes
        )
    return OffsetFetch(
        group_id=group.group_id, partitions=partitions, require_stable=require_stable
    )


def _answer(
    call: Call, wanted: Sequence[OffsetFetch], found: Sequence[OffsetFetchResponse]
) -> None:
    if call.version >= _SEVERAL:
        call.answer(
            groups=[
                {
                    "group_id": each.group_id,
                    "topics": _topics(result.partitions),
                    "error_code": result.error_code,
                }
                for each, result in zip(wanted, found, strict=True)
            ]
        )
        return
    (request,), (result,) = wanted, found
    results, code = result.partitions, result.error_code
    if code is not ErrorCode.NONE and call.version < _HAS_ERROR:
        asked = request.partitions or ()
        results = tuple(OffsetFetchResult(partition=each, error_code=code) for each in asked)
    call.answer(topics=_topics(results), error_code=code)


def _topics(results: Sequence[OffsetFetchResult]) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "partitions": [
                {
                    "partition_index": each.partition.partition,
                    "committed_offset": each.committed_offset,
                    "committed_leader_epoch": each.committed_leader_epoch,
                    "metadata": each.metadata,
                    "error_code": each.error_code,
                }
                for each in of_topic
            ],
        }
        for name, of_topic in by_topic(results)
    ]


API: Final = Api(key=9, name="OffsetFetch", least=1, most=9, serve=serve, most_bytes=_MOST_BYTES)
