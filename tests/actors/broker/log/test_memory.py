"""Producers of a log, through truncations, restarts and power cuts: snapshots tell no lies."""

import struct
from contextlib import closing
from random import Random
from typing import Any

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.broker.log.cleaner import clean
from actors.broker.log.config import CleanupPolicy, LogConfig
from actors.broker.log.log import Log
from actors.broker.log.producers import OutOfOrderSequence, ProducerStates
from actors.broker.log.snapshots import decode_snapshot, encode_snapshot
from runtime.files import Disk
from runtime.simulation.disk import SimulatedDisk
from tests.actors.broker.log.logs import (
    EPOCH,
    FOLDER,
    NOW_MS,
    a_batch,
    append,
    files_of,
    headers_of,
    now,
    opened,
    read_all,
)
from tests.actors.broker.log.test_producers import header
from wire.errors import CorruptRecordBatch, InvalidRecord
from wire.ids import LeaderEpoch, Offset, ProducerEpoch, ProducerId
from wire.markers import Marker, encode_marker
from wire.records import Attributes, ProducerStamp, Record, decode_header, encode_batch

SMALL = LogConfig(segment_bytes=400, index_interval_bytes=100, retention_bytes=0)


def stamped(
    sequence: int, *, count: int = 1, epoch: int = 0, who: int = 7, attributes: int = 0
) -> bytearray:
    """As an idempotent producer sends it."""
    records = [Record(offset=Offset(n), timestamp_ms=NOW_MS, value=b"v") for n in range(count)]
    stamp = ProducerStamp(
        producer_id=ProducerId(who), producer_epoch=ProducerEpoch(epoch), base_sequence=sequence
    )
    return encode_batch(records, producer=stamp, attributes=attributes)


def send(log: Log, *sequences: int, who: int = 7) -> list[int]:
    """A batch for each; where they are."""
    return [
        log.append_as_leader(stamped(each, who=who), EPOCH, NOW_MS).first_offset
        for each in sequences
    ]


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(Random(1))


def snapshots(disk: Disk) -> list[int]:
    return sorted(files_of(disk, ".snapshot"))


def test_a_batch_that_comes_again_is_not_appended(disk):
    log = opened(disk, SMALL)
    append(log, b"a")
    assert send(log, 0, 1) == [1, 2]

    again = log.append_as_leader(stamped(0), EPOCH, NOW_MS)

    assert (again.is_duplicate, again.first_offset, again.last_offset) == (True, 1, 1)
    assert log.log_end_offset == 3
    with pytest.raises(OutOfOrderSequence):
        send(log, 3)
    assert log.log_end_offset == 3


def test_what_a_disk_refused_was_not_taken(disk):
    log = opened(disk, SMALL)
    send(log, 0)
    disk.fill()
    with pytest.raises(Exception, match="does not fit"):
        send(log, 1)

    assert log.producers.states.get(ProducerId(7)).last_sequence == 0


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (stamped(0) + stamped(1), "2 batches of a producer"),
        (a_batch(b"a") + stamped(0), "2 batches of a producer"),
        (stamped(-1), "sequence -1"),
        (stamped(0, epoch=-1), "epoch -1"),
    ],
)
def test_a_stamp_that_makes_no_sense_is_refused(disk, data, why):
    log = opened(disk, SMALL)

    with pytest.raises(InvalidRecord, match=why):
        log.append_as_leader(data, EPOCH, NOW_MS)
    assert (log.log_end_offset, log.producers) == (0, None)


def test_a_log_without_producers_has_no_snapshot(disk):
    log = opened(disk, SMALL)
    append(log, *[b"v"] * 20)
    now(log.close())

    assert log.producers is None
    assert snapshots(disk) == []


def test_a_snapshot_stands_where_producers_began_where_segments_begin_and_at_the_end(disk):
    log = opened(disk, SMALL)
    append(log, b"a")
    send(log, *range(12))
    bases = [each.base_offset for each in log.segments]
    assert len(bases) > 2

    now(log.close())

    assert snapshots(disk) == sorted({1, *bases[1:], 13})


def test_a_clean_start_reads_the_snapshot_alone(disk, monkeypatch):
    log = opened(disk, SMALL)
    send(log, *range(12))
    now(log.close())
    monkeypatch.setattr(ProducerStates, "take", lambda *_: pytest.fail("it walked the log"))

    again = opened(disk, SMALL, is_clean=True)

    assert again.producers.states.get(ProducerId(7)).last_sequence == 11
    assert again.append_as_leader(stamped(11), EPOCH, NOW_MS).first_offset == 11


def test_after_an_unclean_start_a_duplicate_is_known_from_the_log(disk):
    log = opened(disk, SMALL)
    append(log, b"a")
    send(log, 0, 1)
    log.abandon()

    again = opened(disk, SMALL)

    assert again.append_as_leader(stamped(1), EPOCH, NOW_MS).is_duplicate
    assert send(again, 2) == [3]


