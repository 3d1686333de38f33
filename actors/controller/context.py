"""What the controller believes of the cluster.

Rule: nobody but the controller's own actor reads or writes it, and only what was written to
ZooKeeper, or read there, gets in. What is asked by broker, by leader or by state has an index, so
that no event walks all partitions when only some changed. Dicts stand for sets: their order is the
order of coming, and the same in every run.
"""

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import NamedTuple

from msgspec import Struct

from wire.ids import (
    INITIAL_CONTROLLER_EPOCH,
    NO_BROKER,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    Endpoint,
    LeaderEpoch,
    Node,
    PartitionEpoch,
    TopicId,
    TopicPartition,
)
from wire.znodes import BrokerRegistration, PartitionState, ReplicaAssignment, TopicAssignment


class PartitionPhase(Enum):
    """Where a partition stands in its life (B039)."""

    NON_EXISTENT = "NonExistentPartition"
    NEW = "NewPartition"
    ONLINE = "OnlinePartition"
    OFFLINE = "OfflinePartition"


class ReplicaPhase(Enum):
    """Where a replica stands in its life (B050)."""

    NON_EXISTENT = "NonExistentReplica"
    NEW = "NewReplica"
    ONLINE = "OnlineReplica"
    OFFLINE = "OfflineReplica"
    DELETION_STARTED = "ReplicaDeletionStarted"
    DELETION_SUCCESSFUL = "ReplicaDeletionSuccessful"
    DELETION_INELIGIBLE = "ReplicaDeletionIneligible"


class Replica(NamedTuple):
    """One copy of one partition."""

    partition: TopicPartition
    broker: BrokerId


class Broker(NamedTuple):
    """A registered broker, as its znode tells."""

    id: BrokerId
    epoch: BrokerEpoch
    registration: BrokerRegistration

    @property
    def first_epoch(self) -> BrokerEpoch:
        """The epoch that its process had first: since then it has lost nothing."""
        return self.registration.first_epoch or self.epoch

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """Where it can be reached."""
        return self.registration.endpoints

    def node(self) -> Node:
        """As a follower needs it: its first listener."""
        first = self.endpoints[0]
        return Node(self.id, first.host, first.port, self.registration.rack)


class Leadership(Struct, frozen=True, gc=False):
    """Who leads a partition, as ZooKeeper has it, and the version under which it does."""

    leader: BrokerId
    leader_epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]
    controller_epoch: ControllerEpoch
    partition_epoch: PartitionEpoch

    @classmethod
    def of(cls, state: PartitionState, version: int) -> "Leadership":
        """A state znode's content and version."""
        return cls(
            state.leader,
            state.leader_epoch,
            state.isr,
            state.controller_epoch,
            PartitionEpoch(version),
        )


NOWHERE = ReplicaAssignment(replicas=())
PartitionSet = dict[TopicPartition, None]
WAITING = (PartitionPhase.NEW, PartitionPhase.OFFLINE)  # for a leader


