"""All invariants of a cluster, told of all that happens and asked after every step.

Rule: whoever drives a cluster passes on every event, every frame that is sent and every frame that
arrives, and calls `check` after each; the first thing that is wrong is raised there.
"""

from collections.abc import Callable

from actors.faults.answers import (
    PATIENCE_MS,
    CommittedOffsetsAreNotLost,
    OneAnswerARequest,
)
from actors.faults.calls import Calls, broker_at
from actors.faults.files import IndexesAreTrue
from actors.faults.groups import OneAssignmentAGeneration, OneReaderAGeneration
from actors.faults.invariant import Commit, Exchange, Invariant
from actors.faults.leadership import OneLeaderAppendsPerEpoch, ZombiesCannotCommit
from actors.faults.ledger import Ledger, StateChange
from actors.faults.matching import LogsAreContiguous, LogsMatch
from actors.faults.promises import CommittedIsNeverLost, VisibleIsNeverLost
from actors.faults.sight import Sight
from actors.faults.violation import Violation
from actors.faults.watermarks import HighWatermarksAreSound
from actors.node_cluster import NodeCluster
from wire.codec import AnyMessage
from wire.errors import MalformedMessage
from wire.frame import Frame, FrameKind
from wire.parted import unpack
from wire.trace import TraceEvent

OnEvent = Callable[[str, TraceEvent], None]


def data_plane(patience_ms: float = PATIENCE_MS) -> tuple[Invariant, ...]:
    """One of each; in the end nobody may have waited for longer than the patience."""
    committed = CommittedIsNeverLost()
    return (
        committed,
        LogsMatch(committed.voided),
        HighWatermarksAreSound(),
        VisibleIsNeverLost(),
        OneLeaderAppendsPerEpoch(),
        ZombiesCannotCommit(),
        LogsAreContiguous(),
        IndexesAreTrue(),
        OneAnswerARequest(patience_ms),
        CommittedOffsetsAreNotLost(committed.voided),
        OneAssignmentAGeneration(committed.voided),
        OneReaderAGeneration(committed.voided),
    )


class Invariants:
    """What must hold of one cluster."""

    def __init__(
        self,
        cluster: NodeCluster,
        now_ms: Callable[[], float],
        invariants: tuple[Invariant, ...] | None = None,
    ) -> None:
        self.sight = Sight(cluster)
        self.all = data_plane() if invariants is None else invariants
        self._now_ms = now_ms
        self._ledger = Ledger()
        self._calls = Calls()
        self._findings: list[Violation] = []
        for each in self.all:
            each.begin(self.sight, self._ledger, self._findings)
        # Most look at few things, and this is asked thousands of times.
        self._on_event: dict[type[TraceEvent], tuple[OnEvent, ...]] = {}
        self._on_arrival = [each.on_arrival for each in self._with("on_arrival")]
        self._on_sent = [each.on_sent for each in self._with("on_sent")]
        self._on_commit = [each.on_commit for each in self._with("on_commit")]
        self._on_state = [each.on_state for each in self._with("on_state")]
        self._on_topic = [each.on_topic for each in self._with("on_topic")]
        self._on_control_sent = [each.on_control_sent for each in self._with("on_control_sent")]
        self._on_control_arrived = [
            each.on_control_arrived for each in self._with("on_control_arrived")
        ]
        self._on_control_answered = [
            each.on_control_answered for each in self._with("on_control_answered")
        ]
        self._hears_calls = bool(
            self._on_control_sent or self._on_control_arrived or self._on_control_answered
        )
        self._checks = [each.check for each in self._with("check")]
        self._clock = 0  # counts what clients ask and are answered
        self._asked: dict[tuple[str, str, int], tuple[int, AnyMessage]] = {}

    def _with(self, method: str) -> list[Invariant]:
        """Those that have something of their own to say to it."""
        return [each for each in self.all if _has_own(each, method)]

    def on_event(self, node: str, event: TraceEvent) -> None:
        """An event was left in the trace."""
        kind = type(event)
        told = self._on_event.get(kind)
        if told is None:
            told = self._on_event[kind] = tuple(
                each.on_event
                for each in self._with("on_event")
                if not each.events or kind in each.events
            )
        for tell in told:
            tell(node, event)

    def on_arrival(self, frame: Frame) -> None:
        """A frame has come to a node that lives."""
        if self._on_arrival:
            now_ms = self._now_ms()
            for tell in self._on_arrival:
                tell(frame, now_ms)
        if self._on_control_arrived:
            call = self._calls.arrived(frame)
            if call is not None:
                for hear in self._on_control_arrived:
                    hear(call)

    def on_sent(self, frame: Frame) -> None:
        """A frame begins its way."""
        for tell in self._on_sent:
            tell(frame)
        if self._hears_calls:
            self._on_control(frame)
        if frame.kind is FrameKind.REQUEST and broker_at(frame.source) is None:
            self._on_asked(frame)
        elif frame.kind is FrameKind.RESPONSE and broker_at(frame.destination) is None:
            self._on_answered(frame)

    def _on_control(self, frame: Frame) -> None:
        call = self._calls.sent(frame)
        if call is not None:
            for tell in self._on_control_sent:
                tell(call)
            return
        answered = self._calls.answered(frame)
        if answered is not None:
            for hear in self._on_control_answered:
                hear(*answered)

    def on_commit(self, commit: Commit) -> None:
        """A transaction was applied to ZooKeeper."""
        changes = self._ledger.take(*commit)
        for tell in self._on_commit:
            tell(commit)
        for change in changes:
            if isinstance(change, StateChange):
                for hear_state in self._on_state:
                    hear_state(change)
            else:
                for hear_topic in self._on_topic:
                    hear_topic(change)

    def check(self) -> None:
        """Raise Violation if anything is wrong."""
        if self._findings:
            raise self._findings[0]
        if self._checks:
            changed = self.sight.changed()
            for check in self._checks:
                check(changed, self.sight)

    def check_in_the_end(self) -> None:
        """The same, and what must hold once nothing is disturbed any more."""
        self.check()
        for each in self.all:
            each.check_in_the_end(self.sight, self._now_ms())

    def _on_asked(self, frame: Frame) -> None:
        request = _decoded(frame)
        if request is not None:
            self._clock += 1
            call = (frame.source, frame.destination, frame.correlation)
            self._asked[call] = (self._clock, request)
            for each in self.all:
                each.on_asked(request, self._clock)

    def _on_answered(self, frame: Frame) -> None:
        asked = self._asked.pop((frame.destination, frame.source, frame.correlation), None)
        response, broker = _decoded(frame), broker_at(frame.source)
        if asked is None or response is None or broker is None:
            return
        self._clock += 1
        exchange = Exchange(broker, asked[1], response, asked[0], self._clock)
        self.sight.look()
        for each in self.all:
            each.on_answered(exchange, self.sight)


def _has_own(invariant: Invariant, method: str) -> bool:
    return getattr(type(invariant), method) is not getattr(Invariant, method)


def _decoded(frame: Frame) -> AnyMessage | None:
    try:
        return unpack(frame.payload)
    except MalformedMessage:
        return None
