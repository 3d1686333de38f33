"""Appending, reading, rolling and shortening a log (B157, B168 to B170, B174)."""

import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from random import Random

import pytest

from actors.broker.log.appending import (
    FallingLeaderEpoch,
    RecordBatchTooLarge,
    UnexpectedAppendOffset,
)
from actors.broker.log.config import CleanupPolicy, LogConfig, TimestampType
from actors.broker.log.log import Log
from actors.broker.log.reading import available
from actors.config import BadConfig
from runtime.disk import RealDisk
from runtime.files import Disk
from runtime.simulation.disk import SimulatedDisk
from tests.actors.broker.log.logs import (
    EPOCH,
    FOLDER,
    NOW_MS,
    SMALL,
    a_batch,
    append,
    check_indexes,
    content,
    from_leader,
    headers_of,
    opened,
    read_all,
    with_attributes,
)
from tests.support.packed import packed
from tests.wire.kafka_python import MemoryRecords
from wire.errors import CorruptRecordBatch, InvalidRecord, MessageTooLarge, OffsetOutOfRange
from wire.ids import NO_TIMESTAMP_MS, LeaderEpoch, Offset
from wire.packing import Compression
from wire.records import (
    Attributes,
    Record,
    batches,
    encode_batch,
    holds_a_batch,
    verify,
)

GOOD = bytes(a_batch(b"good"))


