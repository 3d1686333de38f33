"""A hand on a cluster: what can be broken on purpose, by the numbers of the brokers.

Rule: a fault that would hit nobody is refused with a sentence; every other one is an event of the
trace. Both worlds, and brokers in other processes, have the same hand.
"""

from typing import TYPE_CHECKING, Protocol

from actors.view import ClusterView
from runtime.world import Clock

if TYPE_CHECKING:
    from actors.faults.vocabulary import Fault

ZOOKEEPER = 0  # in place of a broker's number, in `cut`


class FaultRefused(ValueError):
    """There is nothing that this fault could hit; the sentence says why."""


class Faults(Protocol):
    """What breaks, and mends, a cluster."""

    @property
    def cuts(self) -> tuple[tuple[int, int], ...]:
        """The links that are cut; 0 is ZooKeeper."""

    async def kill(self, broker: int, *, process_only: bool = False) -> None:
        """End a broker as a power cut would."""

    async def restart(self, broker: int) -> None:
        """Start a broker that is down; one that is up stops in its own time before."""

    async def pause(self, broker: int) -> None:
        """Freeze a broker: it handles nothing and pings nobody, as in a long garbage collection."""

    async def resume(self, broker: int) -> None:
        """Let a frozen broker go on."""

    async def shut_down(self, broker: int) -> None:
        """Stop a broker in its own time: leadership moves away, then it leaves."""

    async def expire_session(self, broker: int) -> None:
        """End a broker's ZooKeeper session although it is well."""

    async def cut(self, broker: int, other: int, *, one_way: bool = False) -> None:
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
    def last(self) -> int:
        """The number of the last fault."""

    @property
    def clock(self) -> Clock:
        """That nobody skews."""

    async def look(self) -> ClusterView:
        """Who leads what."""

    async def apply(self, fault: "Fault") -> int:
        """Do what is done inside a broker's process; the answer is its number."""

    async def undo(self, number: int) -> None:
        """Undo that."""

    async def stop_zookeeper(self) -> None:
        """Stop ZooKeeper, if it is ours to stop; what it has written stays."""

    async def start_zookeeper(self) -> None:
        """Start ZooKeeper again."""

    def healed(self, fault: str, target: str, number: int) -> None:
        """Tell the trace that one fault is undone."""
