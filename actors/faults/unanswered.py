"""Which control requests are under way.

Rule: what a controller has sent and heard nothing of is sent again when its time is up. Until then
a cluster may be whole and at rest, and somebody in it not know yet what all others know.
"""

from collections import Counter

from actors.faults.calls import REQUESTS, is_control
from runtime.simulation.simulator import Simulator
from wire.frame import Frame, FrameKind
from wire.trace import CallFinished, Stamp, TraceEvent

NAMES = frozenset(request.__name__ for request in REQUESTS)


class Unanswered:
    """Counts what is sent, and what has come to an end: answered, given up or cancelled."""

    def __init__(self, sim: Simulator) -> None:
        self._calls: Counter[str] = Counter()  # by who has asked
        sim.tamper.onlookers.append(self._on_sent)
        sim.trace.watch([CallFinished], self._on_finished)

    def of(self, node: str) -> bool:
        """Whether this node waits for somebody."""
        return self._calls[node] > 0

    def _on_sent(self, frame: Frame) -> None:
        if frame.kind is FrameKind.REQUEST and is_control(frame.payload):
            self._calls[frame.source] += 1

    def _on_finished(self, _: Stamp, event: TraceEvent) -> None:
        assert isinstance(event, CallFinished)
        if event.request in NAMES:
            self._calls[event.source] -= 1
