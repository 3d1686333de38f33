"""The partitions of __consumer_offsets that this broker leads.

Rule: a decision on a partition's leader that comes after a newer one is ignored (KAFKA-10614). A
shard is of use once all of it is in memory; one that is led anew after somebody else is a new one.
"""

from dataclasses import dataclass, field

from actors.broker.local import LeadershipChanged
from actors.coordinator.group import Group
from actors.coordinator.loading import Load
from actors.coordinator.offsets import CommittedOffsets, partition_for
from actors.coordinator.records import OFFSETS_TOPIC
from wire.errors import CoordinatorLoadInProgress, NotCoordinator
from wire.ids import NO_LEADER_EPOCH, LeaderEpoch, TopicPartition


@dataclass(eq=False)
class Shard:
    """One partition, and the offsets and groups in it."""

    partition: TopicPartition
    leader_epoch: LeaderEpoch
    load: Load | None = field(default_factory=Load)  # None: all of it is in memory
    offsets: CommittedOffsets = field(default_factory=CommittedOffsets)
    groups: dict[str, Group] = field(default_factory=dict)  # those that somebody has joined
    deleted_topics: set[str] = field(default_factory=set)  # heard of while it was being loaded
    led_since_ms: float = 0.0  # when the controller last said so


class Shards:
    """What is led here, by number."""

    def __init__(self) -> None:
        self.partitions: int | None = None  # how many the topic has, once that is known
        self._shards: dict[int, Shard] = {}
        self._epochs: dict[int, LeaderEpoch] = {}  # of the last decision on each partition

    @property
    def is_empty(self) -> bool:
        """Whether nothing is led here."""
        return not self._shards

    def all(self) -> list[Shard]:
        """In the order of their numbers."""
        return [self._shards[number] for number in sorted(self._shards)]

    def loaded(self) -> list[Shard]:
        """Those of use, in the order of their numbers."""
        return [shard for shard in self.all() if shard.load is None]

    def is_current(self, shard: Shard) -> bool:
        """Whether a shard is led still, and has not been replaced by another one."""
        return self._shards.get(shard.partition.partition) is shard

    def get(self, partition: TopicPartition) -> Shard | None:
        """What is led here of a partition."""
        is_ours = partition.topic == OFFSETS_TOPIC
        return self._shards.get(partition.partition) if is_ours else None

    def drop(self, shard: Shard) -> None:
        """Stop coordinating what it has."""
        if self.is_current(shard):
            del self._shards[shard.partition.partition]

    def change(self, change: LeadershipChanged) -> Shard | None:
        """Lead, or lead no longer; the answer is a shard that is to be loaded."""
        partition, epoch = change.partition, change.leader_epoch
        if partition.topic != OFFSETS_TOPIC:
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
        if former is not None and former.load is None and former.leader_epoch + 1 == epoch:
            # Nobody else has led since, so nothing is in the log that is not in memory. As Kafka,
            # which does not read again what it owns.
            former.leader_epoch = epoch
            return None
        shard = self._shards[number] = Shard(partition, epoch)
        if former is not None:
            shard.deleted_topics |= former.deleted_topics
        return shard

    def of(self, group: str) -> Shard:
        """The shard with a group's offsets, as GroupCoordinator.validateGroupStatus decides."""
        if self.partitions is None:
            if self._shards:
                raise CoordinatorLoadInProgress("How many partitions there are is being read.")
            raise NotCoordinator(f"{OFFSETS_TOPIC} is not here.")
        number = partition_for(group, self.partitions)
        shard = self._shards.get(number)
        if shard is None:
            raise NotCoordinator(f"{OFFSETS_TOPIC}-{number} is not led here.")
        if shard.load is not None:
            raise CoordinatorLoadInProgress(f"{OFFSETS_TOPIC}-{number} is being read.")
        return shard
