"""One broker, the unit that dies.

Rule: a Node is one life of a broker. It starts by registering and ends once: stopped, killed, or
taken down by a crash of one of its actors. The next life is another Node in another World.
"""

from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Final

from actors.administration.auto_topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from actors.broker.administrator import Administrator, AutoCreateTopics, OfficeChanged
from actors.broker.api import ROUTES, Api
from actors.broker.config_watcher import ConfigWatcher
from actors.broker.registration import (
    BrokerIdTaken,
    Deregister,
    Register,
    Registered,
    Registration,
)
from actors.broker.replica_manager import LoadLogs, ReplicaManager
from actors.broker.routing import Routing
from actors.broker.shutdown import say_goodbye
from actors.config import BrokerConfig
from actors.controller.controller import Controller
from actors.coordinator.coordinator import GroupCoordinator
from actors.coordinator.transaction_coordinator import TransactionCoordinator
from actors.doors.kafka.credentials import Credentials
from actors.doors.kafka.door import IsOpen, KafkaDoor
from actors.names import node_name
from runtime.listener import Listener
from runtime.ref import Ref
from runtime.system import System
from runtime.tampering import Tamper
from runtime.world import World
from wire.ids import UNKNOWN_BROKER_EPOCH, BrokerEpoch, BrokerId, Endpoint
from wire.observation import Observe, ObserveResponse
from wire.trace import BrokerStateChanged

PATIENCE: Final = 2  # session time-outs: a server looks at its sessions only every tick
RETRY_MS: Final = 100
LOAD_MS: Final = 3_600_000  # what looking through logs may take after a crash


class NodeState(Enum):
    """What a broker is, for all to see."""

    STARTING = "Starting"
    RUNNING = "RunningAsBroker"
    CONTROLLER = "RunningAsController"
    LEAVING = "PendingControlledShutdown"
    STOPPED = "NotRunning"


