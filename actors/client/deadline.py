"""How long a client may still wait.

Rule: every wait of a client ends at a Deadline.
"""

from typing import Final

from runtime.world import Clock

# Times are sums of floats: what is left of one that has rung may be a little above nothing, and a
# wait for so little would not move a clock at all.
NOTHING_MS: Final = 0.001


class Deadline:
    """A moment on a clock."""

    def __init__(self, clock: Clock, timeout_ms: float) -> None:
        self._clock = clock
        self.timeout_ms = timeout_ms
        self._at_ms = clock.elapsed_ms() + timeout_ms

    @property
    def left_ms(self) -> float:
        """What is left of the time; 0 when it is over."""
        left_ms = self._at_ms - self._clock.elapsed_ms()
        return left_ms if left_ms > NOTHING_MS else 0.0

    @property
    def is_over(self) -> bool:
        """Whether the time is over."""
        return self.left_ms == 0
