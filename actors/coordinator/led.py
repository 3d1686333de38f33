"""The partitions of a coordinator's topic that this broker leads.

Rule: a decision on a partition's leader that comes after a newer one is ignored (KAFKA-10614). A
shard is of use once all of it is in memory; one that is led anew after somebody else is a new one.
"""

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from actors.broker.local import LeadershipChanged
from actors.coordinator.offsets import partition_for
from wire.errors import CoordinatorLoadInProgress, NotCoordinator
from wire.ids import NO_LEADER_EPOCH, LeaderEpoch, TopicPartition


class AnyShard(Protocol):
    """What one partition's coordinator keeps."""

    partition: TopicPartition
    leader_epoch: LeaderEpoch

    @property
    def is_loading(self) -> bool:
        """Whether some of it is not in memory yet."""


S = TypeVar("S", bound=AnyShard)
# What is led in an epoch, after what was led before; the same again, if nothing has to be read.
Following = Callable[[TopicPartition, LeaderEpoch, S | None], S]


class Led(Generic[S]):
    """What is led here, by number."""

    def __init__(self, topic: str, following: Following[S]) -> None:
        self.topic = topic
        self.partitions: int | None = None  # how many the topic has, once that is known
        self._following = following
        self._shards: dict[int, S] = {}
        self._epochs: dict[int, LeaderEpoch] = {}  # of the last decision on each partition

    @property
    def is_empty(self) -> bool:
        """Whether nothing is led here."""
        return not self._shards

    def all(self) -> list[S]:
        """In the order of their numbers."""
        return [self._shards[number] for number in sorted(self._shards)]

    def loaded(self) -> list[S]:
        """Those of use, in the order of their numbers."""
        return [shard for shard in self.all() if not shard.is_loading]

    def is_current(self, shard: S) -> bool:
        """Whether a shard is led still, and has not been replaced by another one."""
        return self._shards.get(shard.partition.partition) is shard

    def get(self, partition: TopicPartition) -> S | None:
        """What is led here of a partition."""
        is_ours = partition.topic == self.topic
        return self._shards.get(partition.partition) if is_ours else None

    def drop(self, shard: S) -> None:
        """Stop coordinating what it has."""
        if self.is_current(shard):
            del self._shards[shard.partition.partition]

    def change(self, change: LeadershipChanged) -> S | None:
        """Lead, or lead no longer; the answer is a shard that is to be loaded."""
        partition, epoch = change.partition, change.leader_epoch
        if partition.topic != self.topic:
            return None
        number = partition.partition
        is_deleted = epoch < 0  # as in StopReplica: the epochs of a topic made anew begin anew
        if not is_deleted and epoch < self._epochs.get(number, NO_LEADER_EPOCH):
            return None
        self._epochs[number] = epoch
        former = self._shards.get(number)
        if not change.is_leader:
            self._shards.pop(number, None)
            if is_deleted and not self._shards:
                self.partitions = None  # the topic may be made anew, with another number
            return None
        if former is not None and former.leader_epoch == epoch:
            return None
        shard = self._shards[number] = self._following(partition, epoch, former)
        return None if shard is former else shard

    def of(self, key: str) -> S:
        """The shard of a key, as GroupCoordinator.validateGroupStatus decides."""
        if self.partitions is None:
            if self._shards:
                raise CoordinatorLoadInProgress("How many partitions there are is being read.")
            raise NotCoordinator(f"{self.topic} is not here.")
        number = partition_for(key, self.partitions)
        shard = self._shards.get(number)
        if shard is None:
            raise NotCoordinator(f"{self.topic}-{number} is not led here.")
        if shard.is_loading:
            raise CoordinatorLoadInProgress(f"{self.topic}-{number} is being read.")
        return shard
