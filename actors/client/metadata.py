"""Who leads, as one client knows it.

Rule: knowledge is refreshed aside, one request at a time, and never blocks: whoever misses a leader
says so with `keep_fresh` and waits for the bell. A leader epoch never goes back (KIP-320), so a
broker that was told less than another cannot send a client to a former leader.
"""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from actors.client.connection import Connection
from actors.client.errors import may_pass
from runtime.tasks import Bell, Tasks
from runtime.world import Clock
from wire.errors import ApiError, ErrorCode, MalformedMessage, UnknownTopicOrPartition, exception_of
from wire.ids import BrokerId, LeaderEpoch, TopicId, TopicPartition
from wire.metadata import Metadata, MetadataPartition, MetadataResponse, MetadataTopic

ATTEMPT_MS: Final = 2_000  # a broker has it at hand


class Leader(Struct, frozen=True, gc=False):
    """Who leads a partition, and in which epoch."""

    broker: BrokerId
    epoch: LeaderEpoch


class _Topic:
    """What is known of one topic."""

    def __init__(self, topic_id: TopicId | None) -> None:
        self.topic_id = topic_id
        self.partitions: dict[int, MetadataPartition] = {}
        self.numbers: tuple[int, ...] = ()  # sorted, for every record asks
        self.led: tuple[int, ...] = ()  # those with a leader
        self.error: ApiError | None = None

    def update(self, partitions: dict[int, MetadataPartition]) -> None:
        """These are known from now on."""
        self.partitions = partitions
        self.numbers = tuple(sorted(partitions))
        self.led = tuple(each for each in self.numbers if partitions[each].leader >= 0)


