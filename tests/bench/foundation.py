"""What every actor stands on: messages, bytes, ZooKeeper, virtual time."""

import asyncio
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pykka
from kazoo.client import KazooClient

from actors.cluster import SimulatedCluster
from runtime.actor import BURST, Actor
from runtime.clock import real_trace
from runtime.embedded import EmbeddedZooKeeper
from runtime.keeper import Create, Set, ZNode
from runtime.recorder import Recorder
from runtime.ref import Ref
from runtime.simulation.simulator import Simulator, run
from runtime.system import System
from runtime.zookeeper import ZooKeeper
from tests.bench.harness import Row, at_least, in_turn, less_than, seconds
from tests.support.by_hand import leader_and_isr, pack_by_hand, unpack_by_hand
from wire.codec import decode, encode

ASKS = 20_000
TELLS = 400_000
ACTORS = 10_000
ZNODES = 50_000
PARTITIONS = 10_000
TRACE_ROUNDS = 5


def rows() -> Iterator[Row]:
    """Every bar of the foundation."""
    yield ask_row()
    yield from tell_rows()
    yield actors_row()
    yield codec_row()
    yield from zookeeper_rows()
    yield simulated_hour_row()


# --- actors --------------------------------------------------------------------------------------


class Echo(Actor):
    """Answers what it is told."""

    async def on_receive(self, message: object) -> object:
        return message


class Asker(Actor):
    """Asks another actor again and again. (A handler that awaits an actor: only to measure.)"""

    def __init__(self, other: Ref) -> None:
        super().__init__()
        self._other = other

    async def on_receive(self, message: int) -> None:
        for number in range(message):
            await self._other.ask(number)


class ThreadingEcho(pykka.ThreadingActor):
    """The same in threads."""

    def on_receive(self, message: object) -> object:
        return message


class ThreadingAsker(pykka.ThreadingActor):
    """The same in threads."""

    def __init__(self, other: pykka.ActorRef) -> None:
        super().__init__()
        self._other = other

    def on_receive(self, message: int) -> None:
        for number in range(message):
            self._other.ask(number)


def ask_row() -> Row:
    async def ours() -> float:
        system = System("bench", real_trace(recording=False).at("bench"))
        echo = system.start("echo", Echo())
        asker = system.start("asker", Asker(echo))
        begun = time.perf_counter()
        await asker.ask(ASKS)
        took = time.perf_counter() - begun
        await system.stop()
        return took

    def threads() -> float:
        echo = ThreadingEcho.start()
        asker = ThreadingAsker.start(echo)
        took = seconds(lambda: asker.ask(ASKS))
        pykka.ActorRegistry.stop_all()
        return took

    mine, theirs = in_turn(3, lambda: asyncio.run(ours()), threads)
    detail = f"{ASKS / mine:,.0f} against {ASKS / theirs:,.0f} a second"
    return at_least("ask, against pykka.ThreadingActor", theirs / mine, 3, " ×", detail)


