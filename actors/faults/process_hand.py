"""The hand on brokers that are processes: signals, and orders to the processes themselves.

Rule: what a signal can do is done by a signal, as it would happen to anybody's process.
"""

import signal
from collections.abc import Mapping
from typing import Final, Protocol

from actors.broker_life import BrokerLife
from actors.broker_process import Order
from actors.faults.hand import ZOOKEEPER, FaultRefused
from actors.node import node_name
from runtime.real import ZOOKEEPER as ZOOKEEPER_NODE
from wire.trace import FaultHealed, FaultInjected, TraceEvent

EXPIRE: Final = Order("expire")
HEAL: Final = Order("heal")


class Processes(Protocol):
    """The cluster, as this hand needs it."""

    @property
    def lives(self) -> Mapping[int, BrokerLife]:
        """The processes, by broker."""

    async def start_broker(self, broker: int) -> None:
        """Start a broker that is not running."""

    async def stop_broker(self, broker: int) -> None:
        """Stop a broker in its own time."""

    def order(self, broker: int, order: Order) -> None:
        """Have a broker do something to itself."""

    def leave(self, event: TraceEvent) -> None:
        """Tell of a fault."""


class ProcessHand:
    """Faults for a ProcessCluster."""

    def __init__(self, cluster: Processes) -> None:
        self._cluster = cluster
        self._cuts: dict[tuple[int, int], None] = {}

    @property
    def cuts(self) -> tuple[tuple[int, int], ...]:
        """The links that are cut; 0 is ZooKeeper."""
        return tuple(self._cuts)

    async def kill(self, broker: int) -> None:
        """SIGKILL."""
        self._signal(broker, signal.SIGKILL)
        self._cluster.leave(FaultInjected("kill", node_name(broker), ""))
        child = self._cluster.lives[broker].child
        if child is not None:
            await child.ended()

    async def restart(self, broker: int) -> None:
        """Start a broker that is down; one that is up stops in its own time before."""
        life = self._life(broker)
        if life.is_alive and (life.is_leaving or not life.ready.is_settled):
            raise FaultRefused(f"broker {broker} is starting or leaving: wait for that")
        if life.is_alive:
            await self.shut_down(broker)
        await self._cluster.start_broker(broker)
        for one, other in self._cuts:  # the next life is behind the same cut links
            if broker in (one, other):
                there = other if one == broker else one
                self._cluster.order(broker, Order("cut", _node(there)))

    async def pause(self, broker: int) -> None:
        """SIGSTOP."""
        life = self._up(broker)
        if life.is_paused:
            raise FaultRefused(f"broker {broker} is paused already")
        self._signal(broker, signal.SIGSTOP)
        life.is_paused = True
        self._cluster.leave(FaultInjected("pause", node_name(broker), ""))

    async def resume(self, broker: int) -> None:
        """SIGCONT."""
        life = self._up(broker)
        if not life.is_paused:
            raise FaultRefused(f"broker {broker} is not paused")
        life.is_paused = False
        self._signal(broker, signal.SIGCONT)
        self._cluster.leave(FaultHealed("pause", node_name(broker)))

    async def shut_down(self, broker: int) -> None:
        """SIGTERM, and wait until it has left."""
        life = self._up(broker)
        if life.is_leaving:
            raise FaultRefused(f"broker {broker} is leaving already")
        life.is_paused = False
        await self._cluster.stop_broker(broker)

    async def expire_session(self, broker: int) -> None:
        """Have it end its own ZooKeeper session from the side."""
        self._up(broker)
        self._cluster.leave(FaultInjected("expire session", node_name(broker), ""))
        self._cluster.order(broker, EXPIRE)

    async def cut(self, broker: int, other: int) -> None:
        """Both ends drop what they would send to each other."""
        if broker == ZOOKEEPER:
            broker, other = other, broker
        if broker == other:
            raise FaultRefused(f"broker {broker} has no link to itself")
        self._life(broker)
        if other == ZOOKEEPER:
            self._up(broker)
            link = (broker, other)
        else:
            self._life(other)
            link = (min(broker, other), max(broker, other))
        if link in self._cuts:
            raise FaultRefused(f"the link between {_named(broker)} and {_named(other)} is cut")
        self._cuts[link] = None
        self._cluster.leave(FaultInjected("cut", node_name(broker), _node(other)))
        for here, there in ((broker, other), (other, broker)):
            if here != ZOOKEEPER and self._cluster.lives[here].is_alive:
                self._cluster.order(here, Order("cut", _node(there)))

    async def heal(self) -> None:
        """Mend every link, and let all go on that are paused."""
        for broker, life in self._cluster.lives.items():
            if life.is_alive:
                if life.is_paused:
                    await self.resume(broker)
                self._cluster.order(broker, HEAL)
        self._cuts.clear()
        self._cluster.leave(FaultHealed("links", "all"))

    def _signal(self, broker: int, number: int) -> None:
        child = self._up(broker).child
        assert child is not None, "it is up"
        child.signal(number)

    def _life(self, broker: int) -> BrokerLife:
        lives = self._cluster.lives
        if broker not in lives:
            known = ", ".join(map(str, lives))
            raise FaultRefused(f"there is no broker {broker}; there are {known}")
        return lives[broker]

    def _up(self, broker: int) -> BrokerLife:
        life = self._life(broker)
        if not life.is_alive:
            raise FaultRefused(f"broker {broker} is down")
        return life


def _node(broker: int) -> str:
    return ZOOKEEPER_NODE if broker == ZOOKEEPER else node_name(broker)


def _named(broker: int) -> str:
    return "ZooKeeper" if broker == ZOOKEEPER else f"broker {broker}"
