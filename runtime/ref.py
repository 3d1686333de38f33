"""What others hold of an actor: its Ref, and the inbox behind it.

Rule: an inbox is bounded. The policy is to refuse the newest and to tell its sender: `tell` raises
InboxFull, an `ask` fails with it, and the trace has a MessageRefused. An actor's own timers and
the results it piped to itself are exempt: it bounded those when it started them.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol

from runtime.deadlines import Deadlines
from runtime.tracing import CAUSE

ASK_TIMEOUT_MS: Final = 30_000


class ActorError(Exception):
    """The runtime could not have a message handled.

    ActorError
    ├── ActorGone     the actor stopped, was killed or crashed before it answered
    ├── AskTimedOut   the answer did not come in time; it may still be worked on
    └── InboxFull     the inbox is at its limit; the message was not taken
    """


class ActorGone(ActorError):
    """The actor stopped, was killed or crashed before it answered."""


class AskTimedOut(ActorError):
    """The answer did not come in time; the message may still be worked on."""


class InboxFull(ActorError):
    """The inbox is at its limit; the message was not taken."""


class Receiver(Protocol):
    """Whoever can be told something: an actor's Ref, or a test's list in disguise."""

    def tell(self, message: Any) -> None:
        """Take a message; it is handled later."""


class Owner(Protocol):
    """What a Ref needs to know of the actor behind it."""

    inbox: "Inbox"
    is_open: bool
    now_s: Callable[[], float] | None  # None: no trace is kept of messages

    @property
    def address(self) -> str:
        """The actor's readable name."""

    @property
    def deadlines(self) -> Deadlines:
        """Where its asks time out."""

    def refuse(self, message: Any, reason: str) -> None:
        """Leave a trace of a message that was not taken."""


class Timer:
    """A message that will come; cancel it if it should not."""

    __slots__ = ("_handle", "_handles")

    def __init__(
        self, handle: asyncio.TimerHandle, handles: dict[asyncio.TimerHandle, None]
    ) -> None:
        self._handle = handle
        self._handles = handles  # of the actor that waits for it

    def cancel(self) -> None:
        """The message does not come, unless it is in the inbox already."""
        self._handles.pop(self._handle, None)
        self._handle.cancel()


class Outcome:
    """How an awaited thing ended: a value, or an error."""

    __slots__ = ("error", "value")

    def __init__(self, value: Any, error: Exception | None) -> None:
        self.value = value
        self.error = error

    def get(self) -> Any:
        """The value, or the error raised."""
        if self.error is not None:
            raise self.error
        return self.value


# What waits in an inbox: the message, who wants the answer, the cause, when it was sent.
Waiting = tuple[Any, "asyncio.Future[Any] | None", int, float]


class Inbox:
    """Messages in the order of their coming, and the actor that sleeps until one is there."""

    __slots__ = ("queue", "waiter")

    def __init__(self) -> None:
        self.queue: deque[Waiting] = deque()
        self.waiter: asyncio.Future[None] | None = None

    def push(
        self, message: Any, reply_to: asyncio.Future[Any] | None, cause: int, sent: float
    ) -> None:
        self.queue.append((message, reply_to, cause, sent))
        waiter = self.waiter
        if waiter is not None:
            self.waiter = None
            if not waiter.done():
                waiter.set_result(None)


class Ref:
    """The one thing others hold of an actor."""

    __slots__ = ("_actor", "_inbox", "_limit", "_queue")

    def __init__(self, actor: Owner, limit: int) -> None:
        self._actor = actor
        self._inbox = actor.inbox
        self._queue = actor.inbox.queue
        self._limit = limit

    @property
    def address(self) -> str:
        """Where the actor lives, such as `broker-2/replica-manager`."""
        return self._actor.address

    @property
    def is_alive(self) -> bool:
        """Whether a message sent now can be handled."""
        return self._actor.is_open

    def __repr__(self) -> str:
        return f"<Ref {self.address}>"

    def tell(self, message: Any) -> None:
        """Send and forget. To a gone actor it is a dead letter: traced, not raised."""
        actor = self._actor
        if not actor.is_open:
            actor.refuse(message, "the actor is gone")
            return
        inbox = self._inbox
        if len(self._queue) >= self._limit:
            actor.refuse(message, "its inbox is full")
            raise InboxFull(f"{self.address} has {self._limit} messages waiting")
        now_s = actor.now_s
        if now_s is None:
            self._queue.append((message, None, 0, 0))
        else:
            self._queue.append((message, None, CAUSE.get()[0], now_s()))
        waiter = inbox.waiter
        if waiter is not None:
            inbox.waiter = None
            if not waiter.done():
                waiter.set_result(None)

    async def ask(self, message: Any, *, timeout_ms: float = ASK_TIMEOUT_MS) -> Any:
        """Send, and wait for the answer: the handler's value, its ApiError, or an ActorError.

        Not for handlers: they pipe it, so that the answer comes back as a message.
        """
        actor = self._actor
        if not actor.is_open:
            raise ActorGone(f"{self.address} is gone")
        if len(self._queue) >= self._limit:
            actor.refuse(message, "its inbox is full")
            raise InboxFull(f"{self.address} has {self._limit} messages waiting")
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        now_s = actor.now_s
        if now_s is None:
            self._inbox.push(message, answer, 0, 0)
        else:
            self._inbox.push(message, answer, CAUSE.get()[0], now_s())
        actor.deadlines.watch(answer, timeout_ms, partial(self._timed_out, message, timeout_ms))
        return await answer

    def _timed_out(self, message: Any, timeout_ms: float) -> AskTimedOut:
        what = f"{self.address} has not answered {type(message).__name__}"
        return AskTimedOut(f"{what} within {timeout_ms:g} ms")
