"""What a test waits for: `await cluster.until(isr("orders", 0) == {1, 2})`.

Rule: a condition is a value that says, of a ClusterView, whether it holds, and in words what is the
case if it does not. Nothing here waits.
"""

import operator
from collections.abc import Callable, Set
from typing import Any, Final

from actors.view import ClusterView, OffsetsView, PartitionView
from wire.ids import NO_BROKER, TopicPartition
from wire.trace import (
    BrokerRegistered,
    BrokerStateChanged,
    ControllerElected,
    ControllerResigned,
    FailoverStep,
    FaultHealed,
    FaultInjected,
    HighWatermarkMoved,
    IsrChanged,
    LeaderElected,
    LogTruncated,
    NodePaused,
    NodeResumed,
    NodeStopped,
    PartitionStateChanged,
    ReassignmentStep,
    RecordsAppended,
    ReplicaLeftIsr,
    ReplicaRoleChanged,
    TopicDeletionStep,
)

# The events after which a view may be another.
WAKING: Final = (
    BrokerRegistered,
    BrokerStateChanged,
    ControllerElected,
    ControllerResigned,
    FailoverStep,
    FaultHealed,
    FaultInjected,
    HighWatermarkMoved,
    IsrChanged,
    LeaderElected,
    LogTruncated,
    NodePaused,
    NodeResumed,
    NodeStopped,
    PartitionStateChanged,
    ReassignmentStep,
    RecordsAppended,
    ReplicaLeftIsr,
    ReplicaRoleChanged,
    TopicDeletionStep,
)


class NotReached(AssertionError):
    """What was waited for has not come; the sentence says what is the case instead."""


class Condition:
    """Something that holds of a cluster, or does not yet."""

    def __init__(
        self, holds: Callable[[ClusterView], bool], said: str, now: Callable[[ClusterView], str]
    ) -> None:
        self.holds = holds
        self._said = said
        self.now = now

    @classmethod
    def of(cls, holds: Callable[[ClusterView], bool]) -> "Condition":
        """A condition from any function of a view."""
        return cls(holds, getattr(holds, "__name__", "a condition"), lambda _: "it does not hold")

    def __str__(self) -> str:
        return self._said

    def __bool__(self) -> bool:
        raise TypeError(f"{self} is a condition to be waited for: await cluster.until(…)")

    def __and__(self, other: "Condition") -> "Condition":
        return Condition(
            lambda view: self.holds(view) and other.holds(view),
            f"{self} and {other}",
            lambda view: f"{self.now(view)}, {other.now(view)}",
        )

    def __or__(self, other: "Condition") -> "Condition":
        return Condition(
            lambda view: self.holds(view) or other.holds(view),
            f"{self} or {other}",
            lambda view: f"{self.now(view)}, {other.now(view)}",
        )

    def __invert__(self) -> "Condition":
        return Condition(lambda view: not self.holds(view), f"not ({self})", self.now)

    def unmet(self, view: ClusterView, timeout_ms: float) -> str:
        """Why a wait for it has ended in vain."""
        return f"{self} was not so within {timeout_ms:g} ms: {self.now(view)}"


class Observable:
    """Something that can be read off a cluster; compared with a value it is a Condition."""

    def __init__(
        self, name: str, read: Callable[[ClusterView], Any], *, nobody: object = None
    ) -> None:
        self._name = name
        self.read = read
        self._nobody = nobody  # who waits for another one than X does not mean this

    def __repr__(self) -> str:
        return self._name

    __hash__ = None  # type: ignore[assignment]  # equality is a condition here

    def _compare(self, sign: str, compare: Callable[[Any, Any], bool], value: Any) -> Condition:
        wanted = frozenset(value) if isinstance(value, Set | list | tuple) else value

        def holds(view: ClusterView) -> bool:
            found = self.read(view)
            return found is not None and compare(found, wanted)

        def now(view: ClusterView) -> str:
            return f"{self._name} is {_plain(self.read(view))}"

        return Condition(holds, f"{self._name} {sign} {_plain(wanted)}", now)

    def __eq__(self, value: object) -> Condition:  # type: ignore[override]
        return self._compare("==", operator.eq, value)

    def __ne__(self, value: object) -> Condition:  # type: ignore[override]
        nobody = self._nobody
        return self._compare("!=", lambda found, not_this: found not in (not_this, nobody), value)

    def __ge__(self, value: Any) -> Condition:
        return self._compare(">=", operator.ge, value)

    def __gt__(self, value: Any) -> Condition:
        return self._compare(">", operator.gt, value)

    def __le__(self, value: Any) -> Condition:
        return self._compare("<=", operator.le, value)

    def __lt__(self, value: Any) -> Condition:
        return self._compare("<", operator.lt, value)