def test_after_a_power_cut_what_is_left_is_known(disk):
    log = opened(disk, SMALL)
    send(log, 0, 1)
    now(log.flush())
    point = log.recovery_point
    send(log, 2)
    disk.crash(keep_nothing=True)

    again = opened(disk, SMALL, recovery_point=point)

    assert again.log_end_offset == 2
    assert again.append_as_leader(stamped(1), EPOCH, NOW_MS).is_duplicate
    assert send(again, 2) == [2]


def test_a_snapshot_that_is_not_whole_is_passed_over(disk):
    log = opened(disk, SMALL)
    send(log, *range(12))
    now(log.close())
    with disk_file(disk, 12) as file:
        file.write_at(10, b"\xff\xff")

    again = opened(disk, SMALL, is_clean=True)

    assert again.append_as_leader(stamped(11), EPOCH, NOW_MS).is_duplicate
    assert snapshots(disk)[-1] < 12


def test_without_any_whole_snapshot_the_log_itself_tells(disk):
    log = opened(disk, SMALL)
    send(log, *range(12))
    now(log.close())
    for offset in snapshots(disk):
        with disk_file(disk, offset) as file:
            file.truncate(3)

    again = opened(disk, SMALL, is_clean=True)

    assert send(again, 12) == [12]
    assert again.append_as_leader(stamped(8), EPOCH, NOW_MS).first_offset == 8


def disk_file(disk: Disk, offset: int) -> Any:
    return closing(disk.open(f"{FOLDER}/{offset:020}.snapshot"))


def test_a_truncation_takes_back_what_was_known(disk):
    log = opened(disk, SMALL)
    send(log, *range(12))
    now(log.flush())

    log.truncate_to(Offset(5))

    assert log.producers.states.get(ProducerId(7)).last_sequence == 4
    assert send(log, 5) == [5]
    now(log.flush())
    assert max(snapshots(disk)) <= 6


def test_when_all_snapshots_were_lost_a_log_that_is_cut_still_knows_what_is_before(disk):
    log = opened(disk, SMALL)
    send(log, *range(12))
    now(log.close())
    for offset in snapshots(disk):
        disk.remove(f"{FOLDER}/{offset:020}.snapshot")
    log = opened(disk, SMALL)
    now(log.close())
    log = opened(disk, SMALL, is_clean=True)

    log.truncate_to(Offset(6))
    log.abandon()

    again = opened(disk, SMALL, recovery_point=Offset(6))
    assert again.producers.states.get(ProducerId(7)).last_sequence == 5


def test_what_was_noted_and_not_yet_written_is_taken_back_too(disk):
    log = opened(disk, SMALL)
    send(log, *range(12))

    log.truncate_to(Offset(5))
    append(log, *[b"longer than what was there"] * 12)
    now(log.flush())
    log.abandon()

    again = opened(disk, SMALL, recovery_point=log.recovery_point)
    assert again.producers.states.get(ProducerId(7)).last_sequence == 4


def test_a_snapshot_after_the_recovery_point_is_not_believed(disk):
    """Its log was cut there, and only the cut was durable when the power went."""
    log = opened(disk, SMALL)
    send(log, 0, 1)
    now(log.flush())
    with closing(disk.open(f"{FOLDER}/{3:020}.snapshot", create=True)) as file:
        file.append(encode_snapshot(ProducerStates()))
    append(log, b"v")
    log.abandon()

    again = opened(disk, SMALL, recovery_point=Offset(2))

    assert again.producers.states.get(ProducerId(7)).last_sequence == 1


def test_the_oldest_snapshot_is_kept_for_a_log_that_is_cut_far_back(disk):
    log = opened(disk, LogConfig())
    append(log, b"plain")
    send(log, *range(6))
    now(log.close())
    log = opened(disk, LogConfig(), is_clean=True)
    send(log, 6)
    now(log.close())
    log = opened(disk, LogConfig(), is_clean=True)

    assert snapshots(disk) == [1, 8]
    log.truncate_to(Offset(4))
    log.abandon()
    again = opened(disk, LogConfig(), recovery_point=Offset(4))
    assert send(again, 3) == [4]
    with pytest.raises(OutOfOrderSequence):
        send(again, 5)


