"""A partition's assignment while it moves: pure arithmetic of replicas.

Rule: `adding` and `removing` are what still has to come and to go; the replicas hold both. Where
it came from is `replicas - adding`, where it goes is `replicas - removing` (B104).
"""

from collections.abc import Collection, Iterable

from wire.ids import BrokerId
from wire.znodes import ReplicaAssignment

Brokers = tuple[BrokerId, ...]


def is_moving(assignment: ReplicaAssignment) -> bool:
    """Whether a move is under way."""
    return bool(assignment.adding_replicas or assignment.removing_replicas)


def origin_of(assignment: ReplicaAssignment) -> Brokers:
    """Where a cancelled move returns to."""
    return _less(assignment.replicas, assignment.adding_replicas)


def target_of(assignment: ReplicaAssignment) -> Brokers:
    """Where the move ends."""
    return _less(assignment.replicas, assignment.removing_replicas)


def moving_to(assignment: ReplicaAssignment, target: Brokers) -> ReplicaAssignment:
    """The same partition on its way to another target; where it came from is kept (B107)."""
    origin = origin_of(assignment)
    return ReplicaAssignment(
        replicas=_union(target, origin),
        adding_replicas=_less(target, origin),
        removing_replicas=_less(origin, target),
    )


def arrived(assignment: ReplicaAssignment) -> ReplicaAssignment:
    """The move is over."""
    return ReplicaAssignment(replicas=target_of(assignment))


def keeping(assignment: ReplicaAssignment, broker: BrokerId) -> ReplicaAssignment:
    """With one more replica that stays until the move is over (H35)."""
    return ReplicaAssignment(
        replicas=_union(assignment.replicas, (broker,)),
        adding_replicas=assignment.adding_replicas,
        removing_replicas=_union(assignment.removing_replicas, (broker,)),
    )


def without(assignment: ReplicaAssignment, broker: BrokerId) -> ReplicaAssignment:
    """The replica is gone."""
    return ReplicaAssignment(
        replicas=_less(assignment.replicas, (broker,)),
        adding_replicas=_less(assignment.adding_replicas, (broker,)),
        removing_replicas=_less(assignment.removing_replicas, (broker,)),
    )


def _less(brokers: Iterable[BrokerId], others: Collection[BrokerId]) -> Brokers:
    return tuple(each for each in brokers if each not in others)


def _union(first: Brokers, second: Iterable[BrokerId]) -> Brokers:
    return first + _less(second, first)
