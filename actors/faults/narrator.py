"""A live account: what is done on purpose, and what the cluster makes of it, a line each.

Rule: it listens and changes nothing: a simulated run is the same with and without it. What is done
is told by whoever does it, so the trace's own word of it is left out.
"""

from collections.abc import Callable
from typing import Final

from actors.faults.stage import Stage
from actors.story import TELLERS, Teller
from wire.trace import FaultHealed, FaultInjected, Stamp, TraceEvent

Say = Callable[[str], None]
SIGNS: Final = {"good": "+", "info": " ", "warning": "!", "bad": "✗"}
DEED: Final = "»"
OWN: Final = (FaultInjected, FaultHealed)


class Narrator:
    """Tells of one run."""

    def __init__(self, stage: Stage, say: Say) -> None:
        self._clock, self._say = stage.clock, say
        self._begun_ms = stage.clock.elapsed_ms()
        self._teller = Teller()
        self._last = ""
        kinds = [kind for kind in TELLERS if kind not in OWN]
        self.stop = stage.watch(kinds, self._hear)

    def tell(self, line: str) -> None:
        """Something is done."""
        self._line(f"{DEED} {line}")

    def _hear(self, stamp: Stamp, event: TraceEvent) -> None:
        told = self._teller.tell(stamp, event)
        if told is not None and told.text != self._last:  # two brokers may say the same
            self._last = told.text
            self._line(f"{SIGNS[told.level]} {told.text}")

    def _line(self, line: str) -> None:
        self._say(f"{(self._clock.elapsed_ms() - self._begun_ms) / 1000:9.3f} s {line}")
