"""Where events wait until someone writes them down.

Rule: leaving an event costs an append; turning events into tables is the drain's work. A message
that was handled leaves 48 packed bytes: no object of its own, nothing for the garbage collector to
visit. They hold small integers and floats, because Python packs those three times as fast as
integers beyond 2^30, which is why time is in seconds here. Other events lie flat in a list, each
after its stamp: a tuple for the two would be visited, which doubled the cost.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from itertools import count
from struct import Struct
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from wire.trace import OUTCOMES, MessageHandled, Stamp, TraceEvent

T = TypeVar("T", list[Stamp | TraceEvent], bytearray)

Listener = Callable[[Stamp, TraceEvent], None]

# Which MessageHandled is going on in this task, in a cell of the task's own: the actor writes the
# cell for each message, which is cheaper than setting the variable.
CAUSE: Final[ContextVar[list[int]]] = ContextVar("CAUSE", default=[0])  # noqa: B039

NOT_TIMED: Final = -1  # in place of the time of sending: pykka itself tells none
MESSAGE: Final = Struct("3q3d")  # id, cause, mark; sent, begun, ended in seconds of `now_s`
MESSAGE_INTEGERS: Final = 3  # so many fields come before the times
ORIGIN_BITS: Final = 40  # where an origin begins in an id: below, there is room for 10^12 events
MAX_ORIGIN: Final = 2 ** (63 - ORIGIN_BITS) - 1  # an id fits a signed 64-bit column


class Marks(dict[type, int]):
    """An actor's marks: a number for each class of message; an outcome is added to it."""

    def __init__(self, marked: list[tuple[str, str, str]], node: str, actor: str) -> None:
        super().__init__()
        self._marked = marked
        self._node = node
        self._actor = actor

    def __missing__(self, kind: type) -> int:
        mark = self[kind] = len(self._marked) * len(OUTCOMES)
        self._marked.append((self._node, self._actor, kind.__name__))
        return mark


class Drained(NamedTuple):
    """What was in the buffers, now the drainer's own."""

    messages: bytearray  # a MESSAGE each
    events: list[Stamp | TraceEvent]  # a stamp, its event, the next stamp, …

    def stamped(self) -> Iterator[tuple[Stamp, TraceEvent]]:
        """The events with their stamps."""
        flat: Iterator[Any] = iter(self.events)
        return zip(flat, flat, strict=True)


class Trace:
    """What one process, or one simulated world, has to tell."""

    def __init__(
        self, *, now_s: Callable[[], float], epoch_us: int, origin: int = 0, recording: bool = True
    ) -> None:
        if not 0 <= origin <= MAX_ORIGIN:
            raise ValueError(f"an origin is from 0 to {MAX_ORIGIN}, not {origin}")
        self.now_s = now_s
        self.epoch_us = epoch_us  # what to add to now_s for microseconds since 1970
        self.recording = recording
        self.next_id: Callable[[], int] = count((origin << ORIGIN_BITS) + 1).__next__
        self.messages = bytearray()
        self._marked: list[tuple[str, str, str]] = []  # node, actor, message
        self.listeners: list[Listener] = []  # of everything: each makes all events be made
        self.watchers: dict[type[TraceEvent], list[Listener]] = {}  # of some kinds of events
        self._events: list[Stamp | TraceEvent] = []

    def at(self, node: str) -> "NodeTrace":
        """The same trace, for one node to write in its own name."""
        return NodeTrace(self, node)

    def marks_of(self, node: str, address: str) -> dict[type, int]:
        """How an actor marks its rows; without rows, all marks are one."""
        return Marks(self._marked, node, address) if self.recording else defaultdict(int)

    def named(self, mark: int) -> tuple[str, str, str, str]:
        """The node, actor, message and outcome that a mark stands for."""
        which, outcome = divmod(mark, len(OUTCOMES))
        return (*self._marked[which], OUTCOMES[outcome])

    def leave(self, node: str, event: TraceEvent) -> None:
        """Stamp an event and keep it."""
        time_us = microseconds(self.now_s()) + self.epoch_us
        stamp = Stamp(self.next_id(), time_us, node, CAUSE.get()[0])
        if self.recording:
            self._events.extend((stamp, event))
        for listener in self.listeners:
            listener(stamp, event)
        for watcher in tuple(self.watchers.get(type(event), ())):
            watcher(stamp, event)

    def watch(self, kinds: Iterable[type[TraceEvent]], watcher: Listener) -> Callable[[], None]:
        """Hear of events of these kinds; the answer stops that."""
        chosen = tuple(dict.fromkeys(kinds))
        for kind in chosen:
            self.watchers.setdefault(kind, []).append(watcher)

        def stop() -> None:
            for kind in chosen:
                self.watchers[kind].remove(watcher)
                if not self.watchers[kind]:
                    del self.watchers[kind]

        return stop

    def waiting(self) -> tuple[int, int]:
        """How many messages, and how many other events, are in the buffers."""
        return len(self.messages) // MESSAGE.size, len(self._events) // 2

    def drain(self) -> Drained:
        """Take all that has come; the lists stay the same objects, since actors hold them.

        Any thread may: a copy and a deletion are each one step, and what comes between stays.
        """
        return Drained(_take(self.messages), _take(self._events))

    def handled(self, rows: bytearray) -> Iterator[tuple[Stamp, MessageHandled]]:
        """The rows of handled messages as events, for tests and for the simulated world."""
        for number, cause, mark, sent, begun, ended in MESSAGE.iter_unpack(rows):
            node, actor, message, outcome = self.named(mark)
            yield (
                Stamp(number, microseconds(begun) + self.epoch_us, node, cause),
                MessageHandled(
                    actor=actor,
                    message=message,
                    queue_us=0 if sent == NOT_TIMED else microseconds(begun - sent),
                    handle_us=microseconds(ended - begun),
                    outcome=outcome,
                ),
            )


class NodeTrace:
    """A node's pen."""

    __slots__ = ("node", "trace")

    def __init__(self, trace: Trace, node: str) -> None:
        self.trace = trace
        self.node = node

    def __call__(self, event: TraceEvent) -> None:
        """Leave an event."""
        self.trace.leave(self.node, event)

    @property
    def is_on(self) -> bool:
        """Whether anybody would see any event: asked before many are made."""
        return self.trace.recording or bool(self.trace.listeners)

    def wants(self, kind: type[TraceEvent]) -> bool:
        """Whether anybody would see an event of this kind."""
        return self.is_on or kind in self.trace.watchers


def microseconds(seconds: float) -> int:
    """A time that is not negative, to the nearest microsecond."""
    return int(seconds * 1e6 + 0.5)


def _take(waiting: T) -> T:
    taken = waiting[: len(waiting)]
    del waiting[: len(taken)]
    return taken


def trace_bytes(trace: Trace) -> bytes:
    """Everything that is in the buffers, in order of id: two runs are the same if these are."""
    drained = trace.drain()
    events: list[tuple[Stamp, TraceEvent]] = [*trace.handled(drained.messages), *drained.stamped()]
    events.sort(key=lambda pair: pair[0].id)
    return b"".join(msgspec.msgpack.encode(event) for event in events)
