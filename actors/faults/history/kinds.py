"""Anomalies of records, a class each: what no client of a sound cluster sees.

Rule: a kind only reports what no sound run explains. Records with acks=0 or 1 may be lost, one
whose failure is uncertain may be there or not, a retry without idempotence may write twice, and a
reader is asked only about offsets that it has passed.
"""

from collections.abc import Iterator

from actors.faults.history.case import Anomaly, Case, Missing, PartitionCase
from actors.faults.history.events import (
    ALL,
    UNKNOWN_OFFSET,
    Acknowledged,
    AnyEvent,
    EndSeen,
    Sent,
    began_ms,
)
from actors.faults.history.story import SentRecord


class Kind:
    """One kind of anomaly."""

    name = ""

    def judge(self, case: Case) -> Iterator[Anomaly]:
        """All that there are of it."""
        raise NotImplementedError

    def anomaly(self, sentence: str, *events: AnyEvent | None) -> Anomaly:
        """One of them."""
        return Anomaly(self.name, sentence, tuple(each for each in events if each is not None))


def shown(value: str) -> str:
    """A value, not too long."""
    return f"{value!r:.60}"


def named(record: SentRecord) -> str:
    """A record, as people are told of it."""
    return f"record {record.sent.id:.60} ({shown(record.sent.value)})"


class Lost(Kind):
    """Acknowledged with acks=all, or read, and gone: the last who looked did not find it."""

    name = "lost"

    def judge(self, case: Case) -> Iterator[Anomaly]:
        """All that are gone."""
        for each in case.clean:
            for missing in each.missing.values():
                if missing.is_gone:
                    yield self.anomaly(
                        f"{_known(each, missing)} is gone: {_look(missing)}", *_events(missing)
                    )
            yield from self._overwritten(each)
            yield from self._nowhere(each)

    def _overwritten(self, case: PartitionCase) -> Iterator[Anomaly]:
        for offset, record in case.promised.items():
            read = case.story.first_read.get(offset)
            value = record.sent.value
            if read is not None and read.value != value and value not in case.story.places:
                yield self.anomaly(
                    f"{named(record)} was acknowledged at offset {offset} of {case.name} and is "
                    f"gone: {read.client} read {shown(read.value)} there",
                    *record.events,
                    read,
                )

    def _nowhere(self, case: PartitionCase) -> Iterator[Anomaly]:
        """Those acknowledged without an offset: who has read all must have read them."""
        last = max(case.story.whole_ends, key=began_ms, default=None)
        if last is None or case.is_sparse:
            return
        for record in case.story.records:
            acknowledged = record.acknowledged
            if (
                record.sent.acks == ALL
                and acknowledged is not None
                and acknowledged.offset == UNKNOWN_OFFSET
                and acknowledged.at_ms < began_ms(last)
                and record.sent.value not in case.story.places
            ):
                yield self.anomaly(
                    f"{named(record)} was acknowledged in {case.name} and is gone: {last.client} "
                    f"read all to the end, {last.offset}, and did not find it",
                    *record.events,
                    last,
                )


class StaleRead(Kind):
    """Somebody looked for a known record in vain; later it was found."""

    name = "stale read"

    def judge(self, case: Case) -> Iterator[Anomaly]:
        """All reads that came too early."""
        for each in case.clean:
            for missing in each.missing.values():
                if not missing.is_gone:
                    yield self.anomaly(
                        f"{_known(each, missing)} was not there for all: {_look(missing)}",
                        *_events(missing),
                    )


class Duplicated(Kind):
    """There more often than it was sent, although it was sent once by an idempotent producer."""

    name = "duplicated"

    def judge(self, case: Case) -> Iterator[Anomaly]:
        """All values that are there too often."""
        for record in case.story.records.values():
            first, again = record.acknowledged, record.acknowledged_again
            if first is not None and again is not None:
                yield self.anomaly(
                    f"{named(record)} was acknowledged twice: at offset {first.offset}, and at "
                    f"{again.offset}",
                    *record.events,
                )
        for each in case.clean:
            for value, offsets in each.story.places.items():
                if len(offsets) == 1:
                    continue
                senders = [s for s in each.story.senders_of(value) if not s.is_surely_absent]
                is_once = all(s.sent.is_idempotent for s in senders)
                if len(offsets) <= len(senders) or not senders:
                    continue
                if is_once or not case.allowed.are_duplicates_allowed:
                    at = ", ".join(map(str, sorted(offsets)[:10]))
                    yield self.anomaly(
                        f"{shown(value)} was sent {_times(len(senders))} to {each.name} and is "
                        f"there {_times(len(offsets))}: at offsets {at}",
                        *(s.sent for s in senders),
                        *(each.story.read_at(offset, value) for offset in offsets),
                    )


class Reordered(Kind):
    """Sent after another of the same client was acknowledged, and yet before it in the log."""

    name = "reordered"

    def judge(self, case: Case) -> Iterator[Anomaly]:
        """All that overtook another."""
        stories = {each.story.partition: each for each in case.partitions}
        places = {
            record.sent.id: _place(each, record)
            for each in stories.values()
            if not each.is_unclean
            for record in each.story.records
        }
        highest: dict[tuple[str, str, int], tuple[int, SentRecord]] = {}  # acknowledged so far
        below: dict[str, tuple[int, SentRecord]] = {}  # what a record must come after
        for event in case.story.timeline:
            if not isinstance(event, Sent | Acknowledged):
                continue
            place = places.get(event.id)
            if place is None:
                continue
            record = case.story.records[event.id]
            key = (record.sent.client, record.sent.topic, record.partition)
            if isinstance(event, Sent):
                if key in highest:
                    below[event.id] = highest[key]
            elif record.sent.acks == ALL and (key not in highest or place > highest[key][0]):
                highest[key] = (place, record)
        for id_, (before, first) in below.items():
            record, place = case.story.records[id_], places[id_]
            if place is not None and place < before:
                yield self.anomaly(
                    f"{named(record)} was sent after {named(first)} was acknowledged, and is "
                    f"before it in {record.sent.topic}-{record.partition}: at offset {place}, "
                    f"and not after {before}",
                    *first.events,
                    *record.events,
                )


