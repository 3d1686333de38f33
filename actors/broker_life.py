"""What is known of a broker that is a process, by who started it.

Rule: that a process runs, stands still or has ended is known here at once; all else it says itself,
and a broker that says nothing is silent.
"""

import signal
from typing import Final

from actors.broker_process import Ready
from actors.view import BrokerState, BrokerView
from runtime.child import Child
from runtime.main import Sentence
from runtime.tasks import Promise
from wire.observation import ObserveResponse

ORDER_MS: Final = 2_000


START_MS: Final = 60_000


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
        self.is_spawning = False  # its next process is being made
        self._orders: dict[int, Promise[str]] = {}  # faults that it was told to do to itself

    @property
    def kafka_port(self) -> int:
        """Where Kafka's clients find it, or 0 as long as nobody knows."""
        return int(self.kafka.rpartition(":")[2]) if self.kafka else 0

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

    async def await_ready(self) -> Ready:
        """Wait until it is registered, or has ended instead."""
        if not await self.ready.settled(START_MS):
            raise Sentence(f"broker {self.broker} is not up after {START_MS // 1000} s")
        ready = await self.ready
        self.address, self.port = ready.address, int(ready.address.rpartition(":")[2])
        self.kafka = ready.kafka
        return ready

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


def how_it_ended(child: Child, code: int) -> str:
    """By which signal, or with which last words."""
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return child.complaint.removeprefix("run-broker: ") or f"code {code}"
