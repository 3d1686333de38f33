"""Who producers are.

Rule: every request is answered once. An idempotent producer gets an id that nobody else ever had,
and keeps it as long as it lives: a broker remembers nothing of it but what is in the logs.
"""

from dataclasses import dataclass
from typing import assert_never

from actors.asked import Asked, refusal
from actors.config import BrokerConfig
from actors.coordinator.producer_ids import ProducerIds, take_block
from runtime.actor import Actor
from runtime.keeper import KeeperError
from runtime.ref import Outcome
from runtime.world import World
from wire.errors import (
    ApiError,
    CoordinatorNotAvailable,
    ErrorCode,
    InvalidRequest,
    MalformedZNode,
    exception_of,
)
from wire.ids import BrokerId, ProducerEpoch
from wire.producer_znodes import ProducerIdBlock, ProducerIdBlockZNode
from wire.trace import ProducerIdsTaken, ZNodeSkipped
from wire.transactions import InitProducerId, InitProducerIdResponse


@dataclass(frozen=True)
class _BlockTaken:
    """ZooKeeper has given a block of producer ids, or not."""

    outcome: Outcome


TransactionMessage = Asked | _BlockTaken


class TransactionCoordinator(Actor):
    """Owns this broker's producer ids."""

    def __init__(self, world: World, config: BrokerConfig) -> None:
        super().__init__()
        self._world = world
        self._me = BrokerId(config.broker_id)
        self._ids = ProducerIds()
        self._is_taking = False
        self._nameless: list[Asked] = []  # they wait for a block

    async def on_receive(self, message: TransactionMessage) -> None:
        """One message at a time."""
        match message:
            case Asked():
                self._on_asked(message)
            case _BlockTaken():
                self._on_block_taken(message.outcome)
            case _:
                assert_never(message)

    def _on_asked(self, asked: Asked) -> None:
        request = asked.request
        try:
            match request:
                case InitProducerId(transactional_id=None):
                    self._name(asked)
                case InitProducerId():
                    raise exception_of(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)(
                        "There are no transactions here."
                    )
                case _:
                    raise InvalidRequest(f"{type(request).__name__} is not for a coordinator.")
        except ApiError as error:
            asked.answer(refusal(request, error))

    # --- producer ids -----------------------------------------------------------------------------

    def _name(self, asked: Asked) -> None:
        producer = self._ids.take()
        if producer is None:
            self._nameless.append(asked)
            self._take_block()
        else:
            epoch = ProducerEpoch(0)
            asked.answer(InitProducerIdResponse(producer_id=producer, producer_epoch=epoch))

    def _take_block(self) -> None:
        if not self._is_taking:
            self._is_taking = True
            self.pipe(take_block(self._world.keeper, self._me), _BlockTaken)

    def _on_block_taken(self, outcome: Outcome) -> None:
        """Whoever waits gets its id, or hears that it should ask again."""
        self._is_taking = False
        waiting, self._nameless = self._nameless, []
        try:
            block: ProducerIdBlock = outcome.get()
        except (KeeperError, MalformedZNode) as error:
            if isinstance(error, MalformedZNode):
                self._world.trace(ZNodeSkipped(ProducerIdBlockZNode.path(), error.reason))
            why = CoordinatorNotAvailable(f"There are no producer ids: {error}")
            for asked in waiting:
                asked.answer(refusal(asked.request, why))
            return
        self._ids.refill(block)
        self._world.trace(ProducerIdsTaken(block.first, block.last))
        for asked in waiting:
            self._name(asked)