async def test_compaction_leaves_the_last_batch_of_a_producer_without_its_records(disk):
    config = LogConfig(segment_bytes=400, cleanup_policy=frozenset({CleanupPolicy.COMPACT}))
    log = opened(disk, config)
    keyed = [Record(offset=Offset(0), timestamp_ms=NOW_MS, key=b"k", value=b"v")]
    for sequence in range(3):
        stamp = ProducerStamp(
            producer_id=ProducerId(7), producer_epoch=ProducerEpoch(0), base_sequence=sequence
        )
        log.append_as_leader(encode_batch(keyed, producer=stamp), EPOCH, NOW_MS)
    append(log, *[b"later"] * 12)
    await log.flush()

    await clean(disk, log, config, first_dirty=Offset(0), first_uncleanable=log.recovery_point)

    left = [(h.base_sequence, h.record_count) for h in headers_of(log) if h.producer_id == 7]
    assert left == [(2, 0)]
    for offset in snapshots(disk):
        disk.remove(f"{FOLDER}/{offset:020}.snapshot")
    log.abandon()
    again = opened(disk, config)
    assert again.append_as_leader(encode_batch(keyed, producer=stamp), EPOCH, NOW_MS).is_duplicate


def test_a_log_that_begins_anew_knows_nobody(disk):
    log = opened(disk, SMALL)
    send(log, 0)

    log.truncate_fully_and_start_at(Offset(100))

    assert send(log, 41) == [100]


def test_retention_takes_the_snapshots_along_and_forgets_nobody(disk):
    log = opened(disk, SMALL)
    send(log, *range(12))
    now(log.flush())

    assert log.delete_old_segments(NOW_MS, Offset(12))
    now(log.flush())

    assert min(snapshots(disk)) >= log.segments[0].base_offset
    assert log.append_as_leader(stamped(11), EPOCH, NOW_MS).is_duplicate
    log.abandon()
    again = opened(
        disk, SMALL, recovery_point=log.recovery_point, log_start_offset=log.log_start_offset
    )
    assert again.producers.states.get(ProducerId(7)).last_sequence == 11


def test_a_snapshot_has_kafkas_format():
    """Written by hand, as ProducerStateManager's schema says."""
    states = ProducerStates()
    states.take(header(40, at=100, count=3, epoch=2), NOW_MS)
    states.take(header(0, at=200, who=9), NOW_MS)
    entry = struct.Struct(">qhiqiqiq")
    body = struct.pack(">i", 2) + entry.pack(7, 2, 42, 102, 2, 5, -1, -1)
    body += entry.pack(9, 0, 0, 200, 0, 5, -1, -1)

    assert encode_snapshot(states) == struct.pack(">hI", 1, crc32c(body)) + body
    assert encode_snapshot(ProducerStates()) == bytes.fromhex("0001") + struct.pack(
        ">Ii", crc32c(bytes(4)), 0
    )
    assert list(decode_snapshot(encode_snapshot(states), "x", NOW_MS)) == list(states)


@given(st.binary(max_size=200))
def test_a_snapshot_of_any_bytes_is_whole_or_refused(data: bytes):
    with pytest.raises(CorruptRecordBatch):
        decode_snapshot(data, "x", NOW_MS)


# --- against a model --------------------------------------------------------------------------


