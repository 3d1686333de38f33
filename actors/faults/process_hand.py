"""The hand on brokers that are processes: signals, and orders to the processes themselves.

Rule: what a signal can do is done by a signal, as it would happen to anybody's process.
"""

import signal
from collections.abc import Mapping
from typing import Final, Protocol

from actors.broker_life import BrokerLife
from actors.broker_process import Order
from actors.faults.hand import ZOOKEEPER, FaultRefused
from actors.faults.vocabulary import AnyFault, Fault, FlipBit, Local, LoseReply, LoseUnsynced
from actors.names import node_name
from actors.view import ClusterView
from runtime.real import ZOOKEEPER as ZOOKEEPER_NODE
from runtime.world import Clock
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

    @property
    def session_timeout_ms(self) -> float:
        """After how long ZooKeeper gives a silent broker up."""

    @property
    def clock(self) -> Clock:
        """The machine's."""

    async def look(self, *, offsets: bool = False) -> ClusterView:
        """The cluster as it is."""

    async def stop_zookeeper(self) -> None:
        """Kill ZooKeeper, if it is ours."""

    async def start_zookeeper(self) -> None:
        """Start ZooKeeper again."""


class ProcessHand:
    """Faults for a ProcessCluster."""

    def __init__(self, cluster: Processes) -> None:
        self._cluster = cluster
        self._cuts: dict[tuple[int, int], bool] = {}  # whether it is one way, from the first on
        self._applied: dict[int, AnyFault] = {}
        self.last = 0

    @property
    def cuts(self) -> tuple[tuple[int, int], ...]:
        """The links that are cut; 0 is ZooKeeper."""
        return tuple(self._cuts)

    async def kill(self, broker: int, *, process_only: bool = False) -> None:
        """SIGKILL."""
        del process_only  # a signal cuts no power
        self._signal(broker, signal.SIGKILL)
        self._injected("kill", node_name(broker))
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
        for (one, other), one_way in self._cuts.items():  # the next life is behind the same ones
            if broker == one:
                self._cluster.order(broker, Order("cut", _node(other)))
            elif broker == other and not one_way:
                self._cluster.order(broker, Order("cut", _node(one)))
        for number, fault in self._applied.items():
            if broker in self._where(fault):
                self._cluster.order(broker, Order("apply", number=number, fault=fault))

    async def pause(self, broker: int) -> None:
        """SIGSTOP."""
        life = self._up(broker)
        if life.is_paused:
            raise FaultRefused(f"broker {broker} is paused already")
        self._signal(broker, signal.SIGSTOP)
        life.is_paused = True
        self._injected("pause", node_name(broker))

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
        self._injected("expire session", node_name(broker))
        self._cluster.order(broker, EXPIRE)

    async def cut(self, broker: int, other: int, *, one_way: bool = False) -> None:
        """Both ends drop what they would send to each other."""
        if broker == ZOOKEEPER:
            broker, other = other, broker
        if broker == other:
            raise FaultRefused(f"broker {broker} has no link to itself")
        self._life(broker)
        if other == ZOOKEEPER:
            self._up(broker)
        else:
            self._life(other)
        if (broker, other) in self._cuts or (other, broker) in self._cuts:
            raise FaultRefused(f"the link between {_named(broker)} and {_named(other)} is cut")
        self._cuts[broker, other] = one_way
        self._injected("cut", node_name(broker), _node(other))
        self._order_ends(broker, other, "cut", one_way=one_way)

    async def mend(self, broker: int, other: int, *, one_way: bool = False) -> None:
        """Both ends send to each other again."""
        for one, there in ((broker, other), (other, broker)):
            if self._cuts.pop((one, there), None) is not None:
                self._order_ends(one, there, "mend", one_way=one_way)

    def _order_ends(self, broker: int, other: int, what: str, *, one_way: bool) -> None:
        ends = ((broker, other),) if one_way else ((broker, other), (other, broker))
        for here, there in ends:
            if here != ZOOKEEPER and self._cluster.lives[here].is_alive:
                self._cluster.order(here, Order(what, _node(there)))

    async def heal(self) -> None:
        """Mend every link, and let all go on that are paused."""
        for broker, life in self._cluster.lives.items():
            if life.is_alive:
                if life.is_paused:
                    await self.resume(broker)
                self._cluster.order(broker, HEAL)
        self._cuts.clear()
        self._applied.clear()
        self._cluster.leave(FaultHealed("links", "all"))

    # --- what the injector needs ------------------------------------------------------------------

    @property
    def session_timeout_ms(self) -> float:
        """After how long ZooKeeper gives a silent broker up."""
        return self._cluster.session_timeout_ms

    @property
    def clock(self) -> Clock:
        """The machine's."""
        return self._cluster.clock

    async def look(self) -> ClusterView:
        """Who leads what."""
        return await self._cluster.look()

    async def apply(self, fault: Fault) -> int:
        """Have it done in the processes that can."""
        if isinstance(fault, LoseUnsynced):
            raise FaultRefused("a real disk cannot be made to forget: this is for the simulator")
        where = self._where(fault)
        for broker in where:
            self._up(broker)
        target = node_name(where[0]) if isinstance(fault, Local) else "links"
        number = self._injected(fault.name, target, fault.detail)
        for broker in where:
            self._cluster.order(broker, Order("apply", number=number, fault=_any(fault)))
        if not isinstance(fault, LoseReply | FlipBit):  # those are over at once
            self._applied[number] = _any(fault)
        return number

    async def undo(self, number: int) -> None:
        """Have it undone there."""
        fault = self._applied.pop(number, None)
        if fault is not None:
            for broker in self._where(fault):
                self._cluster.order(broker, Order("undo", number=number))

    def _where(self, fault: Fault) -> list[int]:
        """The brokers in whose processes it is done: messages are treated where they are sent."""
        who = fault.broker if isinstance(fault, Local) else getattr(fault, "source", None)
        if isinstance(who, int):
            return [who]
        return [broker for broker, life in self._cluster.lives.items() if life.is_alive]

    async def stop_zookeeper(self) -> None:
        """Kill ZooKeeper, if it is ours."""
        await self._cluster.stop_zookeeper()
        self._injected("stop", ZOOKEEPER_NODE)

    async def start_zookeeper(self) -> None:
        """Start ZooKeeper again."""
        await self._cluster.start_zookeeper()
        self._cluster.leave(FaultHealed("stop", ZOOKEEPER_NODE))

    def healed(self, fault: str, target: str, number: int) -> None:
        """Tell the trace that one fault is undone."""
        self._cluster.leave(FaultHealed(fault, target, number))

    def _injected(self, fault: str, target: str, detail: str = "") -> int:
        self.last += 1
        self._cluster.leave(FaultInjected(fault, target, detail, self.last))
        return self.last

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


def _any(fault: Fault) -> AnyFault:
    assert isinstance(fault, AnyFault)
    return fault


def _node(broker: int) -> str:
    return ZOOKEEPER_NODE if broker == ZOOKEEPER else node_name(broker)


def _named(broker: int) -> str:
    return "ZooKeeper" if broker == ZOOKEEPER else f"broker {broker}"
