"""All that an actor may know of the outside.

Rule: time, chance and I/O come from the World, so the same actors run in the real one and in the
simulated one. A World belongs to one node: its session, its disk, its end of every link.
"""

from dataclasses import dataclass
from random import Random
from typing import Protocol

from runtime.files import Disk
from runtime.keeper import Keeper
from runtime.network import Network
from runtime.tracing import NodeTrace

__all__ = ["Clock", "Dice", "Disk", "Keeper", "Network", "NodeTrace", "World"]


Dice = Random  # for those who are given some


class Clock(Protocol):
    """A node's idea of time; wall time may be skewed, elapsed time never runs back."""

    def now_ms(self) -> int:
        """Milliseconds since 1970, as this node believes."""

    def elapsed_ms(self) -> float:
        """Milliseconds since some moment: for intervals."""

    async def sleep(self, duration_ms: float) -> None:
        """Wait. Not in a handler: there, a timer is a message."""


@dataclass(frozen=True)
class World:
    """Every actor's first argument."""

    node: str
    clock: Clock
    random: Random
    keeper: Keeper
    network: Network
    disk: Disk
    trace: NodeTrace
