"""All logs of a disk open after whatever happened to it (B171, B172, B173)."""

from collections.abc import Callable
from contextlib import closing
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest

from actors.broker.log import checkpoints
from actors.broker.log.checkpoints import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    read_offsets,
)
from actors.broker.log.config import CleanupPolicy, LogConfig
from actors.broker.log.folders import NotALog, folder_to_delete, parse_folder
from actors.broker.log.log import Log
from actors.broker.log.manager import LogManager
from runtime.disk import RealDisk
from runtime.files import Disk
from runtime.simulation.disk import SimulatedDisk
from tests.actors.broker.log.test_checkpoints import FragileDisk, at_every_step
from wire.errors import CorruptRecordBatch, KafkaStorageError
from wire.ids import TopicPartition
from wire.records import Record, batches, decode_records, encode_batch

A, B, C = TopicPartition("a", 0), TopicPartition("b", 1), TopicPartition("c", 2)
CONFIG = LogConfig(segment_bytes=300, file_delete_delay_ms=1000)
COMPACTED = LogConfig(
    segment_bytes=300, cleanup_policy=frozenset({CleanupPolicy.COMPACT}), delete_retention_ms=0
)


def numbers() -> Callable[[], str]:
    source = count(1)
    return lambda: f"{next(source):032x}"


async def start(disk: Disk, config: LogConfig = CONFIG, now_ms: int = 0) -> LogManager:
    return await LogManager.open(disk, lambda _: config, now_ms=now_ms, unique_hex=numbers())


def append(log: Log, *values: str, key: str = "k", epoch: int = 0) -> None:
    for value in values:
        record = Record(offset=0, timestamp_ms=0, key=key.encode(), value=value.encode())
        log.append_as_leader(encode_batch([record]), epoch, 0)


def values(log: Log) -> str:
    """All that a log holds, a letter a record."""
    found, offset = [], log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, 1 << 20)
        for batch in batches(data):
            found += [each.value.decode() for each in decode_records(batch)]
            offset = batch.header.next_offset
    return "".join(found)


def let_go(manager: LogManager) -> None:
    """As a process does that ends without a word."""
    for log in manager.logs.values():
        log.abandon()


