"""A real cluster on a real ZooKeeper, and how a test waits for what happens in it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from actors.cluster import Cluster
from actors.node_cluster import settings_of
from tests.support.zookeeper import SharedZooKeeper
from wire.ids import TopicPartition
from wire.trace import TraceEvent
from wire.znodes import PartitionState, PartitionStateZNode

LIMIT_S = 60


class RealDrive:
    """Waits for events, never for time."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.admin = cluster.admin()
        self.events: list[TraceEvent] = []
        self._news = asyncio.Event()
        cluster.process.trace.listeners.append(self._on_event)

    def _on_event(self, _: object, event: TraceEvent) -> None:
        self.events.append(event)
        self._news.set()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds, looking again after each event."""
        async with asyncio.timeout(LIMIT_S):
            while not holds():
                self._news.clear()
                await self._news.wait()

    def cached(self, broker: int, partition: TopicPartition) -> Any:
        """A partition as a broker's clients see it, or None."""
        return self.cluster.nodes[broker].replica_manager.cache.partition(partition)

    def everybody_sees(self, partition: TopicPartition, **fields: Any) -> Callable[[], bool]:
        """Whether all live brokers know the partition so."""

        def holds() -> bool:
            live = [broker for broker, node in self.cluster.nodes.items() if node.system.is_up]
            known = [self.cached(broker, partition) for broker in live]
            return all(
                each is not None and all(getattr(each, k) == v for k, v in fields.items())
                for each in known
            )

        return holds

    async def state(self, partition: TopicPartition) -> PartitionState:
        """What ZooKeeper has of a partition."""
        node = next(node for node in self.cluster.nodes.values() if node.system.is_up)
        znode = await node.world.keeper.get(PartitionStateZNode.path(partition))
        return PartitionStateZNode.decode(partition, znode.data)


@asynccontextmanager
async def real_cluster(
    zookeeper: SharedZooKeeper,
    brokers: int = 3,
    *,
    session_timeout_ms: int = 60_000,
    **options: Any,
) -> AsyncIterator[RealDrive]:
    """Brokers on a chroot of their own.

    Sessions are long: a shared machine may stand still for seconds. A test in which somebody dies
    asks for shorter ones, since it waits for their end. Broker 1 is the controller: the others
    start when it is, since whoever is first wins.
    """
    hosts = zookeeper.hosts + zookeeper.chroot()
    options["overrides"] = settings_of(brokers, options.get("overrides"))
    cluster = Cluster(1, zookeeper=hosts, session_timeout_ms=session_timeout_ms, **options)
    async with cluster:
        assert cluster.nodes[1].is_controller
        cluster.brokers = tuple(range(1, brokers + 1))
        for broker in cluster.brokers[1:]:
            await cluster.start_broker(broker)
        drive = RealDrive(cluster)
        await drive.until(
            lambda: all(
                len(node.replica_manager.cache.brokers) == brokers
                for node in cluster.nodes.values()
            )
        )
        yield drive
