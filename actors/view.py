"""A cluster as one value: what people look at, and what tests wait for.

Rule: pure. Of a partition the newest word counts, by leader epoch and then by partition epoch; a
leader knows its ISR before the controller has told anybody.
"""

from collections.abc import Iterable, Mapping
from enum import Enum

from msgspec import Struct

from wire.ids import NO_BROKER, NO_LEADER, NO_OFFSET, TopicPartition
from wire.observation import NOT_ACTIVE, ObserveResponse, PartitionSight, ReplicaSight


class BrokerState(Enum):
    """What a person should know of a broker."""

    STARTING = "starting"
    UP = "up"
    CONTROLLER = "controller"
    LEAVING = "leaving"
    PAUSED = "paused"
    SILENT = "silent"  # it runs, and does not answer
    DOWN = "down"


class BrokerView(Struct, frozen=True):
    """One broker."""

    id: int
    state: BrokerState
    address: str = ""
    rack: str | None = None
    epoch: int = -1
    leaders: int = 0
    replicas: int = 0

    @property
    def is_up(self) -> bool:
        """Whether it takes part."""
        return self.state not in (BrokerState.DOWN, BrokerState.STARTING)


class PartitionView(Struct, frozen=True):
    """One partition; lists are of broker ids."""

    topic: str
    partition: int
    leader: int = NO_LEADER
    leader_epoch: int = -1
    partition_epoch: int = -1
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    offline: tuple[int, ...] = ()  # replicas on brokers or disks that are not there
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def is_offline(self) -> bool:
        """Whether nobody leads it."""
        return self.leader == NO_LEADER

    @property
    def is_under_replicated(self) -> bool:
        """Whether a replica that should be in sync is not; one being added need not be (B111).

        One that is gone counts as out of sync at once, even before anybody has written that down.
        """
        in_sync = set(self.isr) - set(self.offline)
        return bool(set(self.replicas) - set(self.adding) - in_sync)


class OffsetsView(Struct, frozen=True):
    """How far the replicas of a partition are; -1 where nobody says."""

    log_start_offset: int = NO_OFFSET
    high_watermark: int = NO_OFFSET
    ends: dict[int, int] = {}  # broker → log end offset


class ClusterView(Struct, frozen=True):
    """The whole of it at one moment."""

    controller: int = NO_BROKER
    controller_epoch: int = NOT_ACTIVE
    brokers: Mapping[int, BrokerView] = {}
    partitions: Mapping[TopicPartition, PartitionView] = {}
    offsets: Mapping[TopicPartition, OffsetsView] = {}  # only if they were asked for

    @property
    def offline(self) -> int:
        """How many partitions nobody leads."""
        return sum(each.is_offline for each in self.partitions.values())

    @property
    def under_replicated(self) -> int:
        """How many partitions lack a replica in sync."""
        return sum(each.is_under_replicated for each in self.partitions.values())


def assemble(
    seen: Mapping[int, ObserveResponse],
    brokers: Mapping[int, BrokerView],
    *,
    with_offsets: bool = True,
) -> ClusterView:
    """What the brokers that answer say, as one; `brokers` is what is known of them otherwise."""
    active = max(
        (each for each in seen.values() if each.controller_epoch != NOT_ACTIVE),
        key=lambda each: each.controller_epoch,
        default=None,
    )
    up = {broker for broker, view in brokers.items() if view.is_up}
    partitions = _partitions(seen, active, up)
    leaders = _count(each.leader for each in partitions.values())
    replicas = _count(broker for each in partitions.values() for broker in each.replicas)
    return ClusterView(
        controller=NO_BROKER if active is None else active.broker_id,
        controller_epoch=NOT_ACTIVE if active is None else active.controller_epoch,
        brokers={
            broker: BrokerView(
                id=view.id,
                state=view.state,
                address=view.address,
                rack=view.rack,
                epoch=seen[broker].broker_epoch if broker in seen else view.epoch,
                leaders=leaders.get(broker, 0),
                replicas=replicas.get(broker, 0),
            )
            for broker, view in sorted(brokers.items())
        },
        partitions=partitions,
        offsets=_offsets(seen) if with_offsets else {},
    )


def _count(brokers: Iterable[int]) -> dict[int, int]:
    counted: dict[int, int] = {}
    for each in brokers:
        counted[each] = counted.get(each, 0) + 1
    return counted


def _partitions(
    seen: Mapping[int, ObserveResponse], active: ObserveResponse | None, up: set[int]
) -> dict[TopicPartition, PartitionView]:
    """The controller's word, else the newest of what brokers were told, and leaders' own."""
    told: dict[TopicPartition, PartitionSight] = {}
    for response in seen.values() if active is None else (active,):
        for sight in response.partitions:
            known = told.get(sight.partition)
            if known is None or _age(sight) > _age(known):
                told[sight.partition] = sight
    led: dict[TopicPartition, ReplicaSight] = {}
    for response in seen.values():
        for replica in response.replicas:
            if replica.leader == response.broker_id:
                former = led.get(replica.partition)
                if former is None or _age(replica) > _age(former):
                    led[replica.partition] = replica
    return {
        partition: _partition(told[partition], led.get(partition), up) for partition in sorted(told)
    }


def _age(sight: PartitionSight | ReplicaSight) -> tuple[int, int]:
    return (sight.leader_epoch, sight.partition_epoch)


def _partition(sight: PartitionSight, led: ReplicaSight | None, up: set[int]) -> PartitionView:
    newest: PartitionSight | ReplicaSight = sight
    if led is not None and _age(led) > _age(sight):
        newest = led
    leader = newest.leader if newest.leader in up else NO_LEADER
    return PartitionView(
        topic=sight.partition.topic,
        partition=sight.partition.partition,
        leader=leader,
        leader_epoch=newest.leader_epoch,
        partition_epoch=newest.partition_epoch,
        replicas=sight.replicas,
        isr=newest.isr,
        offline=tuple(each for each in sight.replicas if each not in up or each in sight.offline),
        adding=sight.adding,
        removing=sight.removing,
    )


def _offsets(seen: Mapping[int, ObserveResponse]) -> dict[TopicPartition, OffsetsView]:
    ends: dict[TopicPartition, dict[int, int]] = {}
    leaders: dict[TopicPartition, ReplicaSight] = {}
    for response in seen.values():
        for replica in response.replicas:
            if replica.log_end_offset == NO_OFFSET:
                continue
            ends.setdefault(replica.partition, {})[response.broker_id] = replica.log_end_offset
            known = leaders.get(replica.partition)
            is_leader = replica.leader == response.broker_id
            if is_leader and (known is None or _age(replica) > _age(known)):
                leaders[replica.partition] = replica
    return {
        partition: OffsetsView(
            log_start_offset=leaders[partition].log_start_offset,
            high_watermark=leaders[partition].high_watermark,
            ends=dict(sorted(of.items())),
        )
        if partition in leaders
        else OffsetsView(ends=dict(sorted(of.items())))
        for partition, of in sorted(ends.items())
    }
