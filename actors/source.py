"""A cluster of this process, as those who show it to people want it.

Rule: it adds nothing: what is seen, told and broken is the cluster's own.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from actors.client.admin import Admin
from actors.client.consumer import Consumer
from actors.client.producer import Producer
from actors.cluster import Cluster
from actors.faults.node_hand import NodeHand
from actors.node_cluster import NodeCluster
from actors.story import StoryEvent, listen
from actors.view import ClusterView
from wire.observation import Metric


class NodeSource:
    """What the HTTP door, and bin/run-cluster, know of a NodeCluster."""

    def __init__(self, cluster: NodeCluster, *, zookeeper: str = "") -> None:
        self._cluster = cluster
        self.zookeeper = zookeeper
        self.faults = NodeHand(cluster)

    @property
    def stage(self) -> Cluster:
        """Where scenarios are played."""
        assert isinstance(self._cluster, Cluster), "real clusters are shown"
        return self._cluster

    async def look(self, *, offsets: bool = False) -> ClusterView:
        """The cluster as it is."""
        return self._cluster.view(offsets=offsets)

    async def metrics(self) -> Mapping[int, tuple[Metric, ...]]:
        """Kafka's MBeans of every broker that is up."""
        return await self._cluster.metrics()

    def listen(self, on_event: Callable[[StoryEvent], None]) -> Callable[[], None]:
        """Hear what happens; the answer stops that."""
        return listen(self._cluster.universe.trace, self._cluster.clock, on_event)

    def addresses(self) -> Mapping[str, str]:
        """Where the brokers that are up can be reached, by their names."""
        return self._cluster.addresses()

    def log_folder(self, broker: int) -> Path | None:
        """Where a broker's logs are, if they are files."""
        return self._cluster.log_folder(broker)

    def admin(self) -> Admin:
        """An administrator's client."""
        return self._cluster.admin()

    def producer(self, **options: Any) -> Producer:
        """A client that sends records."""
        return self._cluster.producer(**options)

    def consumer(self, **options: Any) -> Consumer:
        """A client that reads records."""
        return self._cluster.consumer(**options)
