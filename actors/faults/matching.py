"""Logs of one partition agree with each other, and each with itself.

Rule: batches are compared as they are stored: followers keep the leader's bytes. Two logs are
compared from where they agreed at the last look; one that was cut is compared anew. Compacted logs
are left out: what is gone from one of them may still be in another. So are logs of two topics: a
broker that had no session when one was deleted and made anew holds the former.
"""

from collections.abc import Collection, Sequence
from itertools import combinations
from typing import NamedTuple

from actors.broker.log.epochs import EpochEntry
from actors.faults.invariant import Invariant
from actors.faults.sight import Batch, Seen, Sight
from actors.faults.violation import Violation
from wire.ids import BrokerId, Offset, TopicPartition

Pair = tuple[TopicPartition, BrokerId, BrokerId]


class _Agreed(NamedTuple):
    """Two logs, and how many of their batches are known to be the same."""

    one: Seen
    one_cuts: int
    other: Seen
    other_cuts: int
    compared: int


class LogsMatch(Invariant):
    """I-8: the same below both high watermarks, and the same before any common record."""

    name = "I-8"

    def __init__(self, voided: Collection[TopicPartition] = ()) -> None:
        self._voided = voided  # where what was committed may be gone, and replaced
        self._agreed: dict[Pair, _Agreed] = {}

    def check(self, changed: Sequence[Seen], sight: Sight) -> None:
        """Compare those that have changed with the other replicas."""
        if not changed:
            return
        for partition in dict.fromkeys(seen.partition for seen in changed):
            for one, other in combinations(sight.of(partition), 2):
                is_due = one in changed or other in changed
                if is_due and not _is_compacted(one) and not one.is_of_namesake(other):
                    self._compare(one, other)

    def _compare(self, one: Seen, other: Seen) -> None:
        pair = (one.partition, one.broker, other.broker)
        known = self._agreed.get(pair)
        is_same = known is not None and known[:4] == (one, one.cuts, other, other.cuts)
        count = known.compared if known is not None and is_same else 0
        first, second = _aligned(one, other)
        while count < min(len(first), len(second)) and first[count] == second[count]:
            count += 1
        self._agreed[pair] = _Agreed(one, one.cuts, other, other.cuts, count)
        if count < min(len(first), len(second)):
            self._judge(one, other, first[count:], second[count:])

    def _judge(self, one: Seen, other: Seen, first: list[Batch], second: list[Batch]) -> None:
        """They part here."""
        at = min(first[0].base_offset, second[0].base_offset)
        committed = min(one.high_watermark, other.high_watermark)
        if at < committed and one.partition not in self._voided:
            raise Violation(
                self.name,
                f"{first[0]} and {second[0]}, below both high watermarks "
                f"{one.high_watermark} and {other.high_watermark}",
                partition=one.partition,
                brokers=(one.broker, other.broker),
                offsets=(at,),
            )
        theirs = {(batch.last_offset, batch.epoch) for batch in second}
        for batch in first:
            if (batch.last_offset, batch.epoch) in theirs:
                raise Violation(
                    self.name,
                    f"both have offset {batch.last_offset} of epoch {batch.epoch}, and differ "
                    f"before or there: {first[0]} and {second[0]}",
                    partition=one.partition,
                    brokers=(one.broker, other.broker),
                    offsets=(at, batch.last_offset),
                )


def _aligned(one: Seen, other: Seen) -> tuple[list[Batch], list[Batch]]:
    """Both from the first offset that both still have."""
    start = max(one.start, other.start)
    if start == 0:
        return one.batches, other.batches
    return (
        [batch for batch in one.batches if batch.last_offset >= start],
        [batch for batch in other.batches if batch.last_offset >= start],
    )


def _is_compacted(seen: Seen) -> bool:
    return seen.log is not None and seen.log.config.is_compacted


class LogsAreContiguous(Invariant):
    """I-22: no gaps, epochs never fall, and the epoch cache says what the log says."""

    name = "I-22"

    def check(self, changed: Sequence[Seen], sight: Sight) -> None:
        """Judge each log by itself."""
        del sight
        for seen in changed:
            if seen.log is not None and not _is_compacted(seen):
                self._judge(seen)

    def _judge(self, seen: Seen) -> None:
        assert seen.log is not None
        expected: list[EpochEntry] = []
        before: Batch | None = None
        for batch in seen.batches:
            if before is not None and batch.base_offset != before.last_offset + 1:
                raise self._violation(seen, f"{batch} follows {before}", batch.base_offset)
            if before is not None and batch.epoch < before.epoch:
                raise self._violation(seen, f"{batch} follows {before}", batch.base_offset)
            if (before is None or batch.epoch > before.epoch) and batch.epoch >= 0:
                start = Offset(max(batch.base_offset, seen.start))
                expected.append(EpochEntry(batch.epoch, start))
            before = batch
        entries = seen.log.epochs.entries
        # The leader's own entry: it has begun an epoch and appended nothing yet.
        written = [entry for entry in entries if entry.start_offset < seen.end]
        if written != expected or any(entry.start_offset > seen.end for entry in entries):
            why = f"the epoch cache is {entries}, and the log says {expected}"
            raise self._violation(seen, why, seen.end)

    def _violation(self, seen: Seen, what: str, offset: Offset) -> Violation:
        return Violation(
            self.name, what, partition=seen.partition, brokers=(seen.broker,), offsets=(offset,)
        )
