"""Work beside the caller's, for those who are no actors: clients in somebody's program.

Rule: a task belongs to one owner, who hears of its crash and ends it. Nobody who waits can cancel
what others wait for too, and what runs first is the order of starting, in every run.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable
from typing import Any, Generic, TypeVar

from runtime.ref import Outcome
from runtime.tracing import CAUSE

Value = TypeVar("Value")


class Promise(Generic[Value]):
    """A value or an error that will be there; any number may await it."""

    __slots__ = ("_future",)

    def __init__(self) -> None:
        self._future: asyncio.Future[Value] = asyncio.get_running_loop().create_future()

    @property
    def is_settled(self) -> bool:
        """Whether the value or the error is there."""
        return self._future.done()

    def keep(self, value: Value) -> None:
        """Give the value, unless it is settled."""
        if not self._future.done():
            self._future.set_result(value)

    def fail(self, error: Exception) -> None:
        """Give an error, unless it is settled; nobody need look at it."""
        if not self._future.done():
            self._future.set_exception(error)
            self._future.exception()

    def __await__(self) -> Generator[Any, None, Value]:
        # Shielded: whoever is cancelled while waiting must not cancel it for the others.
        return asyncio.shield(self._future).__await__()

    async def settled(self, timeout_ms: float | None = None) -> bool:
        """Wait until it is settled, or for so long; no error is raised."""
        seconds = None if timeout_ms is None else timeout_ms / 1000
        await asyncio.wait([self._future], timeout=seconds)
        return self._future.done()


class Bell:
    """Wakes whoever waits for it at the moment; a ring that nobody hears is gone.

    So look first and then wait, with no other await between.
    """

    __slots__ = ("_waiters",)

    def __init__(self) -> None:
        # A dict for a set: they wake in the order of their coming.
        self._waiters: dict[asyncio.Future[bool], None] = {}

    def ring(self) -> None:
        """Wake all."""
        for waiter in self._waiters:
            _wake(waiter, True)

    async def wait(self, timeout_ms: float | None = None) -> bool:
        """Wait for a ring, or for so long; the answer is whether it rang."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[bool] = loop.create_future()
        timer = None
        if timeout_ms is not None:
            timer = loop.call_later(timeout_ms / 1000, _wake, waiter, False)
        self._waiters[waiter] = None
        try:
            return await waiter
        finally:
            del self._waiters[waiter]
            if timer is not None:
                timer.cancel()


def _wake(waiter: asyncio.Future[bool], has_rung: bool) -> None:
    if not waiter.done():
        waiter.set_result(has_rung)


class Tasks:
    """The tasks of one owner. The first crash is told, and ends none of the others."""

    def __init__(self, on_crash: Callable[[Exception], None]) -> None:
        self._on_crash = on_crash
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._is_open = True

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, work: Coroutine[Any, Any, object]) -> None:
        """Run it aside; after the end, nothing is begun any more."""
        if not self._is_open:
            work.close()
            return
        cause = CAUSE.get()[0]

        async def run() -> None:
            CAUSE.set([cause])  # a cell of its own: an actor writes to the one it was started in
            try:
                await work
            except Exception as error:  # noqa: BLE001 - told to the owner, not swallowed
                self._on_crash(error)

        def on_end(task: asyncio.Task[None]) -> None:
            self._tasks.pop(task, None)
            work.close()  # it may have been cancelled before it began

        task = asyncio.get_running_loop().create_task(run())
        self._tasks[task] = None
        task.add_done_callback(on_end)

    async def idle(self) -> None:
        """Wait until nothing runs."""
        while self._tasks:
            await asyncio.wait(tuple(self._tasks))

    async def close(self) -> None:
        """Cancel what still runs, and wait until it has ended."""
        self._is_open = False
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


async def within(timeout_ms: float, work: Awaitable[Value]) -> Value:
    """Await it for so long; then it is cancelled, and TimeoutError raised."""
    async with asyncio.timeout(timeout_ms / 1000):
        return await work


async def all_of(works: Iterable[Awaitable[Value]]) -> list[Outcome]:
    """Await all of them at once; how each has ended, in their order."""
    ended = await asyncio.gather(*works, return_exceptions=True)
    outcomes = []
    for each in ended:
        if isinstance(each, Exception):
            outcomes.append(Outcome(None, each))
        elif isinstance(each, BaseException):
            raise each
        else:
            outcomes.append(Outcome(each, None))
    return outcomes
