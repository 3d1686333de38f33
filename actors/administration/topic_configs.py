"""The keys that can be set at run time, for a topic or for a broker, and what each may hold.

Rule: a value that passes here is stored as it is checked: lists without blanks, truth in small
letters. Defaults and limits are Kafka's (LogConfig, DynamicBrokerConfig).
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from wire.configs import AlterConfigOperation, ConfigChange
from wire.errors import InvalidConfig, InvalidRequest

RATIO: Final = "a number from 0 to 1"
MAX_INT32: Final = 2**31 - 1
MAX_INT64: Final = 2**63 - 1
UNCLEAN: Final = "unclean.leader.election.enable"
LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"
LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"

_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_RATIO: Final = re.compile(r"[0-9]{0,9}\.?[0-9]{1,18}", re.ASCII)
_VERSION: Final = re.compile(r"[0-9]+(\.[0-9]+){1,3}(-IV[0-9]+)?", re.ASCII)
_THROTTLED: Final = re.compile(
    r"\*|([0-9]{1,10}:[0-9]{1,10}(,[0-9]{1,10}:[0-9]{1,10})*)?", re.ASCII
)

Check = Callable[[str], str | None]  # the value as it is stored; None: it cannot be


class ConfigKey(NamedTuple):
    """What one key may hold."""

    default: str
    check: Check
    must_be: str  # ends the sentence of a refusal
    is_list: bool = False
    broker_key: str = ""  # the broker's own key, which is the default of its topics


def _number(default: int, least: int, most: int = MAX_INT64, *, broker_key: str = "") -> ConfigKey:
    def check(value: str) -> str | None:
        text = value.strip()
        is_number = _NUMBER.fullmatch(text) is not None and least <= int(text) <= most
        return str(int(text)) if is_number else None

    return ConfigKey(str(default), check, f"a number from {least} to {most}", broker_key=broker_key)


def _truth(default: str, *, broker_key: str = "") -> ConfigKey:
    return _one_of(default, "true", "false", broker_key=broker_key)


def _one_of(default: str, *allowed: str, broker_key: str = "") -> ConfigKey:
    known = {each.lower(): each for each in allowed}

    def check(value: str) -> str | None:
        return known.get(value.strip().lower())

    return ConfigKey(default, check, f"one of {', '.join(allowed)}", broker_key=broker_key)


def _some_of(default: str, *allowed: str, broker_key: str = "") -> ConfigKey:
    def check(value: str) -> str | None:
        parts = split(value)
        return ",".join(parts) if set(parts) <= set(allowed) else None

    must_be = f"a list of {', '.join(allowed)}"
    return ConfigKey(default, check, must_be, is_list=True, broker_key=broker_key)


def _matching(
    default: str, pattern: re.Pattern[str], must_be: str, *, is_list: bool = False
) -> ConfigKey:
    def check(value: str) -> str | None:
        text = ",".join(split(value)) if is_list else value.strip()
        return text if pattern.fullmatch(text) else None

    return ConfigKey(default, check, must_be, is_list=is_list)


def _ratio(default: str, *, broker_key: str) -> ConfigKey:
    def check(value: str) -> str | None:
        text = value.strip()
        return text if _RATIO.fullmatch(text) and float(text) <= 1 else None

    return ConfigKey(default, check, RATIO, broker_key=broker_key)


_REPLICAS: Final = _matching(
    "", _THROTTLED, "'*', or a list of partition:broker such as 0:1,0:2", is_list=True
)
_DAY_MS: Final = 86_400_000

TOPIC_KEYS: Final[Mapping[str, ConfigKey]] = {
    "cleanup.policy": _some_of("delete", "compact", "delete", broker_key="log.cleanup.policy"),
    "compression.type": _one_of(
        "producer",
        "uncompressed",
        "zstd",
        "lz4",
        "snappy",
        "gzip",
        "producer",
        broker_key="compression.type",
    ),
    "delete.retention.ms": _number(_DAY_MS, 0, broker_key="log.cleaner.delete.retention.ms"),
    "file.delete.delay.ms": _number(60_000, 0, broker_key="log.segment.delete.delay.ms"),
    "flush.messages": _number(MAX_INT64, 0, broker_key="log.flush.interval.messages"),
    "flush.ms": _number(MAX_INT64, 0, broker_key="log.flush.interval.ms"),
    FOLLOWER_REPLICAS: _REPLICAS,
    "index.interval.bytes": _number(4_096, 0, MAX_INT32, broker_key="log.index.interval.bytes"),
    LEADER_REPLICAS: _REPLICAS,
    "max.compaction.lag.ms": _number(MAX_INT64, 1, broker_key="log.cleaner.max.compaction.lag.ms"),
    "max.message.bytes": _number(1_048_588, 0, MAX_INT32, broker_key="message.max.bytes"),
    "message.downconversion.enable": _truth("true", broker_key="log.message.downconversion.enable"),
    "message.format.version": _matching("2.8-IV1", _VERSION, "a version such as 2.8-IV1"),
    "message.timestamp.difference.max.ms": _number(
        MAX_INT64, 0, broker_key="log.message.timestamp.difference.max.ms"
    ),
    "message.timestamp.type": _one_of(
        "CreateTime", "CreateTime", "LogAppendTime", broker_key="log.message.timestamp.type"
    ),
    "min.cleanable.dirty.ratio": _ratio("0.5", broker_key="log.cleaner.min.cleanable.ratio"),
    "min.compaction.lag.ms": _number(0, 0, broker_key="log.cleaner.min.compaction.lag.ms"),
    "min.insync.replicas": _number(1, 1, MAX_INT32, broker_key="min.insync.replicas"),
    "preallocate": _truth("false", broker_key="log.preallocate"),
    "retention.bytes": _number(-1, -MAX_INT64, broker_key="log.retention.bytes"),
    "retention.ms": _number(7 * _DAY_MS, -1, broker_key="log.retention.ms"),
    "segment.bytes": _number(2**30, 14, MAX_INT32, broker_key="log.segment.bytes"),
    "segment.index.bytes": _number(10 * 2**20, 0, MAX_INT32, broker_key="log.index.size.max.bytes"),
    "segment.jitter.ms": _number(0, 0, broker_key="log.roll.jitter.ms"),
    "segment.ms": _number(7 * _DAY_MS, 1, broker_key="log.roll.ms"),
    UNCLEAN: _truth("false", broker_key=UNCLEAN),
}
BROKER_KEYS: Final[Mapping[str, ConfigKey]] = {
    LEADER_RATE: _number(MAX_INT64, 0),
    FOLLOWER_RATE: _number(MAX_INT64, 0),
    **{key.broker_key: key for key in TOPIC_KEYS.values() if key.broker_key},
}


def split(value: str) -> list[str]:
    """The parts of a list, each once."""
    return list(dict.fromkeys(part for each in value.split(",") if (part := each.strip())))


def check_configs(keys: Mapping[str, ConfigKey], configs: Mapping[str, str]) -> dict[str, str]:
    """The values as they are stored, if all of them can be."""
    checked = {}
    for name, value in configs.items():
        key = known_key(keys, name)
        stored = key.check(value)
        if stored is None:
            raise InvalidConfig(f"{name} is {value[:80]!r}; it must be {key.must_be}.")
        checked[name] = stored
    least, most = (_lag(checked, f"{each}.compaction.lag.ms") for each in ("min", "max"))
    if least > most:
        raise InvalidConfig(
            f"min.compaction.lag.ms is {least}; it must be at most max.compaction.lag.ms, {most}."
        )
    return checked


def _lag(configs: Mapping[str, str], name: str) -> int:
    return int(configs.get(name, TOPIC_KEYS[name].default))


def known_key(keys: Mapping[str, ConfigKey], name: str) -> ConfigKey:
    """What a key may hold, if there is such a key."""
    if name not in keys:
        raise InvalidConfig(f"{name[:80]!r} is not a key that can be set here.")
    return keys[name]


def change_configs(
    keys: Mapping[str, ConfigKey], configs: Mapping[str, str], changes: Iterable[ConfigChange]
) -> dict[str, str]:
    """The configuration after the changes; a key that nobody knows stays, if it is not named."""
    changed = dict(configs)
    named: set[str] = set()
    for change in changes:
        if change.name in named:
            raise InvalidRequest(f"{change.name!r} is changed more than once.")
        named.add(change.name)
        value = _changed(keys, changed.get(change.name), change)
        if value is None:
            changed.pop(change.name, None)
        else:
            changed[change.name] = value
    checkable = {name: value for name, value in changed.items() if name in named or name in keys}
    return {**changed, **check_configs(keys, checkable)}


def _changed(keys: Mapping[str, ConfigKey], value: str | None, change: ConfigChange) -> str | None:
    if change.operation is AlterConfigOperation.DELETE:
        return None  # also of a key that nobody knows: how else would it be got rid of?
    key = known_key(keys, change.name)
    if change.value is None:
        raise InvalidRequest(f"{change.name!r} has no value; only a deletion needs none.")
    if change.operation is AlterConfigOperation.SET:
        return change.value
    if not key.is_list:
        raise InvalidRequest(
            f"{change.name!r} is not a list; nothing can be appended to it or subtracted from it."
        )
    parts, given = split(key.default if value is None else value), split(change.value)
    if change.operation is AlterConfigOperation.APPEND:
        return ",".join(dict.fromkeys(parts + given))
    return ",".join(part for part in parts if part not in given)
