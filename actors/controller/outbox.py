"""Requests to brokers, collected while an event is handled and sent when it is.

Rule: a batch holds one LeaderAndIsr and one StopReplica a broker and one UpdateMetadata for all;
the last word on a partition wins, but `is_new` and `delete` stay once said (B126). A batch that is
begun while another is unsent is a bug that would make the controller useless: it raises, and the
controller gives up its office (B011, B125). Requests are numbered in their order: each broker gets
its own in that order, whatever is sent again (B123).
"""

from collections.abc import Callable, Iterable
from typing import Final

from actors.controller.channel import Channel, Send
from actors.controller.context import Broker, ControllerContext, Leadership
from runtime.ref import Receiver, Ref
from runtime.system import System
from runtime.world import World
from wire.codec import encode
from wire.control import (
    LeaderAndIsr,
    LeaderAndIsrPartition,
    LiveBroker,
    StopReplica,
    StopReplicaPartition,
    UpdateMetadata,
    UpdateMetadataPartition,
)
from wire.ids import (
    LEADER_DURING_DELETE,
    LEADER_EPOCH_DURING_DELETE,
    NO_LEADER,
    NO_LEADER_EPOCH,
    NO_PARTITION_EPOCH,
    BrokerId,
    ControlSequence,
    LeaderEpoch,
    TopicId,
    TopicPartition,
)
from wire.message import Message
from wire.trace import RequestDropped
from wire.znodes import ReplicaAssignment

NodeName = Callable[[BrokerId], str]
NO_DELETION: Final = frozenset[TopicPartition]()


class BatchNotEmpty(Exception):
    """A batch was begun while another one is unsent."""


class Channels:
    """One channel for each broker that is registered (B123, B124)."""

    def __init__(
        self,
        world: World,
        system: System,
        controller: Receiver,
        name_of: NodeName,
        *,
        timeout_ms: int,
    ) -> None:
        self._world = world
        self._system = system
        self._controller = controller
        self._name_of = name_of
        self._timeout_ms = timeout_ms
        self._refs: dict[BrokerId, Ref] = {}

    def open(self, broker: BrokerId, context: ControllerContext) -> None:
        """Begin to talk to a broker."""
        destination = self._name_of(broker)
        channel = Channel(
            self._world,
            destination,
            broker,
            context.epoch,
            self._controller,
            timeout_ms=self._timeout_ms,
        )
        self._refs[broker] = self._system.start(f"controller/channel-{broker}", channel)

    def close(self, broker: BrokerId) -> None:
        """Stop talking to a broker; what waits for it is dropped."""
        ref = self._refs.pop(broker, None)
        if ref is not None:
            self._system.kill_actor(ref)

    def close_all(self) -> None:
        """The controller is no longer one."""
        for broker in tuple(self._refs):
            self.close(broker)

    def send(self, broker: BrokerId, message: Send) -> None:
        """Send after all that was sent before."""
        ref = self._refs.get(broker)
        if ref is None:
            self._world.trace(RequestDropped(broker, message.request, "the broker is not known"))
        else:
            ref.tell(message)


