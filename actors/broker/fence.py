"""What keeps the past away from a broker.

Rule: a request of an older controller, or one meant for an earlier life of this broker, changes
nothing (B023, B024), nor does a late copy of one that was sent twice, once the controller has said
more; the refusal is traced. Leader epochs cannot tell such copies: of a replica that was deleted no
epoch is left to compare with, a topic's deletion raises none, and metadata is not compared.
"""

from runtime.world import World
from wire.control import LeaderAndIsr, StopReplica, UpdateMetadata
from wire.errors import ApiError, OvertakenRequest, StaleBrokerEpoch, StaleControllerEpoch
from wire.ids import (
    NO_CONTROL_SEQUENCE,
    UNKNOWN_BROKER_EPOCH,
    BrokerEpoch,
    ControllerEpoch,
    ControlSequence,
)
from wire.trace import ControlRequestRefused

Control = LeaderAndIsr | StopReplica | UpdateMetadata


class Fence:
    """The newest controller that was heard of, and the life that this is."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.controller_epoch = ControllerEpoch(0)
        self.broker_epoch: BrokerEpoch = UNKNOWN_BROKER_EPOCH
        self._newest: ControlSequence = NO_CONTROL_SEQUENCE  # of that controller's requests

    def check(self, request: Control) -> None:
        """Refuse the past: a deposed controller's word, one to a former life, a late copy."""
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
        elif self._is_overtaken(request):
            error = OvertakenRequest(
                f"request {request.sequence} is over: {self._newest} was taken"
            )
        if error is None:
            self._take(request)
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

    def _is_overtaken(self, request: Control) -> bool:
        """Whether a later one was taken, so that this one was answered: the same may come again."""
        is_compared = request.sequence != NO_CONTROL_SEQUENCE
        is_same_reign = request.controller_epoch == self.controller_epoch
        return is_compared and is_same_reign and request.sequence < self._newest

    def _take(self, request: Control) -> None:
        if request.controller_epoch > self.controller_epoch:
            self.controller_epoch = request.controller_epoch
            self._newest = NO_CONTROL_SEQUENCE
        self._newest = max(self._newest, request.sequence)
