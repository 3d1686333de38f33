"""Traces that tests write by hand: events with their moments, as a recorder would keep them."""

from pathlib import Path

from runtime.recorder import Recorder
from runtime.tracing import MESSAGE
from tests.support.traces import EPOCH_US, StandingTrace

SECOND = 1_000_000


class Planted:
    """A trace in the making; times are microseconds after EPOCH_US."""

    def __init__(self, *, origin: int = 0) -> None:
        self.trace = StandingTrace(origin=origin)

    def at(self, us, node, *events, cause=0):
        """Leave events, and answer the id of the last."""
        self.trace.at_us = us
        for event in events:
            self.trace.leave(node, event)
            if cause:
                stamp = self.trace._events[-2]
                self.trace._events[-2] = type(stamp)(stamp.id, stamp.time_us, stamp.node, cause)
        return self.trace._events[-2].id

    def handled(self, us, actor, message, *, queue_us=0, handle_us=10, cause=0):
        """A message that an actor handled, and its id."""
        node, _, _ = actor.partition("/")
        mark = self.trace.marks_of(node, actor)[type(message, (), {})]
        number = self.trace.next_id()
        begun = (us + SECOND) / 1e6
        times = (begun - queue_us / 1e6, begun, begun + handle_us / 1e6)
        self.trace.messages.extend(MESSAGE.pack(number, cause, mark, *times))
        return number

    def write(self, folder: Path, run="a", origin="0") -> Path:
        """All of it, as Parquet parts."""
        Recorder(self.trace, folder, run=run, origin=origin).write()
        return folder


def after(us) -> int:
    """A moment in the trace."""
    return EPOCH_US + us
