"""Where events wait until someone writes them down.

Rule: leaving an event costs an append; turning events into tables is the drain's work. A message
that was handled leaves eight integers in one flat list, because that is the cheapest thing Python
can keep: no object of its own, nothing for the garbage collector to visit. Other events lie flat
too, each after its stamp: a tuple for the two would be visited, which doubled the cost.
"""

from collections.abc import Callable, Iterator
from contextvars import ContextVar
from itertools import count
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from wire.trace import OUTCOMES, MessageHandled, Stamp, TraceEvent

T = TypeVar("T")

# Which MessageHandled is going on in this task, in a cell of the task's own: the actor writes the
# cell for each message, which is cheaper than setting the variable.
CAUSE: Final[ContextVar[list[int]]] = ContextVar("CAUSE", default=[0])  # noqa: B039

NOT_TIMED: Final = -1  # in place of the time of sending: pykka itself tells none
MESSAGE_WIDTH: Final = 8  # id, cause, actor, kind, sent, begun, ended, outcome
ORIGIN_BITS: Final = 40  # where an origin begins in an id: below, there is room for 10^12 events
MAX_ORIGIN: Final = 2 ** (63 - ORIGIN_BITS) - 1  # an id fits a signed 64-bit column


class Kinds(dict[type, int]):
    """Message classes by number, in the order in which they were first seen."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __missing__(self, kind: type) -> int:
        number = self[kind] = len(self.names)
        self.names.append(kind.__name__)
        return number


class Drained(NamedTuple):
    """What was in the buffers, now the drainer's own."""

    messages: list[int]  # MESSAGE_WIDTH integers a message, times in nanoseconds of `now_ns`
    events: list[Stamp | TraceEvent]  # a stamp, its event, the next stamp, …

    def stamped(self) -> Iterator[tuple[Stamp, TraceEvent]]:
        """The events with their stamps."""
        flat: Iterator[Any] = iter(self.events)
        return zip(flat, flat, strict=True)


class Trace:
    """What one process, or one simulated world, has to tell."""

    def __init__(
        self, *, now_ns: Callable[[], int], epoch_ns: int, origin: int = 0, recording: bool = True
    ) -> None:
        if not 0 <= origin <= MAX_ORIGIN:
            raise ValueError(f"an origin is from 0 to {MAX_ORIGIN}, not {origin}")
        self.now_ns = now_ns
        self.epoch_ns = epoch_ns  # what to add to now_ns for nanoseconds since 1970
        self.recording = recording
        self.next_id: Callable[[], int] = count((origin << ORIGIN_BITS) + 1).__next__
        self.messages: list[int] = []
        self.kinds = Kinds()
        self.actors: list[tuple[str, str]] = []  # number → (node, address)
        self.listeners: list[Callable[[Stamp, TraceEvent], None]] = []
        self._events: list[Stamp | TraceEvent] = []

    def at(self, node: str) -> "NodeTrace":
        """The same trace, for one node to write in its own name."""
        return NodeTrace(self, node)

    def number_of(self, node: str, address: str) -> int:
        """A short name for an actor, for its rows."""
        self.actors.append((node, address))
        return len(self.actors) - 1

    def leave(self, node: str, event: TraceEvent) -> None:
        """Stamp an event and keep it."""
        time_us = (self.now_ns() + self.epoch_ns) // 1000
        stamp = Stamp(self.next_id(), time_us, node, CAUSE.get()[0])
        if self.recording:
            self._events.extend((stamp, event))
        for listener in self.listeners:
            listener(stamp, event)

    def drain(self) -> Drained:
        """Take all that has come; the lists stay the same objects, since actors hold them.

        Any thread may: a copy and a deletion are each one step, and what comes between stays.
        """
        return Drained(_take(self.messages), _take(self._events))

    def handled(self, rows: list[int]) -> Iterator[tuple[Stamp, MessageHandled]]:
        """The rows of handled messages as events, for tests and for the simulated world."""
        for at in range(0, len(rows), MESSAGE_WIDTH):
            number, cause, actor, kind, sent, begun, ended, outcome = rows[at : at + MESSAGE_WIDTH]
            node, address = self.actors[actor]
            yield (
                Stamp(number, (begun + self.epoch_ns) // 1000, node, cause),
                MessageHandled(
                    actor=address,
                    message=self.kinds.names[kind],
                    queue_us=0 if sent == NOT_TIMED else (begun - sent) // 1000,
                    handle_us=(ended - begun) // 1000,
                    outcome=OUTCOMES[outcome],
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
        """Whether anybody would see an event: asked before many are made."""
        return self.trace.recording or bool(self.trace.listeners)


def _take(waiting: list[T]) -> list[T]:
    taken = waiting[: len(waiting)]
    del waiting[: len(taken)]
    return taken


def trace_bytes(trace: Trace) -> bytes:
    """Everything that is in the buffers, in order of id: two runs are the same if these are."""
    drained = trace.drain()
    events: list[tuple[Stamp, TraceEvent]] = [*trace.handled(drained.messages), *drained.stamped()]
    events.sort(key=lambda pair: pair[0].id)
    return b"".join(msgspec.msgpack.encode(event) for event in events)
