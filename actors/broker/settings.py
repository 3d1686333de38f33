"""What the configuration in ZooKeeper means to a broker.

Rule: a topic's own value wins over the broker's dynamic one, that over what the broker was started
with. A value that cannot be, because somebody wrote it by hand, is passed over and traced, never
raised. Topics without a configuration of their own share one TopicSettings.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from actors.administration.topic_configs import (
    BROKER_KEYS,
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    TOPIC_KEYS,
    ConfigKey,
    split,
)
from actors.broker.log.config import UNLIMITED, CleanupPolicy, LogConfig, TimestampType
from actors.broker.quota import NO_LIMIT
from actors.config import BrokerConfig
from runtime.keeper import KeeperError, NoNode, ZNode
from runtime.world import World
from wire.config_znodes import (
    ConfigEntity,
    ConfigEntityType,
    ConfigEntityTypeZNode,
    ConfigEntityZNode,
)
from wire.errors import MalformedZNode
from wire.trace import ZNodeSkipped

MIN_ISR: Final = "min.insync.replicas"
CLEANUP_POLICY: Final = "cleanup.policy"


@dataclass(frozen=True)
class TopicConfigChanged:
    """Config watcher → replica manager: all that is set for a topic now."""

    topic: str
    config: Mapping[str, str]


@dataclass(frozen=True)
class BrokerConfigChanged:
    """Config watcher → replica manager: all that is set for this broker now, at its start too."""

    config: Mapping[str, str]  # its own values over those of every broker


@dataclass(frozen=True, slots=True)
class Throttled:
    """The replicas of one topic that are copied no faster than the broker's rate (B167)."""

    replicas: frozenset[tuple[int, int]] = frozenset()  # a partition's number and a broker
    is_all: bool = False

    @staticmethod
    def of(text: str) -> "Throttled":
        """From a value that passed its check: `*`, or entries `partition:broker`."""
        if text == "*":
            return Throttled(is_all=True)
        pairs = (entry.split(":") for entry in split(text))
        return Throttled(frozenset((int(partition), int(broker)) for partition, broker in pairs))

    def includes(self, partition_number: int, broker_id: int) -> bool:
        """Whether this broker's replica of the partition is meant."""
        return self.is_all or (partition_number, broker_id) in self.replicas


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """What a broker goes by for one topic."""

    log: LogConfig
    min_insync_replicas: int
    leader_throttled: Throttled
    follower_throttled: Throttled


# --- from text to values --------------------------------------------------------------------------

LOG_KEYS: Final = {each.name.replace("_", "."): each.name for each in fields(LogConfig)}
# Kafka takes less; so little means the same to it, or leaves no place for an entry.
_LOG_LEAST: Final = {"flush.messages": 1, "retention.bytes": UNLIMITED, "segment.index.bytes": 24}


def _number(name: str) -> Callable[[str], int]:
    least = _LOG_LEAST.get(name)
    return int if least is None else lambda text: max(least, int(text))


def _policies(text: str) -> frozenset[CleanupPolicy] | None:
    return frozenset(map(CleanupPolicy, split(text))) or None  # a log must be kept small somehow


_READ: Final[Mapping[str, Callable[[str], Any]]] = {
    **{name: _number(name) for name in (*LOG_KEYS, MIN_ISR, LEADER_RATE, FOLLOWER_RATE)},
    CLEANUP_POLICY: _policies,
    "message.timestamp.type": TimestampType,
    "min.cleanable.dirty.ratio": float,
    LEADER_REPLICAS: Throttled.of,
    FOLLOWER_REPLICAS: Throttled.of,
}


def _read(name: str, key: ConfigKey, text: str) -> Any:
    """The value, or None if it cannot be."""
    stored = key.check(text)
    return None if stored is None else _READ[name](stored)


def settings_of(
    broker: BrokerConfig, dynamic: Mapping[str, str], topic: Mapping[str, str]
) -> TopicSettings:
    """What a topic's own configuration and its broker's come to; what cannot be is left out."""

    def value(name: str) -> Any:
        key = TOPIC_KEYS[name]
        for text in _candidates(name, key.broker_key, broker, dynamic, topic):
            found = _read(name, key, text)
            if found is not None:
                return found
        return _read(name, key, key.default)

    return TopicSettings(
        log=LogConfig(**{field: value(name) for name, field in LOG_KEYS.items()}),
        min_insync_replicas=value(MIN_ISR),
        leader_throttled=value(LEADER_REPLICAS),
        follower_throttled=value(FOLLOWER_REPLICAS),
    )


def _candidates(
    name: str,
    broker_key: str,
    broker: BrokerConfig,
    dynamic: Mapping[str, str],
    topic: Mapping[str, str],
) -> Iterator[str]:
    """A key's values, the one that wins first."""
    if name in topic:
        yield topic[name]
    if not broker_key:
        return
    if broker_key in dynamic:
        yield dynamic[broker_key]
    static = getattr(broker, broker_key.replace(".", "_"))
    yield f"{static:.18f}" if isinstance(static, float) else str(static)


