"""Which control requests are under way.

Rule: what a controller has sent and heard nothing of is sent again when its time is up. Until then
a cluster may be whole and at rest, and somebody in it not know yet what all others know.
"""

from actors.faults.calls import is_control
from runtime.simulation.network import Onlooker
from runtime.simulation.simulator import Simulator
from wire.frame import ANSWERS, Frame, FrameKind


class Unanswered(Onlooker):
    """Looks at what is sent, and at answers that arrive."""

    def __init__(self, sim: Simulator) -> None:
        self._calls: set[tuple[str, str, int]] = set()  # from, to, number
        sim.tamper.onlookers.append(self._on_sent)
        sim.network.onlookers.append(self)

    def of(self, node: str) -> bool:
        """Whether this node waits for somebody; what a former life of it asked counts too."""
        return any(source == node for source, *_ in self._calls)

    def _on_sent(self, frame: Frame) -> None:
        if frame.kind is FrameKind.REQUEST and is_control(frame.payload):
            self._calls.add((frame.source, frame.destination, frame.correlation))

    def on_delivery(self, frame: Frame) -> None:
        """An answer has come."""
        if frame.kind in ANSWERS:
            self._calls.discard((frame.destination, frame.source, frame.correlation))
