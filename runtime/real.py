"""The real World: wall clocks, files, sockets, a real ZooKeeper.

Rule: one RealProcess for each process; it makes a World for each node that lives there, and what
it opened it closes.
"""

import asyncio
import random
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from runtime.clock import FIRST_CORRELATION_BITS, RealClock, new_run, real_trace
from runtime.disk import RealDisk
from runtime.fault_log import FaultLog
from runtime.keeper import Keeper
from runtime.listener import Listener
from runtime.network import Endpoint, MemoryTransport, Network
from runtime.recorder import Recorder
from runtime.system import System
from runtime.tampering import Tamper, WatchTamper
from runtime.tcp import TcpListener
from runtime.trouble import Trouble
from runtime.websocket import WebSocketTransport
from runtime.world import Clock, World
from runtime.zookeeper import ZooKeeper

ZOOKEEPER: Final = "zookeeper"  # the other end of a node's link to the server


Resolve = Callable[[Keeper, str], Awaitable[str | None]]


class RealProcess:
    """What the nodes of one process share: a trace, a folder, the address of ZooKeeper."""

    def __init__(  # noqa: PLR0913 - all that a process is told
        self,
        *,
        resolve: Resolve,
        data: Path = Path(),
        zookeeper: str = "",
        session_timeout_ms: float = 6_000,
        trace_folder: Path | None = None,
        run: str | None = None,
        origin: int = 0,
        host: str = "127.0.0.1",
        advertised_host: str | None = None,
        token: str | None = None,
    ) -> None:
        self.zookeeper = zookeeper
        self.data = data
        self._resolve = resolve
        self._session_timeout_ms = session_timeout_ms
        self._host = host
        self._advertised_host = advertised_host
        self._token = token
        self._local = MemoryTransport()
        self._doors: dict[str, WebSocketTransport] = {}
        self._listeners: dict[str, TcpListener] = {}
        self._closing: dict[asyncio.Task[None], str] = {}
        self._systems: dict[str, System] = {}
        self._keepers: dict[str, ZooKeeper] = {}
        # Cuts outlive the nodes at their ends: a node's next life is behind the same cut link.
        self._unreachable: defaultdict[str, set[str]] = defaultdict(set)
        self.tamper = Tamper()
        self._watch_tampers: defaultdict[str, WatchTamper] = defaultdict(WatchTamper)
        self._troubles: defaultdict[str, Trouble] = defaultdict(Trouble)
        self._clocks: defaultdict[str, RealClock] = defaultdict(RealClock)
        self.trace = real_trace(recording=trace_folder is not None, origin=origin)
        self.clock: Clock = RealClock()
        self.fault_log = FaultLog(self.trace.at("hand"))
        self.recorder: Recorder | None = None
        if trace_folder is not None:
            name = run or new_run()
            self.recorder = Recorder(self.trace, trace_folder, run=name, origin=str(origin))

    async def start(self) -> None:
        """Begin to record, if that was asked for."""
        if self.recorder is not None:
            await self.recorder.start()

    async def close(self) -> None:
        """Close what is open, and write the rest of the trace."""
        for listener in self._listeners.values():
            listener.abort()
        for door in tuple(self._doors.values()):
            await door.close()
        if self._closing:
            await asyncio.wait(tuple(self._closing))
        if self.recorder is not None:
            await self.recorder.close()

    async def open(self, node: str, *, port: int = 0) -> tuple[World, tuple[str, int]]:
        """A node's World, its keeper not started yet, and where it listens; port 0: any."""
        closing = [task for task, name in self._closing.items() if name == node]
        if closing:  # its last life's door, whose port may be wanted again
            await asyncio.wait(closing)
        trace = self.trace.at(node)
        chance = random.Random()
        folder = self.data / node
        folder.mkdir(parents=True, exist_ok=True)
        keeper = ZooKeeper(self.zookeeper, trace, session_timeout_ms=self._session_timeout_ms)
        door = WebSocketTransport(
            partial(self._resolve, keeper),
            trace,
            host=self._host,
            port=port,
            token=self._token,
            local=self._local,
        )
        await door.start()
        self._doors[node], self._keepers[node] = door, keeper
        keeper.watch_tamper = self._watch_tampers[node]
        if ZOOKEEPER in self._unreachable[node]:
            keeper.cut()
        correlation = chance.getrandbits(FIRST_CORRELATION_BITS)
        world = World(
            node=node,
            clock=self._clocks[node],
            random=chance,
            keeper=keeper,
            network=Endpoint(
                node,
                door,
                trace,
                first_correlation=correlation,
                unreachable=self._unreachable[node],
                tamper=self.tamper,
            ),
            disk=RealDisk(folder, self._troubles[node]),
            trace=trace,
        )
        return world, (self._advertised_host or door.host, door.port)

    async def listen(self, node: str, *, port: int = 0) -> Listener:
        """A port of a node for callers from outside; it closes with the node's World."""
        listener = TcpListener(
            self.trace.at(node),
            bound=self._host,
            port=port,
            advertised_host=self._advertised_host,
        )
        await listener.bind()
        self._listeners[node] = listener
        return listener

    def client(self, name: str) -> tuple[Network, Clock]:
        """A place on this process's network for somebody who is no node."""
        correlation = random.getrandbits(FIRST_CORRELATION_BITS)
        network = Endpoint(
            name,
            self._local,
            self.trace.at(name),
            first_correlation=correlation,
            unreachable=self._unreachable[name],
            tamper=self.tamper,
        )
        return network, RealClock()

    def adopt(self, system: System) -> None:
        """Let faults reach this node's actors."""
        self._systems[system.name] = system

    def publish(self, node: str, directory: Callable[[], Mapping[str, str]]) -> None:
        """What a node tells visitors: which nodes there are, and where."""
        self._doors[node].directory = directory

    async def leave(self, world: World) -> None:
        """The node has stopped: its session ends at once, and its door closes."""
        await world.keeper.close()
        world.network.close()
        if world.node in self._listeners:
            await self._listeners[world.node].close()
        self._forget(world.node)
        door = self._doors.pop(world.node, None)
        if door is not None:
            await door.close()

    def lose(self, world: World) -> None:
        """The node is dead: nothing of it speaks any more."""
        world.keeper.abandon()
        world.network.close()
        if world.node in self._listeners:
            self._listeners[world.node].abort()
        self._forget(world.node)
        door = self._doors.pop(world.node, None)
        if door is not None:
            task = asyncio.get_running_loop().create_task(door.close())
            self._closing[task] = world.node
            task.add_done_callback(lambda ended: self._closing.pop(ended, None))

    def _forget(self, node: str) -> None:
        self._systems.pop(node, None)
        self._keepers.pop(node, None)
        self._listeners.pop(node, None)

    # --- faults ---------------------------------------------------------------------------------

    def kill(self, node: str, *, process_only: bool = False) -> None:
        """End a node; the operating system keeps its files. Who waits for its fall calls `lose`."""
        self.fault_log.injected("kill", node, "process only" if process_only else "")
        self._systems[node].kill()

    def pause(self, node: str) -> None:
        """Freeze a node: it handles nothing, and pings nobody."""
        self.fault_log.injected("pause", node)
        self._systems[node].pause()
        self._keepers[node].pause()
        self._listeners[node].pause()

    def resume(self, node: str) -> None:
        """Let a frozen node go on."""
        self.fault_log.healed("pause", node)
        self._keepers[node].resume()
        self._systems[node].resume()
        self._listeners[node].resume()

    async def expire(self, node: str) -> None:
        """End a node's ZooKeeper session although it is well."""
        self.fault_log.injected("expire session", node)
        await self._keepers[node].expire()

    def cut(self, source: str, destination: str, *, one_way: bool = False) -> None:
        """Lose all that is sent between two nodes, or between a node and ZooKeeper."""
        self.fault_log.injected("cut", source, destination)
        self._unreachable[source].add(destination)
        if destination == ZOOKEEPER:
            self._keepers[source].cut()
        elif not one_way:
            self._unreachable[destination].add(source)

    def mend(self, source: str, destination: str, *, one_way: bool = False) -> None:
        """Mend one link that is cut."""
        self.fault_log.healed("cut", source)
        self._unreachable[source].discard(destination)
        if destination == ZOOKEEPER:
            if source in self._keepers:
                self._keepers[source].mend()
        elif not one_way:
            self._unreachable[destination].discard(source)

    def heal(self) -> None:
        """Mend every link."""
        self.fault_log.healed("links", "all")
        self.tamper.clear()
        for there in self._unreachable.values():
            there.clear()
        for keeper in self._keepers.values():
            keeper.mend()

    # --- faults that are told of by whoever asks for them ---------------------------------------

    def random(self, _: str) -> random.Random:
        """Dice that nobody can throw again."""
        return random.Random()

    def watch_tamper(self, node: str) -> WatchTamper:
        """What is done to a node's watch events, in all its lives."""
        return self._watch_tampers[node]

    def skew(self, node: str, skew_ms: int) -> None:
        """Put a node's clock forward, or back; not those that measure how long something took."""
        self._clocks[node].skew_ms = skew_ms

    def spoil_reply(self, node: str) -> None:
        """Apply the node's next ZooKeeper write, and lose the answer."""
        self._keepers[node].lose_reply()

    def fill_disk(self, node: str) -> None:
        """Leave no room on a node's disk."""
        self._troubles[node].is_full = True

    def fail_disk(self, node: str, prefix: str) -> None:
        """Whatever touches a path that begins so has failed."""
        self._troubles[node].failing += (prefix,)

    def slow_disk(self, node: str, duration_ms: float) -> None:
        """Every sync takes so much longer."""
        self._troubles[node].slowness_s = duration_ms / 1000

    def forget_unsynced(self, node: str) -> None:
        """Refuse: it is the operating system that has those bytes, and it goes on."""
        raise NotImplementedError(f"a real disk cannot be made to forget what {node} wrote")

    def flip_bit(self, node: str, path: str, position: int, bit: int) -> None:
        """Let a bit of a file rot."""
        with (self.data / node / path).open("r+b") as file:
            file.seek(position)
            (byte,) = file.read(1)
            file.seek(position)
            file.write(bytes([byte ^ 1 << bit]))

    def files(self, node: str, below: str) -> dict[str, int]:
        """The files of a folder of a node's disk, and their sizes."""
        folder = self.data / node / below
        if not folder.is_dir():
            return {}
        found = sorted(each for each in folder.iterdir() if each.is_file())
        return {f"{below}/{each.name}": each.stat().st_size for each in found}

    def heal_disk(self, node: str) -> None:
        """A node's disk is well again; what it has lost stays lost."""
        self._troubles[node].heal()
