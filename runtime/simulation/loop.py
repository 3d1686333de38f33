"""An event loop whose clock jumps.

Rule: when nothing is ready, time moves to the next timer at once. There is no I/O and there are no
threads here, so nothing outside the seed decides what runs next. Timers due at the same moment run
in the order in which they were set.
"""

# asyncio has no public way to replace the clock: this file reaches into BaseEventLoop.
# mypy: disable-error-code="override, attr-defined, has-type"
# ruff: noqa: SLF001

import asyncio
import heapq
from asyncio import events
from collections.abc import Callable
from contextvars import Context
from typing import Any, TypeVar

T = TypeVar("T")


class Stalled(RuntimeError):
    """Everything waits, and nothing will ever happen: a deadlock, found at once."""


class _Timer(asyncio.TimerHandle):
    """A timer with a place in the queue among those due at the same time."""

    __slots__ = ("place",)
    place: int

    def __lt__(self, other: Any) -> bool:
        if self._when == other._when:
            return bool(self.place < other.place)
        return bool(self._when < other._when)


class _Jump:
    """Stands where a selector would be: it never waits, it moves the clock."""

    def __init__(self, loop: "SimulatedLoop") -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise Stalled("everything waits and no timer is set")
        if timeout > 0:
            self._loop.jump()
        return []


class SimulatedLoop(asyncio.BaseEventLoop):
    """A loop in virtual time, which starts at 0."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._place = 0
        self._selector = _Jump(self)
        self._clock_resolution = 1e-9

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
        timer = _Timer(max(when, self._now), callback, args, self, context)
        timer.place = self._place = self._place + 1
        heapq.heappush(self._scheduled, timer)
        timer._scheduled = True
        return timer

    def jump(self) -> None:
        """Move the clock to the next timer."""
        if self._scheduled:
            self._now = max(self._now, self._scheduled[0]._when)

    def next_timer(self) -> float | None:
        """When the next timer is due, if there is one."""
        while self._scheduled and self._scheduled[0].cancelled():
            timer = heapq.heappop(self._scheduled)
            timer._scheduled = False
            self._timer_cancelled_count = max(0, self._timer_cancelled_count - 1)
        return self._scheduled[0]._when if self._scheduled else None

    def call_soon_threadsafe(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """There are no other threads: what calls this comes from this one."""
        return self.call_soon(callback, *args, context=context)

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:
        """Refuse: a thread would decide the order of things by itself."""
        raise RuntimeError(f"{func} wants a thread, and the simulated world has none")

    def _process_events(self, event_list: list[Any]) -> None:
        assert not event_list

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
