"""A message to bytes, and bytes to a message.

Rule: whatever the bytes are, `decode` gives a message or raises MalformedMessage, nothing else.
Fields that a newer sender appends are skipped; fields at the end that an older one does not know
have their defaults.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias, TypeVar, get_args

import msgspec

from wire.admin import AdminRequest, AdminResponse
from wire.configs import ConfigRequest, ConfigResponse
from wire.control import ControlRequest, ControlResponse
from wire.data import DataRequest, DataResponse
from wire.errors import MalformedMessage
from wire.groups import GroupRequest, GroupResponse
from wire.message import Message, Request
from wire.metadata import ClusterRequest, ClusterResponse
from wire.observation import ObservationRequest, ObservationResponse
from wire.transactions import TransactionRequest, TransactionResponse

MAX_MESSAGE_BYTES: Final = 100 * 1024 * 1024  # as Kafka's socket.request.max.bytes

AnyRequest: TypeAlias = (
    ControlRequest
    | DataRequest
    | ClusterRequest
    | GroupRequest
    | AdminRequest
    | ConfigRequest
    | ObservationRequest
    | TransactionRequest
)
AnyResponse: TypeAlias = (
    ControlResponse
    | DataResponse
    | ClusterResponse
    | GroupResponse
    | AdminResponse
    | ConfigResponse
    | ObservationResponse
    | TransactionResponse
)
AnyMessage: TypeAlias = AnyRequest | AnyResponse

AnyMessageType = TypeVar("AnyMessageType", bound=Message)

# Request[R] is the one place that says which response belongs to a request; this only reads it.
RESPONSE_OF: Final[Mapping[type[Request[Any]], type[Message]]] = {
    request: get_args(request.__orig_bases__[0])[0] for request in get_args(AnyRequest)
}

_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(AnyMessage)


def encode(message: Message) -> bytes:
    """The message as one msgpack array."""
    return _ENCODER.encode(message)


def decode(data: bytes | memoryview, *, max_bytes: int = MAX_MESSAGE_BYTES) -> AnyMessage:
    """The message that `data` is, from the first byte to the last.

    Record batches in it are views of `data`, which must not change as long as they are in use.
    """
    size = memoryview(data).nbytes
    if size > max_bytes:
        raise MalformedMessage(f"a message of {size} bytes is over the limit of {max_bytes}")
    try:
        message: AnyMessage = _DECODER.decode(data)
    # ValueError: msgspec's own, and UnicodeDecodeError. RecursionError: fields to be skipped may be
    # nested without end. MemoryError: objects take many times the bytes of a frame.
    except (ValueError, RecursionError, MemoryError) as error:
        raise MalformedMessage(f"{size} bytes are not a message: {error}") from error
    return message


def decode_as(
    expected: type[AnyMessageType], data: bytes | memoryview, *, max_bytes: int = MAX_MESSAGE_BYTES
) -> AnyMessageType:
    """As `decode`, for one who knows what must come: any other message is malformed."""
    message = decode(data, max_bytes=max_bytes)
    if not isinstance(message, expected):
        raise MalformedMessage(f"{expected.__name__} was due, not {type(message).__name__}")
    return message
