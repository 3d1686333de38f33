"""The controller at the scale of a real cluster: real ZooKeeper, brokers in this process."""

import asyncio
import gc
import json
import resource
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import runtime.keeper
from actors.cluster import Cluster
from actors.controller.channel import Channel
from runtime.keeper import Create
from tests.bench.harness import Row, at_least, at_most
from wire.ids import BrokerId
from wire.trace import FailoverStep, TraceEvent, WatchFired
from wire.znodes import (
    BrokerIdsZNode,
    ControllerZNode,
    ReplicaAssignment,
    TopicAssignment,
    TopicZNode,
)

MANY, FEW = 50_000, 5_000  # partitions
A_TOPIC = 100  # partitions of one
ONE_TOPIC = 10_000
SESSION_MS = 10_000
CROWD = 100  # brokers
CROWD_MB = 1_536
LAST_STEP = "preferred elections"
POLL_S = 0.002


def rows() -> Iterator[Row]:
    """Every bar of the controller."""
    yield from failover_rows()
    yield from one_topic_rows()
    yield crowd_row()


# --- a cluster to measure -----------------------------------------------------------------------


class Measured:
    """A cluster, and what is needed to see when something is done."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.partitions = 0
        self._seen: list[tuple[float, TraceEvent]] = []
        # Not as a listener of the trace: with one, every state change would be told to it.
        self._leave = cluster.process.trace.leave
        cluster.process.trace.leave = self._overhear  # type: ignore[method-assign]

    def _overhear(self, node: str, event: TraceEvent) -> None:
        if isinstance(event, FailoverStep | WatchFired):
            self._seen.append((time.perf_counter(), event))
        self._leave(node, event)

    def forget(self) -> None:
        self._seen.clear()

    def when(self, holds: Callable[[TraceEvent], bool]) -> float | None:
        """When the first such event was seen."""
        return next((at for at, event in self._seen if holds(event)), None)

    async def until(self, holds: Callable[[], bool], limit_s: float = 120) -> None:
        deadline = time.perf_counter() + limit_s
        while not holds():
            assert time.perf_counter() < deadline, "the cluster does not get there"
            await asyncio.sleep(POLL_S)

    @property
    def keeper(self):
        """Some broker's, but not the controller's."""
        nodes = self.cluster.nodes.values()
        return next(n for n in nodes if n.system.is_up and not n.is_controller).world.keeper

    def is_all_told(self) -> bool:
        """Whether the controller has no request unanswered and nothing left to handle."""
        node = self.cluster.controller
        if node is None or node.controller.inbox.queue:
            return False
        actors = node.system._actors.values()
        return all(not each._waiting for each in actors if isinstance(each, Channel))

    def is_known(self, partitions: int) -> bool:
        """Whether every live broker knows a live leader for so many partitions."""
        for node in self.cluster.nodes.values():
            if not node.system.is_up:
                continue
            cache = node.replica_manager.cache
            known = (each for topic in cache.topics.values() for each in topic.values())
            if sum(each.leader in cache.brokers for each in known) < partitions:
                return False
        return True

    async def load(self, partitions: int, replicas: int = 3) -> None:
        """Make topics of a hundred partitions until there are so many."""
        brokers = sorted(self.cluster.nodes)
        topics = range(self.partitions // A_TOPIC, partitions // A_TOPIC)
        await self.keeper.write(
            [topic_of(f"topic-{each}", A_TOPIC, brokers, replicas, each) for each in topics]
        )
        await self.until(lambda: self.is_known(partitions))
        await self.until(self.is_all_told)
        self.partitions = partitions

    async def failover(self) -> float:
        """Seconds from `/controller` gone until every broker was told, by another controller.

        The controller's broker dies with all that it leads, as in life.
        """
        node = self.cluster.controller
        assert node is not None
        broker = node.config.broker_id
        self.forget()
        gc.collect()
        self.cluster.kill(broker)
        is_done = step_is(LAST_STEP)
        await self.until(lambda: self.when(is_done) is not None and self.is_all_told())
        ended = time.perf_counter()
        gone = self.when(watch_is(ControllerZNode.path()))
        assert gone is not None
        await self.cluster.start_broker(broker)
        await asyncio.sleep(2 * SESSION_MS / 1000 / 5)  # replicas are in sync again
        await self.until(self.is_all_told)
        return ended - gone

    async def create(self, topic: str, partitions: int) -> float:
        """Seconds until every broker knows every leader of a new topic."""
        brokers = sorted(self.cluster.nodes)
        gc.collect()
        begun = time.perf_counter()
        await self.keeper.write([topic_of(topic, partitions, brokers, 3, 0)])
        known = [node.replica_manager.cache.topics for node in self.cluster.nodes.values()]
        await self.until(lambda: all(len(each.get(topic, ())) == partitions for each in known))
        took = time.perf_counter() - begun
        await self.until(self.is_all_told)
        return took


def topic_of(topic: str, partitions: int, brokers: list[int], replicas: int, shift: int) -> Create:
    """A topic's znode, its partitions spread over the brokers."""
    count = len(brokers)
    assignment = TopicAssignment(
        partitions={
            number: ReplicaAssignment(
                replicas=tuple(
                    BrokerId(brokers[(number + shift + each) % count]) for each in range(replicas)
                )
            )
            for number in range(partitions)
        }
    )
    return Create(TopicZNode.path(topic), TopicZNode.encode(assignment))


