"""The znode from which brokers take producer ids, a block at a time.

Rule: as in znodes.py. Blocks follow each other and are never given back, so an id is given once.
"""

from typing import Final

from msgspec import Struct
from msgspec.json import Decoder

from wire.errors import MalformedZNode
from wire.ids import BrokerId, ProducerId
from wire.znode_json import MAX_INT64, JsonNumber, JsonText64, JsonVersion, read_json, write_json

BLOCK_SIZE: Final = 1_000


class ProducerIdBlock(Struct, frozen=True):
    """Ids of one broker, the last one included."""

    broker: BrokerId
    first: ProducerId
    last: ProducerId


class _BlockShape(Struct, frozen=True):
    version: JsonVersion
    broker: JsonNumber
    block_start: JsonText64
    block_end: JsonText64


_BLOCK: Final = Decoder(_BlockShape)


class ProducerIdBlockZNode:
    """The block that was taken last; empty before the first."""

    @staticmethod
    def path() -> str:
        return "/latest_producer_id_block"

    @staticmethod
    def encode(block: ProducerIdBlock) -> bytes:
        return write_json(_BlockShape(1, block.broker, str(block.first), str(block.last)))

    @staticmethod
    def decode(data: bytes) -> ProducerIdBlock | None:
        if not data:
            return None
        path = ProducerIdBlockZNode.path()
        shape = read_json(path, data, _BLOCK)
        first, last = int(shape.block_start), int(shape.block_end)
        if not 0 <= first <= last <= MAX_INT64 - BLOCK_SIZE:
            raise MalformedZNode(path, f"no block follows one from {first} to {last}")
        return ProducerIdBlock(BrokerId(shape.broker), ProducerId(first), ProducerId(last))


def next_block(latest: ProducerIdBlock | None, broker: BrokerId) -> ProducerIdBlock:
    """The one after the latest."""
    first = 0 if latest is None else latest.last + 1
    return ProducerIdBlock(broker, ProducerId(first), ProducerId(first + BLOCK_SIZE - 1))
