"""What kinds of anomaly are judged by: the story, what is allowed, and what was looked for in vain.

Rule: a record is known from the moment that it is acknowledged with acks=all, or read. Whoever
looks later must find it. A reader that jumps over an offset has looked there; one that comes to the
end has looked at all that follows, if the record was known before it asked where the end is.
"""

import heapq
from bisect import bisect_left
from collections.abc import Iterator
from functools import cached_property

from msgspec import Struct

from actors.faults.history.events import ALL, AnyEvent, EndSeen, Polled, began_ms
from actors.faults.history.story import Miss, PartitionStory, SentRecord, Story
from wire.ids import TopicPartition


class Allowed(Struct, frozen=True):
    """What a cluster may do and still be sound."""

    unclean: frozenset[TopicPartition] = frozenset()  # an unclean election may forget anything
    sparse: frozenset[TopicPartition] = frozenset()  # compaction or transactions leave holes
    are_duplicates_allowed: bool = True  # a retry without idempotence may write twice


class Anomaly(Struct, frozen=True):
    """Something that no sound cluster shows its clients."""

    kind: str
    sentence: str
    events: tuple[AnyEvent, ...]  # that show it


class Missing(Struct, frozen=True):
    """A known record that somebody looked for and did not find."""

    offset: int
    record: SentRecord | None  # if it was acknowledged
    read: Polled | None  # if anybody ever read it
    look: Miss | EndSeen  # the last that did not find it
    is_gone: bool  # nobody has found it since

    @property
    def look_event(self) -> Polled | EndSeen:
        """The event that shows that it was not there."""
        return self.look.event if isinstance(self.look, Miss) else self.look


class PartitionCase:
    """One partition, to be judged."""

    def __init__(self, story: PartitionStory, allowed: Allowed) -> None:
        self.story = story
        self.name = str(story.partition)
        self.is_unclean = story.partition in allowed.unclean
        self.is_sparse = story.partition in allowed.sparse

    @cached_property
    def promised(self) -> dict[int, SentRecord]:
        """The records that were acknowledged with acks=all, by their offsets."""
        found: dict[int, SentRecord] = {}
        for each in self.story.records:
            if each.sent.acks == ALL and each.offset >= 0:
                found.setdefault(each.offset, each)
        return found

    @cached_property
    def known_offsets(self) -> list[int]:
        """All that are known, sorted."""
        return sorted(self.promised.keys() | self.story.first_read.keys())

    def unknown_within(self, miss: Miss) -> int:
        """Of how many of its offsets nobody knows anything."""
        known = self.known_offsets
        count = bisect_left(known, miss.after) - bisect_left(known, miss.first)
        return miss.after - miss.first - count

    @cached_property
    def missing(self) -> dict[int, Missing]:
        """All that was looked for in vain, by offset."""
        misses = [] if self.is_sparse else self.story.misses
        if not misses and not self.story.ends:
            return {}
        offsets = self.known_offsets
        looks = zip(
            offsets,
            _last_miss_over(offsets, misses),
            _last_end_before(offsets, self.story.ends),
            strict=True,
        )
        return {
            offset: found
            for offset, miss, end in looks
            if (miss is not None or end is not None)
            and (found := self._missing(offset, miss, end)) is not None
        }

    def _missing(self, offset: int, miss: Miss | None, end: EndSeen | None) -> Missing | None:
        record, read = self.promised.get(offset), self.story.first_read.get(offset)
        known_ms = [] if read is None else [read.at_ms]
        if record is not None and record.acknowledged is not None:
            known_ms.append(record.acknowledged.at_ms)
        looks: list[tuple[float, Miss | EndSeen]] = []
        if miss is not None:  # whenever it was known: what follows it was there already
            looks.append((miss.event.at_ms, miss))
        if end is not None and min(known_ms) < began_ms(end):
            looks.append((began_ms(end), end))
        if not looks:
            return None
        looked_ms, look = max(looks, key=lambda each: each[0])
        is_gone = read is None or self.story.last_read[offset].at_ms < looked_ms
        return Missing(offset, record, read, look, is_gone)


class Case:
    """A whole history, to be judged."""

    def __init__(self, story: Story, allowed: Allowed) -> None:
        self.story = story
        self.allowed = allowed
        self.partitions = [PartitionCase(each, allowed) for each in story.partitions]

    @property
    def clean(self) -> Iterator[PartitionCase]:
        """Those that had no unclean election."""
        return (each for each in self.partitions if not each.is_unclean)


def _last_miss_over(offsets: list[int], misses: list[Miss]) -> Iterator[Miss | None]:
    """For each offset, in order: the last miss that went over it."""
    waiting = sorted(misses, key=lambda each: each.first, reverse=True)
    over: list[tuple[float, int, Miss]] = []  # the latest on top
    for offset in offsets:
        while waiting and waiting[-1].first <= offset:
            miss = waiting.pop()
            heapq.heappush(over, (-miss.event.at_ms, len(waiting), miss))
        while over and over[0][2].after <= offset:
            heapq.heappop(over)
        yield over[0][2] if over else None


def _last_end_before(offsets: list[int], ends: list[EndSeen]) -> Iterator[EndSeen | None]:
    """For each offset, in order: the last end that was seen at or before it."""
    waiting = sorted(ends, key=lambda each: each.offset, reverse=True)
    last: EndSeen | None = None
    for offset in offsets:
        while waiting and waiting[-1].offset <= offset:
            end = waiting.pop()
            if last is None or began_ms(end) > began_ms(last):
                last = end
        yield last
