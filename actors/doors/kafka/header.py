"""What stands before every request: which API, which version, which request, whose.

Rule: read by hand, because each request has it. What follows is not looked at here.
"""

import struct
from typing import Final

from msgspec import Struct

from wire.errors import MalformedMessage

_FIXED: Final = struct.Struct(">hhih")  # API key, version, correlation id, length of the client id
CORRELATION: Final = struct.Struct(">i")
NO_TAGS: Final = b"\0"
_SHIFT_LIMIT: Final = 28


class Header(Struct, frozen=True, gc=False):
    """A request's header, as far as all versions have it."""

    api_key: int
    version: int
    correlation: int
    client_id: str | None
    end: int  # where tagged fields begin, or the request


def read_header(frame: memoryview) -> Header:
    """The header of a request, without its tagged fields."""
    if len(frame) < _FIXED.size:
        raise MalformedMessage(f"a request of {len(frame)} bytes")
    api_key, version, correlation, length = _FIXED.unpack_from(frame)
    end = _FIXED.size + max(length, 0)
    if length < -1 or end > len(frame):
        raise MalformedMessage(f"a client id of {length} bytes")
    client_id = None
    if length >= 0:
        try:
            client_id = str(frame[_FIXED.size : end], "utf-8")
        except UnicodeDecodeError as error:
            raise MalformedMessage(f"a client id that is no text: {error}") from error
    return Header(api_key, version, correlation, client_id, end)


def skip_tags(frame: memoryview, position: int) -> int:
    """Past the tagged fields that begin there; none is known yet."""
    count, position = _varint(frame, position)
    for _ in range(count):
        _, position = _varint(frame, position)
        size, position = _varint(frame, position)
        position += size
        if position > len(frame):
            raise MalformedMessage(f"a tagged field of {size} bytes")
    return position


def _varint(frame: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while shift <= _SHIFT_LIMIT:
        if position >= len(frame):
            break
        byte = frame[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the bit that says that more follows
            return value, position
        shift += 7
    raise MalformedMessage("tagged fields that do not end")
