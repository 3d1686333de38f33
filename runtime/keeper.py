"""What is said to ZooKeeper and heard from it, whoever plays it.

Rule: a keeper is one session. A request that loses its connection is sent again once there is one
(as Kafka's own client does, B021), so a write may have been applied before it is refused: whoever
writes on a condition must ask "was that me?". A lost session is never mended behind one's back:
all requests fail with KeeperSessionLost until `renew`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, NamedTuple, Protocol

from runtime.ref import Receiver

ANY_VERSION: Final = -1
MAX_BATCH_OPERATIONS: Final = 1_000
MAX_BATCH_BYTES: Final = 512 * 1024  # half of jute.maxbuffer's 1 MB
MAX_DATA_BYTES: Final = 1_000_000  # what a server takes in one znode, less what surrounds it


class Stat(NamedTuple):
    """ZooKeeper's own record of a znode."""

    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    cversion: int
    aversion: int
    ephemeral_owner: int
    data_length: int
    num_children: int
    pzxid: int


class ZNode(NamedTuple):
    """A znode as it was read."""

    data: bytes
    stat: Stat


# --- operations ----------------------------------------------------------------------------------


class Create(NamedTuple):
    """Make a znode; a sequential one gets ten digits after its name."""

    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequential: bool = False


class Set(NamedTuple):
    """Replace a znode's data if its version is the one expected."""

    path: str
    data: bytes
    version: int = ANY_VERSION


class Delete(NamedTuple):
    """Remove a childless znode if its version is the one expected."""

    path: str
    version: int = ANY_VERSION


class Check(NamedTuple):
    """Change nothing; fail unless the version is the one expected."""

    path: str
    version: int


Operation = Create | Set | Delete | Check


class Written(NamedTuple):
    """What a write did: the path (with its sequence), and the stat that create and set answer."""

    path: str
    stat: Stat | None


# --- errors --------------------------------------------------------------------------------------


class KeeperError(Exception):
    """ZooKeeper would not, or could not.

    KeeperError
    ├── NoNode                    the path, or the parent of a new one, is not there
    ├── NodeExists
    ├── BadVersion
    ├── NotEmpty                  a znode with children is not deleted
    ├── NoChildrenForEphemerals
    ├── BadArguments              a path no znode can have, or data over the limit
    ├── RolledBack                nothing wrong with this operation; another of its multi failed
    ├── CheckFailed               the check in front of a bulk write: somebody else has moved on
    ├── KeeperUnreachable         no server answered in time
    └── KeeperSessionLost         expired or closed: resign, stand again
    """

    def __init__(self, path: str = "", detail: str = "") -> None:
        super().__init__(path, detail)
        self.path = path
        self.detail = detail

    def __str__(self) -> str:
        words = [type(self).__name__, self.path, self.detail]
        return " ".join(word for word in words if word)


class NoNode(KeeperError):
    """The path, or the parent of a new one, is not there."""


class NodeExists(KeeperError):
    """There is a znode at that path already."""


class BadVersion(KeeperError):
    """The znode has another version than the one expected."""


class NotEmpty(KeeperError):
    """A znode with children is not deleted."""


class NoChildrenForEphemerals(KeeperError):
    """An ephemeral znode cannot have children."""


class BadArguments(KeeperError):
    """A path that no znode can have, or data over the limit."""


class RolledBack(KeeperError):
    """Nothing was wrong with this operation; another one of its multi failed."""


class CheckFailed(KeeperError):
    """The check in front of a bulk write did not hold: nothing after it was written."""


class KeeperUnreachable(KeeperError):
    """No server answered in time."""


class KeeperSessionLost(KeeperError):
    """The session has expired or was closed."""


class MultiFailed(KeeperError):
    """A multi changed nothing, because of its operation number `index`."""

    def __init__(self, index: int, error: KeeperError) -> None:
        super().__init__(error.path, f"operation {index}: {type(error).__name__}")
        self.index = index
        self.error = error


# --- events --------------------------------------------------------------------------------------


class SessionState(Enum):
    """What a session is, in the order of a life."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"  # the connection is gone, the session perhaps not
    EXPIRED = "expired"
    CLOSED = "closed"


@dataclass(frozen=True)
class SessionEvent:
    """A session has changed its state. `session` counts a node's sessions from 1."""

    state: SessionState
    session: int


