"""ZooKeeper's requests in bytes, as far as kazoo lacks them or packs them slowly.

Rule: pure functions of bytes; each class is a request in the form that kazoo's connection takes:
`type`, `serialize`, `deserialize`. Errors inside a multi are answered as values, not raised.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Any, ClassVar, Final

from runtime.keeper import (
    BadArguments,
    BadVersion,
    Check,
    Create,
    Delete,
    KeeperError,
    KeeperSessionLost,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    RolledBack,
    Set,
    Stat,
    Written,
    ZNode,
)

INT: Final = Struct("!i")
LONG: Final = Struct("!q")
HEADER: Final = Struct("!iBi")  # type, done, error: in front of each member of a multi
HEADER_AND_LENGTH: Final = Struct("!iBii")
STAT: Final = Struct("!qqqqiiiqiiq")

END: Final = HEADER.pack(-1, 1, -1)
OPEN_ACL: Final = b"".join(
    (INT.pack(1), INT.pack(31), INT.pack(5), b"world", INT.pack(6), b"anyone")
)

CREATE2, DELETE, EXISTS, GET, SET, CHECK = 15, 2, 3, 4, 5, 13
MULTI, MULTI_READ, SET_WATCHES = 14, 22, 101
EPHEMERAL, SEQUENTIAL = 1, 2

ERRORS: Final[dict[int, type[KeeperError]]] = {
    0: RolledBack,
    -2: RolledBack,  # "runtime inconsistency": a member after the one that failed
    -8: BadArguments,
    -101: NoNode,
    -103: BadVersion,
    -108: NoChildrenForEphemerals,
    -110: NodeExists,
    -111: NotEmpty,
    -112: KeeperSessionLost,
}


def error_of(code: int, path: str) -> KeeperError:
    """What a server's error code means here."""
    kind = ERRORS.get(code)
    return KeeperError(path, f"ZooKeeper error {code}") if kind is None else kind(path)


def _text(text: str) -> bytes:
    data = text.encode()
    return INT.pack(len(data)) + data


def _read_stat(buffer: bytes, offset: int) -> Stat:
    return Stat._make(STAT.unpack_from(buffer, offset))


class MultiRead:
    """Many getData in one request (opcode 22, ZooKeeper 3.6 and later)."""

    type: ClassVar[int] = MULTI_READ
    __slots__ = ("paths",)

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = paths

    def serialize(self) -> bytes:
        """A header and a getData body for each path, then the end."""
        parts: list[bytes] = []
        pack = HEADER_AND_LENGTH.pack
        for path in self.paths:
            data = path.encode()
            parts += (pack(GET, 0, -1, len(data)), data, b"\0")  # the zero byte: no watch
        parts.append(END)
        return b"".join(parts)

    def deserialize(self, buffer: bytes, offset: int) -> list[ZNode | KeeperError]:
        """A znode or an error for each path."""
        answers: list[ZNode | KeeperError] = []
        header, stat, make = HEADER_AND_LENGTH.unpack_from, STAT.unpack_from, Stat._make
        for path in self.paths:
            kind, _, _, length = header(buffer, offset)
            offset += HEADER_AND_LENGTH.size
            if kind == GET:
                end = offset + max(length, 0)
                answers.append(ZNode(buffer[offset:end], make(stat(buffer, end))))
                offset = end + STAT.size
            else:  # an error: `length` is its code
                answers.append(error_of(length, path))
        return answers


class Multi:
    """Many writes as one transaction."""

    type: ClassVar[int] = MULTI
    __slots__ = ("operations",)

    def __init__(self, operations: Sequence[Operation]) -> None:
        self.operations = operations

    def serialize(self) -> bytes:
        """A header and a body for each operation, then the end."""
        parts: list[bytes] = []
        for operation in self.operations:
            _write_operation(operation, parts)
        parts.append(END)
        return b"".join(parts)

    def deserialize(self, buffer: bytes, offset: int) -> list[Written | KeeperError]:
        """A result for each operation."""
        answers: list[Written | KeeperError] = []
        for operation in self.operations:
            kind, _, _ = HEADER.unpack_from(buffer, offset)
            offset += HEADER.size
            if kind == SET:
                answers.append(Written(operation.path, _read_stat(buffer, offset)))
                offset += STAT.size
            elif kind == CREATE2:
                (length,) = INT.unpack_from(buffer, offset)
                offset += INT.size
                path = buffer[offset : offset + length].decode()
                answers.append(Written(path, _read_stat(buffer, offset + length)))
                offset += length + STAT.size
            elif kind == -1:
                (code,) = INT.unpack_from(buffer, offset)
                offset += INT.size
                answers.append(error_of(code, operation.path))
            else:
                answers.append(Written(operation.path, None))
        return answers


def _write_operation(operation: Operation, parts: list[bytes]) -> None:
    data = operation.path.encode()
    pack = HEADER_AND_LENGTH.pack
    match operation:
        case Set():
            value = operation.data
            parts += (pack(SET, 0, -1, len(data)), data, INT.pack(len(value)), value)
            parts.append(INT.pack(operation.version))
        case Create():
            value = operation.data
            flags = EPHEMERAL * operation.ephemeral + SEQUENTIAL * operation.sequential
            parts += (pack(CREATE2, 0, -1, len(data)), data, INT.pack(len(value)), value)
            parts += (OPEN_ACL, INT.pack(flags))
        case Delete():
            parts += (pack(DELETE, 0, -1, len(data)), data, INT.pack(operation.version))
        case Check():
            parts += (pack(CHECK, 0, -1, len(data)), data, INT.pack(operation.version))


class SetWatches:
    """Set watches again after a reconnection; the server fires those that missed something."""

    type: ClassVar[int] = SET_WATCHES
    __slots__ = ("_lists", "_since")

    def __init__(
        self, since: int, data: Sequence[str], absent: Sequence[str], children: Sequence[str]
    ) -> None:
        self._since = since
        self._lists = (data, absent, children)

    def serialize(self) -> bytes:
        """The zxid last seen, then three lists of paths."""
        parts = [LONG.pack(self._since)]
        for paths in self._lists:
            parts.append(INT.pack(len(paths)))
            parts += (_text(path) for path in paths)
        return b"".join(parts)

    def deserialize(self, buffer: bytes, offset: int) -> Any:
        """Nothing is answered."""
        return None