@pytest.fixture(params=["real", "simulated"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    return RealDisk(tmp_path / "node") if request.param == "real" else SimulatedDisk(Random(1))


class TestStart:
    async def test_an_empty_disk_has_no_logs(self, disk):
        manager = await start(disk)

        assert manager.logs == {}
        assert manager.strangers == ()
        assert manager.failures == {}

    async def test_a_log_has_no_files_before_its_first_append(self, disk):
        manager = await start(disk)

        log = manager.get_or_create(A, CONFIG, 0)
        assert not disk.exists("a-0")

        append(log, "x")
        assert disk.is_directory("a-0")
        assert manager.get_or_create(A, CONFIG, 0) is log
        let_go(manager)

    async def test_what_was_flushed_is_there_after_an_unclean_stop(self, disk):
        manager = await start(disk)
        append(manager.get_or_create(A, CONFIG, 0), *"abcdefgh")
        append(manager.get_or_create(B, CONFIG, 0), *"xyz")
        for log in manager.logs.values():
            await log.flush()
        await manager.checkpoint_recovery_points()
        let_go(manager)

        again = await start(disk)

        assert {at: values(log) for at, log in again.logs.items()} == {A: "abcdefgh", B: "xyz"}
        assert again.logs[A].recovery_point == 8
        let_go(again)

    async def test_folders_of_strangers_are_reported_and_left_alone(self, disk):
        strangers = ("a-01", "a-", "-3", "nodash", "lost+found", "a b-1", "..-1", "a-2147483648")
        for name in strangers:
            disk.make_directory(f"{name}/inside")
        disk.make_directory(f"a-0.{1:032x}-future")
        disk.make_directory("b-1")
        disk.make_directory("a-0.abc-delete")  # too short a number for one of ours
        disk.open("a-7", create=True).close()  # a file

        manager = await start(disk)

        assert [each.name for each in manager.strangers] == sorted([*strangers, "a-0.abc-delete"])
        assert all(each.reason for each in manager.strangers)
        assert list(manager.logs) == [B]
        assert all(disk.exists(f"{name}/inside") for name in strangers)
        assert disk.exists(f"a-0.{1:032x}-future")
        let_go(manager)

    async def test_what_was_marked_for_deletion_goes(self, disk):
        disk.make_directory(f"a-0.{1:032x}-delete/below")

        manager = await start(disk)

        assert disk.list() == ()
        assert manager.strangers == ()

    async def test_a_log_that_cannot_be_opened_does_not_keep_others_from_it(self):
        disk = SimulatedDisk(Random(1))
        manager = await start(disk)
        append(manager.get_or_create(A, CONFIG, 0), *"ab")
        append(manager.get_or_create(B, CONFIG, 0), *"xy")
        assert await manager.clean_shutdown({A: 1, B: 2})
        disk.fail("a-0/")

        again = await start(disk)

        assert list(again.logs) == [B]
        assert list(again.failures) == [A]
        with pytest.raises(KafkaStorageError, match="a-0"):
            again.get_or_create(A, CONFIG, 0)
        # Its rows are kept for the day that it opens, and this stop says nothing for it.
        assert not await again.clean_shutdown({B: 2})
        assert not disk.exists(CLEAN_SHUTDOWN)
        disk.heal()
        assert read_offsets(disk, RECOVERY_POINTS) == {A: 2, B: 2}
        assert read_offsets(disk, HIGH_WATERMARKS) == {A: 1, B: 2}
        assert values((await start(disk)).logs[A]) == "ab"

    async def test_a_swap_that_rotted_is_a_failure_of_its_log(self, disk):
        manager = await start(disk)
        append(manager.get_or_create(A, CONFIG, 0), "x")
        let_go(manager)
        with closing(disk.open(f"a-0/{0:020}.log.swap", create=True)) as file:
            file.append(b"rotten")

        again = await start(disk)

        assert list(again.failures) == [A]
        assert isinstance(again.failures[A].__cause__, CorruptRecordBatch)

    @pytest.mark.parametrize(
        "file", [RECOVERY_POINTS, LOG_START_OFFSETS, HIGH_WATERMARKS, CLEANER_OFFSETS]
    )
    @pytest.mark.parametrize("is_clean", [True, False])
    async def test_a_note_that_cannot_be_read_is_reported_and_done_without(
        self, disk, file, is_clean
    ):
        manager = await start(disk)
        append(manager.get_or_create(A, CONFIG, 0), *"abcdefgh")
        await manager.clean_shutdown({A: 8})
        await disk.replace(file, b"0\n1\nrubbish\n")
        if not is_clean:
            disk.remove(CLEAN_SHUTDOWN)

        again = await start(disk)

        assert [each.name for each in again.strangers] == [file]
        assert "line 3" in again.strangers[0].reason
        assert values(again.logs[A]) == "abcdefgh"
        let_go(again)


class TestNames:
    @pytest.mark.parametrize(
        "partition",
        [A, TopicPartition("a-b-3", 12), TopicPartition("x.y_z", 2**31 - 1)],
    )
    def test_a_folder_is_named_for_its_partition(self, partition):
        assert parse_folder(str(partition)) == partition

    @pytest.mark.parametrize("name", ["a", "a-", "-1", "a--", "a-1x", "a-٣", "a\n-1", "a-1\n", ""])
    def test_other_folders_are_not(self, name):
        with pytest.raises(NotALog):
            parse_folder(name)

    async def test_a_topic_of_the_longest_name_is_deleted_too(self, disk):
        partition = TopicPartition("t" * 249, 1234)
        manager = await start(disk)
        append(manager.get_or_create(partition, CONFIG, 0), "x")

        await manager.delete(partition, 0)

        (name,) = [each for each in disk.list() if each.endswith("-delete")]
        assert name == folder_to_delete(partition, f"{1:032x}")
        assert len(name) == 255
        assert await manager.delete_marked(1000) == 1
        assert not disk.exists(name)


class TestNotes:
    async def test_a_high_watermark_that_is_not_given_is_kept(self, disk):
        manager = await start(disk)
        for partition in (A, B):
            append(manager.get_or_create(partition, CONFIG, 0), *"abc")
        await manager.checkpoint_high_watermarks({A: 1, B: 2, C: 3})
        await manager.checkpoint_high_watermarks({A: 3})

        assert read_offsets(disk, HIGH_WATERMARKS) == {A: 3, B: 2}
        let_go(manager)

    @pytest.mark.parametrize(("noted", "initial"), [(0, 2), (3, 3), (5, 5), (9, 5), (None, 2)])
    async def test_the_first_high_watermark_lies_within_the_log(self, disk, noted, initial):  # B173
        manager = await start(disk)
        append(log := manager.get_or_create(A, CONFIG, 0), *"abcde")
        log.move_log_start_offset(2)
        if noted is not None:
            await manager.checkpoint_high_watermarks({A: noted})

        assert manager.initial_high_watermark(A) == initial
        let_go(manager)

    async def test_a_log_starts_where_it_started(self, disk):
        manager = await start(disk)
        append(log := manager.get_or_create(A, CONFIG, 0), *"abcde")
        log.move_log_start_offset(2)
        await log.flush()
        await manager.checkpoint_log_start_offsets()
        let_go(manager)

        again = await start(disk)

        assert values(again.logs[A]) == "cde"
        assert read_offsets(disk, LOG_START_OFFSETS) == {A: 2}
        let_go(again)

    async def test_a_log_that_starts_with_its_first_segment_needs_no_note(self, disk):
        manager = await start(disk)
        append(manager.get_or_create(A, CONFIG, 0), *"abcde")
        await manager.checkpoint_log_start_offsets()

        assert read_offsets(disk, LOG_START_OFFSETS) == {}
        let_go(manager)

    async def test_a_row_of_a_log_that_is_gone_goes_before_another_takes_its_name(self, disk):
        for file in (RECOVERY_POINTS, LOG_START_OFFSETS, HIGH_WATERMARKS, CLEANER_OFFSETS):
            await checkpoints.write_offsets(disk, file, {A: 100})

        manager = await start(disk)
        append(log := manager.get_or_create(A, CONFIG, 0), *"ab")
        await log.flush()
        let_go(manager)

        again = await start(disk)
        assert values(again.logs[A]) == "ab"
        assert again.initial_high_watermark(A) == 0
        let_go(again)


class TestFlush:
    async def test_only_logs_that_ask_for_it_are_flushed(self, disk):
        manager = await start(disk)
        append(eager := manager.get_or_create(A, LogConfig(flush_ms=100), 0), "x")
        append(lazy := manager.get_or_create(B, LogConfig(), 0), "x")

        assert await manager.flush_dirty(99) == {}
        assert eager.recovery_point == 0
        assert await manager.flush_dirty(100) == {}

        assert eager.recovery_point == 1
        assert lazy.recovery_point == 0
        let_go(manager)


class TestDelete:
    async def test_a_name_is_free_at_once_and_the_files_go_later(self, disk):
        manager = await start(disk)
        append(old := manager.get_or_create(A, CONFIG, 0), *"old")

        await manager.delete(A, now_ms=0)
        append(new := manager.get_or_create(A, CONFIG, 0), *"newer")

        assert new is not old
        assert old.folder == f"a-0.{1:032x}-delete"
        assert await manager.delete_marked(999) == 0
        assert disk.exists(old.folder)
        assert await manager.delete_marked(1000) == 1
        assert not disk.exists(old.folder)
        assert values(new) == "newer"
        let_go(manager)

    async def test_what_is_not_there_is_deleted_without_ado(self, disk):
        manager = await start(disk)

        await manager.delete(A, 0)
        manager.get_or_create(B, CONFIG, 0)
        await manager.delete(B, 0)

        assert manager.logs == {}
        assert await manager.delete_marked(9999) == 0

    async def test_a_log_that_failed_can_be_deleted(self, disk):
        disk.make_directory("a-0")
        with closing(disk.open(f"a-0/{0:020}.log.swap", create=True)) as file:
            file.append(b"rotten")
        manager = await start(disk)
        assert list(manager.failures) == [A]

        await manager.delete(A, 0)

        assert manager.failures == {}
        assert values(manager.get_or_create(A, CONFIG, 0)) == ""
        assert await manager.delete_marked(0) == 1


class TestTruncate:
    async def test_no_note_vouches_for_what_was_cut(self, disk):
        manager = await start(disk)
        for partition in (A, B):
            append(log := manager.get_or_create(partition, CONFIG, 0), *"abcdefgh")
            await log.flush()
        await manager.checkpoint_recovery_points()
        await manager.checkpoint_high_watermarks({A: 7, B: 2})

        assert await manager.truncate({A: 3, B: 8, C: 0}) == {}

        assert values(manager.logs[A]) == "abc"
        assert read_offsets(disk, RECOVERY_POINTS) == {A: 3, B: 8}
        assert read_offsets(disk, HIGH_WATERMARKS) == {A: 3, B: 2}
        let_go(manager)

    async def test_a_log_that_starts_anew_starts_there_after_a_restart(self, disk):
        manager = await start(disk)
        append(log := manager.get_or_create(A, CONFIG, 0), *"abcdefgh")
        log.move_log_start_offset(7)
        await log.flush()
        await manager.checkpoint_log_start_offsets()

        await manager.truncate_fully_and_start_at(A, 3)

        let_go(manager)
        again = await start(disk)
        assert again.logs[A].log_start_offset == again.logs[A].log_end_offset == 3
        let_go(again)


class TestCompaction:
    async def dirty(self, disk: Disk) -> LogManager:
        manager = await start(disk, COMPACTED)
        for value in "abcdefgh":
            append(manager.get_or_create(A, COMPACTED, 0), value)
            append(manager.get_or_create(B, COMPACTED, 0), value, key=value)
            append(manager.get_or_create(C, CONFIG, 0), value)
        append(manager.get_or_create(B, COMPACTED, 0), *"zzzz")
        return manager

    async def test_the_dirtiest_log_is_cleaned_up_to_the_high_watermark_and_noted(self, disk):
        manager = await self.dirty(disk)
        high_watermarks = {A: 8, B: 0, C: 8}

        partition, cleaned = await manager.clean_dirtiest(high_watermarks, 0)

        assert partition == A
        active = manager.logs[A].segments[-1].base_offset
        assert cleaned.next_dirty_offset == active
        assert read_offsets(disk, CLEANER_OFFSETS) == {A: active}
        assert values(manager.logs[A]) == "abcdefgh"[active - 1 :]
        assert await manager.clean_dirtiest(high_watermarks, 0) is None
        let_go(manager)

    async def test_a_truncation_makes_what_follows_dirty_again(self, disk):
        manager = await self.dirty(disk)
        await manager.clean_dirtiest({A: 8}, 0)

        await manager.truncate({A: 1})

        assert read_offsets(disk, CLEANER_OFFSETS) == {A: 1}
        let_go(manager)

    async def test_a_log_that_cannot_be_cleaned_is_left_out_from_then_on(self):
        disk = SimulatedDisk(Random(1))
        manager = await self.dirty(disk)
        before = values(manager.logs[A])
        disk.flip_bit(f"a-0/{0:020}.log", 69, 1)

        assert await manager.clean_dirtiest({A: 8}, 0) is None

        assert isinstance(manager.uncleanable[A], CorruptRecordBatch)
        disk.flip_bit(f"a-0/{0:020}.log", 69, 1)
        assert values(manager.logs[A]) == before
        assert await manager.clean_dirtiest({A: 8}, 0) is None

    @pytest.mark.parametrize("notes_are_lost", [False, True])
    async def test_a_crash_at_any_step_loses_no_key(self, notes_are_lost):
        async def prepare(disk: FragileDisk) -> None:
            await (await self.dirty(disk)).clean_shutdown({})

        async def act(disk: FragileDisk) -> None:
            manager = await start(disk, COMPACTED)
            assert await manager.clean_dirtiest({A: 8, B: 12}, 0)
            assert await manager.clean_dirtiest({A: 8, B: 12}, 0)

        async def check(disk: FragileDisk, _: bool) -> None:
            if notes_are_lost and disk.exists(RECOVERY_POINTS):
                disk.remove(RECOVERY_POINTS)
            manager = await start(disk, COMPACTED)
            assert values(manager.logs[A])[-1] == "h"
            assert values(manager.logs[A]) in "abcdefgh"
            assert values(manager.logs[B]).startswith("abcdefgh")
            assert manager.logs[B].log_end_offset == 12
            assert manager.failures == {}

        assert await at_every_step(prepare, act, check, seeds=4) > 4 * 20


async def flushed(disk: FragileDisk) -> None:
    """Two logs, all of it durable and noted, and a topic's row to be replaced."""
    manager = await start(disk)
    for partition in (A, B):
        append(log := manager.get_or_create(partition, CONFIG, 0), *"abcdefgh")
        await log.flush()
    await manager.checkpoint_recovery_points()
    await manager.checkpoint_high_watermarks({A: 8, B: 8})


async def opens(disk: FragileDisk) -> LogManager:
    manager = await start(disk)
    assert manager.strangers == ()
    assert manager.failures == {}
    assert not disk.exists(CLEAN_SHUTDOWN)
    assert not [name for name in disk.list() if name.endswith("-delete")]
    return manager


class TestEveryCrash:
    async def test_while_appending_flushing_and_noting(self):
        promised: dict[str, Any] = {}

        async def act(disk: FragileDisk) -> None:
            promised.clear()
            manager = await start(disk)
            for value in "ijk":
                append(manager.logs[A], value, epoch=1)
                await manager.logs[A].flush()
                promised[value] = True
                await manager.checkpoint_recovery_points()
                manager.logs[A].move_log_start_offset(manager.logs[A].log_start_offset + 1)
                await manager.checkpoint_log_start_offsets()
                await manager.checkpoint_high_watermarks({A: manager.logs[A].log_end_offset})

        async def check(disk: FragileDisk, is_done: bool) -> None:
            manager = await opens(disk)
            assert values(manager.logs[B]) == "abcdefgh"
            found = values(manager.logs[A])
            assert found in "abcdefghijk"
            assert "d" in found
            assert set(promised) <= set(found)
            assert (manager.logs[A].log_start_offset == 3) or not is_done
            assert 8 <= manager.initial_high_watermark(A) <= manager.logs[A].log_end_offset

        assert await at_every_step(flushed, act, check, seeds=4) > 4 * 20

    async def test_while_stopping_cleanly(self):
        async def act(disk: FragileDisk) -> None:
            manager = await start(disk)
            append(manager.logs[A], *"ij", epoch=3)
            append(manager.get_or_create(C, CONFIG, 0), *"xy")
            assert await manager.clean_shutdown({A: 9, C: 1})

        async def check(disk: FragileDisk, is_done: bool) -> None:
            was_clean = disk.exists(CLEAN_SHUTDOWN)
            assert was_clean or not is_done
            manager = await opens(disk)
            assert values(manager.logs[B]) == "abcdefgh"
            assert values(manager.logs[A]) in ("abcdefgh", "abcdefghi", "abcdefghij")
            if was_clean:
                assert values(manager.logs[A]) == "abcdefghij"
                assert values(manager.logs[C]) == "xy"
                assert manager.logs[A].epochs.entries == ((0, 0), (3, 8))
                assert manager.initial_high_watermark(A) == 9
                assert manager.initial_high_watermark(C) == 1

        assert await at_every_step(flushed, act, check) > 8 * 10

    async def test_while_starting_after_a_clean_stop(self):
        async def prepare(disk: FragileDisk) -> None:
            await flushed(disk)
            manager = await start(disk)
            append(manager.logs[A], "i")
            await manager.clean_shutdown({})
            disk.make_directory(f"c-0.{1:032x}-delete/below")

        async def check(disk: FragileDisk, _: bool) -> None:
            manager = await opens(disk)
            assert values(manager.logs[A]) in {"abcdefghi", "abcdefghij"}
            assert values(manager.logs[B]) == "abcdefgh"

        async def act(disk: FragileDisk) -> None:
            append((await start(disk)).logs[A], "j")  # is not flushed, and may be torn

        assert await at_every_step(prepare, act, check) > 8 * 4

    async def test_while_a_topic_is_deleted_and_made_again(self):
        progress: list[str] = []

        async def act(disk: FragileDisk) -> None:
            progress.clear()
            manager = await start(disk)
            manager.logs[A].move_log_start_offset(7)
            await manager.checkpoint_log_start_offsets()
            await manager.delete(A, 0)
            progress.append("deleted")
            append(log := manager.get_or_create(A, CONFIG, 0), *"xy")
            await log.flush()
            progress.append("made again")
            assert await manager.delete_marked(1000) == 1

        async def check(disk: FragileDisk, is_done: bool) -> None:
            manager = await opens(disk)
            assert values(manager.logs[B]) == "abcdefgh"
            found = values(manager.logs[A]) if A in manager.logs else None
            if "made again" in progress:
                assert found == "xy"
            elif "deleted" in progress:
                assert found in {None, "", "x", "xy"}
            else:
                assert found in {None, "abcdefgh", "h"}

        assert await at_every_step(flushed, act, check) > 8 * 12

    @pytest.mark.parametrize("offset", range(9))
    async def test_while_a_log_is_truncated_and_grows_again(self, offset):
        progress: list[str] = []
        old, new = "abcdefgh", f"{'abcdefgh'[:offset]}xyz"

        async def act(disk: FragileDisk) -> None:
            progress.clear()
            manager = await start(disk)
            await manager.truncate({A: offset})
            append(manager.logs[A], *"xyz", epoch=5)
            await manager.logs[A].flush()
            progress.append("flushed")

        async def check(disk: FragileDisk, _: bool) -> None:
            manager = await opens(disk)
            found = values(manager.logs[A])
            assert old.startswith(found) or new.startswith(found)
            assert len(found) >= offset
            if progress:
                assert found == new
                first = ((0, 0),) if offset else ()
                assert manager.logs[A].epochs.entries == (*first, (5, offset))
                assert manager.initial_high_watermark(A) == offset

        assert await at_every_step(flushed, act, check, seeds=4) > 4 * 8

    async def test_while_a_log_starts_anew(self):
        async def act(disk: FragileDisk) -> None:
            manager = await start(disk)
            manager.logs[A].move_log_start_offset(7)
            await manager.checkpoint_log_start_offsets()
            await manager.truncate_fully_and_start_at(A, 100)

        async def check(disk: FragileDisk, is_done: bool) -> None:
            log = (await opens(disk)).logs[A]
            assert values(log) in "abcdefgh"
            assert (log.log_start_offset, log.log_end_offset) == (100, 100) or not is_done

        assert await at_every_step(flushed, act, check) > 8 * 8
