"""Moving partitions by a plan: what kafka-reassign-partitions does.

Rule: a plan is validated whole before anything is written. Throttles are set before the move and
removed when nothing is on the move any more (B181, B182).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import Enum
from typing import Final, TypeVar

from actors.administration.placement import BrokerRack, RackAwareMode
from actors.administration.plans import (
    Plan,
    follower_throttles,
    leader_throttles,
    merge_throttles,
    parse_reassignment,
    parse_topics_to_move,
    propose,
    throttled_brokers,
)
from actors.administration.topic_configs import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
)
from actors.client.admin import Admin
from wire.admin import OngoingReassignment
from wire.configs import AlterConfigOperation, ConfigChange, ConfigResource, ConfigResourceType
from wire.errors import (
    ApiError,
    InvalidReplicaAssignment,
    InvalidRequest,
    NoReassignmentInProgress,
    ReassignmentInProgress,
    UnknownTopicOrPartition,
)
from wire.ids import BrokerId, TopicPartition
from wire.metadata import MetadataTopic

Placed = dict[TopicPartition, tuple[BrokerId, ...]]
Moves = Mapping[TopicPartition, OngoingReassignment]
Changes = dict[ConfigResource, list[ConfigChange]]
Named = TypeVar("Named", TopicPartition, ConfigResource)

SHOWN: Final = 10  # of a list in a sentence


class MoveState(Enum):
    """What became of one partition of a plan."""

    IN_PROGRESS = "in progress"
    COMPLETED = "completed"
    FAILED = "failed"  # it neither moves nor is it where it should be


async def generate(
    admin: Admin,
    topics_json: str,
    broker_list: Sequence[int],
    rack_aware: bool = True,
    *,
    start: int = 0,
    shift: int = 0,
) -> tuple[Placed, Placed]:
    """Where the topics' partitions are, and where they could be on these brokers (B179).

    Kafka draws start and shift; here a proposal is the same each time, unless they are given.
    """
    topics = parse_topics_to_move(topics_json)
    current = await _placed(admin, topics)
    racks = {node.id: node.rack for node in (await admin.describe_cluster()).brokers}
    _check_brokers(broker_list, racks)
    proposed = propose(
        current,
        [BrokerRack(BrokerId(each), racks[BrokerId(each)]) for each in sorted(set(broker_list))],
        start=start,
        shift=shift,
        rack_aware=RackAwareMode.ENFORCED if rack_aware else RackAwareMode.DISABLED,
    )
    return current, proposed


async def execute(
    admin: Admin, plan_json: str, throttle: int | None = None, additional: bool = False
) -> Placed:
    """Begin the moves, and answer where the partitions were: the plan that takes them back (B180).

    `throttle` is in bytes a second, for each broker.
    """
    plan = parse_reassignment(plan_json)
    if throttle is not None and throttle < 1:
        raise InvalidRequest(f"The throttle is {throttle}; it must be a byte a second or more.")
    ongoing = await moves(admin)
    if ongoing and not additional:
        raise ReassignmentInProgress(
            f"Partitions are on the move already: {_listed(ongoing)}."
            " Cancel that, wait for it, or ask for an additional reassignment."
        )
    live = [node.id for node in (await admin.describe_cluster()).brokers]
    _check_brokers((broker for replicas in plan.values() for broker in replicas), live)
    placed = await _placed(admin, {each.topic for each in plan})
    if missing := sorted(plan.keys() - placed.keys()):
        raise UnknownTopicOrPartition(f"There is no such partition: {_listed(missing)}.")
    current = {each: placed[each] for each in plan}
    if throttle is not None:
        await _throttle(admin, _without_adding(current, ongoing), plan, throttle)
    _raise_errors("move", await admin.alter_reassignments(plan))
    return current


async def verify(
    admin: Admin, plan_json: str, preserve_throttles: bool = False
) -> dict[TopicPartition, MoveState]:
    """How far the plan is; when nothing at all is on the move, throttles are removed (B182)."""
    plan = parse_reassignment(plan_json)
    ongoing = await moves(admin)
    topics = await admin.describe_topics(sorted({each.topic for each in plan}))
    placed = _replicas(topics)
    states = {each: _state(each, target, ongoing, placed) for each, target in plan.items()}
    # As Kafka: a move of another plan may go by the same throttles.
    if not ongoing and not preserve_throttles:
        await _unthrottle(admin, plan)
    return states


async def cancel(
    admin: Admin, plan_json: str, preserve_throttles: bool = False
) -> tuple[TopicPartition, ...]:
    """Take back those of the plan's moves that are still going on, and answer which (B182)."""
    plan = parse_reassignment(plan_json)
    moving = sorted(await admin.list_reassignments(plan))
    if moving:
        results = await admin.alter_reassignments(dict.fromkeys(moving))
        # One that has just arrived is no error, and was not cancelled.
        moving = [
            each for each in moving if not isinstance(results[each], NoReassignmentInProgress)
        ]
        _raise_errors("cancel the move of", {each: results[each] for each in moving})
    if not preserve_throttles:
        await _unthrottle(admin, plan)
    return tuple(moving)