class Change(Enum):
    """What a watch can see."""

    CREATED = "created"
    DELETED = "deleted"
    CHANGED = "changed"
    CHILDREN = "children"


@dataclass(frozen=True)
class WatchEvent:
    """A one-shot watch has fired; read again to see what is there now, and to watch again."""

    change: Change
    path: str
    session: int  # an event of a session that is gone tells nothing about the present one


# --- the protocol --------------------------------------------------------------------------------


class Keeper(Protocol):
    """One ZooKeeper session, and the next one after it."""

    @property
    def session(self) -> int:
        """How many sessions this keeper has had, the present one included."""

    @property
    def session_id(self) -> int:
        """The server's id of the present session: `ephemeral_owner` of what it creates."""

    @property
    def previous_session_id(self) -> int:
        """The id of the session before, 0 if there was none (B020)."""

    @property
    def state(self) -> SessionState:
        """The present session's state."""

    def listen(self, receiver: Receiver) -> None:
        """Tell the receiver each SessionEvent from now on."""

    async def start(self) -> None:
        """Open the first session, or raise KeeperUnreachable."""

    async def renew(self) -> None:
        """Open another session after one was lost."""

    async def close(self) -> None:
        """End the session: its ephemeral znodes go at once."""

    def abandon(self) -> None:
        """Fall silent, as a killed process does: ephemeral znodes stay until the time-out."""

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> Written:
        """Make a znode."""

    async def get(self, path: str, *, watch: Receiver | None = None) -> ZNode:
        """Read a znode; the watch is set only if there is one."""

    async def exists(self, path: str, *, watch: Receiver | None = None) -> Stat | None:
        """The stat, or None; the watch is set either way."""

    async def children(self, path: str, *, watch: Receiver | None = None) -> tuple[str, ...]:
        """The names below a path, sorted."""

    async def set(self, path: str, data: bytes, *, version: int = ANY_VERSION) -> Stat:
        """Replace a znode's data."""

    async def delete(self, path: str, *, version: int = ANY_VERSION) -> None:
        """Remove a znode."""

    async def multi(self, operations: Sequence[Operation]) -> list[Written]:
        """All of it or, with MultiFailed, nothing of it."""

    async def read(self, paths: Sequence[str]) -> list[ZNode | KeeperError]:
        """Many znodes, in the order of the paths; a missing one is a NoNode in the list."""

    async def read_watched(
        self, paths: Sequence[str], watch: Receiver
    ) -> list[ZNode | KeeperError]:
        """As `read`, with a watch on each znode that is there."""

    async def write(
        self, operations: Sequence[Operation], *, check: Check | None = None
    ) -> list[Written | KeeperError]:
        """Many writes, in order, each with a result of its own.

        They go in batches that each begin with the check. When it fails, CheckFailed is raised,
        and neither that batch nor a later one was written.
        """


_PATH: Final = re.compile(r"/|(?:/(?!\.{1,2}(?:/|\Z))[^/\x00-\x1f\x7f-\x9f]+)+")


def check_path(path: str) -> str:
    """The path, if a znode can have it."""
    if _PATH.fullmatch(path) is None:
        shown = path.encode("unicode_escape").decode()
        raise BadArguments(shown, "is not '/' and names between single slashes")
    return path


def check_operation(operation: Operation) -> None:
    """Refuse what no server would take, before anything is sent."""
    check_path(operation.path)
    if isinstance(operation, Create | Set) and len(operation.data) > MAX_DATA_BYTES:
        size = len(operation.data)
        raise BadArguments(operation.path, f"has {size} bytes, more than {MAX_DATA_BYTES}")


def batches(operations: Sequence[Any], size_of: Any) -> list[Sequence[Any]]:
    """Cut a list so that no part is longer or larger than a server likes."""
    parts: list[Sequence[Any]] = []
    begin = size = 0
    for index, operation in enumerate(operations):
        more = size_of(operation)
        too_long = index - begin >= MAX_BATCH_OPERATIONS or size + more > MAX_BATCH_BYTES
        if too_long and index > begin:
            parts.append(operations[begin:index])
            begin, size = index, 0
        size += more
    if begin < len(operations):
        parts.append(operations[begin:])
    return parts
