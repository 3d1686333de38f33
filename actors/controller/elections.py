"""Leaders elected because somebody asks for it, or because leadership has drifted.

Rule: an election that is not needed is not held; each partition asked for gets an answer of its
own (B113). Nothing here elects but through the partitions' state machine.
"""

from collections.abc import Iterable
from typing import Final

from actors.controller.context import PartitionPhase
from actors.controller.election import Strategy, elect_preferred
from actors.controller.office import Office
from actors.controller.partition_states import Results
from actors.controller.zk_requests import PreferredElectionRequest
from wire.admin import ElectionType
from wire.errors import ElectionNotNeeded, InvalidTopic, UnknownTopicOrPartition
from wire.ids import BrokerId, TopicPartition

STRATEGIES: Final = {
    ElectionType.PREFERRED: Strategy.PREFERRED,
    ElectionType.UNCLEAN: Strategy.OFFLINE_UNCLEAN,
}


class Elections:
    """Elections by request, by znode and by the clock."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self._context = office.context
        self._request = PreferredElectionRequest(office)

    async def on_request_znode(self) -> int:
        """`/admin/preferred_replica_election` was created, or may have been (B112, B038)."""
        asked = await self._request.read()
        if asked is None:
            return 0
        try:
            await self.elect(asked, ElectionType.PREFERRED)
        finally:
            await self._request.remove()
        return len(asked)

    async def elect(self, asked: Iterable[TopicPartition], election_type: ElectionType) -> Results:
        """Elect where it is needed and possible; per partition, why not."""
        context, results = self._context, Results()
        electable: list[TopicPartition] = []
        for partition in map(context.known, asked):
            if partition not in context.assignments:
                results[partition] = UnknownTopicOrPartition(f"there is no partition {partition}")
            elif context.is_queued_for_deletion(partition.topic):
                results[partition] = InvalidTopic(f"{partition.topic} is being deleted")
            elif not self._is_needed(partition, election_type):
                results[partition] = ElectionNotNeeded(f"{partition} has such a leader")
            else:
                electable.append(partition)
        results |= await self._office.partitions.change(
            electable, PartitionPhase.ONLINE, STRATEGIES[election_type]
        )
        return results

    def _is_needed(self, partition: TopicPartition, election_type: ElectionType) -> bool:
        leader = self._context.leader(partition)
        if election_type is ElectionType.PREFERRED:
            return self._context.replicas(partition)[:1] != (leader,)
        return not self._context.is_online(partition, leader, or_shutting_down=True)

    async def rebalance(self) -> None:
        """Where too much is led by others than the preferred replicas, elect these (B114)."""
        for partitions in self._drifted().values():
            candidates = [each for each in partitions if self._can_be_preferred(each)]
            await self._office.partitions.change(
                candidates, PartitionPhase.ONLINE, Strategy.PREFERRED
            )

    def _drifted(self) -> dict[BrokerId, list[TopicPartition]]:
        context = self._context
        preferring: dict[BrokerId, int] = {}
        elsewhere: dict[BrokerId, list[TopicPartition]] = {}
        for partition, assignment in context.assignments.items():
            if context.is_queued_for_deletion(partition.topic) or not assignment.replicas:
                continue
            preferred = assignment.replicas[0]
            preferring[preferred] = preferring.get(preferred, 0) + 1
            if partition in context.leaderships and context.leader(partition) != preferred:
                elsewhere.setdefault(preferred, []).append(partition)
        limit = self._office.config.leader_imbalance_per_broker_percentage / 100
        return {
            broker: partitions
            for broker, partitions in sorted(elsewhere.items())
            if len(partitions) / preferring[broker] > limit
        }

    def _can_be_preferred(self, partition: TopicPartition) -> bool:
        """Not while anything moves (B115), and only where the election would succeed."""
        context = self._context
        if context.reassigning:
            return False
        isr = context.leaderships[partition].isr
        replicas = context.replicas(partition)
        return (
            elect_preferred(replicas, isr, lambda each: context.is_online(partition, each))
            is not None
        )
