"""DescribeTransactions: what state transactional ids are in.

Rule: each is answered by itself, by its coordinator only.
"""

from typing import Any, Final

from actors.doors.kafka.call import Api, Call
from wire.ids import TopicPartition
from wire.transactions import (
    DescribedTransaction,
    DescribeTransactions,
    DescribeTransactionsResponse,
)


def serve(call: Call) -> None:
    """Ask the coordinator."""
    wanted = DescribeTransactions(transactional_ids=tuple(call.request.transactional_ids))
    call.ask(wanted, lambda response: _answer(call, response))


def _answer(call: Call, response: DescribeTransactionsResponse) -> None:
    call.answer(transaction_states=list(map(_state, response.transactions)))


def _state(each: DescribedTransaction) -> dict[str, Any]:
    return {
        "error_code": each.error_code,
        "transactional_id": each.transactional_id,
        "transaction_state": each.state,
        "transaction_timeout": each.timeout_ms,
        "transaction_start_time": max(0, each.start_ms),  # kio has no moment before 1970
        "producer_id": each.producer_id,
        "producer_epoch": each.producer_epoch,
        "topics": _topics(each.partitions),
    }


def _topics(partitions: tuple[TopicPartition, ...]) -> list[dict[str, Any]]:
    numbers: dict[str, list[int]] = {}
    for each in partitions:
        numbers.setdefault(each.topic, []).append(each.partition)
    return [{"topic": topic, "partitions": each} for topic, each in numbers.items()]


API: Final = Api(key=65, name="DescribeTransactions", least=0, most=0, serve=serve)
