"""An event loop whose clock jumps.

Rule: when nothing is ready, time moves to the next timer at once. There is no I/O and there are no
threads here, so nothing outside the seed decides what runs next. Timers due at the same moment run
in the order in which they were set. What a selector, a debugger and other threads would need is
left out: a simulation spends a quarter of its time in here.
"""

# asyncio has no public way to replace the clock: this file reaches into BaseEventLoop.
# mypy: disable-error-code="override, attr-defined, has-type"
# ruff: noqa: SLF001

import asyncio
import heapq
from asyncio import events
from collections.abc import Callable
from contextvars import Context
from typing import Any, Final, TypeVar

T = TypeVar("T")
RESOLUTION_S: Final = 1e-9
_Entry = tuple[float, int, asyncio.TimerHandle]


class Stalled(RuntimeError):
    """Everything waits, and nothing will ever happen: a deadlock, found at once."""


class SimulatedLoop(asyncio.BaseEventLoop):
    """A loop in virtual time, which starts at 0."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._place = 0
        self._timers: list[_Entry] = []  # a heap

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._now

    def call_at(
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Run the callback at a virtual time; equal times keep their order."""
        self._check_closed()
        when = max(when, self._now)
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        self._place += 1
        heapq.heappush(self._timers, (when, self._place, timer))
        return timer

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """Run the callback after all that is ready now."""
        self._check_closed()
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def next_timer(self) -> float | None:
        """When the next timer is due, if there is one."""
        timers = self._timers
        while timers and timers[0][2]._cancelled:
            heapq.heappop(timers)
        return timers[0][0] if timers else None

    def _run_once(self) -> None:
        """Run what is ready; if nothing is, what is due next."""
        ready, timers = self._ready, self._timers
        due = self.next_timer()
        if not ready and not self._stopping:
            if due is None:
                raise Stalled("everything waits and no timer is set")
            self._now = max(self._now, due)
        end = self._now + RESOLUTION_S
        while timers and timers[0][0] < end:
            ready.append(heapq.heappop(timers)[2])
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()

    def call_soon_threadsafe(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """There are no other threads: what calls this comes from this one."""
        return self.call_soon(callback, *args, context=context)

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:
        """Refuse: a thread would decide the order of things by itself."""
        raise RuntimeError(f"{func} wants a thread, and the simulated world has none")

    def _write_to_self(self) -> None:
        pass  # nobody sleeps in a selector here

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """There is none."""


class SimulatedPolicy(asyncio.DefaultEventLoopPolicy):
    """Makes simulated loops, for whoever asks asyncio for a loop."""

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        """A loop at time 0."""
        return SimulatedLoop()


def running_simulated_loop() -> SimulatedLoop:
    """The loop that runs now, which must be a simulated one."""
    loop = events.get_running_loop()
    assert isinstance(loop, SimulatedLoop), "this runs only in the simulated world"
    return loop


def is_simulated() -> bool:
    """Whether the loop that runs now is a simulated one."""
    return isinstance(events.get_running_loop(), SimulatedLoop)