def _plain(value: Any) -> str:
    return str(set(value) or "{}") if isinstance(value, Set) else str(value)


def _partition(topic: str, partition: int) -> Callable[[ClusterView], PartitionView | None]:
    where = TopicPartition(topic, partition)
    return lambda view: view.partitions.get(where)


def _of_partition(
    what: str, topic: str, partition: int, read: Callable[[PartitionView], Any]
) -> Observable:
    find = _partition(topic, partition)

    def found(view: ClusterView) -> Any:
        known = find(view)
        return None if known is None else read(known)

    return Observable(f"{what}({topic!r}, {partition})", found, nobody=NO_BROKER)


def _of_offsets(
    what: str, topic: str, partition: int, read: Callable[[OffsetsView], Any]
) -> Observable:
    where = TopicPartition(topic, partition)

    def found(view: ClusterView) -> Any:
        known = view.offsets.get(where)
        return None if known is None else read(known)

    return Observable(f"{what}({topic!r}, {partition})", found)


def leader(topic: str, partition: int = 0) -> Observable:
    """Who leads a partition; -1 if nobody does. `!= 1` waits for another leader than 1."""
    return _of_partition("leader", topic, partition, lambda each: each.leader)


def leader_epoch(topic: str, partition: int = 0) -> Observable:
    """In which epoch it is led."""
    return _of_partition("leader_epoch", topic, partition, lambda each: each.leader_epoch)


def isr(topic: str, partition: int = 0) -> Observable:
    """Who is in sync: a set of broker ids."""
    return _of_partition("isr", topic, partition, lambda each: frozenset(each.isr))


def replicas(topic: str, partition: int = 0) -> Observable:
    """Who holds a partition: a set of broker ids."""
    return _of_partition("replicas", topic, partition, lambda each: frozenset(each.replicas))


def high_watermark(topic: str, partition: int = 0) -> Observable:
    """Up to which offset all in-sync replicas have it, as its leader says."""
    return _of_offsets("high_watermark", topic, partition, lambda each: each.high_watermark)


def log_end_offset(topic: str, partition: int, broker: int) -> Observable:
    """Where one replica's log ends."""
    found = _of_offsets("log_end_offset", topic, partition, lambda each: each.ends.get(broker))
    return Observable(f"log_end_offset({topic!r}, {partition}, {broker})", found.read)


def controller() -> Observable:
    """Which broker is the controller; -1 if none is."""
    return Observable("controller()", lambda view: view.controller, nobody=NO_BROKER)


def controller_epoch() -> Observable:
    """Of the controller that reigns."""
    return Observable("controller_epoch()", lambda view: view.controller_epoch)


def offline_partitions() -> Observable:
    """How many partitions nobody leads."""
    return Observable("offline_partitions()", lambda view: view.offline)


def under_replicated_partitions() -> Observable:
    """How many partitions lack a replica in sync."""
    return Observable("under_replicated_partitions()", lambda view: view.under_replicated)


def brokers_up() -> Observable:
    """Which brokers take part: a set of ids."""
    return Observable(
        "brokers_up()",
        lambda view: frozenset(broker for broker, of in view.brokers.items() if of.is_up),
    )


def broker_state(broker: int) -> Observable:
    """What a broker is: "up", "controller", "paused", "down" and so on."""

    def found(view: ClusterView) -> str | None:
        known = view.brokers.get(broker)
        return None if known is None else known.state.value

    return Observable(f"broker_state({broker})", found)


def topics() -> Observable:
    """The names of all topics: a set."""
    return Observable("topics()", lambda view: frozenset(each.topic for each in view.partitions))
