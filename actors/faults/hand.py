"""A hand on a cluster: what can be broken on purpose, by the numbers of the brokers.

Rule: a fault that would hit nobody is refused with a sentence; every other one is an event of the
trace with a number, which is the answer. What mends answers the number of what it mended, or 0 if
nobody had broken it. Both worlds, and brokers in other processes, have the same hand.
"""

from collections.abc import Set as AbstractSet
from typing import Any, Protocol

from actors.view import ClusterView
from runtime.world import Clock

ZOOKEEPER = 0  # in place of a broker's number, in `cut`


class FaultRefused(ValueError):
    """There is nothing that this fault could hit; the sentence says why."""


class Faults(Protocol):
    """What breaks, and mends, a cluster."""

    @property
    def cuts(self) -> tuple[tuple[int, int], ...]:
        """The links that are cut; 0 is ZooKeeper."""

    async def kill(self, broker: int, *, process_only: bool = False) -> int:
        """End a broker as a power cut would."""

    async def restart(self, broker: int) -> int:
        """Start a broker that is down; one that is up stops in its own time before."""

    async def pause(self, broker: int) -> int:
        """Freeze a broker: it handles nothing and pings nobody, as in a long garbage collection."""

    async def resume(self, broker: int) -> int:
        """Let a frozen broker go on."""

    async def shut_down(self, broker: int) -> int:
        """Stop a broker in its own time: leadership moves away, then it leaves."""

    async def expire_session(self, broker: int) -> int:
        """End a broker's ZooKeeper session although it is well."""

    async def cut(self, broker: int, other: int, *, one_way: bool = False) -> int:
        """Lose all that is sent between two brokers, or between a broker and ZooKeeper (0)."""

    async def mend(self, broker: int, other: int, *, one_way: bool = False) -> None:
        """Mend one link that is cut."""

    async def heal(self) -> None:
        """Mend every link, and let all go on that are paused."""

    # What the injector needs beyond that.

    @property
    def session_timeout_ms(self) -> float:
        """After how long ZooKeeper gives a silent broker up."""

    @property
    def open(self) -> AbstractSet[int]:
        """The numbers of the faults that are not mended."""

    @property
    def clock(self) -> Clock:
        """That nobody skews."""

    async def look(self) -> ClusterView:
        """Who leads what."""

    async def apply(self, fault: Any) -> int:
        """Do what is done inside a broker's process; the answer is its number."""

    async def undo(self, number: int) -> None:
        """Undo that."""

    async def stop_zookeeper(self) -> int:
        """Stop ZooKeeper, if it is ours to stop; what it has written stays."""

    async def start_zookeeper(self) -> int:
        """Start ZooKeeper again."""
