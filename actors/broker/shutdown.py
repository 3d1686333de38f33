"""How a broker says goodbye.

Rule: it asks the controller to move leadership away, and again until nothing remains or its tries
are used up; then it leaves anyway, which others notice as a failure (B076).
"""

from collections.abc import Callable

from actors.config import BrokerConfig
from runtime.keeper import KeeperError, SessionState
from runtime.network import NetworkError
from runtime.world import World
from wire.codec import encode
from wire.control import ControlledShutdown, ControlledShutdownResponse
from wire.errors import ErrorCode, MalformedMessage, MalformedZNode
from wire.ids import BrokerEpoch, BrokerId
from wire.parted import unpack_as
from wire.trace import ControlledShutdownTried
from wire.znodes import ControllerZNode


async def say_goodbye(
    world: World,
    config: BrokerConfig,
    epoch: Callable[[], BrokerEpoch],
    name_of: Callable[[BrokerId], str],
    *,
    retries: int,
) -> bool:
    """Whether the broker leads nothing that others could lead."""
    for left in range(retries, -1, -1):
        outcome = await _try(world, config, epoch(), name_of)
        world.trace(ControlledShutdownTried(config.broker_id, outcome, left))
        if outcome == "ok":
            return True
        if left:
            await world.clock.sleep(config.controlled_shutdown_retry_backoff_ms)
    return False


async def _try(
    world: World, config: BrokerConfig, epoch: BrokerEpoch, name_of: Callable[[BrokerId], str]
) -> str:
    """One request to whoever is the controller now; "ok", or why it did not do."""
    request = ControlledShutdown(broker_id=BrokerId(config.broker_id), broker_epoch=epoch)
    if world.keeper.state is SessionState.SUSPENDED:
        return "no ZooKeeper"  # whoever leaves does not wait until there is one again
    try:
        znode = await world.keeper.get(ControllerZNode.path())
        controller = name_of(ControllerZNode.decode(znode.data).broker)
        payload = await world.network.call(
            controller,
            encode(request),
            timeout_ms=config.controller_socket_timeout_ms,
            label="ControlledShutdown",
        )
        response = unpack_as(ControlledShutdownResponse, payload)
    except (KeeperError, NetworkError, MalformedZNode, MalformedMessage) as error:
        return type(error).__name__
    if response.error_code is not ErrorCode.NONE:
        return response.error_code.name
    remaining = len(response.remaining_partitions)
    return f"{remaining} partitions remain" if remaining else "ok"
