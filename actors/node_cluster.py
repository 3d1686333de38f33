"""N brokers in one process, whichever world they live in.

Rule: a cluster is the same in both worlds; what differs is the universe that makes a World for a
node. A node that goes down by itself is noticed, its World cut off; the others go on. A broker
keeps its port from one life to the next, unless somebody has taken it meanwhile.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from errno import EADDRINUSE
from pathlib import Path
from typing import Any, Final

from actors.client.admin import Admin
from actors.client.config import ConsumerConfig, ProducerConfig
from actors.client.consumer import Consumer
from actors.client.deadline import Deadline
from actors.client.producer import Producer
from actors.conditions import WAKING, Condition, NotReached
from actors.config import BrokerConfig, options_of
from actors.doors.kafka.credentials import Credentials
from actors.doors.kafka.door import KAFKA
from actors.names import node_name
from actors.node import Node, NodeState
from actors.observing import broker_view, observe
from actors.universe import Universe
from actors.view import ClusterView, assemble
from runtime.keeper import KeeperError, SessionState
from runtime.system import STOPPED
from runtime.tasks import Bell
from runtime.tracing import Listener as Hear
from runtime.world import Clock, Network, World
from wire.ids import BrokerId, Endpoint
from wire.observation import Metric, Observe
from wire.trace import TraceEvent
from wire.znodes import TopicsZNode

LISTENER: Final = "INTERNAL"  # our own door: msgpack frames over a WebSocket
PLAINTEXT: Final = "PLAINTEXT"
SASL_PLAINTEXT: Final = "SASL_PLAINTEXT"
POLL_MS: Final = 10
TOPICS_KNOWN_MS: Final = 5_000
WAIT_MS: Final = 30_000
LOOK_AGAIN_MS: Final = 100  # a broker's caches change without an event
OWN: Final = ("broker_id", "broker_rack")  # settings in which brokers differ
NOT_STARTED: Final = "it could not start"
OFFSETS_REPLICAS: Final = BrokerConfig.offsets_topic_replication_factor

Announce = Callable[[str], None]


def settings_of(brokers: int, overrides: Mapping[str, Any] | None) -> dict[str, Any]:
    """What brokers that are started together are told.

    Groups' offsets are replicated as Kafka wants it, or as far as a small cluster can.
    """
    given = options_of(BrokerConfig, overrides or {}, own=OWN)
    replicas = min(OFFSETS_REPLICAS, brokers)
    return {
        "offsets_topic_replication_factor": replicas,
        "transaction_state_log_replication_factor": replicas,
        "transaction_state_log_min_isr": min(2, replicas),
        **given,
    }


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
        self.universe = universe
        self.session_timeout_ms = session_timeout_ms
        given = options_of(BrokerConfig, overrides or {}, own=OWN)
        self._overrides = {"zookeeper_session_timeout_ms": session_timeout_ms, **given}
        BrokerConfig(broker_id=1, **self._overrides)  # refused now what no broker could start with
        self._racks = racks or {}
        self._clients = 0
        self._ports: dict[int, int] = {}  # of each broker, once it has one
        self._kafka_ports: dict[int, int] = {}
        self._opening: set[int] = set()  # two at once would both have a door
        self._credentials: Credentials | None = None  # of Kafka's clients
        self._announce = announce or (lambda _: None)
        self.may_move = True  # to another port: nobody has asked for this one
        self.nodes: dict[int, Node] = {}
        self.brokers = tuple(range(1, brokers + 1))

    async def start_nodes(self, first: int | None = None) -> None:
        """Start every broker, one after the other; the first is the controller before others are.

        Unless it is said who that is, whoever is fastest wins.
        """
        if first is not None:
            await self.start_broker(first)
            while self.controller is None:
                await self.clock.sleep(POLL_MS)
        for broker in self.brokers:
            if broker != first:
                await self.start_broker(broker)

    async def start_broker(self, broker: int) -> Node:
        """Start a broker that is not running."""
        if broker in self.nodes and self.nodes[broker].system.is_up:
            raise ValueError(f"broker {broker} is running already")
        if broker in self._opening:
            raise ValueError(f"broker {broker} is starting already")
        self._opening.add(broker)
        try:
            node = self.nodes[broker] = await self._node_of(broker)
        finally:
            self._opening.discard(broker)
        try:
            await node.start()
        except BaseException:
            node.kill(NOT_STARTED)
            raise
        return node

    async def _node_of(self, broker: int) -> Node:
        """A broker's next life, with both of its doors open; or nothing of it."""
        rack = self._racks.get(broker)
        config = BrokerConfig(broker_id=broker, broker_rack=rack, **self._overrides)
        name = node_name(broker)
        world, (host, port) = await self._open(name, self._ports.get(broker, 0))
        self._ports[broker] = port
        try:
            listener = await self.universe.listen(name, port=self._kafka_ports.get(broker, 0))
        except BaseException:
            self.universe.lose(world)
            raise
        self._kafka_ports[broker] = listener.port
        protocol = PLAINTEXT if self._credentials is None else SASL_PLAINTEXT
        endpoints = (
            Endpoint(LISTENER, PLAINTEXT, host, port),
            Endpoint(KAFKA, protocol, listener.host, listener.port),
        )
        node = Node(
            config,
            world,
            endpoints,
            listener=listener,
            tamper=self.universe.tamper,
            credentials=self._credentials,
            on_down=self._on_down,
            observe=observe,
        )
        self.universe.adopt(node.system)
        self.universe.publish(name, node.directory)
        return node

    async def _open(self, name: str, port: int) -> tuple[World, tuple[str, int]]:
        try:
            return await self.universe.open(name, port=port)
        except OSError as error:
            # While it was down the system may have given its port to somebody.
            if error.errno != EADDRINUSE or not self.may_move:
                raise
            return await self.universe.open(name)

    async def await_topics(self) -> None:
        """Wait until every broker that is up knows every topic, but not for ever.

        A topic whose znode nobody can read is never known, and one whose deletion goes on neither.
        """
        clock = self.clock
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
        running = [each for each in self.nodes.items() if each[1].state is not NodeState.STOPPED]
        for broker, node in reversed(running):
            if node.system.is_paused:
                self.universe.resume(node.world.node)
            if node.world.keeper.state is SessionState.CONNECTED:
                await self.stop_broker(broker, retries=0)
                self._announce(f"broker {broker} has stopped")
            else:  # nobody hears a farewell, and the wait for somebody could be without end
                node.kill("it was stopped without ZooKeeper")
                self._announce(f"broker {broker} is down: it was stopped without ZooKeeper")

    async def stop_broker(self, broker: int, *, retries: int | None = None) -> None:
        """Stop a broker in its own time: leadership moves away, then it leaves."""
        node = self._node(broker)
        await node.stop(retries=retries)
        await self.universe.leave(node.world)

    async def stop_zookeeper(self) -> None:
        """Stop ZooKeeper, if it is ours to stop; what it has written stays."""
        raise ValueError("this ZooKeeper is not ours to stop")

    async def start_zookeeper(self) -> None:
        """Start ZooKeeper again."""
        raise ValueError("this ZooKeeper is not ours to start")

    def kill(self, broker: int, *, process_only: bool = False) -> int:
        """End a broker as a power cut would, or only its process; the answer is its number."""
        return self.universe.kill(self._node(broker).world.node, process_only=process_only)

    @property
    def world(self) -> Universe:
        """Where the brokers live."""
        return self.universe

    def is_up(self, broker: int) -> bool:
        """Whether a broker runs."""
        return broker in self.nodes and self.nodes[broker].system.is_up

    def watch(self, kinds: Iterable[type[TraceEvent]], hear: Hear) -> Callable[[], None]:
        """Hear of events of these kinds, wherever they are left; the answer stops that."""
        return self.universe.trace.watch(kinds, hear)

    @property
    def controller(self) -> Node | None:
        """The broker that is the controller, if one is."""
        return next((node for node in self.nodes.values() if node.is_controller), None)

    # --- what can be seen -------------------------------------------------------------------------

    def view(self, *, offsets: bool = True) -> ClusterView:
        """The cluster as it is between two messages."""
        request = Observe(partitions=True, replicas=True)
        up = {broker: node for broker, node in self.nodes.items() if node.system.is_up}
        seen = {broker: observe(node, request) for broker, node in up.items()}
        brokers = {broker: broker_view(broker, self.nodes.get(broker)) for broker in self.brokers}
        return assemble(seen, brokers, with_offsets=offsets)

    async def until(
        self, condition: Condition | Callable[[ClusterView], bool], *, timeout_ms: float = WAIT_MS
    ) -> ClusterView:
        """Wait until something can be seen of the cluster: `until(leader("orders", 0) != 1)`.

        It looks again after each event of the trace that may matter, not after a time.
        """
        wanted = condition if isinstance(condition, Condition) else Condition.of(condition)
        bell = Bell()
        stop = self.universe.trace.watch(WAKING, lambda *_: bell.ring())
        try:
            deadline = Deadline(self.clock, timeout_ms)
            while True:
                view = self.view()
                if wanted.holds(view):
                    return view
                if deadline.is_over:
                    raise NotReached(wanted.unmet(view, timeout_ms))
                await bell.wait(min(deadline.left_ms, LOOK_AGAIN_MS))
        finally:
            stop()

    async def look(self, *, offsets: bool = False) -> ClusterView:
        """As `view`, for those who may have to wait for it."""
        return self.view(offsets=offsets)

    async def metrics(self) -> Mapping[int, tuple[Metric, ...]]:
        """Kafka's MBeans of every broker that is up."""
        request = Observe(metrics=True)
        up = {broker: node for broker, node in self.nodes.items() if node.system.is_up}
        return {broker: observe(node, request).metrics for broker, node in up.items()}

    def addresses(self) -> Mapping[str, str]:
        """Where the brokers that are up can be reached, by their names."""
        up = (node for node in self.nodes.values() if node.system.is_up)
        return {node.world.node: node.address for node in up}

    @property
    def bootstrap_servers(self) -> str:
        """What any Kafka client is given to begin with: the brokers that are up."""
        up = (node for node in self.nodes.values() if node.system.is_up)
        found = (each for node in up for each in node.endpoints if each.listener == KAFKA)
        return ",".join(each.address for each in found)

    def log_folder(self, broker: int) -> Path | None:
        """Where a broker's logs are, if they are files."""
        return None if broker not in self.brokers else self.folder_of(node_name(broker))

    def folder_of(self, _: str) -> Path | None:
        """Where a node's files are, if it has any."""
        return None

    @property
    def clock(self) -> Clock:
        """The universe's own clock, which nobody skews."""
        return self.universe.clock

    # --- clients ----------------------------------------------------------------------------------

    def admin(self) -> Admin:
        """An administrator's client of this cluster."""
        return Admin(*self._client("admin"), name_of=node_name)

    def producer(self, *, via: int | None = None, **options: Any) -> Producer:
        """A client that sends records; options are those of ProducerConfig.

        It asks the broker `via` who leads, if one is given.
        """
        config = ProducerConfig(**options_of(ProducerConfig, options))
        network, clock, names = self._client("producer")
        bootstrap = names if via is None else [node_name(via)]
        return Producer(network, clock, bootstrap, name_of=node_name, config=config)

    def consumer(self, **options: Any) -> Consumer:
        """A client that reads records; options are those of ConsumerConfig."""
        config = ConsumerConfig(**options_of(ConsumerConfig, options))
        return Consumer(*self._client("consumer"), name_of=node_name, config=config)

    def _client(self, kind: str) -> tuple[Network, Clock, list[str]]:
        self._clients += 1
        network, clock = self.universe.client(f"{kind}-{self._clients}")
        return network, clock, [node_name(each) for each in self.brokers]

    def _node(self, broker: int) -> Node:
        if broker not in self.nodes:
            known = ", ".join(map(str, sorted(self.nodes))) or "none"
            raise ValueError(f"there is no broker {broker}; there are: {known}")
        return self.nodes[BrokerId(broker)]

    def _on_down(self, node: Node, reason: str) -> None:
        if reason != STOPPED:
            self.universe.lose(node.world)