class ControllerContext:
    """The cluster as one value; a resignation starts a new one (B012)."""

    def __init__(self) -> None:
        self.epoch: ControllerEpoch = INITIAL_CONTROLLER_EPOCH
        self.epoch_version = 0
        self.brokers: dict[BrokerId, Broker] = {}
        self.shutting_down: set[BrokerId] = set()
        self.topics: dict[str, dict[int, TopicPartition]] = {}
        self.topic_ids: dict[str, TopicId] = {}
        self.assignments: dict[TopicPartition, ReplicaAssignment] = {}
        self.leaderships: dict[TopicPartition, Leadership] = {}
        self.partition_phases: dict[TopicPartition, PartitionPhase] = {}
        self.replica_phases: dict[TopicPartition, dict[BrokerId, ReplicaPhase]] = {}
        self.reassigning: PartitionSet = {}  # changed by begin_move and end_move
        self.offline_dirs: dict[BrokerId, PartitionSet] = {}
        # In sync in a former life of their broker, while others stayed: see note_returned.
        self.returned: dict[TopicPartition, tuple[BrokerId, ...]] = {}
        self.reborn_leaders: set[TopicPartition] = set()  # led by a broker that came back
        self.topics_to_delete: dict[str, None] = {}
        self.topics_ineligible: set[str] = set()
        self.topics_deleting: set[str] = set()
        self._replicas_on: dict[BrokerId, PartitionSet] = {}
        self._led_by: dict[BrokerId, PartitionSet] = {}
        self._moving_topics: dict[str, int] = {}  # how many partitions of each
        self._waiting: dict[PartitionPhase, PartitionSet] = {phase: {} for phase in WAITING}

    # --- brokers ------------------------------------------------------------------------------

    def note_returned(self, partition: TopicPartition, found: Leadership, written: int) -> None:
        """Note who came back while no controller looked, and may lack what he had.

        A broker that registered after its ISR was written was in sync in a former life, whose
        unsynced bytes may be lost. A controller that looks treats it as one that died and came
        back (B069), and so must the next controller, if another one stayed and has everything.
        Kafka 2.8 does not (KIP-966 does): it may elect such a broker, and lose what was committed.
        If all have registered since, those stayed whose process lives on in another session.
        """
        brokers = self.brokers
        live = [each for each in found.isr if each in brokers]
        returned = tuple(each for each in live if brokers[each].epoch > written)
        if len(returned) == len(live):
            reborn = tuple(each for each in live if brokers[each].first_epoch > written)
            returned = reborn or returned
        if returned and len(returned) < len(live):
            self.returned[partition] = returned
        elif found.leader in returned:
            # It may have lost its tail, and would write other records at the same offsets in the
            # same leader epoch: no follower could tell the two apart. Another epoch begins.
            self.reborn_leaders.add(partition)

    def is_reborn_leader(self, replica: Replica) -> bool:
        """Whether it led in a former life of its broker, and nobody was elected since."""
        partition, broker = replica
        is_reborn = partition in self.reborn_leaders
        return is_reborn and self.leaderships[partition].leader == broker

    @property
    def live_brokers(self) -> list[BrokerId]:
        """Brokers that may be elected."""
        return [broker for broker in self.brokers if broker not in self.shutting_down]

    @property
    def live_or_shutting_down(self) -> list[BrokerId]:
        """Brokers that are told."""
        return list(self.brokers)

    def is_online(
        self, partition: TopicPartition, broker: BrokerId, *, or_shutting_down: bool = False
    ) -> bool:
        """Whether a replica is on a live broker and a healthy disk (B059)."""
        if broker not in self.brokers or (broker in self.shutting_down and not or_shutting_down):
            return False
        return partition not in self.offline_dirs.get(broker, ())

    # --- topics and assignments -----------------------------------------------------------------

    def known(self, partition: TopicPartition) -> TopicPartition:
        """The one object that stands for this partition here, if it is known."""
        return self.topics.get(partition.topic, {}).get(partition.partition, partition)

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        """A topic's partitions."""
        return list(self.topics.get(topic, {}).values())

    def add_topic(self, topic: str, assignment: TopicAssignment) -> list[TopicPartition]:
        """Take in a topic, or what is new of it; answer the partitions that were not known."""
        numbers = self.topics.setdefault(topic, {})
        if assignment.topic_id is not None:
            self.topic_ids[topic] = assignment.topic_id
        new = [number for number in sorted(assignment.partitions) if number not in numbers]
        for number in new:
            numbers[number] = partition = TopicPartition(topic, number)
            self.assign(partition, assignment.partitions[number])
        return [numbers[number] for number in new]

    def forget_topic(self, topic: str) -> None:
        """Drop a topic and all that is known of it."""
        for partition in self.topics.pop(topic, {}).values():
            self.assign(partition, NOWHERE)
            del self.assignments[partition]
            self.drop_leadership(partition)
            self.set_partition_phase(partition, PartitionPhase.NON_EXISTENT)
            self.replica_phases.pop(partition, None)
            self.end_move(partition)
        self.topic_ids.pop(topic, None)
        self.topics_to_delete.pop(topic, None)
        self.topics_ineligible.discard(topic)
        self.topics_deleting.discard(topic)

    def assign(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        """Replace where a partition lives."""
        before = self.assignments.get(partition)
        if before is not None:
            for broker in before.replicas:
                if broker not in assignment.replicas:
                    self._replicas_on.get(broker, {}).pop(partition, None)
        for broker in assignment.replicas:
            self._replicas_on.setdefault(broker, {})[partition] = None
        self.assignments[partition] = assignment

    def replicas(self, partition: TopicPartition) -> tuple[BrokerId, ...]:
        """The brokers that hold a partition, in order of preference."""
        return self.assignments.get(partition, NOWHERE).replicas

    def replicas_of_topic(self, topic: str) -> list[Replica]:
        """Every copy of every partition of a topic."""
        partitions = self.partitions_of(topic)
        return [Replica(each, broker) for each in partitions for broker in self.replicas(each)]

    def replicas_on(self, brokers: Iterable[BrokerId]) -> list[Replica]:
        """Every copy that some brokers hold."""
        return [
            Replica(partition, broker)
            for broker in brokers
            for partition in self._replicas_on.get(broker, ())
        ]

    def begin_move(self, partition: TopicPartition) -> None:
        """The partition is on the move, if it was not already."""
        if partition not in self.reassigning:
            self.reassigning[partition] = None
            topic = partition.topic
            self._moving_topics[topic] = self._moving_topics.get(topic, 0) + 1

    def end_move(self, partition: TopicPartition) -> None:
        """The partition has arrived, or is no more."""
        if partition in self.reassigning:
            del self.reassigning[partition]
            left = self._moving_topics.pop(partition.topic) - 1
            if left:
                self._moving_topics[partition.topic] = left

    # --- leadership -----------------------------------------------------------------------------

    def lead(self, partition: TopicPartition, leadership: Leadership) -> None:
        """Believe what ZooKeeper has."""
        self.drop_leadership(partition)
        self.leaderships[partition] = leadership
        self._led_by.setdefault(leadership.leader, {})[partition] = None

    def drop_leadership(self, partition: TopicPartition) -> None:
        """Nobody is known to lead it."""
        before = self.leaderships.pop(partition, None)
        if before is not None:
            self._led_by[before.leader].pop(partition, None)

    def led_by(self, broker: BrokerId) -> list[TopicPartition]:
        """What a broker leads."""
        return list(self._led_by.get(broker, ()))

    def leader(self, partition: TopicPartition) -> BrokerId:
        """Who leads, as far as is known."""
        leadership = self.leaderships.get(partition)
        return NO_BROKER if leadership is None else leadership.leader

    # --- phases ---------------------------------------------------------------------------------

    def partition_phase(self, partition: TopicPartition) -> PartitionPhase:
        """Where a partition stands."""
        return self.partition_phases.get(partition, PartitionPhase.NON_EXISTENT)

    def set_partition_phase(self, partition: TopicPartition, phase: PartitionPhase) -> None:
        """Move a partition; only its state machine may ask for it."""
        before = self.partition_phases.get(partition)
        if before in self._waiting:
            self._waiting[before].pop(partition, None)
        if phase in self._waiting:
            self._waiting[phase][partition] = None
        if phase is PartitionPhase.NON_EXISTENT:
            self.partition_phases.pop(partition, None)
        else:
            self.partition_phases[partition] = phase

    def waiting_for_leader(self) -> list[TopicPartition]:
        """New and offline partitions, but for topics on their way out (B097)."""
        return [
            partition
            for phase in WAITING
            for partition in self._waiting[phase]
            if not self.is_leaving(partition.topic)
        ]

    @property
    def offline_partition_count(self) -> int:
        """As the metric OfflinePartitionsCount (B048)."""
        return len(self.waiting_for_leader())

    def replica_phase(self, replica: Replica) -> ReplicaPhase:
        """Where a replica stands."""
        phases = self.replica_phases.get(replica.partition, {})
        return phases.get(replica.broker, ReplicaPhase.NON_EXISTENT)

    def set_replica_phase(self, replica: Replica, phase: ReplicaPhase) -> None:
        """Move a replica; only its state machine may ask for it."""
        phases = self.replica_phases.setdefault(replica.partition, {})
        if phase is ReplicaPhase.NON_EXISTENT:
            phases.pop(replica.broker, None)
        else:
            phases[replica.broker] = phase

    def topic_replicas_in(self, topic: str, phase: ReplicaPhase) -> list[Replica]:
        """The copies of a topic that stand there."""
        return [each for each in self.replicas_of_topic(topic) if self.replica_phase(each) is phase]

    # --- deletion -------------------------------------------------------------------------------

    def is_queued_for_deletion(self, topic: str) -> bool:
        """Whether somebody asked for the topic's end."""
        return topic in self.topics_to_delete

    def is_leaving(self, topic: str) -> bool:
        """Whether a topic needs no leaders any more.

        One that waits for a move to end does: without a leader the move would never end, and so
        neither would the topic. Kafka leaves both hanging.
        """
        return topic in self.topics_to_delete and not self.is_held_by_move(topic)

    def is_held_by_move(self, topic: str) -> bool:
        """Whether a partition of the topic is on the move."""
        return topic in self._moving_topics

    def all_partitions(self) -> Iterator[TopicPartition]:
        """Every partition there is: for a failover and the periodic check, not for an event."""
        return iter(self.assignments)
