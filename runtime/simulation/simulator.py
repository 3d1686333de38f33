"""A seed to a World, and a hand on everything in it that can fail.

Rule: every random choice comes from the seed, each part with a stream of its own, named and not
numbered, so that a new part does not shift the dice of the others.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from random import Random
from typing import Any, Final, Self, TypeVar

from runtime.fault_log import FaultLog
from runtime.network import Endpoint, Network
from runtime.simulation.clock import EPOCH_MS, SimulatedClock
from runtime.simulation.disk import SimulatedDisk
from runtime.simulation.keeper import SimulatedKeeper
from runtime.simulation.listener import SimulatedListener
from runtime.simulation.loop import SimulatedLoop, running_simulated_loop
from runtime.simulation.network import Conditions, SimulatedTransport
from runtime.simulation.zookeeper import SimulatedZooKeeper
from runtime.system import System
from runtime.tampering import Tamper, WatchTamper
from runtime.tracing import NodeTrace, Trace, trace_bytes
from runtime.world import Clock, World
from wire.trace import CallFinished, ErrorAnswered, Stamp, TraceEvent

T = TypeVar("T")
QUIET_MS: Final = 1_000
SETTLE_LIMIT_MS: Final = 600_000
SYNC_MS: Final = (0.05, 0.5)  # what a sync takes
ZOOKEEPER: Final = "zookeeper"  # the other end of a node's link to the server
PORT: Final = 9092  # of each node: where it would listen, and where its callers come in
CALLERS_PORT: Final = 9093


class NeverQuiet(AssertionError):
    """Something goes on and on: the world did not settle."""


class UnknownNode(LookupError):
    """A fault names a node that is not there; the sentence says which are."""


class Simulator:
    """One simulated world, to be used inside a SimulatedLoop: `run` starts one."""

    def __init__(
        self,
        seed: int = 0,
        *,
        conditions: Conditions | None = None,
        session_timeout_ms: float = 6_000,
        recording: bool = True,
    ) -> None:
        self.seed = seed
        self.loop = running_simulated_loop()
        self.trace = Trace(now_s=self.loop.time, epoch_us=EPOCH_MS * 1000, recording=recording)
        self.network = SimulatedTransport(self.random("network"), conditions)
        self.zookeeper = SimulatedZooKeeper(
            self.random("zookeeper"), session_timeout_ms=session_timeout_ms
        )
        self.clock: Clock = SimulatedClock(self.loop)
        self.fault_log = FaultLog(self.trace.at("simulator"))
        self.routine: frozenset[str] = frozenset()  # calls that go on for ever, and mean nothing
        self._events = 0  # that mean something
        self.trace.listeners.append(self._count)
        self._disks: dict[str, SimulatedDisk] = {}
        self._systems: dict[str, System] = {}
        self.listeners: dict[str, SimulatedListener] = {}  # of nodes, in their last lives
        self._worlds: dict[str, World] = {}
        self._lives: dict[str, int] = {}
        self._clients: set[str] = set()
        self.tamper = Tamper()
        self._watch_tampers: dict[str, WatchTamper] = {}
        self._skews: dict[str, int] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for node in sorted(self._systems):
            self.kill(node)
        await asyncio.sleep(0)

    def random(self, name: str) -> Random:
        """The dice of one part of the world."""
        return Random(f"{self.seed}/{name}")

    def world(self, node: str) -> World:
        """A node's World: a new session and endpoint, and the disk of its former life."""
        self._lives[node] = life = self._lives.get(node, 0) + 1
        trace = self.trace.at(node)
        chance = self.random(f"{node}/{life}")
        world = World(
            node=node,
            clock=SimulatedClock(self.loop, self._skews.get(node, 0)),
            random=chance,
            keeper=SimulatedKeeper(node, self.zookeeper, trace),
            network=self._endpoint(node, trace, chance),
            disk=self._disk(node),
            trace=trace,
        )
        self._worlds[node] = world
        self._keeper(node).watch_tamper = self.watch_tamper(node)
        return world

    async def open(self, node: str, *, port: int = 0) -> tuple[World, tuple[str, int]]:
        """A node's World, and where it would listen."""
        return self.world(node), (node, port or PORT)

    async def listen(self, node: str, *, port: int = 0) -> SimulatedListener:
        """A port of a node for callers from outside; it closes with the node's World."""
        self.listeners[node] = listener = SimulatedListener(node, port or CALLERS_PORT)
        return listener

    def publish(self, node: str, directory: Callable[[], Mapping[str, str]]) -> None:
        """Nobody visits a simulated world."""

    def client(self, name: str) -> tuple[Network, Clock]:
        """A place on the network for somebody who is no node."""
        self._clients.add(name)
        chance = self.random(f"client/{name}")
        return self._endpoint(name, self.trace.at(name), chance), SimulatedClock(self.loop)

    def adopt(self, system: System) -> None:
        """Let faults reach this node's actors."""
        self._systems[system.name] = system

    # --- time ---------------------------------------------------------------------------------

    @property
    def now_ms(self) -> float:
        """Virtual milliseconds since the world began."""
        return self.loop.time() * 1000

    async def sleep(self, duration_ms: float) -> None:
        """Let virtual time pass."""
        await asyncio.sleep(duration_ms / 1000)

    async def settle(self, quiet_ms: float = QUIET_MS) -> None:
        """Let time pass until nothing has happened for a while.

        What happens is what leaves an event. That an actor looked at its clock is nothing, and
        neither is a call that is made again and again whatever happens.
        """
        deadline = self.now_ms + SETTLE_LIMIT_MS
        before = self._events
        while True:
            await self.sleep(quiet_ms)
            if self._events == before:
                return
            if self.now_ms > deadline:
                raise NeverQuiet(f"seed {self.seed} is not quiet after {SETTLE_LIMIT_MS} ms")
            before = self._events

    def _count(self, _: Stamp, event: TraceEvent) -> None:
        if isinstance(event, CallFinished | ErrorAnswered) and event.request in self.routine:
            return
        self._events += 1

    async def until(self, holds: Callable[[], bool], *, limit_ms: float = SETTLE_LIMIT_MS) -> None:
        """Let time pass until something holds."""
        deadline = self.now_ms + limit_ms
        while not holds():
            if self.now_ms > deadline:
                raise AssertionError(f"seed {self.seed}: did not hold within {limit_ms:g} ms")
            await self.sleep(1)

    # --- faults -------------------------------------------------------------------------------

    def kill(self, node: str, *, process_only: bool = False) -> int:
        """End a node as a power cut would: unsynced bytes are lost, its session times out.

        Or only its process: the operating system goes on, and keeps what it was given.
        """
        self._check_lives(node)
        number = self.fault_log.injected("kill", node, "process only" if process_only else "")
        if process_only:
            self._disk(node).settle()
        system, world = self._systems.pop(node, None), self._worlds[node]
        if system is not None:
            system.kill()
        self.lose(world)
        return number

    async def leave(self, world: World) -> None:
        """A node has stopped: its session ends at once; its disk forgets nothing."""
        await world.keeper.close()
        world.network.close()
        self._stop_listening(world.node)
        if self._worlds.get(world.node) is world:
            del self._worlds[world.node]
            self._systems.pop(world.node, None)

    def lose(self, world: World) -> None:
        """A node is dead, by our hand or its own: its disk forgets, its session will time out."""
        if self._worlds.get(world.node) is world:
            del self._worlds[world.node]
            self._systems.pop(world.node, None)
            world.keeper.abandon()
            world.network.close()
            self._stop_listening(world.node)
            self._disks[world.node].crash()

    def _stop_listening(self, node: str) -> None:
        if node in self.listeners:
            self.listeners[node].abort()

    def lose_unsynced(self, node: str) -> None:
        """From now on nothing that a node has not synced outlives a power cut."""
        self._check_known(node)
        self.fault_log.injected("lose unsynced", node)
        self._disk(node).is_forgetful = True

    def pause(self, node: str) -> int:
        """Freeze a node: it handles nothing, takes nothing, pings nobody."""
        self._check_lives(node)
        number = self.fault_log.injected("pause", node)
        self._systems[node].pause()
        if node in self.listeners:
            self.listeners[node].pause()
        self.network.pause(node)
        self._keeper(node).pause()
        return number

    def resume(self, node: str) -> int:
        """Let a frozen node go on."""
        self._check_lives(node)
        number = self.fault_log.healed("pause", node)
        self._keeper(node).resume()
        self.network.resume(node)
        self._systems[node].resume()
        if node in self.listeners:
            self.listeners[node].resume()
        return number

    def cut(self, source: str, destination: str, *, one_way: bool = False) -> int:
        """Lose all that is sent between two nodes, or between a node and ZooKeeper."""
        self._check_known(source, destination)
        number = self.fault_log.injected("cut", source, destination)
        if ZOOKEEPER in {source, destination}:
            self.zookeeper.cut(destination if source == ZOOKEEPER else source)
            return number
        self.network.cut(source, destination)
        if not one_way:
            self.network.cut(destination, source)
        return number

    def hold(self, source: str, destination: str) -> None:
        """Keep what is sent from one node to another until healed."""
        self._check_known(source, destination)
        self.fault_log.injected("hold", source, destination)
        self.network.hold(source, destination)

    def expire_session(self, node: str) -> int:
        """End a node's ZooKeeper session although it is well."""
        self._check_lives(node)
        number = self.fault_log.injected("expire session", node, is_over=True)
        self.zookeeper.expire(node)
        return number

    async def expire(self, node: str) -> int:
        """As expire_session; in the real world it takes a while."""
        return self.expire_session(node)

    def lose_reply(self, node: str) -> None:
        """Apply the node's next ZooKeeper write, and lose the answer."""
        self._check_lives(node)
        self.fault_log.injected("lose reply", node, is_over=True)
        self.zookeeper.lose_reply(node)

    def mend(self, source: str, destination: str, *, one_way: bool = False) -> None:
        """Mend one link that is cut."""
        self.fault_log.healed("cut", source, destination)
        if ZOOKEEPER in {source, destination}:
            self.zookeeper.heal(destination if source == ZOOKEEPER else source)
            return
        self.network.mend(source, destination)
        if not one_way:
            self.network.mend(destination, source)

    def heal(self) -> None:
        """Mend every link."""
        self.fault_log.links_healed()
        self.tamper.clear()
        self.network.heal()
        self.zookeeper.heal()

    # --- faults that are told of by whoever asks for them ---------------------------------------

    def watch_tamper(self, node: str) -> WatchTamper:
        """What is done to a node's watch events, in all its lives."""
        return self._watch_tampers.setdefault(node, WatchTamper())

    def skew(self, node: str, skew_ms: int) -> None:
        """Put a node's clock forward, or back; not those that measure how long something took."""
        self._skews[node] = skew_ms
        world = self._worlds.get(node)
        if world is not None:
            assert isinstance(world.clock, SimulatedClock)
            world.clock.skew_ms = skew_ms

    def spoil_reply(self, node: str) -> None:
        """As lose_reply."""
        self.zookeeper.lose_reply(node)

    def linger(self, node: str, delay_ms: float) -> None:
        """What the node's next session that ends has left is removed so much later."""
        self.zookeeper.linger(node, delay_ms)

    def fill_disk(self, node: str) -> None:
        """Leave no room on a node's disk."""
        self._disk(node).fill()

    def fail_disk(self, node: str, prefix: str) -> None:
        """Whatever touches a path that begins so has failed."""
        self._disk(node).fail(prefix)

    def slow_disk(self, node: str, duration_ms: float) -> None:
        """Every sync takes so much longer."""
        self._disk(node).slow_down(duration_ms)

    def forget_unsynced(self, node: str) -> None:
        """As lose_unsynced."""
        self._disk(node).is_forgetful = True

    def flip_bit(self, node: str, path: str, position: int, bit: int) -> None:
        """Let a bit of a file rot."""
        self._disk(node).flip_bit(path, position, bit)

    def files(self, node: str, below: str) -> dict[str, int]:
        """The files of a folder of a node's disk, and their sizes."""
        disk = self._disk(node)
        if not disk.exists(below):
            return {}
        paths = [f"{below}/{name}" for name in disk.list(below)]
        return {path: disk.size(path) for path in paths if not disk.is_directory(path)}

    def heal_disk(self, node: str) -> None:
        """A node's disk is well again; what it has lost stays lost."""
        self._disk(node).heal()

    # --------------------------------------------------------------------------------------------

    def trace_bytes(self) -> bytes:
        """The whole trace so far: two runs of one seed give the same bytes."""
        return trace_bytes(self.trace)

    def _check_lives(self, node: str) -> None:
        """A fault that would hit nobody is a mistake in a script."""
        if node not in self._worlds:
            raise UnknownNode(f"{node!r} does not live here; {_names(self._worlds)} do")

    def _check_known(self, *nodes: str) -> None:
        """A link may lead to a node that is down, not to one that never was."""
        known = {ZOOKEEPER, *self._clients, *self._lives}
        for node in nodes:
            if node not in known:
                raise UnknownNode(f"there is no {node!r}; there are {_names(known)}")

    def _endpoint(self, node: str, trace: NodeTrace, chance: Random) -> Endpoint:
        first = chance.getrandbits(40)
        return Endpoint(node, self.network, trace, first_correlation=first, tamper=self.tamper)

    def _disk(self, node: str) -> SimulatedDisk:
        if node not in self._disks:
            chance = self.random(f"disk/{node}")

            async def delay() -> None:
                await asyncio.sleep(chance.uniform(*SYNC_MS) / 1000)

            self._disks[node] = SimulatedDisk(chance, delay=delay)
        return self._disks[node]

    def _keeper(self, node: str) -> SimulatedKeeper:
        keeper = self._worlds[node].keeper
        assert isinstance(keeper, SimulatedKeeper)
        return keeper


def _names(nodes: Iterable[str]) -> str:
    return ", ".join(sorted(nodes)) or "none"


def run(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a simulation to its end, in a loop of its own."""
    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        return runner.run(main())
