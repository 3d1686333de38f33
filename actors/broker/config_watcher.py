"""Hears of configuration that was changed.

Rule: each notification below /config/changes is acted on once, in the order of their numbers; those
that were there before this broker are not (B183). A session's watch ends with it: each
registration sets the next one, and then also sees what came in between; the broker's own
configuration it reads in any case. The replica manager hears the newest of each, later if its inbox
is full.
"""

from dataclasses import dataclass
from typing import Final

from actors.administration.topic_configs import UNCLEAN
from actors.broker.registration import Registered, children_of
from actors.broker.settings import BrokerConfigChanged, TopicConfigChanged
from actors.config import BrokerConfig
from actors.controller.events import UncleanElectionEnabled
from runtime.actor import Actor
from runtime.keeper import (
    BadArguments,
    Delete,
    KeeperSessionLost,
    WatchEvent,
    ZNode,
    check_path,
)
from runtime.ref import InboxFull, Receiver
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
RETRY_MS: Final = 100


@dataclass(frozen=True)
class _TellAgain:
    """The replica manager may have read some of its messages by now."""


WatcherMessage = Registered | WatchEvent | _TellAgain


class ConfigWatcher(Actor):
    """Owns what this broker has heard of changed configuration."""

    def __init__(
        self,
        world: World,
        config: BrokerConfig,
        controller: Receiver,
        replica_manager: Receiver | None = None,  # None: nobody to tell
    ) -> None:
        super().__init__()
        self._world = world
        # The later wins: this broker's own values over those of every broker.
        self._mine = [
            ConfigEntity(ConfigEntityType.BROKERS, name)
            for name in (DEFAULT_ENTITY, str(config.broker_id))
        ]
        self._my_configs: dict[ConfigEntity, dict[str, str]] = {}
        self._controller = controller
        self._replica_manager = replica_manager
        # What the replica manager has yet to hear, by topic; None: the broker's own.
        self._untold: dict[str | None, TopicConfigChanged | BrokerConfigChanged] = {}
        self._is_to_tell_again = False
        self._heard: dict[str, int] | None = None  # notification → when it was created

    async def on_receive(self, message: WatcherMessage) -> None:
        """One message at a time."""
        if isinstance(message, _TellAgain):
            self._is_to_tell_again = False
            self._tell()
            return
        if isinstance(message, WatchEvent) and message.session != self._world.keeper.session:
            return
        try:
            await self._listen(is_new_session=isinstance(message, Registered))
        except KeeperSessionLost:
            return  # the next registration goes on from here

    async def _listen(self, *, is_new_session: bool) -> None:
        names = await children_of(self._world.keeper, FOLDER, self.ref)
        heard = self._heard or {}
        new = [name for name in names if name not in heard]  # by name, which is by number
        found = await self._read([f"{FOLDER}/{name}" for name in new])
        entities = [] if self._heard is None else self._entities(new, found)
        concerns_me = is_new_session or not set(entities).isdisjoint(self._mine)
        mine = self._mine if concerns_me else []
        paths = [ConfigEntityZNode.path(entity) for entity in (*entities, *mine)]
        configs = await self._read(paths)
        # Nothing is awaited from here: what is acted on is remembered, what is not is not.
        self._heard = {name: heard[name] for name in names if name in heard}
        for name, znode in zip(new, found, strict=True):
            if znode is not None:
                self._heard[name] = znode.stat.ctime
        for entity, znode in zip(entities, configs[: len(entities)], strict=True):
            self._act(entity, znode)
        if mine:
            self._note_mine(configs[len(entities) :])
        self._tell()
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
                    entity = ConfigChangeNotificationZNode.decode(sequence, znode.data)
                    check_path(ConfigEntityZNode.path(entity))
                    entities.append(entity)
            except MalformedZNode as error:
                self._world.trace(ZNodeSkipped(error.path, error.reason))
            except BadArguments as error:  # such as the entity `topics/..`
                self._world.trace(ZNodeSkipped(f"{FOLDER}/{name}", str(error)))
        return entities

    def _act(self, entity: ConfigEntity, znode: ZNode | None) -> None:
        """Take note; leaders may now be elected that could not be before (B063)."""
        self._world.trace(ConfigChanged(entity.entity_path))
        config = self._decoded(entity, znode)
        if config is None:
            return
        is_unclean = config.get(UNCLEAN) == "true"
        if entity.entity_type is ConfigEntityType.TOPICS:
            self._untold[entity.name] = TopicConfigChanged(entity.name, config)
            if is_unclean:
                self._controller.tell(UncleanElectionEnabled(entity.name))
        elif is_unclean and entity in self._mine:
            self._controller.tell(UncleanElectionEnabled(None))

    def _note_mine(self, znodes: list[ZNode | None]) -> None:
        """What nobody can read leaves this broker with what it had."""
        for entity, znode in zip(self._mine, znodes, strict=True):
            config = self._decoded(entity, znode)
            if config is not None:
                self._my_configs[entity] = config
        merged = {
            name: value
            for entity in self._mine
            for name, value in self._my_configs.get(entity, {}).items()
        }
        self._untold[None] = BrokerConfigChanged(merged)

    def _decoded(self, entity: ConfigEntity, znode: ZNode | None) -> dict[str, str] | None:
        try:
            return {} if znode is None else ConfigEntityZNode.decode(entity, znode.data)
        except MalformedZNode as error:
            self._world.trace(ZNodeSkipped(error.path, error.reason))
            return None

    def _tell(self) -> None:
        if self._replica_manager is None:
            self._untold.clear()
            return
        for name, change in list(self._untold.items()):
            try:
                self._replica_manager.tell(change)
            except InboxFull:
                self._tell_again()
                return
            del self._untold[name]

    def _tell_again(self) -> None:
        if not self._is_to_tell_again:
            self._is_to_tell_again = True
            self.after(RETRY_MS, _TellAgain())

    async def _purge(self, heard: dict[str, int]) -> None:
        """Delete what every broker has heard long ago; each of them tries, one succeeds.

        ZooKeeper's clock says when a znode was created, so its newest znode says what time it is
        there. A broker's own clock may be wrong, and has another beginning in a simulated world.
        """
        now_ms = max(heard.values(), default=0)
        old = [name for name, created_ms in heard.items() if now_ms - created_ms > EXPIRY_MS]
        await self._world.keeper.write([Delete(f"{FOLDER}/{name}") for name in old])
