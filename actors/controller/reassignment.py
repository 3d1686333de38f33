"""Replicas on the move.

Rule: what is written to the topic znode (with its adding and removing lists) comes before what is
believed and told, and each step can be done twice: a new controller finds the lists and goes on in
the middle (B103 to B105). A move ends when all target replicas are in sync; nothing times out. The
newest request for a partition wins (B107).
"""

from collections.abc import Callable, Collection, Iterable

from actors.controller.context import Leadership, PartitionPhase, Replica, ReplicaPhase
from actors.controller.deletion import Deletions
from actors.controller.election import Strategy
from actors.controller.moves import (
    arrived,
    is_moving,
    keeping,
    moving_to,
    origin_of,
    target_of,
)
from actors.controller.office import Office
from actors.controller.store import NewerState
from actors.controller.zk_requests import ReassignmentRequest
from runtime.keeper import BadVersion, KeeperError, KeeperSessionLost, NoNode, ZNode
from wire.admin import OngoingReassignment, PartitionReassignment
from wire.errors import (
    ApiError,
    ControllerMoved,
    InvalidReplicaAssignment,
    MalformedZNode,
    NoReassignmentInProgress,
    UnknownTopicOrPartition,
)
from wire.ids import NO_LEADER, BrokerId, LeaderEpoch, TopicPartition
from wire.trace import ControllerEventFailed, ReassignmentStep, ids
from wire.znodes import (
    PartitionState,
    PartitionStateZNode,
    ReplicaAssignment,
    TopicAssignment,
    TopicZNode,
)

Brokers = tuple[BrokerId, ...]
Wanted = Callable[[TopicPartition, ReplicaAssignment], bool]


