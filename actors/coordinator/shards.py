"""A partition of __consumer_offsets that this broker leads.

Rule: what is in memory is not read again, as long as nobody else can have led in between.
"""

from dataclasses import dataclass, field

from actors.coordinator.group import Group
from actors.coordinator.led import Led
from actors.coordinator.loading import Load
from actors.coordinator.offsets import CommittedOffsets
from actors.coordinator.records import OFFSETS_TOPIC
from wire.ids import LeaderEpoch, TopicPartition


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

    @property
    def is_loading(self) -> bool:
        """Whether some of it is not in memory yet."""
        return self.load is not None


class Shards(Led[Shard]):
    """What is led here of __consumer_offsets."""

    def __init__(self) -> None:
        super().__init__(OFFSETS_TOPIC, _following)


def _following(partition: TopicPartition, epoch: LeaderEpoch, former: Shard | None) -> Shard:
    if former is not None and not former.is_loading and former.leader_epoch + 1 == epoch:
        # Nobody else has led since, so nothing is in the log that is not in memory. As Kafka,
        # which does not read again what it owns.
        former.leader_epoch = epoch
        return former
    shard = Shard(partition, epoch)
    if former is not None:
        shard.deleted_topics |= former.deleted_topics
    return shard
