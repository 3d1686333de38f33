"""Requests that administrators leave in ZooKeeper.

Rule: only a request's creation is acted on, so a request that was removed is looked for again at
once: that arms the watch for the next one (B099, B112).
"""

from collections.abc import Callable
from contextlib import suppress

from actors.controller.office import Office
from runtime.keeper import NoNode, ZNode
from wire.admin_znodes import PreferredReplicaElectionZNode, ReassignPartitionsZNode
from wire.errors import MalformedZNode
from wire.ids import BrokerId, TopicPartition

Brokers = tuple[BrokerId, ...]


class ReassignmentRequest:
    """`/admin/reassign_partitions`, shrunk as its entries are done or refused."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self._begun = 0  # the creation zxid of the request that was acted on

    async def begin(self) -> dict[TopicPartition, Brokers] | None:
        """The request, but only once: what is written to it later is not acted on (B099)."""
        znode = await _read_if_there(self._office, ReassignPartitionsZNode.path())
        if znode is None or znode.stat.czxid == self._begun:
            return None
        self._begun = znode.stat.czxid
        return await self._decoded(znode)

    async def _decoded(self, znode: ZNode) -> dict[TopicPartition, Brokers] | None:
        try:
            return ReassignPartitionsZNode.decode(znode.data)
        except MalformedZNode as error:
            self._office.store.skip(error)
            await self._office.store.delete(ReassignPartitionsZNode.path())  # nobody can finish it
            return None

    async def remove(self, is_done: Callable[[TopicPartition, Brokers], bool]) -> None:
        """Take entries out; an empty request goes away, and the next one is watched for."""
        path = ReassignPartitionsZNode.path()
        znode = await _read_if_there(self._office, path)
        wanted = None if znode is None else await self._decoded(znode)
        if wanted is None:
            return
        left = {each: to for each, to in wanted.items() if not is_done(each, to)}
        if left == wanted:
            return
        if left:
            with suppress(NoNode):  # somebody withdrew the request: there is nothing to shrink
                await self._office.store.replace(path, ReassignPartitionsZNode.encode(left))
            return
        await self._office.store.delete(path)
        await self._office.store.keeper.exists(path, watch=self._office.watcher)


class PreferredElectionRequest:
    """`/admin/preferred_replica_election`, removed once it was acted on."""

    def __init__(self, office: Office) -> None:
        self._office = office

    async def read(self) -> tuple[TopicPartition, ...] | None:
        """The request, or None; its creation, or its end, is watched."""
        znode = await _read_if_there(self._office, PreferredReplicaElectionZNode.path())
        if znode is None:
            return None
        return self._office.store.decoded(PreferredReplicaElectionZNode.decode, znode.data) or ()

    async def remove(self) -> None:
        """Done, whatever came of it."""
        path = PreferredReplicaElectionZNode.path()
        await self._office.store.delete(path)
        await self._office.store.keeper.exists(path, watch=self._office.watcher)


async def _read_if_there(office: Office, path: str) -> ZNode | None:
    """A znode, or None; its creation, change or end is watched."""
    if await office.store.keeper.exists(path, watch=office.watcher) is None:
        return None
    try:
        return await office.store.keeper.get(path)
    except NoNode:
        return None
