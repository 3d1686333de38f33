"""A message whose records lie beside it.

Rule: on its way within a process a message's records are not copied if they are bytes, which nobody
can change: they are handed over where they lie. All else of it is packed and checked as ever. What
leaves the process is whole: the same bytes as `encode` makes.
"""

from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from wire.codec import MAX_MESSAGE_BYTES, AnyMessage, AnyMessageType, decode, encode
from wire.data import FetchResponse, Produce
from wire.errors import MalformedMessage
from wire.message import Message

WORTH_SPARING: Final = 32 * 1024  # bytes a partition: fewer are copied faster than parted
_NOTHING: Final = memoryview(b"")


class Parted(Struct, frozen=True):
    """A message without its records, and these."""

    head: bytes
    records: tuple[memoryview | None, ...]  # one a partition
    nbytes: int

    def __len__(self) -> int:
        return self.nbytes


Payload: TypeAlias = memoryview | Parted


def pack(message: Message) -> bytes | Parted:
    """The message for the way: whole, or its records beside it if they are many."""
    if not isinstance(message, Produce | FetchResponse):
        return encode(message)
    records = [each.records for each in message.partitions]
    size = 0
    for each in records:
        if each is not None:
            if not isinstance(each.obj, bytes):
                return encode(message)  # its owner could still change it
            size += each.nbytes
    if size < WORTH_SPARING * max(1, len(records)):
        return encode(message)
    bare = tuple(replace(each, records=_NOTHING) for each in message.partitions)
    head = encode(replace(message, partitions=bare))
    return Parted(head, tuple(records), len(head) + size)


def unpack(payload: bytes | Payload) -> AnyMessage:
    """The message; as `decode`, MalformedMessage if it is none."""
    if not isinstance(payload, Parted):
        return decode(payload)
    if payload.nbytes > MAX_MESSAGE_BYTES:
        raise MalformedMessage(f"a message of {payload.nbytes} bytes is over the limit")
    message = decode(payload.head)
    assert isinstance(message, Produce | FetchResponse), "only these are parted"
    pairs = zip(message.partitions, payload.records, strict=True)
    partitions = tuple(replace(each, records=records) for each, records in pairs)
    return replace(message, partitions=partitions)


def unpack_as(expected: type[AnyMessageType], payload: bytes | Payload) -> AnyMessageType:
    """As `unpack`, for one who knows what must come: any other message is malformed."""
    message = unpack(payload)
    if not isinstance(message, expected):
        raise MalformedMessage(f"{expected.__name__} was due, not {type(message).__name__}")
    return message


def whole(payload: Payload) -> memoryview:
    """The message's own bytes, to leave the process."""
    return memoryview(encode(unpack(payload))) if isinstance(payload, Parted) else payload
