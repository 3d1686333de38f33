"""Brokers that come, go, come back, change their address, lose a disk or say goodbye.

Rule: the children of `/brokers/ids` and their czxids say who lives; the difference to what is
believed says what happened (B068). A broker that came back between two looks has died first (B069).
"""

from collections.abc import Iterable
from dataclasses import dataclass

from actors.controller.context import Broker, PartitionPhase, Replica, ReplicaPhase
from actors.controller.deletion import Deletions
from actors.controller.election import Strategy
from actors.controller.events import LeaderAndIsrAnswered
from actors.controller.moves import target_of
from actors.controller.office import Office
from actors.controller.reassignment import Reassignments
from runtime.keeper import ZNode
from wire.errors import BrokerNotAvailable, ErrorCode, MalformedZNode, StaleBrokerEpoch
from wire.ids import UNKNOWN_BROKER_EPOCH, BrokerEpoch, BrokerId, TopicPartition
from wire.trace import BrokersChanged, ids
from wire.znodes import BrokerIdsZNode, BrokerIdZNode


@dataclass(frozen=True)
class BrokerDifference:
    """What happened between two looks at `/brokers/ids`."""

    added: tuple[BrokerId, ...]
    bounced: tuple[BrokerId, ...]
    removed: tuple[BrokerId, ...]

    @classmethod
    def between(
        cls, before: dict[BrokerId, Broker], now: dict[BrokerId, Broker]
    ) -> "BrokerDifference":
        """B068: the same id with a greater czxid is another life."""
        return cls(
            added=tuple(sorted(now.keys() - before.keys())),
            bounced=tuple(
                broker
                for broker in sorted(now.keys() & before.keys())
                if now[broker].epoch > before[broker].epoch
            ),
            removed=tuple(sorted(before.keys() - now.keys())),
        )


