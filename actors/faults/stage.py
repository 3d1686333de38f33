"""A cluster on which a scenario can be played, in this process or in several.

Rule: whoever plays knows a cluster only by this. What only a cluster of this process can do is
asked of its universe; where there is none, the sentence says so.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

from actors.clients import Clients
from actors.conditions import Condition
from actors.faults.hand import FaultRefused
from actors.universe import Universe
from actors.view import ClusterView
from runtime.world import Clock
from wire.trace import Stamp, TraceEvent

Hear = Callable[[Stamp, TraceEvent], None]


class Stage(Clients, Protocol):
    """What is played on."""

    @property
    def brokers(self) -> tuple[int, ...]:
        """All, whether they are up or not."""

    @property
    def clock(self) -> Clock:
        """That nobody skews."""

    @property
    def world(self) -> Universe | None:
        """Where the brokers live, if that is this process."""

    def is_up(self, broker: int) -> bool:
        """Whether it runs."""

    async def start_broker(self, broker: int) -> object:
        """Start a broker that is not running."""

    async def look(self, *, offsets: bool = False) -> ClusterView:
        """The cluster as it is."""

    async def until(
        self, condition: Condition | Callable[[ClusterView], bool], *, timeout_ms: float = ...
    ) -> ClusterView:
        """Wait until something can be seen of the cluster."""

    def watch(self, kinds: Iterable[type[TraceEvent]], hear: Hear) -> Callable[[], None]:
        """Hear of events of these kinds, wherever they are left; the answer stops that."""


class RealStage(Stage, Protocol):
    """A real cluster."""

    @property
    def zookeeper(self) -> str:
        """Where ZooKeeper is."""

    def log_folder(self, broker: int) -> Path | None:
        """Where a broker's logs are, if they are files on this machine."""


def world_of(stage: Stage, what: str) -> Universe:
    """The universe of brokers that live here."""
    if stage.world is None:
        raise FaultRefused(f"{what} where brokers are processes of their own")
    return stage.world
