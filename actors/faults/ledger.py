"""What ZooKeeper holds, and what it once held, decoded once for all who judge it.

Rule: the ledger is written by transactions alone, in their order. What nobody can decode is as if
it were not there.
"""

from collections.abc import Sequence
from typing import NamedTuple

from runtime.keeper import Create, Delete, Operation, Set
from runtime.simulation.tree import Tree
from wire.admin_znodes import DeleteTopicsZNode
from wire.errors import MalformedZNode
from wire.ids import BrokerId, TopicPartition
from wire.znodes import (
    BrokerIdZNode,
    ControllerEpochZNode,
    PartitionState,
    PartitionStateZNode,
    ReplicaAssignment,
    TopicAssignment,
    TopicsZNode,
    TopicZNode,
)

TOPICS = f"{TopicsZNode.path()}/"
DOOMED = f"{DeleteTopicsZNode.path()}/"
EPOCH = ControllerEpochZNode.path()


class Stated(NamedTuple):
    """A partition's state and the version under which it stands."""

    state: PartitionState
    version: int


class StateChange(NamedTuple):
    """A partition's state was made, replaced or removed."""

    node: str  # who did it
    partition: TopicPartition
    before: Stated | None
    after: Stated | None


class TopicChange(NamedTuple):
    """A topic's znode was made, replaced or removed."""

    node: str
    topic: str
    before: TopicAssignment | None
    after: TopicAssignment | None


class Ledger:
    """ZooKeeper as of the last transaction."""

    def __init__(self) -> None:
        self.tree: Tree | None = None  # None until the first transaction
        self.states: dict[TopicPartition, Stated] = {}
        self.past: dict[TopicPartition, dict[int, list[PartitionState]]] = {}  # by version
        self.topics: dict[str, TopicAssignment] = {}
        self.doomed: set[str] = set()  # topics that somebody asked to delete
        self.epoch = 0
        self.controller = ""  # the node that wrote the epoch, if that was seen

    def assignment(self, partition: TopicPartition) -> ReplicaAssignment | None:
        """Where a partition lives."""
        topic = self.topics.get(partition.topic)
        return None if topic is None else topic.partitions.get(partition.partition)

    def is_registered(self, broker: BrokerId) -> bool:
        """Whether a broker has its znode."""
        return self.tree is not None and self.tree.stat(BrokerIdZNode.path(broker)) is not None

    def take(
        self, node: str, operations: Sequence[Operation], tree: Tree
    ) -> list[StateChange | TopicChange]:
        """Note a transaction; what it changed of topics and partitions."""
        if self.tree is None:
            self.tree = tree
            self._load(tree)
            return []
        changes: list[StateChange | TopicChange] = []
        for operation in operations:
            if not isinstance(operation, Create | Set | Delete):
                continue
            path = operation.path
            data = None if isinstance(operation, Delete) else operation.data
            if path.startswith(TOPICS):
                change = self._on_topics(node, path, data, tree)
                if change is not None:
                    changes.append(change)
            elif path.startswith(DOOMED):
                topic = path.removeprefix(DOOMED)
                (self.doomed.discard if data is None else self.doomed.add)(topic)
            elif path == EPOCH and data is not None:
                self._on_epoch(node, data)
        return changes

    def _load(self, tree: Tree) -> None:
        """What was there before anybody looked."""
        if tree.stat(EPOCH) is not None:
            self._on_epoch("", tree.get(EPOCH).data)
        if tree.stat(DeleteTopicsZNode.path()) is not None:
            self.doomed.update(tree.children(DeleteTopicsZNode.path()))
        if tree.stat(TopicsZNode.path()) is None:
            return
        for topic in tree.children(TopicsZNode.path()):
            path = TopicZNode.path(topic)
            self._on_topics("", path, tree.get(path).data, tree)
            for number in self.topics[topic].partitions if topic in self.topics else ():
                path = PartitionStateZNode.path(TopicPartition(topic, number))
                if tree.stat(path) is not None:
                    self._on_topics("", path, tree.get(path).data, tree)

    def _on_epoch(self, node: str, data: bytes) -> None:
        try:
            self.epoch = ControllerEpochZNode.decode(data)
        except MalformedZNode:
            return
        self.controller = node

    def _on_topics(
        self, node: str, path: str, data: bytes | None, tree: Tree
    ) -> StateChange | TopicChange | None:
        topic = TopicZNode.topic_at(path)
        try:
            if topic is not None:
                return self._on_topic(node, topic, data)
            partition = PartitionStateZNode.partition_at(path)
            if partition is not None:
                return self._on_state(node, partition, data, tree)
        except MalformedZNode:
            pass
        return None

    def _on_topic(self, node: str, topic: str, data: bytes | None) -> TopicChange:
        after = None if data is None else TopicZNode.decode(topic, data)
        before = self.topics.pop(topic, None)
        if after is not None:
            self.topics[topic] = after
        return TopicChange(node, topic, before, after)

    def _on_state(
        self, node: str, partition: TopicPartition, data: bytes | None, tree: Tree
    ) -> StateChange:
        after: Stated | None = None
        if data is not None:
            state = PartitionStateZNode.decode(partition, data)
            stat = tree.stat(PartitionStateZNode.path(partition))
            after = Stated(state, 0 if stat is None else stat.version)
        before = self.states.pop(partition, None)
        if after is not None:
            self.states[partition] = after
            past = self.past.setdefault(partition, {})
            past.setdefault(after.version, []).append(after.state)
        return StateChange(node, partition, before, after)
