"""A replica's life as the controller sees it.

Rule: every legal change is a row of LEGAL_FROM; nobody else compares states. A change that is none
is refused and traced, the state stays, the batch goes on.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from actors.controller.context import ControllerContext, Leadership, Replica, ReplicaPhase
from actors.controller.moves import without
from actors.controller.outbox import Outbox
from actors.controller.store import StateWrite, Store
from runtime.keeper import BadVersion
from runtime.tracing import NodeTrace
from wire.ids import NO_LEADER, BrokerId, LeaderEpoch, TopicPartition
from wire.trace import ElectionFailed, ReplicaLeftIsr, ReplicaStateChanged, TransitionRefused, ids
from wire.znodes import PartitionState, ReplicaAssignment

NON_EXISTENT, NEW, ONLINE, OFFLINE, STARTED, SUCCESSFUL, INELIGIBLE = ReplicaPhase

LEGAL_FROM: Final[Mapping[ReplicaPhase, frozenset[ReplicaPhase]]] = {
    NEW:          frozenset({NON_EXISTENT}),
    ONLINE:       frozenset({NEW, ONLINE, OFFLINE, INELIGIBLE}),
    OFFLINE:      frozenset({NEW, ONLINE, OFFLINE, INELIGIBLE}),
    STARTED:      frozenset({OFFLINE}),
    SUCCESSFUL:   frozenset({STARTED}),
    INELIGIBLE:   frozenset({OFFLINE, STARTED}),
    NON_EXISTENT: frozenset({SUCCESSFUL}),
}  # fmt: skip
LEAVING_ISR: Final = "OfflineReplica"


class ReplicaStates:
    """Moves replicas from state to state, in batches."""

    def __init__(
        self, context: ControllerContext, store: Store, outbox: Outbox, trace: NodeTrace
    ) -> None:
        self._context = context
        self._store = store
        self._outbox = outbox
        self._trace = trace

    async def startup(self) -> None:
        """Give every replica a state; those on dead brokers leave their ISRs (B035).

        So do those that came back unnoticed, until `startup_returned`; and they come first, before
        anybody is told that one of them leads. A leader that came back, and may lead again, is not
        told before its new epoch: in the old one it would write other records at the same offsets.
        """
        online: list[Replica] = []
        offline: list[Replica] = []
        returned: list[Replica] = []
        for partition in self._context.all_partitions():
            gone = self._context.returned.get(partition, ())
            for broker in self._context.replicas(partition):
                replica = Replica(partition, broker)
                if not self._context.is_online(partition, broker) or broker in gone:
                    self._move(replica, INELIGIBLE)
                    (returned if broker in gone else offline).append(replica)
                else:
                    self._move(replica, ONLINE)
                    if not self._context.is_reborn_leader(replica):
                        online.append(replica)
        await self.change(returned, OFFLINE)
        await self.change(online, ONLINE)
        await self.change(offline, OFFLINE)

    async def startup_returned(self) -> None:
        """Once others lead, those that came back follow."""
        returned, self._context.returned = self._context.returned, {}
        replicas = [Replica(each, broker) for each, gone in returned.items() for broker in gone]
        await self.change(replicas, ONLINE)

    async def change(self, replicas: Iterable[Replica], target: ReplicaPhase) -> None:
        """Move replicas and tell the brokers."""
        replicas = tuple(replicas)
        if not replicas:
            return
        self._outbox.begin()
        try:
            by_broker: dict[BrokerId, list[Replica]] = {}
            for replica in replicas:
                if self._is_legal(replica, target):
                    by_broker.setdefault(replica.broker, []).append(replica)
            for broker in sorted(by_broker):
                await self._change(broker, by_broker[broker], target)
        except BaseException:
            self._outbox.clear()  # nothing half-told stays for the next event (H9)
            raise
        self._outbox.send()

    async def _change(
        self, broker: BrokerId, replicas: list[Replica], target: ReplicaPhase
    ) -> None:
        match target:
            case ReplicaPhase.NEW:
                self._become_new(replicas)
            case ReplicaPhase.ONLINE:
                self._become_online(replicas)
            case ReplicaPhase.OFFLINE:
                await self._become_offline(broker, replicas)
            case ReplicaPhase.DELETION_STARTED:
                for replica in replicas:
                    self._move(replica, STARTED)
                    self._outbox.add_stop_replica(broker, replica.partition, delete=True)
            case ReplicaPhase.DELETION_SUCCESSFUL | ReplicaPhase.DELETION_INELIGIBLE:
                for replica in replicas:
                    self._move(replica, target)
            case ReplicaPhase.NON_EXISTENT:
                self._become_non_existent(replicas)

    # --- what entering a state does -------------------------------------------------------------

    def _become_new(self, replicas: list[Replica]) -> None:
        """Let it fetch from the leader, if there is one (B051)."""
        for replica in replicas:
            leadership = self._context.leaderships.get(replica.partition)
            if leadership is not None:
                if leadership.leader == replica.broker:
                    self._refused(replica, NEW)
                    continue
                self._outbox.add_leader_and_isr((replica.broker,), replica.partition, is_new=True)
            self._move(replica, NEW)

    def _become_online(self, replicas: list[Replica]) -> None:
        """B052."""
        for replica in replicas:
            partition, broker = replica
            if self._context.replica_phase(replica) is NEW:
                assignment = self._context.assignments[partition]
                if broker not in assignment.replicas:
                    grown = ReplicaAssignment(
                        replicas=(*assignment.replicas, broker),
                        adding_replicas=assignment.adding_replicas,
                        removing_replicas=assignment.removing_replicas,
                    )
                    self._context.assign(partition, grown)
            elif partition in self._context.leaderships:
                self._outbox.add_leader_and_isr((broker,), partition)
            self._move(replica, ONLINE)

    async def _become_offline(self, broker: BrokerId, replicas: list[Replica]) -> None:
        """Stop it, take it out of the ISR, tell the others (B053 to B056).

        But not those that came back unnoticed, and are about to leave as well: told of a state in
        between, one of them would lead for a moment without what it has lost (seed 5592).
        """
        context = self._context
        for replica in replicas:
            self._outbox.add_stop_replica(broker, replica.partition, delete=False)
        led = [each.partition for each in replicas if each.partition in context.leaderships]
        for partition in await self._remove_from_isr(broker, led):
            if not context.is_leaving(partition.topic):
                gone = (broker, *context.returned.get(partition, ()))
                others = [each for each in context.replicas(partition) if each not in gone]
                self._outbox.add_leader_and_isr(others, partition)
            self._move(Replica(partition, broker), OFFLINE)
        for replica in replicas:
            if replica.partition not in context.leaderships:
                self._outbox.add_metadata((replica.partition,))
                self._move(replica, OFFLINE)

    def _become_non_existent(self, replicas: list[Replica]) -> None:
        for replica in replicas:
            assignment = self._context.assignments.get(replica.partition)
            if assignment is not None:
                self._context.assign(replica.partition, without(assignment, replica.broker))
            self._move(replica, NON_EXISTENT)

    # --- leaving the ISR ------------------------------------------------------------------------

    async def _remove_from_isr(
        self, broker: BrokerId, partitions: list[TopicPartition]
    ) -> list[TopicPartition]:
        """Write ISRs without the broker; the partitions for which that, or nothing, was done."""
        done: list[TopicPartition] = []
        while partitions:  # those whose state was changed meanwhile are read again (B058)
            partitions = await self._remove_once(broker, partitions, done)
        return done

    async def _remove_once(
        self, broker: BrokerId, partitions: list[TopicPartition], done: list[TopicPartition]
    ) -> list[TopicPartition]:
        context = self._context
        changes: dict[TopicPartition, StateWrite] = {}
        states = await self._store.read_changeable(partitions, context.epoch)
        for partition, found in states.items():
            if not isinstance(found, Leadership):
                self._failed(partition, str(found))
                continue
            if broker in found.isr:
                state = self._state_without(broker, found)
                changes[partition] = (state, found.partition_epoch)
            else:  # B055
                context.lead(partition, found)
                done.append(partition)
        again: list[TopicPartition] = []
        for partition, written in (await self._store.write_states(changes)).items():
            if isinstance(written, BadVersion):
                again.append(partition)
            elif isinstance(written, Leadership):
                context.lead(partition, written)
                done.append(partition)
                self._trace_left(partition, broker, written)
            else:
                self._failed(partition, str(written))
        return again

    def _state_without(self, broker: BrokerId, found: Leadership) -> PartitionState:
        """The last in-sync replica stays one: only it has all the data (B054)."""
        isr = found.isr
        if len(isr) > 1:
            isr = tuple(each for each in isr if each != broker)
        return PartitionState(
            controller_epoch=self._context.epoch,
            leader=NO_LEADER if found.leader == broker else found.leader,
            leader_epoch=LeaderEpoch(found.leader_epoch + 1),
            isr=isr,
        )

    # --------------------------------------------------------------------------------------------

    def _is_legal(self, replica: Replica, target: ReplicaPhase) -> bool:
        if self._context.replica_phase(replica) in LEGAL_FROM[target]:
            return True
        self._refused(replica, target)
        return False

    def _refused(self, replica: Replica, target: ReplicaPhase) -> None:
        before = self._context.replica_phase(replica)
        (topic, number), broker = (
            (replica.partition.topic, replica.partition.partition),
            replica.broker,
        )
        self._trace(TransitionRefused(topic, number, broker, before.value, target.value))

    def _move(self, replica: Replica, phase: ReplicaPhase) -> None:
        before = self._context.replica_phase(replica)
        self._context.set_replica_phase(replica, phase)
        if before is not phase and self._trace.is_on:
            partition = replica.partition
            self._trace(
                ReplicaStateChanged(
                    partition.topic,
                    partition.partition,
                    replica.broker,
                    before.value,
                    phase.value,
                )
            )

    def _trace_left(self, partition: TopicPartition, broker: BrokerId, now: Leadership) -> None:
        if self._trace.wants(ReplicaLeftIsr):
            self._trace(
                ReplicaLeftIsr(
                    partition.topic,
                    partition.partition,
                    broker,
                    now.leader,
                    now.leader_epoch,
                    ids(now.isr),
                )
            )

    def _failed(self, partition: TopicPartition, error: str) -> None:
        if not self._context.is_queued_for_deletion(partition.topic):
            self._trace(ElectionFailed(partition.topic, partition.partition, LEAVING_ISR, error))
