"""Commits that were forgotten.

Rule: whoever asks for a group's offset is told the last one that was acknowledged before, or one
that was on its way meanwhile. A commit that nobody acknowledged may take effect at any time, or
never. A higher offset than any known is no anomaly: somebody whose history is not here may commit.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import accumulate
from math import inf

from actors.faults.history.case import Anomaly, Case
from actors.faults.history.events import NOTHING_COMMITTED, Committed, began_ms
from actors.faults.history.kinds import Kind
from actors.faults.history.story import CommitStory

OFFSETS_TOPIC = "__consumer_offsets"


class CommitLost(Kind):
    """An offset was read back that is lower than what had been committed before."""

    name = "commit lost"

    def judge(self, case: Case) -> Iterator[Anomaly]:
        """All that were forgotten."""
        if any(each.topic == OFFSETS_TOPIC for each in case.allowed.unclean):
            return
        for each in case.story.commits:
            yield from self._of_group(each)

    def _of_group(self, story: CommitStory) -> Iterator[Anomaly]:
        commits = _Commits(story.commits)
        for seen in story.seen:
            last = commits.last_before(began_ms(seen))
            if last is None or seen.offset >= last.offset:
                continue
            if not commits.explain(seen.offset, seen.at_ms, began_ms(last)):
                what = "nothing" if seen.offset == NOTHING_COMMITTED else f"offset {seen.offset}"
                yield self.anomaly(
                    f"group {story.group} had committed offset {last.offset} of "
                    f"{story.partition}, and {seen.client} then read back {what}",
                    last,
                    seen,
                )


class _Commits:
    """The commits of a group and partition, to be asked about a moment."""

    def __init__(self, commits: list[Committed]) -> None:
        ended = [each for each in commits if each.is_acknowledged]  # in the order of their ends
        self._ends = [each.at_ms for each in ended]
        # Of those that have ended: the one that began last. All that ended before it are replaced.
        self._last: list[Committed] = list(accumulate(ended, _later))
        by_offset: dict[int, list[tuple[float, float]]] = {}
        for each in commits:
            end = each.at_ms if each.is_acknowledged else inf
            by_offset.setdefault(each.offset, []).append((began_ms(each), end))
        self._begins: dict[int, list[float]] = {}
        self._latest_ends: dict[int, list[float]] = {}
        for offset, spans in by_offset.items():
            spans.sort()
            self._begins[offset] = [begin for begin, _ in spans]
            self._latest_ends[offset] = list(accumulate((end for _, end in spans), max))

    def last_before(self, moment_ms: float) -> Committed | None:
        """The last that was acknowledged before."""
        count = bisect_left(self._ends, moment_ms)
        return self._last[count - 1] if count else None

    def explain(self, offset: int, seen_ms: float, replaced_ms: float) -> bool:
        """Whether a commit of this offset could be seen: begun by then, and not replaced."""
        begins = self._begins.get(offset, [])  # at the same moment counts as before
        count = bisect_right(begins, seen_ms)
        return count > 0 and self._latest_ends[offset][count - 1] >= replaced_ms


def _later(one: Committed, other: Committed) -> Committed:
    """The one that began later."""
    return one if began_ms(one) > began_ms(other) else other
