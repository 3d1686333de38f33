"""What keeps the past away from a broker.

Rule: a request of an older controller, or one meant for an earlier life of this broker, changes
nothing (B023, B024); the refusal is traced.
"""

from runtime.world import World
from wire.control import LeaderAndIsr, StopReplica, UpdateMetadata
from wire.errors import ApiError, StaleBrokerEpoch, StaleControllerEpoch
from wire.ids import UNKNOWN_BROKER_EPOCH, BrokerEpoch, ControllerEpoch
from wire.trace import ControlRequestRefused

Control = LeaderAndIsr | StopReplica | UpdateMetadata


class Fence:
    """The newest controller that was heard of, and the life that this is."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.controller_epoch = ControllerEpoch(0)
        self.broker_epoch: BrokerEpoch = UNKNOWN_BROKER_EPOCH

    def check(self, request: Control) -> None:
        """Refuse the past: a deposed controller's word, or one to a former life of mine."""
        error: ApiError | None = None
        if request.broker_epoch != UNKNOWN_BROKER_EPOCH and (
            request.broker_epoch < self.broker_epoch
        ):
            error = StaleBrokerEpoch(
                f"epoch {request.broker_epoch} is over: this is {self.broker_epoch}"
            )
        elif request.controller_epoch < self.controller_epoch:
            error = StaleControllerEpoch(
                f"epoch {request.controller_epoch} is over: {self.controller_epoch} reigns"
            )
        if error is None:
            self.controller_epoch = request.controller_epoch
            return
        self._world.trace(
            ControlRequestRefused(
                type(request).__name__,
                request.controller_id,
                request.controller_epoch,
                error.code.name,
            )
        )
        raise error
