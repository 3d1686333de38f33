"""A cluster that a test makes up, for the HTTP door to show."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from actors.doors.http.server import HttpServer
from actors.faults.hand import FaultRefused
from actors.story import StoryEvent
from actors.view import BrokerState, BrokerView, ClusterView, OffsetsView, PartitionView
from runtime.clock import RealClock
from runtime.tasks import Bell
from wire.ids import TopicPartition
from wire.observation import Metric

TOPIC_METRICS = "kafka.server:type=BrokerTopicMetrics,name="


def partition(number: int = 0, topic: str = "orders", **fields: Any) -> PartitionView:
    """A healthy one, but for the fields given."""
    known = {"leader": 1, "leader_epoch": 0, "partition_epoch": 0}
    return PartitionView(topic, number, **{**known, "replicas": (1, 2), "isr": (1, 2), **fields})


def view_of(*partitions: PartitionView, **fields: Any) -> ClusterView:
    """Two brokers, of which the first is the controller."""
    brokers = {
        1: BrokerView(1, BrokerState.CONTROLLER, "127.0.0.1:9001", None, 21, len(partitions)),
        2: BrokerView(2, BrokerState.UP, "127.0.0.1:9002", "r2", 22),
    }
    known: dict[str, Any] = {"controller": 1, "controller_epoch": 3, "brokers": brokers}
    by_name = {TopicPartition(each.topic, each.partition): each for each in partitions}
    return ClusterView(**{**known, "partitions": by_name, **fields})


class FakeFaults:
    """Remembers what was asked; broker 9 is not there."""

    def __init__(self) -> None:
        self.cuts: tuple[tuple[int, int], ...] = ()
        self.done: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)

        async def do(*given: int) -> None:
            if 9 in given:
                raise FaultRefused("there is no broker 9; there are: 1, 2")
            self.done.append((name, *given))

        return do


class FakeSource:
    """What a test says is there."""

    zookeeper = "127.0.0.1:2181"

    def __init__(self, *partitions: PartitionView) -> None:
        self.view = view_of(*partitions or (partition(),))
        self.offsets = {TopicPartition("orders", 0): OffsetsView(0, 10, {1: 10, 2: 9})}
        self.faults = FakeFaults()
        self.looks = 0
        self._bell = Bell()
        self.messages_in = 0
        self.listeners: dict[Callable[[StoryEvent], None], None] = {}

    async def looked_at(self, times: int = 1) -> None:
        """Wait until somebody has looked so many times more."""
        wanted = self.looks + times
        async with asyncio.timeout(30):
            while self.looks < wanted:
                await self._bell.wait()

    async def look(self, *, offsets: bool = False) -> ClusterView:
        self.looks += 1
        self._bell.ring()
        if not offsets:
            return self.view
        view = self.view
        return ClusterView(1, 3, view.brokers, view.partitions, self.offsets)

    async def metrics(self) -> Mapping[int, tuple[Metric, ...]]:
        count = (("Count", float(self.messages_in)),)
        active = Metric(
            "kafka.controller:type=KafkaController,name=ActiveControllerCount", (("Value", 1.0),)
        )
        return {1: (Metric(f"{TOPIC_METRICS}MessagesInPerSec", count), active)}

    def listen(self, on_event: Callable[[StoryEvent], None]) -> Callable[[], None]:
        self.listeners[on_event] = None
        return lambda: self.listeners.pop(on_event, None)

    def tell(self, number: int, text: str = "it happened", **fields: Any) -> None:
        """Something happens."""
        for listener in self.listeners:
            listener(StoryEvent(number, 1_700_000_000_000, "election", "info", text, **fields))

    def addresses(self) -> Mapping[str, str]:
        return {"broker-1": "127.0.0.1:9001"}

    def log_folder(self, broker: int) -> Path | None:
        return None

    def admin(self) -> Any:
        raise AssertionError("no operation of these tests needs a client")

    producer = consumer = admin


@asynccontextmanager
async def served(
    source: Any, **options: Any
) -> AsyncIterator[tuple[HttpServer, aiohttp.ClientSession]]:
    """A server on a free port, and a client that knows where it is."""
    server = HttpServer(source, clock=RealClock(), **options)
    await server.start()
    try:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{server.port}/") as client:
            yield server, client
    finally:
        await server.close()
