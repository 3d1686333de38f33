"""A history, sorted by partition: who wrote what, who looked where, and what they saw.

Rule: one pass over the events in the order of their times, and a constant amount of work for each.
Nothing is judged here. What a reader jumped over, or did not find before an end, is a Miss.
"""

from collections.abc import Iterable, Iterator

from msgspec import Struct

from actors.faults.history.events import (
    UNKNOWN_OFFSET,
    UNKNOWN_PARTITION,
    Acknowledged,
    AnyEvent,
    Committed,
    CommittedSeen,
    EndSeen,
    Failed,
    Polled,
    Positioned,
    Sent,
)
from actors.faults.history.files import BadHistory
from wire.ids import TopicPartition


class SentRecord:
    """A record that was handed over, and what became of it."""

    __slots__ = ("acknowledged", "acknowledged_again", "failed", "sent")

    def __init__(self, sent: Sent) -> None:
        self.sent = sent
        self.failed: Failed | None = None
        self.acknowledged: Acknowledged | None = None
        self.acknowledged_again: Acknowledged | None = None  # with another offset

    @property
    def offset(self) -> int:
        """Where the cluster said that it is."""
        return UNKNOWN_OFFSET if self.acknowledged is None else self.acknowledged.offset

    @property
    def is_surely_absent(self) -> bool:
        """Whether no log has it."""
        return self.acknowledged is None and self.failed is not None and self.failed.is_certain

    @property
    def events(self) -> tuple[AnyEvent, ...]:
        """All that is known of it."""
        known = (self.sent, self.acknowledged, self.acknowledged_again, self.failed)
        return tuple(each for each in known if each is not None)

    @property
    def partition(self) -> int:
        """Where it went, or UNKNOWN_PARTITION."""
        if self.sent.partition != UNKNOWN_PARTITION or self.acknowledged is None:
            return self.sent.partition
        return self.acknowledged.partition


class Miss(Struct, frozen=True):
    """A reader went over these offsets and was given nothing."""

    first: int
    after: int
    event: Polled | EndSeen  # where it was when it had passed them


class Reader:
    """How far a client has read a partition."""

    __slots__ = ("is_exact", "is_whole", "position")

    def __init__(self) -> None:
        self.position: int | None = None
        self.is_exact = False  # it says when it moves: then it must not go back otherwise
        self.is_whole = False  # all before its position has been passed


class PartitionStory:
    """All that clients did to one partition."""

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.records: list[SentRecord] = []
        self.by_value: dict[str, list[SentRecord]] = {}
        self.first_read: dict[int, Polled] = {}
        self.last_read: dict[int, Polled] = {}
        self.read_otherwise: dict[int, dict[str, Polled]] = {}  # other values at an offset
        self.places: dict[str, list[int]] = {}  # where a value was read
        self.misses: list[Miss] = []
        self.ends: list[EndSeen] = []
        self.whole_ends: list[EndSeen] = []  # of readers that had begun at offset 0
        self.read_again: list[Polled] = []
        self._readers: dict[str, Reader] = {}

    def senders_of(self, value: str) -> list[SentRecord]:
        """Who may have written this value here."""
        return self.by_value.get(value, [])

    def read_at(self, offset: int, value: str) -> Polled | None:
        """Whoever was given this value at this offset."""
        first = self.first_read.get(offset)
        if first is None or first.value == value:
            return first
        return self.read_otherwise.get(offset, {}).get(value)

    def on_positioned(self, event: Positioned) -> None:
        """A reader moves."""
        reader = self._reader(event.client)
        is_within = reader.position is not None and event.offset <= reader.position
        reader.is_whole = event.offset == 0 or (reader.is_whole and is_within)
        reader.position = event.offset
        reader.is_exact = True

    def on_polled(self, event: Polled) -> None:
        """A reader was given a record."""
        reader, offset, value = self._reader(event.client), event.offset, event.value
        if reader.position is None:
            reader.is_whole = offset == 0
        elif offset > reader.position:
            self.misses.append(Miss(reader.position, offset, event))
        elif offset < reader.position and reader.is_exact:
            self.read_again.append(event)
        reader.position = offset + 1
        first = self.first_read.setdefault(offset, event)
        self.last_read[offset] = event
        if first is event:
            self.places.setdefault(value, []).append(offset)
        elif first.value != value:
            others = self.read_otherwise.setdefault(offset, {})
            if others.setdefault(value, event) is event:
                self.places.setdefault(value, []).append(offset)

    def on_end_seen(self, event: EndSeen) -> None:
        """A reader came to the end."""
        reader = self._reader(event.client)
        if reader.position is None:
            reader.position = event.offset
            reader.is_whole = event.offset == 0
        elif event.offset > reader.position:
            self.misses.append(Miss(reader.position, event.offset, event))
            reader.position = event.offset
        self.ends.append(event)
        if reader.is_whole:
            self.whole_ends.append(event)

    def _reader(self, client: str) -> Reader:
        reader = self._readers.get(client)
        if reader is None:
            reader = self._readers[client] = Reader()
        return reader


