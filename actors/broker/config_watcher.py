"""Hears of configuration that was changed.

Rule: each notification below /config/changes is acted on once, in the order of their numbers; those
that were there before this broker are not (B183). A session's watch ends with it: each
registration sets the next one, and then also sees what came in between.
"""

from typing import Final

from actors.administration.topic_configs import UNCLEAN
from actors.broker.registration import Registered, children_of
from actors.config import BrokerConfig
from actors.controller.events import UncleanElectionEnabled
from runtime.actor import Actor
from runtime.keeper import Delete, KeeperSessionLost, WatchEvent, ZNode
from runtime.ref import Receiver
from runtime.world import World
from wire.config_znodes import (
    DEFAULT_ENTITY,
    ConfigChangeNotificationZNode,
    ConfigEntity,
    ConfigEntityType,
    ConfigEntityZNode,
)
from wire.errors import MalformedZNode
from wire.trace import ConfigChanged, ZNodeSkipped

EXPIRY_MS: Final = 15 * 60 * 1_000
FOLDER: Final = ConfigChangeNotificationZNode.folder

WatcherMessage = Registered | WatchEvent


class ConfigWatcher(Actor):
    """Owns what this broker has heard of changed configuration."""

    def __init__(self, world: World, config: BrokerConfig, controller: Receiver) -> None:
        super().__init__()
        self._world = world
        self._my_names = {DEFAULT_ENTITY, str(config.broker_id)}
        self._controller = controller
        self._heard: dict[str, int] | None = None  # notification → when it was created

    async def on_receive(self, message: WatcherMessage) -> None:
        """One message at a time."""
        if isinstance(message, WatchEvent) and message.session != self._world.keeper.session:
            return
        try:
            await self._listen()
        except KeeperSessionLost:
            return  # the next registration goes on from here

    async def _listen(self) -> None:
        names = await children_of(self._world.keeper, FOLDER, self.ref)
        heard = self._heard or {}
        new = [name for name in names if name not in heard]  # by name, which is by number
        found = await self._read([f"{FOLDER}/{name}" for name in new])
        entities = [] if self._heard is None else self._entities(new, found)
        configs = await self._read([ConfigEntityZNode.path(entity) for entity in entities])
        # Nothing is awaited from here: what is acted on is remembered, what is not is not.
        self._heard = {name: heard[name] for name in names if name in heard}
        for name, znode in zip(new, found, strict=True):
            if znode is not None:
                self._heard[name] = znode.stat.ctime
        for entity, znode in zip(entities, configs, strict=True):
            self._act(entity, znode)
        if entities:
            await self._purge(self._heard)

    async def _read(self, paths: list[str]) -> list[ZNode | None]:
        """Many znodes; None for one that is gone, because somebody purged it or its topic."""
        znodes = await self._world.keeper.read(paths)
        return [znode if isinstance(znode, ZNode) else None for znode in znodes]

    def _entities(self, names: list[str], found: list[ZNode | None]) -> list[ConfigEntity]:
        """What the notifications tell of."""
        entities = []
        for name, znode in zip(names, found, strict=True):
            try:
                sequence = ConfigChangeNotificationZNode.sequence_of(name)
                if znode is not None:
                    entities.append(ConfigChangeNotificationZNode.decode(sequence, znode.data))
            except MalformedZNode as error:
                self._world.trace(ZNodeSkipped(error.path, error.reason))
        return entities

    def _act(self, entity: ConfigEntity, znode: ZNode | None) -> None:
        """Take note; leaders may now be elected that could not be before (B063)."""
        self._world.trace(ConfigChanged(entity.entity_path))
        try:
            config = {} if znode is None else ConfigEntityZNode.decode(entity, znode.data)
        except MalformedZNode as error:
            self._world.trace(ZNodeSkipped(error.path, error.reason))
            return
        if config.get(UNCLEAN) != "true":
            return
        if entity.entity_type is ConfigEntityType.TOPICS:
            self._controller.tell(UncleanElectionEnabled(entity.name))
        elif entity.entity_type is ConfigEntityType.BROKERS and entity.name in self._my_names:
            self._controller.tell(UncleanElectionEnabled(None))

    async def _purge(self, heard: dict[str, int]) -> None:
        """Delete what every broker has heard long ago; each of them tries, one succeeds.

        ZooKeeper's clock says when a znode was created, so its newest znode says what time it is
        there. A broker's own clock may be wrong, and has another beginning in a simulated world.
        """
        now_ms = max(heard.values(), default=0)
        old = [name for name, created_ms in heard.items() if now_ms - created_ms > EXPIRY_MS]
        await self._world.keeper.write([Delete(f"{FOLDER}/{name}") for name in old])
