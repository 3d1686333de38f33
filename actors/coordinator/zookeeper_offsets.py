"""Offsets that consumers before Kafka 0.9 keep in ZooKeeper (B178).

Rule: they live a life of their own. A request of version 0 means these; no other one does, and
nothing is copied from here to __consumer_offsets.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress

from actors.broker.registration import make_paths
from runtime.keeper import Keeper, NodeExists, NoNode, ZNode
from wire.cluster_znodes import ConsumerOffsetZNode
from wire.errors import ErrorCode, exception_of
from wire.ids import NO_OFFSET, Offset, TopicPartition


async def read_offsets(
    keeper: Keeper, group: str, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, Offset]:
    """What a group has in ZooKeeper; NO_OFFSET where there is nothing."""
    _check(group)
    found = await keeper.read([ConsumerOffsetZNode.path(group, each) for each in partitions])
    offsets = {}
    for partition, znode in zip(partitions, found, strict=True):
        if isinstance(znode, ZNode):
            offsets[partition] = ConsumerOffsetZNode.decode(group, partition, znode.data)
        elif isinstance(znode, NoNode):
            offsets[partition] = NO_OFFSET
        else:
            raise znode
    return offsets


async def write_offsets(
    keeper: Keeper, group: str, offsets: Mapping[TopicPartition, Offset]
) -> None:
    """Replace what a group has in ZooKeeper; the last one to write wins."""
    _check(group)
    for partition in sorted(offsets):
        path = ConsumerOffsetZNode.path(group, partition)
        data = ConsumerOffsetZNode.encode(offsets[partition])
        try:
            await keeper.set(path, data)
        except NoNode:
            await make_paths(keeper, (path.rpartition("/")[0],))
            with suppress(NodeExists):  # then one of the two is the last to write, whichever
                await keeper.create(path, data)


def _check(group: str) -> None:
    """A group's name becomes part of a path."""
    if not group or "/" in group:
        raise exception_of(ErrorCode.INVALID_GROUP_ID)(f"{group[:40]!r} names no znode")
