"""InitProducerId: who an idempotent or transactional producer is.

Rule: the answer is the coordinator's; since version 3 a producer may say who it was (KIP-360).
"""

from typing import Final

from actors.doors.kafka.call import Api, Call
from actors.doors.kafka.fencing import fenced_as
from actors.doors.kafka.shapes import milliseconds
from wire.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from wire.transactions import InitProducerId, InitProducerIdResponse

_FENCED_SINCE: Final = 4


def serve(call: Call) -> None:
    """Ask the coordinator."""
    request = call.request
    wanted = InitProducerId(
        transactional_id=request.transactional_id,
        transaction_timeout_ms=milliseconds(request.transaction_timeout),
        producer_id=getattr(request, "producer_id", NO_PRODUCER_ID),
        producer_epoch=getattr(request, "producer_epoch", NO_PRODUCER_EPOCH),
    )
    call.ask(wanted, lambda response: _answer(call, response))


def _answer(call: Call, response: InitProducerIdResponse) -> None:
    call.answer(
        error_code=fenced_as(response.error_code, call.version, since=_FENCED_SINCE),
        producer_id=response.producer_id,
        producer_epoch=response.producer_epoch,
    )


API: Final = Api(key=22, name="InitProducerId", least=0, most=4, serve=serve)
