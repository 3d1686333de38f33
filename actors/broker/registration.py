"""A broker's znode: as long as it is there, the cluster believes that the broker lives.

Rule: one session, one registration. A new session registers anew, and the new znode's czxid is the
broker's new epoch (B018). A znode of an own earlier session is replaced; anybody else's means
that two brokers claim one id, and this one does not start (B020).
"""

from base64 import urlsafe_b64encode
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from runtime.actor import Actor
from runtime.keeper import (
    Create,
    Keeper,
    KeeperError,
    KeeperSessionLost,
    KeeperUnreachable,
    NodeExists,
    NoNode,
    SessionState,
    ZNode,
)
from runtime.ref import Receiver
from runtime.world import World
from wire.cluster_znodes import ClusterIdZNode
from wire.errors import ApiError, ErrorCode
from wire.ids import BrokerEpoch, BrokerId, Endpoint
from wire.trace import BrokerRegistered
from wire.znodes import PERSISTENT_ROOTS, BrokerIdZNode, BrokerRegistration

RETRY_MS: Final = 1_000
CLUSTER_ID_BYTES: Final = 16


class BrokerIdTaken(ApiError):
    """Another live session holds this broker's znode."""

    code = ErrorCode.DUPLICATE_BROKER_REGISTRATION


@dataclass(frozen=True)
class Register:
    """Node → registration: be there; answered with the broker's epoch."""


@dataclass(frozen=True)
class Renew:
    """Controller → registration: the session is gone and so is its reign; open another (B018)."""


@dataclass(frozen=True)
class Registered:
    """Registration → whoever must know: the broker is there, in a new life."""

    broker_epoch: BrokerEpoch
    cluster_id: str = ""


@dataclass(frozen=True)
class Deregister:
    """Node → registration: this broker is about to stop."""


RegistrationMessage = Register | Renew | Deregister


class Registration(Actor):
    """Owns `/brokers/ids/N`."""

    def __init__(
        self,
        world: World,
        broker: BrokerId,
        endpoints: tuple[Endpoint, ...],
        rack: str | None,
        listeners: Sequence[Receiver] = (),
    ) -> None:
        super().__init__()
        self._world = world
        self._broker = broker
        self._endpoints = endpoints
        self._rack = rack
        self._listeners = listeners
        self._cluster_id = ""
        self._is_leaving = False
        self._registered_by: int | None = None  # the session of the last registration
        self._first_epoch: BrokerEpoch | None = None  # of this process

    async def on_receive(self, message: RegistrationMessage) -> BrokerEpoch | None:
        """One message at a time."""
        match message:
            case Register():
                return await self._on_register()
            case Renew():
                await self._on_renew()
            case Deregister():
                self._is_leaving = True
        return None

    async def _on_renew(self) -> None:
        try:
            await self._on_register()
        except BrokerIdTaken:
            if self._registered_by is not None:
                raise
            # It was not there yet, and waits for the end of its former life: it is asked again.

    async def _on_register(self) -> BrokerEpoch | None:
        keeper = self._world.keeper
        while not self._is_leaving and keeper.state is not SessionState.CLOSED:
            try:
                if keeper.state is SessionState.EXPIRED:
                    await keeper.renew()
                epoch = await self._register()
            except KeeperSessionLost:
                continue  # lost while registering: the next session tries again
            except KeeperUnreachable:
                self.after(RETRY_MS, Renew())
                break
            for listener in self._listeners:
                listener.tell(Registered(epoch, self._cluster_id))
            return epoch
        return None

    async def _register(self) -> BrokerEpoch:
        keeper = self._world.keeper
        await make_paths(keeper, PERSISTENT_ROOTS)
        self._cluster_id = await self._learn_cluster_id()
        registration = BrokerRegistration(
            endpoints=self._endpoints,
            timestamp_ms=self._world.clock.now_ms(),
            rack=self._rack,
            first_epoch=self._first_epoch,
        )
        path, data = BrokerIdZNode.path(self._broker), BrokerIdZNode.encode(registration)
        try:
            created = await keeper.create(path, data, ephemeral=True)
            stat = created.stat
        except NodeExists:
            stat = await keeper.exists(path)
            if stat is not None and stat.ephemeral_owner != keeper.session_id:
                # The last session may have ended before it could replace the znode of one before.
                if stat.ephemeral_owner not in {keeper.previous_session_id, self._registered_by}:
                    owner = f"session {stat.ephemeral_owner:#x}"
                    raise BrokerIdTaken(f"broker {self._broker} is registered by {owner}") from None
                await self._remove(path, stat.version)
                stat = None
        if stat is None:  # it went, or we removed it: now there is room
            return await self._register()
        self._registered_by = stat.ephemeral_owner
        epoch = BrokerEpoch(stat.czxid)
        self._first_epoch = self._first_epoch or epoch
        self._world.trace(BrokerRegistered(self._broker, epoch, keeper.session))
        return epoch

    async def _learn_cluster_id(self) -> str:
        """The first broker ever makes it up."""
        keeper, path = self._world.keeper, ClusterIdZNode.path()
        while True:
            try:
                return ClusterIdZNode.decode((await keeper.get(path)).data)
            except NoNode:
                made_up = urlsafe_b64encode(self._world.random.randbytes(CLUSTER_ID_BYTES))
                with suppress(NodeExists, NoNode):  # another one is first; its folder is not there
                    await make_paths(keeper, (path.rpartition("/")[0],))
                    await keeper.create(path, ClusterIdZNode.encode(made_up.decode().rstrip("=")))

    async def _remove(self, path: str, version: int) -> None:
        with suppress(NoNode):  # the server may be faster
            await self._world.keeper.delete(path, version=version)


async def make_paths(keeper: Keeper, paths: Sequence[str]) -> None:
    """Make persistent znodes and their parents, whoever else is making them too."""
    parts = [path.split("/")[1:] for path in paths]
    all_paths = dict.fromkeys(
        "/" + "/".join(names[:depth]) for names in parts for depth in range(1, len(names) + 1)
    )
    found = await keeper.read(tuple(all_paths))
    missing = [path for path, znode in zip(all_paths, found, strict=True) if is_missing(znode)]
    for result in await keeper.write([Create(path) for path in missing]):
        if isinstance(result, KeeperError) and not isinstance(result, NodeExists):
            raise result


async def children_of(keeper: Keeper, folder: str, watch: Receiver) -> tuple[str, ...]:
    """The names in a persistent folder, watched; one that somebody has removed is made again."""
    while True:
        try:
            return await keeper.children(folder, watch=watch)
        except NoNode:
            with suppress(NoNode):
                await make_paths(keeper, (folder,))


def is_missing(znode: ZNode | KeeperError) -> bool:
    """Whether a bulk read found nothing there; any other error is raised."""
    if isinstance(znode, KeeperError) and not isinstance(znode, NoNode):
        raise znode
    return isinstance(znode, NoNode)
