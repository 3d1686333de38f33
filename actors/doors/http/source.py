"""What the HTTP door shows.

Rule: the door knows a cluster only by this, so it serves one in this process and one of several.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from actors.clients import Clients
from actors.faults.hand import Faults
from actors.faults.stage import RealStage
from actors.story import StoryEvent
from actors.view import ClusterView
from wire.observation import Metric


class Source(Clients, Protocol):
    """A cluster, as the door wants it."""

    @property
    def zookeeper(self) -> str:
        """Where ZooKeeper is."""

    @property
    def faults(self) -> Faults:
        """The hand that breaks and mends it."""

    @property
    def stage(self) -> RealStage:
        """Where scenarios are played."""

    async def look(self, *, offsets: bool = False) -> ClusterView:
        """The cluster as it is."""

    async def metrics(self) -> Mapping[int, tuple[Metric, ...]]:
        """Kafka's MBeans of every broker that answers."""

    def listen(self, on_event: Callable[[StoryEvent], None]) -> Callable[[], None]:
        """Hear what happens; the answer stops that."""

    def addresses(self) -> Mapping[str, str]:
        """Where the brokers that are up can be reached, by their names."""

    def log_folder(self, broker: int) -> Path | None:
        """Where a broker's logs are, if they are files on this machine."""
