"""Topics that appear, grow and vanish.

Rule: a new partition goes New, Online, and its replicas with it (B086); what a topic znode says of
partitions that exist already is not acted on (B087).
"""

import base64
from collections.abc import Iterable
from typing import Final

from actors.controller.context import PartitionPhase, ReplicaPhase
from actors.controller.election import Strategy
from actors.controller.moves import is_moving
from actors.controller.office import Office
from actors.controller.store import See
from runtime.keeper import BadVersion, NoNode, ZNode
from wire.ids import TopicId, TopicPartition
from wire.znodes import TopicAssignment, TopicsZNode, TopicZNode

TOPIC_ID_BYTES: Final = 16


class Topics:
    """What the controller does about topics."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self._context = office.context

    async def load(self) -> int:
        """At a failover: every topic's assignment, watched; then who leads (B029, B032)."""
        context = self._context
        for topic, assignment in (await self._read(await self._names())).items():
            for partition in context.add_topic(topic, assignment):
                if is_moving(context.assignments[partition]):
                    context.begin_move(partition)
        await self.refresh_leadership(context.assignments, context.note_returned)
        return len(context.topics)

    async def refresh_leadership(
        self, partitions: Iterable[TopicPartition], see: See | None = None
    ) -> None:
        """Believe what ZooKeeper has of these partitions."""
        known = [
            partition
            for partition in map(self._context.known, partitions)
            if partition in self._context.assignments
        ]
        for partition, found in (await self._office.store.read_states(known, see)).items():
            if not isinstance(found, Exception):
                self._context.lead(partition, found)

    async def on_change(self) -> None:
        """The children of `/brokers/topics` are others."""
        context = self._context
        names = await self._names()
        for topic in sorted(context.topics.keys() - set(names)):
            context.forget_topic(topic)
        new = [topic for topic in names if topic not in context.topics]
        added: list[TopicPartition] = []
        for topic, assignment in (await self._read(new)).items():
            added += context.add_topic(topic, assignment)
        await self._create(added)

    async def on_modification(self, topic: str) -> None:
        """A topic's znode has other data: perhaps more partitions (B087, B088)."""
        context = self._context
        assignments = await self._read([topic])
        assignment = assignments.get(topic)
        if assignment is None:
            return
        known = context.topics.get(topic, {})
        grown = assignment.partitions.keys() - known.keys()
        if not context.is_queued_for_deletion(topic):
            await self._create(context.add_topic(topic, assignment))
        elif grown:
            await self._restore(topic)

    async def _create(self, partitions: list[TopicPartition]) -> None:
        office, context = self._office, self._context
        if not partitions:
            return
        replicas = [
            replica
            for topic in dict.fromkeys(each.topic for each in partitions)
            for replica in context.replicas_of_topic(topic)
        ]
        new = set(partitions)
        replicas = [replica for replica in replicas if replica.partition in new]
        await office.partitions.change(partitions, PartitionPhase.NEW)
        await office.replicas.change(replicas, ReplicaPhase.NEW)
        await office.partitions.change(partitions, PartitionPhase.ONLINE, Strategy.OFFLINE)
        await office.replicas.change(replicas, ReplicaPhase.ONLINE)

    async def _restore(self, topic: str) -> None:
        """No partition is added to a topic on its way out: KAFKA-6612 (B088, H27)."""
        context = self._context
        known = {each.partition: context.assignments[each] for each in context.partitions_of(topic)}
        restored = TopicAssignment(partitions=known, topic_id=context.topic_ids.get(topic))
        await self._office.store.replace(TopicZNode.path(topic), TopicZNode.encode(restored))

    # --- ZooKeeper --------------------------------------------------------------------------------

    async def _names(self) -> list[str]:
        store, path = self._office.store, TopicsZNode.path()
        names = await store.children(path, self._office.watcher)
        decoded = [store.decoded(TopicsZNode.topic_of, name) for name in names]
        return [topic for topic in decoded if topic is not None]

    async def _read(self, topics: list[str]) -> dict[str, TopicAssignment]:
        """Assignments, watched; a topic without an id gets one, or its own one back (B086)."""
        store = self._office.store
        paths = [TopicZNode.path(topic) for topic in topics]
        znodes = await store.read_watched(paths, self._office.watcher)
        assignments: dict[str, TopicAssignment] = {}
        for topic, znode in zip(topics, znodes, strict=True):
            if not isinstance(znode, ZNode):
                continue
            found = store.decoded(TopicZNode.decode, topic, znode.data)
            if found is not None and found.topic_id is None:
                found = await self._with_id(topic, found, znode.stat.version)
            if found is not None:
                assignments[topic] = found
        return assignments

    async def _with_id(
        self, topic: str, assignment: TopicAssignment, version: int
    ) -> TopicAssignment | None:
        """KAFKA-14190: brokers refuse a topic whose id they know under another one."""
        chance = self._office.world.random.randbytes(TOPIC_ID_BYTES)
        identity = self._context.topic_ids.get(topic) or new_topic_id(chance)
        named = TopicAssignment(partitions=assignment.partitions, topic_id=identity)
        try:
            await self._office.store.replace(
                TopicZNode.path(topic), TopicZNode.encode(named), version
            )
        except NoNode:
            return None
        except BadVersion:  # changed meanwhile, perhaps by this very write: its reply was lost
            return (await self._read([topic])).get(topic)
        return named


def new_topic_id(chance: bytes) -> TopicId:
    """A UUID as Kafka prints it; none begins with a dash, which looks like an option."""
    text = base64.urlsafe_b64encode(chance).decode().rstrip("=")
    return TopicId(text if not text.startswith("-") else f"A{text[1:]}")
