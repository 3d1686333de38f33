"""AddPartitionsToTxn: a producer is about to write to these.

Rule: all of them are added, or none. Versions 4 and later are for brokers among themselves.
"""

from typing import Final

from actors.doors.kafka.call import Api, Call
from actors.doors.kafka.fencing import fenced_as
from actors.doors.kafka.shapes import by_topic
from wire.ids import TopicPartition
from wire.transactions import AddPartitionsToTxn, AddPartitionsToTxnResponse

_FENCED_SINCE: Final = 2


def serve(call: Call) -> None:
    """Ask the coordinator."""
    request = call.request
    wanted = AddPartitionsToTxn(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        partitions=tuple(
            TopicPartition(topic.name, each)
            for topic in request.v3_and_below_topics
            for each in topic.partitions
        ),
    )
    call.ask(wanted, lambda response: _answer(call, response))


def _answer(call: Call, response: AddPartitionsToTxnResponse) -> None:
    call.answer(
        results_by_topic_v3_and_below=[
            {
                "name": name,
                "results_by_partition": [
                    {
                        "partition_index": each.partition.partition,
                        "partition_error_code": fenced_as(
                            each.error_code, call.version, since=_FENCED_SINCE
                        ),
                    }
                    for each in results
                ],
            }
            for name, results in by_topic(response.partitions)
        ]
    )


API: Final = Api(key=24, name="AddPartitionsToTxn", least=0, most=3, serve=serve)
