"""Producer ids, a block at a time from ZooKeeper: Kafka's ProducerIdManager.

Rule: an id is given once in the life of a cluster. A block is ours if the write that took it was
answered; one whose answer was lost is left unused, for there are enough.
"""

from collections.abc import Iterator

from runtime.keeper import BadVersion, Keeper
from wire.ids import BrokerId, ProducerId
from wire.producer_znodes import ProducerIdBlock, ProducerIdBlockZNode, next_block


class ProducerIds:
    """What is left of this broker's block."""

    def __init__(self) -> None:
        self._left: Iterator[int] = iter(())

    def take(self) -> ProducerId | None:
        """The next one; None if the block is used up."""
        number = next(self._left, None)
        return None if number is None else ProducerId(number)

    def refill(self, block: ProducerIdBlock) -> None:
        """Go on with this one."""
        self._left = iter(range(block.first, block.last + 1))


async def take_block(keeper: Keeper, broker: BrokerId) -> ProducerIdBlock:
    """Take the next block, which nobody else has; KeeperError or MalformedZNode if none can be.

    A write that is refused was perhaps our own, sent again after its answer was lost. Nobody can
    tell that from the write of this broker's former life, so the block after it is taken.
    """
    path = ProducerIdBlockZNode.path()
    while True:
        znode = await keeper.get(path)
        block = next_block(ProducerIdBlockZNode.decode(znode.data), broker)
        try:
            await keeper.set(path, ProducerIdBlockZNode.encode(block), version=znode.stat.version)
            return block
        except BadVersion:
            continue
