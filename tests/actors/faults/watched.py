"""A simulated cluster under the eyes of the invariants."""

from collections.abc import Callable

from actors.cluster import SimulatedCluster
from actors.faults.invariant import Invariant
from actors.faults.invariants import Invariants
from actors.faults.violation import Violation
from runtime.simulation.simulator import Simulator
from wire.frame import Frame
from wire.trace import Stamp, TraceEvent


class Watched:
    """Passes on all that happens, and asks after every step: an event, or a frame that arrives."""

    def __init__(
        self,
        sim: Simulator,
        cluster: SimulatedCluster,
        invariants: tuple[Invariant, ...] | None = None,
        on_step: Callable[[object], None] | None = None,
    ) -> None:
        self.invariants = Invariants(cluster, lambda: sim.now_ms, invariants)
        self.steps = 0
        self._violation: Violation | None = None
        self._on_step = on_step
        self._network = network = sim.network
        self._arrive, network._arrive = network._arrive, self._on_arrival
        self._deliver, network._deliver = network._deliver, self._on_delivery
        self._transmit, network.transmit = network.transmit, self._on_transmit
        sim.trace.listeners.append(self._on_event)

    def raise_if_violated(self) -> None:
        if self._violation is not None:
            raise self._violation

    def _on_event(self, stamp: Stamp, event: TraceEvent) -> None:
        self.invariants.on_event(stamp.node, event)
        self._step((stamp.node, event))

    def _on_arrival(self, parcel, cuts: int) -> None:
        self._step(parcel)
        self._arrive(parcel, cuts)

    def _on_delivery(self, parcel) -> None:
        if isinstance(parcel, Frame) and parcel.destination in self._network._endpoints:
            self.invariants.on_arrival(parcel)
        self._deliver(parcel)

    def _on_transmit(self, frame: Frame) -> None:
        self.invariants.on_sent(frame)
        self._transmit(frame)

    def _step(self, what: object) -> None:
        self.steps += 1
        try:
            self.invariants.check()
        except Violation as violation:  # raised here, it would be taken for a crash of an actor
            self._violation = self._violation or violation
        if self._on_step is not None:
            self._on_step(what)