class CommitStory:
    """What a group committed of one partition, and what was read back."""

    def __init__(self, group: str, partition: TopicPartition) -> None:
        self.group = group
        self.partition = partition
        self.commits: list[Committed] = []
        self.seen: list[CommittedSeen] = []


class Story:
    """A whole history."""

    def __init__(self, events: Iterable[AnyEvent]) -> None:
        self.records: dict[str, SentRecord] = {}
        self.timeline: list[AnyEvent] = sorted(events, key=lambda each: each.at_ms)
        self._partitions: dict[tuple[str, int], PartitionStory] = {}
        self._commits: dict[tuple[str, str, int], CommitStory] = {}
        for event in self.timeline:
            if (
                isinstance(event, Sent)
                and self.records.setdefault(event.id, SentRecord(event)).sent is not event
            ):
                raise BadHistory(f"id {event.id!r:.80} was sent twice; each record needs its own")
        for event in self.timeline:
            self._take(event)
        self._give_records_to_partitions()

    @property
    def partitions(self) -> Iterator[PartitionStory]:
        """Those that somebody wrote or read, sorted."""
        return (self._partitions[key] for key in sorted(self._partitions))

    @property
    def commits(self) -> Iterator[CommitStory]:
        """What groups committed, sorted."""
        return (self._commits[key] for key in sorted(self._commits))

    def _take(self, event: AnyEvent) -> None:
        match event:
            case Polled():
                self._partition(event.topic, event.partition).on_polled(event)
            case Acknowledged():
                self._on_acknowledged(event)
            case Failed():
                self._record(event).failed = event
            case Positioned():
                self._partition(event.topic, event.partition).on_positioned(event)
            case EndSeen():
                self._partition(event.topic, event.partition).on_end_seen(event)
            case Committed():
                self._commit(event).commits.append(event)
            case CommittedSeen():
                self._commit(event).seen.append(event)

    def _on_acknowledged(self, event: Acknowledged) -> None:
        record = self._record(event)
        if record.acknowledged is None:
            record.acknowledged = event
        elif event.offset not in (record.acknowledged.offset, UNKNOWN_OFFSET):
            record.acknowledged_again = event

    def _record(self, event: Acknowledged | Failed) -> SentRecord:
        record = self.records.get(event.id)
        if record is None:
            raise BadHistory(f"id {event.id!r:.80} was answered and never sent")
        return record

    def _partition(self, topic: str, partition: int) -> PartitionStory:
        story = self._partitions.get((topic, partition))
        if story is None:
            story = PartitionStory(TopicPartition(topic, partition))
            self._partitions[topic, partition] = story
        return story

    def _commit(self, event: Committed | CommittedSeen) -> CommitStory:
        key = (event.group, event.topic, event.partition)
        story = self._commits.get(key)
        if story is None:
            partition = TopicPartition(event.topic, event.partition)
            story = self._commits[key] = CommitStory(event.group, partition)
        return story

    def _give_records_to_partitions(self) -> None:
        """Each to its own; one whose partition nobody knows may be in any of its topic."""
        homeless: dict[str, dict[str, list[SentRecord]]] = {}
        for record in self.records.values():
            sent, partition = record.sent, record.partition
            if partition == UNKNOWN_PARTITION:
                homeless.setdefault(sent.topic, {}).setdefault(sent.value, []).append(record)
                continue
            story = self._partition(sent.topic, partition)
            story.records.append(record)
            story.by_value.setdefault(sent.value, []).append(record)
        for topic, by_value in homeless.items():
            for story in self._partitions.values():
                if story.partition.topic == topic:
                    _lend(story, by_value)


def _lend(story: PartitionStory, by_value: dict[str, list[SentRecord]]) -> None:
    """Whatever was read here may have been sent without a partition."""
    for value in story.places:
        if (records := by_value.get(value)) is not None:
            own = story.by_value.get(value)
            story.by_value[value] = records if own is None else own + records