class ClientMetadata:
    """A client's cache of leaders; `changed` rings after each refresh, failed ones too."""

    def __init__(
        self,
        connection: Connection,
        clock: Clock,
        tasks: Tasks,
        changed: Bell,
        *,
        max_age_ms: float,
        backoff_ms: float,
        allow_auto_topic_creation: bool = True,
    ) -> None:
        self._connection = connection
        self._clock = clock
        self._tasks = tasks
        self._changed = changed
        self._max_age_ms = max_age_ms
        self._backoff_ms = backoff_ms
        self._allow_auto_topic_creation = allow_auto_topic_creation
        self._topics: dict[str, _Topic] = {}
        self._wanted: dict[str, None] = {}
        self._doubted: set[TopicPartition] = set()
        self._is_stale = False
        self._is_refreshing = False
        self._asked_at_ms = -max_age_ms  # when the last request went out
        self.failure: ApiError | MalformedMessage | None = None  # of the last refresh

    # --- what is known ---------------------------------------------------------------------------

    def leader(self, partition: TopicPartition) -> Leader | None:
        """Who leads, if somebody does."""
        topic = self._topics.get(partition.topic)
        known = None if topic is None else topic.partitions.get(partition.partition)
        if known is None or known.leader < 0 or partition in self._doubted:
            return None
        return Leader(known.leader, known.leader_epoch)

    def knows(self, topic: str, partition: int | None) -> bool:
        """Whether there is such a partition, or any of the topic."""
        known = self._topics.get(topic)
        if known is None:
            return False
        return bool(known.partitions) if partition is None else partition in known.partitions

    def partitions(self, topic: str) -> tuple[int, ...]:
        """The partitions of a topic; none if it is not known."""
        known = self._topics.get(topic)
        return () if known is None else known.numbers

    def partitions_with_leaders(self, topic: str) -> tuple[int, ...]:
        """Those that can be written to at the moment."""
        known = self._topics.get(topic)
        return () if known is None else known.led

    def refusal(self, topic: str) -> ApiError | None:
        """Why there will never be such a topic: its name, say."""
        error = self.why_unknown(topic)
        return None if error is None or may_pass(error.code) else error

    def why_unknown(self, topic: str) -> ApiError | None:
        """What was last answered in place of a topic's partitions."""
        known = self._topics.get(topic)
        return None if known is None else known.error

    # --- refreshing ------------------------------------------------------------------------------

    def mark_stale(self) -> None:
        """Something that is known may be no longer so."""
        self._is_stale = True

    def doubt(self, partition: TopicPartition) -> None:
        """Its leader failed us: it is not asked again before somebody has said who leads now.

        Else a retry might go to a dead leader while the answer is under way, and wait there long.
        """
        self._doubted.add(partition)

    def keep_fresh(self, partitions: Iterable[TopicPartition] = (), topic: str = "") -> float:
        """Ask aside if something is stale or missing; how soon to come back if nothing rings."""
        is_missing = False
        for partition in partitions:
            self._wanted.setdefault(partition.topic)
            is_missing = is_missing or self.leader(partition) is None
        if topic:
            self._wanted.setdefault(topic)
            is_missing = is_missing or not self.partitions(topic)
        age_ms = self._clock.elapsed_ms() - self._asked_at_ms
        due_ms = self._backoff_ms if self._is_stale or is_missing else self._max_age_ms
        if self._is_refreshing or not self._wanted:
            return self._max_age_ms
        if age_ms < due_ms:
            return due_ms - age_ms
        self._asked_at_ms = self._clock.elapsed_ms()
        self._is_refreshing = True
        self._tasks.start(self._refresh(was_stale=self._is_stale or is_missing))
        self._is_stale = False
        return self._max_age_ms

    def forget(self, topic: str) -> None:
        """Ask about this topic no more: asking may create it."""
        self._wanted.pop(topic, None)
        self._topics.pop(topic, None)

    def forget_others(self, topics: Iterable[str]) -> None:
        """Only these topics are asked about from now on."""
        self._wanted = dict.fromkeys(topics)

    async def _refresh(self, *, was_stale: bool) -> None:
        asked = tuple(sorted(self._wanted))
        doubted = frozenset(self._doubted)
        request = Metadata(topics=asked, allow_auto_topic_creation=self._allow_auto_topic_creation)
        try:
            response = await self._connection.call_any(request, ATTEMPT_MS)
            self._take(asked, response)
            self._doubted -= doubted
            self.failure = None
            if was_stale:
                self._connection.turn()  # what it said may be why we had to ask
        except (ApiError, MalformedMessage) as error:
            self.failure = error
            self._is_stale = True
        finally:
            self._is_refreshing = False
            self._changed.ring()

    def _take(self, asked: tuple[str, ...], response: MetadataResponse) -> None:
        self._connection.learn(node.id for node in response.brokers)
        told = {each.topic: each for each in response.topics}
        for name in asked:
            answer = told.get(name)
            if answer is None:
                raise MalformedMessage(f"Metadata was not answered for topic {name!r}")
            if answer.error_code is not ErrorCode.NONE:
                self._refused(answer)
            else:
                self._described(answer)

    def _refused(self, answer: MetadataTopic) -> None:
        known = self._topics.setdefault(answer.topic, _Topic(None))
        sentence = f"Topic {answer.topic!r}: {answer.error_code.name}"
        known.error = exception_of(answer.error_code)(sentence)
        if isinstance(known.error, UnknownTopicOrPartition):
            known.update({})  # it may come back as another topic

    def _described(self, answer: MetadataTopic) -> None:
        known = self._topics.get(answer.topic)
        if known is None or known.topic_id != answer.topic_id:
            known = self._topics[answer.topic] = _Topic(answer.topic_id)
        known.error = None
        partitions = dict(known.partitions)
        for each in answer.partitions:
            if each.partition < 0:
                raise MalformedMessage(f"topic {answer.topic!r} has no partition {each.partition}")
            before = partitions.get(each.partition)
            if before is None or before.leader_epoch <= each.leader_epoch:
                partitions[each.partition] = each
        known.update(partitions)
