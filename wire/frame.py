"""The envelope in which messages travel between nodes.

Rule: a frame is one msgpack array; its payload is a message's own bytes, which nobody on the way
reads or packs again.
"""

from enum import IntEnum
from typing import Annotated, Final

import msgspec

from wire.errors import MalformedMessage
from wire.parted import Payload, whole

MAX_FRAME_BYTES: Final = 101 * 1024 * 1024  # a message of the largest size, and its envelope
ENVELOPE_BYTES: Final = 4 * 1024  # more than all but the payload takes

# What comes from outside is written into traces: columns have 64 bits, and rows are short.
Number = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Address = Annotated[str, msgspec.Meta(max_length=255)]


class FrameKind(IntEnum):
    """What the receiver should do with a frame."""

    REQUEST = 0  # answer it
    RESPONSE = 1
    ONE_WAY = 2  # handle it, answer nothing (acks=0)
    REFUSED = 3  # instead of a response: the receiver did not take the request


ANSWERS: Final = frozenset({FrameKind.RESPONSE, FrameKind.REFUSED})


class Frame(msgspec.Struct, frozen=True):
    """One message under way."""

    kind: FrameKind
    correlation: Number  # pairs a response with its request; the requester's own number
    source: Address
    destination: Address
    cause: Number  # the trace id of what made the sender send it
    payload: Payload


class _Packed(msgspec.Struct, frozen=True, array_like=True):
    """The same as it leaves the process."""

    kind: FrameKind
    correlation: Number  # pairs a response with its request; the requester's own number
    source: Address
    destination: Address
    cause: Number  # the trace id of what made the sender send it
    payload: memoryview


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(_Packed)


def encode_frame(frame: Frame) -> bytes:
    """The frame as bytes for a socket."""
    packed = _Packed(
        frame.kind,
        frame.correlation,
        frame.source,
        frame.destination,
        frame.cause,
        whole(frame.payload),
    )
    return _ENCODER.encode(packed)


def decode_frame(data: bytes | memoryview, *, max_bytes: int = MAX_FRAME_BYTES) -> Frame:
    """The frame that `data` is; its payload is a view of `data`."""
    size = memoryview(data).nbytes
    if size > max_bytes:
        raise MalformedMessage(f"a frame of {size} bytes is over the limit of {max_bytes}")
    try:
        return _opened(_DECODER.decode(data))
    except (ValueError, RecursionError, MemoryError) as error:
        raise MalformedMessage(f"{size} bytes are not a frame: {error}") from error


def _opened(packed: _Packed) -> Frame:
    return Frame(
        packed.kind,
        packed.correlation,
        packed.source,
        packed.destination,
        packed.cause,
        packed.payload,
    )
