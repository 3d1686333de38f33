"""Compaction keeps the last record of each key, and every crash leaves a log that opens (B168)."""

from collections.abc import Coroutine, Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from actors.broker.log.cleanable import dirty_ratio, first_uncleanable_offset, group_by_size
from actors.broker.log.cleaner import Cleaned, LogChanged, clean
from actors.broker.log.config import CleanupPolicy, LogConfig
from actors.broker.log.log import Log
from actors.broker.log.names import parse_name
from actors.broker.log.segment import Segment
from actors.broker.log.swaps import finish_swaps
from runtime.disk import RealDisk
from runtime.files import Disk, DiskFull
from runtime.simulation.disk import SimulatedDisk
from tests.actors.broker.log.test_checkpoints import FragileDisk, at_every_step
from tests.support.packed import packed
from tests.wire.kafka_python import MemoryRecords
from tests.wire.strategies import fixed
from wire.errors import CorruptRecordBatch
from wire.packing import Compression
from wire.records import (
    Attributes,
    Record,
    RecordBatch,
    batches,
    decode_records,
    encode_batch,
    verify,
)

FOLDER = "orders-0"
POLICY = frozenset({CleanupPolicy.COMPACT})


def compacted(**settings: int) -> LogConfig:
    return LogConfig(cleanup_policy=POLICY, **{"delete_retention_ms": 100, **settings})


CONFIG = compacted()


