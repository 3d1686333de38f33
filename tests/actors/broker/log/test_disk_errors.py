"""A disk that refuses leaves the log as it was, and readable."""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from actors.broker.log.log import Log
from runtime.disk import RealDisk
from runtime.files import DiskError, DiskFailed, DiskFull, ReadOnlyDisk
from runtime.simulation.disk import SimulatedDisk
from tests.actors.broker.log.logs import (
    EPOCH,
    FOLDER,
    NOW_MS,
    SMALL,
    a_batch,
    append,
    check_indexes,
    now,
    opened,
    read_all,
)
from tests.runtime.test_disks import (
    OVERRIDE_PERMISSIONS,
    effective_capabilities,
    no_file_longer_than,
    set_effective_capabilities,
)
from wire.errors import KafkaStorageError
from wire.ids import Offset


@contextlib.contextmanager
def refused(cause: type[DiskError]) -> Iterator[None]:
    with pytest.raises(KafkaStorageError, match=FOLDER) as caught:
        yield
    assert isinstance(caught.value.__cause__, cause)


def state(log: Log) -> tuple[object, ...]:
    segments = [(each.base_offset, each.size, each.next_offset) for each in log.segments]
    ends = log.log_start_offset, log.log_end_offset, log.recovery_point
    return segments, ends, log.epochs.entries, read_all(log)


def test_a_disk_that_is_full_after_any_byte_takes_an_append_or_leaves_it() -> None:
    data = b"".join(bytes(a_batch(b"%02d" % number)) for number in range(6))
    taken = []
    for room in range(600):
        disk = SimulatedDisk(Random(1), capacity=220 + room)
        log = opened(disk)
        append(log, b"00", b"01")
        before = state(log)

        with contextlib.suppress(KafkaStorageError):
            log.append_as_leader(data, EPOCH, NOW_MS + 1)
            taken.append(room)
        if room not in taken:
            assert state(log) == before
            check_indexes(log, disk)
            disk._drive.capacity += 10_000
            log.append_as_leader(data, EPOCH, NOW_MS + 1)
        assert log.log_end_offset == 8
        check_indexes(log, disk)
        recovered = opened(disk)
        assert read_all(recovered) == read_all(log)

    assert taken == list(range(taken[0], 600))


def test_a_full_disk_before_the_first_append() -> None:
    disk = SimulatedDisk(Random(1), capacity=10)
    log = opened(disk)

    with refused(DiskFull):
        append(log, b"a")

    assert (log.log_end_offset, log.segments, log.read(Offset(0), 9)) == (0, (), b"")
    assert opened(disk).log_end_offset == 0


def test_a_disk_that_may_not_be_written() -> None:
    disk = SimulatedDisk(Random(1))
    log = opened(disk)
    append(log, *[b"a"] * 9)
    before = state(log)

    disk.make_read_only()
    with refused(ReadOnlyDisk):
        append(log, b"b")
    with refused(ReadOnlyDisk):
        log.truncate_to(Offset(2))
    with refused(ReadOnlyDisk):
        log.delete_old_segments(10**15, Offset(8))
    with refused(ReadOnlyDisk):
        log.truncate_fully_and_start_at(Offset(50))
    assert state(log) == before

    disk.heal()
    append(log, b"b")
    assert log.log_end_offset == 10


@pytest.mark.parametrize("kind", [".log", ".index", ".timeindex"])
def test_one_file_that_fails_leaves_what_was_there(kind: str) -> None:
    disk = SimulatedDisk(Random(1))
    log = opened(disk, replace(SMALL, index_interval_bytes=0))
    append(log, b"a", b"b")
    before = state(log)

    disk.fail(f"{FOLDER}/{0:020}{kind}")
    for _ in range(2):
        with refused(DiskFailed):
            append(log, b"c", at_ms=NOW_MS + 1)
    disk.heal()

    assert state(log) == before
    with contextlib.suppress(KafkaStorageError):
        append(log, b"c", at_ms=NOW_MS + 1)  # not once the files are longer than they should be
    check = opened(disk, replace(SMALL, index_interval_bytes=0))
    check_indexes(check, disk)
    assert read_all(check).startswith(before[-1])


def test_a_failed_flush_moves_nothing() -> None:
    disk = SimulatedDisk(Random(1))
    log = opened(disk)
    append(log, b"a", b"b")

    disk.fail(FOLDER)
    with refused(DiskFailed):
        now(log.flush())
    assert log.recovery_point == 0

    disk.heal()
    now(log.flush())
    disk.crash(keep_nothing=True)
    assert opened(disk, recovery_point=Offset(2)).log_end_offset == 2


def test_a_close_that_fails_says_so() -> None:
    disk = SimulatedDisk(Random(1))
    log = opened(disk)
    append(log, b"a", b"b")

    disk.fail(FOLDER)
    with refused(DiskFailed):
        now(log.close())


def test_a_read_from_a_failed_disk_says_so() -> None:
    disk = SimulatedDisk(Random(1))
    log = opened(disk)
    append(log, b"a")

    disk.fail(FOLDER)

    with refused(DiskFailed):
        log.read(Offset(0), 9)
    with refused(DiskFailed):
        opened(disk)


@contextlib.contextmanager
def may_not_be_written(folder: Path) -> Iterator[None]:
    """Even if this user is root."""
    paths = [folder, *folder.rglob("*")]
    capabilities = effective_capabilities()
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
    set_effective_capabilities(capabilities & ~OVERRIDE_PERMISSIONS)
    try:
        yield
    finally:
        set_effective_capabilities(capabilities)
        for path in paths:
            path.chmod(0o755 if path.is_dir() else 0o644)


def test_a_real_folder_that_may_not_be_written(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    log = opened(disk)
    append(log, b"a", b"b")
    now_there = read_all(log)
    log.abandon()

    with may_not_be_written(tmp_path):
        again = opened(disk, is_clean=True)
        assert read_all(again) == now_there
        with refused(ReadOnlyDisk):
            append(again, b"c")
        with refused(ReadOnlyDisk):
            again.truncate_to(Offset(1))
        assert (read_all(again), again.log_end_offset) == (now_there, 2)
        again.abandon()
        fresh = Log.open(disk, "new-0", SMALL, now_ms=NOW_MS, is_clean=True)
        with pytest.raises(KafkaStorageError, match="new-0"):
            append(fresh, b"a")
        assert fresh.log_end_offset == 0


def test_a_real_disk_that_is_full(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    log = opened(disk)
    append(log, b"a", b"b")
    before = state(log)

    with no_file_longer_than(log.segments[0].size + 50), refused(DiskFull):
        append(log, b"c")

    assert state(log) == before
    append(log, b"c")
    check_indexes(log, disk)
    log.abandon()