class Reassignments:
    """Moves partitions, each through its phases."""

    def __init__(self, office: Office, deletions: Deletions) -> None:
        self._office = office
        self._context = office.context
        self._deletions = deletions
        self._request = ReassignmentRequest(office)

    # --- what starts or resumes a move ------------------------------------------------------------

    async def on_request_znode(self) -> tuple[TopicPartition, ...]:
        """`/admin/reassign_partitions` was created, or may have been (B099)."""
        wanted = await self._request.begin()
        if wanted is None:
            return ()
        moves = {self._context.known(partition): target for partition, target in wanted.items()}
        results = {each: await self._try(each, target) for each, target in moves.items()}
        refused = {each for each, error in results.items() if error is not None}
        await self._request.remove(lambda partition, _: partition in refused)  # B100
        return tuple(each for each in moves if each not in refused)

    async def on_api(
        self, wanted: Iterable[PartitionReassignment]
    ) -> dict[TopicPartition, ApiError | None]:
        """AlterPartitionReassignments: checked first, then begun (B106)."""
        results: dict[TopicPartition, ApiError | None] = {}
        moves: dict[TopicPartition, Brokers] = {}
        for each in wanted:
            partition = self._context.known(each.partition)
            try:
                moves[partition] = self._checked(partition, each.replicas)
            except ApiError as error:
                results[partition] = error
        await self._request.remove(lambda partition, _: partition in moves)
        for partition, target in moves.items():
            results[partition] = await self._try(partition, target)
        return results

    def ongoing(self, asked: Iterable[TopicPartition] | None) -> list[OngoingReassignment]:
        """What is on the move, of those asked for or of all."""
        moving = self._context.reassigning
        partitions = moving if asked is None else [each for each in asked if each in moving]
        assignments = [(each, self._context.assignments[each]) for each in sorted(partitions)]
        return [
            OngoingReassignment(
                partition=partition,
                replicas=assignment.replicas,
                adding_replicas=assignment.adding_replicas,
                removing_replicas=assignment.removing_replicas,
            )
            for partition, assignment in assignments
        ]

    async def resume(self, wanted: Wanted) -> int:
        """Go on with moves that were held up, by a failover or a dead target (B110)."""
        moves = [
            (partition, self._context.assignments[partition])
            for partition in self._context.reassigning
        ]
        due = [(partition, each) for partition, each in moves if wanted(partition, each)]
        for partition, assignment in due:
            await self._advanced(partition, assignment)
        return len(due)

    async def on_isr_change(self, partition: TopicPartition) -> None:
        """A moving partition's state changed: perhaps all target replicas are in sync (B102)."""
        partition = self._context.known(partition)
        if partition in self._context.reassigning:
            assignment = self._context.assignments[partition]
            if await self._is_complete(partition, assignment):
                await self._advance(partition, assignment)

    def _checked(self, partition: TopicPartition, target: Brokers | None) -> Brokers:
        assignment = self._context.assignments.get(partition)
        if assignment is None or self._context.is_queued_for_deletion(partition.topic):
            raise UnknownTopicOrPartition(f"there is no partition {partition}")
        if target is None:
            if not is_moving(assignment):
                raise NoReassignmentInProgress(f"{partition} is not on the move")
            return origin_of(assignment)
        strangers = [
            each
            for each in target
            if each not in self._context.live_brokers and each not in origin_of(assignment)
        ]
        if not target:
            raise InvalidReplicaAssignment(f"{partition} must have at least one replica")
        if len(set(target)) != len(target):
            raise InvalidReplicaAssignment(f"{partition} names a broker twice: {ids(target)}")
        if min(target) < 0:
            raise InvalidReplicaAssignment(f"{partition}: {min(target)} is no broker id")
        if strangers:
            raise InvalidReplicaAssignment(f"{partition}: broker {ids(strangers)} is not alive")
        return target

    async def _try(self, partition: TopicPartition, target: Brokers) -> ApiError | None:
        context = self._context
        assignment = context.assignments.get(partition)
        if assignment is None or context.is_queued_for_deletion(partition.topic):
            return UnknownTopicOrPartition(f"there is no partition {partition}")
        if not target or len(set(target)) != len(target):  # Kafka 2.4 to 3.9 would obey it
            return InvalidReplicaAssignment(
                f"{partition} cannot live on {ids(target) or 'nothing'}"
            )
        return await self._advanced(partition, self._overriding(partition, assignment, target))

    async def _advanced(
        self, partition: TopicPartition, assignment: ReplicaAssignment
    ) -> ApiError | None:
        """Advance one move of several: what stands in its way stops none of the others."""
        try:
            await self._advance(partition, assignment)
        except (ControllerMoved, KeeperSessionLost):
            raise
        except (ApiError, KeeperError, MalformedZNode) as error:
            self._office.world.trace(ControllerEventFailed(f"move of {partition}", repr(error)))
            return error if isinstance(error, ApiError) else InvalidReplicaAssignment(str(error))
        return None

    def _overriding(
        self, partition: TopicPartition, assignment: ReplicaAssignment, target: Brokers
    ) -> ReplicaAssignment:
        """The new way. A replica that is not on it but leads stays until the move is over.

        Kafka stops it, and the partition has no leader any more: KAFKA-14808 (H35). Where nobody
        leads, those stay who were in sync last: only they have all the data.
        """
        move = moving_to(assignment, target)
        leadership = self._context.leaderships.get(partition)
        if leadership is None:
            return move
        needed = leadership.isr if leadership.leader == NO_LEADER else (leadership.leader,)
        kept = (each for each in needed if each in assignment.replicas)
        for each in kept:
            if each not in move.replicas:
                move = keeping(move, each)
        return move

    # --- the phases -------------------------------------------------------------------------------

    async def _advance(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        self._deletions.mark_ineligible((partition.topic,))
        await self._update(partition, assignment)
        if await self._is_complete(partition, assignment):
            await self._finish(partition, assignment)
            return
        self._step(partition, "A1", assignment)
        await self._bump_epoch(partition, assignment)
        self._step(partition, "A2", assignment)
        adding = [Replica(partition, broker) for broker in assignment.adding_replicas]
        await self._office.replicas.change(adding, ReplicaPhase.NEW)

    async def _update(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        """U: durable, then believed; what the new way does not need is stopped at once."""
        before = self._context.assignments[partition]
        if before != assignment:
            unneeded = [each for each in before.replicas if each not in assignment.replicas]
            self._step(partition, "U1", assignment)
            if unneeded:
                await self._leave_isr(partition, unneeded)
            await self._write(partition, assignment)
            self._step(partition, "U2", assignment)
            self._context.assign(partition, assignment)
            await self._stop(partition, unneeded)
        self._context.begin_move(partition)
        await self._watch(partition)

    async def _finish(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        office, context = self._office, self._context
        # If the end could not be written, every new epoch would only begin the end again.
        await self._read_topic(partition.topic)
        self._step(partition, "B1", assignment)
        target = [Replica(partition, broker) for broker in target_of(assignment)]
        # One that heard of the move as another was stopped may be in sync before it was New (A2).
        unborn = [
            each for each in target if context.replica_phase(each) is ReplicaPhase.NON_EXISTENT
        ]
        await office.replicas.change(unborn, ReplicaPhase.NEW)
        await office.replicas.change(target, ReplicaPhase.ONLINE)
        done = arrived(assignment)
        self._step(partition, "B2", done)
        context.assign(partition, done)
        self._step(partition, "B3", done)
        await self._move_leader(partition, done)
        self._step(partition, "B4", done)
        await self._stop(partition, assignment.removing_replicas)
        self._step(partition, "B6", done)
        await self._write(partition, done)
        self._step(partition, "B7", done)
        context.end_move(partition)
        await self._request.remove(
            lambda each, replicas: each == partition and replicas == done.replicas
        )
        self._step(partition, "B8", done)
        office.send_metadata((partition,))
        await self._deletions.resume_for((partition.topic,))

    async def _move_leader(self, partition: TopicPartition, done: ReplicaAssignment) -> None:
        """Elect one of the target if the leader is none of it; else only tell the new epoch."""
        context = self._context
        leader = context.leader(partition)
        if leader in done.replicas and context.is_online(partition, leader):
            await self._bump_epoch(partition, done)
        else:
            await self._office.partitions.change(
                (partition,), PartitionPhase.ONLINE, Strategy.REASSIGN
            )

    async def _stop(self, partition: TopicPartition, brokers: Iterable[BrokerId]) -> None:
        """Out of the ISR, then deleted; the answer is not waited for (B103)."""
        replicas = [Replica(partition, broker) for broker in brokers]
        for phase in (
            ReplicaPhase.OFFLINE,
            ReplicaPhase.DELETION_STARTED,
            ReplicaPhase.DELETION_SUCCESSFUL,
            ReplicaPhase.NON_EXISTENT,
        ):
            await self._office.replicas.change(replicas, phase)

    # --- ZooKeeper --------------------------------------------------------------------------------

    async def _is_complete(self, partition: TopicPartition, assignment: ReplicaAssignment) -> bool:
        """Whether all target replicas are in sync, as ZooKeeper has it now; watched further.

        A move to where the partition already lives is: it only raises the epoch (B100). One of
        the target must be able to lead: else Kafka stops the old leader all the same, and the
        partition has none until the next failover (I-14). The move waits for a broker's start.
        """
        found = await self._watch(partition)
        if not is_moving(assignment):
            return True
        target = target_of(assignment)
        is_in_sync = found is not None and set(target) <= set(found.isr)
        return is_in_sync and any(self._context.is_online(partition, each) for each in target)

    async def _watch(self, partition: TopicPartition) -> PartitionState | None:
        path = PartitionStateZNode.path(partition)
        (znode,) = await self._office.store.read_watched([path], self._office.watcher)
        if not isinstance(znode, ZNode):
            # Nobody has led it yet: its first leader may complete the move.
            await self._office.store.keeper.exists(path, watch=self._office.watcher)
            return None
        return self._office.store.decoded(PartitionStateZNode.decode, partition, znode.data)

    async def _bump_epoch(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        """Raise the leader epoch and tell all replicas of the new assignment (A1, B3)."""
        office = self._office
        bumped = await self._bumped(partition)
        if bumped is None:
            return
        self._context.lead(partition, bumped)
        office.outbox.begin()
        office.outbox.add_leader_and_isr(origin_of(assignment), partition)
        # Only a replica that is being added may choose among the disks (B140).
        office.outbox.add_leader_and_isr(assignment.adding_replicas, partition, is_new=True)
        office.outbox.send()

    async def _leave_isr(self, partition: TopicPartition, leaving: Collection[BrokerId]) -> None:
        """Nobody is in sync who is not assigned (H15): the ISR first, the assignment then.

        The leader knows only the former version, so it adds none of them again before it is told
        of the new assignment, by this controller or by the next.
        """
        bumped = await self._bumped(partition, leaving)
        if bumped is not None:
            self._context.lead(partition, bumped)

    async def _bumped(
        self, partition: TopicPartition, leaving: Collection[BrokerId] = ()
    ) -> Leadership | None:
        while True:
            store, epoch = self._office.store, self._context.epoch
            found = (await store.read_changeable([partition], epoch))[partition]
            if isinstance(found, NewerState):
                raise found
            if not isinstance(found, Leadership):
                return None
            state = PartitionState(
                controller_epoch=epoch,
                leader=found.leader,
                leader_epoch=LeaderEpoch(found.leader_epoch + 1),
                isr=tuple(each for each in found.isr if each not in leaving) or found.isr,
            )
            change = {partition: (state, int(found.partition_epoch))}
            written = (await store.write_states(change))[partition]
            if isinstance(written, Leadership):
                return written
            if not isinstance(written, BadVersion):
                raise written

    async def _write(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        """Put one partition's assignment into its topic's znode; the others stay as they are.

        On the version just read: Kafka overwrites, and loses partitions that were added meanwhile.
        """
        store, path = self._office.store, TopicZNode.path(partition.topic)
        while True:
            found, version = await self._read_topic(partition.topic)
            changed = TopicAssignment(
                partitions={**found.partitions, partition.partition: assignment},
                topic_id=found.topic_id or self._context.topic_ids.get(partition.topic),
            )
            try:
                await store.replace(path, TopicZNode.encode(changed), version)
                return
            except NoNode as error:
                raise UnknownTopicOrPartition(f"there is no topic {partition.topic}") from error
            except BadVersion:
                continue  # somebody else changed it: what they wrote is kept

    async def _read_topic(self, topic: str) -> tuple[TopicAssignment, int]:
        try:
            znode = await self._office.store.keeper.get(TopicZNode.path(topic))
        except NoNode as error:
            raise UnknownTopicOrPartition(f"there is no topic {topic}") from error
        return TopicZNode.decode(topic, znode.data), znode.stat.version

    def _step(self, partition: TopicPartition, step: str, assignment: ReplicaAssignment) -> None:
        self._office.world.trace(
            ReassignmentStep(
                partition.topic,
                partition.partition,
                step,
                ids(assignment.replicas),
                ids(assignment.adding_replicas),
                ids(assignment.removing_replicas),
            )
        )
