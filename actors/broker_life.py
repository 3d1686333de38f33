"""What is known of a broker that is a process, by who started it.

Rule: that a process runs, stands still or has ended is known here at once; all else it says itself,
and a broker that says nothing is silent.
"""

from actors.broker_process import Ready
from actors.view import BrokerState, BrokerView
from runtime.child import Child
from runtime.tasks import Promise
from wire.observation import ObserveResponse


class BrokerLife:
    """A broker's process, from its start to its end."""

    def __init__(self, broker: int) -> None:
        self.broker = broker
        self.child: Child | None = None
        self.ready: Promise[Ready] = Promise()
        self.is_paused = False
        self.is_leaving = False
        self.port = 0
        self.address = ""  # where it listens, or did
        self.kafka = ""  # and where for Kafka's clients
        self.seen: ObserveResponse | None = None
        self.is_silent = False

    @property
    def is_alive(self) -> bool:
        """Whether its process runs."""
        return self.child is not None and self.child.is_alive

    def view(self) -> BrokerView:
        """What is known of it without asking."""
        return BrokerView(self.broker, self._state(), self.address)

    def _state(self) -> BrokerState:
        if not self.is_alive:
            return BrokerState.DOWN
        if self.is_paused:
            return BrokerState.PAUSED
        if self.is_leaving:
            return BrokerState.LEAVING
        if not self.ready.is_settled:
            return BrokerState.STARTING
        if self.is_silent:
            return BrokerState.SILENT
        is_active = self.seen is not None and self.seen.state == "RunningAsController"
        return BrokerState.CONTROLLER if is_active else BrokerState.UP