async def moves(admin: Admin) -> dict[TopicPartition, OngoingReassignment]:
    """All that is on the move."""
    return await admin.list_reassignments()


# --- what is where --------------------------------------------------------------------------------


async def _placed(admin: Admin, topics: Iterable[str]) -> Placed:
    """The replicas of all partitions of these topics, all of which must be there."""
    described = await admin.describe_topics(sorted(topics))
    if missing := sorted(each for each, of in described.items() if isinstance(of, ApiError)):
        raise UnknownTopicOrPartition(f"There is no such topic: {_listed(missing)}.")
    return _replicas(described)


def _replicas(described: Mapping[str, MetadataTopic | ApiError]) -> Placed:
    return {
        TopicPartition(topic, each.partition): each.replicas
        for topic, known in described.items()
        if not isinstance(known, ApiError)
        for each in known.partitions
    }


def _without_adding(current: Plan, ongoing: Moves) -> Placed:
    """Where there is something to copy from: what is still being copied is no source."""
    return {
        each: tuple(
            broker
            for broker in replicas
            if each not in ongoing or broker not in ongoing[each].adding_replicas
        )
        for each, replicas in current.items()
    }


def _state(
    partition: TopicPartition, target: tuple[BrokerId, ...], ongoing: Moves, placed: Plan
) -> MoveState:
    if partition in ongoing:
        return MoveState.IN_PROGRESS
    return MoveState.COMPLETED if placed.get(partition) == target else MoveState.FAILED


def _check_brokers(brokers: Iterable[int], live: Collection[int]) -> None:
    if dead := sorted(set(brokers) - set(live)):
        raise InvalidReplicaAssignment(
            f"Not alive: broker {_listed(dead)}; alive are: {_listed(sorted(live)) or 'none'}."
        )


# --- throttles ------------------------------------------------------------------------------------


async def _throttle(admin: Admin, current: Plan, plan: Plan, rate: int) -> None:
    """Limit what the moves may take of the network, before they begin (B181)."""
    added = {
        LEADER_REPLICAS: leader_throttles(current, plan),
        FOLLOWER_REPLICAS: follower_throttles(current, plan),
    }
    topics = sorted({topic for lists in added.values() for topic in lists})
    described = await admin.describe_configs(*map(_topic, topics))
    changes: Changes = {}
    for topic in topics:
        entries = described[_topic(topic)]
        if isinstance(entries, ApiError):
            raise entries
        existing = {entry.name: entry.value or "" for entry in entries}
        changes[_topic(topic)] = [
            _set(key, merge_throttles(existing.get(key, ""), lists[topic]))
            for key, lists in added.items()
            if topic in lists
        ]
    for broker in throttled_brokers(current, plan):
        changes[_broker(broker)] = [_set(LEADER_RATE, str(rate)), _set(FOLLOWER_RATE, str(rate))]
    _raise_errors("throttle", await admin.alter_configs(changes))


async def _unthrottle(admin: Admin, plan: Plan) -> None:
    """As Kafka: on all topics of the plan, and on all brokers there are."""
    cluster = await admin.describe_cluster()
    brokers = {node.id for node in cluster.brokers}
    brokers.update(broker for replicas in plan.values() for broker in replicas)
    topics = sorted({each.topic for each in plan})
    changes = {
        _topic(topic): [_delete(LEADER_REPLICAS), _delete(FOLLOWER_REPLICAS)] for topic in topics
    }
    changes |= {
        _broker(each): [_delete(LEADER_RATE), _delete(FOLLOWER_RATE)] for each in sorted(brokers)
    }
    results = await admin.alter_configs(changes)
    gone = {each for each, error in results.items() if isinstance(error, UnknownTopicOrPartition)}
    _raise_errors("unthrottle", {each: results[each] for each in results if each not in gone})


def _topic(topic: str) -> ConfigResource:
    return ConfigResource(ConfigResourceType.TOPIC, topic)


def _broker(broker: BrokerId) -> ConfigResource:
    return ConfigResource(ConfigResourceType.BROKER, str(broker))


def _set(key: str, value: str) -> ConfigChange:
    return ConfigChange(key, AlterConfigOperation.SET, value)


def _delete(key: str) -> ConfigChange:
    return ConfigChange(key, AlterConfigOperation.DELETE)


# --- sentences ------------------------------------------------------------------------------------


def _raise_errors(what: str, results: Mapping[Named, ApiError | None]) -> None:
    """One exception for all: of the first one's class, with everyone's sentence."""
    errors = {each: error for each, error in results.items() if error is not None}
    if errors:
        first = next(iter(errors.values()))
        reasons = [f"{getattr(each, 'name', each)}: {error}" for each, error in errors.items()]
        raise type(first)(f"Could not {what} {_listed(reasons, '; ')}")


def _listed(things: Collection[object], separator: str = ", ") -> str:
    shown = [str(each) for each in list(things)[:SHOWN]]
    more = [f"and {len(things) - SHOWN} more"] if len(things) > SHOWN else []
    return separator.join(shown + more)
