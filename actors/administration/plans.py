"""Plans of kafka-reassign-partitions: which replicas shall be where, and what slows the move.

Rule: a plan is read whole or refused with the place that is wrong; what is written can be read.
A partition moves if its target has a broker that holds no replica of it yet.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from actors.administration.names import check_topic_name
from actors.administration.placement import BrokerRack, RackAwareMode, place_replicas
from wire.errors import InvalidConfig, InvalidTopic
from wire.ids import BrokerId, TopicPartition
from wire.znode_json import JsonNumber, broker_ids

SUPPORTED_VERSION: Final = 1
ANY_LOG_DIR: Final = "any"
ALL_REPLICAS: Final = "*"
_THROTTLE: Final = re.compile(r"[0-9]{1,10}:[0-9]{1,10}")

Plan = Mapping[TopicPartition, tuple[BrokerId, ...]]
Shape = TypeVar("Shape", bound="_Versioned")


class MalformedPlan(ValueError):
    """A file that is no plan; the sentence says where and why."""


class _Versioned(Struct, frozen=True, kw_only=True):
    version: int = SUPPORTED_VERSION  # as in Kafka: may be left out


class _PartitionShape(Struct, frozen=True, kw_only=True):
    topic: str
    partition: JsonNumber
    replicas: tuple[JsonNumber, ...]
    log_dirs: tuple[str, ...] | None = None  # one a replica; a broker here has one directory


class _PlanShape(_Versioned, frozen=True, kw_only=True):
    partitions: tuple[_PartitionShape, ...]


class _TopicShape(Struct, frozen=True, kw_only=True):
    topic: str


class _TopicsShape(_Versioned, frozen=True, kw_only=True):
    topics: tuple[_TopicShape, ...]


def parse_reassignment(text: str) -> dict[TopicPartition, tuple[BrokerId, ...]]:
    """The targets in a file given to --execute or --verify."""
    shape = _read(text, _PlanShape)
    for index, each in enumerate(shape.partitions):
        _check_partition(f"partitions[{index}]", each)
    partitions = [TopicPartition(each.topic, each.partition) for each in shape.partitions]
    _check_list("partitions", partitions)
    targets = (broker_ids(each.replicas) for each in shape.partitions)
    return dict(zip(partitions, targets, strict=True))


def parse_topics_to_move(text: str) -> tuple[str, ...]:
    """The topics in a file given to --generate."""
    topics = tuple(each.topic for each in _read(text, _TopicsShape).topics)
    for index, topic in enumerate(topics):
        _check_name(f"topics[{index}].topic", topic)
    _check_list("topics", topics)
    return topics


def _read(text: str, shape: type[Shape]) -> Shape:
    try:
        read = msgspec.convert(json.loads(text), shape)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise MalformedPlan(f"{place}: {error.msg[0].lower()}{error.msg[1:]}") from error
    except msgspec.ValidationError as error:
        reason, _, path = str(error).replace("`", "").partition(" - at $.")
        raise MalformedPlan(f"{path or 'the JSON'}: {reason[0].lower()}{reason[1:]}") from error
    except (ValueError, RecursionError) as error:  # too long a number, too deep a nesting
        raise MalformedPlan(f"the JSON: {error}") from error
    if read.version != SUPPORTED_VERSION:
        raise MalformedPlan(f"version: {read.version} is not known; it must be {SUPPORTED_VERSION}")
    return read


def _check_partition(place: str, shape: _PartitionShape) -> None:
    _check_name(f"{place}.topic", shape.topic)
    _check_list(f"{place}.replicas", shape.replicas)
    if shape.log_dirs is not None and len(shape.log_dirs) != len(shape.replicas):
        raise MalformedPlan(
            f"{place}.log_dirs: there are {len(shape.log_dirs)} for {len(shape.replicas)} replicas;"
            " there must be one a replica, or no log_dirs at all"
        )


def _check_name(place: str, topic: str) -> None:
    try:
        check_topic_name(topic)
    except InvalidTopic as error:
        raise MalformedPlan(f"{place}: {error}") from error


def _check_list(place: str, values: Sequence[object]) -> None:
    if not values:
        raise MalformedPlan(f"{place}: the list is empty; it must have one entry or more")
    if repeated := [str(each) for each, times in Counter(values).items() if times > 1]:
        raise MalformedPlan(f"{place}: listed more than once: {', '.join(repeated)}")


def format_reassignment(plan: Plan) -> str:
    """The plan as Kafka prints it."""
    partitions = tuple(
        _PartitionShape(
            topic=partition.topic,
            partition=partition.partition,
            replicas=plan[partition],
            log_dirs=(ANY_LOG_DIR,) * len(plan[partition]),
        )
        for partition in sorted(plan)
    )
    return msgspec.json.encode(_PlanShape(partitions=partitions)).decode()


def propose(
    current: Plan,
    brokers: Sequence[BrokerRack],
    *,
    start: int,
    shift: int,
    rack_aware: RackAwareMode,
) -> dict[TopicPartition, tuple[BrokerId, ...]]:
    """Where --generate would have the partitions (B179): each topic placed as if it were new.

    Kafka draws a start for each topic. Here a topic starts where the one before it ended, or else
    the first partitions of all topics would meet on one broker.
    """
    proposed: dict[TopicPartition, tuple[BrokerId, ...]] = {}
    for _, group in groupby(sorted(current), key=lambda each: each.topic):
        partitions = tuple(group)
        placement = place_replicas(
            brokers,
            partitions=len(partitions),
            replication_factor=len(current[partitions[0]]),
            start=start + len(proposed),
            shift=shift,
            rack_aware=rack_aware,
        )
        proposed.update(zip(partitions, placement.values(), strict=True))
    return proposed


def leader_throttles(current: Plan, plan: Plan) -> dict[str, str]:
    """By topic, all that a moving partition may be copied from: any of them may lead (B181)."""
    moving = {each for each, target in plan.items() if set(target) - set(current[each])}
    return _throttles({each: current[each] for each in moving})


def follower_throttles(current: Plan, plan: Plan) -> dict[str, str]:
    """By topic, all that a moving partition is copied to: the new replicas only (B181)."""
    return _throttles({each: set(target) - set(current[each]) for each, target in plan.items()})


def _throttles(replicas: Mapping[TopicPartition, Iterable[BrokerId]]) -> dict[str, str]:
    entries: dict[str, list[str]] = {}
    for partition in sorted(replicas):
        for broker in sorted(replicas[partition]):
            entries.setdefault(partition.topic, []).append(f"{partition.partition}:{broker}")
    return {topic: ",".join(each) for topic, each in entries.items()}


def merge_throttles(existing: str, added: str) -> str:
    """Both lists in one, by partition and broker; one that names all replicas stays that."""
    entries = {each.strip() for each in f"{existing},{added}".split(",")} - {""}
    if ALL_REPLICAS in entries:
        return ALL_REPLICAS
    if strange := sorted(each for each in entries if not _THROTTLE.fullmatch(each)):
        raise InvalidConfig(
            f"{strange[0][:40]!r} is not a throttled replica; it must be partition:broker, or"
            f" the whole list {ALL_REPLICAS!r}."
        )
    return ",".join(sorted(entries, key=lambda each: [int(part) for part in each.split(":")]))


def throttled_brokers(current: Plan, plan: Plan) -> tuple[BrokerId, ...]:
    """All that hold, or shall hold, a partition of the plan: their rates are to be limited."""
    brokers = {broker for each, target in plan.items() for broker in (*current[each], *target)}
    return tuple(sorted(brokers))
