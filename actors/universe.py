"""Whoever can make a World for a node, cut a dead node's off, and break things on purpose.

Rule: the real process and the simulator are both one; a cluster does not know which it has.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from runtime.fault_log import FaultLog
from runtime.listener import Listener
from runtime.system import System
from runtime.tampering import Tamper, WatchTamper
from runtime.tracing import Trace
from runtime.world import Clock, Dice, Network, World


class Universe(Protocol):
    """Whoever can make a World for a node, cut a dead node's off, and break things on purpose."""

    trace: Trace
    clock: Clock  # that nobody skews
    tamper: Tamper
    fault_log: FaultLog

    async def open(self, node: str, *, port: int = 0) -> tuple[World, tuple[str, int]]:
        """A node's World, and where it listens; port 0: any that is free."""

    async def listen(self, node: str, *, port: int = 0) -> Listener:
        """A port of a node for callers from outside; it closes with the node's World."""

    def client(self, name: str) -> tuple[Network, Clock]:
        """A place on the network for somebody who is no broker."""

    def adopt(self, system: System) -> None:
        """Let faults reach this node's actors."""

    def publish(self, node: str, directory: Callable[[], Mapping[str, str]]) -> None:
        """What a node tells visitors: which nodes there are, and where."""

    async def leave(self, world: World) -> None:
        """The node has stopped, and says goodbye."""

    def lose(self, world: World) -> None:
        """The node is dead: nothing of it speaks any more."""

    # What breaks something answers the fault's number.

    def kill(self, node: str, *, process_only: bool = False) -> int:
        """End a node as a power cut would, or only its process."""

    def pause(self, node: str) -> int:
        """Freeze a node."""

    def resume(self, node: str) -> int:
        """Let a frozen node go on; the answer is the number of its pause."""

    async def expire(self, node: str) -> int:
        """End a node's ZooKeeper session."""

    def cut(self, source: str, destination: str, *, one_way: bool = False) -> int:
        """Lose all that is sent between two nodes, or between a node and ZooKeeper."""

    def mend(self, source: str, destination: str, *, one_way: bool = False) -> None:
        """Mend one link that is cut."""

    def heal(self) -> None:
        """Mend every link."""

    # Faults that are told of by whoever asks for them: actors/faults/local.py.

    def random(self, name: str) -> Dice:
        """Dice for one thing."""

    def watch_tamper(self, node: str) -> WatchTamper:
        """What is done to a node's watch events, in all its lives."""

    def skew(self, node: str, skew_ms: int) -> None:
        """Put a node's clock forward, or back."""

    def spoil_reply(self, node: str) -> None:
        """Apply the node's next ZooKeeper write, and lose the answer."""

    def linger(self, node: str, delay_ms: float) -> None:
        """What the node's next session that ends has left is removed so much later."""

    def fill_disk(self, node: str) -> None:
        """Leave no room on a node's disk."""

    def fail_disk(self, node: str, prefix: str) -> None:
        """Whatever touches a path that begins so has failed."""

    def slow_disk(self, node: str, duration_ms: float) -> None:
        """Every sync takes so much longer."""

    def forget_unsynced(self, node: str) -> None:
        """From now on nothing that a node has not synced outlives a power cut."""

    def flip_bit(self, node: str, path: str, position: int, bit: int) -> None:
        """Let a bit of a file rot."""

    def files(self, node: str, below: str) -> dict[str, int]:
        """The files of a folder of a node's disk, and their sizes."""

    def heal_disk(self, node: str) -> None:
        """A node's disk is well again; what it has lost stays lost."""
