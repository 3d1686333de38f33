"""Who coordinates a transactional id.

Rule: the leader of its partition of __transaction_state; how many of these there are, ZooKeeper
says. A topic that is not there is asked for, and whoever needs it is told to come back.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

from actors.administration.auto_topics import TRANSACTIONS_TOPIC
from actors.asked import Asked, refusal
from actors.broker.metadata import AwaitMetadata, MetadataCache
from actors.coordinator.offsets import partition_for
from actors.coordinator.transaction_events import CoordinatorFound, TopicCountDue, TopicCounted
from actors.coordinator.transaction_shards import TransactionShards, check_transactional_id
from runtime.keeper import KeeperError, NoNode, ZNode
from runtime.ref import InboxFull, Outcome, Receiver, Timer
from runtime.world import World
from wire.errors import CoordinatorNotAvailable, MalformedZNode
from wire.groups import FindCoordinator, FindCoordinatorResponse
from wire.ids import Node, TopicPartition
from wire.znodes import TopicZNode

RETRY_MS: Final = 1_000


class Finding:
    """Those who look for a coordinator."""

    def __init__(
        self,
        world: World,
        shards: TransactionShards,
        replica_manager: Receiver,
        create_topic: Callable[[], None],
        *,
        tell: Callable[[Any], None],
        after: Callable[[float, Any], Timer],
        pipe: Callable[[Awaitable[Any], Callable[[Outcome], Any]], None],
    ) -> None:
        self._world = world
        self._shards = shards
        self._replica_manager = replica_manager
        self._create_topic = create_topic  # asks for __transaction_state, and does not wait for it
        self._tell = tell
        self._after = after
        self._pipe = pipe
        self._is_counting = False
        self._waiting: list[Asked] = []  # for the number of partitions

    def find(self, asked: Asked, request: FindCoordinator) -> None:
        """Answer now, or when the number of partitions is known."""
        check_transactional_id(request.key)
        if self._shards.partitions is None:
            self._waiting.append(asked)
            self.count()
            return
        number = partition_for(request.key, self._shards.partitions)
        partition = TopicPartition(TRANSACTIONS_TOPIC, number)
        found: list[Node] = []

        def look(cache: MetadataCache) -> bool:
            leader = cache.leader(partition)
            found.extend(node for node in cache.nodes() if node.id == leader)
            return TRANSACTIONS_TOPIC in cache.topics

        def done(is_topic_known: bool) -> None:
            self._tell(CoordinatorFound(asked, found[0] if found else None, is_topic_known))

        try:
            self._replica_manager.tell(AwaitMetadata(look, 0, done))
        except InboxFull:
            self.on_found(CoordinatorFound(asked, None))

    def on_found(self, found: CoordinatorFound) -> None:
        """Metadata has said who it is."""
        if not found.is_topic_known and self._shards.is_empty:
            self._shards.partitions = None  # it may be gone, and be made with another number
        if found.node is None:
            why = CoordinatorNotAvailable("The transactional id has no coordinator yet.")
            found.asked.answer(refusal(found.asked.request, why))
        else:
            found.asked.answer(FindCoordinatorResponse(coordinator=found.node))

    def count(self) -> None:
        """Ask ZooKeeper how many partitions there are."""
        if self._shards.partitions is None and not self._is_counting:
            self._is_counting = True
            path = TopicZNode.path(TRANSACTIONS_TOPIC)
            self._pipe(self._world.keeper.get(path), TopicCounted)

    def on_counted(self, counted: TopicCounted) -> None:
        """If there is no such topic, it is made."""
        self._is_counting = False
        waiting, self._waiting = self._waiting, []
        try:
            znode: ZNode = counted.outcome.get()
            assignment = TopicZNode.decode(TRANSACTIONS_TOPIC, znode.data)
            self._shards.partitions = len(assignment.partitions) or None
        except NoNode:
            if waiting:
                with suppress(InboxFull):  # clients ask again, and then so do we
                    self._create_topic()
        except (KeeperError, MalformedZNode):
            pass  # it is asked again, now or by the next one who needs it
        for asked in waiting:
            if self._shards.partitions is None:
                self.on_found(CoordinatorFound(asked, None))
            else:
                self._tell(asked)
        if self._shards.partitions is None and not self._shards.is_empty:
            self._after(RETRY_MS, TopicCountDue())