def impossible(keys: Mapping[str, ConfigKey], config: Mapping[str, str]) -> tuple[str, ...]:
    """A sentence for each value that is passed over; keys that nobody knows are not read at all."""
    return tuple(
        f"{name} is {text[:80]!r}; it must be {key.must_be}"
        for name, text in config.items()
        if (key := keys.get(name)) is not None and _is_impossible(key, text)
    )


def _is_impossible(key: ConfigKey, text: str) -> bool:
    is_policy = key is TOPIC_KEYS[CLEANUP_POLICY]
    return key.check(text) is None or (is_policy and _policies(text) is None)


# --- what the replica manager owns ----------------------------------------------------------------


class Settings:
    """The settings of the topics that this broker holds, and its own rates."""

    def __init__(self, world: World, config: BrokerConfig) -> None:
        self.leader_rate: int = NO_LIMIT  # bytes a second for all throttled replicas together
        self.follower_rate: int = NO_LIMIT
        self._world = world
        self._broker = config
        self._dynamic: Mapping[str, str] = {}
        self._shared = settings_of(config, {}, {})
        self._own: dict[str, Mapping[str, str]] = {}  # of topics that have any of their own
        self._known: dict[str, TopicSettings] = {}
        self._asked: set[str] = set()  # being read

    def of(self, topic: str) -> TopicSettings | None:
        """What to go by; None: not known yet."""
        return self._known.get(topic)

    async def learn(self, topics: Iterable[str]) -> None:
        """Read what is set for topics not known yet; without an answer they stay unknown."""
        new = [topic for topic in dict.fromkeys(topics) if topic not in self._known]
        if not new:
            return
        self._asked.update(new)
        try:
            znodes = await self._world.keeper.read([_path(topic) for topic in new])
        except KeeperError:
            self._asked.difference_update(new)
            return
        for topic, znode in zip(new, znodes, strict=True):
            if topic not in self._asked:
                continue  # forgotten meanwhile, or a change has told of it
            self._asked.discard(topic)
            if isinstance(znode, ZNode | NoNode):
                self._know(topic, self._decoded(topic, znode))

    def topic_changed(self, topic: str, config: Mapping[str, str]) -> tuple[str, ...]:
        """The topics whose settings are others now: this one, or none.

        One that is not known is not remembered: when it is learned, it is read as it is then.
        """
        before = self._known.get(topic)
        if before is None and topic not in self._asked:
            return ()
        self._asked.discard(topic)
        self._know(topic, config)
        return () if self._known[topic] == before else (topic,)

    def broker_changed(self, dynamic: Mapping[str, str]) -> tuple[str, ...]:
        """The topics whose settings are others now, because the broker's values are."""
        self._report(ConfigEntityTypeZNode.path(ConfigEntityType.BROKERS), BROKER_KEYS, dynamic)
        self._dynamic = dict(dynamic)
        self.leader_rate = _rate(dynamic, LEADER_RATE)
        self.follower_rate = _rate(dynamic, FOLLOWER_RATE)
        self._shared = settings_of(self._broker, dynamic, {})
        changed = []
        for topic, before in self._known.items():
            after = self._made(self._own.get(topic))
            if after is not before and after != before:
                changed.append(topic)
            self._known[topic] = after
        return tuple(changed)

    def forget(self, topic: str) -> None:
        """This broker no longer holds any of it; another topic of the name is read anew."""
        self._known.pop(topic, None)
        self._own.pop(topic, None)
        self._asked.discard(topic)

    def _know(self, topic: str, config: Mapping[str, str]) -> None:
        self._report(_path(topic), TOPIC_KEYS, config)
        if config:
            self._own[topic] = dict(config)
        else:
            self._own.pop(topic, None)
        self._known[topic] = self._made(config)

    def _made(self, config: Mapping[str, str] | None) -> TopicSettings:
        if not config:
            return self._shared
        settings = settings_of(self._broker, self._dynamic, config)
        return self._shared if settings == self._shared else settings

    def _decoded(self, topic: str, znode: ZNode | NoNode) -> dict[str, str]:
        if isinstance(znode, NoNode):
            return {}
        try:
            return ConfigEntityZNode.decode(_entity(topic), znode.data)
        except MalformedZNode as error:
            self._world.trace(ZNodeSkipped(error.path, error.reason))
            return {}

    def _report(self, path: str, keys: Mapping[str, ConfigKey], config: Mapping[str, str]) -> None:
        for sentence in impossible(keys, config):
            self._world.trace(ZNodeSkipped(path, sentence))


def _rate(dynamic: Mapping[str, str], name: str) -> int:
    rate: int | None = _read(name, BROKER_KEYS[name], dynamic.get(name, ""))
    return NO_LIMIT if rate is None else rate


def _entity(topic: str) -> ConfigEntity:
    return ConfigEntity(ConfigEntityType.TOPICS, topic)


def _path(topic: str) -> str:
    return ConfigEntityZNode.path(_entity(topic))
