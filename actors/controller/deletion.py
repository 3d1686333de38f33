"""Topics on their way out.

Rule: a topic's znodes go only after every replica has said that its log is gone (B095). A topic
with a replica that cannot answer, or with a partition on the move, is ineligible: it waits for a
broker's start or the end of the move (B091, B093, B096).
"""

from collections.abc import Iterable

from actors.controller.context import PartitionPhase, Replica, ReplicaPhase
from actors.controller.events import StopReplicaAnswered
from actors.controller.office import Office
from wire.admin_znodes import DeleteTopicsTopicZNode, DeleteTopicsZNode
from wire.config_znodes import ConfigEntity, ConfigEntityType, ConfigEntityZNode
from wire.errors import ErrorCode
from wire.trace import TopicDeletionStep
from wire.znodes import TopicZNode


class Deletions:
    """Deletes topics, one round after the other until none is left."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self._context = office.context

    # --- what starts or stops a deletion ----------------------------------------------------------

    async def load(self) -> int:
        """At a failover: what is asked for, and what has to wait (B034)."""
        context = self._context
        asked = await self._asked()
        for topic in sorted(asked - context.topics.keys()):
            asked.discard(topic)
            await self._forget_request(topic)  # B090
        if not self._office.config.delete_topic_enable:
            for topic in sorted(asked):
                await self._forget_request(topic)
            return 0
        context.topics_to_delete = dict.fromkeys(sorted(asked))
        dead = {
            partition.topic
            for topic in asked
            for partition, broker in context.replicas_of_topic(topic)
            if not context.is_online(partition, broker)
        }
        moving = {partition.topic for partition in context.reassigning}
        context.topics_ineligible = (dead | moving) & asked
        return len(asked)

    async def on_change(self) -> None:
        """Somebody asks for a topic's end (B090)."""
        context = self._context
        asked = await self._asked()
        for topic in sorted(asked):
            if topic not in context.topics or not self._office.config.delete_topic_enable:
                await self._forget_request(topic)
            elif topic not in context.topics_to_delete:
                context.topics_to_delete[topic] = None
                self._trace(topic, "queued")
                if context.is_held_by_move(topic):
                    self.mark_ineligible((topic,))
        await self.resume()

    async def _asked(self) -> set[str]:
        names = await self._office.store.children(DeleteTopicsZNode.path(), self._office.watcher)
        decoded = self._office.store.decoded
        topics = {decoded(DeleteTopicsZNode.topic_of, name) for name in names}
        return {topic for topic in topics if topic is not None}

    async def _forget_request(self, topic: str) -> None:
        self._trace(topic, "request removed")
        await self._office.store.delete(DeleteTopicsTopicZNode.path(topic))

    def mark_ineligible(self, topics: Iterable[str]) -> None:
        """Let topics wait, if they are to be deleted at all."""
        for topic in topics:
            if topic in self._context.topics_to_delete:
                self._context.topics_ineligible.add(topic)
                self._trace(topic, "ineligible")

    async def resume_for(self, topics: Iterable[str]) -> None:
        """What held these topics up may be over; a move that still goes on is not (B091)."""
        context = self._context
        resumed = [
            topic
            for topic in topics
            if topic in context.topics_to_delete and not context.is_held_by_move(topic)
        ]
        if resumed:
            self._context.topics_ineligible.difference_update(resumed)
            await self.resume()

    async def fail(self, replicas: Iterable[Replica]) -> None:
        """These replicas cannot be deleted now."""
        failed = [
            each for each in replicas if each.partition.topic in self._context.topics_to_delete
        ]
        if failed:
            await self._office.replicas.change(failed, ReplicaPhase.DELETION_INELIGIBLE)
            self.mark_ineligible(dict.fromkeys(each.partition.topic for each in failed))
            await self.resume()

    async def on_stop_replica_answered(self, event: StopReplicaAnswered) -> None:
        """A broker has deleted replicas, or could not (B094)."""
        gone: list[Replica] = []
        failed: list[Replica] = []
        refused = event.response.error_code is not ErrorCode.NONE
        codes = {each.partition: each.error_code for each in event.response.partitions}
        for partition in sorted(event.deleted):
            replica = Replica(self._context.known(partition), event.broker)
            if not self._is_waited_for(replica):
                continue
            code = codes.get(partition, ErrorCode.UNKNOWN_SERVER_ERROR)
            is_gone = not refused and code is ErrorCode.NONE
            (gone if is_gone else failed).append(replica)
        await self.fail(failed)
        if gone:
            await self._office.replicas.change(gone, ReplicaPhase.DELETION_SUCCESSFUL)
            await self.resume()

    def _is_waited_for(self, replica: Replica) -> bool:
        is_queued = self._context.is_queued_for_deletion(replica.partition.topic)
        started = ReplicaPhase.DELETION_STARTED
        return is_queued and self._context.replica_phase(replica) is started

    # --- a round ----------------------------------------------------------------------------------

    async def resume(self) -> None:
        """Finish topics whose replicas are gone; begin, or begin again, with those that may."""
        context = self._context
        to_delete: list[str] = []
        to_retry: list[Replica] = []
        for topic in tuple(context.topics_to_delete):
            phases = {context.replica_phase(each) for each in context.replicas_of_topic(topic)}
            if phases <= {ReplicaPhase.DELETION_SUCCESSFUL}:
                await self._complete(topic)
                continue
            if ReplicaPhase.DELETION_STARTED in phases:
                continue  # answers are due
            to_retry += context.topic_replicas_in(topic, ReplicaPhase.DELETION_INELIGIBLE)
            if topic not in context.topics_ineligible:
                to_delete.append(topic)
        await self._office.replicas.change(to_retry, ReplicaPhase.OFFLINE)
        if to_delete:
            await self._delete(to_delete)

    async def _delete(self, topics: list[str]) -> None:
        context = self._context
        for topic in topics:
            if topic not in context.topics_deleting:
                partitions = context.partitions_of(topic)
                await self._office.partitions.change(partitions, PartitionPhase.OFFLINE)
                await self._office.partitions.change(partitions, PartitionPhase.NON_EXISTENT)
                context.topics_deleting.add(topic)
                self._trace(topic, "started")
        # Brokers forget these partitions: UpdateMetadata names the leader -2 (B092).
        self._office.send_metadata(
            [partition for topic in topics for partition in context.partitions_of(topic)]
        )
        dead: list[Replica] = []
        alive: list[Replica] = []
        for topic in topics:
            for replica in context.replicas_of_topic(topic):
                if not context.is_online(*replica):
                    dead.append(replica)
                elif context.replica_phase(replica) is not ReplicaPhase.DELETION_SUCCESSFUL:
                    alive.append(replica)
        await self._office.replicas.change(dead, ReplicaPhase.DELETION_INELIGIBLE)
        await self._office.replicas.change(alive, ReplicaPhase.OFFLINE)
        await self._office.replicas.change(alive, ReplicaPhase.DELETION_STARTED)
        self.mark_ineligible(dict.fromkeys(replica.partition.topic for replica in dead))

    async def _complete(self, topic: str) -> None:
        """All replicas are gone: nothing of the topic stays (B095).

        Its configuration first: once its own znode is gone, somebody may create it anew.
        """
        context, store = self._context, self._office.store
        gone = context.topic_replicas_in(topic, ReplicaPhase.DELETION_SUCCESSFUL)
        await self._office.replicas.change(gone, ReplicaPhase.NON_EXISTENT)
        await store.delete(ConfigEntityZNode.path(ConfigEntity(ConfigEntityType.TOPICS, topic)))
        await store.delete_topic_tree(TopicZNode.path(topic))
        await store.delete(DeleteTopicsTopicZNode.path(topic))
        context.forget_topic(topic)
        self._trace(topic, "completed")

    def _trace(self, topic: str, step: str) -> None:
        self._office.world.trace(TopicDeletionStep(topic, step))
