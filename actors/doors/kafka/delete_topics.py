"""DeleteTopics: delete these, by their names or since version 6 by their ids.

Rule: only the controller's broker does it. Since version 6 topics are answered with their ids.
"""

from typing import Any, Final

from actors.doors.kafka.call import Api, Call
from actors.doors.kafka.shapes import milliseconds, topic_id_of
from wire.admin import DeleteTopics, DeleteTopicsResponse
from wire.errors import ErrorCode
from wire.ids import TopicId
from wire.message import TopicResult

_BY_ID: Final = 6  # version
_TELLS_DISABLED: Final = 3  # version: before it clients did not know of that error


def serve(call: Call) -> None:
    """Each topic by itself."""
    names, ids, unknown = _named(call)
    wanted = DeleteTopics(
        topics=tuple(dict.fromkeys(names)), timeout_ms=milliseconds(call.request.timeout)
    )
    call.ask(wanted, lambda response: _answer(call, response, ids, unknown))


def _named(call: Call) -> tuple[list[str], dict[str, TopicId], list[TopicId]]:
    """All names, the ids of those that are there, and the ids that nobody has."""
    if call.version < _BY_ID:
        return list(call.request.topic_names), {}, []
    names: list[str] = []
    ids: dict[str, TopicId] = {}
    unknown: list[TopicId] = []
    for topic in call.request.topics:
        topic_id = topic_id_of(topic.topic_id)
        name = topic.name if topic_id is None else call.cluster.topic_names.get(topic_id)
        if name is None and topic_id is not None:
            unknown.append(topic_id)
            continue
        names.append(name or "")
        known = topic_id or call.cluster.topic_ids.get(name or "")
        if known is not None:
            ids[name or ""] = known
    return names, ids, unknown


def _answer(
    call: Call, response: DeleteTopicsResponse, ids: dict[str, TopicId], unknown: list[TopicId]
) -> None:
    named = [_result(call.version, each, ids.get(each.topic)) for each in response.topics]
    unnamed = [
        {"name": None, "topic_id": each, "error_code": ErrorCode.UNKNOWN_TOPIC_ID}
        for each in unknown
    ]
    call.answer(responses=[*named, *unnamed])


def _result(version: int, result: TopicResult, topic_id: TopicId | None) -> dict[str, Any]:
    error = result.error_code
    if error is ErrorCode.TOPIC_DELETION_DISABLED and version < _TELLS_DISABLED:
        error = ErrorCode.INVALID_REQUEST
    return {
        "name": result.topic,
        "topic_id": topic_id,
        "error_code": error,
        "error_message": result.error_message,
    }


API: Final = Api(key=20, name="DeleteTopics", least=1, most=6, serve=serve)
