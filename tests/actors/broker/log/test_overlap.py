"""What a log manager does in the background may overlap, and be overtaken by appends."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from actors.broker.log.checkpoints import CLEAN_SHUTDOWN, RECOVERY_POINTS, read_offsets
from actors.broker.log.config import CleanupPolicy, LogConfig
from actors.broker.log.manager import LogManager
from actors.broker.log.names import parse_name
from runtime.files import DiskFailed
from runtime.simulation.disk import SimulatedDisk
from runtime.turn import let_others_run
from tests.actors.broker.log.test_manager import COMPACTED, A, B, C, append, start, values
from wire.errors import KafkaStorageError
from wire.records import batches

FLUSHED = LogConfig(segment_bytes=300, flush_messages=1, file_delete_delay_ms=0)
TINY = replace(COMPACTED, segment_bytes=80)  # a batch a segment: nothing is grouped


class SlowDisk(SimulatedDisk):
    """Whose syncs wait while it is held."""

    def __init__(self, seed: int = 1) -> None:
        super().__init__(Random(seed), delay=self._wait)
        self._may_go = asyncio.Event()
        self._may_go.set()

    def hold(self) -> None:
        self._may_go.clear()

    def release(self) -> None:
        self._may_go.set()

    async def _wait(self) -> None:
        await self._may_go.wait()


async def while_held(
    disk: SlowDisk, *awaitables: Awaitable[Any], act: Callable[[], object] = bool
) -> list[Any]:
    """Begin all while the disk is held, see that none ends, act, and let them end."""
    disk.hold()
    tasks = [asyncio.ensure_future(each) for each in awaitables]
    await quiet()
    assert not any(task.done() for task in tasks)
    act()
    disk.release()
    return await asyncio.gather(*tasks)


async def quiet() -> None:
    for _ in range(50):
        await let_others_run()


def suffixes(disk: SimulatedDisk, folder: str) -> set[str]:
    return {found[2] for name in disk.list(folder) if (found := parse_name(name))}


async def filled(disk: SimulatedDisk, config: LogConfig = FLUSHED) -> LogManager:
    manager = await start(disk, config)
    for partition in (A, B):
        append(manager.get_or_create(partition, config, 0), *"abcdefgh")
    return manager


class TestNotes:
    async def test_a_note_that_is_being_written_does_not_outlive_a_truncation(self):
        disk = SlowDisk()
        manager = await filled(disk)
        await manager.flush_dirty(0)

        await while_held(disk, manager.checkpoint_recovery_points(), manager.truncate({A: 3}))

        assert read_offsets(disk, RECOVERY_POINTS) == {A: 3, B: 8}
        assert values(manager.logs[A]) == "abc"

    async def test_a_note_says_what_is_so_when_its_turn_comes(self):
        disk = SlowDisk()
        manager = await filled(disk)
        await manager.flush_dirty(0)

        await while_held(disk, manager.truncate({A: 3}), manager.checkpoint_recovery_points())

        assert read_offsets(disk, RECOVERY_POINTS) == {A: 3, B: 8}

    async def test_a_high_watermark_of_before_a_truncation_is_lowered(self):
        disk = SlowDisk()
        manager = await filled(disk)

        await while_held(
            disk, manager.truncate({A: 3}), manager.checkpoint_high_watermarks({A: 8, B: 8})
        )

        assert manager.initial_high_watermark(A) == 3
        append(manager.logs[A], *"xyz")
        assert manager.initial_high_watermark(A) == 3

    async def test_a_note_that_may_have_been_written_is_written_again(self):
        disk = SlowDisk()
        manager = await filled(disk)
        await manager.truncate({A: 4})
        await manager.checkpoint_recovery_points()
        append(manager.logs[A], *"xyz")
        await manager.logs[A].flush()
        sync = disk.sync_directory

        async def refuse(path: str) -> None:
            raise DiskFailed(path)

        disk.sync_directory = refuse  # type: ignore[method-assign]
        with pytest.raises(KafkaStorageError):
            await manager.checkpoint_recovery_points()
        assert read_offsets(disk, RECOVERY_POINTS)[A] == 7
        disk.sync_directory = sync  # type: ignore[method-assign]

        await manager.truncate({A: 5})

        assert read_offsets(disk, RECOVERY_POINTS)[A] <= 5


class TestFlush:
    async def test_a_flush_waits_for_the_one_that_is_under_way(self):
        disk = SlowDisk()
        manager = await filled(disk)
        log = manager.logs[A]

        def crash_later() -> None:
            append(log, "i")

        await while_held(disk, log.flush(), log.flush(), manager.flush_dirty(0), act=crash_later)

        assert log.recovery_point in {8, 9}
        disk.crash(keep_nothing=True)
        again = await start(disk)
        assert values(again.logs[A]).startswith("abcdefgh")

    async def test_what_is_appended_during_a_flush_is_due_in_its_time(self):
        disk = SlowDisk()
        manager = await filled(disk, LogConfig(flush_ms=100))
        log = manager.logs[A]

        await while_held(disk, manager.flush_dirty(100), act=lambda: append(log, "i"))

        assert log.recovery_point == 8
        assert log.is_flush_due(100)
        await manager.flush_dirty(100)
        assert log.recovery_point == 9

    async def test_a_cut_is_not_durable_because_another_is_just_making_it_so(self):
        disk = SlowDisk()
        manager = await filled(disk)
        log = manager.logs[A]
        await log.flush()
        log.truncate_to(2)
        disk.hold()
        first = asyncio.ensure_future(log.flush())
        await quiet()

        second = asyncio.ensure_future(log.flush())
        await quiet()

        assert not second.done()
        disk.release()
        await asyncio.gather(first, second)

    async def test_a_log_deleted_during_its_flush_is_gone(self):
        disk = SlowDisk()
        manager = await filled(disk)
        old = manager.logs[A]

        await while_held(disk, manager.flush_dirty(0), old.flush(), manager.delete(A, 0))
        append(new := manager.get_or_create(A, FLUSHED, 0), "n")

        await old.flush()
        with pytest.raises(KafkaStorageError, match="closed"):
            append(old, "x")
        assert await manager.delete_marked(0) == 1
        assert await manager.flush_dirty(0) == {}
        assert values(new) == "n"
        assert set(manager.logs) == {A, B}

    async def test_what_is_appended_while_a_log_closes_is_refused(self):
        disk = SlowDisk()
        manager = await filled(disk)
        log = manager.logs[A]

        def late() -> None:
            with pytest.raises(KafkaStorageError, match="closed"):
                append(log, "x")

            with pytest.raises(KafkaStorageError, match="end of its node"):
                manager.get_or_create(C, FLUSHED, 0)

        closing = [manager.clean_shutdown({}), log.flush()]
        assert (await while_held(disk, *closing, act=late))[0]
        assert values((await start(disk)).logs[A]) == "abcdefgh"


class TestDelete:
    async def test_two_deletions_of_one_log_spare_the_next_one(self):
        disk = SlowDisk()
        manager = await filled(disk)
        disk.hold()
        first = asyncio.ensure_future(manager.delete(A, 0))
        await quiet()
        second = asyncio.ensure_future(manager.delete(A, 0))
        await quiet()
        append(new := manager.get_or_create(A, FLUSHED, 0), "n")
        disk.release()
        await asyncio.gather(first, second)

        assert manager.get(A) is new
        assert values(new) == "n"
        assert manager.get(C) is None

    async def test_a_name_that_is_free_has_no_row_at_any_time(self):
        disk = SlowDisk()
        manager = await filled(disk)
        await manager.flush_dirty(0)
        await manager.checkpoint_recovery_points()
        rename, seen = disk.rename, []

        def watch(old: str, new: str) -> None:
            if old == "a-0":
                seen.append(read_offsets(disk, RECOVERY_POINTS))
            rename(old, new)

        disk.rename = watch  # type: ignore[method-assign]
        await asyncio.gather(
            manager.delete(A, 0), manager.checkpoint_recovery_points(), manager.truncate({A: 2})
        )

        assert seen == [{B: 8}]
        assert read_offsets(disk, RECOVERY_POINTS) == {B: 8}

    async def test_many_are_deleted_with_one_note(self):
        disk = SlowDisk()
        manager = await filled(disk)
        disk.fail("a-0")

        failures = await manager.delete_all([A, B, C], 0)

        assert list(failures) == [A]
        assert list(manager.logs) == []
        assert list(manager.failures) == [A]
        assert await manager.delete_marked(0) == 1


async def cleaning(
    manager: LogManager, deed: Callable[[], Awaitable[object]], moment: int
) -> object:
    """Compact A, and let something happen at a moment of it; what came of the compaction."""
    moments = iter(range(10**6))

    async def pause() -> None:
        if next(moments) == moment:
            await deed()

    return await manager.clean_dirtiest({A: 8}, 0, pause)


async def moments_of_a_cleaning() -> int:
    manager, count = await filled(SimulatedDisk(Random(1)), TINY), 0

    async def pause() -> None:
        nonlocal count
        count += 1

    assert await manager.clean_dirtiest({A: 8}, 0, pause) is not None
    return count


class TestCompaction:
    @pytest.mark.parametrize("offset", [0, 1, 4, 6])
    async def test_a_truncation_does_not_wait_for_the_copying_and_wins(self, offset):
        moments = await moments_of_a_cleaning()
        assert moments > 10
        for moment in range(moments):
            disk = SlowDisk()
            manager = await filled(disk, TINY)

            cleaned = await cleaning(manager, lambda m=manager: m.truncate({A: offset}), moment)

            assert cleaned is None
            log = manager.logs[A]
            assert log.log_end_offset == offset
            # The last record of the only key is there, unless it had gone before the truncation.
            left = values(log)
            assert left == "abcdefgh"[:offset][-len(left) :] or not left
            assert offset == 0 or suffixes(disk, "a-0") <= {""}
            assert manager.uncleanable == {}

    async def test_a_key_whose_last_record_is_cut_keeps_the_one_before(self):
        for moment in range(7):  # while keys are collected: nothing is replaced yet
            manager = await filled(SlowDisk(), TINY)

            await cleaning(manager, lambda m=manager: m.truncate({A: 5}), moment)

            assert values(manager.logs[A]) == "abcde"

    async def test_a_deletion_does_not_wait_for_the_copying_and_wins(self):
        for moment in range(await moments_of_a_cleaning()):
            disk = SlowDisk()
            manager = await filled(disk, TINY)

            async def deed(manager: LogManager = manager) -> None:
                await manager.delete(A, 0)
                append(manager.get_or_create(A, TINY, 0), *"xyz")
                await manager.delete_marked(10**9)

            assert await cleaning(manager, deed, moment) is None
            assert values(manager.logs[A]) == "xyz"
            assert suffixes(disk, "a-0") == {""}
            assert [name for name in disk.list() if name.endswith("-delete")] == []

    async def test_retention_wins_too(self):
        config = replace(TINY, cleanup_policy=frozenset(CleanupPolicy), retention_ms=5)
        for moment in range(await moments_of_a_cleaning()):
            disk = SlowDisk()
            manager = await filled(disk, config)

            async def deed(manager: LogManager = manager) -> None:
                assert await manager.delete_old_segments({A: 4}, 10) == {}

            await cleaning(manager, deed, moment)

            assert manager.logs[A].log_start_offset >= 4 or moment >= 14
            assert values(manager.logs[A])[-4:] == "efgh"[-len(values(manager.logs[A])) :]
            assert suffixes(disk, "a-0") <= {"", ".deleted"}

    async def test_appends_and_rolls_go_on_meanwhile(self):
        for moment in range(await moments_of_a_cleaning()):
            manager = await filled(SlowDisk(), TINY)

            async def deed(manager: LogManager = manager) -> None:
                append(manager.logs[A], *"ijkl")

            assert await cleaning(manager, deed, moment) is not None
            assert values(manager.logs[A]) == "ghijkl"

    async def test_a_truncation_waits_for_the_swap(self):
        disk = SlowDisk()
        manager = await filled(disk, TINY)
        sync, order = disk.sync_directory, []

        async def hold_the_swap(path: str) -> None:
            if not order and ".swap" in suffixes(disk, "a-0"):
                order.append("swap")
                task = asyncio.ensure_future(manager.truncate({A: 3}))
                task.add_done_callback(lambda _: order.append("truncated"))
                await quiet()
                order.append("swapped")
            await sync(path)

        await manager.logs[A].flush()
        disk.sync_directory = hold_the_swap  # type: ignore[method-assign]
        assert await manager.clean_dirtiest({A: 8}, 0) is None
        await quiet()

        assert order == ["swap", "swapped", "truncated"]
        assert manager.logs[A].log_end_offset == 3
        assert suffixes(disk, "a-0") == {""}

    async def test_two_cleanings_do_not_meet(self):
        manager = await filled(SlowDisk(), TINY)
        inside = 0

        async def pause() -> None:
            nonlocal inside
            inside += 1
            assert inside == 1
            await quiet()
            inside -= 1

        results = await asyncio.gather(
            *(manager.clean_dirtiest({A: 8, B: 8}, 0, pause) for _ in range(3))
        )

        assert {result and result[0] for result in results} == {A, B, None}

    async def test_a_clean_stop_waits_for_the_cleaner_which_gives_up(self):
        disk = SlowDisk()
        manager = await filled(disk, TINY)
        stops = []

        async def deed() -> None:
            stops.append(asyncio.ensure_future(manager.clean_shutdown({})))
            await quiet()
            assert not stops[0].done()

        assert await cleaning(manager, deed, 9) is None
        assert await stops[0]
        assert disk.exists(CLEAN_SHUTDOWN)
        assert values((await start(disk, TINY)).logs[A])[-1] == "h"


class TestFailures:  # B156
    async def test_one_log_that_fails_keeps_no_other_from_its_flush(self):
        disk = SlowDisk()
        manager = await filled(disk)
        disk.fail("a-0/")

        failures = await manager.flush_dirty(0)

        assert list(failures) == [A]
        assert isinstance(failures[A], KafkaStorageError)
        assert manager.logs[B].recovery_point == 8

    async def test_one_log_that_fails_keeps_no_other_from_being_cut(self):
        disk = SlowDisk()
        manager = await filled(disk)
        disk.fail("a-0/")

        failures = await manager.truncate({A: 3, B: 4, C: 5})

        assert list(failures) == [A]
        assert values(manager.logs[B]) == "abcd"
        assert manager.logs[B].recovery_point == 4

    async def test_no_log_is_cut_if_that_cannot_be_noted(self):
        disk = SlowDisk()
        manager = await filled(disk)
        await manager.flush_dirty(0)
        await manager.checkpoint_recovery_points()
        disk.fail(RECOVERY_POINTS)

        failures = await manager.truncate({A: 3, B: 4})

        assert list(failures) == [A, B]
        assert values(manager.logs[A]) == "abcdefgh"
        with pytest.raises(KafkaStorageError, match="recovery-point"):
            await manager.delete(A, 0)
        assert values(manager.logs[A]) == "abcdefgh"

    async def test_one_log_that_fails_keeps_no_other_from_its_retention(self):
        config = replace(FLUSHED, retention_ms=5, file_delete_delay_ms=3)
        disk = SlowDisk()
        manager = await filled(disk, config)
        disk.fail("a-0/")

        failures = await manager.delete_old_segments({A: 8, B: 8}, 10)

        assert list(failures) == [A]
        assert values(manager.logs[B]) == ""
        assert suffixes(disk, "b-1") == {"", ".deleted"}
        await manager.delete_old_segments({B: 8}, 13)
        assert suffixes(disk, "b-1") == {""}

    async def test_a_log_whose_disk_fails_is_not_cleaned_again_and_others_are(self):
        disk = SlowDisk()
        manager = await filled(disk, TINY)
        disk.fail("a-0/")

        with pytest.raises(KafkaStorageError, match="a-0 cannot be cleaned"):
            await manager.clean_dirtiest({A: 8, B: 8}, 0)

        assert list(manager.uncleanable) == [A]
        partition, _ = await manager.clean_dirtiest({A: 8, B: 8}, 0)
        assert partition == B


class TestTheEnd:
    async def test_a_node_that_is_killed_touches_nothing_more(self):
        disk = SlowDisk()
        manager = await filled(disk, replace(TINY, flush_messages=1))
        await manager.delete(B, 0)
        moments = iter(range(10**6))

        async def pause() -> None:
            if next(moments) == 9:
                disk.hold()
                await quiet()

        tasks = [asyncio.ensure_future(manager.clean_dirtiest({A: 8}, 0, pause))]
        await quiet()
        append(manager.logs[A], "i")
        tasks += [
            asyncio.ensure_future(each)
            for each in (manager.flush_dirty(0), manager.truncate({A: 2}), manager.delete(A, 0))
        ]
        await quiet()

        manager.abandon()
        before = {name: disk.list(name) for name in disk.list() if disk.is_directory(name)}
        disk.release()
        await asyncio.gather(*tasks, return_exceptions=True)
        for late in (
            manager.checkpoint_recovery_points(),
            manager.delete_marked(10**9),
            manager.clean_shutdown({}),
            manager.flush_dirty(0),
            manager.clean_dirtiest({A: 9}, 0),
        ):
            await asyncio.gather(late, return_exceptions=True)
        with pytest.raises(KafkaStorageError):
            manager.get_or_create(C, FLUSHED, 0)

        assert {n: disk.list(n) for n in disk.list() if disk.is_directory(n)} == before
        assert not disk.exists(CLEAN_SHUTDOWN)
        assert values((await start(disk, TINY)).logs[A])[-1] in "hi"


class TestConfig:
    async def test_a_new_one_holds_for_the_segments_that_are_there(self):
        manager = await filled(SlowDisk(), replace(FLUSHED, segment_bytes=10**6))
        log = manager.logs[A]
        assert len(log.segments) == 1

        manager.set_config("a", replace(FLUSHED, segment_bytes=100))
        append(log, "i")
        append(manager.logs[B], "i")

        assert len(log.segments) == 2
        assert log.config.segment_bytes == 100
        assert len(manager.logs[B].segments) == 1


def append_some(manager: LogManager, config: LogConfig, chance: Random, epoch: int) -> None:
    for at in (A, B):
        for number in range(chance.randrange(4)):
            value = f"{epoch}:{number}"
            append(manager.get_or_create(at, config, 0), value, epoch=epoch)


@pytest.mark.parametrize("seed", range(60))
async def test_whatever_overlaps_what_is_durable_stays(seed):
    chance = Random(seed)

    async def delay() -> None:
        for _ in range(chance.randrange(6)):
            await let_others_run()

    disk = SimulatedDisk(Random(seed), delay=delay)
    config = replace(TINY if seed % 2 else FLUSHED, flush_messages=1)
    manager = await start(disk, config)
    tasks: set[asyncio.Task[Any]] = set()

    def deeds() -> Awaitable[Any]:
        at = chance.choice([A, B])
        log = manager.get(at)
        end = log.log_end_offset if log else 0
        marks = {each: log.log_end_offset for each, log in manager.logs.items()}
        return chance.choice(
            [
                lambda: manager.flush_dirty(0),
                manager.checkpoint_recovery_points,
                lambda: manager.checkpoint_high_watermarks(marks),
                manager.checkpoint_log_start_offsets,
                lambda: manager.truncate({at: chance.randint(0, end)}),
                lambda: manager.delete(at, 0),
                lambda: manager.delete_marked(10**9),
                lambda: manager.clean_dirtiest(marks, 0, delay),
                lambda: manager.clean_dirtiest(marks, 0, delay),
            ]
        )()

    for epoch in range(chance.randint(20, 120)):
        append_some(manager, config, chance, epoch)
        tasks.add(asyncio.ensure_future(deeds()))
        for _ in range(chance.randrange(5)):
            await let_others_run()
    if chance.random() < 0.3:
        await asyncio.gather(*tasks)

    durable = {
        at: [each for each in entries(log) if each[0] < log.recovery_point]
        for at, log in manager.logs.items()
    }
    starts = {at: log.log_start_offset for at, log in manager.logs.items()}
    disk.crash(keep_nothing=seed % 3 == 0)
    manager.abandon()
    await asyncio.gather(*tasks, return_exceptions=True)

    again = await start(disk, config)
    assert again.failures == {}
    for at, records in durable.items():
        if records:
            found = entries(again.logs[at])
            assert [each for each in records if each[0] >= starts[at]] == [
                each for each in found if each[0] <= records[-1][0]
            ]


def entries(log: Any) -> list[tuple[int, bytes]]:
    found, offset = [], log.log_start_offset
    while offset < log.log_end_offset:
        for batch in batches(log.read(offset, 1 << 20)):
            found.append((batch.header.base_offset, bytes(batch.data[61:])))
            offset = batch.header.next_offset
    return found
