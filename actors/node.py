"""One broker, the unit that dies.

Rule: a Node is one life of a broker. It starts by registering and ends once: stopped, killed, or
taken down by a crash of one of its actors. The next life is another Node in another World.
"""

from collections.abc import Callable
from enum import Enum
from typing import Final

from actors.broker.api import Api
from actors.broker.registration import BrokerIdTaken, Deregister, Register, Registration
from actors.config import BrokerConfig
from runtime.ref import Ref
from runtime.system import System
from runtime.world import World
from wire.ids import BrokerEpoch, BrokerId, Endpoint

PATIENCE: Final = 2  # session time-outs: a server looks at its sessions only every tick
RETRY_MS: Final = 100


class NodeState(Enum):
    """What a broker is, for all to see."""

    STARTING = "Starting"
    RUNNING = "RunningAsBroker"
    STOPPED = "NotRunning"


def node_name(broker: int) -> str:
    """A broker's address on the network and in the trace."""
    return f"broker-{broker}"


class Node:
    """A broker's actors and the World they live in."""

    def __init__(
        self,
        config: BrokerConfig,
        world: World,
        endpoints: tuple[Endpoint, ...],
        *,
        on_down: Callable[["Node", str], None] | None = None,
    ) -> None:
        self.config = config
        self.world = world
        self.endpoints = endpoints
        self.state = NodeState.STARTING
        self._on_down = on_down
        self.system = System(world.node, world.trace, on_down=self._went_down)
        broker = BrokerId(config.broker_id)
        self._registration = Registration(world, broker, endpoints, config.broker_rack)

    async def start(self) -> BrokerEpoch:
        """Register, and answer the epoch of that; raise what makes it impossible."""
        await self.world.keeper.start()
        self.system.start("api", Api(self.world))
        registration = self.system.start("registration", self._registration)
        epoch = await self._register(registration)
        self.state = NodeState.RUNNING
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

    async def stop(self) -> None:
        """Finish what was begun; the znode goes with the session, which the universe ends."""
        registration = self.system.lookup("registration")
        if registration is not None:
            registration.tell(Deregister())
        await self.system.stop()

    def kill(self, reason: str = "killed") -> None:
        """End where it stands."""
        self.system.kill(reason)

    def _went_down(self, reason: str) -> None:
        self.state = NodeState.STOPPED
        if self._on_down is not None:
            self._on_down(self, reason)