class Model:
    """A log, and all batches that were appended and not cut off."""

    def __init__(self, seed: int) -> None:
        self.disk = SimulatedDisk(Random(seed))
        self.log = opened(self.disk, SMALL)
        self.batches: list[Any] = []
        self.next = dict.fromkeys((7, 8, 9), 0)
        self.recovery_point = Offset(0)
        self.old: set[int] = set()  # producers of transactions whose beginning is gone

    def step(self, name: str, number: int) -> None:
        getattr(self, f"_{name}")(number)
        self.check()

    def check(self) -> None:
        """Of each producer in the log its last batch is known, and of nobody one that is gone."""
        states = ProducerStates() if self.log.producers is None else self.log.producers.states
        self.check_transactions(states)
        last = {h.producer_id: h for h in headers_of(self.log) if h.base_sequence >= 0}
        for producer, found in last.items():
            known = states.get(producer)
            assert known is not None
            assert known.batches[-1].last_offset == found.last_offset
            assert known.last_sequence == found.base_sequence + found.last_offset_delta
            assert states.judge(found).last_offset == found.last_offset
        data = [each for each in self.batches if not isinstance(each, tuple)]
        there = {(h.producer_id, h.last_offset) for h in data}
        for known in states:
            assert {(known.producer_id, each.last_offset) for each in known.batches} <= there

    def check_transactions(self, states: ProducerStates) -> None:
        """Those that are open, and those that were aborted, are those that the batches tell of."""
        opened, aborted = {}, []
        for each in self.batches:
            header, marker = each if isinstance(each, tuple) else (each, None)
            if marker is None and header.is_transactional:
                opened.setdefault(header.producer_id, header.base_offset)
            elif marker is not None:
                first = opened.pop(header.producer_id, None)
                if first is not None and not marker.is_committed:
                    aborted.append((header.producer_id, first, header.last_offset))
        start, end = self.log.log_start_offset, self.log.log_end_offset
        # Of one whose beginning was deleted for its age, a kill may leave less.
        old = {each for each, first in opened.items() if first < start}
        recent = {each: first for each, first in opened.items() if each not in old}
        assert {e: first for e, first in states.open.items() if e not in old} == recent
        assert list(states.open.values()) == sorted(states.open.values())
        found = [each[:3] for each in self.log.aborted_in(start, end)]
        whole = [each for each in aborted if each[1] >= start]
        assert [each for each in found if each in whole] == whole
        self.old |= old | {each[0] for each in aborted if each[1] < start}
        assert all(each in whole or each[0] in self.old for each in found)
        assert self.log.last_stable_offset(end) == min([end, *states.open.values()])

    def _send(self, who: int) -> None:
        who = 7 + who % 3
        known = None if self.log.producers is None else self.log.producers.states.get(who)
        sequence = 0 if known is None else known.last_sequence + 1
        if known is not None and known.transaction_offset is not None:
            return  # such a batch is refused
        done = self.log.append_as_leader(stamped(sequence, who=who), LeaderEpoch(0), NOW_MS)
        assert not done.is_duplicate
        self.batches.append(header(sequence, at=done.first_offset, who=who))

    def _send_in_transaction(self, who: int) -> None:
        who = 7 + who % 3
        known = None if self.log.producers is None else self.log.producers.states.get(who)
        sequence = 0 if known is None else known.last_sequence + 1
        batch = stamped(sequence, who=who, attributes=Attributes.TRANSACTIONAL)
        done = self.log.append_as_leader(batch, LeaderEpoch(0), NOW_MS)
        self.batches.append(decode_header(batch))
        assert self.batches[-1].base_offset == done.first_offset

    def _end(self, number: int) -> None:
        marker = Marker(number % 2 == 0, 0)
        batch = encode_marker(ProducerId(7 + number % 3), ProducerEpoch(0), marker, NOW_MS)
        self.log.append_as_leader(batch, LeaderEpoch(0), NOW_MS, is_internal=True)
        self.batches.append((decode_header(batch), marker))

    def _plain(self, count: int) -> None:
        append(self.log, *[b"plain"] * (count % 4))

    def _truncate(self, back: int) -> None:
        offset = Offset(max(self.log.log_start_offset, self.log.log_end_offset - back % 12))
        self.recovery_point = min(self.recovery_point, offset)
        self.log.truncate_to(offset)
        self._cut(self.log.log_end_offset)
        if back % 3 == 0:  # killed between the two
            self._crash(0)
        now(self.log.flush())

    def _start_at(self, offset: int) -> None:
        self.recovery_point = Offset(0)
        self.log.truncate_fully_and_start_at(Offset(offset))
        self.batches.clear()
        now(self.log.flush())

    def _retain(self, back: int) -> None:
        self.log.delete_old_segments(NOW_MS, Offset(max(0, self.log.log_end_offset - back % 8)))

    def _flush(self, back: int) -> None:
        now(self.log.flush(Offset(max(0, self.log.log_end_offset - back % 8))))
        if back % 2:
            self.recovery_point = self.log.recovery_point

    def _reopen(self, _: int) -> None:
        now(self.log.close())
        self.recovery_point = self.log.recovery_point
        self._open(is_clean=True)

    def _crash(self, how: int) -> None:
        start, end = self.log.log_start_offset, self.log.log_end_offset
        if how % 2:
            self.disk.crash()
        else:  # killed: what was written is there
            self.log.abandon()
        self._open(is_clean=False)
        assert self.log.log_start_offset == start
        assert how % 2 or self.log.log_end_offset == end

    def _open(self, *, is_clean: bool) -> None:
        self.log = opened(
            self.disk,
            SMALL,
            is_clean=is_clean,
            recovery_point=self.recovery_point,
            log_start_offset=self.log.log_start_offset,
        )
        self._cut(self.log.log_end_offset)

    def _cut(self, end: int) -> None:
        ends = [each[0] if isinstance(each, tuple) else each for each in self.batches]
        kept = zip(self.batches, ends, strict=True)
        self.batches = [each for each, header in kept if header.next_offset <= end]


STEPS = st.tuples(
    st.sampled_from(
        ["send"] * 4
        + ["send_in_transaction"] * 4
        + ["end"] * 3
        + ["plain", "truncate", "start_at", "retain", "flush", "flush", "reopen", "crash", "crash"]
    ),
    st.integers(0, 40),
)


@settings(deadline=None, max_examples=200)
@given(st.integers(0, 2**32), st.lists(STEPS, max_size=30))
def test_what_is_known_of_producers_is_what_the_log_says(seed: int, steps: list[tuple[str, int]]):
    model = Model(seed)
    for step in steps:
        model.step(*step)
    assert read_all(model.log) is not None
