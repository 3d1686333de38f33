"""ElectLeaders: elect leaders for these partitions.

Rule: only the controller's broker does it. Version 0 knows preferred leaders only.
"""

from typing import Final

from actors.doors.kafka.call import Api, Call
from actors.doors.kafka.shapes import by_topic, milliseconds
from wire.admin import ElectionType, ElectLeaders, ElectLeadersResponse
from wire.errors import ErrorCode
from wire.ids import TopicPartition

_KINDS: Final = frozenset(map(int, ElectionType))


def serve(call: Call) -> None:
    """All partitions, or these."""
    request = call.request
    kind = getattr(request, "election_type", 0)
    if kind not in _KINDS:
        call.answer(error_code=ErrorCode.INVALID_REQUEST, replica_election_results=())
        return
    partitions = None
    if request.topic_partitions is not None:
        partitions = tuple(
            TopicPartition(topic.topic, number)
            for topic in request.topic_partitions
            for number in topic.partitions
        )
    wanted = ElectLeaders(
        election_type=ElectionType(kind),
        partitions=partitions,
        timeout_ms=milliseconds(request.timeout),
    )
    call.ask(wanted, lambda response: _answer(call, response))


def _answer(call: Call, response: ElectLeadersResponse) -> None:
    call.answer(
        error_code=response.error_code,
        replica_election_results=[
            {
                "topic": topic,
                "partition_result": [
                    {
                        "partition_id": each.partition.partition,
                        "error_code": each.error_code,
                        "error_message": each.error_message,
                    }
                    for each in results
                ],
            }
            for topic, results in by_topic(response.partitions)
        ],
    )


API: Final = Api(key=43, name="ElectLeaders", least=0, most=2, serve=serve)