class Outbox:
    """The batch of the event at hand."""

    def __init__(self, context: ControllerContext, channels: Channels, me: BrokerId) -> None:
        self._context = context
        self._channels = channels
        self._me = me
        self._leader_and_isr: dict[BrokerId, dict[TopicPartition, LeaderAndIsrPartition]] = {}
        self._stop_replica: dict[BrokerId, dict[TopicPartition, StopReplicaPartition]] = {}
        self._metadata_brokers: dict[BrokerId, None] = {}
        self._metadata_partitions: dict[TopicPartition, None] = {}
        self._entries: dict[TopicPartition, LeaderAndIsrPartition] = {}
        self._tells_all = False  # whether all brokers are among those who hear of the metadata
        self._sequence = 0  # of the next request: they are counted as long as the reign lasts

    # --- collecting -----------------------------------------------------------------------------

    def begin(self) -> None:
        """Start a batch."""
        if self._leader_and_isr or self._stop_replica or self._metadata_brokers:
            raise BatchNotEmpty("requests of an earlier event are still unsent")

    def clear(self) -> None:
        """Forget what was collected."""
        self._leader_and_isr.clear()
        self._stop_replica.clear()
        self._metadata_brokers.clear()
        self._metadata_partitions.clear()
        self._entries.clear()
        self._tells_all = False

    def add_leader_and_isr(
        self, brokers: Iterable[BrokerId], partition: TopicPartition, *, is_new: bool = False
    ) -> None:
        """Tell brokers who leads; everybody may know it too (B127)."""
        context = self._context
        leadership = context.leaderships[partition]
        assignment = context.assignments[partition]
        for broker in brokers:
            if broker < 0:
                continue
            batch = self._leader_and_isr.setdefault(broker, {})
            before = batch.get(partition)
            sticky = is_new or (before is not None and before.is_new)
            batch[partition] = self._entry(partition, leadership, assignment, is_new=sticky)
        self._metadata_partitions[partition] = None
        if not self._tells_all:
            self.add_metadata(())
            self._tells_all = True

    def _entry(
        self,
        partition: TopicPartition,
        leadership: Leadership,
        assignment: ReplicaAssignment,
        *,
        is_new: bool,
    ) -> LeaderAndIsrPartition:
        """One object for all brokers of a partition: there are many partitions."""
        last = self._entries.get(partition)
        if (
            last is not None
            and last.is_new == is_new
            and last.partition_epoch == leadership.partition_epoch
            and last.leader_epoch == leadership.leader_epoch
            and last.replicas == assignment.replicas
            and last.adding_replicas == assignment.adding_replicas
            and last.removing_replicas == assignment.removing_replicas
        ):
            return last
        self._entries[partition] = entry = LeaderAndIsrPartition(
            partition=partition,
            controller_epoch=leadership.controller_epoch,
            leader=leadership.leader,
            leader_epoch=leadership.leader_epoch,
            isr=leadership.isr,
            partition_epoch=leadership.partition_epoch,
            replicas=assignment.replicas,
            adding_replicas=assignment.adding_replicas,
            removing_replicas=assignment.removing_replicas,
            is_new=is_new,
        )
        return entry

    def add_stop_replica(
        self, broker: BrokerId, partition: TopicPartition, *, delete: bool
    ) -> None:
        """Tell a broker to stop a replica."""
        if broker < 0:
            return
        batch = self._stop_replica.setdefault(broker, {})
        before = batch.get(partition)
        batch[partition] = StopReplicaPartition(
            partition=partition,
            leader_epoch=self._stop_epoch(partition),
            delete=delete or (before is not None and before.delete),
        )

    def _stop_epoch(self, partition: TopicPartition) -> LeaderEpoch:
        """A topic's deletion does not raise the leader epoch, so it has a sentinel (B132)."""
        if self._context.is_queued_for_deletion(partition.topic):
            return LEADER_EPOCH_DURING_DELETE
        leadership = self._context.leaderships.get(partition)
        return NO_LEADER_EPOCH if leadership is None else leadership.leader_epoch

    def add_metadata(
        self, partitions: Iterable[TopicPartition], brokers: Iterable[BrokerId] | None = None
    ) -> None:
        """Let brokers know of partitions; of none: who is alive (B130)."""
        told = self._context.brokers if brokers is None else brokers
        self._metadata_brokers.update(dict.fromkeys(told))
        self._metadata_partitions.update(dict.fromkeys(partitions))

    # --- sending --------------------------------------------------------------------------------

    def send(self) -> None:
        """LeaderAndIsr first, then UpdateMetadata, then StopReplica (B128)."""
        self._send_leader_and_isr()
        self._send_metadata()
        self._send_stop_replica()
        self.clear()

    def _send_leader_and_isr(self) -> None:
        context = self._context
        for broker, batch in sorted(self._leader_and_isr.items()):
            known = context.brokers.get(broker)
            if known is None:
                continue  # it gets all of it when it starts (B043)
            leaders = sorted({entry.leader for entry in batch.values()})
            request = LeaderAndIsr(
                controller_id=self._me,
                controller_epoch=context.epoch,
                broker_epoch=known.epoch,
                partitions=tuple(batch.values()),
                live_leaders=tuple(
                    context.brokers[leader].node()
                    for leader in leaders
                    if leader in context.brokers
                ),
                topic_ids=self._topic_ids(batch),
                sequence=self._next_sequence(),
            )
            self._post(known, request)

    def _send_metadata(self) -> None:
        context = self._context
        if not self._metadata_brokers:
            return
        partitions = tuple(
            entry
            for entry in map(self._metadata_entry, self._metadata_partitions)
            if entry is not None
        )
        live = tuple(
            LiveBroker(id=each.id, endpoints=each.endpoints, rack=each.registration.rack)
            for each in context.brokers.values()
        )
        topic_ids = self._topic_ids(self._metadata_partitions)
        for broker in sorted(self._metadata_brokers):
            known = context.brokers.get(broker)
            if known is None:
                continue
            request = UpdateMetadata(
                controller_id=self._me,
                controller_epoch=context.epoch,
                broker_epoch=known.epoch,
                partitions=partitions,
                live_brokers=live,
                topic_ids=topic_ids,
                sequence=self._next_sequence(),
            )
            self._post(known, request)

    def _metadata_entry(self, partition: TopicPartition) -> UpdateMetadataPartition | None:
        context = self._context
        leadership = context.leaderships.get(partition)
        is_deleting = context.is_queued_for_deletion(partition.topic)
        if leadership is None and is_deleting:
            # An earlier controller may have died with the topic half gone: brokers still know it.
            leadership = Leadership(
                NO_LEADER, NO_LEADER_EPOCH, (), context.epoch, NO_PARTITION_EPOCH
            )
        if leadership is None:
            return None  # nobody leads it yet (B129)
        replicas = context.replicas(partition)
        return UpdateMetadataPartition(
            partition=partition,
            controller_epoch=leadership.controller_epoch,
            leader=LEADER_DURING_DELETE if is_deleting else leadership.leader,
            leader_epoch=leadership.leader_epoch,
            isr=leadership.isr,
            partition_epoch=leadership.partition_epoch,
            replicas=replicas,
            offline_replicas=tuple(
                each
                for each in replicas
                if not context.is_online(partition, each, or_shutting_down=True)
            ),
        )

    def _send_stop_replica(self) -> None:
        context = self._context
        for broker, batch in sorted(self._stop_replica.items()):
            known = context.brokers.get(broker)
            if known is None:
                continue
            request = StopReplica(
                controller_id=self._me,
                controller_epoch=context.epoch,
                broker_epoch=known.epoch,
                partitions=tuple(batch.values()),
                sequence=self._next_sequence(),
            )
            deleted = frozenset(each.partition for each in batch.values() if each.delete)
            self._post(known, request, deleted)

    def _topic_ids(self, partitions: Iterable[TopicPartition]) -> tuple[tuple[str, TopicId], ...]:
        topics = dict.fromkeys(partition.topic for partition in partitions)
        ids = self._context.topic_ids
        return tuple((topic, ids[topic]) for topic in topics if topic in ids)

    def _next_sequence(self) -> ControlSequence:
        self._sequence += 1
        return ControlSequence(self._sequence)

    def _post(
        self, broker: Broker, request: Message, deleted: frozenset[TopicPartition] = NO_DELETION
    ) -> None:
        send = Send(type(request).__name__, encode(request), deleted, broker.epoch)
        self._channels.send(broker.id, send)
