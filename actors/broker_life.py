"""What is known of a broker that is a process, by who started it.

Rule: that a process runs, stands still or has ended is known here at once; all else it says itself,
and a broker that says nothing is silent.
"""

from typing import Final

from actors.broker_process import Ready
from actors.view import BrokerState, BrokerView
from runtime.child import Child
from runtime.tasks import Promise
from wire.observation import ObserveResponse

ORDER_MS: Final = 2_000


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
        self.seen: ObserveResponse | None = None
        self.is_silent = False
        self.is_spawning = False  # its next process is being made
        self._orders: dict[int, Promise[str]] = {}  # faults that it was told to do to itself

    @property
    def is_alive(self) -> bool:
        """Whether its process runs."""
        return self.child is not None and self.child.is_alive

    def is_told(self, number: int) -> None:
        """It shall do something to itself."""
        self._orders[number] = Promise()

    def has_obeyed(self, number: int, refusal: str) -> None:
        """It says that it has, or why not."""
        if number in self._orders:
            self._orders[number].keep(refusal)

    async def obeyed(self, number: int) -> str:
        """Wait until it has done that; why it could not, if it could not.

        One that stands still does it when it goes on; one that has died, in its next life.
        """
        promise = self._orders[number]
        try:
            if self.is_paused or not await promise.settled(ORDER_MS):
                return ""
            return await promise
        finally:
            del self._orders[number]

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
