"""Which brokers hold which partition of a topic, the preferred leader first.

Rule: the same arguments give the same placement; chance comes in only as start and shift. Leaders
go around the ring of brokers, followers stand behind them at a distance that grows each round.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import Enum, auto
from itertools import count as count_from
from itertools import zip_longest
from typing import NamedTuple

from wire.errors import (
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
)
from wire.ids import BrokerId


class BrokerRack(NamedTuple):
    """A live broker, and the rack that it stands in if it told."""

    broker: BrokerId
    rack: str | None


class RackAwareMode(Enum):
    """What racks count for (KIP-36)."""

    DISABLED = auto()  # nothing
    ENFORCED = auto()  # all or no brokers must have one
    SAFE = auto()  # nothing unless all brokers have one


def place_replicas(
    brokers: Sequence[BrokerRack],
    *,
    partitions: int,
    replication_factor: int,
    start: int,
    shift: int,
    first_partition: int = 0,
    rack_aware: RackAwareMode,
) -> dict[int, tuple[BrokerId, ...]]:
    """As AdminUtils.assignReplicasToBrokers: B084, and B085 where racks count."""
    if partitions <= 0:
        raise InvalidPartitions(f"The number of partitions is {partitions}; it must be 1 or more.")
    if replication_factor < 1:
        raise InvalidReplicationFactor(
            f"The replication factor is {replication_factor}; it must be 1 or more."
        )
    if replication_factor > len(brokers):
        raise InvalidReplicationFactor(
            f"The replication factor is {replication_factor};"
            f" it must be at most the number of live brokers, {len(brokers)}."
        )
    racks = _racks(brokers, rack_aware)
    assert len(racks) == len(brokers), "a broker is listed twice"
    ring = _alternated(racks)
    placement = {}
    for partition in range(first_partition, first_partition + partitions):
        if partition > 0 and partition % len(ring) == 0:
            shift += 1
        leader = (partition + start) % len(ring)
        placement[partition] = _replicas(ring, racks, leader, shift, replication_factor)
    return placement


def _racks(brokers: Sequence[BrokerRack], rack_aware: RackAwareMode) -> dict[BrokerId, str]:
    """The rack of each broker; where racks do not count all stand in one, and B085 is B084."""
    without = sorted(each.broker for each in brokers if each.rack is None)
    if rack_aware is RackAwareMode.ENFORCED and 0 < len(without) < len(brokers):
        raise InvalidRequest(
            f"Some brokers have a rack and these have none: {_listed(without)}."
            " Give each broker a rack, or place replicas without regard to racks."
        )
    if rack_aware is RackAwareMode.DISABLED or without:
        return {each.broker: "" for each in brokers}
    return {each.broker: each.rack or "" for each in brokers}


def _alternated(racks: Mapping[BrokerId, str]) -> list[BrokerId]:
    """One broker of each rack in turn: racks by name, the brokers of a rack by id."""
    by_rack: dict[str, list[BrokerId]] = {rack: [] for rack in sorted(set(racks.values()))}
    for broker in sorted(racks):
        by_rack[racks[broker]].append(broker)
    turns = zip_longest(*by_rack.values())
    return [broker for turn in turns for broker in turn if broker is not None]


def _replicas(
    ring: Sequence[BrokerId],
    racks: Mapping[BrokerId, str],
    leader: int,
    shift: int,
    replication_factor: int,
) -> tuple[BrokerId, ...]:
    """The leader, then whoever comes next: first from racks without a replica, then from any."""
    number_of_racks = len(set(racks.values()))
    replicas = [ring[leader]]
    steps = count_from(shift * number_of_racks)  # also those count that skip a candidate
    while len(replicas) < replication_factor:
        candidate = ring[(leader + 1 + next(steps) % (len(ring) - 1)) % len(ring)]
        used = {racks[each] for each in replicas}
        is_rack_free = racks[candidate] not in used or len(used) == number_of_racks
        if is_rack_free and candidate not in replicas:
            replicas.append(candidate)
    return tuple(replicas)


def extend_replicas(
    existing: Mapping[int, Sequence[BrokerId]],
    brokers: Sequence[BrokerRack],
    *,
    count: int,
    rack_aware: RackAwareMode,
) -> dict[int, tuple[BrokerId, ...]]:
    """The partitions that a topic lacks to have so many: as AdminZkClient.addPartitions (B089)."""
    if not existing.get(0) or sorted(existing) != list(range(len(existing))):
        raise InvalidPartitions(
            f"The topic's partitions are {_listed(sorted(existing)) or 'none'}; only a topic whose"
            " partitions are numbered from 0 without a gap, and that has replicas, can grow."
        )
    if count <= len(existing):
        raise InvalidPartitions(
            f"The number of partitions is {len(existing)} and would become {count};"
            " it can only grow."
        )
    # As in Kafka: a position among the brokers by id, also where racks make another ring of them.
    ids = sorted(each.broker for each in brokers)
    start = next((index for index, each in enumerate(ids) if each >= existing[0][0]), 0)
    return place_replicas(
        brokers,
        partitions=count - len(existing),
        replication_factor=len(existing[0]),
        start=start,
        shift=start,
        first_partition=len(existing),
        rack_aware=rack_aware,
    )


def check_assignment(
    assignments: Mapping[int, Sequence[BrokerId]],
    live: Collection[BrokerId],
    *,
    first_partition: int = 0,
    replication_factor: int | None = None,
) -> None:
    """Refuse replicas chosen by hand that cannot be (B083, B089); without a factor, all agree."""
    if not assignments:
        raise InvalidReplicaAssignment("The assignment is empty; it must have a partition or more.")
    expected = range(first_partition, first_partition + len(assignments))
    for partition, due in zip(sorted(assignments), expected, strict=True):
        if partition != due:
            raise InvalidReplicaAssignment(
                f"Partition {partition} is assigned where partition {due} is due;"
                f" partitions must be numbered from {first_partition} without a gap."
            )
    if replication_factor is None:
        replication_factor = len(assignments[first_partition])
    for partition, replicas in sorted(assignments.items()):
        _check_replicas(partition, replicas, live)
        if len(replicas) != replication_factor:
            raise InvalidReplicaAssignment(
                f"Partition {partition} has the replication factor {len(replicas)}"
                f" ({_listed(replicas)}); all partitions must have {replication_factor}."
            )


def _check_replicas(
    partition: int, replicas: Sequence[BrokerId], live: Collection[BrokerId]
) -> None:
    if not replicas:
        raise InvalidReplicaAssignment(f"Partition {partition} has no replica; it needs a broker.")
    if negative := [each for each in replicas if each < 0]:
        raise InvalidReplicaAssignment(
            f"Partition {partition} names broker {negative[0]}; a broker's id is 0 or more."
        )
    if repeated := sorted({each for each in replicas if replicas.count(each) > 1}):
        raise InvalidReplicaAssignment(
            f"Partition {partition} names broker {repeated[0]} more than once"
            f" ({_listed(replicas)}); each replica needs a broker of its own."
        )
    if unknown := sorted(set(replicas) - set(live)):
        raise InvalidReplicaAssignment(
            f"Partition {partition} names broker {unknown[0]}, which is not alive;"
            f" alive are: {_listed(sorted(live)) or 'none'}."
        )


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))
