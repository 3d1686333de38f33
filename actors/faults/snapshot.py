"""What a real ZooKeeper holds, read once, for those who judge a cluster in the end.

Rule: it is read when nothing moves any more. Whoever looks meanwhile may see two moments at once,
and looks again.
"""

from typing import Final

from actors.faults.ledger import Ledger
from runtime.keeper import Keeper, KeeperError, NoNode, Stat, ZNode
from runtime.simulation.tree import Tree
from wire.admin_znodes import (
    DeleteTopicsZNode,
    IsrChangeNotificationZNode,
    LogDirEventNotificationZNode,
    PreferredReplicaElectionZNode,
    ReassignPartitionsZNode,
)
from wire.znodes import BrokerIdsZNode, ControllerEpochZNode, ControllerZNode, TopicsZNode

MOST_ZNODES: Final = 100_000
ROOTS: Final = (
    ControllerZNode.path(),
    ControllerEpochZNode.path(),
    BrokerIdsZNode.path(),
    TopicsZNode.path(),
    DeleteTopicsZNode.path(),
    ReassignPartitionsZNode.path(),
    PreferredReplicaElectionZNode.path(),
    IsrChangeNotificationZNode.folder,
    LogDirEventNotificationZNode.folder,
)


class Snapshot(Tree):
    """Znodes by path, as they were read."""

    def __init__(self, znodes: dict[str, ZNode]) -> None:
        super().__init__()
        self._znodes = znodes
        self._below: dict[str, list[str]] = {}
        for path in znodes:
            parent, _, name = path.rpartition("/")
            self._below.setdefault(parent or "/", []).append(name)

    def get(self, path: str) -> ZNode:
        """A znode's data and stat."""
        if path not in self._znodes:
            raise NoNode(path)
        return self._znodes[path]

    def stat(self, path: str) -> Stat | None:
        """A znode's stat, if it is there."""
        found = self._znodes.get(path)
        return None if found is None else found.stat

    def children(self, path: str) -> tuple[str, ...]:
        """The names below a path, sorted."""
        return tuple(sorted(self._below.get(path, ())))


async def snapshot(keeper: Keeper) -> Snapshot:
    """All that brokers and controllers keep there."""
    found: dict[str, ZNode] = {}
    wanted = list(ROOTS)
    while wanted and len(found) < MOST_ZNODES:
        read = zip(wanted, await keeper.read(wanted), strict=True)
        found |= {path: znode for path, znode in read if not isinstance(znode, KeeperError)}
        parents = [path for path in wanted if path in found and found[path].stat.num_children]
        wanted = [f"{parent}/{name}" for parent in parents for name in await _names(keeper, parent)]
    return Snapshot(found)


async def _names(keeper: Keeper, path: str) -> tuple[str, ...]:
    try:
        return await keeper.children(path)
    except NoNode:
        return ()


def ledger_of(tree: Tree) -> Ledger:
    """What it says of topics and partitions."""
    ledger = Ledger()
    ledger.take("", (), tree)
    return ledger
