"""What a topic shall be, decided before anything is written.

Rule: a plan is whole or refused with a sentence that names what is wrong (B083, B089). A plan that
ZooKeeper could not hold is refused too, before it is made.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from actors.administration.names import check_topic_name, colliding
from actors.administration.placement import (
    BrokerRack,
    RackAwareMode,
    check_assignment,
    extend_replicas,
    place_replicas,
)
from actors.administration.topic_configs import TOPIC_KEYS, check_configs
from runtime.keeper import MAX_DATA_BYTES
from wire.admin import NewPartitions, NewTopic, PartitionAssignment
from wire.config_znodes import ConfigEntity, ConfigEntityType, ConfigEntityZNode
from wire.errors import (
    InvalidConfig,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidRequest,
    InvalidTopic,
    ReassignmentInProgress,
    TopicAlreadyExists,
)
from wire.ids import BrokerId, TopicId
from wire.znodes import ReplicaAssignment, TopicAssignment, TopicZNode

BY_DEFAULT: Final = -1
MAX_PARTITIONS: Final = 100_000  # "0":[1], and a megabyte: no znode could hold more of them

Placement = Mapping[int, tuple[BrokerId, ...]]


@dataclass(frozen=True)
class View:
    """The cluster as ZooKeeper has it when a request is handled."""

    brokers: tuple[BrokerRack, ...]
    topics: frozenset[str]
    deleting: frozenset[str]

    @property
    def live(self) -> tuple[BrokerId, ...]:
        """Who is there, whatever the rack."""
        return tuple(each.broker for each in self.brokers)


@dataclass(frozen=True)
class Defaults:
    """What a new topic has of what nobody said."""

    num_partitions: int
    replication_factor: int
    start: int  # the two by chance, see placement.py
    shift: int
    topic_id: TopicId


@dataclass(frozen=True)
class TopicPlan:
    """A topic to write, or to write again with more partitions."""

    topic: str
    assignment: TopicAssignment
    data: bytes  # of its znode
    config_data: bytes = b""
    version: int = -1  # of the znode that it replaces

    @property
    def partitions(self) -> int:
        """How many it shall have."""
        return len(self.assignment.partitions)

    @property
    def replication_factor(self) -> int:
        """How many replicas its partitions shall have."""
        return len(self.assignment.partitions[0].replicas)


def plan_topic(
    new: NewTopic, view: View, planned: Collection[str], defaults: Defaults
) -> TopicPlan:
    """A new topic (B083); `planned` are the others of the same request."""
    topic = new.topic
    check_topic_name(topic)
    if topic in view.topics or topic in view.deleting:  # gone only when the request is, too
        state = "exists and is being deleted" if topic in view.deleting else "exists already"
        raise TopicAlreadyExists(f"Topic {topic!r} {state}.")
    if others := colliding(topic, chain(view.topics, planned) if _may_collide(topic) else ()):
        raise InvalidTopic(
            f"Topic {topic!r} collides with {', '.join(map(repr, others))}:"
            " '.' and '_' are the same in a metric's name."
        )
    configs = check_configs(TOPIC_KEYS, _present(new.configs))
    entity = ConfigEntity(ConfigEntityType.TOPICS, topic)
    config_data = ConfigEntityZNode.encode(configs)
    if len(config_data) > MAX_DATA_BYTES:
        raise InvalidConfig(
            f"{ConfigEntityZNode.path(entity)} would have {len(config_data)} bytes."
        )
    placement = _chosen(new, view) if new.assignments else _placed(new, view, defaults)
    assignment = TopicAssignment(partitions=_replicas(placement), topic_id=defaults.topic_id)
    return TopicPlan(topic, assignment, _encoded(topic, assignment), config_data)


def _may_collide(topic: str) -> bool:
    return "." in topic or "_" in topic  # any other name is its own metric's


def _present(configs: Iterable[tuple[str, str | None]]) -> dict[str, str]:
    present = {}
    for name, value in configs:
        if value is None:
            raise InvalidConfig(f"{name!r} has no value; leave it out to have its default.")
        present[name] = value
    return present


def _chosen(new: NewTopic, view: View) -> Placement:
    if (new.num_partitions, new.replication_factor) != (BY_DEFAULT, BY_DEFAULT):
        raise InvalidRequest(
            f"Topic {new.topic!r} has both counts and assignments; give one or the other."
        )
    placement = _by_partition(new.assignments)
    check_assignment(placement, view.live)
    return placement


def _by_partition(assignments: Sequence[PartitionAssignment]) -> dict[int, tuple[BrokerId, ...]]:
    counts = Counter(each.partition for each in assignments)
    for partition, times in counts.items():
        if times > 1:
            raise InvalidReplicaAssignment(f"Partition {partition} is assigned {times} times.")
    return {each.partition: each.replicas for each in assignments}


def _placed(new: NewTopic, view: View, defaults: Defaults) -> Placement:
    partitions, factor = new.num_partitions, new.replication_factor
    if partitions == BY_DEFAULT:
        partitions = defaults.num_partitions
    _check_count(partitions)
    return place_replicas(
        view.brokers,
        partitions=partitions,
        replication_factor=defaults.replication_factor if factor == BY_DEFAULT else factor,
        start=defaults.start,
        shift=defaults.shift,
        rack_aware=RackAwareMode.ENFORCED,
    )


def plan_growth(
    new: NewPartitions, current: TopicAssignment, version: int, view: View
) -> TopicPlan:
    """More partitions for a topic; those that it has stay as they are (B089)."""
    existing = {number: each.replicas for number, each in current.partitions.items()}
    if new.topic in view.deleting:
        raise InvalidTopic(f"Topic {new.topic!r} is being deleted.")
    if any(each.adding_replicas or each.removing_replicas for each in current.partitions.values()):
        raise ReassignmentInProgress(f"Replicas of topic {new.topic!r} are on the move.")
    if new.count <= len(existing):
        raise InvalidPartitions(
            f"Topic {new.topic!r} has {len(existing)} partitions and would have {new.count};"
            " their number can only grow."
        )
    _check_count(new.count)
    if new.assignments is None:
        enforced = RackAwareMode.ENFORCED
        more = extend_replicas(existing, view.brokers, count=new.count, rack_aware=enforced)
    else:
        more = _extended_by_hand(new, new.assignments, existing, view)
    assignment = TopicAssignment(
        partitions={**current.partitions, **_replicas(more)}, topic_id=current.topic_id
    )
    return TopicPlan(new.topic, assignment, _encoded(new.topic, assignment), version=version)


def _extended_by_hand(
    new: NewPartitions,
    assignments: tuple[tuple[BrokerId, ...], ...],
    existing: Placement,
    view: View,
) -> dict[int, tuple[BrokerId, ...]]:
    if sorted(existing) != list(range(len(existing))) or not existing:
        raise InvalidPartitions(f"The partitions of topic {new.topic!r} are not numbered from 0.")
    if len(assignments) != new.count - len(existing):
        raise InvalidReplicaAssignment(
            f"Topic {new.topic!r} gets {new.count - len(existing)} partitions more,"
            f" and {len(assignments)} are assigned."
        )
    extended = dict(enumerate(assignments, start=len(existing)))
    first, factor = len(existing), len(existing[0])
    check_assignment(extended, view.live, first_partition=first, replication_factor=factor)
    return extended


def _check_count(partitions: int) -> None:
    if partitions > MAX_PARTITIONS:
        raise InvalidPartitions(
            f"The number of partitions is {partitions}; it must be at most {MAX_PARTITIONS}."
        )


def _replicas(placement: Placement) -> dict[int, ReplicaAssignment]:
    return {number: ReplicaAssignment(replicas=each) for number, each in placement.items()}


def _encoded(topic: str, assignment: TopicAssignment) -> bytes:
    data = TopicZNode.encode(assignment)
    if len(data) > MAX_DATA_BYTES:
        raise InvalidPartitions(
            f"The assignment of topic {topic!r} has {len(data)} bytes;"
            f" ZooKeeper takes at most {MAX_DATA_BYTES}."
        )
    return data