class Phantom(Kind):
    """Read, and never sent."""

    name = "phantom"

    def judge(self, case: Case) -> Iterator[Anomaly]:
        """All that came from nowhere."""
        for each in case.partitions:
            for value, offsets in each.story.places.items():
                senders = each.story.senders_of(value)
                if any(not s.is_surely_absent for s in senders):
                    continue
                why = "and its sending had failed for certain" if senders else "and nobody sent it"
                for offset in offsets:
                    read = each.story.read_at(offset, value)
                    assert read is not None
                    yield self.anomaly(
                        f"{read.client} read {shown(value)} at offset {offset} of {each.name}, "
                        f"{why} there",
                        read,
                        *(event for s in senders[:1] for event in s.events),
                    )


class OffsetsDisagree(Kind):
    """One offset and two records, or one record and two offsets."""

    name = "offsets disagree"

    def judge(self, case: Case) -> Iterator[Anomaly]:
        """All offsets that are told in two ways."""
        for each in case.clean:
            yield from self._of_reads(each)
            yield from self._of_acknowledgements(each)
            for offset, record in each.promised.items():
                if self._is_elsewhere(each, offset, record, case.allowed.are_duplicates_allowed):
                    value = record.sent.value
                    at = each.story.places[value][0]
                    yield self.anomaly(
                        f"{named(record)} was acknowledged at offset {offset} of {each.name} and "
                        f"read at {at}",
                        *record.events,
                        each.story.first_read.get(offset),
                        each.story.read_at(at, value),
                    )

    def _of_reads(self, case: PartitionCase) -> Iterator[Anomaly]:
        for offset, others in case.story.read_otherwise.items():
            first = case.story.first_read[offset]
            for other in others.values():
                yield self.anomaly(
                    f"offset {offset} of {case.name} was read as {shown(first.value)} by "
                    f"{first.client} and as {shown(other.value)} by {other.client}",
                    first,
                    other,
                )

    def _of_acknowledgements(self, case: PartitionCase) -> Iterator[Anomaly]:
        for record in case.story.records:
            first = case.promised.get(record.offset)
            if record.sent.acks == ALL and first is not None and first is not record:
                yield self.anomaly(
                    f"{named(first)} and {named(record)} were both acknowledged at offset "
                    f"{record.offset} of {case.name}",
                    *first.events,
                    *record.events,
                )

    def _is_elsewhere(
        self, case: PartitionCase, offset: int, record: SentRecord, are_duplicates_allowed: bool
    ) -> bool:
        value, story = record.sent.value, case.story
        if value not in story.places or story.read_at(offset, value) is not None:
            return False
        if offset in story.first_read:
            return True
        # Nobody looked there. What was read elsewhere is a copy, if there may be any.
        is_once = record.sent.is_idempotent or not are_duplicates_allowed
        return is_once and len(story.senders_of(value)) == 1 and offset not in case.missing


class Gap(Kind):
    """A reader was led over offsets of which nobody knows anything."""

    name = "gap"

    def judge(self, case: Case) -> Iterator[Anomaly]:
        """All holes, each once."""
        for each in case.partitions:
            told: set[tuple[int, int]] = set()
            for miss in () if each.is_sparse else each.story.misses:
                hole = (miss.first, miss.after)
                if hole not in told and each.unknown_within(miss):
                    told.add(hole)
                    yield self.anomaly(
                        f"{miss.event.client} came from offset {miss.first} of {each.name} to "
                        f"{miss.after}, and nobody knows what is between",
                        miss.event,
                    )


class ReadAgain(Kind):
    """A reader that says when it moves was given something again without having moved."""

    name = "read again"

    def judge(self, case: Case) -> Iterator[Anomaly]:
        """All records that came again."""
        for each in case.clean:
            for event in each.story.read_again:
                yield self.anomaly(
                    f"{event.client} was given offset {event.offset} of {each.name} again, and "
                    "had not asked for it",
                    event,
                )


def _place(case: PartitionCase, record: SentRecord) -> int | None:
    """Where a record is, as far as anybody knows."""
    if record.offset != UNKNOWN_OFFSET:
        return record.offset
    if len(case.story.senders_of(record.sent.value)) > 1:
        return None  # which of them was read is not to be seen
    return min(case.story.places.get(record.sent.value, ()), default=None)


def _known(case: PartitionCase, missing: Missing) -> str:
    if missing.record is not None:
        return (
            f"{named(missing.record)} was acknowledged at offset {missing.offset} of {case.name} "
            "and"
        )
    assert missing.read is not None
    return (
        f"{shown(missing.read.value)} was read at offset {missing.offset} of {case.name} by "
        f"{missing.read.client} and"
    )


def _look(missing: Missing) -> str:
    look = missing.look
    if isinstance(look, EndSeen):
        return f"{look.client} came to the end at {look.offset}"
    return f"{look.event.client} came from offset {look.first} to {look.after}"


def _events(missing: Missing) -> tuple[AnyEvent | None, ...]:
    record = () if missing.record is None else missing.record.events
    return (*record, missing.read, missing.look_event)


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")