class Sink(Actor):
    """Counts down to zero."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self._left = count
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def on_receive(self, _: object) -> None:
        self._left -= 1
        if not self._left:
            self.done.set_result(None)


class Source(Actor):
    """Tells a sink, and lets it run after each burst, so that its inbox stays short."""

    def __init__(self, sink: Ref) -> None:
        super().__init__()
        self._sink = sink

    async def on_receive(self, message: int) -> None:
        for number in range(message):
            self._sink.tell(number)
            if number % BURST == 0:
                await asyncio.sleep(0)


async def tell(folder: Path | None) -> float:
    """Seconds for TELLS messages; with a folder, traced and written there as Parquet."""
    trace = real_trace(recording=folder is not None)
    recorder = None
    if folder is not None:
        recorder = Recorder(trace, folder, run="bench")
        await recorder.start()
    system = System("bench", trace.at("bench"))
    sink = Sink(TELLS)
    source = system.start("source", Source(system.start("sink", sink)))
    begun = time.perf_counter()
    source.tell(TELLS)
    await asyncio.wait_for(sink.done, 60)
    took = time.perf_counter() - begun
    await system.stop()
    if recorder is not None:
        begun = time.perf_counter()
        await recorder.close()
        took += time.perf_counter() - begun  # what the trace still owes is part of its cost
    return took


def both_ways(folder: Path) -> tuple[float, float]:
    """Seconds without a trace, and with one."""
    plain, traced = in_turn(
        TRACE_ROUNDS, lambda: asyncio.run(tell(None)), lambda: asyncio.run(tell(folder))
    )
    return plain, traced


def tell_rows() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        plain, traced = both_ways(Path(folder))
    yield at_least("tell, messages a second", TELLS / plain, 500_000)
    cost_us = (traced - plain) / TELLS * 1e6
    detail = f"{TELLS / traced:,.0f} a second, {cost_us:.2f} µs an event"
    yield at_least("tell with tracing on, of that", plain / traced, 0.6, " ×", detail)


def actors_row() -> Row:
    async def start_and_stop() -> None:
        system = System("bench", real_trace(recording=False).at("bench"))
        for number in range(ACTORS):
            system.start(f"echo-{number}", Echo())
        await system.stop()

    (took,) = in_turn(2, lambda: seconds(lambda: asyncio.run(start_and_stop())))
    return less_than(f"start and stop {ACTORS:,} actors", took, 2, " s")


# --- bytes ---------------------------------------------------------------------------------------


def codec_row() -> Row:
    request = leader_and_isr(PARTITIONS)
    ours, by_hand = in_turn(
        7,
        lambda: seconds(lambda: decode(encode(request))),
        lambda: seconds(lambda: unpack_by_hand(pack_by_hand(request))),
    )
    detail = f"{ours * 1000:.1f} ms against {by_hand * 1000:.1f} ms"
    return at_least(
        f"LeaderAndIsr of {PARTITIONS:,}, against msgpack", by_hand / ours, 1.3, " ×", detail
    )


# --- ZooKeeper -----------------------------------------------------------------------------------


def zookeeper_rows() -> Iterator[Row]:
    ready, ours, theirs = asyncio.run(zookeeper())
    for index, (name, bar) in enumerate((("read", 10), ("write", 8))):
        rates = f"{ZNODES / ours[index]:,.0f} against {ZNODES / theirs[index]:,.0f} a second"
        rival = "get_async" if name == "read" else "set_async"
        measure = f"bulk {name} of {ZNODES:,}, against {rival}"
        yield at_least(measure, theirs[index] / ours[index], bar, " ×", rates)
    yield less_than("embedded ZooKeeper ready", ready, 3, " s")


async def zookeeper() -> tuple[float, tuple[float, float], tuple[float, float]]:
    """Seconds until the server is ready, and for our and kazoo's reads and writes."""
    begun = time.perf_counter()
    async with EmbeddedZooKeeper() as server:
        ready = time.perf_counter() - begun
        keeper = ZooKeeper(server.hosts, real_trace(recording=False).at("bench"))
        await keeper.start()
        paths = [f"/bench/{number}" for number in range(ZNODES)]
        await keeper.create("/bench")
        await keeper.write([Create(path, b"x" * 64) for path in paths])
        theirs = await asyncio.to_thread(pipelined, server.hosts, paths)
        ours = await bulk(keeper, paths)
        await keeper.close()
    return ready, ours, theirs


async def bulk(keeper: ZooKeeper, paths: list[str]) -> tuple[float, float]:
    """Seconds for our bulk read and bulk write, the best of three."""
    reads, writes = [], []
    for _ in range(3):
        begun = time.perf_counter()
        znodes = await keeper.read(paths)
        reads.append(time.perf_counter() - begun)
        assert all(isinstance(znode, ZNode) for znode in znodes)
        begun = time.perf_counter()
        await keeper.write([Set(path, b"y" * 64) for path in paths])
        writes.append(time.perf_counter() - begun)
    return min(reads), min(writes)


def pipelined(hosts: str, paths: list[str]) -> tuple[float, float]:
    """Seconds for kazoo's own pipelined reads and writes."""
    client = KazooClient(hosts)
    client.start()

    def wait(asked: list) -> None:
        for each in asked:
            each.get()

    read = seconds(lambda: wait([client.get_async(path) for path in paths]))
    write = seconds(lambda: wait([client.set_async(path, b"z" * 64) for path in paths]))
    client.stop()
    client.close()
    return read, write


# --- virtual time --------------------------------------------------------------------------------


def simulated_hour_row() -> Row:
    async def hour() -> float:
        async with Simulator(seed=1) as sim:
            cluster = SimulatedCluster(sim, brokers=5)
            await cluster.start_nodes()
            await sim.settle()
            begun = time.perf_counter()
            await sim.sleep(3_600_000)
            return time.perf_counter() - begun

    return less_than("simulated hour of an idle 5-node system", run(hour), 1, " s")
