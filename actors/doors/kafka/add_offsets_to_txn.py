"""AddOffsetsToTxn: a producer is about to commit a group's offsets.

Rule: the group's partition of __consumer_offsets becomes part of the transaction.
"""

from typing import Final

from actors.doors.kafka.call import Api, Call
from actors.doors.kafka.fencing import fenced_as
from wire.transactions import AddOffsetsToTxn, AddOffsetsToTxnResponse

_FENCED_SINCE: Final = 2


def serve(call: Call) -> None:
    """Ask the coordinator."""
    request = call.request
    wanted = AddOffsetsToTxn(
        transactional_id=request.transactional_id,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        group_id=request.group_id,
    )
    call.ask(wanted, lambda response: _answer(call, response))


def _answer(call: Call, response: AddOffsetsToTxnResponse) -> None:
    call.answer(error_code=fenced_as(response.error_code, call.version, since=_FENCED_SINCE))


API: Final = Api(key=25, name="AddOffsetsToTxn", least=0, most=3, serve=serve)
