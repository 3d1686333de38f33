"""N brokers in one process.

Rule: a cluster is the same in both worlds; what differs is the universe that makes a World for a
node. A node that goes down by itself is noticed, its World cut off; the others go on.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Final, Protocol, Self

from actors.client.admin import Admin
from actors.client.config import ConsumerConfig, ProducerConfig
from actors.client.consumer import Consumer
from actors.client.producer import Producer
from actors.config import BrokerConfig, options_of
from actors.node import Node, NodeState, node_name
from runtime.embedded import EmbeddedZooKeeper
from runtime.folder import Folder
from runtime.keeper import Keeper, KeeperError, SessionEvent, SessionState
from runtime.real import RealProcess
from runtime.simulation.simulator import Simulator
from runtime.system import STOPPED, System
from runtime.world import Clock, Network, World
from wire.data import Fetch
from wire.errors import MalformedZNode
from wire.ids import BrokerId, Endpoint
from wire.znodes import BrokerIdZNode, TopicsZNode

LISTENER: Final = "INTERNAL"  # our own door: msgpack frames over a WebSocket
PLAINTEXT: Final = "PLAINTEXT"
POLL_MS: Final = 10
TOPICS_KNOWN_MS: Final = 5_000
OWN: Final = ("broker_id", "broker_rack")  # settings in which brokers differ
NOT_STARTED: Final = "it could not start"
Announce = Callable[[str], None]


class Universe(Protocol):
    """Whoever can make a World for a node, and cut a dead node's off."""

    async def open(self, node: str) -> tuple[World, tuple[str, int]]:
        """A node's World, and where it listens."""

    def client(self, name: str) -> tuple[Network, Clock]:
        """A place on the network for somebody who is no broker."""

    def adopt(self, system: System) -> None:
        """Let faults reach this node's actors."""

    async def leave(self, world: World) -> None:
        """The node has stopped, and says goodbye."""

    def lose(self, world: World) -> None:
        """The node is dead: nothing of it speaks any more."""


class SessionNews:
    """Tells when a broker loses ZooKeeper, and when it has it again."""

    def __init__(self, broker: int, announce: Announce) -> None:
        self._broker = broker
        self._announce = announce
        self._has_lost_it = False

    def tell(self, event: SessionEvent) -> None:
        """The session's state is another; the first connection and the farewell are no news."""
        match event.state:
            case SessionState.SUSPENDED:
                self._announce(f"broker {self._broker} has lost ZooKeeper, and waits for it")
            case SessionState.EXPIRED:
                self._announce(f"broker {self._broker} has lost its session, and opens another")
            case SessionState.CONNECTED if self._has_lost_it:
                self._announce(f"broker {self._broker} has ZooKeeper again")
        self._has_lost_it = event.state is not SessionState.CONNECTED


