"""EndTxn: all of a transaction counts, or nothing.

Rule: answered when it is decided; the markers follow.
"""

from typing import Final

from actors.doors.kafka.call import Api, Call
from actors.doors.kafka.fencing import fenced_as
from wire.transactions import EndTxn, EndTxnResponse

_FENCED_SINCE: Final = 2


def serve(call: Call) -> None:
    """Ask the coordinator."""
    request = call.request
    wanted = EndTxn(
        transactional_id=request.transactional_id,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        is_committed=request.committed,
    )
    call.ask(wanted, lambda response: _answer(call, response))


def _answer(call: Call, response: EndTxnResponse) -> None:
    call.answer(error_code=fenced_as(response.error_code, call.version, since=_FENCED_SINCE))


API: Final = Api(key=26, name="EndTxn", least=0, most=3, serve=serve)
