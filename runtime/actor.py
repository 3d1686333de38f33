"""An actor: a task, an inbox, tell, ask, timers. This file alone imports pykka.

Rule: an actor handles one message at a time, awaits included, and nobody else touches its state.
Pykka gives the contract (inbox, future, start, stop, failure); asyncio gives the running. Pykka's
global registry, its random URNs and its blocking `get` and `stop` do not leave this file.
"""

import asyncio
import sys
import traceback
from collections.abc import Awaitable, Callable, Coroutine
from types import TracebackType
from typing import Any, ClassVar, Final, Protocol, cast

import pykka
from pykka.messages import _ActorStop as _Stop

from runtime.deadlines import Deadlines
from runtime.ref import ActorGone, Inbox, Outcome, Ref, Timer
from runtime.tracing import CAUSE, MESSAGE, NOT_TIMED, NodeTrace
from wire.errors import ApiError
from wire.trace import ActorCrashed, ActorStarted, ActorStopped, MessageRefused

BURST: Final = 64  # messages before an actor lets the others run
_, REFUSED, CRASHED, CANCELLED = range(4)  # indexes of wire.trace.OUTCOMES


class Host(Protocol):
    """What an actor needs of the system it lives in."""

    trace: NodeTrace
    deadlines: Deadlines
    gate: asyncio.Future[None] | None  # there while the node is paused

    def on_actor_ended(self, actor: "Actor", error: BaseException | None) -> None:
        """An actor is gone; with an error, it crashed."""


class _Future(pykka.Future[Any]):
    """Pykka's future over asyncio's: awaited, never blocked on."""

    def __init__(self) -> None:
        super().__init__()
        self.future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def get(self, *, timeout: float | None = None) -> Any:
        if not self.future.done():
            raise RuntimeError("an asyncio actor's future is awaited, not waited for")
        return self.future.result()

    def set(self, value: Any = None) -> None:
        if not self.future.done():
            self.future.set_result(value)

    def set_exception(self, exc_info: Any = None) -> None:
        error = (exc_info or sys.exc_info())[1]
        if error is not None and not self.future.done():
            self.future.set_exception(error)

    def __await__(self) -> Any:
        return self.future.__await__()


class _Inbox(Inbox):
    """The inbox as pykka knows it."""

    __slots__ = ()

    def put(self, envelope: Any, /) -> None:
        reply_to = None if envelope.reply_to is None else envelope.reply_to.future
        self.push(envelope.message, reply_to, 0, NOT_TIMED)

    def get(self) -> Any:
        raise RuntimeError("only the actor's own task takes from its inbox")

    def empty(self) -> bool:
        return not self.queue


# Pykka's hooks are plain functions and ours are coroutines: to mypy the base is anything.
_PykkaActor: Any = pykka.Actor


