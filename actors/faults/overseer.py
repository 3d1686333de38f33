"""Invariants of a real cluster in this process: what can be seen without ZooKeeper's own eyes.

Rule: as Watched for the simulator, it only looks, after every event of the trace. What needs each
transaction of ZooKeeper in its order is left to the simulator; what must have come about in the end
is asked of a snapshot. A process that is killed loses nothing here: the operating system keeps what
it wrote, so no promise is void for that.
"""

from actors.faults.answers import CommittedOffsetsAreNotLost
from actors.faults.files import IndexesAreTrue
from actors.faults.invariant import Invariant
from actors.faults.invariants import Invariants
from actors.faults.leadership import OneLeaderAppendsPerEpoch, ZombiesCannotCommit
from actors.faults.liveness import (
    EverybodyIsInSync,
    LeadersAreBalanced,
    MetadataIsTrue,
    NobodyWaits,
    OneControllerInTheEnd,
    RequestsAreConsumed,
)
from actors.faults.matching import LogsAreContiguous, LogsMatch
from actors.faults.orders import BrokersTakeNewsOnly
from actors.faults.phases import ChangesAreLegal
from actors.faults.promises import CommittedIsNeverLost, VisibleIsNeverLost
from actors.faults.sight import Sight
from actors.faults.snapshot import ledger_of
from actors.faults.states import ControllersBelieveZooKeeper
from actors.faults.violation import Violation
from actors.faults.watermarks import HighWatermarksAreSound
from actors.node_cluster import NodeCluster
from runtime.simulation.tree import Tree
from wire.frame import Frame
from wire.ids import TopicPartition
from wire.trace import Stamp, TopicDeletionStep, TraceEvent


class AcknowledgedStays(CommittedIsNeverLost):
    """I-7, where nothing that was written is lost by a kill."""

    def _void_lost(self, sight: Sight) -> None:
        del sight


class ShownStays(VisibleIsNeverLost):
    """I-19, where nothing that was written is lost by a kill."""

    def _void_lost(self, sight: Sight) -> None:
        del sight


class ChangesByEvents(ChangesAreLegal):
    """I-9, told by the trace and not by ZooKeeper that a topic is gone."""

    events = (*ChangesAreLegal.events, TopicDeletionStep)

    def on_event(self, node: str, event: TraceEvent) -> None:
        """Judge a change."""
        if not isinstance(event, TopicDeletionStep):
            super().on_event(node, event)
        elif event.step == "completed":
            for phases in self._phases.values():
                for where in [each for each in phases if each[0].topic == event.topic]:
                    del phases[where]


class Overseer:
    """Looks on while a real cluster is played with."""

    def __init__(self, cluster: NodeCluster) -> None:
        self._cluster = cluster
        self._committed = AcknowledgedStays()
        self.violation: Violation | None = None
        self._live = MetadataIsTrue()  # it must hear of deletions meanwhile
        self._invariants = Invariants(cluster, cluster.clock.elapsed_ms, self._lasting())
        cluster.universe.tamper.onlookers.append(self._on_sent)
        cluster.universe.trace.listeners.append(self._on_event)

    def _lasting(self) -> tuple[Invariant, ...]:
        voided = self._committed.voided
        return (
            self._committed,
            LogsMatch(voided),
            HighWatermarksAreSound(),
            ShownStays(),
            OneLeaderAppendsPerEpoch(),
            ZombiesCannotCommit(),
            LogsAreContiguous(),
            IndexesAreTrue(),
            CommittedOffsetsAreNotLost(voided),
            ChangesByEvents(),
            BrokersTakeNewsOnly(),
            self._live,
        )

    @property
    def voided(self) -> set[TopicPartition]:
        """Partitions of which some promise became void."""
        return self._committed.voided

    def stop(self) -> None:
        """Look no more."""
        self._cluster.universe.tamper.onlookers.remove(self._on_sent)
        self._cluster.universe.trace.listeners.remove(self._on_event)

    def raise_if_violated(self) -> None:
        """Raise what was seen."""
        if self.violation is not None:
            raise self.violation

    def judge_in_the_end(self, tree: Tree) -> None:
        """Raise what has not come about, by what ZooKeeper holds now."""
        ledger, sight = ledger_of(tree), Sight(self._cluster)
        final: tuple[Invariant, ...] = (
            OneControllerInTheEnd(),
            EverybodyIsInSync(),
            self._live,
            RequestsAreConsumed(),
            LeadersAreBalanced(),
            NobodyWaits(),
            ControllersBelieveZooKeeper(),
        )
        for each in final:
            each.begin(sight, ledger, [])
            each.check_in_the_end(sight, self._cluster.clock.now_ms())

    def _on_sent(self, frame: Frame) -> None:
        self._invariants.on_sent(frame)

    def _on_event(self, stamp: Stamp, event: TraceEvent) -> None:
        self._invariants.on_event(stamp.node, event)
        if self.violation is None:
            try:
                self._invariants.check()
            except Violation as violation:
                self.violation = violation
