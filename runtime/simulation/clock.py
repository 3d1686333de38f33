"""A clock that shows the time of a simulated world.

Rule: its time is the loop's; a skew on purpose changes what it shows, and not how time goes by.
"""

import asyncio
from typing import Final

from runtime.simulation.loop import SimulatedLoop

EPOCH_MS: Final = 1_600_000_000_000  # the simulated worlds begin in September 2020


class SimulatedClock:
    """Virtual time, and a skew on purpose."""

    def __init__(self, loop: SimulatedLoop, skew_ms: int = 0) -> None:
        self._loop = loop
        self.skew_ms = skew_ms

    def now_ms(self) -> int:
        """Milliseconds since 1970, as this node believes."""
        return EPOCH_MS + self.skew_ms + round(self._loop.time() * 1000)

    def elapsed_ms(self) -> float:
        """Milliseconds since some moment."""
        return self._loop.time() * 1000

    async def sleep(self, duration_ms: float) -> None:
        """Wait, in virtual time."""
        await asyncio.sleep(duration_ms / 1000)
