"""The hand on brokers that live in this process, in either world.

Rule: it knows numbers and asks the cluster; how a thing is broken is the universe's business.
"""

from actors.faults.hand import ZOOKEEPER, FaultRefused
from actors.faults.local import LocalFaults
from actors.faults.vocabulary import Fault, Local, LoseReply
from actors.names import node_name
from actors.node import Node, NodeState
from actors.node_cluster import NodeCluster
from actors.view import ClusterView
from runtime.ref import ActorGone, AskTimedOut
from runtime.simulation.simulator import ZOOKEEPER as ZOOKEEPER_NODE
from runtime.world import Clock


class NodeHand:
    """Faults for a NodeCluster."""

    def __init__(self, cluster: NodeCluster) -> None:
        self._cluster = cluster
        self._cuts: dict[tuple[int, int], None] = {}
        self._local = LocalFaults(cluster.universe)

    @property
    def cuts(self) -> tuple[tuple[int, int], ...]:
        """The links that are cut; 0 is ZooKeeper."""
        return tuple(self._cuts)

    async def kill(self, broker: int, *, process_only: bool = False) -> None:
        """End a broker as a power cut would, or only its process."""
        self._up(broker)
        self._cluster.kill(broker, process_only=process_only)

    async def restart(self, broker: int) -> None:
        """Start a broker that is down; one that is up stops in its own time before."""
        if broker not in self._cluster.brokers:
            raise FaultRefused(f"there is no broker {broker}; there are {self._known()}")
        node = self._cluster.nodes.get(broker)
        if node is not None and node.state in (NodeState.STARTING, NodeState.LEAVING):
            raise FaultRefused(f"broker {broker} is {node.state.value}: wait for that")
        if node is not None and node.system.is_up:
            await self.shut_down(broker)
        try:
            await self._cluster.start_broker(broker)
        except (ActorGone, AskTimedOut) as error:
            raise FaultRefused(f"broker {broker} went down while it started: {error}") from None
        except ValueError as error:  # somebody else has started it meanwhile
            raise FaultRefused(str(error)) from None

    async def pause(self, broker: int) -> None:
        """Freeze a broker."""
        node = self._up(broker)
        if node.system.is_paused:
            raise FaultRefused(f"broker {broker} is paused already")
        self._cluster.universe.pause(node.world.node)

    async def resume(self, broker: int) -> None:
        """Let a frozen broker go on."""
        node = self._up(broker)
        if not node.system.is_paused:
            raise FaultRefused(f"broker {broker} is not paused")
        self._cluster.universe.resume(node.world.node)

    async def shut_down(self, broker: int) -> None:
        """Stop a broker in its own time."""
        node = self._up(broker)
        if node.state is NodeState.LEAVING:
            raise FaultRefused(f"broker {broker} is leaving already")
        if node.system.is_paused:
            self._cluster.universe.resume(node.world.node)
        await self._cluster.stop_broker(broker)

    async def expire_session(self, broker: int) -> None:
        """End a broker's ZooKeeper session although it is well."""
        node = self._up(broker)
        await self._cluster.universe.expire(node.world.node)

    async def cut(self, broker: int, other: int, *, one_way: bool = False) -> None:
        """Lose all that is sent between two brokers, or between a broker and ZooKeeper (0)."""
        if broker == ZOOKEEPER:
            broker, other = other, broker
        if broker == other:
            raise FaultRefused(f"broker {broker} has no link to itself")
        for each in (broker, other):
            if each != ZOOKEEPER and each not in self._cluster.brokers:
                raise FaultRefused(f"there is no broker {each}; there are {self._known()}")
        if other == ZOOKEEPER:
            self._up(broker)
        link = _link(broker, other)
        if link in self._cuts:
            raise FaultRefused(f"the link between {_named(broker)} and {_named(other)} is cut")
        self._cluster.universe.cut(node_name(broker), _node(other), one_way=one_way)
        self._cuts[link] = None

    async def mend(self, broker: int, other: int, *, one_way: bool = False) -> None:
        """Mend one link that is cut."""
        if broker == ZOOKEEPER:
            broker, other = other, broker
        if self._cuts.pop(_link(broker, other), ...) is None:
            self._cluster.universe.mend(node_name(broker), _node(other), one_way=one_way)

    async def heal(self) -> None:
        """Mend every link, and let all go on that are paused."""
        for node in self._cluster.nodes.values():
            if node.system.is_up and node.system.is_paused:
                self._cluster.universe.resume(node.world.node)
        self._local.undo_all()
        self._cluster.universe.heal()
        self._cuts.clear()

    # --- what the injector needs ------------------------------------------------------------------

    @property
    def session_timeout_ms(self) -> float:
        """After how long ZooKeeper gives a silent broker up."""
        return self._cluster.session_timeout_ms

    @property
    def last(self) -> int:
        """The number of the last fault."""
        return self._cluster.universe.fault_log.last

    @property
    def clock(self) -> Clock:
        """The universe's own."""
        return self._cluster.clock

    async def look(self) -> ClusterView:
        """Who leads what."""
        return self._cluster.view(offsets=False)

    async def apply(self, fault: Fault) -> int:
        """Do what is done inside a broker's process."""
        target = "links"
        if isinstance(fault, Local):
            assert isinstance(fault.broker, int), "it was resolved"
            target = node_name(fault.broker)
            needs_life = isinstance(fault, LoseReply)
            if needs_life or fault.broker not in self._cluster.brokers:
                self._up(fault.broker)
        number = self.last + 1
        self._local.apply(fault, number)
        return self._cluster.universe.fault_log.injected(fault.name, target, fault.detail)

    async def undo(self, number: int) -> None:
        """Undo that."""
        self._local.undo(number)

    async def stop_zookeeper(self) -> None:
        """Stop ZooKeeper, if it is ours to stop."""
        try:
            await self._cluster.stop_zookeeper()
        except ValueError as error:
            raise FaultRefused(str(error)) from None
        self._cluster.universe.fault_log.injected("stop", ZOOKEEPER_NODE)

    async def start_zookeeper(self) -> None:
        """Start ZooKeeper again."""
        try:
            await self._cluster.start_zookeeper()
        except ValueError as error:
            raise FaultRefused(str(error)) from None
        self._cluster.universe.fault_log.healed("stop", ZOOKEEPER_NODE)

    def healed(self, fault: str, target: str, number: int) -> None:
        """Tell the trace that one fault is undone."""
        self._cluster.universe.fault_log.healed(fault, target, number)

    def _up(self, broker: int) -> Node:
        if broker not in self._cluster.brokers:
            raise FaultRefused(f"there is no broker {broker}; there are {self._known()}")
        node = self._cluster.nodes.get(broker)
        if node is None or not node.system.is_up:
            raise FaultRefused(f"broker {broker} is down")
        return node

    def _known(self) -> str:
        return ", ".join(map(str, self._cluster.brokers))


def _link(broker: int, other: int) -> tuple[int, int]:
    return (broker, other) if other == ZOOKEEPER else (min(broker, other), max(broker, other))


def _node(broker: int) -> str:
    return ZOOKEEPER_NODE if broker == ZOOKEEPER else node_name(broker)


def _named(broker: int) -> str:
    return "ZooKeeper" if broker == ZOOKEEPER else f"broker {broker}"