def step_is(step: str) -> Callable[[TraceEvent], bool]:
    return lambda event: isinstance(event, FailoverStep) and event.step == step


def watch_is(path: str) -> Callable[[TraceEvent], bool]:
    return lambda event: isinstance(event, WatchFired) and event.path == path


@asynccontextmanager
async def measured(brokers: int) -> AsyncIterator[Measured]:
    overrides = {"auto_leader_rebalance_enable": False}  # nothing of its own accord
    cluster = Cluster(brokers, session_timeout_ms=SESSION_MS, overrides=overrides)
    async with cluster:
        yield Measured(cluster)


# --- failover -------------------------------------------------------------------------------------


def failover_rows() -> Iterator[Row]:
    few, one_by_one, many, empty, full = asyncio.run(failovers())
    each_few, each_many = few / FEW * 1000, many / MANY * 1000
    what = f"failover, {MANY:,} partitions × 3, a partition"
    yield at_most(what, each_many, 0.1, " ms", f"{many:.2f} s")
    detail = f"{each_many:.4f} against {each_few:.4f} ms"
    yield at_most(f"  against that of {FEW:,} partitions", each_many / each_few, 1.3, " ×", detail)
    detail = f"{few:.2f} s against {one_by_one:.2f} s"
    yield at_least(f"  {FEW:,}: against bulk size 1", one_by_one / few, 4, " ×", detail)
    detail = f"{full * 1000:.1f} ms against {empty * 1000:.1f} ms"
    yield at_most(f"one topic, {MANY:,} partitions against none", full / empty, 3, " ×", detail)


async def failovers() -> tuple[float, float, float, float, float]:
    async with measured(5) as cluster:
        empty = min([await cluster.create(f"first-{number}", 1) for number in range(5)])
        await cluster.load(FEW)
        few = min([await cluster.failover() for _ in range(2)])
        size, runtime.keeper.MAX_BATCH_OPERATIONS = runtime.keeper.MAX_BATCH_OPERATIONS, 1
        try:
            one_by_one = await cluster.failover()
        finally:
            runtime.keeper.MAX_BATCH_OPERATIONS = size
        await cluster.load(MANY)
        many = await cluster.failover()
        full = min([await cluster.create(f"last-{number}", 1) for number in range(5)])
        return few, one_by_one, many, empty, full


# --- one large topic ------------------------------------------------------------------------------


def one_topic_rows() -> Iterator[Row]:
    created, died, left = asyncio.run(one_topic())
    for what, took in (
        (f"create a topic of {ONE_TOPIC:,} × 3, a partition", created),
        (f"a broker with {ONE_TOPIC:,} replicas dies", died),
        ("controlled shutdown of the same", left),
    ):
        yield at_most(what, took / ONE_TOPIC * 1000, 0.3, " ms", f"{took:.2f} s")


async def one_topic() -> tuple[float, float, float]:
    async with measured(3) as cluster:
        created = await cluster.create("large", ONE_TOPIC)
        controller = cluster.cluster.controller
        assert controller is not None
        victim = next(b for b in (1, 2, 3) if b != controller.config.broker_id)
        cluster.forget()
        gc.collect()
        begun = time.perf_counter()
        await cluster.cluster.stop_broker(victim)
        await cluster.until(cluster.is_all_told)
        left = time.perf_counter() - begun
        await cluster.cluster.start_broker(victim)
        await asyncio.sleep(3)
        await cluster.until(cluster.is_all_told)
        cluster.forget()
        cluster.cluster.kill(victim)
        gone = watch_is(BrokerIdsZNode.path())
        await cluster.until(lambda: cluster.when(gone) is not None)
        begun = cluster.when(gone) or 0.0
        others = [n for n in cluster.cluster.nodes.values() if n.system.is_up]

        def is_elected() -> bool:
            for node in others:
                known = node.replica_manager.cache.topics["large"].values()
                if any(victim in each.isr or each.leader == victim for each in known):
                    return False
            return cluster.is_all_told()

        await cluster.until(is_elected)
        died = time.perf_counter() - begun
        return created, died, left


# --- many brokers ---------------------------------------------------------------------------------


def crowd_row() -> Row:
    """In a process of its own, whose memory is its own."""
    code = "from tests.bench.controller import crowd; crowd()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    detail = f"{told['seconds']:.0f} s to start and create"
    measure = f"{CROWD} brokers × {ONE_TOPIC:,} partitions, resident"
    return at_most(measure, told["megabytes"], CROWD_MB, " MB", detail)


def crowd() -> None:
    async def run() -> float:
        async with measured(CROWD) as cluster:
            begun = time.perf_counter()
            await cluster.load(ONE_TOPIC)
            return time.perf_counter() - begun

    seconds = asyncio.run(run())
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": seconds, "megabytes": megabytes}))
