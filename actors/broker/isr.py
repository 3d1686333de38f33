"""A leader's word on who is in sync, written to ZooKeeper and told to the controller.

Rule: a write is guarded by the version of the partition's state, and by nothing else (B008). One
that is refused is read back: if it says what was wanted, the reply was lost and the write is ours
(B022); else the old ISR and version stay until the next LeaderAndIsr (B162). Changes are told in
one sequential znode, not too often (B116).
"""

from collections.abc import Mapping
from itertools import islice
from typing import Final

from actors.broker.partition import HostedPartition
from runtime.keeper import BadVersion, KeeperError, Set, Written, ZNode
from runtime.world import World
from wire.admin_znodes import IsrChangeNotificationZNode
from wire.errors import MalformedZNode
from wire.ids import BrokerId, PartitionEpoch, TopicPartition
from wire.trace import IsrChanged, ZNodeSkipped, ids
from wire.znodes import PartitionStateZNode

CHECK_MS: Final = 2_500
QUIET_MS: Final = 5_000  # told once the last change is this old …
LONGEST_MS: Final = 60_000  # … or the last telling is
MOST_IN_ONE: Final = 3_000  # partitions: with the longest names they fit into a znode

Wanted = Mapping[TopicPartition, tuple[HostedPartition, tuple[BrokerId, ...]]]


async def write_isrs(world: World, wanted: Wanted) -> dict[TopicPartition, HostedPartition]:
    """Write ISRs in bulk; the partitions that ZooKeeper now has as wanted."""
    keeper = world.keeper
    operations = [
        Set(
            PartitionStateZNode.path(partition),
            PartitionStateZNode.encode(hosted.state_with(isr)),
            hosted.partition_epoch,
        )
        for partition, (hosted, isr) in wanted.items()
    ]
    results = dict(zip(wanted, await keeper.write(operations), strict=True))
    refused = [each for each, result in results.items() if isinstance(result, BadVersion)]
    found = dict(
        zip(
            refused,
            await keeper.read([PartitionStateZNode.path(each) for each in refused]),
            strict=True,
        )
    )
    done: dict[TopicPartition, HostedPartition] = {}
    for partition, (hosted, isr) in wanted.items():
        try:
            version = _version(results[partition], found.get(partition), hosted, isr)
        except MalformedZNode as error:
            world.trace(ZNodeSkipped(error.path, error.reason))
            continue
        if version is not None:
            done[partition] = hosted.with_isr(isr, PartitionEpoch(version))
    return done


def _version(
    result: Written | KeeperError,
    found: ZNode | KeeperError | None,
    hosted: HostedPartition,
    isr: tuple[BrokerId, ...],
) -> int | None:
    if isinstance(result, Written):
        assert result.stat is not None, "a set answers a stat"
        return result.stat.version
    if not isinstance(found, ZNode):
        return None
    state = PartitionStateZNode.decode(hosted.partition, found.data)
    return found.stat.version if state == hosted.state_with(isr) else None


class IsrChanges:
    """Changes that the controller has not been told of yet."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._partitions: dict[TopicPartition, None] = {}
        self._being_told: tuple[TopicPartition, ...] = ()
        self._changed_ms = 0.0
        self._told_ms = world.clock.elapsed_ms()  # as ReplicaManager: the start counts as a telling

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to tell."""
        return not self._partitions and not self._being_told

    def note(self, hosted: HostedPartition) -> None:
        """A leader's ISR has changed."""
        self._partitions[hosted.partition] = None
        self._changed_ms = self._world.clock.elapsed_ms()
        partition = hosted.partition
        self._world.trace(
            IsrChanged(
                partition.topic,
                partition.partition,
                hosted.leader_epoch,
                ids(hosted.isr),
                hosted.partition_epoch,
            )
        )

    def is_due(self) -> bool:
        """Whether it is time to tell (B116)."""
        now = self._world.clock.elapsed_ms()
        is_quiet = now - self._changed_ms >= QUIET_MS
        return not self.is_empty and (is_quiet or now - self._told_ms >= LONGEST_MS)

    async def tell(self) -> None:
        """One sequential znode for all of them, or for as many as a znode can hold."""
        kind = IsrChangeNotificationZNode
        while partitions := tuple(islice(self._partitions, MOST_IN_ONE)):
            self._being_told = partitions
            for partition in partitions:
                del self._partitions[partition]  # if it changes from now on, it is told again
            try:
                await self._world.keeper.create(
                    kind.prefix_path(), kind.encode(partitions), sequential=True
                )
            except KeeperError:
                self._partitions = dict.fromkeys(partitions) | self._partitions
                raise
            finally:
                self._being_told = ()
            self._told_ms = self._world.clock.elapsed_ms()
