"""The leader epoch cache follows from the log (B150, B151, I-22)."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.broker.log.checkpoints import LEADER_EPOCHS, MalformedCheckpoint
from actors.broker.log.epochs import EpochEntry, LeaderEpochCache, load_epochs, save_epochs
from runtime.simulation.disk import SimulatedDisk
from tests.wire.strategies import fixed

UNDEFINED = (-1, -1)


def cache_of(*entries: tuple[int, int]) -> LeaderEpochCache:
    return LeaderEpochCache(EpochEntry(*entry) for entry in entries)


class TestAssign:  # B151
    def test_the_first_entry_is_taken(self):
        cache = cache_of()

        assert cache.assign(0, 0) is True
        assert cache.entries == ((0, 0),)

    def test_a_later_epoch_at_a_later_offset_is_added(self):
        cache = cache_of((1, 10))

        assert cache.assign(3, 20) is True
        assert cache.entries == ((1, 10), (3, 20))

    @pytest.mark.parametrize("offset", [10, 11, 99])
    def test_the_same_epoch_at_the_same_or_a_larger_offset_is_ignored(self, offset):
        cache = cache_of((1, 10))

        assert cache.assign(1, offset) is False
        assert cache.entries == ((1, 10),)

    def test_the_same_epoch_at_a_smaller_offset_takes_its_place(self):
        cache = cache_of((1, 10), (2, 20))

        assert cache.assign(2, 15) is True
        assert cache.entries == ((1, 10), (2, 15))

    def test_newer_entries_with_a_larger_or_equal_epoch_go(self):
        cache = cache_of((1, 10), (3, 20), (5, 30))

        assert cache.assign(3, 40) is True
        assert cache.entries == ((1, 10), (3, 40))

    def test_newer_entries_with_a_larger_or_equal_start_go(self):
        cache = cache_of((1, 10), (2, 20), (3, 30))

        assert cache.assign(4, 20) is True
        assert cache.entries == ((1, 10), (4, 20))

    @pytest.mark.parametrize(("epoch", "offset"), [(-1, 0), (0, -1)])
    def test_what_is_undefined_is_never_assigned(self, epoch, offset):
        with pytest.raises(AssertionError):
            cache_of().assign(epoch, offset)


class TestEndOffset:  # B150
    @pytest.mark.parametrize(
        ("requested", "answer"),
        [
            (-1, UNDEFINED),
            (0, (0, 10)),  # below the first: the first one's start
            (1, (0 + 1, 10)),
            (2, (2, 20)),
            (3, (2, 20)),  # between: the largest below it
            (4, (4, 30)),
            (7, (7, 99)),  # the latest: the log's end
            (8, UNDEFINED),
        ],
    )
    def test_an_epoch_ends_where_the_next_one_begins(self, requested, answer):
        cache = cache_of((2, 10), (4, 20), (7, 30))

        assert cache.end_offset_for(requested, 99) == answer

    @pytest.mark.parametrize("requested", [-1, 0, 5])
    def test_an_empty_cache_knows_nothing(self, requested):
        assert cache_of().end_offset_for(requested, 99) == UNDEFINED
        assert cache_of().latest_epoch == -1

    def test_an_offset_belongs_to_the_last_epoch_that_began_before_it(self):
        cache = cache_of((2, 10), (4, 20))

        assert [cache.epoch_for(offset) for offset in (9, 10, 19, 20, 1000)] == [-1, 2, 2, 4, 4]


class TestTruncate:  # B151
    @pytest.mark.parametrize(
        ("end", "left"),
        [
            (31, ((2, 10), (4, 20), (7, 30))),
            (30, ((2, 10), (4, 20))),
            (21, ((2, 10), (4, 20))),
            (10, ()),
            (0, ()),
        ],
    )
    def test_from_the_end_drops_starts_at_or_after_the_offset(self, end, left):
        cache = cache_of((2, 10), (4, 20), (7, 30))

        cache.truncate_from_end(end)

        assert cache.entries == left

    @pytest.mark.parametrize(
        ("start", "left"),
        [
            (0, ((2, 10), (4, 20), (7, 30))),
            (10, ((2, 10), (4, 20), (7, 30))),
            (15, ((2, 15), (4, 20), (7, 30))),
            (20, ((4, 20), (7, 30))),
            (29, ((4, 29), (7, 30))),
            (99, ((7, 99),)),
        ],
    )
    def test_from_the_start_keeps_the_last_entry_below_moved_to_the_offset(self, start, left):
        cache = cache_of((2, 10), (4, 20), (7, 30))

        cache.truncate_from_start(start)

        assert cache.entries == left


class ModelLog:
    """A log as a list of epochs, one a record, with the epoch of a leader yet to append."""

    def __init__(self) -> None:
        self.epochs: list[int] = []  # by offset; those before the start are gone
        self.start = 0
        self.pending: int | None = None
        self.cache = LeaderEpochCache()

    @property
    def end(self) -> int:
        return len(self.epochs)

    @property
    def latest(self) -> int:
        known = [*self.epochs[self.start :], -1 if self.pending is None else self.pending]
        return max(known)

    def append(self, skipped: int, count: int) -> None:
        epoch = max(0, self.latest + skipped)
        self.cache.assign(epoch, self.end)
        self.epochs += [epoch] * count
        self.pending = None

    def lead(self, skipped: int, _: int) -> None:
        epoch = max(0, self.latest + skipped)
        self.cache.assign(epoch, self.end)
        if self.start == self.end or epoch != self.epochs[-1]:
            self.pending = epoch

    def truncate(self, back: int, _: int) -> None:
        end = max(self.start, self.end - back)
        if end < self.end:
            self.cache.truncate_from_end(end)
            del self.epochs[end:]
            self.pending = None

    def delete(self, on: int, _: int) -> None:
        start = min(self.end, self.start + on)
        if start == self.end and self.latest >= 0:
            self.pending = self.latest
        self.cache.truncate_from_start(start)
        self.start = start

    def function(self) -> list[tuple[int, int]]:
        """What the cache must be."""
        entries: list[tuple[int, int]] = []
        for offset in range(self.start, self.end):
            if not entries or entries[-1][0] != self.epochs[offset]:
                entries.append((self.epochs[offset], offset))
        return entries if self.pending is None else [*entries, (self.pending, self.end)]


STEPS = st.lists(
    st.tuples(
        st.sampled_from([ModelLog.append, ModelLog.lead, ModelLog.truncate, ModelLog.delete]),
        st.integers(0, 5),
        st.integers(1, 4),
    ),
    max_size=30,
)


@fixed(300)
@given(STEPS)
def test_the_cache_is_a_function_of_the_log(steps):
    log = ModelLog()
    for step, size, count in steps:
        step(log, size, count)

        assert list(log.cache.entries) == log.function()


@fixed(300)
@given(STEPS)
def test_every_answer_is_what_a_look_at_the_log_would_say(steps):
    log = ModelLog()
    for step, size, count in steps:
        step(log, size, count)

    for offset in range(log.start, log.end):
        assert log.cache.epoch_for(offset) == log.epochs[offset]
    for epoch in set(log.epochs[log.start :]):
        above = [at for at in range(log.start, log.end) if log.epochs[at] > epoch]
        assert log.cache.end_offset_for(epoch, log.end) == (epoch, min(above, default=log.end))
    assert log.cache.latest_epoch == log.latest


@fixed(300)
@given(STEPS)
def test_a_saved_cache_is_loaded_as_it_was(steps):
    log = ModelLog()
    for step, size, count in steps:
        step(log, size, count)

    loaded = LeaderEpochCache.decode(log.cache.encode(), LEADER_EPOCHS)

    assert loaded.entries == log.cache.entries
    assert not loaded.is_dirty


class TestFile:
    async def test_it_is_kafkas(self):
        disk = SimulatedDisk(Random(1))

        await save_epochs(cache_of((2, 10), (4, 20)), disk, LEADER_EPOCHS)

        assert disk.open(LEADER_EPOCHS).read_at(0, 99) == b"0\n2\n2 10\n4 20\n"

    async def test_no_file_is_an_empty_cache(self):
        cache = load_epochs(SimulatedDisk(Random(1)), LEADER_EPOCHS)

        assert cache.entries == ()
        assert not cache.is_dirty

    async def test_a_cache_is_dirty_until_what_it_is_now_was_saved(self):
        disk, cache = SimulatedDisk(Random(1)), cache_of()
        cache.assign(0, 0)
        older = cache.entries
        cache.assign(1, 5)

        cache.mark_written(older)
        assert cache.is_dirty

        await save_epochs(cache, disk, LEADER_EPOCHS)
        assert not cache.is_dirty
        assert load_epochs(disk, LEADER_EPOCHS).entries == cache.entries

    @pytest.mark.parametrize(
        "change",
        [
            lambda cache: cache.assign(9, 90),
            lambda cache: cache.truncate_from_end(20),
            lambda cache: cache.truncate_from_start(11),
            lambda cache: cache.clear(),
        ],
    )
    def test_every_change_makes_it_dirty(self, change):
        cache = LeaderEpochCache.decode(b"0\n2\n2 10\n4 20\n", LEADER_EPOCHS)

        change(cache)

        assert cache.is_dirty

    @pytest.mark.parametrize(
        "change",
        [
            lambda cache: cache.assign(4, 25),
            lambda cache: cache.truncate_from_end(21),
            lambda cache: cache.truncate_from_start(10),
            lambda cache: cache.truncate_from_start(3),
        ],
    )
    def test_no_change_leaves_it_clean(self, change):
        cache = LeaderEpochCache.decode(b"0\n2\n2 10\n4 20\n", LEADER_EPOCHS)

        change(cache)

        assert not cache.is_dirty

    def test_rows_that_do_not_rise_replace_those_before(self):
        cache = LeaderEpochCache.decode(b"0\n3\n2 10\n4 20\n3 15\n", LEADER_EPOCHS)

        assert cache.entries == ((2, 10), (3, 15))
        assert cache.is_dirty

    def test_a_malformed_file_is_refused_with_its_line(self):
        with pytest.raises(MalformedCheckpoint, match="line 4"):
            LeaderEpochCache.decode(b"0\n2\n2 10\n4 x\n", LEADER_EPOCHS)
