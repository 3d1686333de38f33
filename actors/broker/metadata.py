"""What a broker was told of the cluster by UpdateMetadata.

Rule: only the controller's word gets in, and only the replica manager holds the cache. Brokers are
replaced whole; partitions are merged; a leader of -2 removes one (B142).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from runtime.ref import Timer
from wire.control import LiveBroker, UpdateMetadata, UpdateMetadataPartition
from wire.errors import ErrorCode
from wire.ids import (
    LEADER_DURING_DELETE,
    NO_BROKER,
    NO_LEADER,
    BrokerId,
    Node,
    TopicId,
    TopicPartition,
)
from wire.metadata import (
    DescribeClusterResponse,
    Metadata,
    MetadataPartition,
    MetadataResponse,
    MetadataTopic,
)


class MetadataCache:
    """The cluster, as the controller last told it."""

    def __init__(self, listener: str) -> None:
        self._listener = listener  # the one whose addresses are shown, unless another is wanted
        self.cluster_id = ""
        self.controller: BrokerId = NO_BROKER
        self.brokers: dict[BrokerId, LiveBroker] = {}
        self.topics: dict[str, dict[int, UpdateMetadataPartition]] = {}
        self.topic_ids: dict[str, TopicId] = {}
        self.topic_names: dict[TopicId, str] = {}  # the same the other way round

    def update(self, update: UpdateMetadata) -> frozenset[str]:
        """Take in what the controller says; the topics that are gone by it."""
        gone = set()
        self.controller = update.controller_id
        self.brokers = {broker.id: broker for broker in update.live_brokers}
        for topic, topic_id in dict(update.topic_ids).items():
            self._name(topic, topic_id)
        topics = self.topics
        for entry in update.partitions:
            topic, number = entry.partition.topic, entry.partition.partition
            if entry.leader == LEADER_DURING_DELETE:
                numbers = topics.get(topic, {})
                numbers.pop(number, None)
                if not numbers:
                    if topics.pop(topic, None) is not None:
                        gone.add(topic)
                    self._name(topic, None)
                continue
            topics.setdefault(topic, {})[number] = entry
        return frozenset(gone)

    def forget_topics(self) -> None:
        """A new life is told everything anew; what was deleted meanwhile nobody mentions.

        Kafka keeps it, and shows topics that are long gone to whoever asks such a broker.
        """
        self.topics.clear()
        self.topic_ids.clear()
        self.topic_names.clear()

    def _name(self, topic: str, topic_id: TopicId | None) -> None:
        """A topic has this id from now on, or none any more."""
        former = self.topic_ids.pop(topic, None)
        if former is not None:
            self.topic_names.pop(former, None)
        if topic_id is not None:
            self.topic_ids[topic] = topic_id
            self.topic_names[topic_id] = topic

    def partition(self, partition: TopicPartition) -> UpdateMetadataPartition | None:
        """What is known of a partition."""
        return self.topics.get(partition.topic, {}).get(partition.partition)

    def leader(self, partition: TopicPartition) -> BrokerId:
        """Who leads a partition, if it is known and alive."""
        known = self.partition(partition)
        if known is None or known.leader not in self.brokers:
            return NO_LEADER
        return known.leader

    # --- answers ----------------------------------------------------------------------------------

    def describe(self, request: Metadata) -> MetadataResponse:
        """What a client may know (B143)."""
        names = self.topics if request.topics is None else dict.fromkeys(request.topics)
        nodes = self.nodes(request.listener)
        reachable = frozenset([node.id for node in nodes])
        return MetadataResponse(
            brokers=nodes,
            cluster_id=self.cluster_id or None,
            controller_id=self._live_controller(),
            topics=tuple(self._describe_topic(topic, reachable) for topic in sorted(names)),
        )

    def describe_cluster(self, listener: str | None = None) -> DescribeClusterResponse:
        """Who is in the cluster."""
        return DescribeClusterResponse(
            cluster_id=self.cluster_id,
            controller_id=self._live_controller(),
            brokers=self.nodes(listener),
        )

    def _live_controller(self) -> BrokerId:
        return self.controller if self.controller in self.brokers else NO_BROKER

    def nodes(self, listener: str | None = None) -> tuple[Node, ...]:
        """Live brokers that have the listener."""
        wanted = listener or self._listener
        return tuple(
            Node(broker, endpoint.host, endpoint.port, self.brokers[broker].rack)
            for broker in sorted(self.brokers)
            for endpoint in self.brokers[broker].endpoints
            if endpoint.listener == wanted
        )

    def _describe_topic(self, topic: str, reachable: frozenset[BrokerId]) -> MetadataTopic:
        known = self.topics.get(topic)
        if known is None:
            return MetadataTopic(topic=topic, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return MetadataTopic(
            topic=topic,
            topic_id=self.topic_ids.get(topic),
            is_internal=topic.startswith("__"),
            partitions=tuple(
                self._describe_partition(number, known[number], reachable)
                for number in sorted(known)
            ),
        )

    def _describe_partition(
        self, number: int, known: UpdateMetadataPartition, reachable: frozenset[BrokerId]
    ) -> MetadataPartition:
        error, leader = ErrorCode.NONE, known.leader
        if leader not in self.brokers:
            error, leader = ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER
        elif leader not in reachable:
            error, leader = ErrorCode.LISTENER_NOT_FOUND, NO_LEADER
        return MetadataPartition(
            partition=number,
            error_code=error,
            leader=leader,
            leader_epoch=known.leader_epoch,
            replicas=known.replicas,
            isr=known.isr,
            offline_replicas=known.offline_replicas,
        )


@dataclass(frozen=True)
class AwaitMetadata:
    """Any actor → replica manager: tell me when the cache shows this, or when time is up.

    How a request's answer waits until the broker's clients can see what it did (B113, B142).
    """

    holds: Callable[[MetadataCache], bool]
    timeout_ms: float
    done: Callable[[bool], None]  # False: time is up


@dataclass(frozen=True)
class WaitOver:
    """Somebody has waited long enough."""

    number: int


class MetadataWaits:
    """Who waits for the cache to show something."""

    def __init__(self, cache: MetadataCache, after: Callable[[float, Any], Timer]) -> None:
        self._cache = cache
        self._after = after
        self._waiting: dict[int, tuple[AwaitMetadata, Timer]] = {}
        self._next = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def begin(self, wait: AwaitMetadata) -> None:
        """Answer at once, if that is possible."""
        if wait.holds(self._cache):
            wait.done(True)
        elif wait.timeout_ms <= 0:
            wait.done(False)
        else:
            self._next += 1
            timer = self._after(wait.timeout_ms, WaitOver(self._next))
            self._waiting[self._next] = (wait, timer)

    def look(self) -> None:
        """The cache has changed: answer those for whom it is enough."""
        for number, (wait, timer) in tuple(self._waiting.items()):
            if wait.holds(self._cache):
                del self._waiting[number]
                timer.cancel()
                wait.done(True)

    def over(self, over: WaitOver) -> None:
        """Time is up for one of them."""
        waiting = self._waiting.pop(over.number, None)
        if waiting is not None:
            waiting[0].done(False)


def leaders_are(expected: Mapping[TopicPartition, BrokerId]) -> Callable[[MetadataCache], bool]:
    """Whether the cache shows these leaders."""
    return lambda cache: all(cache.leader(each) == leader for each, leader in expected.items())


def topic_is_ready(topic: str, partitions: int) -> Callable[[MetadataCache], bool]:
    """Whether all partitions of a topic are known, each with a live leader."""

    def holds(cache: MetadataCache) -> bool:
        known = cache.topics.get(topic, {})
        return len(known) >= partitions and all(
            each.leader in cache.brokers for each in known.values()
        )

    return holds


def topic_is_gone(topic: str) -> Callable[[MetadataCache], bool]:
    """Whether the cache has forgotten a topic."""
    return lambda cache: topic not in cache.topics
