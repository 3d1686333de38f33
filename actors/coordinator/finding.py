"""Who coordinates a group, or a transactional id.

Rule: the leader of its partition of the coordinator's topic; how many of these there are, ZooKeeper
says, since metadata may lack those that have no leader, and would mislead. A topic that is not
there is asked for, and whoever needs it is told to come back.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from actors.asked import Asked, refusal
from actors.broker.metadata import AwaitMetadata, MetadataCache
from actors.coordinator.led import Led
from actors.coordinator.offsets import partition_for
from runtime.keeper import KeeperError, NoNode, ZNode
from runtime.ref import InboxFull, Outcome, Receiver, Timer
from runtime.world import World
from wire.errors import CoordinatorNotAvailable, MalformedZNode
from wire.groups import FindCoordinatorResponse
from wire.ids import Node, TopicPartition
from wire.znodes import TopicZNode

RETRY_MS: Final = 1_000


@dataclass(frozen=True)
class Counted:
    """ZooKeeper has said how many partitions the topic has, or has not."""

    outcome: Outcome


@dataclass(frozen=True)
class CountDue:
    """Time to ask ZooKeeper again."""


@dataclass(frozen=True)
class Found:
    """Metadata shows who coordinates, or nobody."""

    asked: Asked
    key: str
    node: Node | None
    is_topic_known: bool = True


class Finding:
    """Those who look for a coordinator."""

    def __init__(
        self,
        world: World,
        led: Led[Any],
        replica_manager: Receiver,
        create_topic: Callable[[], None],
        *,
        tell: Callable[[Any], None],
        after: Callable[[float, Any], Timer],
        pipe: Callable[[Awaitable[Any], Callable[[Outcome], Any]], None],
    ) -> None:
        self._world = world
        self._led = led
        self._replica_manager = replica_manager
        self._create_topic = create_topic  # asks for the topic, and does not wait for it
        self._tell = tell
        self._after = after
        self._pipe = pipe
        self._is_counting = False
        self._waiting: list[tuple[Asked, str]] = []  # for the number of partitions

    def find(self, asked: Asked, key: str) -> None:
        """Answer now, or when the number of partitions is known."""
        if self._led.partitions is None:
            self._waiting.append((asked, key))
            self.count()
            return
        topic = self._led.topic
        partition = TopicPartition(topic, partition_for(key, self._led.partitions))
        found: list[Node] = []

        def look(cache: MetadataCache) -> bool:
            leader = cache.leader(partition)
            found.extend(node for node in cache.nodes() if node.id == leader)
            return topic in cache.topics

        def done(is_topic_known: bool) -> None:
            self._tell(Found(asked, key, found[0] if found else None, is_topic_known))

        try:
            self._replica_manager.tell(AwaitMetadata(look, 0, done))
        except InboxFull:
            self.on_found(Found(asked, key, None))

    def on_found(self, found: Found) -> None:
        """Metadata has said who it is."""
        if not found.is_topic_known and self._led.is_empty:
            self._led.partitions = None  # it may be gone, and be made with another number
        if found.node is None:
            why = CoordinatorNotAvailable(f"Nobody coordinates {found.key!r:.80} yet.")
            found.asked.answer(refusal(found.asked.request, why))
        else:
            found.asked.answer(FindCoordinatorResponse(coordinator=found.node))

    def count(self) -> None:
        """Ask ZooKeeper how many partitions there are."""
        if self._led.partitions is None and not self._is_counting:
            self._is_counting = True
            self._pipe(self._world.keeper.get(TopicZNode.path(self._led.topic)), Counted)

    def on_counted(self, counted: Counted) -> None:
        """As GroupCoordinator.startup: found out once. If there is no such topic, it is made."""
        self._is_counting = False
        waiting, self._waiting = self._waiting, []
        try:
            znode: ZNode = counted.outcome.get()
            assignment = TopicZNode.decode(self._led.topic, znode.data)
            self._led.partitions = len(assignment.partitions) or None
        except NoNode:
            if waiting:
                with suppress(InboxFull):  # clients ask again, and then so do we
                    self._create_topic()
        except (KeeperError, MalformedZNode):
            pass  # it is asked again, now or by the next one who needs it
        for asked, key in waiting:
            if self._led.partitions is None:
                self.on_found(Found(asked, key, None))
            else:
                self.find(asked, key)
        if self._led.partitions is None and not self._led.is_empty:
            self._after(RETRY_MS, CountDue())