class NodeCluster:
    """Brokers that live in one universe."""

    def __init__(
        self,
        universe: Universe,
        *,
        brokers: int,
        session_timeout_ms: int = 6_000,
        overrides: Mapping[str, Any] | None = None,
        racks: Mapping[int, str] | None = None,
        announce: Announce | None = None,
    ) -> None:
        if brokers < 1:
            raise ValueError(f"a cluster has at least one broker, not {brokers}")
        self._universe = universe
        given = options_of(BrokerConfig, overrides or {}, own=OWN)
        self._overrides = {"zookeeper_session_timeout_ms": session_timeout_ms, **given}
        BrokerConfig(broker_id=1, **self._overrides)  # refused now what no broker could start with
        self._racks = racks or {}
        self._clients = 0
        self._is_closing = False
        self._announce = announce or (lambda _: None)
        self.nodes: dict[int, Node] = {}
        self.brokers = tuple(range(1, brokers + 1))

    async def start_nodes(self) -> None:
        """Start every broker, one after the other."""
        for broker in self.brokers:
            await self.start_broker(broker)

    async def start_broker(self, broker: int) -> Node:
        """Start a broker that is not running."""
        if broker in self.nodes and self.nodes[broker].system.is_up:
            raise ValueError(f"broker {broker} is running already")
        rack = self._racks.get(broker)
        config = BrokerConfig(broker_id=broker, broker_rack=rack, **self._overrides)
        world, (host, port) = await self._universe.open(node_name(broker))
        endpoint = Endpoint(LISTENER, PLAINTEXT, host, port)
        node = Node(config, world, (endpoint,), on_down=self._on_down, on_state=self._on_state)
        self._universe.adopt(node.system)
        self.nodes[broker] = node
        world.keeper.listen(SessionNews(broker, self._announce))
        try:
            epoch = await node.start()
        except BaseException:
            node.kill(NOT_STARTED)
            raise
        self._announce(f"broker {broker} is up at {endpoint}, epoch {epoch}")
        return node

    async def await_topics(self) -> None:
        """Wait until every broker that is up knows every topic, but not for ever.

        A topic whose znode nobody can read is never known, and one whose deletion goes on neither.
        """
        clock = self.nodes[self.brokers[0]].world.clock
        end_ms = clock.elapsed_ms() + TOPICS_KNOWN_MS
        while clock.elapsed_ms() < end_ms:
            up = [node for node in self.nodes.values() if node.system.is_up]
            if not up:
                return
            with suppress(KeeperError):  # whoever has lost ZooKeeper says so, and may have it again
                topics = set(await up[0].world.keeper.children(TopicsZNode.path()))
                if all(topics <= node.replica_manager.cache.topics.keys() for node in up):
                    return
            await clock.sleep(POLL_MS)

    async def stop_nodes(self) -> None:
        """Stop every broker, last started first; none waits for what nobody can take over."""
        self._is_closing = True  # who is the controller for a moment is no news then
        for broker, node in reversed(tuple(self.nodes.items())):
            if node.state is NodeState.STOPPED:
                continue
            if node.world.keeper.state is SessionState.CONNECTED:
                await self.stop_broker(broker, retries=0)
            else:  # nobody hears a farewell, and the wait for somebody could be without end
                node.kill("it was stopped without ZooKeeper")

    async def stop_broker(self, broker: int, *, retries: int | None = None) -> None:
        """Stop a broker in its own time: leadership moves away, then it leaves."""
        node = self._node(broker)
        await node.stop(retries=retries)
        await self._universe.leave(node.world)
        self._announce(f"broker {broker} has stopped")

    def kill(self, broker: int) -> None:
        """End a broker as a power cut would."""
        self._node(broker).kill()

    @property
    def controller(self) -> Node | None:
        """The broker that is the controller, if one is."""
        return next((node for node in self.nodes.values() if node.is_controller), None)

    def admin(self) -> Admin:
        """An administrator's client of this cluster."""
        return Admin(*self._client("admin"), name_of=node_name)

    def producer(self, **options: Any) -> Producer:
        """A client that sends records; options are those of ProducerConfig."""
        config = ProducerConfig(**options_of(ProducerConfig, options))
        return Producer(*self._client("producer"), name_of=node_name, config=config)

    def consumer(self, **options: Any) -> Consumer:
        """A client that reads records; options are those of ConsumerConfig."""
        config = ConsumerConfig(**options_of(ConsumerConfig, options))
        return Consumer(*self._client("consumer"), name_of=node_name, config=config)

    def _client(self, kind: str) -> tuple[Network, Clock, list[str]]:
        self._clients += 1
        network, clock = self._universe.client(f"{kind}-{self._clients}")
        return network, clock, [node_name(each) for each in self.brokers]

    def _node(self, broker: int) -> Node:
        if broker not in self.nodes:
            known = ", ".join(map(str, sorted(self.nodes))) or "none"
            raise ValueError(f"there is no broker {broker}; there are: {known}")
        return self.nodes[broker]

    def _on_state(self, node: Node) -> None:
        if node.state is NodeState.CONTROLLER and not self._is_closing:
            self._announce(f"the controller is broker {node.config.broker_id}")

    def _on_down(self, node: Node, reason: str) -> None:
        if reason == STOPPED:
            return
        if reason != NOT_STARTED:  # that is raised, and told by whoever catches it
            self._announce(f"broker {node.config.broker_id} is down: {reason}")
        self._universe.lose(node.world)


