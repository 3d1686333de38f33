"""One partition as one broker holds it: pure.

Rule: a broker takes a decision of the controller only if its leader epoch is greater than the one
it has (B135); who may be in sync is decided here and written by whoever owns the keeper.
"""

from msgspec import Struct
from msgspec.structs import replace

from wire.control import LeaderAndIsrPartition
from wire.errors import FencedLeaderEpoch, NotLeaderOrFollower, UnknownLeaderEpoch
from wire.ids import (
    NO_LEADER_EPOCH,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionEpoch,
    TopicId,
    TopicPartition,
)
from wire.znodes import PartitionState


class HostedPartition(Struct, frozen=True, gc=False):
    """What the controller last decided, and what a leader changed since."""

    partition: TopicPartition
    me: BrokerId
    leader: BrokerId
    leader_epoch: LeaderEpoch
    controller_epoch: ControllerEpoch
    partition_epoch: PartitionEpoch
    isr: tuple[BrokerId, ...]
    replicas: tuple[BrokerId, ...]
    adding: tuple[BrokerId, ...] = ()
    removing: tuple[BrokerId, ...] = ()
    topic_id: TopicId | None = None  # tells it from a replica of an earlier topic of that name

    @classmethod
    def of(
        cls, entry: LeaderAndIsrPartition, me: BrokerId, topic_id: TopicId | None = None
    ) -> "HostedPartition":
        """What a LeaderAndIsr says."""
        return cls(
            entry.partition,
            me,
            entry.leader,
            entry.leader_epoch,
            entry.controller_epoch,
            entry.partition_epoch,
            entry.isr if entry.leader == me else (),  # only a leader knows who is in sync (B138)
            entry.replicas,
            entry.adding_replicas,
            entry.removing_replicas,
            topic_id,
        )

    @property
    def is_leader(self) -> bool:
        """Whether this broker leads."""
        return self.leader == self.me

    @property
    def is_under_replicated(self) -> bool:
        """Whether a replica that should be in sync is not; one being added need not be (B111)."""
        expected = set(self.replicas) - set(self.adding)
        return self.is_leader and bool(expected - set(self.isr))

    def check_leader_epoch(self, current: LeaderEpoch) -> None:
        """Both sides must mean the same reign of the same leader (B144)."""
        if current != NO_LEADER_EPOCH and current < self.leader_epoch:
            raise FencedLeaderEpoch(f"{self.partition} is at leader epoch {self.leader_epoch}")
        if current > self.leader_epoch:
            raise UnknownLeaderEpoch(f"{self.partition} is at leader epoch {self.leader_epoch}")

    def check_leads(self) -> None:
        """Only a leader answers for a partition."""
        if not self.is_leader:
            raise NotLeaderOrFollower(f"broker {self.me} does not lead {self.partition}")

    def may_join(self, replica: BrokerId) -> bool:
        """Whether a caught-up follower belongs in the ISR; a stranger to the AR never (H15)."""
        return self.is_leader and replica in self.replicas and replica not in self.isr

    def state_with(self, isr: tuple[BrokerId, ...]) -> PartitionState:
        """What a leader writes: all as it was told, but the ISR (B008)."""
        return PartitionState(
            controller_epoch=self.controller_epoch,
            leader=self.leader,
            leader_epoch=self.leader_epoch,
            isr=isr,
        )

    def with_isr(
        self, isr: tuple[BrokerId, ...], partition_epoch: PartitionEpoch
    ) -> "HostedPartition":
        """After the write: the version rises, the leader epoch does not (B046)."""
        return replace(self, isr=isr, partition_epoch=partition_epoch)