class Brokers:
    """What the controller does about brokers."""

    def __init__(self, office: Office, deletions: Deletions, reassignments: Reassignments) -> None:
        self._office = office
        self._context = office.context
        self._deletions = deletions
        self._reassignments = reassignments

    async def read(self) -> dict[BrokerId, Broker]:
        """Who is registered; arrivals, departures and changed addresses are watched."""
        store, watcher = self._office.store, self._office.watcher
        names = await store.children(BrokerIdsZNode.path(), watcher)
        found = [store.decoded(BrokerIdsZNode.broker_of, name) for name in names]
        asked = sorted(broker for broker in found if broker is not None)
        znodes = await store.read_watched([BrokerIdZNode.path(each) for each in asked], watcher)
        brokers = [
            self._decoded(broker, znode)
            for broker, znode in zip(asked, znodes, strict=True)
            if isinstance(znode, ZNode)
        ]
        return {each.id: each for each in brokers if each is not None}

    def _decoded(self, broker: BrokerId, znode: ZNode) -> Broker | None:
        registration = self._office.store.decoded(BrokerIdZNode.decode, broker, znode.data)
        if registration is None:
            return None
        if not registration.endpoints:
            self._office.store.skip(MalformedZNode(BrokerIdZNode.path(broker), "has no endpoint"))
            return None
        return Broker(broker, BrokerEpoch(znode.stat.czxid), registration)

    # --- coming and going -------------------------------------------------------------------------

    async def on_change(self) -> None:
        """The children of `/brokers/ids` are others (B069)."""
        office, context = self._office, self._context
        now = await self.read()
        change = BrokerDifference.between(context.brokers, now)
        if not (change.added or change.bounced or change.removed):
            return
        office.world.trace(
            BrokersChanged(ids(change.added), ids(change.bounced), ids(change.removed))
        )
        for broker in (*change.bounced, *change.removed):
            office.channels.close(broker)
        for broker in (*change.added, *change.bounced):
            office.channels.open(broker, context)
        if change.added:
            context.brokers.update({broker: now[broker] for broker in change.added})
            await self._on_startup(change.added)
        if change.bounced:
            self._forget(change.bounced)
            await self._on_failure(change.bounced)
            context.brokers.update({broker: now[broker] for broker in change.bounced})
            await self._on_startup(change.bounced)
        if change.removed:
            self._forget(change.removed)
            await self._on_failure(change.removed)

    async def on_modification(self, broker: BrokerId) -> None:
        """A broker's znode has other data: everybody should know its new address (B073)."""
        store = self._office.store
        path = BrokerIdZNode.path(broker)
        (znode,) = await store.read_watched([path], self._office.watcher)
        known = self._context.brokers.get(broker)
        now = self._decoded(broker, znode) if isinstance(znode, ZNode) else None
        if known is None and now is not None:
            await self.on_change()  # nobody could read it when it came; now it can be read
            return
        if known is None or now is None or now.epoch != known.epoch:
            return  # a coming or going: the children's watch tells of that
        if (
            now.endpoints != known.endpoints
            or now.registration.features != known.registration.features
        ):
            self._context.brokers[broker] = now
            self._office.send_metadata(())

    def _forget(self, brokers: Iterable[BrokerId]) -> None:
        for broker in brokers:
            del self._context.brokers[broker]

    async def _on_startup(self, brokers: tuple[BrokerId, ...]) -> None:
        """B070."""
        office, context = self._office, self._context
        for broker in brokers:
            context.offline_dirs.pop(broker, None)
        others = [broker for broker in context.brokers if broker not in brokers]
        if others:
            office.send_metadata((), others)
        office.send_metadata(context.leaderships, brokers)
        replicas = context.replicas_on(brokers)
        await office.replicas.change(replicas, ReplicaPhase.ONLINE)
        await office.partitions.trigger_online()
        await self._reassignments.resume(
            lambda _, assignment: any(broker in target_of(assignment) for broker in brokers)
        )
        topics = dict.fromkeys(replica.partition.topic for replica in replicas)
        await self._deletions.resume_for(topics)

    async def _on_failure(self, brokers: tuple[BrokerId, ...]) -> None:
        """B071."""
        context = self._context
        for broker in brokers:
            context.offline_dirs.pop(broker, None)
            context.shutting_down.discard(broker)
        await self.on_replicas_offline(context.replicas_on(brokers))

    async def on_replicas_offline(self, replicas: list[Replica]) -> None:
        """Their brokers are dead or their disks are: others lead, and they leave their ISRs."""
        office, context = self._office, self._context
        staying = [each for each in replicas if not context.is_leaving(each.partition.topic)]
        leaderless = [
            partition for partition, broker in staying if context.leader(partition) == broker
        ]
        await office.partitions.change(leaderless, PartitionPhase.OFFLINE)
        await office.partitions.trigger_online()
        await office.replicas.change(staying, ReplicaPhase.OFFLINE)
        await self._deletions.fail(
            each for each in replicas if context.is_leaving(each.partition.topic)
        )
        office.send_metadata(())  # also where no partition changed (B072)

    # --- disks ------------------------------------------------------------------------------------

    async def on_log_dir_failure(self, brokers: Iterable[BrokerId]) -> None:
        """Ask the brokers what is left, by telling them again what they hold (B074)."""
        known = [broker for broker in sorted(brokers) if broker in self._context.brokers]
        await self._office.replicas.change(self._context.replicas_on(known), ReplicaPhase.ONLINE)

    async def on_leader_and_isr_answered(self, event: LeaderAndIsrAnswered) -> None:
        """Replicas on a failed disk are offline; others that were are no longer."""
        if (
            event.response.error_code is not ErrorCode.NONE
            or event.broker not in self._context.brokers
        ):
            return
        offline = self._context.offline_dirs.setdefault(event.broker, {})
        new: list[Replica] = []
        for result in event.response.partitions:
            if result.error_code is ErrorCode.NONE:
                offline.pop(result.partition, None)
            elif result.error_code is ErrorCode.KAFKA_STORAGE_ERROR:
                partition = self._context.known(result.partition)
                if partition not in offline:
                    offline[partition] = None
                    new.append(Replica(partition, event.broker))
        if new:
            await self.on_replicas_offline(new)

    # --- goodbye ----------------------------------------------------------------------------------

    async def on_controlled_shutdown(
        self, broker: BrokerId, epoch: BrokerEpoch
    ) -> tuple[TopicPartition, ...]:
        """Move leadership away from a broker; what it still leads (B077 to B081)."""
        office, context = self._office, self._context
        known = context.brokers.get(broker)
        if known is None:
            raise BrokerNotAvailable(f"broker {broker} is not registered")
        if epoch != UNKNOWN_BROKER_EPOCH and epoch < known.epoch:
            raise StaleBrokerEpoch(f"broker {broker} has epoch {known.epoch}, not {epoch}")
        context.shutting_down.add(broker)
        shared = [
            partition
            for partition, _ in context.replicas_on((broker,))
            if self._is_shared(partition) and not context.is_queued_for_deletion(partition.topic)
        ]
        led = [partition for partition in shared if context.leader(partition) == broker]
        followed = [
            partition
            for partition in shared
            if partition in context.leaderships and context.leader(partition) != broker
        ]
        await office.partitions.change(led, PartitionPhase.ONLINE, Strategy.CONTROLLED_SHUTDOWN)
        office.outbox.begin()
        for partition in followed:
            office.outbox.add_stop_replica(broker, partition, delete=False)
        office.outbox.send()
        replicas = [Replica(partition, broker) for partition in followed]
        await office.replicas.change(replicas, ReplicaPhase.OFFLINE)
        return tuple(sorted(filter(self._is_shared, context.led_by(broker))))

    def _is_shared(self, partition: TopicPartition) -> bool:
        return len(self._context.replicas(partition)) > 1