class Actor(_PykkaActor):  # type: ignore[misc]
    """Owns its state; the system that starts it gives it an address and runs it."""

    inbox_limit: ClassVar[int] = 100_000
    is_timed: ClassVar[bool] = False  # whether `waited_s` is kept, with or without a trace

    def __init__(self) -> None:
        super().__init__()
        self.inbox: Inbox = cast(Inbox, self.actor_inbox)
        self.ref = Ref(self, self.inbox_limit)
        self.is_open = True
        self.now_s: Callable[[], float] | None = None  # None: no trace is kept of messages
        self.waited_s = 0.0  # how long the message at hand was in the inbox
        self.host: Host | None = None
        self._task: asyncio.Task[None] | None = None
        # Dicts for sets: these are cancelled in the order of their coming, in every run.
        self._piped: dict[asyncio.Task[None], None] = {}
        self._timers: dict[asyncio.TimerHandle, None] = {}

    # --- what subclasses write -------------------------------------------------------------

    async def on_receive(self, message: Any) -> Any:
        """Handle one message; what it returns answers an ask."""
        raise NotImplementedError(f"{type(self).__name__} does not say what it does with messages")

    async def on_start(self) -> None:
        """Runs before the first message."""

    async def on_stop(self) -> None:
        """Runs after the last message of an actor that was asked to stop; not after a crash."""

    def on_failure(
        self,
        exception_type: type[BaseException] | None,
        exception_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Runs after a crash, before the node goes down."""

    # --- what subclasses use -----------------------------------------------------------------

    @property
    def address(self) -> str:
        """This actor's readable name."""
        return self.actor_urn

    @property
    def deadlines(self) -> Deadlines:
        """Where asks of this actor time out."""
        assert self.host is not None, "an actor is launched by a system"
        return self.host.deadlines

    def after(self, delay_ms: float, message: Any) -> Timer:
        """A timer is a message to myself."""
        loop = asyncio.get_running_loop()
        cause = CAUSE.get()[0]

        def ring() -> None:
            self._timers.pop(handle, None)
            self._push_to_self(message, cause)

        handle = loop.call_later(delay_ms / 1000, ring)
        self._timers[handle] = None
        return Timer(handle, self._timers)

    def pipe(self, awaitable: Awaitable[Any], wrap: Callable[[Outcome], Any]) -> None:
        """Await aside, and tell myself `wrap(outcome)`: how a handler asks, or waits long.

        A bug in what is awaited (not an ApiError, not an error of the runtime) still reaches
        `wrap`, whose message handler raises it by `outcome.get()`: so it is never lost.
        """
        cause = CAUSE.get()[0]

        async def run() -> None:
            CAUSE.set([cause])
            try:
                outcome = Outcome(await awaitable, None)
            except Exception as error:  # noqa: BLE001 - carried into a message, not swallowed
                outcome = Outcome(None, error)
            self._push_to_self(wrap(outcome), cause)

        def on_end(task: asyncio.Task[None]) -> None:
            self._piped.pop(task, None)
            if isinstance(awaitable, Coroutine):
                awaitable.close()  # the actor may have been killed before it began

        task = asyncio.get_running_loop().create_task(run())
        self._piped[task] = None
        task.add_done_callback(on_end)

    def preempt(self, message: Any) -> list[Any]:
        """Take a message in place of all that waits; answer what was dropped.

        An ask among the dropped fails with ActorGone; a request to stop stays.
        """
        waiting = list(self.inbox.queue)
        self.inbox.queue.clear()
        self._push_to_self(message, CAUSE.get()[0])
        dropped = []
        for each in waiting:
            if type(each[0]) is _Stop:
                self.inbox.queue.append(each)
                continue
            dropped.append(each[0])
            if each[1] is not None and not each[1].done():
                each[1].set_exception(ActorGone(f"{self.address} was preempted"))
        return dropped

    # --- pykka's three hooks -------------------------------------------------------------------

    @staticmethod
    def _create_actor_inbox() -> Any:
        return _Inbox()

    @staticmethod
    def _create_future() -> pykka.Future[Any]:
        return _Future()

    def _start_actor_loop(self) -> None:
        loop = asyncio.get_running_loop()
        self._task = loop.create_task(self._live(), name=self.address)

    # --- what the system calls ---------------------------------------------------------------

    def launch(self, host: Host, address: str) -> Ref:
        """Give the actor its name and set it going."""
        self.host = host
        self.actor_urn = address
        if host.trace.trace.recording or self.is_timed:
            self.now_s = host.trace.trace.now_s
        host.trace(ActorStarted(address))
        self._start_actor_loop()
        return self.ref

    async def finish(self) -> None:
        """Handle what is in the inbox, then stop."""
        task = self._task
        if task is None or task.done():
            return
        self.inbox.push(_Stop(), None, 0, NOT_TIMED)
        await asyncio.wait([task])

    def kill(self) -> None:
        """Stop where it stands: no on_stop, no further message."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
        self._close(ActorGone(f"{self.address} was killed"))

    def refuse(self, message: Any, reason: str) -> None:
        """Leave a trace of a message that was not taken."""
        if self.host is not None:
            self.host.trace(MessageRefused(self.address, type(message).__name__, reason))

    # --- the life of an actor ------------------------------------------------------------------

    async def _live(self) -> None:
        host = self.host
        assert host is not None, "an actor is launched by a system"
        CAUSE.set([0])
        error: Exception | None = None
        try:
            await self.on_start()
            await self._handle(host)
            await self.on_stop()
        except Exception as bug:  # noqa: BLE001 - a crash takes the node down: nothing goes on
            error = bug
        except asyncio.CancelledError:
            pass  # killed: `kill` has closed everything
        if error is not None:
            self._crash(error)
        self._close(ActorGone(f"{self.address} has stopped"))
        host.trace(ActorStopped(self.address))
        host.on_actor_ended(self, error)

    async def _handle(self, host: Host) -> None:  # noqa: C901 - the one loop that must be fast
        """Message after message until told to stop; with a trace, a row for each."""
        queue = self.inbox.queue
        trace = host.trace.trace
        recording, is_timed = trace.recording, self.is_timed
        marks = trace.marks_of(host.trace.node, self.address)
        now_s, next_id, messages, pack = trace.now_s, trace.next_id, trace.messages, MESSAGE.pack
        cell = CAUSE.get()
        kind: type | None = None  # of the last message: often that of the next one too
        while True:
            if not queue or host.gate is not None:
                cell[0] = 0
                await self._wait(host)
            burst = BURST
            begun = now_s()
            while queue and burst and host.gate is None:
                burst -= 1
                message, reply_to, cause, sent = queue.popleft()
                if type(message) is not kind:
                    kind = type(message)
                    if kind is _Stop:
                        return
                    mark = marks[kind]
                if is_timed:
                    self.waited_s = now_s() - sent
                if recording:
                    cell[0] = event = next_id()
                try:
                    value = await self.on_receive(message)
                    if reply_to is not None and not reply_to.done():
                        reply_to.set_result(value)
                except BaseException as error:  # noqa: BLE001 - `_settle` raises it again
                    mark += _outcome_of(error, reply_to)
                    kind = None  # the next message needs its mark without an outcome
                    self._settle(message, reply_to, error)
                finally:
                    if recording:
                        ended = now_s()
                        messages += pack(event, cause, mark, sent, begun, ended)
                        begun = ended
            # Others first. A reply to what was just answered is often in the inbox after that,
            # which saves the future: asks are a quarter faster than with a wait at once.
            await asyncio.sleep(0)

    async def _wait(self, host: Host) -> None:
        """Wait for a message, or for the node to be resumed."""
        if host.gate is not None:
            await asyncio.shield(host.gate)
            return
        self.inbox.waiter = waiter = asyncio.get_running_loop().create_future()
        await waiter

    def _settle(
        self, message: Any, reply_to: asyncio.Future[Any] | None, error: BaseException
    ) -> None:
        """Answer an expected error; let the rest end the actor."""
        if reply_to is not None and not reply_to.done():
            if isinstance(error, ApiError):
                reply_to.set_exception(error)
                return
            name = type(message).__name__
            reply_to.set_exception(ActorGone(f"{self.address} ended while it handled {name}"))
        elif isinstance(error, ApiError) and reply_to is not None:
            return  # the asker has gone; the error was for it alone
        error.add_note(f"while {self.address} handled {message!r:.200}")
        raise error

    def _crash(self, error: Exception) -> None:
        assert self.host is not None
        lines = "".join(traceback.format_exception(error))
        note = getattr(error, "__notes__", ["before the first message"])[-1]
        self.host.trace(ActorCrashed(self.address, note, repr(error), lines))
        self.on_failure(type(error), error, error.__traceback__)

    def _close(self, why: ActorGone) -> None:
        """Take no more, and give every waiting ask its one answer."""
        self.is_open = False
        for handle in self._timers:
            handle.cancel()
        self._timers.clear()
        for task in tuple(self._piped):
            task.cancel()
        while self.inbox.queue:
            _, reply_to, _, _ = self.inbox.queue.popleft()
            if reply_to is not None and not reply_to.done():
                reply_to.set_exception(why)

    def _push_to_self(self, message: Any, cause: int) -> None:
        if self.is_open:
            self.inbox.push(message, None, cause, 0 if self.now_s is None else self.now_s())


def _outcome_of(error: BaseException, reply_to: asyncio.Future[Any] | None) -> int:
    if isinstance(error, ApiError) and reply_to is not None:
        return REFUSED
    return CANCELLED if isinstance(error, asyncio.CancelledError) else CRASHED


def spawn(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """A task outside any actor, for the runtime's own use."""
    return asyncio.get_running_loop().create_task(work)
