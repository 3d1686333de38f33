"""A loop in a thread of its own, for programs that do not await.

Rule: what is asked of the thread is answered, or has ended, before the caller goes on, also when
the caller is interrupted: a Ctrl-C leaves nothing half done behind.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import CancelledError, Future, wait
from typing import Any, Final, TypeVar

T = TypeVar("T")
GRACE_S: Final = 10  # so long an interrupted caller waits for what it asked for to end


class ThreadClosed(RuntimeError):
    """The thread has ended, and with it all that lived there."""


class LoopThread:
    """Runs coroutines for callers in other threads; a program that just ends takes it along."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._begun: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()
        self._thread = threading.Thread(target=self._main, name=name, daemon=True)
        self._lock = threading.Lock()
        self._is_open = True
        self._thread.start()
        self._loop, self._end = self._begun.result()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Have a coroutine run, and wait for its end."""
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError(f"{self._name} would wait for itself: await this instead")
        answer: Future[T] = Future()
        tasks: list[asyncio.Task[T]] = []

        def begin() -> None:
            tasks.append(_begin(work, answer))

        def cancel() -> None:
            tasks[0].cancel()

        with self._lock:  # whoever closes comes before or after this, and not between
            if not self._is_open:
                work.close()
                raise ThreadClosed(f"{self._name} is closed")
            self._loop.call_soon_threadsafe(begin)
        try:
            return answer.result()
        except BaseException:
            if not answer.done():  # the caller was interrupted, not the work
                self._loop.call_soon_threadsafe(cancel)
                wait([answer], GRACE_S)
            raise

    def call(self, work: Callable[[], Any]) -> Any:
        """Have a function run there; what it returns is awaited if it is a coroutine."""

        async def called() -> Any:
            value = work()
            return await value if isinstance(value, Coroutine) else value

        return self.run(called())

    def result_of(self, value: Awaitable[T]) -> T:
        """Wait for something that a coroutine left to be awaited."""

        async def awaited() -> T:
            return await value

        return self.run(awaited())

    def close(self) -> None:
        """End all that still runs there, and the thread."""
        with self._lock:
            if not self._is_open:
                return
            self._is_open = False
            self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()

    def _main(self) -> None:
        async def live() -> None:
            end = asyncio.Event()
            self._begun.set_result((asyncio.get_running_loop(), end))
            await end.wait()

        with asyncio.Runner() as runner:  # which cancels what is left, and waits for it
            runner.run(live())


def _begin(work: Coroutine[Any, Any, T], answer: Future[T]) -> asyncio.Task[T]:
    def settle(task: asyncio.Task[T]) -> None:
        if task.cancelled():
            answer.set_exception(CancelledError())  # its own cancel() would not wake `wait`
        elif (error := task.exception()) is not None:
            answer.set_exception(error)
        else:
            answer.set_result(task.result())

    task = asyncio.get_running_loop().create_task(work)
    task.add_done_callback(settle)
    return task
