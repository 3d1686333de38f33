"""CreatePartitions: give these topics more partitions.

Rule: only the controller's broker does it.
"""

from typing import Any, Final

from actors.doors.kafka.call import Api, Call
from actors.doors.kafka.shapes import milliseconds
from wire.admin import CreatePartitions, CreatePartitionsResponse, NewPartitions


def serve(call: Call) -> None:
    """Each topic by itself."""
    request = call.request
    wanted = CreatePartitions(
        topics=tuple(map(_wanted, request.topics)),
        timeout_ms=milliseconds(request.timeout),
        validate_only=request.validate_only,
    )
    call.ask(wanted, lambda response: _answer(call, response))


def _wanted(topic: Any) -> NewPartitions:
    assignments = None
    if topic.assignments is not None:
        assignments = tuple(tuple(each.broker_ids) for each in topic.assignments)
    return NewPartitions(topic=topic.name, count=topic.count, assignments=assignments)


def _answer(call: Call, response: CreatePartitionsResponse) -> None:
    call.answer(
        results=[
            {
                "name": each.topic,
                "error_code": each.error_code,
                "error_message": each.error_message,
            }
            for each in response.topics
        ]
    )


API: Final = Api(key=37, name="CreatePartitions", least=0, most=3, serve=serve)
