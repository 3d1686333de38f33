"""ListTransactions: which transactional ids this broker coordinates.

Rule: a state that nobody knows is told back, and filters nothing in.
"""

from typing import Final

from actors.coordinator.transaction_states import TransactionState
from actors.doors.kafka.call import Api, Call
from wire.transactions import ListTransactions, ListTransactionsResponse

_STATES: Final = frozenset(each.words for each in TransactionState)


def serve(call: Call) -> None:
    """Ask this broker's coordinator."""
    request = call.request
    wanted = ListTransactions(
        states=tuple(request.state_filters), producer_ids=tuple(request.producer_id_filters)
    )
    call.ask(wanted, lambda response: _answer(call, response))


def _answer(call: Call, response: ListTransactionsResponse) -> None:
    call.answer(
        error_code=response.error_code,
        unknown_state_filters=[e for e in call.request.state_filters if e not in _STATES],
        transaction_states=[
            {
                "transactional_id": each.transactional_id,
                "producer_id": each.producer_id,
                "transaction_state": each.state,
            }
            for each in response.transactions
        ],
    )


API: Final = Api(key=66, name="ListTransactions", least=0, most=0, serve=serve)
