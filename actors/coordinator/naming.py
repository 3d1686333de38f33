"""Who gets which producer id, and who waits until ZooKeeper gives a block of them.

Rule: whoever asks is answered once: with an id, or that it should ask again.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from actors.asked import Asked, refusal
from actors.coordinator.producer_ids import ProducerIds, take_block
from actors.coordinator.transaction_events import BlockTaken
from runtime.keeper import KeeperError
from runtime.ref import Outcome
from runtime.world import World
from wire.errors import ApiError, CoordinatorNotAvailable, MalformedZNode
from wire.ids import BrokerId, ProducerId
from wire.producer_znodes import ProducerIdBlock, ProducerIdBlockZNode
from wire.trace import ProducerIdsTaken, ZNodeSkipped

Named = Callable[[ProducerId], None]


class Naming:
    """This broker's producer ids."""

    def __init__(
        self,
        world: World,
        me: BrokerId,
        pipe: Callable[[Awaitable[Any], Callable[[Outcome], Any]], None],
    ) -> None:
        self._world = world
        self._me = me
        self._pipe = pipe
        self._ids = ProducerIds()
        self._is_taking = False
        self._nameless: list[tuple[Asked, Named]] = []  # they wait for a block

    def give(self, asked: Asked, then: Named) -> None:
        """Go on with an id, now or later; if there is none, `asked` is told so."""
        producer = self._ids.take()
        if producer is not None:
            then(producer)
            return
        self._nameless.append((asked, then))
        if not self._is_taking:
            self._is_taking = True
            self._pipe(take_block(self._world.keeper, self._me), BlockTaken)

    def on_block_taken(self, outcome: Outcome) -> None:
        """Whoever waits gets its id, or hears that it should ask again."""
        self._is_taking = False
        waiting, self._nameless = self._nameless, []
        try:
            block: ProducerIdBlock = outcome.get()
        except (KeeperError, MalformedZNode) as error:
            if isinstance(error, MalformedZNode):
                self._world.trace(ZNodeSkipped(ProducerIdBlockZNode.path(), error.reason))
            why = CoordinatorNotAvailable(f"There are no producer ids: {error}")
            for asked, _ in waiting:
                asked.answer(refusal(asked.request, why))
            return
        self._ids.refill(block)
        self._world.trace(ProducerIdsTaken(block.first, block.last))
        for asked, then in waiting:
            try:
                self.give(asked, then)
            except ApiError as error:
                asked.answer(refusal(asked.request, error))
