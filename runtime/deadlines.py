"""Time-outs for many short waits.

Rule: a time-out that is not reached costs an append. asyncio's own timers cost a heap entry each,
a third of an ask; nearly all waits here are answered, and nearly all of those with one time-out
ask for the same number of milliseconds, so waits queue up by that number, oldest first.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

Wait = tuple[float, asyncio.Future[Any], Callable[[], Exception]]


class Deadlines:
    """Fails futures that are not done in time."""

    def __init__(self) -> None:
        self._waits: dict[float, deque[Wait]] = {}
        self._armed: dict[float, asyncio.TimerHandle] = {}

    def watch(
        self, future: asyncio.Future[Any], timeout_ms: float, error: Callable[[], Exception]
    ) -> None:
        """Fail the future with `error()` unless it is done in time."""
        waits = self._waits.get(timeout_ms)
        if waits is None:
            waits = self._waits[timeout_ms] = deque()
        while waits and waits[0][1].done():
            waits.popleft()
        loop = future.get_loop()
        deadline = loop.time() + timeout_ms / 1000
        waits.append((deadline, future, error))
        if timeout_ms not in self._armed:
            self._armed[timeout_ms] = loop.call_at(deadline, self._ring, timeout_ms)

    def close(self) -> None:
        """Watch nobody any more: a timer of an hour would keep a dead node for an hour."""
        for timer in self._armed.values():
            timer.cancel()
        self._armed.clear()
        self._waits.clear()

    def _ring(self, timeout_ms: float) -> None:
        waits = self._waits[timeout_ms]
        while waits:
            deadline, future, error = waits[0]
            loop = future.get_loop()
            if not future.done():
                if deadline > loop.time():
                    self._armed[timeout_ms] = loop.call_at(deadline, self._ring, timeout_ms)
                    return
                future.set_exception(error())
            waits.popleft()
        del self._armed[timeout_ms]
        del self._waits[timeout_ms]
