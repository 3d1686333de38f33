"""A partition's life as the controller sees it.

Rule: every legal change is a row of LEGAL_FROM; nobody else compares states. A change that is none
is refused and traced, the state stays, the batch goes on (B040). What is elected is durable first,
then believed, then told.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from actors.controller.context import ControllerContext, Leadership, PartitionPhase
from actors.controller.election import (
    Elected,
    IsOnline,
    Strategy,
    elect_first,
    elect_for_shutdown,
    elect_offline,
    elect_preferred,
    elect_reassigned,
)
from actors.controller.metrics import ElectionTimes
from actors.controller.moves import target_of
from actors.controller.outbox import Outbox
from actors.controller.store import StateWrite, Store
from runtime.keeper import BadVersion
from runtime.tracing import NodeTrace
from wire.errors import (
    ApiError,
    EligibleLeadersNotAvailable,
    PreferredLeaderNotAvailable,
)
from wire.ids import (
    INITIAL_LEADER_EPOCH,
    NO_BROKER,
    BrokerId,
    LeaderEpoch,
    TopicPartition,
)
from wire.trace import ElectionFailed, LeaderElected, PartitionStateChanged, TransitionRefused, ids
from wire.znodes import PartitionState

NON_EXISTENT, NEW, ONLINE, OFFLINE = PartitionPhase

LEGAL_FROM: Final[Mapping[PartitionPhase, frozenset[PartitionPhase]]] = {
    NEW:          frozenset({NON_EXISTENT}),
    ONLINE:       frozenset({NEW, ONLINE, OFFLINE}),
    OFFLINE:      frozenset({NEW, ONLINE, OFFLINE}),
    NON_EXISTENT: frozenset({OFFLINE}),
}  # fmt: skip

Results = dict[TopicPartition, ApiError | None]
FIRST_LEADER: Final = "NewPartition"


class StateChangeFailed(ApiError):
    """ZooKeeper did not take the change, or does not have what it would change."""


class PartitionStates:
    """Moves partitions from state to state, in batches."""

    def __init__(
        self,
        context: ControllerContext,
        store: Store,
        outbox: Outbox,
        trace: NodeTrace,
        *,
        me: BrokerId,
        unclean_default: bool,
        times: ElectionTimes,
    ) -> None:
        self._context = context
        self._store = store
        self._outbox = outbox
        self._trace = trace
        self._me = me
        self._unclean_default = unclean_default
        self._times = times
        self.unclean_elections = 0  # of this reign
        self.elections = 0

    async def startup(self) -> None:
        """Give every partition a state, then look for missing leaders (B036)."""
        context = self._context
        for partition in context.all_partitions():
            leadership = context.leaderships.get(partition)
            if leadership is None:
                phase = NEW
            else:
                is_live = context.is_online(partition, leadership.leader)
                is_live = is_live and partition not in context.reborn_leaders
                phase = ONLINE if is_live else OFFLINE
            self._move(partition, phase)
        context.reborn_leaders.clear()
        await self.trigger_online()

    async def trigger_online(self, topic: str | None = None) -> None:
        """Try again for partitions without a leader (B049)."""
        waiting = self._context.waiting_for_leader()
        if topic is not None:
            waiting = [partition for partition in waiting if partition.topic == topic]
        await self.change(waiting, ONLINE, Strategy.OFFLINE)

    async def change(
        self,
        partitions: Iterable[TopicPartition],
        target: PartitionPhase,
        strategy: Strategy | None = None,
    ) -> Results:
        """Move partitions and tell the brokers; per partition, why not."""
        partitions = tuple(partitions)
        if not partitions:
            return {}
        self._outbox.begin()
        try:
            results = await self._change(partitions, target, strategy)
        except BaseException:
            self._outbox.clear()  # nothing half-told stays for the next event (H9)
            raise
        self._outbox.send()
        return results

    async def _change(
        self,
        partitions: tuple[TopicPartition, ...],
        target: PartitionPhase,
        strategy: Strategy | None,
    ) -> Results:
        legal = [each for each in partitions if self._is_legal(each, target)]
        if target is not ONLINE:
            for partition in legal:
                self._move(partition, target)
            return {}
        new = [each for each in legal if self._context.partition_phase(each) is NEW]
        results: Results = {}
        if new:
            results |= await self._initialize(new)
        rest = [each for each in legal if self._context.partition_phase(each) is not NEW]
        rest = [each for each in rest if each not in results]
        if rest:
            assert strategy is not None, "an election has a strategy"
            results |= await self._elect(rest, strategy)
        return results

    def _is_legal(self, partition: TopicPartition, target: PartitionPhase) -> bool:
        before = self._context.partition_phase(partition)
        if before in LEGAL_FROM[target]:
            return True
        self._trace(
            TransitionRefused(
                partition.topic, partition.partition, NO_BROKER, before.value, target.value
            )
        )
        return False

    def _move(self, partition: TopicPartition, phase: PartitionPhase) -> None:
        before = self._context.partition_phase(partition)
        self._context.set_partition_phase(partition, phase)
        if before is not phase and self._trace.wants(PartitionStateChanged):
            self._trace(
                PartitionStateChanged(
                    partition.topic, partition.partition, before.value, phase.value
                )
            )

    # --- the first leader -----------------------------------------------------------------------

    async def _initialize(self, partitions: list[TopicPartition]) -> Results:
        context, results = self._context, Results()
        states: dict[TopicPartition, PartitionState] = {}
        for partition in partitions:
            elected = elect_first(context.replicas(partition), self._online(partition))
            if elected is None:
                results[partition] = self._failed(
                    partition, FIRST_LEADER, StateChangeFailed("no assigned replica is alive")
                )
                continue
            states[partition] = PartitionState(
                controller_epoch=context.epoch,
                leader=elected.leader,
                leader_epoch=INITIAL_LEADER_EPOCH,
                isr=elected.isr,
            )
        for partition, written in (await self._store.create_states(states)).items():
            if not isinstance(written, Leadership):
                error = StateChangeFailed(str(written))  # it stays new (B042)
                results[partition] = self._failed(partition, FIRST_LEADER, error)
                continue
            self._believe(partition, written, FIRST_LEADER)
            self._outbox.add_leader_and_isr(written.isr, partition, is_new=True)  # B043
            self._move(partition, ONLINE)
            results[partition] = None
        return results

    # --- another leader -------------------------------------------------------------------------

    async def _elect(self, partitions: list[TopicPartition], strategy: Strategy) -> Results:
        results: Results = {}
        begun_ms, before = self._times.elapsed_ms(), self.elections
        while partitions:  # those whose state was changed meanwhile are read again (B044)
            partitions = await self._elect_once(partitions, strategy, results)
        if self.elections > before:
            self._times.election_ms.update(self._times.elapsed_ms() - begun_ms)
        return results

    async def _elect_once(
        self, partitions: list[TopicPartition], strategy: Strategy, results: Results
    ) -> list[TopicPartition]:
        found = await self._store.read_changeable(partitions, self._context.epoch)
        current: dict[TopicPartition, Leadership] = {}
        for partition, read in found.items():
            if isinstance(read, Leadership):
                current[partition] = read
            else:
                results[partition] = self._failed(
                    partition, strategy.value, StateChangeFailed(str(read))
                )
        unclean = await self._allowed_unclean(current, strategy)
        changes: dict[TopicPartition, StateWrite] = {}
        elections: dict[TopicPartition, Elected] = {}
        for partition, leadership in current.items():
            allow = partition.topic in unclean
            elected = self._winner(partition, leadership, strategy, allow_unclean=allow)
            if elected is None:
                results[partition] = self._failed(partition, strategy.value, _nobody(strategy))
                continue
            elections[partition] = elected
            changes[partition] = (self._next(leadership, elected), leadership.partition_epoch)
        return await self._write(changes, elections, strategy, results)

    async def _write(
        self,
        changes: Mapping[TopicPartition, StateWrite],
        elections: Mapping[TopicPartition, Elected],
        strategy: Strategy,
        results: Results,
    ) -> list[TopicPartition]:
        again: list[TopicPartition] = []
        for partition, written in (await self._store.write_states(changes)).items():
            if isinstance(written, BadVersion):
                again.append(partition)
            elif not isinstance(written, Leadership):
                error = StateChangeFailed(str(written))
                results[partition] = self._failed(partition, strategy.value, error)
            else:
                elected = elections[partition]
                self.unclean_elections += elected.is_unclean
                self._times.unclean_elections += elected.is_unclean
                self._believe(partition, written, strategy.value, is_unclean=elected.is_unclean)
                self._outbox.add_leader_and_isr(self._told(partition, strategy), partition)
                self._move(partition, ONLINE)
                results[partition] = None
        return again

    async def _allowed_unclean(
        self, current: Mapping[TopicPartition, Leadership], strategy: Strategy
    ) -> set[str]:
        if strategy is Strategy.OFFLINE_UNCLEAN:
            return {partition.topic for partition in current}
        if strategy is not Strategy.OFFLINE:
            return set()
        is_online = self._context.is_online
        topics = dict.fromkeys(
            partition.topic
            for partition, leadership in current.items()
            if not any(is_online(partition, each) for each in leadership.isr)
        )
        if not topics:
            return set()
        return await self._store.unclean_topics(topics, self._me, default=self._unclean_default)

    def _winner(
        self,
        partition: TopicPartition,
        leadership: Leadership,
        strategy: Strategy,
        *,
        allow_unclean: bool,
    ) -> Elected | None:
        context, isr = self._context, leadership.isr
        assignment = context.assignments[partition]

        is_online = self._online(partition)
        match strategy:
            case Strategy.OFFLINE | Strategy.OFFLINE_UNCLEAN:
                return elect_offline(
                    assignment.replicas, isr, is_online, allow_unclean=allow_unclean
                )
            case Strategy.REASSIGN:
                return elect_reassigned(target_of(assignment), isr, is_online)
            case Strategy.PREFERRED:
                return elect_preferred(assignment.replicas, isr, is_online)
            case Strategy.CONTROLLED_SHUTDOWN:
                return elect_for_shutdown(
                    assignment.replicas,
                    isr,
                    self._online(partition, or_shutting_down=True),
                    context.shutting_down,
                )

    def _online(self, partition: TopicPartition, *, or_shutting_down: bool = False) -> IsOnline:
        def is_online(broker: BrokerId) -> bool:
            return self._context.is_online(partition, broker, or_shutting_down=or_shutting_down)

        return is_online

    def _next(self, leadership: Leadership, elected: Elected) -> PartitionState:
        return PartitionState(
            controller_epoch=self._context.epoch,
            leader=elected.leader,
            leader_epoch=LeaderEpoch(leadership.leader_epoch + 1),
            isr=elected.isr,
        )

    def _told(self, partition: TopicPartition, strategy: Strategy) -> list[BrokerId]:
        """Who hears of an election (B045).

        As Kafka's Election: who is shutting down hears of all but an offline one. There is no
        leader then; else it may be the leader that has to know that it is none any more.
        """
        assignment = self._context.assignments[partition]
        is_reassign = strategy is Strategy.REASSIGN
        replicas = target_of(assignment) if is_reassign else assignment.replicas
        also_leaving = strategy not in {Strategy.OFFLINE, Strategy.OFFLINE_UNCLEAN}
        is_online = self._context.is_online
        return [
            each for each in replicas if is_online(partition, each, or_shutting_down=also_leaving)
        ]

    # --------------------------------------------------------------------------------------------

    def _believe(
        self,
        partition: TopicPartition,
        written: Leadership,
        reason: str,
        *,
        is_unclean: bool = False,
    ) -> None:
        self._context.lead(partition, written)
        self.elections += 1
        if self._trace.wants(LeaderElected):
            self._trace(
                LeaderElected(
                    partition.topic,
                    partition.partition,
                    written.leader,
                    written.leader_epoch,
                    ids(written.isr),
                    written.partition_epoch,
                    reason,
                    is_unclean,
                    ids(self._context.replicas(partition)),
                )
            )

    def _failed(self, partition: TopicPartition, strategy: str, error: ApiError) -> ApiError:
        self._trace(ElectionFailed(partition.topic, partition.partition, strategy, str(error)))
        return error


def _nobody(strategy: Strategy) -> ApiError:
    if strategy is Strategy.PREFERRED:
        return PreferredLeaderNotAvailable("the preferred replica is not alive, or not in sync")
    return EligibleLeadersNotAvailable("no replica that may lead is alive")
