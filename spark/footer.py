"""The footer of a Parquet file, as far as it matters here: how many rows, and whose schema.

Rule: it is Thrift's compact protocol, read up to the number of rows; what makes no sense there is a
BrokenFooter, and never another exception.
"""

import re
from typing import Final

VERSION: Final = re.compile(rb"understudy\.schema\x18.(\d{1,9})", re.DOTALL)  # a pair of texts
STOP, TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(13)
ROWS: Final = 3  # the field's number in FileMetaData
LONG_LIST: Final = 15  # a list so long has its length behind its head
DEEPEST: Final = 16
LONGEST_NUMBER: Final = 70  # bits of a number that has no end


class BrokenFooter(Exception):
    """Bytes that are no footer."""


def rows_of(footer: bytes) -> int:
    """How many rows the file has."""
    try:
        return _Reader(footer).rows()
    except IndexError:
        raise BrokenFooter("its footer ends too early") from None


def version_of(footer: bytes) -> int | None:
    """Which version of the events the recorder wrote, if one did."""
    said = VERSION.findall(footer)
    return int(said[-1]) if said else None


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def rows(self) -> int:
        field = 0
        while True:
            head = self._byte()
            if head == STOP:
                raise BrokenFooter("its footer does not say how many rows there are")
            field = field + (head >> 4) if head >> 4 else self._signed()
            if field == ROWS and head & 15 == I64:
                return self._signed()
            self._skip(head & 15, 0)

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _number(self) -> int:
        number = shift = 0
        while shift < LONGEST_NUMBER:
            byte = self._byte()
            number |= (byte & 127) << shift
            if byte < 128:  # noqa: PLR2004 - the highest bit says whether there is more
                return number
            shift += 7
        raise BrokenFooter("its footer has a number without an end")

    def _signed(self) -> int:
        number = self._number()
        return (number >> 1) ^ -(number & 1)

    def _skip(self, kind: int, depth: int) -> None:
        if depth > DEEPEST:
            raise BrokenFooter("its footer is nested too deep")
        if kind in (BYTE, DOUBLE):
            self._at += 1 if kind == BYTE else 8
        elif kind in (I16, I32, I64):
            self._number()
        elif kind == BINARY:
            length = self._number()  # reading it moves on, too
            self._at += length
        elif kind in (LIST, SET):
            self._skip_list(depth)
        elif kind == STRUCT:
            while (head := self._byte()) != STOP:
                if not head >> 4:
                    self._number()
                self._skip(head & 15, depth + 1)
        elif kind not in (TRUE, FALSE):
            raise BrokenFooter("its footer makes no sense")

    def _skip_list(self, depth: int) -> None:
        head = self._byte()
        count = head >> 4 if head >> 4 < LONG_LIST else self._number()
        for _ in range(count):
            if self._at >= len(self._data):
                raise BrokenFooter("its footer ends too early")
            self._skip(head & 15, depth + 1)
