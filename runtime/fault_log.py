"""What was broken on purpose, counted.

Rule: every fault is an event of the trace with a number of its own, by which it can be healed and
found again. What mends it leaves another event, with the same number. A fault that is over at once
has nothing to be mended.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from wire.trace import FaultHealed, FaultInjected, TraceEvent

OF_LINKS: Final = ("cut", "hold")


class Open(NamedTuple):
    """A fault that is not mended yet."""

    fault: str
    target: str
    detail: str


class FaultLog:
    """Tells the trace of faults."""

    def __init__(self, pen: Callable[[TraceEvent], object]) -> None:
        self._pen = pen
        self.last = 0  # the number of the last fault
        self.open: dict[int, Open] = {}

    def injected(self, fault: str, target: str, detail: str = "", *, is_over: bool = False) -> int:
        """Something is broken now; the answer is its number."""
        self.last += 1
        if not is_over:
            self.open[self.last] = Open(fault, target, detail)
        self._pen(FaultInjected(fault, target, detail, self.last))
        return self.last

    def healed(self, fault: str, target: str, detail: str | None = None) -> int:
        """Something is mended: the last of its kind; the answer is its number, or 0."""
        number = next(iter(reversed(self.find(fault, target, detail))), 0)
        self.open.pop(number, None)
        self._pen(FaultHealed(fault, target, number))
        return number

    def undone(self, number: int) -> None:
        """That one is mended, if it was not before."""
        found = self.open.pop(number, None)
        if found is not None:
            self._pen(FaultHealed(found.fault, found.target, number))

    def links_healed(self) -> None:
        """All links are well."""
        for number, found in tuple(self.open.items()):
            if found.fault in OF_LINKS:
                self.undone(number)
        self._pen(FaultHealed("links", "all"))

    def find(self, fault: str, target: str, detail: str | None = None) -> list[int]:
        """The numbers of such faults, the oldest first."""
        return [
            number
            for number, found in self.open.items()
            if found[:2] == (fault, target) and detail in {None, found.detail}
        ]
