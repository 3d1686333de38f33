"""What can go wrong at a client's own end.

Rule: all that a broker answers is an exception of wire/errors.py; these are facts that only the
client knows, and each is a child of what Kafka would say. MalformedMessage is for answers that are
none.

    RequestTimedOut
    ├── DeliveryTimedOut      records were not acknowledged within delivery.timeout.ms
    └── BufferExhausted       no room for a record within max.block.ms
    OffsetOutOfRange
    ├── PositionOutOfRange    a position that the log does not have, and nothing says where to go
    └── NoOffsetForPartition  no position at all, and nothing says where to begin
    InvalidRequest
    ├── ClientClosed          it was closed
    └── NotAssigned           a consumer was asked about a partition that it does not read
"""

from runtime.network import CallTimedOut, NetworkError
from wire.errors import (
    ApiError,
    ErrorCode,
    InvalidRequest,
    OffsetOutOfRange,
    RequestTimedOut,
    exception_of,
)
from wire.ids import Offset, TopicPartition


class DeliveryTimedOut(RequestTimedOut):
    """Records were not acknowledged within delivery.timeout.ms; they may be in the log."""


class BufferExhausted(RequestTimedOut):
    """No room for a record within max.block.ms: brokers take less than is sent."""


class PositionOutOfRange(OffsetOutOfRange):
    """A consumer's position is outside the log, and auto.offset.reset is none."""

    def __init__(self, partition: TopicPartition, offset: Offset) -> None:
        super().__init__(
            f"{partition} has no offset {offset}, and auto.offset.reset is none: seek elsewhere"
        )
        self.partition = partition
        self.offset = offset


class NoOffsetForPartition(OffsetOutOfRange):
    """A consumer has no position, nothing is committed, and auto.offset.reset is none."""

    def __init__(self, partition: TopicPartition) -> None:
        super().__init__(
            f"{partition} has no committed offset, and auto.offset.reset is none: seek first"
        )
        self.partition = partition


class ClientClosed(InvalidRequest):
    """The client was closed."""


class NotAssigned(InvalidRequest):
    """A consumer was asked about a partition that it does not read."""


def may_pass(code: ErrorCode) -> bool:
    """Whether to try again: as Kafka's table says, or the broker has too much to do."""
    return code.is_retriable or code is ErrorCode.BROKER_NOT_AVAILABLE


def failure_of(error: NetworkError) -> ApiError:
    """A call without an answer, as a client's error: it may pass."""
    if isinstance(error, CallTimedOut):
        return RequestTimedOut(str(error))
    return exception_of(ErrorCode.NETWORK_EXCEPTION)(str(error))