class Node:
    """A broker's actors and the World they live in."""

    def __init__(
        self,
        config: BrokerConfig,
        world: World,
        endpoints: tuple[Endpoint, ...],
        *,
        listener: Listener | None = None,
        tamper: Tamper | None = None,
        credentials: Credentials | None = None,
        on_down: Callable[["Node", str], None] | None = None,
        observe: Callable[["Node", Observe], ObserveResponse] | None = None,
    ) -> None:
        self.config = config
        self.world = world
        self.endpoints = endpoints
        self.state = NodeState.STARTING
        self.broker_epoch: BrokerEpoch = UNKNOWN_BROKER_EPOCH
        self._tamper = tamper or Tamper()
        self._credentials = credentials  # of Kafka's clients; None: anybody may come in
        self._listener = listener  # for Kafka's clients; its address is one of the endpoints
        self._on_down = on_down
        self._observe = None if observe is None else partial(observe, self)
        self.system = System(world.node, world.trace, on_down=self._went_down)
        me = BrokerId(config.broker_id)
        self.replica_manager = ReplicaManager(
            world, config, self.system, listener=endpoints[0].listener, name_of=node_name
        )
        self.controller = Controller(
            world, config, self.system, name_of=node_name, on_office=self._on_office
        )
        self._administrator = Administrator(world, config, self.replica_manager.ref)
        self.replica_manager.administrator = self._administrator.ref
        coordinator = GroupCoordinator(
            world,
            config,
            self.replica_manager.ref,
            lambda: self._administrator.ref.tell(AutoCreateTopics((OFFSETS_TOPIC,))),
        )
        self.replica_manager.coordinator = coordinator.ref
        transactions = self._made_transactions()
        self.replica_manager.transactions = coordinator.transactions = transactions.ref
        watcher = ConfigWatcher(world, config, self.controller.ref, self.replica_manager.ref)
        self._registration = Registration(
            world,
            me,
            endpoints,
            config.broker_rack,
            (self, self.replica_manager.ref, watcher.ref, self.controller.ref),
        )
        self._actors = {
            "replica-manager": self.replica_manager,
            "group-coordinator": coordinator,
            "transaction-coordinator": transactions,
            "controller": self.controller,
            "administrator": self._administrator,
            "config-watcher": watcher,
            "registration": self._registration,
        }

    def _made_transactions(self) -> TransactionCoordinator:
        return TransactionCoordinator(
            self.world,
            self.config,
            self.replica_manager.ref,
            lambda: self._administrator.ref.tell(AutoCreateTopics((TRANSACTIONS_TOPIC,))),
            node_name,
        )

    @property
    def address(self) -> str:
        """Where its own door is."""
        first = self.endpoints[0]
        return f"{first.host}:{first.port}"

    def directory(self) -> dict[str, str]:
        """All brokers that this one knows, itself included, and where they can be reached."""
        nodes = self.replica_manager.cache.nodes()
        known = {node_name(each.id): f"{each.host}:{each.port}" for each in nodes}
        return {self.world.node: self.address, **known}

    @property
    def is_controller(self) -> bool:
        """Whether this broker is the one."""
        return self.controller.is_active and self.system.is_up

    async def start(self) -> BrokerEpoch:
        """Register, and answer the epoch of that; raise what makes it impossible."""
        await self.world.keeper.start()
        refs = {name: self.system.start(name, actor) for name, actor in self._actors.items()}
        await refs["replica-manager"].ask(LoadLogs(), timeout_ms=LOAD_MS)
        epoch = await self._register(refs["registration"])
        # As KafkaServer: nobody is answered before. What is meant for a former life would be taken
        # by one that does not know its own epoch yet, and that has lost what the former one had.
        manager = self.replica_manager
        routing = Routing(self.world, ROUTES, refs, manager.meters)
        self.system.start("api", Api(self.world, routing, self._observe))
        if self._listener is not None:
            door = KafkaDoor(
                self.world,
                self._listener,
                self.config,
                manager.cache,
                routing,
                self._tamper,
                self._credentials,
            )
            await self.system.start("kafka-door", door).ask(IsOpen())
        if self.state is NodeState.STARTING:
            self._become(NodeState.RUNNING)
        return epoch

    async def _register(self, registration: Ref) -> BrokerEpoch:
        """A killed broker's znode stays until its session times out: wait that long, no longer."""
        clock = self.world.clock
        deadline_ms = clock.elapsed_ms() + PATIENCE * self.config.zookeeper_session_timeout_ms
        while True:
            try:
                epoch: BrokerEpoch = await registration.ask(Register())
                return epoch
            except BrokerIdTaken:
                if clock.elapsed_ms() >= deadline_ms:
                    raise
                await clock.sleep(RETRY_MS)

    async def stop(self, *, retries: int | None = None) -> None:
        """Say goodbye, finish what was begun; the znode goes with the session."""
        if self.config.controlled_shutdown_enable and self.state is not NodeState.STARTING:
            tries = self.config.controlled_shutdown_max_retries if retries is None else retries
            self._become(NodeState.LEAVING)
            await say_goodbye(
                self.world, self.config, lambda: self.broker_epoch, node_name, retries=tries
            )
        registration = self.system.lookup("registration")
        if registration is not None:
            registration.tell(Deregister())
        await self.system.stop()

    def kill(self, reason: str = "killed") -> None:
        """End where it stands."""
        self.system.kill(reason)

    def tell(self, message: Registered) -> None:
        """The registration says in which life the broker is."""
        self.broker_epoch = message.broker_epoch

    # --------------------------------------------------------------------------------------------

    def _on_office(self, is_active: bool) -> None:
        self._administrator.ref.tell(OfficeChanged(is_active))
        if self.state is not NodeState.LEAVING:
            self._become(NodeState.CONTROLLER if is_active else NodeState.RUNNING)

    def _become(self, state: NodeState) -> None:
        if state is not self.state:
            self.state = state
            self.world.trace(BrokerStateChanged(state.value))

    def _went_down(self, reason: str) -> None:
        self.replica_manager.abandon()
        self._become(NodeState.STOPPED)
        if self._on_down is not None:
            self._on_down(self, reason)
