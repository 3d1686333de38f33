"""What every invariant of the data plane is asked.

Rule: an invariant only looks. It keeps what it must remember between two looks, and raises
Violation at the first look that shows something forbidden.
"""

from collections.abc import Sequence
from typing import NamedTuple

from actors.faults.sight import Seen, Sight
from runtime.keeper import Operation
from runtime.simulation.tree import Tree
from wire.codec import AnyMessage
from wire.frame import Frame
from wire.ids import BrokerId
from wire.trace import TraceEvent


class Exchange(NamedTuple):
    """A client's request and the answer that a broker has sent."""

    broker: BrokerId
    request: AnyMessage
    response: AnyMessage
    begun: int  # both count all requests and answers of clients, in their order
    ended: int


class Commit(NamedTuple):
    """A transaction that was applied to ZooKeeper."""

    node: str  # whose session wrote it
    operations: tuple[Operation, ...]
    tree: Tree


class Invariant:
    """Something that must always hold."""

    name = ""

    def on_event(self, node: str, event: TraceEvent) -> None:
        """An event was left in the trace."""

    def on_arrival(self, frame: Frame, now_ms: float) -> None:
        """A frame has come to a node that lives."""

    def on_sent(self, frame: Frame) -> None:
        """A frame begins its way."""

    def on_commit(self, commit: Commit) -> None:
        """A transaction was applied to ZooKeeper."""

    def on_asked(self, request: AnyMessage, begun: int) -> None:
        """A client has asked for something."""

    def on_answered(self, exchange: Exchange, sight: Sight) -> None:
        """A broker has answered a client; the sight is that of this moment."""

    def check(self, changed: Sequence[Seen], sight: Sight) -> None:
        """Judge what has changed since the last look."""

    def check_in_the_end(self, sight: Sight, now_ms: float) -> None:
        """Judge what must hold once nothing is disturbed any more."""
