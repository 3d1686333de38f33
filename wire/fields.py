"""Fields in Kafka's format of old: of __consumer_offsets, and of the consumer protocol.

Rule: numbers are big-endian, strings and bytes have their length before them, -1 for None. What is
missing, or is none of what it should be, is an InvalidRecord.
"""

import struct
from typing import Final

from wire.errors import InvalidRecord

MAX_STRING_BYTES: Final = 2**15 - 1
INT16: Final = struct.Struct(">h")
INT32: Final = struct.Struct(">i")
INT64: Final = struct.Struct(">q")


def fits(text: str) -> bool:
    """Whether a string can be written."""
    return len(text) <= MAX_STRING_BYTES and len(text.encode()) <= MAX_STRING_BYTES


def string(text: str | None) -> bytes:
    """A string's bytes."""
    if text is None:
        return INT16.pack(-1)
    data = text.encode()
    assert len(data) <= MAX_STRING_BYTES, "whoever takes a string in asks whether it fits"
    return INT16.pack(len(data)) + data


def blob(data: bytes) -> bytes:
    """Bytes that only somebody else understands."""
    return INT32.pack(len(data)) + data


class Reader:
    """Field after field."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def number(self, kind: struct.Struct) -> int:
        """A number."""
        number: int = kind.unpack(self._take(kind.size))[0]
        return number

    def string(self) -> str:
        """A string that must be there."""
        text = self.nullable_string()
        if text is None:
            raise InvalidRecord("a string is None")
        return text

    def nullable_string(self) -> str | None:
        """A string or None."""
        length = self.number(INT16)
        if length == -1:
            return None
        try:
            return self._take(length).decode()
        except UnicodeDecodeError as error:
            raise InvalidRecord(f"a string that is none: {error}") from error

    def blob(self) -> bytes:
        """Bytes; None, which Kafka has for none, is no bytes."""
        length = self.number(INT32)
        return b"" if length == -1 else self._take(length)

    def count(self) -> int:
        """How many things follow, each of a byte at least."""
        count = self.number(INT32)
        if not 0 <= count <= len(self._data) - self._position:
            raise InvalidRecord(f"{count} things in {len(self._data) - self._position} bytes")
        return count

    def _take(self, length: int) -> bytes:
        end = self._position + length
        if length < 0 or end > len(self._data):
            raise InvalidRecord(f"{length} bytes wanted at {self._position} of {len(self._data)}")
        data = self._data[self._position : end]
        self._position = end
        return data
