"""What was broken on purpose, counted.

Rule: every fault is an event of the trace with a number of its own, by which it can be healed and
found again.
"""

from runtime.tracing import NodeTrace
from wire.trace import FaultHealed, FaultInjected


class FaultLog:
    """Tells the trace of faults."""

    def __init__(self, pen: NodeTrace) -> None:
        self._pen = pen
        self.last = 0  # the number of the last fault

    def injected(self, fault: str, target: str, detail: str = "") -> int:
        """Something is broken now; the answer is its number."""
        self.last += 1
        self._pen(FaultInjected(fault, target, detail, self.last))
        return self.last

    def healed(self, fault: str, target: str, number: int = 0) -> None:
        """Something is mended."""
        self._pen(FaultHealed(fault, target, number))
