"""What every invariant is asked.

Rule: an invariant only looks. It keeps what it must remember between two looks. What it hears, it
judges at once and notes with `found`; what it is asked to look at, it judges by raising Violation.
"""

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from actors.faults.calls import Call
from actors.faults.ledger import Ledger, StateChange, TopicChange
from actors.faults.sight import Seen, Sight
from actors.faults.violation import Violation
from runtime.keeper import Operation
from runtime.simulation.tree import Tree
from wire.codec import AnyMessage
from wire.control import ControlResponse
from wire.frame import Frame
from wire.ids import BrokerId, TopicPartition
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
    events: ClassVar[tuple[type[TraceEvent], ...]] = ()  # that it wants to hear of; none: of all

    sight: Sight
    ledger: Ledger
    findings: list[Violation]

    def begin(self, sight: Sight, ledger: Ledger, findings: list[Violation]) -> None:
        """Told once what there is to look at, and where to note what is wrong."""
        self.sight, self.ledger, self.findings = sight, ledger, findings

    def found(
        self,
        what: str,
        *,
        partition: TopicPartition | None = None,
        brokers: tuple[int, ...] = (),
        offsets: tuple[int, ...] = (),
    ) -> None:
        """Note that it does not hold."""
        violation = Violation(
            self.name, what, partition=partition, brokers=brokers, offsets=offsets
        )
        self.findings.append(violation)

    def on_event(self, node: str, event: TraceEvent) -> None:
        """An event was left in the trace."""

    def on_arrival(self, frame: Frame, now_ms: float) -> None:
        """A frame has come to a node that lives."""

    def on_sent(self, frame: Frame) -> None:
        """A frame begins its way."""

    def on_commit(self, commit: Commit) -> None:
        """A transaction was applied to ZooKeeper."""

    def on_state(self, change: StateChange) -> None:
        """A partition's state is another one in ZooKeeper."""

    def on_topic(self, change: TopicChange) -> None:
        """A topic's assignment is another one in ZooKeeper."""

    def on_control_sent(self, call: Call) -> None:
        """A control request begins its way."""

    def on_control_arrived(self, call: Call) -> None:
        """A control request has come to a node that lives."""

    def on_control_answered(self, call: Call, response: ControlResponse) -> None:
        """A control request has been answered; the answer begins its way."""

    def on_asked(self, request: AnyMessage, begun: int) -> None:
        """A client has asked for something."""

    def on_answered(self, exchange: Exchange, sight: Sight) -> None:
        """A broker has answered a client; the sight is that of this moment."""

    def check(self, changed: Sequence[Seen], sight: Sight) -> None:
        """Judge what has changed since the last look."""

    def check_in_the_end(self, sight: Sight, now_ms: float) -> None:
        """Judge what must hold once nothing is disturbed any more."""
