"""The two indexes of a segment (B168, B170)."""

import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.broker.log.index_file import IndexFull
from actors.broker.log.offset_index import OffsetIndex
from actors.broker.log.time_index import TimeIndex
from runtime.disk import RealDisk
from runtime.files import Disk, DiskFull
from runtime.simulation.disk import SimulatedDisk
from wire.ids import Offset


@pytest.fixture(params=["real", "simulated"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    return RealDisk(tmp_path) if request.param == "real" else SimulatedDisk(Random(1))


@pytest.fixture
def offsets(disk: Disk) -> Iterator[OffsetIndex]:
    index = OffsetIndex(disk, "index", Offset(100), 48)
    with closing(index.entries):
        yield index


@pytest.fixture
def times(disk: Disk) -> Iterator[TimeIndex]:
    index = TimeIndex(disk, "timeindex", Offset(100), 48)
    with closing(index.entries):
        yield index


class TestOffsetIndex:
    def test_the_greatest_entry_that_is_not_beyond_is_found(self, offsets: OffsetIndex) -> None:
        for offset, position in ((105, 10), (110, 20), (120, 30)):
            offsets.append(Offset(offset), position)

        wanted = (0, 99, 100, 104, 105, 109, 110, 119, 120, 2**40)
        found = [offsets.lookup(Offset(offset)) for offset in wanted]

        beginning = (100, 0)
        assert found[:4] == [beginning] * 4
        assert found[4:] == [(105, 10), (105, 10), (110, 20), (110, 20), (120, 30), (120, 30)]

    def test_an_entry_is_eight_big_endian_bytes(self, offsets: OffsetIndex) -> None:
        offsets.append(Offset(102), 258)

        assert offsets.entries.all() == bytes([0, 0, 0, 2, 0, 0, 1, 2])

    def test_entries_must_rise(self, offsets: OffsetIndex) -> None:
        offsets.append(Offset(105), 10)

        for offset, position in ((105, 20), (104, 20), (106, 10), (99, 20), (100 + 2**31, 20)):
            with pytest.raises(AssertionError):
                offsets.append(Offset(offset), position)
        assert list(offsets.all()) == [(105, 10)]

    def test_a_full_index_refuses(self, offsets: OffsetIndex) -> None:
        for number in range(6):
            assert not offsets.is_full
            offsets.append(Offset(101 + number), 1 + number)

        assert offsets.is_full
        with pytest.raises(IndexFull):
            offsets.append(Offset(200), 200)

    @pytest.mark.parametrize(("offset", "left"), [(0, 0), (105, 0), (106, 1), (110, 1), (111, 2)])
    def test_a_truncation_forgets_the_offset_and_what_follows(
        self, offsets: OffsetIndex, disk: Disk, offset: int, left: int
    ) -> None:
        offsets.append(Offset(105), 10)
        offsets.append(Offset(110), 20)

        offsets.truncate_to(Offset(offset))
        offsets.append(Offset(150), 150)

        assert list(offsets.all()) == [*[(105, 10), (110, 20)][:left], (150, 150)]
        assert disk.size("index") == 8 * (left + 1)

    def test_what_is_reopened_is_as_it_was_closed(self, disk: Disk, offsets: OffsetIndex) -> None:
        offsets.append(Offset(105), 10)
        offsets.entries.close()

        again = OffsetIndex(disk, "index", Offset(100), 48)
        with closing(again.entries):
            assert (again.last, again.entries.is_whole) == ((105, 10), True)

    def test_of_a_torn_index_the_sound_beginning_is_kept(self, disk: Disk) -> None:
        with closing(disk.open("index", create=True)) as file:
            for entry in ((5, 10), (10, 20), (0, 0), (20, 30)):
                file.append(b"".join(number.to_bytes(4, "big") for number in entry))
            file.append(b"torn")
        index = OffsetIndex(disk, "index", Offset(100), 80)
        with closing(index.entries):
            assert not index.entries.is_whole

            index.keep_sound(Offset(1000))

            assert list(index.all()) == [(105, 10), (110, 20)]
            index.keep_sound(Offset(110))
            assert (list(index.all()), disk.size("index")) == ([(105, 10)], 8)

    def test_an_index_as_large_as_a_mapping_is_found_in_all_its_parts(self, disk: Disk) -> None:
        index = OffsetIndex(disk, "index", Offset(0), 10 << 20)
        with closing(index.entries):
            for number in range(1, 20_001):
                index.append(Offset(2 * number), number)
                if number % 997 == 0:
                    assert index.lookup(Offset(number)) == (number // 2 * 2, number // 2)
            index.truncate_to(Offset(20_000))
            assert index.lookup(Offset(30_000)) == (19_998, 9_999)
            index.append(Offset(25_000), 10_000)
            assert index.lookup(Offset(30_000)) == (25_000, 10_000)

    def test_a_full_disk_leaves_the_index_as_it_was(self) -> None:
        disk = SimulatedDisk(Random(1), capacity=12)
        index = OffsetIndex(disk, "index", Offset(0), 48)
        index.append(Offset(1), 1)

        with pytest.raises(DiskFull):
            index.append(Offset(2), 2)

        assert (list(index.all()), index.last, disk.size("index")) == ([(1, 1)], (1, 1), 8)


class TestTimeIndex:
    def test_only_what_is_later_is_noted(self, times: TimeIndex) -> None:
        for time_ms, offset in ((50, 101), (50, 102), (40, 103), (60, 103)):
            times.maybe_append(time_ms, Offset(offset))

        assert list(times.all()) == [(50, 101), (60, 103)]
        assert times.entries.all()[:12] == (50).to_bytes(8, "big") + (1).to_bytes(4, "big")

    def test_the_greatest_entry_that_is_not_later_is_found(self, times: TimeIndex) -> None:
        times.maybe_append(50, Offset(101))
        times.maybe_append(60, Offset(103))

        found = [times.lookup(time_ms) for time_ms in (-5, 49, 50, 59, 60, 99)]

        assert found == [(-1, 100), (-1, 100), (50, 101), (50, 101), (60, 103), (60, 103)]

    def test_the_last_place_is_kept_for_the_close(self, times: TimeIndex) -> None:
        for number in range(3):
            times.maybe_append(number, Offset(100 + number))

        assert times.is_full
        with pytest.raises(IndexFull):
            times.maybe_append(9, Offset(109))
        times.maybe_append(9, Offset(109), closing=True)
        assert times.last == (9, 109)

    def test_a_truncation_forgets_the_offset_and_what_follows(self, times: TimeIndex) -> None:
        times.maybe_append(50, Offset(101))
        times.maybe_append(60, Offset(103))

        times.truncate_to(Offset(103))
        assert times.last == (50, 101)
        times.truncate_to(Offset(0))
        assert times.last == (-1, 100)

    def test_of_a_torn_index_the_sound_beginning_is_kept(self, times: TimeIndex) -> None:
        for time_ms, offset in ((50, 101), (60, 103), (70, 110)):
            times.maybe_append(time_ms, Offset(offset))

        times.keep_sound(Offset(110))

        assert list(times.all()) == [(50, 101), (60, 103)]


@settings(deadline=None)
@given(st.sets(st.integers(0, 2**31 - 1), max_size=40), st.integers(0, 2**32))
def test_a_lookup_is_what_a_walk_would_find(offsets: set[int], target: int) -> None:
    index = OffsetIndex(SimulatedDisk(Random(1)), "index", Offset(7), 1000)
    for position, offset in enumerate(sorted(offsets), start=1):
        index.append(Offset(7 + offset), position)

    walked = [(100, 0), *(entry for entry in index.all() if entry.offset <= target)][-1]

    assert index.lookup(Offset(target)) == (walked if walked != (100, 0) else (7, 0))


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(-3, 12), st.integers(-3, 12)), max_size=8),
    st.integers(5, 25),
)
def test_what_is_sound_is_what_a_walk_keeps(entries: list[tuple[int, int]], below: int) -> None:
    disk = SimulatedDisk(Random(1))
    with closing(disk.open("index", create=True)) as file:
        for entry in entries:
            file.append(struct.pack(">ii", *entry))
    index = OffsetIndex(disk, "index", Offset(7), 1000)
    kept: list[tuple[int, int]] = []
    last = (6, 0)
    for relative, position in entries:
        if not (last[0] < 7 + relative < below and last[1] < position):
            break
        last = (7 + relative, position)
        kept.append(last)

    with closing(index.entries):
        index.keep_sound(Offset(below))

        assert list(index.all()) == kept


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(-3, 12), st.integers(-3, 12)), max_size=8),
    st.integers(5, 25),
)
def test_of_times_too(entries: list[tuple[int, int]], below: int) -> None:
    disk = SimulatedDisk(Random(1))
    with closing(disk.open("times", create=True)) as file:
        for entry in entries:
            file.append(struct.pack(">qi", *entry))
    times = TimeIndex(disk, "times", Offset(7), 1000)
    kept: list[tuple[int, int]] = []
    last = (-1, 7)
    for timestamp_ms, relative in entries:
        if not (last[0] < timestamp_ms and last[1] <= 7 + relative < below):
            break
        last = (timestamp_ms, 7 + relative)
        kept.append(last)

    with closing(times.entries):
        times.keep_sound(Offset(below))

        assert list(times.all()) == kept
