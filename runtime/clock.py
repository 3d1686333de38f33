"""The machine's time, and what is counted and named by it.

Rule: nothing is imported here that a short command would have to wait for.
"""

import asyncio
import secrets
import time
from typing import Final

from runtime.tracing import Trace

FIRST_CORRELATION_BITS: Final = 40  # of randomness in a node's first call number


class RealClock:
    """The machine's clock, and a skew on purpose."""

    def __init__(self, skew_ms: int = 0) -> None:
        self.skew_ms = skew_ms

    def now_ms(self) -> int:
        """Milliseconds since 1970, as this node believes."""
        return time.time_ns() // 1_000_000 + self.skew_ms

    def elapsed_ms(self) -> float:
        """Milliseconds since some moment."""
        return time.perf_counter_ns() / 1e6

    async def sleep(self, duration_ms: float) -> None:
        """Wait."""
        await asyncio.sleep(duration_ms / 1000)


def new_run() -> str:
    """A name for a run's traces: two runs may begin in one second, and in one folder."""
    begun = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    return f"{begun}-{secrets.token_hex(3)}"


def real_trace(*, recording: bool, origin: int = 0) -> Trace:
    """A trace in the machine's time."""
    now_s = time.perf_counter
    epoch_us = round((time.time() - now_s()) * 1e6)
    return Trace(now_s=now_s, epoch_us=epoch_us, origin=origin, recording=recording)
