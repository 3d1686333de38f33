"""The footer of a Parquet file, as far as it matters here: columns, rows, and whose schema.

Rule: it is Thrift's compact protocol, read up to the number of rows; what makes no sense there is a
BrokenFooter, and never another exception.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

VERSION: Final = re.compile(rb"understudy\.schema\x18.(\d{1,9})", re.DOTALL)  # a pair of texts
STOP, TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(13)
COLUMNS: Final = 2  # fields of FileMetaData, by their numbers
ROWS: Final = 3
NAME: Final = 4  # fields of a SchemaElement
CHILDREN: Final = 5
LONG_LIST: Final = 15  # a list so long has its length behind its head
DEEPEST: Final = 16
LONGEST_NUMBER: Final = 70  # bits of a number that has no end


class BrokenFooter(Exception):
    """Bytes that are no footer."""


class Shape(NamedTuple):
    """A file's table."""

    columns: frozenset[str]
    rows: int


def shape_of(footer: bytes) -> Shape:
    """Which columns the file has, and how many rows."""
    try:
        return _Reader(footer).shape()
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

    def shape(self) -> Shape:
        columns: frozenset[str] = frozenset()
        for field, kind in self._fields():
            if field == ROWS and kind == I64:
                return Shape(columns, self._signed())
            if field == COLUMNS and kind == LIST:
                columns = frozenset(self._leaves())
            else:
                self._skip(kind, 0)
        raise BrokenFooter("its footer does not say how many rows there are")

    def _fields(self) -> Iterator[tuple[int, int]]:
        """The numbers and types of a struct's fields; whoever is told of one reads its value."""
        field = 0
        while (head := self._byte()) != STOP:
            field = field + (head >> 4) if head >> 4 else self._signed()
            yield field, head & 15

    def _leaves(self) -> Iterator[str]:
        """The names of columns: elements of the schema that have no elements below them."""
        for _ in range(self._length()):
            name, is_leaf = b"", True
            for field, kind in self._fields():
                if field == NAME and kind == BINARY:
                    length = self._number()
                    name = self._data[self._at : self._at + length]
                    self._at += length
                else:
                    is_leaf = is_leaf and field != CHILDREN
                    self._skip(kind, 0)
            if is_leaf:
                yield name.decode(errors="replace")

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
            for _, inner in self._fields():
                self._skip(inner, depth + 1)
        elif kind not in (TRUE, FALSE):
            raise BrokenFooter("its footer makes no sense")

    def _skip_list(self, depth: int) -> None:
        kind = self._data[self._at] & 15
        for _ in range(self._length()):
            if self._at >= len(self._data):
                raise BrokenFooter("its footer ends too early")
            self._skip(kind, depth + 1)

    def _length(self) -> int:
        """Of a list."""
        head = self._byte()
        return head >> 4 if head >> 4 < LONG_LIST else self._number()