@pytest.fixture(params=["real", "simulated"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    return RealDisk(tmp_path) if request.param == "real" else SimulatedDisk(Random(1))


@pytest.fixture
def log(disk: Disk) -> Iterator[Log]:
    log = opened(disk)
    yield log
    log.abandon()


async def reopened(log: Log, disk: Disk, config: LogConfig = SMALL) -> Log:
    await log.close()
    return opened(disk, config, is_clean=True, log_start_offset=log.log_start_offset)


def bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


class TestConfig:
    def test_the_defaults_are_kafkas(self) -> None:
        config = LogConfig()

        assert (config.segment_bytes, config.segment_ms) == (1_073_741_824, 604_800_000)
        assert (config.segment_index_bytes, config.index_interval_bytes) == (10_485_760, 4096)
        assert (config.retention_ms, config.retention_bytes) == (604_800_000, -1)
        assert (config.max_message_bytes, config.file_delete_delay_ms) == (1_048_588, 60_000)
        assert (config.is_compacted, config.is_deleted_by_age_or_size) == (False, True)

    @pytest.mark.parametrize(
        "setting",
        [
            {"segment_bytes": 13},
            {"segment_bytes": 2**31},
            {"retention_ms": -2},
            {"min_cleanable_dirty_ratio": 1.1},
            {"cleanup_policy": frozenset()},
            {"flush_messages": 0},
        ],
    )
    def test_what_cannot_work_is_refused(self, setting: dict[str, int]) -> None:
        with pytest.raises(BadConfig, match=next(iter(setting)).replace("_", ".")):
            LogConfig(**setting)


class TestAppendAsLeader:
    def test_no_file_is_made_before_the_first_append(self, log: Log, disk: Disk) -> None:
        """D6."""
        assert (disk.list(), log.segments, log.read(Offset(0), 100)) == ((), (), b"")

        append(log, b"first")

        name = "00000000000000000000"
        assert disk.list(FOLDER) == (f"{name}.index", f"{name}.log", f"{name}.timeindex")

    def test_offsets_and_epoch_are_assigned_in_place(self, log: Log) -> None:
        data = a_batch(b"a", b"b") + a_batch(b"c")

        log.append_as_leader(a_batch(b"before"), EPOCH, NOW_MS)
        appended = log.append_as_leader(data, LeaderEpoch(3), NOW_MS)

        assert (appended.first_offset, appended.last_offset, log.log_end_offset) == (1, 3, 4)
        assert appended.log_append_time_ms == NO_TIMESTAMP_MS
        assert [each.header.base_offset for each in batches(data)] == [1, 3]
        assert bytes(data) == read_all(log)[-len(data) :]
        assert log.epochs.entries == ((0, 0), (3, 1))

    @pytest.mark.parametrize("kind", [bytes, lambda data: memoryview(bytes(data))])
    def test_what_may_not_be_written_to_is_copied(self, log: Log, kind: object) -> None:
        data = kind(a_batch(b"a"))
        append(log, b"before")

        log.append_as_leader(data, EPOCH, NOW_MS)

        assert [header.base_offset for header in headers_of(log)] == [0, 1]
        assert next(batches(data)).header.base_offset == 0

    @pytest.mark.parametrize(
        ("data", "error"),
        [
            (b"", CorruptRecordBatch),
            (GOOD[:30], CorruptRecordBatch),
            (GOOD + GOOD[:-1], CorruptRecordBatch),
            (GOOD + b"\0", CorruptRecordBatch),
            (GOOD + GOOD[:70] + bytes([GOOD[70] ^ 1]) + GOOD[71:], CorruptRecordBatch),
            (GOOD + GOOD[:16] + b"\1" + GOOD[17:], CorruptRecordBatch),
            (GOOD + bytes(a_batch(b"x" * 300)), MessageTooLarge),
            (GOOD + bytes(a_batch(b"x" * 220)), RecordBatchTooLarge),
        ],
    )
    def test_what_is_not_sound_is_refused_and_nothing_is_appended(
        self, disk: Disk, data: bytes, error: type[Exception]
    ) -> None:
        log = opened(disk, replace(SMALL, max_message_bytes=320, segment_bytes=250))
        append(log, b"before")
        before = read_all(log)

        with pytest.raises(error):
            log.append_as_leader(data, EPOCH, NOW_MS)

        assert (log.log_end_offset, read_all(log)) == (1, before)
        append(log, b"after")
        assert log.log_end_offset == 2
        log.abandon()

    def test_a_batch_without_a_record_for_each_offset_is_refused(self, log: Log) -> None:
        """As LogValidator."""
        records = [
            Record(offset=Offset(0), timestamp_ms=1, value=b""),
            Record(offset=Offset(5), timestamp_ms=1, value=b""),
        ]
        with pytest.raises(InvalidRecord, match="2 records at 6 offsets"):
            log.append_as_leader(encode_batch(records), EPOCH, NOW_MS)

    @pytest.mark.parametrize("attributes", [Attributes.CONTROL, 1, 2, 3, 4, 5, 6, 7])
    @pytest.mark.parametrize("policy", list(CleanupPolicy))
    def test_what_only_a_broker_may_write_or_nobody_can_unpack_is_refused(
        self, disk: Disk, attributes: int, policy: CleanupPolicy
    ) -> None:
        log = opened(disk, replace(SMALL, cleanup_policy=frozenset({policy})))

        with pytest.raises(InvalidRecord):
            log.append_as_leader(with_attributes(a_batch(b"a"), attributes), EPOCH, NOW_MS)

        assert log.log_end_offset == 0
        log.append_as_leader(packed(a_batch(b"a"), Compression.ZSTD), EPOCH, NOW_MS)
        log.abandon()

    def test_a_compacted_log_wants_keys(self, disk: Disk) -> None:
        log = opened(disk, replace(SMALL, cleanup_policy=frozenset({CleanupPolicy.COMPACT})))

        with pytest.raises(InvalidRecord, match="without a key"):
            log.append_as_leader(from_leader(b"no key", 0), EPOCH, NOW_MS)

        append(log, b"with key")
        log.abandon()

    def test_an_epoch_never_falls(self, log: Log) -> None:
        append(log, b"a", epoch=5)

        with pytest.raises(FallingLeaderEpoch):
            append(log, b"b", epoch=4)

        assert log.log_end_offset == 1

    def test_the_brokers_time_may_stand_for_the_producers(self, disk: Disk) -> None:
        log = opened(disk, replace(SMALL, message_timestamp_type=TimestampType.LOG_APPEND_TIME))

        appended = log.append_as_leader(a_batch(b"a", b"b", at_ms=5), EPOCH, 777)

        (batch,) = batches(read_all(log))
        verify(batch)
        assert (batch.header.is_log_append_time, batch.header.max_timestamp_ms) == (True, 777)
        assert appended.log_append_time_ms == 777
        assert log.offset_for_timestamp(700).offset == 0
        log.abandon()

    def test_a_new_leader_begins_its_epoch_before_it_writes(self, log: Log) -> None:
        append(log, b"a")

        log.begin_epoch(LeaderEpoch(2))
        log.begin_epoch(LeaderEpoch(2))

        assert log.epochs.entries == ((0, 0), (2, 1))

    def test_where_epochs_begin_anew_a_leader_can_write(self, log: Log) -> None:
        append(log, b"a", epoch=7)

        log.begin_epoch(LeaderEpoch(0))
        append(log, b"b", epoch=0)

        assert log.epochs.entries == ((0, 1),)


class TestAppendAsFollower:
    def test_the_bytes_are_stored_as_they_came(self, log: Log) -> None:
        data = from_leader(b"a", 0, 1) + from_leader(b"b", 1, 3)

        appended = log.append_as_follower(bytes(data), NOW_MS)

        assert (read_all(log), log.log_end_offset, appended.last_offset) == (data, 2, 1)
        assert log.epochs.entries == ((1, 0), (3, 1))

    def test_a_fetch_that_ends_within_a_batch_is_cut_there(self, log: Log) -> None:
        log.append_as_follower(from_leader(b"a", 0) + from_leader(b"b", 1)[:-1], NOW_MS)
        appended = log.append_as_follower(from_leader(b"b", 1)[:20], NOW_MS)

        assert log.log_end_offset == 1
        assert (appended.first_offset, appended.last_offset) == (1, 0)

    @pytest.mark.parametrize("base_offset", [0, 2])
    def test_offsets_continue_from_the_logs_end(self, log: Log, base_offset: int) -> None:
        """B157, I-22."""
        log.append_as_follower(from_leader(b"a", 0), NOW_MS)

        with pytest.raises(UnexpectedAppendOffset, match=f"{base_offset}.*1"):
            log.append_as_follower(from_leader(b"b", base_offset), NOW_MS)

        assert log.log_end_offset == 1

    def test_compaction_at_the_leader_may_leave_a_gap(self, disk: Disk) -> None:
        log = opened(disk, replace(SMALL, cleanup_policy=frozenset({CleanupPolicy.COMPACT})))
        log.append_as_follower(from_leader(b"a", 3), NOW_MS)
        log.append_as_follower(from_leader(b"b", 9), NOW_MS)

        found = [next(batches(log.read(Offset(at), 1))).header.base_offset for at in (0, 3, 4, 9)]

        assert (found, log.log_end_offset) == ([3, 3, 9, 9], 10)
        with pytest.raises(UnexpectedAppendOffset):
            log.append_as_follower(from_leader(b"c", 9), NOW_MS)
        log.abandon()

    def test_a_gap_that_no_relative_offset_spans_begins_a_segment(self, disk: Disk) -> None:
        """B169."""
        log = opened(disk, replace(SMALL, cleanup_policy=frozenset({CleanupPolicy.COMPACT})))
        far = 2**31 + 5
        log.append_as_follower(from_leader(b"a", 0) + from_leader(b"b", far), NOW_MS)
        log.append_as_follower(from_leader(b"c", 2 * far), NOW_MS)

        assert bases(log) == [0, far, 2 * far]
        assert next(batches(log.read(Offset(1), 1))).header.base_offset == far
        log.abandon()

    def test_epochs_never_fall(self, log: Log) -> None:
        """I-22."""
        with pytest.raises(FallingLeaderEpoch):
            log.append_as_follower(from_leader(b"a", 0, 2) + from_leader(b"b", 1, 1), NOW_MS)

        assert (log.log_end_offset, log.epochs.entries) == (0, ())

    def test_a_flipped_bit_is_refused(self, log: Log) -> None:
        data = from_leader(b"a", 0)
        data[-1] ^= 1

        with pytest.raises(CorruptRecordBatch):
            log.append_as_follower(data, NOW_MS)

    def test_a_batch_that_the_leader_took_finds_room(self, log: Log) -> None:
        log.append_as_follower(from_leader(b"a", 0) + from_leader(b"x" * 1000, 1), NOW_MS)
        log.append_as_follower(from_leader(b"b", 2), NOW_MS)

        assert bases(log) == [0, 1, 2]


class TestRead:
    def test_out_of_range_and_at_the_end(self, log: Log) -> None:
        """B170."""
        append(log, b"a", b"b")
        log.move_log_start_offset(Offset(1))

        for offset in (-1, 0, 3):
            with pytest.raises(OffsetOutOfRange):
                log.read(Offset(offset), 100)
        assert log.read(Offset(2), 100) == b""

    def test_an_offset_within_a_batch_finds_the_batch(self, log: Log) -> None:
        log.append_as_leader(a_batch(b"a", b"b", b"c"), EPOCH, NOW_MS)

        assert log.read(Offset(2), 1000) == log.read(Offset(0), 1000) == read_all(log)

    def test_bytes_are_bounded_but_the_first_batch_is_whole(self, log: Log) -> None:
        append(log, b"a", b"b", b"c")
        size = headers_of(log)[0].size_in_bytes

        assert log.read(Offset(0), 1) == read_all(log)[:size]
        assert log.read(Offset(1), 2 * size - 1) == read_all(log)[size : 3 * size - 1]
        assert log.read(Offset(0), 1, min_one_batch=False) == read_all(log)[:1]

    def test_offsets_are_bounded(self, log: Log) -> None:
        append(log, *(b"%d" % number for number in range(20)))
        assert len(log.segments) > 3

        for bound in range(22):
            offset, found = 0, []
            while data := log.read(Offset(offset), 10_000, Offset(bound)):
                found += [batch.header.base_offset for batch in batches(data)]
                offset = found[-1] + 1
            assert found == list(range(min(bound, 20)))

    def test_how_much_a_read_would_find_is_known_without_it(self, log: Log) -> None:
        for number in range(6):
            log.append_as_leader(a_batch(*[b"x" * number] * (number % 3 + 1)), EPOCH, NOW_MS)
        end = log.log_end_offset
        assert len(log.segments) > 1

        for offset, bound, is_first in product(range(end + 1), range(end + 1), (True, False)):
            for most in range(0, 400, 7):
                at, upto = Offset(offset), Offset(bound)
                read = log.read(at, most, upto, min_one_batch=is_first)
                expected = len(read) if holds_a_batch(read) else 0
                assert available(log.segments, at, most, upto, is_first) == expected

    def test_a_batch_across_the_bound_is_left_out(self, log: Log) -> None:
        log.append_as_leader(a_batch(b"a", b"b", b"c"), EPOCH, NOW_MS)

        assert log.read(Offset(0), 1000, Offset(2)) == b""

    def test_kafka_python_parses_our_segments(self, log: Log, disk: Disk) -> None:
        append(log, b"one", b"two", epoch=4, at_ms=55)
        log.append_as_leader(a_batch(b"three", b"four"), LeaderEpoch(4), NOW_MS)

        records, found = MemoryRecords(content(disk, log.segments[0].path(".log"))), []
        while (batch := records.next_batch()) is not None:
            assert batch.validate_crc()
            found += [(record.offset, record.timestamp, record.value) for record in batch]

        assert found == [
            (0, 55, b"one"),
            (1, 55, b"two"),
            (2, NOW_MS, b"three"),
            (3, NOW_MS, b"four"),
        ]


class TestOffsetForTimestamp:
    def test_the_first_record_that_is_not_earlier(self, log: Log) -> None:
        times = [10, 30, 20, 50, 40, 60, 60, 55]
        for pair in range(0, 8, 2):
            data = a_batch(b"x", b"y", at_ms=times[pair : pair + 2])
            log.append_as_leader(data, EPOCH, NOW_MS)
        assert len(log.segments) > 1

        for wanted in range(-1, 70):
            found = log.offset_for_timestamp(wanted)
            expected = next((at for at, time in enumerate(times) if time >= wanted), None)
            assert (found and found.offset) == expected
            assert found is None or found.timestamp_ms == times[found.offset]

    def test_not_before_the_logs_start(self, log: Log) -> None:
        log.append_as_leader(a_batch(b"a", b"b", at_ms=(50, 10)), LeaderEpoch(3), NOW_MS)
        append(log, b"c", at_ms=30, epoch=3)
        log.move_log_start_offset(Offset(1))

        found = log.offset_for_timestamp(20)

        assert (found.offset, found.timestamp_ms, found.leader_epoch) == (2, 30, 3)

    @pytest.mark.parametrize("attributes", [0, 7], ids=["garbage", "no codec"])
    def test_a_batch_that_cannot_be_decoded_counts_as_its_header_says(
        self, log: Log, attributes: int
    ) -> None:
        """Or who asks for a time would never get past it. A follower takes what its leader has."""
        append(log, b"a", at_ms=10)
        bad = a_batch(b"b", b"c", at_ms=20, base_offset=1)
        bad[61:] = b"\xff" * (len(bad) - 61)
        log.append_as_follower(with_attributes(bad, attributes), NOW_MS, may_fall=True)
        append(log, b"d", at_ms=30, epoch=0)

        found = [log.offset_for_timestamp(time_ms) for time_ms in (10, 15, 20, 25)]

        assert [(each.offset, each.timestamp_ms) for each in found] == [
            (0, 10),
            (1, 20),
            (1, 20),
            (3, 30),
        ]


class TestRoll:
    """B169."""

    def test_by_size(self, log: Log, disk: Disk) -> None:
        size = len(a_batch(b"a"))
        append(log, *(b"a" for _ in range(300 // size + 1)))

        assert bases(log) == [0, 300 // size]
        assert disk.exists(f"{FOLDER}/{300 // size:020}.timeindex")

    def test_one_append_may_fill_several_segments(self, log: Log, disk: Disk) -> None:
        data = b"".join(bytes(a_batch(b"a")) for _ in range(20))

        appended = log.append_as_leader(data, EPOCH, NOW_MS)

        assert appended.has_rolled
        assert bases(log) == [0, 4, 8, 12, 16]
        check_indexes(log, disk)
        assert [header.base_offset for header in headers_of(log)] == list(range(20))

    def test_by_the_records_own_time(self, disk: Disk) -> None:
        log = opened(disk, LogConfig(segment_ms=100))
        append(log, b"a", at_ms=1000)
        append(log, b"b", at_ms=1100)
        assert bases(log) == [0]

        append(log, b"c", at_ms=1101)

        assert bases(log) == [0, 2]
        log.abandon()

    def test_by_our_time_where_records_have_none(self, disk: Disk) -> None:
        log = opened(disk, LogConfig(segment_ms=100))
        for now_ms in (5000, 5100, 5101):
            log.append_as_leader(a_batch(b"a", at_ms=-1), EPOCH, now_ms)

        assert bases(log) == [0, 2]
        log.abandon()

    def test_jitter_makes_it_earlier(self, disk: Disk) -> None:
        config = LogConfig(segment_ms=100, segment_jitter_ms=40)
        log = opened(disk, config, jitter=lambda most: most - 10)
        append(log, b"a", at_ms=1000)
        append(log, b"b", at_ms=1070)
        append(log, b"c", at_ms=1071)

        assert bases(log) == [0, 2]
        log.abandon()

    def test_when_an_index_is_full(self, disk: Disk) -> None:
        log = opened(disk, LogConfig(segment_index_bytes=24, index_interval_bytes=1))
        for number in range(9):
            append(log, b"a", at_ms=NOW_MS + number)

        assert bases(log) == [0, 2, 4, 6, 8]
        check_indexes(log, disk)
        log.abandon()


class TestTruncate:
    @pytest.mark.parametrize("offset", range(12))
    def test_what_follows_an_offset_is_forgotten(self, log: Log, disk: Disk, offset: int) -> None:
        for number in range(12):
            append(log, b"%d" % number, epoch=number // 5, at_ms=NOW_MS + number)
        before = [bytes(batch.data) for batch in batches(read_all(log))]

        assert log.truncate_to(Offset(offset))

        assert (log.log_end_offset, read_all(log)) == (offset, b"".join(before[:offset]))
        assert all(entry.start_offset < offset for entry in log.epochs.entries)
        check_indexes(log, disk)
        append(log, b"new", epoch=9, at_ms=NOW_MS + 99)
        assert log.offset_for_timestamp(NOW_MS + 50).offset == offset
        check_indexes(log, disk)

    def test_a_batch_goes_as_a_whole(self, log: Log) -> None:
        append(log, b"a")
        log.append_as_leader(a_batch(b"b", b"c", b"d"), EPOCH, NOW_MS)

        log.truncate_to(Offset(3))

        assert log.log_end_offset == 1

    def test_nothing_goes_at_the_end_or_after_it(self, log: Log) -> None:
        append(log, b"a")

        assert not log.truncate_to(Offset(1))
        assert not log.truncate_to(Offset(7))
        assert log.log_end_offset == 1

    async def test_the_recovery_point_falls_with_the_end(self, log: Log) -> None:
        append(log, b"a", b"b", b"c")
        await log.flush()

        log.truncate_to(Offset(1))

        assert log.recovery_point == 1

    async def test_all_may_go_to_start_elsewhere(self, log: Log, disk: Disk) -> None:
        append(log, *[b"a"] * 9)

        log.truncate_fully_and_start_at(Offset(1000))

        assert (log.log_start_offset, log.log_end_offset, log.recovery_point) == (1000, 1000, 0)
        await log.flush()
        assert log.recovery_point == 1000
        assert (bases(log), log.epochs.entries, log.read(Offset(1000), 9)) == ([1000], (), b"")
        log.append_as_follower(from_leader(b"b", 1000), NOW_MS)
        again = await reopened(log, disk)
        assert (bases(again), again.log_start_offset, again.log_end_offset) == ([1000], 1000, 1001)
        again.abandon()

    async def test_an_empty_log_that_starts_elsewhere_remembers(self, log: Log, disk: Disk) -> None:
        log.truncate_fully_and_start_at(Offset(50))

        await log.close()
        again = opened(disk, is_clean=True)

        assert (again.log_start_offset, again.log_end_offset) == (50, 50)
        again.abandon()

    def test_below_the_first_segment_all_goes(self, log: Log) -> None:
        log.truncate_fully_and_start_at(Offset(50))
        log.append_as_follower(from_leader(b"b", 50), NOW_MS)

        log.truncate_to(Offset(20))

        assert (log.log_start_offset, log.log_end_offset, bases(log)) == (20, 20, [20])


class TestRetention:
    """B174."""

    def test_by_time(self, log: Log, disk: Disk) -> None:
        day_ms = 86_400_000
        for number in range(9):
            append(log, b"%d" % number, at_ms=number * day_ms)
        assert bases(log) == [0, 4, 8]

        assert log.delete_old_segments(10 * day_ms, Offset(9)) == 0
        assert log.delete_old_segments(10 * day_ms + 1, Offset(9)) == 1

        assert (bases(log), log.log_start_offset) == ([4, 8], 4)
        with pytest.raises(OffsetOutOfRange):
            log.read(Offset(3), 1)
        deleted = [name for name in disk.list(FOLDER) if name.endswith(".deleted")]
        assert deleted == [f"{0:020}{kind}.deleted" for kind in (".index", ".log", ".timeindex")]
        log.purge(10 * day_ms + 60_000)
        assert f"{0:020}.log.deleted" in disk.list(FOLDER)
        log.purge(10 * day_ms + 60_001)
        assert f"{0:020}.log.deleted" not in disk.list(FOLDER)

    def test_nothing_from_the_high_watermark_on(self, log: Log) -> None:
        append(log, *[b"a"] * 9, at_ms=0)

        for high_watermark, left in ((3, [0, 4, 8]), (4, [4, 8]), (8, [8])):
            log.delete_old_segments(10**12, Offset(high_watermark))
            assert bases(log) == left

    def test_the_active_segment_rolls_before_it_goes(self, log: Log) -> None:
        append(log, *[b"a"] * 9, at_ms=0)

        assert log.delete_old_segments(10**12, Offset(9)) == 3
        assert log.delete_old_segments(10**12, Offset(9)) == 0

        assert (bases(log), log.log_start_offset, log.log_end_offset) == ([9], 9, 9)
        append(log, b"b")
        assert log.log_end_offset == 10

    def test_by_size(self, disk: Disk) -> None:
        size = 4 * len(a_batch(b"a"))
        log = opened(disk, replace(SMALL, retention_bytes=size, retention_ms=-1))
        append(log, *[b"a"] * 11)

        log.delete_old_segments(10**15, Offset(11))

        assert bases(log) == [4, 8]
        log.abandon()

    def test_what_is_before_the_logs_start_goes_even_if_all_else_is_kept(self, disk: Disk) -> None:
        log = opened(disk, replace(SMALL, cleanup_policy=frozenset({CleanupPolicy.COMPACT})))
        append(log, *[b"a"] * 9, at_ms=0)
        assert log.delete_old_segments(10**15, Offset(9)) == 0

        log.move_log_start_offset(Offset(7))
        log.delete_old_segments(NOW_MS, Offset(9))

        assert (bases(log), log.log_start_offset) == ([4, 8], 7)
        assert log.epochs.entries == ((0, 7),)
        with pytest.raises(OffsetOutOfRange):
            log.move_log_start_offset(Offset(10))
        log.abandon()


class TestFlush:
    async def test_the_recovery_point_moves(self, log: Log) -> None:
        append(log, *[b"a"] * 9)

        await log.flush(Offset(5))
        assert log.recovery_point == 5
        await log.flush(Offset(3))
        assert log.recovery_point == 5
        await log.flush(Offset(99))
        assert log.recovery_point == 9

    async def test_an_empty_log_has_nothing_to_flush(self, log: Log, disk: Disk) -> None:
        log.begin_epoch(LeaderEpoch(1))

        await log.flush()

        assert disk.list() == ()

    def test_by_messages_and_time(self, disk: Disk) -> None:
        log = opened(disk, LogConfig(flush_messages=3, flush_ms=100))
        assert not log.is_flush_due(10**9)
        append(log, b"a", b"b", at_ms=1000)

        assert [log.is_flush_due(now_ms) for now_ms in (1000, 1099, 1100)] == [False, False, True]
        append(log, b"c", at_ms=1000)
        assert log.is_flush_due(1000)
        log.abandon()

    async def test_a_truncation_meanwhile_takes_from_it(self) -> None:
        async def truncate() -> None:
            log.truncate_to(Offset(2))
            append(log, b"new")

        disk = SimulatedDisk(Random(1), delay=truncate)
        log = opened(disk)
        append(log, *[b"a"] * 3)

        await log.flush()

        assert log.recovery_point == 2

    async def test_segments_may_go_meanwhile(self) -> None:
        async def go() -> None:
            log.delete_old_segments(10**12, Offset(9))

        disk = SimulatedDisk(Random(1), delay=go)
        log = opened(disk)
        append(log, *[b"a"] * 9, at_ms=0)

        await log.flush()

        assert (log.log_start_offset, log.recovery_point) == (9, 9)


class TestEnds:
    async def test_what_is_closed_opens_as_it_was(self, log: Log, disk: Disk) -> None:
        for number in range(11):
            append(log, b"%d" % number, epoch=number // 3, at_ms=NOW_MS + number % 4)
        before = read_all(log), log.epochs.entries

        again = await reopened(log, disk)

        assert (read_all(again), again.epochs.entries) == before
        assert (again.log_end_offset, again.recovery_point) == (11, 11)
        assert again.offset_for_timestamp(NOW_MS + 3).offset == 3
        append(again, b"more", epoch=4)
        check_indexes(again, disk)
        again.abandon()

    async def test_a_lost_index_is_made_again(self, log: Log, disk: Disk) -> None:
        for number in range(11):
            append(log, b"a", at_ms=NOW_MS + number)
        await log.close()
        before = {name: content(disk, f"{FOLDER}/{name}") for name in disk.list(FOLDER)}
        for name in list(before):
            if name.endswith("index"):
                disk.remove(f"{FOLDER}/{name}")

        again = opened(disk, is_clean=True)

        after = {name: content(disk, f"{FOLDER}/{name}") for name in disk.list(FOLDER)}
        assert after == before
        check_indexes(again, disk)
        again.abandon()

    def test_a_deleted_log_leaves_nothing(self, log: Log, disk: Disk) -> None:
        append(log, *[b"a"] * 9)

        log.rename("orders-0.abc-delete")
        append(log, b"still there")
        assert disk.list() == ("orders-0.abc-delete",)
        log.delete()

        assert disk.list() == ()

    async def test_what_a_cleaner_put_in_place_is_read(self, log: Log, disk: Disk) -> None:
        append(log, *[b"a"] * 12)
        data = content(disk, log.segments[0].path(".log"))
        kept = data[: len(data) // 4]  # the first of four batches
        for base in bases(log)[:2]:
            for kind in (".log", ".index", ".timeindex"):
                disk.remove(f"{FOLDER}/{base:020}{kind}")
        file = disk.open(f"{FOLDER}/{0:020}.log", create=True)
        file.append(kept)
        file.close()

        log.reload_segments([Offset(0), Offset(4)], Offset(0))

        assert [header.base_offset for header in headers_of(log)] == [0, 8, 9, 10, 11]
        again = await reopened(log, disk)
        assert [header.base_offset for header in headers_of(again)] == [0, 8, 9, 10, 11]
        again.abandon()


def test_a_megabyte_that_may_be_written_to_is_not_copied(tmp_path: Path) -> None:
    log = opened(RealDisk(tmp_path), LogConfig(max_message_bytes=2 << 20))
    data = a_batch(b"x" * (1 << 20))
    append(log, b"first")

    tracemalloc.start()
    try:
        log.append_as_leader(data, EPOCH, NOW_MS)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 100_000
    assert log.read(Offset(1), 1) == data
    log.abandon()


@pytest.mark.parametrize("sizes", [[1 << 20], [40_000] * 9, [100, 200_000, 100], [100] * 5])
def test_what_may_not_be_written_to_is_stored_as_if_it_might(disk: Disk, sizes: list[int]) -> None:
    config = LogConfig(segment_bytes=1_500_000, max_message_bytes=2 << 20)
    data = b"".join(bytes(a_batch(b"x" * size, b"y")) for size in sizes)
    logs = [Log.open(disk, name, config, now_ms=0, is_clean=True) for name in ("a-0", "b-0")]
    for _ in range(3):
        logs[0].append_as_leader(bytearray(data), LeaderEpoch(7), NOW_MS)
        logs[1].append_as_leader(memoryview(data), LeaderEpoch(7), NOW_MS)

    stored, expected = (
        [segment.file.read_at(0, segment.size) for segment in log.segments] for log in logs
    )
    assert stored == expected
    found = list(batches(b"".join(stored)))
    assert [batch.header.base_offset for batch in found] == list(range(0, 6 * len(sizes), 2))
    for batch in found:
        verify(batch)
    for log in logs:
        log.abandon()


def test_a_megabyte_that_may_not_be_written_to_is_not_copied_either(tmp_path: Path) -> None:
    log = opened(RealDisk(tmp_path), LogConfig(max_message_bytes=2 << 20))
    data = bytes(a_batch(b"x" * (1 << 20)))
    log.append_as_leader(data, EPOCH, NOW_MS)
    tracemalloc.start()
    log.append_as_leader(data, EPOCH, NOW_MS)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert most < 100_000
    log.abandon()


def test_an_empty_log_is_small() -> None:
    log = opened(SimulatedDisk(Random(1)))

    for each in (log, log.epochs, log._segments):
        assert not hasattr(each, "__dict__")
    assert log._turn is None
