"""A cluster to be used: real, or simulated.

Rule: `async with` starts it and leaves nothing behind. The real one is ready when one broker is the
controller and all know each other: a client may ask any of them.
"""

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Final, Self

from msgspec import Struct

from actors.config import BadConfig
from actors.doors.kafka.credentials import Credentials
from actors.node_cluster import LISTENER, POLL_MS, Announce, NodeCluster, settings_of
from runtime.embedded import EmbeddedZooKeeper
from runtime.folder import Folder
from runtime.keeper import Keeper, KeeperError
from runtime.real import RealProcess
from runtime.simulation.simulator import Simulator
from runtime.websocket import is_loopback
from wire.data import Fetch
from wire.errors import MalformedZNode
from wire.groups import Heartbeat
from wire.ids import BrokerId
from wire.znodes import BrokerIdZNode

LAST_PORT: Final = 65_535
TOKEN_USER: Final = "understudy"  # the name by which Kafka's clients show the token


class Door(Struct, frozen=True):
    """Where brokers listen; elsewhere than on loopback whoever calls must show the token."""

    host: str = "127.0.0.1"
    advertised_host: str | None = None  # what others are told, if it is another
    token: str | None = None
    users: tuple[tuple[str, str], ...] = ()  # names and passwords of Kafka's clients
    users_file: Path | None = None  # where they are from
    kafka_port: int = 0  # of the first broker, for Kafka's clients; the next has the next one

    @property
    def credentials(self) -> Credentials | None:
        """What Kafka's clients must show; elsewhere than on loopback the token, if nothing else."""
        users = dict(self.users)
        if not users and not is_loopback(self.host):
            users = {TOKEN_USER: self.token or ""}
        return Credentials(users) if users else None

    def kafka_port_of(self, number: int) -> int:
        """Of the broker of this number, counted from 0; 0: any that is free."""
        port = self.kafka_port and self.kafka_port + number
        if port > LAST_PORT:
            raise BadConfig(f"--kafka-port is {self.kafka_port}: there is no port {port}")
        return port


LOOPBACK: Final = Door()


class Cluster(NodeCluster):
    """Real brokers on a real ZooKeeper: `async with Cluster(brokers=3) as cluster`.

    Without `zookeeper` one is embedded; without `data` the folder is temporary.
    """

    def __init__(  # noqa: PLR0913 - all that a cluster is told
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
        door: Door = LOOPBACK,
    ) -> None:
        self._given = data
        self._trace = trace
        self._folder: Folder | None = None
        self._zookeeper = zookeeper
        self._embedded: EmbeddedZooKeeper | None = None
        self.process = RealProcess(
            resolve=resolve,
            session_timeout_ms=session_timeout_ms,
            trace_folder=trace,
            host=door.host,
            advertised_host=door.advertised_host,
            token=door.token,
        )
        super().__init__(
            self.process,
            brokers=brokers,
            session_timeout_ms=session_timeout_ms,
            overrides=settings_of(brokers, overrides),
            racks=racks,
            announce=announce,
        )
        self._credentials = door.credentials
        self._kafka_ports = {
            broker: door.kafka_port_of(number) for number, broker in enumerate(self.brokers)
        }

    async def stop_zookeeper(self) -> None:
        """Kill ZooKeeper, if it is ours; what it has written stays."""
        if self._embedded is None:
            await super().stop_zookeeper()
        else:
            await self._embedded.kill()

    async def start_zookeeper(self) -> None:
        """Start ZooKeeper again, on its port."""
        if self._embedded is None:
            await super().start_zookeeper()
        else:
            await self._embedded.start()

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
        while self.controller is None or not self._know_each_other():
            await next(iter(self.nodes.values())).world.clock.sleep(POLL_MS)
        await self.await_topics()

    def folder_of(self, node: str) -> Path | None:
        """Where a node's files are."""
        return None if self._folder is None else self._folder.path / node

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
        # Followers and members ask for ever.
        simulator.routine |= {Fetch.__name__, Heartbeat.__name__}
        timeout_ms = round(simulator.zookeeper.session_timeout_ms)
        super().__init__(
            simulator,
            brokers=brokers,
            session_timeout_ms=timeout_ms,
            overrides=settings_of(brokers, overrides),
            racks=racks,
        )

    async def stop_zookeeper(self) -> None:
        """ZooKeeper is down; what it has written stays."""
        self.simulator.zookeeper.stop()

    async def start_zookeeper(self) -> None:
        """ZooKeeper is back."""
        self.simulator.zookeeper.start()


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
