"""Partitions and replicas go from state to state as Kafka's tables say.

Rule: the tables are written out here once more, from B039 and B050, so that a mistake in those of
the controller is found. A controller that takes office gives everything its first state; that is
no change.
"""

from collections.abc import Mapping
from typing import ClassVar, Final

from actors.faults.invariant import Invariant
from actors.faults.ledger import TopicChange
from wire.ids import NO_BROKER, TopicPartition
from wire.trace import (
    ControllerElected,
    ControllerResigned,
    FailoverStep,
    NodeStopped,
    PartitionStateChanged,
    ReplicaStateChanged,
    TraceEvent,
    TransitionRefused,
)

Table = Mapping[str, frozenset[str]]


def _table(suffix: str, rows: Mapping[str, str]) -> Table:
    return {
        _named(to, suffix): frozenset(_named(each, suffix) for each in sources.split())
        for to, sources in rows.items()
    }


def _named(phase: str, suffix: str) -> str:
    return f"Replica{phase}" if phase.startswith("Deletion") else f"{phase}{suffix}"


PARTITIONS: Final = _table(
    "Partition",
    {
        "New": "NonExistent",
        "Online": "New Online Offline",
        "Offline": "New Online Offline",
        "NonExistent": "Offline",
    },
)
REPLICAS: Final = _table(
    "Replica",
    {
        "New": "NonExistent",
        "Online": "New Online Offline DeletionIneligible",
        "Offline": "New Online Offline DeletionIneligible",
        "DeletionStarted": "Offline",
        "DeletionSuccessful": "DeletionStarted",
        "DeletionIneligible": "Offline DeletionStarted",
        "NonExistent": "DeletionSuccessful",
    },
)
NOWHERE: Final = ("NonExistentPartition", "NonExistentReplica")
FIRST: Final = {  # what a new controller may find, and the step after which it has found all
    NO_BROKER: ({"NewPartition", "OnlinePartition", "OfflinePartition"}, "partition states"),
    0: ({"OnlineReplica", "ReplicaDeletionIneligible"}, "replica states"),
}


class ChangesAreLegal(Invariant):
    """I-9: every change is a row of its table, and a refused one changes nothing."""

    name = "I-9"
    events: ClassVar[tuple[type[TraceEvent], ...]] = (
        ControllerElected,
        ControllerResigned,
        FailoverStep,
        NodeStopped,
        PartitionStateChanged,
        ReplicaStateChanged,
        TransitionRefused,
    )

    def __init__(self) -> None:
        self._phases: dict[str, dict[tuple[TopicPartition, int], str]] = {}  # by controller
        self._beginning: dict[str, set[str]] = {}  # steps that a new controller has yet to do

    def on_event(self, node: str, event: TraceEvent) -> None:
        """Judge a change."""
        match event:
            case PartitionStateChanged():
                self._change(node, event, NO_BROKER, PARTITIONS)
            case ReplicaStateChanged():
                self._change(node, event, event.broker, REPLICAS)
            case TransitionRefused():
                where = (TopicPartition(event.topic, event.partition), event.broker)
                self._follows(node, where, event.before)
            case FailoverStep():
                self._beginning.get(node, set()).discard(event.step)
            case ControllerElected():
                self._phases[node] = {}
                self._beginning[node] = {step for _, step in FIRST.values()}
            case _:
                self._phases.pop(node, None)

    def on_topic(self, change: TopicChange) -> None:
        """Nobody tells of each partition of a topic that is gone."""
        if change.after is None:
            for phases in self._phases.values():
                for where in [each for each in phases if each[0].topic == change.topic]:
                    del phases[where]

    def _change(
        self,
        node: str,
        event: PartitionStateChanged | ReplicaStateChanged,
        broker: int,
        table: Table,
    ) -> None:
        where = (TopicPartition(event.topic, event.partition), broker)
        self._follows(node, where, event.before)
        first, step = FIRST[min(broker, 0)]
        is_beginning = step in self._beginning.get(node, ())
        is_first = is_beginning and event.before in NOWHERE and event.after in first
        if event.before not in table.get(event.after, ()) and not is_first:
            self.found(
                f"{node} moves {_name(broker)} from {event.before} to {event.after}",
                partition=where[0],
            )
        self._phases.setdefault(node, {})[where] = event.after

    def _follows(self, node: str, where: tuple[TopicPartition, int], before: str) -> None:
        known = self._phases.get(node, {}).get(where)
        if known is not None and known != before:
            self.found(
                f"{node} finds {_name(where[1])} {before}, which was {known}", partition=where[0]
            )


def _name(broker: int) -> str:
    return "it" if broker == NO_BROKER else f"the replica of {broker}"
