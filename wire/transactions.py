"""Producer ⇄ transaction coordinator, and coordinator → leader: who writes, and what of it counts.

Rule: a producer is fenced by its id and epoch in every one of these (KIP-98). What concerns a
transactional id is answered by the leader of its partition of __transaction_state; producers
without one may ask any broker who they are.
"""

from typing import TypeAlias

from wire.errors import ErrorCode
from wire.ids import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    Int32,
    ProducerEpoch,
    ProducerId,
)
from wire.message import Message, Request


class InitProducerIdResponse(Message, frozen=True, kw_only=True):
    """Who the producer is from now on."""

    error_code: ErrorCode = ErrorCode.NONE
    producer_id: ProducerId = NO_PRODUCER_ID
    producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH


class InitProducerId(Request[InitProducerIdResponse], frozen=True, kw_only=True):
    """Producer → any broker, or the coordinator of its transactional id: who am I?"""

    transactional_id: str | None = None
    transaction_timeout_ms: Int32 = 60_000
    producer_id: ProducerId = NO_PRODUCER_ID  # that it has: then only a new epoch is wanted
    producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH


TransactionRequest: TypeAlias = InitProducerId
TransactionResponse: TypeAlias = InitProducerIdResponse