def now(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run to its end what has nothing to wait for."""
    with pytest.raises(StopIteration) as end:
        coroutine.send(None)
    return end.value.value


class KeyValue(NamedTuple):
    """A record to be; a batch is a list of them."""

    key: str | None
    value: str | None
    timestamp_ms: int = 0


def records(start: int, batch: Sequence[tuple[Any, ...]]) -> list[Record]:
    return [
        Record(
            offset=offset,
            timestamp_ms=each.timestamp_ms,
            key=each.key and each.key.encode(),
            value=each.value and each.value.encode(),
        )
        for offset, each in enumerate((KeyValue(*each) for each in batch), start=start)
    ]


class SmallLog:
    """A log whose segments are what a test says."""

    def __init__(self, disk: Disk, config: LogConfig = CONFIG) -> None:
        self.disk = disk
        self.config = config
        self.end = 0
        self._log: Log | None = None

    def append(
        self,
        *segment: Sequence[tuple[Any, ...]],
        attributes: int = 0,
        codec: Compression = Compression.NONE,
    ) -> None:
        """One segment more, of these batches."""
        self.close()
        with closing(self.disk.open(path(self.end), create=True)) as file:
            for batch in segment:
                data = encode_batch(
                    records(self.end, batch), attributes=attributes, partition_leader_epoch=0
                )
                file.append(packed(data, codec) if codec else data)
                self.end += len(batch)

    @property
    def log(self) -> Log:
        if self._log is None:
            self._log = Log.open(self.disk, FOLDER, self.config, now_ms=0, is_clean=True)
        return self._log

    @property
    def segments(self) -> Sequence[Segment]:
        return self.log.segments

    @classmethod
    async def load(cls, disk: Disk) -> "SmallLog":
        """What a start does that knows nothing of what is durable."""
        await finish_swaps(disk, FOLDER)
        log = cls(disk)
        log._log = Log.open(disk, FOLDER, CONFIG, now_ms=0, is_clean=False)
        log.end = log._log.log_end_offset
        return log

    def close(self) -> None:
        if self._log is not None:
            self._log.abandon()
            self._log = None

    def batches(self) -> list[RecordBatch]:
        found = []
        for segment in self.segments:
            data = segment.file.read_at(0, segment.size)
            found += list(batches(data))
        for batch in found:
            verify(batch)
        return found

    def contents(self) -> list[tuple[int, str | None, str | None]]:
        return [
            (
                record.offset,
                record.key and record.key.decode(),
                record.value and record.value.decode(),
            )
            for batch in self.batches()
            for record in decode_records(batch)
        ]

    def table(self) -> dict[str, str]:
        """What somebody knows who has read the log from its start."""
        table = {key: value for _, key, value in self.contents() if key is not None}
        return {key: value for key, value in table.items() if value is not None}

    async def clean(self, first_dirty: int = 0, upto: int = 2**62, **more: Any) -> Cleaned:
        return await clean(
            self.disk,
            self.log,
            self.config,
            first_dirty=first_dirty,
            first_uncleanable=upto,
            **more,
        )


@pytest.fixture(params=["real", "simulated"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    disk = RealDisk(tmp_path / "node") if request.param == "real" else SimulatedDisk(Random(1))
    disk.make_directory(FOLDER)
    return disk


@pytest.fixture
def log(disk: Disk):
    log = SmallLog(disk)
    yield log
    log.close()


class TestWhatIsKept:
    async def test_the_last_record_of_each_key_at_its_offset(self, log):
        log.append([("a", "1"), ("b", "2"), ("a", "3")], [("c", "4")])
        log.append([("b", "5")])
        log.append([("a", "6")])

        cleaned = await log.clean()

        assert log.contents() == [(2, "a", "3"), (3, "c", "4"), (4, "b", "5"), (5, "a", "6")]
        assert cleaned.next_dirty_offset == 5
        assert (cleaned.records_read, cleaned.records_kept) == (5, 3)

    async def test_a_batch_keeps_its_range_of_offsets_and_whatever_else_it_said(self, log):
        log.append([("a", "1", 50), ("b", "2", 90), ("a", "3", 70), ("b", "4", 60)])
        log.append([("z", "0")])
        before = log.batches()[0].header

        await log.clean()

        after = log.batches()[0].header
        assert (after.base_offset, after.last_offset) == (0, 3)
        assert after.record_count == 2
        assert after.base_timestamp_ms == before.base_timestamp_ms
        assert after.max_timestamp_ms == 70
        assert [each.timestamp_ms for each in decode_records(log.batches()[0])] == [70, 60]

    @pytest.mark.parametrize("codec", list(Compression))
    async def test_records_that_are_packed_are_compacted_and_stay_packed(self, log, codec):
        log.append([("a", "1"), ("b", "1"), ("a", "2")], codec=codec)
        log.append([("z", "0")])

        await log.clean()

        assert log.contents() == [(1, "b", "1"), (2, "a", "2"), (3, "z", "0")]
        assert log.batches()[0].header.compression is codec

    async def test_other_peoples_reader_reads_what_is_left(self, log):
        log.append([("a", "1", 50), ("b", "2", 90), ("a", "3", 70)])
        log.append([("z", "0")])

        await log.clean()

        theirs = MemoryRecords(bytes(log.batches()[0].data)).next_batch()
        assert theirs.validate_crc()
        found = [(each.offset, each.timestamp, each.key, each.value) for each in theirs]
        assert found == [(1, 90, b"b", b"2"), (2, 70, b"a", b"3")]

    async def test_a_batch_of_which_nothing_is_kept_goes(self, log):
        log.append([("a", "1")], [("a", "2")])
        log.append([("a", "3")])

        await log.clean()

        assert log.contents() == [(1, "a", "2"), (2, "a", "3")]

    async def test_a_record_without_a_key_goes(self, log):
        log.append([(None, "1"), ("a", "2")])
        log.append([(None, "3")])

        cleaned = await log.clean()

        assert log.contents() == [(1, "a", "2"), (2, None, "3")]
        assert cleaned.records_without_key == 1

    async def test_a_marker_of_a_transaction_stays(self, log):
        log.append([("a", "1")], attributes=Attributes.CONTROL)
        log.append([("a", "2")])
        log.append([("a", "3")])

        await log.clean()

        assert [offset for offset, _, _ in log.contents()] == [0, 1, 2]

    async def test_a_segment_of_which_nothing_is_kept_still_ends_where_it_ended(self, log):
        log.append([(None, "1"), (None, "2")], [(None, "3"), (None, "4")])
        log.append()

        for _ in range(2):
            await log.clean()

            assert log.contents() == []
            assert [segment.base_offset for segment in log.segments] == [0, 4]
            assert [segment.next_offset for segment in log.segments] == [4, 4]
            assert [batch.header.record_count for batch in log.batches()] == [0]

    async def test_a_batch_without_records_goes_when_another_follows(self, log):
        log.append([("a", "1"), ("b", "2")], [("a", "3")])
        log.append([("a", "4")], [("c", "5")])
        log.append([("z", "0")])
        cleaned = await log.clean(upto=3)
        assert [batch.header.record_count for batch in log.batches()] == [1, 1, 1, 1, 1]

        await log.clean(first_dirty=cleaned.next_dirty_offset)

        assert [batch.header.base_offset for batch in log.batches()] == [0, 3, 4, 5]

    async def test_a_clean_section_is_compared_with_the_keys_of_the_dirty_one(self, log):
        log.append([("a", "1"), ("b", "2")])
        log.append([("a", "3"), ("c", "4")])
        log.append([("z", "0")])

        await log.clean(first_dirty=2)

        assert log.contents() == [(1, "b", "2"), (2, "a", "3"), (3, "c", "4"), (4, "z", "0")]


class TestTombstones:
    async def test_one_is_kept_by_the_pass_that_first_meets_it(self, log):
        log.append([("a", "1", 0)])
        log.append([("a", None, 0)])
        log.append([("z", "0", 9999)])

        await log.clean()

        assert log.contents() == [(1, "a", None), (2, "z", "0")]

    async def test_one_goes_when_the_last_clean_segment_is_younger_by_the_retention(self, log):
        log.config = compacted(delete_retention_ms=100, segment_bytes=14)
        log.append([("a", None, 1000)])
        log.append([("b", "1", 1100)])
        log.append([("c", "2", 1100)])
        log.append([("z", "0", 1100)])
        cleaned = await log.clean(upto=2)
        assert (0, "a", None) in log.contents()

        await log.clean(first_dirty=cleaned.next_dirty_offset)

        assert log.contents() == [(1, "b", "1"), (2, "c", "2"), (3, "z", "0")]

    async def test_one_stays_while_it_is_younger_than_that(self, log):
        log.config = compacted(delete_retention_ms=101, segment_bytes=14)
        log.append([("a", None, 1000)])
        log.append([("b", "1", 1100)])
        log.append([("c", "2", 1100)])
        log.append([("z", "0", 1100)])

        await log.clean(first_dirty=2)

        assert log.contents()[0] == (0, "a", None)


class TestBounds:
    async def test_the_active_segment_is_never_touched(self, log):
        log.append([("a", "1")], [("a", "2")])

        cleaned = await log.clean()

        assert log.contents() == [(0, "a", "1"), (1, "a", "2")]
        assert cleaned.next_dirty_offset == 0

    @pytest.mark.parametrize(
        ("upto", "left"),
        [(5, [1, 3, 4, 5]), (4, [1, 3, 4, 5]), (3, [1, 2, 3, 4, 5]), (2, [1, 2, 3, 4, 5])],
    )
    async def test_a_segment_is_cleaned_if_it_lies_below_the_first_uncleanable_offset(
        self, log, upto, left
    ):
        log.append([("a", "1"), ("a", "2")])
        log.append([("b", "3"), ("b", "4")])
        log.append([("a", "5"), ("b", "6")])

        await log.clean(upto=upto)

        assert [offset for offset, _, _ in log.contents()] == left

    def test_uncleanable_is_what_is_not_committed_or_active_or_too_young(self, log):
        for start in range(4):
            log.append([("a", "1", start * 100), ("a", "2", 0)])

        def limit(**given: int) -> int:
            about = {"first_dirty": 0, "high_watermark": 8, "now_ms": 1000} | given
            return first_uncleanable_offset(log.segments, **about)

        assert limit() == 6
        assert limit(high_watermark=3) == 3
        assert limit(min_compaction_lag_ms=1000) == 2
        assert limit(min_compaction_lag_ms=800) == 6
        assert limit(min_compaction_lag_ms=1001, first_dirty=2) == 2
        assert limit(min_compaction_lag_ms=1001, first_dirty=0) == 0

    def test_the_dirty_ratio_is_by_bytes_of_what_may_be_cleaned(self, log):
        for _ in range(5):
            log.append([("a", "1"), ("a", "2")])

        ratios = [dirty_ratio(log.segments, dirty, 8) for dirty in (0, 2, 4, 6, 7, 8, 9)]

        assert ratios == [1.0, 0.75, 0.5, 0.25, 0.25, 0.0, 0.0]
        assert dirty_ratio(log.segments, 0, 0) == 0.0

    def test_neighbours_that_fit_together_become_one(self, log):
        for _ in range(4):
            log.append([("a", "1")])
        size = log.segments[0].size

        def bases(most_bytes: int) -> list[list[int]]:
            groups = group_by_size(log.segments[:3], 3, most_bytes)
            return [[segment.base_offset for segment in group] for group in groups]

        assert bases(3 * size) == [[0, 1, 2]]
        assert bases(3 * size - 1) == [[0, 1], [2]]
        assert bases(size - 1) == [[0], [1], [2]]

    def test_a_segment_spans_no_more_offsets_than_an_index_can_count(self, log):
        for base in (0, 2**31 - 2, 2**31):
            log.end = base
            log.append([("a", "1")])

        def bases(end: int) -> list[list[int]]:
            groups = group_by_size(log.segments[:2], end, 10**9)
            return [[segment.base_offset for segment in group] for group in groups]

        assert bases(2**31) == [[0, 2**31 - 2]]
        assert bases(2**31 + 1) == [[0], [2**31 - 2]]

    async def test_more_keys_than_fit_are_cleaned_in_several_passes(self, log):
        log.append([("a", "1"), ("b", "2"), ("c", "3")], [("a", "4"), ("b", "5"), ("c", "6")])
        log.append([("z", "0")])
        dirty, passes = 0, 0

        while dirty < 6:
            cleaned = await log.clean(first_dirty=dirty, max_keys=2)
            assert cleaned.next_dirty_offset > dirty
            dirty, passes = cleaned.next_dirty_offset, passes + 1

        assert passes == 3
        assert [offset for offset, _, _ in log.contents()] == [3, 4, 5, 6]


class TestWhatCannotBeCleaned:
    async def check_unchanged(self, log, error) -> None:
        before = [segment.file.read_at(0, segment.size) for segment in log.segments]
        names = log.disk.list(FOLDER)

        with pytest.raises(error):
            await log.clean()

        assert [segment.file.read_at(0, segment.size) for segment in log.segments] == before
        assert log.disk.list(FOLDER) == names

    async def test_records_that_are_packed_wrongly(self, log):
        log.append([("a", "1"), ("a", "2")])
        log.append([("a", "3")])
        data = encode_batch(records(0, [("a", "1"), ("a", "2")]))
        data[22] |= 1  # gzip, says the attribute
        rewrite(log, 0, with_crc(data))

        await self.check_unchanged(log, CorruptRecordBatch)

    async def test_a_bit_that_rotted(self, log):
        log.append([("a", "1"), ("a", "2")])
        log.append([("a", "3")])
        data = encode_batch(records(0, [("a", "1"), ("a", "2")]))
        data[-1] ^= 1
        rewrite(log, 0, data)

        await self.check_unchanged(log, CorruptRecordBatch)

    @pytest.mark.parametrize("byte", [0, 3, 7])
    async def test_an_offset_that_rotted(self, log, byte):  # no CRC covers it
        log.append([("a", "1")], [("a", "2")], [("a", "3")])
        log.append([("a", "4")])
        data = bytearray(log.segments[0].file.read_at(0, log.segments[0].size))
        data[len(data) // 3 + byte] ^= 2
        rewrite(log, 0, data)

        await self.check_unchanged(log, CorruptRecordBatch)

    async def test_a_batch_that_is_cut_short(self, log):
        log.append([("a", "1"), ("a", "2")])
        log.append([("a", "3")])
        log.segments[0]._size -= 1

        await self.check_unchanged(log, CorruptRecordBatch)

    async def test_a_disk_that_is_full(self):
        disk = SimulatedDisk(Random(1))
        disk.make_directory(FOLDER)
        log = SmallLog(disk)
        log.append([("a", "1"), ("a", "2")])
        log.append([("a", "3")])
        assert log.table() == {"a": "3"}
        disk.fill()

        await self.check_unchanged(log, DiskFull)

    @pytest.mark.parametrize("moment", [0, 1])
    async def test_a_log_that_is_truncated_meanwhile(self, log, moment):
        log.append([("a", "1")], [("a", "2")])
        log.append([("a", "3")])
        moments = iter(range(9))

        async def pause() -> None:
            if next(moments) == moment:
                log.log.truncate_to(1)

        with pytest.raises(LogChanged):
            await log.clean(pause=pause)

        assert log.contents() == [(0, "a", "1")]
        assert {parse_name(name)[2] for name in log.disk.list(FOLDER)} == {""}


def path(base_offset: int) -> str:
    return f"{FOLDER}/{base_offset:020}.log"


def rewrite(log: SmallLog, at: int, data: bytes | bytearray) -> None:
    log.segments[at].file.write_at(0, data)


def with_crc(data: bytearray) -> bytearray:
    data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
    return data


KEYS = st.one_of(st.none(), st.sampled_from("abcd"))
VALUES = st.one_of(st.none(), st.sampled_from("123"))
BATCH = st.lists(st.tuples(KEYS, VALUES, st.integers(0, 300)), min_size=1, max_size=4)
LOGS = st.lists(st.lists(BATCH, min_size=1, max_size=3), min_size=1, max_size=5)


@fixed(300)
@given(LOGS, LOGS, st.integers(1, 5), st.sampled_from([14, 300, 1 << 30]))
def test_who_reads_from_the_start_knows_the_same_as_before(older, newer, max_keys, segment_bytes):
    disk = SimulatedDisk(Random(1))
    disk.make_directory(FOLDER)
    log = SmallLog(disk, compacted(delete_retention_ms=100, segment_bytes=segment_bytes))
    first_dirty = 0  # what was never cleaned is dirty
    for segments in (older, newer):
        for segment in segments:
            log.append(*segment)
        before, table, active = log.contents(), log.table(), log.segments[-1]
        size = active.size

        cleaned = now(log.clean(first_dirty=first_dirty, max_keys=max_keys))

        after = log.contents()
        assert log.table() == table
        assert set(after) <= set(before)
        assert after == sorted(after, key=lambda each: each[0])
        assert log.segments[-1] is active
        for segment, following in pairwise(log.segments):
            assert segment.next_offset == following.base_offset
        assert active.size == size
        assert cleaned.next_dirty_offset >= first_dirty
        first_dirty = cleaned.next_dirty_offset
        keys = [key for offset, key, _ in after if offset < first_dirty]
        assert len(keys) == len(set(keys))
        assert None not in keys


async def make_durable(disk: Disk) -> None:
    for name in disk.list(FOLDER):
        with closing(disk.open(f"{FOLDER}/{name}")) as file:
            await file.sync()
    await disk.sync_directory(FOLDER)
    await disk.sync_directory("")


async def prepare(disk: FragileDisk) -> SmallLog:
    disk.make_directory(FOLDER)
    log = SmallLog(disk)
    log.append([("a", "1"), ("b", "2")], [("c", "3")])
    log.append([("a", "4"), ("d", "5")])
    log.append([("d", None), ("a", None)])
    log.append([("e", "6"), ("c", None)])
    log.append([("b", "7")])
    await make_durable(disk)
    return log


async def prepare_cleaned(disk: FragileDisk) -> None:
    """The tombstones are in the clean section now, old enough to go."""
    log = await prepare(disk)
    await log.clean(upto=9)
    log.append([("e", "8"), ("a", "9")])
    log.append([("b", "7")])
    await make_durable(disk)


@pytest.mark.parametrize("segment_bytes", [14, 260, 1 << 30])
@pytest.mark.parametrize(
    ("given", "first_dirty", "table", "end"),
    [
        (prepare, 0, {"b": "7", "e": "6"}, 10),
        (prepare_cleaned, 9, {"b": "7", "e": "8", "a": "9"}, 13),
    ],
)
async def test_a_crash_at_any_step_leaves_a_log_that_opens_and_knows_the_same(
    segment_bytes, given, first_dirty, table, end
):
    config = compacted(delete_retention_ms=0, segment_bytes=segment_bytes)

    async def act(disk: FragileDisk) -> None:
        log = await SmallLog.load(disk)
        log.config = config
        await log.clean(first_dirty=first_dirty)

    async def check(disk: FragileDisk, is_done: bool) -> None:
        log = await SmallLog.load(disk)
        assert log.table() == table
        assert log.end == end
        tombstones = [key for offset, key, value in log.contents() if value is None]
        assert not (is_done and first_dirty and tombstones)
        log.config = config
        await log.clean()  # nothing that is left is in the way
        assert log.table() == table

    assert await at_every_step(given, act, check) > 8 * 8


async def test_a_crash_during_the_recovery_of_a_swap_is_recovered_too():
    async def swapping(disk: FragileDisk) -> None:
        await prepare(disk)
        with closing(disk.open(path(0) + ".swap", create=True)) as file:
            file.append(encode_batch(records(4, [("d", "5")]), partition_leader_epoch=0))
            await file.sync()
        await disk.sync_directory(FOLDER)

    async def check(disk: FragileDisk, _: bool) -> None:
        log = await SmallLog.load(disk)
        assert [offset for offset, _, _ in log.contents()] == [4, 5, 6, 7, 8, 9]
        assert {parse_name(name)[2] for name in disk.list(FOLDER)} == {""}

    assert await at_every_step(swapping, SmallLog.load, check) > 8 * 4


async def test_a_start_forgets_what_was_not_yet_swapped(disk):
    log = SmallLog(disk)
    log.append([("a", "1")])
    log.append([("a", "2")])
    for suffix in (".log.cleaned", ".index.cleaned", ".log.deleted", ".timeindex.swap"):
        disk.open(f"{FOLDER}/{0:020}{suffix}", create=True).close()

    again = await SmallLog.load(disk)

    assert again.contents() == [(0, "a", "1"), (1, "a", "2")]
    assert len(disk.list(FOLDER)) == 6
    again.close()


async def test_a_swap_that_cannot_be_read_is_left_for_people_to_look_at(disk):
    log = SmallLog(disk)
    log.append([("a", "1")])
    data = encode_batch(records(0, [("a", "1")]))
    data[-1] ^= 1
    with closing(disk.open(path(0) + ".swap", create=True)) as file:
        file.append(data)
    names = disk.list(FOLDER)

    with pytest.raises(CorruptRecordBatch):
        await finish_swaps(disk, FOLDER)

    assert disk.list(FOLDER) == names
