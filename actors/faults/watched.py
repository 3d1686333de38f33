"""A simulated cluster under the eyes of the invariants.

Rule: it only looks: a run is the same with and without it. It asks after every step, which is an
event of the trace or a frame that arrives. A violation is kept and raised by whoever drives the
run, since raised at its place it would be taken for a crash of some actor.
"""

from collections.abc import Callable, Sequence

from actors.cluster import SimulatedCluster
from actors.faults.invariant import Commit, Invariant
from actors.faults.invariants import Invariants
from actors.faults.violation import Violation
from runtime.keeper import Operation
from runtime.simulation.network import Onlooker, Parcel
from runtime.simulation.simulator import Simulator
from wire.frame import Frame
from wire.trace import Stamp, TraceEvent


class Watched(Onlooker):
    """Passes on all that happens, and asks after every step."""

    def __init__(
        self,
        sim: Simulator,
        cluster: SimulatedCluster,
        invariants: tuple[Invariant, ...] | None = None,
        on_step: Callable[[object], None] | None = None,
    ) -> None:
        self.invariants = Invariants(cluster, lambda: sim.now_ms, invariants)
        self.steps = 0
        self.violation: Violation | None = None
        self.stamp: Stamp | None = None  # of the event at which it was seen
        self._last: Stamp | None = None
        self._on_step = on_step
        self._tree = sim.zookeeper.tree
        sim.network.onlookers.append(self)
        sim.tamper.onlookers.append(self.on_sent)
        sim.zookeeper.on_commit.append(self._on_commit)
        sim.trace.listeners.append(self._on_event)

    def raise_if_violated(self) -> None:
        """Raise what was seen."""
        if self.violation is not None:
            raise self.violation

    def on_sent(self, frame: Frame) -> None:
        """A frame begins its way."""
        self.invariants.on_sent(frame)

    def on_arrival(self, parcel: Parcel) -> None:
        """Something is at the end of its way."""
        self._step(parcel)

    def on_delivery(self, frame: Frame) -> None:
        """A frame is about to be handed to a node that lives."""
        self.invariants.on_arrival(frame)

    def _on_event(self, stamp: Stamp, event: TraceEvent) -> None:
        self._last = stamp
        self.invariants.on_event(stamp.node, event)
        self._step((stamp.node, event))

    def _on_commit(self, node: str, operations: Sequence[Operation]) -> None:
        self.invariants.on_commit(Commit(node, tuple(operations), self._tree))

    def _step(self, what: object) -> None:
        self.steps += 1
        if self.violation is None:
            try:
                self.invariants.check()
            except Violation as violation:
                self.violation, self.stamp = violation, self._last
        if self._on_step is not None:
            self._on_step(what)
