"""What is left of a log when the power goes, or its files are not what they were (B171, I-23)."""

import copy
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from actors.broker.log.config import CleanupPolicy, LogConfig
from actors.broker.log.log import Log
from runtime.disk import RealDisk
from runtime.files import Disk, File
from runtime.simulation.disk import SimulatedDisk
from tests.actors.broker.log.logs import (
    FOLDER,
    NOW_MS,
    SMALL,
    append,
    check_indexes,
    content,
    from_leader,
    headers_of,
    now,
    opened,
    read_all,
)
from wire.errors import KafkaStorageError
from wire.ids import Offset
from wire.records import batches

Tree = dict[str, bytes]


@pytest.fixture(params=["real", "simulated"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    return RealDisk(tmp_path) if request.param == "real" else SimulatedDisk(Random(1))


def tree(disk: Disk) -> Tree:
    return {name: content(disk, f"{FOLDER}/{name}") for name in disk.list(FOLDER)}


def disk_with(files: Tree) -> SimulatedDisk:
    disk = SimulatedDisk(Random(1))
    disk.make_directory(FOLDER)
    for name, data in files.items():
        write(disk, name, data)
    return disk


def write(disk: Disk, name: str, data: bytes) -> None:
    with closing(disk.open(f"{FOLDER}/{name}", create=True)) as file:
        file.truncate(0)
        file.append(data)


def check_recovered(disk: Disk, appended: bytes, recovery_point: Offset) -> Log:
    """A prefix, at least to the recovery point; indexes and epochs true; and it goes on."""
    log = opened(disk, recovery_point=recovery_point)
    found = read_all(log)
    headers = [batch.header for batch in batches(found)]
    assert appended.startswith(found)
    assert log.log_end_offset == (headers[-1].next_offset if headers else 0) >= recovery_point
    check_indexes(log, disk)
    for segment in log.segments:  # retention by time asks for the latest
        ends = segment.base_offset, segment.next_offset
        times = [each.max_timestamp_ms for each in headers if ends[0] <= each.base_offset < ends[1]]
        assert segment.times.last.timestamp_ms == max(times, default=-1)
    epochs: dict[int, int] = {}
    for header in headers:
        epochs.setdefault(header.partition_leader_epoch, header.base_offset)
    assert log.epochs.entries == tuple(epochs.items())
    append(log, b"goes on", epoch=9)
    assert read_all(log)[: len(found)] == found
    return log


def crashes(durable: Tree, full: Tree) -> Iterator[Tree]:
    """Each file cut at each byte that is not durable, while all others are full, or empty."""
    shortest = {name: durable.get(name, b"") for name in full}
    for others in (full, shortest):
        for name, data in full.items():
            for length in range(len(shortest[name]), len(data) + 1):
                yield {**others, name: data[:length]}


def names_lost(durable: Tree, full: Tree, log: Log) -> Iterator[Tree]:
    """The newest names missing, so many of them, with all bytes of the others."""
    made = [
        f"{segment.base_offset:020}{kind}"
        for segment in log.segments
        for kind in (".log", ".index", ".timeindex")
    ]
    fresh = [name for name in made if name not in durable]
    for kept in range(len(fresh) + 1):
        yield {name: data for name, data in full.items() if name not in fresh[kept:]}


@pytest.mark.parametrize("flush_after", [None, 2, 3, 4, 5, 7, 8, 11])
def test_a_crash_at_any_byte_of_appends_rolls_and_flushes_leaves_a_prefix(
    flush_after: int | None,
) -> None:
    disk = SimulatedDisk(Random(1))
    log = opened(disk)
    for number in range(12):
        append(log, b"%02d" % number, epoch=number // 3, at_ms=NOW_MS + number)
        if number == flush_after:
            now(log.flush())
    assert len(log.segments) == 3
    appended, recovery_point, full = read_all(log), log.recovery_point, tree(disk)
    platter = copy.deepcopy(disk)
    platter.crash(keep_nothing=True)
    durable = tree(platter) if platter.exists(FOLDER) else {}

    count = 0
    for files in (*crashes(durable, full), *names_lost(durable, full, log)):
        check_recovered(disk_with(files), appended, recovery_point)
        count += 1

    assert count >= len(full)


@pytest.mark.parametrize("seed", range(150))
def test_whatever_a_disk_may_lose_leaves_a_prefix(seed: int) -> None:
    random = Random(seed)
    disk = SimulatedDisk(random)
    log = opened(disk)
    for number in range(random.randint(1, 30)):
        append(log, b"x" * random.randint(1, 90), epoch=number // 7, at_ms=NOW_MS + number)
        if random.random() < 0.15:
            now(log.flush(Offset(random.randint(0, log.log_end_offset))))
    appended, recovery_point = read_all(log), log.recovery_point

    disk.crash()

    again = check_recovered(disk, appended, recovery_point)
    appended = read_all(again)
    disk.crash()
    check_recovered(disk, appended, recovery_point)


@pytest.mark.parametrize("seed", range(100))
def test_what_was_cut_and_flushed_does_not_come_back(seed: int) -> None:
    random = Random(seed)
    disk = SimulatedDisk(random)
    log = opened(disk)
    append(log, *[b"old"] * random.randint(1, 20))
    if random.random() < 0.5:
        now(log.flush())
    log.truncate_to(Offset(random.randrange(log.log_end_offset)))
    now(log.flush())
    append(log, *[b"new"] * random.randint(0, 20), epoch=1)
    appended, recovery_point = read_all(log), log.recovery_point

    disk.crash()

    check_recovered(disk, appended, recovery_point)


def test_the_first_bad_batch_ends_the_log_and_later_segments_go(disk: Disk) -> None:
    """A flipped bit, in each byte of a batch that is not durable."""
    log = opened(disk)
    append(log, *(b"%02d" % number for number in range(12)))
    whole, size = read_all(log), headers_of(log)[0].size_in_bytes
    log.abandon()
    files = tree(disk)
    name = f"{4:020}.log"

    for at in range(size, 2 * size):
        spoilt = bytearray(files[name])
        spoilt[at] ^= 1
        small = disk_with({**files, name: bytes(spoilt)})
        again = opened(small, recovery_point=Offset(4))
        if size + 12 <= at < size + 16:  # the epoch is outside the CRC: it only must not fall
            assert again.log_end_offset in {5, 6}
        else:
            assert read_all(again) == whole[: 5 * size]
            assert [segment.base_offset for segment in again.segments] == [0, 4]
        check_indexes(again, small)


def test_what_lies_before_the_recovery_point_is_not_read(tmp_path: Path) -> None:
    disk = CountingDisk(tmp_path)
    config = LogConfig(segment_bytes=1 << 20, max_message_bytes=1 << 20)
    log = opened(disk, config)
    append(log, *[b"x" * 5000] * 500)
    now_end = log.log_end_offset
    log.abandon()

    for recovery_point in (now_end, Offset(now_end - 10), Offset(150)):
        disk.bytes_read = disk.reads = 0
        again = opened(disk, config, recovery_point=recovery_point)
        assert again.log_end_offset == now_end
        assert disk.bytes_read < (now_end - recovery_point) * 5100 + 40_000
        assert disk.reads < 60
        again.abandon()


def test_a_clean_log_is_opened_without_its_data(tmp_path: Path) -> None:
    disk = CountingDisk(tmp_path)
    log = opened(disk, LogConfig())
    append(log, *[b"x" * 5000] * 2000)
    end = log.log_end_offset
    for segment in log.segments:
        segment.close_indexes()
    log.abandon()
    disk.bytes_read = 0

    again = opened(disk, LogConfig(), is_clean=True)

    assert (again.log_end_offset, again.recovery_point) == (end, end)
    assert disk.bytes_read < 20_000
    again.abandon()


class CountingDisk(RealDisk):
    """Counts what is read."""

    bytes_read = 0
    reads = 0

    def open(self, path: str, *, create: bool = False, mapped: bool = False) -> File:
        file = super().open(path, create=create, mapped=mapped)
        if path.endswith(".log"):
            read_at = file.read_at

            def counting(position: int, length: int) -> bytes:
                data = read_at(position, length)
                self.bytes_read += len(data)
                self.reads += 1
                return data

            file.read_at = counting  # type: ignore[method-assign]
        return file


@pytest.mark.parametrize("lost", [".index", ".timeindex"])
@pytest.mark.parametrize("found", [None, b"", b"\0" * 240, b"garbage", b"\xff" * 96])
def test_an_index_that_is_lost_or_garbage_is_made_again(
    disk: Disk, lost: str, found: bytes | None
) -> None:
    log = opened(disk)
    append(log, *(b"%02d" % number for number in range(12)))
    appended = read_all(log)
    log.abandon()
    for name in disk.list(FOLDER):
        if name.endswith(lost):
            disk.remove(f"{FOLDER}/{name}")
            if found is not None:
                write(disk, name, found)

    check_recovered(disk, appended, Offset(0)).abandon()


def test_garbage_after_the_durable_part_of_an_index_is_dropped(disk: Disk) -> None:
    config = replace(SMALL, segment_bytes=10_000)
    log = opened(disk, config)
    for number in range(30):
        append(log, b"%02d" % number, at_ms=NOW_MS + number)
    log.abandon()
    files = tree(disk)
    for kind, entry in ((".index", 8), (".timeindex", 12)):
        name = f"{0:020}{kind}"
        write(disk, name, files[name][: 3 * entry] + bytes(40 * entry))

    again = opened(disk, config, recovery_point=Offset(12))

    check_indexes(again, disk)
    assert again.log_end_offset == 30
    again.abandon()


def test_leftovers_are_removed_and_strangers_are_not(disk: Disk) -> None:
    log = opened(disk)
    append(log, b"a")
    log.abandon()
    leftovers = [f"{9:020}.log.deleted", f"{9:020}.index.cleaned", f"{9:020}.timeindex"]
    leftovers += [f"{9:020}.snapshot"]  # of an end that the log no longer has
    strangers = ["notes.txt", f"{9:020}.log.swap", "9.log"]
    for name in leftovers + strangers:
        write(disk, name, b"?")

    again = opened(disk)

    assert set(disk.list(FOLDER)) & {*leftovers, *strangers} == set(strangers)
    assert [segment.base_offset for segment in again.segments] == [0]
    again.abandon()


async def test_epochs_that_cannot_be_read_are_found_in_the_log(disk: Disk) -> None:
    log = opened(disk)
    for number in range(9):
        append(log, b"a", epoch=number // 2)
    await log.close()
    entries = log.epochs.entries
    write(disk, "leader-epoch-checkpoint", b"0\n1\nnonsense\n")

    again = opened(disk, is_clean=True)

    assert (again.epochs.entries, again.log_end_offset) == (entries, 9)
    again.abandon()


async def test_a_log_said_to_be_clean_whose_end_is_not_is_refused(disk: Disk) -> None:
    log = opened(disk)
    append(log, b"a", b"b")
    await log.close()
    name = f"{0:020}.log"
    write(disk, name, tree(disk)[name][:80])

    with pytest.raises(KafkaStorageError, match="header"):
        opened(disk, is_clean=True)


def test_what_was_deleted_by_the_checkpoint_is_not_there_after_a_crash(disk: Disk) -> None:
    log = opened(disk)
    append(log, *[b"a"] * 6)
    log.abandon()

    again = opened(disk, log_start_offset=Offset(5))
    assert (again.log_start_offset, again.log_end_offset) == (5, 6)
    again.abandon()
    beyond = opened(disk, log_start_offset=Offset(50))

    assert (beyond.log_start_offset, beyond.log_end_offset, beyond.segments) == (50, 50, ())
    assert beyond.epochs.entries == ()
    append(beyond, b"b")
    assert beyond.log_end_offset == 51
    beyond.abandon()


def test_gaps_that_compaction_left_are_kept(disk: Disk) -> None:
    config = replace(SMALL, cleanup_policy=frozenset({CleanupPolicy.COMPACT}))
    log = opened(disk, config)
    for offset in (0, 5, 6, 17, 30, 31, 40, 50, 60):
        log.append_as_follower(from_leader(b"%02d" % offset, offset), NOW_MS)
    appended = read_all(log)
    log.abandon()

    again = opened(disk, config, recovery_point=Offset(6))

    assert (read_all(again), again.log_end_offset) == (appended, 61)
    again.abandon()


@pytest.mark.parametrize("index_bytes", [10 << 20, 48])
def test_a_recovery_makes_the_indexes_that_the_appends_made(disk: Disk, index_bytes: int) -> None:
    config = replace(SMALL, segment_bytes=9999, segment_index_bytes=index_bytes)
    log = opened(disk, config)
    for number in range(40):
        append(log, b"x" * (number % 7), at_ms=NOW_MS + number * 5 % 13)
    for segment in log.segments:
        segment.close_indexes()
    before = {name: data for name, data in tree(disk).items() if "index" in name}
    log.abandon()

    again = opened(disk, config)

    assert {name: data for name, data in tree(disk).items() if "index" in name} == before
    assert len(before) >= 2
    again.abandon()
