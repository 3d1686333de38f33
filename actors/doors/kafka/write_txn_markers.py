"""WriteTxnMarkers: transactions have ended.

Rule: for brokers among themselves, and for whoever ends a transaction by hand that nobody ends.
"""

from typing import Final

from actors.doors.kafka.call import Api, Call
from actors.doors.kafka.shapes import by_topic
from wire.ids import TopicPartition
from wire.transactions import TxnMarker, WriteTxnMarkers, WriteTxnMarkersResponse


def serve(call: Call) -> None:
    """Write them here, where this broker leads."""
    wanted = WriteTxnMarkers(
        markers=tuple(
            TxnMarker(
                producer_id=each.producer_id,
                producer_epoch=each.producer_epoch,
                is_committed=each.transaction_result,
                coordinator_epoch=each.coordinator_epoch,
                partitions=tuple(
                    TopicPartition(topic.name, number)
                    for topic in each.topics
                    for number in topic.partition_indexes
                ),
            )
            for each in call.request.markers
        )
    )
    call.ask(wanted, lambda response: _answer(call, response))


def _answer(call: Call, response: WriteTxnMarkersResponse) -> None:
    call.answer(
        markers=[
            {
                "producer_id": marker.producer_id,
                "topics": [
                    {
                        "name": name,
                        "partitions": [
                            {
                                "partition_index": each.partition.partition,
                                "error_code": each.error_code,
                            }
                            for each in results
                        ],
                    }
                    for name, results in by_topic(marker.partitions)
                ],
            }
            for marker in response.markers
        ]
    )


API: Final = Api(key=27, name="WriteTxnMarkers", least=1, most=1, serve=serve)
