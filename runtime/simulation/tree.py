"""ZooKeeper's tree of znodes: versions, sequences, ephemerals.

Rule: a transaction happens whole or not at all, and gets one zxid. What each operation changes is
listed, so that watches can be fired by whoever keeps them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from runtime.keeper import (
    ANY_VERSION,
    BadArguments,
    BadVersion,
    Change,
    Check,
    Create,
    Delete,
    KeeperError,
    MultiFailed,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    Set,
    Stat,
    Written,
    ZNode,
)

Changes = list[tuple[Change, str]]


@dataclass
class _Node:
    data: bytes
    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    pzxid: int
    ephemeral_owner: int = 0
    version: int = 0
    creates: int = 0  # of children, ever: the next sequence number
    children: set[str] = field(default_factory=set)

    def stat(self) -> Stat:
        # As DataNode.copyStat: clients see the count of changes, the server keeps that of creates.
        cversion = 2 * self.creates - len(self.children)
        return Stat(
            self.czxid,
            self.mzxid,
            self.ctime,
            self.mtime,
            self.version,
            cversion,
            0,
            self.ephemeral_owner,
            len(self.data),
            len(self.children),
            self.pzxid,
        )


class Tree:
    """Znodes by path."""

    def __init__(self) -> None:
        self.zxid = 0
        self._nodes = {"/": _Node(b"", 0, 0, 0, 0, 0)}
        # The server keeps a znode of its own, which clients can see.
        self._nodes["/zookeeper"] = _Node(b"", 0, 0, 0, 0, 0)
        self._nodes["/"].children.add("zookeeper")
        self._undo: list[Callable[[], None]] = []

    def get(self, path: str) -> ZNode:
        """A znode's data and stat."""
        node = self._find(path)
        return ZNode(node.data, node.stat())

    def stat(self, path: str) -> Stat | None:
        """A znode's stat, if it is there."""
        node = self._nodes.get(path)
        return None if node is None else node.stat()

    def children(self, path: str) -> tuple[str, ...]:
        """The names below a path, sorted."""
        return tuple(sorted(self._find(path).children))

    def ephemerals_of(self, owner: int) -> tuple[str, ...]:
        """What goes when a session does, sorted."""
        nodes = self._nodes.items()
        return tuple(sorted(path for path, node in nodes if node.ephemeral_owner == owner))

    def commit(
        self, operations: Sequence[Operation], owner: int, now_ms: int
    ) -> tuple[list[Written], Changes]:
        """One transaction; MultiFailed, and nothing has changed, if an operation fails."""
        self.zxid += 1
        self._undo.clear()
        written: list[Written] = []
        changes: Changes = []
        for index, operation in enumerate(operations):
            try:
                written.append(self._apply(operation, owner, now_ms, changes))
            except KeeperError as error:
                for undo in reversed(self._undo):
                    undo()
                raise MultiFailed(index, error) from error
        return written, changes

    def _apply(self, operation: Operation, owner: int, now_ms: int, changes: Changes) -> Written:
        match operation:
            case Create():
                return self._create(operation, owner, now_ms, changes)
            case Set():
                return self._set(operation, now_ms, changes)
            case Delete():
                return self._delete(operation, changes)
            case Check():
                self._find_version(operation.path, operation.version)
                return Written(operation.path, None)

    def _create(self, create: Create, owner: int, now_ms: int, changes: Changes) -> Written:
        parent_path, name = _split(create.path)
        parent = self._find(parent_path, create.path)
        if parent.ephemeral_owner:
            raise NoChildrenForEphemerals(create.path)
        if create.sequential:
            name = f"{name}{parent.creates:010d}"
        path = _join(parent_path, name)
        if path in self._nodes:
            raise NodeExists(path)
        node = _Node(create.data, self.zxid, self.zxid, now_ms, now_ms, self.zxid)
        node.ephemeral_owner = owner if create.ephemeral else 0
        before = parent.pzxid
        self._nodes[path] = node
        parent.children.add(name)
        parent.creates += 1
        parent.pzxid = self.zxid

        def undo() -> None:
            del self._nodes[path]
            parent.children.discard(name)
            parent.creates -= 1
            parent.pzxid = before

        self._undo.append(undo)
        changes += [(Change.CREATED, path), (Change.CHILDREN, parent_path)]
        return Written(path, node.stat())

    def _set(self, change: Set, now_ms: int, changes: Changes) -> Written:
        node = self._find_version(change.path, change.version)
        before = (node.data, node.version, node.mzxid, node.mtime)
        node.data, node.mzxid, node.mtime = change.data, self.zxid, now_ms
        node.version += 1

        def undo() -> None:
            node.data, node.version, node.mzxid, node.mtime = before

        self._undo.append(undo)
        changes.append((Change.CHANGED, change.path))
        return Written(change.path, node.stat())

    def _delete(self, delete: Delete, changes: Changes) -> Written:
        if delete.path in {"/", "/zookeeper"}:
            raise BadArguments(delete.path, "belongs to the server")
        node = self._find_version(delete.path, delete.version)
        if node.children:
            raise NotEmpty(delete.path)
        parent_path, name = _split(delete.path)
        parent = self._nodes[parent_path]
        before = parent.pzxid
        del self._nodes[delete.path]
        parent.children.discard(name)
        parent.pzxid = self.zxid

        def undo() -> None:
            self._nodes[delete.path] = node
            parent.children.add(name)
            parent.pzxid = before

        self._undo.append(undo)
        changes += [(Change.DELETED, delete.path), (Change.CHILDREN, parent_path)]
        return Written(delete.path, None)

    def _find(self, path: str, wanted: str = "") -> _Node:
        node = self._nodes.get(path)
        if node is None:
            raise NoNode(wanted or path)
        return node

    def _find_version(self, path: str, version: int) -> _Node:
        node = self._find(path)
        if version not in {ANY_VERSION, node.version}:
            raise BadVersion(path, f"version is {node.version}, not {version}")
        return node


def _split(path: str) -> tuple[str, str]:
    parent, _, name = path.rpartition("/")
    return parent or "/", name


def _join(parent: str, name: str) -> str:
    return f"/{name}" if parent == "/" else f"{parent}/{name}"