class Cluster(NodeCluster):
    """Real brokers on a real ZooKeeper: `async with Cluster(brokers=3) as cluster`.

    Without `zookeeper` one is embedded; without `data` the folder is temporary.
    """

    def __init__(
        self,
        brokers: int = 3,
        *,
        zookeeper: str | None = None,
        data: Path | None = None,
        trace: Path | None = None,
        session_timeout_ms: int = 6_000,
        overrides: Mapping[str, Any] | None = None,
        racks: Mapping[int, str] | None = None,
        announce: Announce | None = None,
    ) -> None:
        self._given = data
        self._trace = trace
        self._folder: Folder | None = None
        self._zookeeper = zookeeper
        self._embedded: EmbeddedZooKeeper | None = None
        self.process = RealProcess(
            resolve=resolve, session_timeout_ms=session_timeout_ms, trace_folder=trace
        )
        super().__init__(
            self.process,
            brokers=brokers,
            session_timeout_ms=session_timeout_ms,
            overrides=overrides,
            racks=racks,
            announce=announce,
        )

    @property
    def zookeeper(self) -> str:
        """Where ZooKeeper is."""
        if self._embedded is not None:
            return self._embedded.hosts
        assert self._zookeeper is not None
        return self._zookeeper

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Start ZooKeeper if it is ours, then every broker."""
        if self._trace is not None:
            # What cannot be written is told now, and not lost later.
            self._trace.mkdir(parents=True, exist_ok=True)
            TemporaryFile(dir=self._trace).close()
        self._folder = Folder.open(self._given)
        self.process.data = self._folder.path
        if self._zookeeper is None:
            self._embedded = EmbeddedZooKeeper(data=self._folder.path / "zookeeper")
            await self._embedded.start()
            self._announce(f"ZooKeeper is up at {self._embedded.hosts}")
        else:
            self._announce(f"looking for ZooKeeper at {self._zookeeper}")
        self.process.zookeeper = self.zookeeper
        await self.process.start()
        await self.start_nodes()
        # Up they are when one cares for them and all know each other: a client may ask any of them.
        while self.controller is None or not self._know_each_other():
            await next(iter(self.nodes.values())).world.clock.sleep(POLL_MS)
        await self.await_topics()

    def _know_each_other(self) -> bool:
        up = {broker: node for broker, node in self.nodes.items() if node.system.is_up}
        return all(up.keys() <= node.replica_manager.cache.brokers.keys() for node in up.values())

    async def close(self) -> None:
        """Stop every broker, then ZooKeeper if it is ours, and leave nothing behind."""
        try:
            await self.stop_nodes()
        finally:
            await self.process.close()
            if self._embedded is not None:
                await self._embedded.close()
                self._announce("ZooKeeper has stopped")
            if self._folder is not None:
                self._folder.close()


class SimulatedCluster(NodeCluster):
    """The same brokers in a simulated world."""

    def __init__(
        self,
        simulator: Simulator,
        *,
        brokers: int = 3,
        overrides: Mapping[str, Any] | None = None,
        racks: Mapping[int, str] | None = None,
    ) -> None:
        self.simulator = simulator
        simulator.routine |= {Fetch.__name__}  # followers ask for ever
        timeout_ms = round(simulator.zookeeper.session_timeout_ms)
        super().__init__(
            simulator,
            brokers=brokers,
            session_timeout_ms=timeout_ms,
            overrides=overrides,
            racks=racks,
        )

    def kill(self, broker: int) -> None:
        """End a broker as a power cut would."""
        self.simulator.kill(self._node(broker).world.node)


async def resolve(keeper: Keeper, node: str) -> str | None:
    """Where a broker's own door is, by what it registered."""
    name, _, number = node.rpartition("-")
    if name != "broker" or not number.isdigit():
        return None
    broker = BrokerId(int(number))
    try:
        znode = await keeper.get(BrokerIdZNode.path(broker))
        endpoints = BrokerIdZNode.decode(broker, znode.data).endpoints
    except (KeeperError, MalformedZNode):
        return None
    own = (each for each in endpoints if each.listener == LISTENER)
    return next((f"{each.host}:{each.port}" for each in own), None)
