"""What the simulated disk says, what a power cut leaves on it, and how it fails on command."""

import asyncio
import contextlib
import tempfile
import tracemalloc
from collections.abc import Coroutine
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from runtime.disk import RealDisk
from runtime.files import (
    Disk,
    DiskError,
    DiskFailed,
    DiskFull,
    File,
    FileClosed,
    FileMissing,
    ReadOnlyDisk,
)
from runtime.simulation.disk import SimulatedDisk

SEEDS = st.integers(0, 2**32)
unhurried = settings(deadline=None)  # a slow machine is no failure


def now(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run to its end what has nothing to wait for."""
    with pytest.raises(StopIteration):
        coroutine.send(None)


def content(disk: Disk, path: str) -> bytes:
    with contextlib.closing(disk.open(path)) as file:
        return file.read_at(0, file.size)


def tree(disk: Disk, path: str = "") -> dict[str, bytes | None]:
    """Every path, with the bytes of a file."""
    found: dict[str, bytes | None] = {}
    for name in disk.list(path):
        below = f"{path}/{name}" if path else name
        found[below] = None if disk.is_directory(below) else content(disk, below)
        if found[below] is None:
            found |= tree(disk, below)
    return found


async def durable_file(disk: Disk, path: str, data: bytes) -> File:
    file = disk.open(path, create=True)
    file.append(data)
    await file.sync()
    await disk.sync_directory("")
    return file


Operation = tuple[Any, ...]

PATHS = st.sampled_from(["", "a", "b", "a/a", "a/b", "b/a", "a/b/a", "b/b"])
SMALL = st.integers(0, 9)
DATA = st.binary(max_size=9)

ON_DISKS = st.one_of(
    st.tuples(st.sampled_from(["exists", "is_directory", "list", "size"]), PATHS),
    st.tuples(st.sampled_from(["make_directory", "remove", "remove_tree"]), PATHS),
    st.tuples(st.just("rename"), PATHS, PATHS),
    st.tuples(st.just("open"), PATHS),
    st.tuples(st.just("create"), PATHS),
)
ON_FILES = st.one_of(
    st.tuples(st.just("size")),
    st.tuples(st.just("close")),
    st.tuples(st.just("append"), DATA),
    st.tuples(st.just("write_at"), SMALL, DATA),
    st.tuples(st.just("read_at"), SMALL, SMALL),
    st.tuples(st.just("truncate"), SMALL),
)
OPERATIONS = st.one_of(ON_DISKS, st.tuples(SMALL, ON_FILES))  # the number chooses an open file


class Driver:
    """Does to a disk what an operation says, and tells what came of it."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._files: list[File] = []

    def do(self, operation: Operation) -> object:
        try:
            match operation:
                case int(number), use:
                    return self._use(number, use)
                case ("open" | "create") as name, path:
                    self._files.append(self._disk.open(path, create=name == "create"))
                    return len(self._files)
                case _:
                    name, *arguments = operation
                    return getattr(self._disk, name)(*arguments)
        except DiskError as error:
            return type(error), error.path

    def close(self) -> None:
        for file in self._files:
            file.close()

    def _use(self, number: int, use: Operation) -> object:
        if not self._files:
            return None
        name, *arguments = use
        file = self._files[number % len(self._files)]
        return file.size if name == "size" else getattr(file, name)(*arguments)


@unhurried
@given(st.lists(OPERATIONS, max_size=40))
@example([("make_directory", "a"), ("create", "a/a"), ("rename", "a/a", "a")])
def test_the_two_disks_agree_on_whatever_is_done_to_them(operations: list[Operation]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        real, simulated = Driver(RealDisk(Path(folder))), Driver(SimulatedDisk(Random(1)))

        try:
            for operation in operations:
                assert real.do(operation) == simulated.do(operation), operation
        finally:
            real.close()


WRITES = st.one_of(
    st.tuples(st.just("append"), st.binary(min_size=1, max_size=4)),
    st.tuples(st.just("write_at"), SMALL, st.binary(max_size=4)),
    st.tuples(st.just("truncate"), SMALL),
    st.tuples(st.just("sync")),
)


def states_since_sync(disk: SimulatedDisk, writes: list[Operation]) -> list[bytes]:
    """Write to the file "log", and tell what was in it at the last sync and after each write."""
    file = disk.open("log", create=True)
    now(disk.sync_directory(""))
    states = [b""]
    for name, *arguments in writes:
        if name == "sync":
            now(file.sync())
            states = states[-1:]
        else:
            getattr(file, name)(*arguments)
            states.append(file.read_at(0, file.size))
    return states


class TestBytesAfterAPowerCut:
    @unhurried
    @given(st.lists(WRITES.filter(lambda write: write[0] in {"append", "sync"})), SEEDS)
    def test_a_log_keeps_what_was_synced_and_a_prefix_of_the_rest(
        self, writes: list[Operation], seed: int
    ) -> None:
        disk = SimulatedDisk(Random(seed))
        states = states_since_sync(disk, writes)

        disk.crash()

        assert content(disk, "log").startswith(states[0])
        assert states[-1].startswith(content(disk, "log"))

    @unhurried
    @given(st.lists(WRITES.filter(lambda write: write[0] != "write_at")), SEEDS)
    def test_appends_and_cuts_survive_up_to_a_point_that_may_be_torn(
        self, writes: list[Operation], seed: int
    ) -> None:
        disk = SimulatedDisk(Random(seed))
        states = states_since_sync(disk, writes)

        disk.crash()

        left = content(disk, "log")
        torn = [
            left.startswith(before) and after.startswith(left) for before, after in pairwise(states)
        ]
        assert left in states or any(torn)

    @unhurried
    @given(st.lists(WRITES), SEEDS)
    def test_each_byte_was_there_once_since_the_sync(
        self, writes: list[Operation], seed: int
    ) -> None:
        disk = SimulatedDisk(Random(seed))
        states = states_since_sync(disk, writes)

        disk.crash()

        for position, byte in enumerate(content(disk, "log")):
            assert byte in {state[position] for state in states if position < len(state)}

    @unhurried
    @given(st.lists(WRITES), SEEDS)
    def test_the_harshest_cut_keeps_what_was_synced_and_no_more(
        self, writes: list[Operation], seed: int
    ) -> None:
        disk = SimulatedDisk(Random(seed))
        states = states_since_sync(disk, writes)

        disk.crash(keep_nothing=True)
        assert content(disk, "log") == states[0]

        disk.crash()
        assert content(disk, "log") == states[0], "what a power cut left is durable"

    @unhurried
    @given(st.lists(st.one_of(ON_DISKS, st.tuples(SMALL, ON_FILES)), max_size=40), SEEDS)
    def test_one_seed_is_one_outcome(self, operations: list[Operation], seed: int) -> None:
        disks = [SimulatedDisk(Random(seed)), SimulatedDisk(Random(seed))]
        for disk in disks:
            driver = Driver(disk)
            for operation in operations:
                driver.do(operation)
            disk.crash()

        assert tree(disks[0]) == tree(disks[1])
        assert disks[0].free() == disks[1].free()

    async def test_every_end_of_a_torn_append_is_met(self) -> None:
        ends = set()
        for seed in range(100):
            disk = SimulatedDisk(Random(seed))
            file = await durable_file(disk, "log", b"synced ")
            file.append(b"abc")
            disk.crash()
            ends.add(content(disk, "log"))

        assert ends == {b"synced ", b"synced a", b"synced ab", b"synced abc"}

    async def test_overwrites_survive_each_by_itself(self) -> None:
        ends = set()
        for seed in range(100):
            disk = SimulatedDisk(Random(seed))
            file = await durable_file(disk, "log", b"ab")
            file.write_at(0, b"A")
            file.write_at(1, b"B")
            disk.crash()
            ends.add(content(disk, "log"))

        assert ends == {b"ab", b"Ab", b"aB", b"AB"}

    async def test_an_overwrite_does_not_outlive_the_bytes_it_was_meant_for(self) -> None:
        ends = set()
        for seed in range(200):
            disk = SimulatedDisk(Random(seed))
            file = await durable_file(disk, "log", b"aaa")
            file.truncate(0)
            file.append(b"bbb")
            file.write_at(1, b"B")
            disk.crash()
            ends.add(content(disk, "log"))

        assert ends == {b"aaa", b"", b"b", b"bb", b"bB", b"bbb", b"bBb"}

    async def test_a_sync_covers_what_was_written_before_it_began(self) -> None:
        async def write_meanwhile() -> None:
            file.append(b"late")

        disk = SimulatedDisk(Random(1), delay=write_meanwhile)
        file = disk.open("log", create=True)
        await disk.sync_directory("")
        file.append(b" early ")

        await file.sync()
        disk.crash(keep_nothing=True)

        assert content(disk, "log") == b"late early "


class TestNamesAfterAPowerCut:
    @unhurried
    @given(
        st.lists(
            st.one_of(
                st.tuples(st.just("create"), st.sampled_from("abc")),
                st.tuples(st.just("remove"), st.sampled_from("abc")),
                st.tuples(st.just("rename"), st.sampled_from("abc"), st.sampled_from("abc")),
                st.tuples(st.just("sync")),
            )
        ),
        SEEDS,
    )
    def test_names_survive_up_to_a_point(self, operations: list[Operation], seed: int) -> None:
        disk = SimulatedDisk(Random(seed))
        states = [tree(disk)]
        for number, (name, *paths) in enumerate(operations):
            if name == "sync":
                now(disk.sync_directory(""))
                states = states[-1:]
            elif name == "create" and not disk.exists(paths[0]):
                file = disk.open(paths[0], create=True)
                states.append(tree(disk))
                file.append(bytes([number % 256]))
                now(file.sync())
                states[-1] = tree(disk)
            elif name != "create" and disk.exists(paths[0]):
                getattr(disk, name)(*paths)
                states.append(tree(disk))

        disk.crash()

        assert tree(disk) in states

    @unhurried
    @given(
        st.lists(
            st.tuples(
                st.sampled_from(["rename", "make_directory", "remove_directory", "sync_directory"]),
                PATHS,
                PATHS,
            ),
            max_size=30,
        ),
        SEEDS,
    )
    def test_what_is_only_moved_is_found_under_one_name(
        self, operations: list[Operation], seed: int
    ) -> None:
        disk = SimulatedDisk(Random(seed))
        disk.make_directory("a")
        for path in ("b", "a/a", "a/b"):
            file = disk.open(path, create=True)
            file.append(path.encode())
            now(file.sync())
        now(disk.sync_directory("a"))
        now(disk.sync_directory(""))

        for name, path, other in operations:
            with contextlib.suppress(DiskError):
                if name == "rename" and (not disk.exists(other) or disk.is_directory(other)):
                    disk.rename(path, other)
                elif name == "make_directory":
                    disk.make_directory(path)
                elif name == "remove_directory" and disk.is_directory(path):
                    disk.remove(path)
                elif name == "sync_directory" and disk.is_directory(path):
                    now(disk.sync_directory(path))
        disk.crash()

        assert sorted(data for data in tree(disk).values() if data) == [b"a/a", b"a/b", b"b"]

    @pytest.mark.parametrize(
        ("operations", "synced"),
        [
            (["make_directory new", "rename old/log new/log"], "new"),
            (["rename old/log other/log", "remove old"], ""),
            (["rename old/log other/log", "rename empty old"], ""),
            (["rename old/deep deep", "rename old deep/old"], ""),
        ],
    )
    async def test_a_change_is_not_durable_without_what_it_stands_on(
        self, operations: list[str], synced: str
    ) -> None:
        disk = SimulatedDisk(Random(1))
        for path in ("old", "other", "empty"):
            disk.make_directory(path)
        if "rename old/deep deep" in operations:
            disk.make_directory("old/deep")
        await durable_file(disk, "old/log", b"durable")
        await disk.sync_directory("old")

        for operation in operations:
            name, *paths = operation.split()
            getattr(disk, name)(*paths)
        await disk.sync_directory(synced)
        disk.crash(keep_nothing=True)

        assert [data for data in tree(disk).values() if data] == [b"durable"]

    async def test_a_synced_file_without_a_synced_name_may_be_gone(self) -> None:
        found = set()
        for seed in range(20):
            disk = SimulatedDisk(Random(seed))
            disk.make_directory("a")
            with contextlib.closing(disk.open("a/log", create=True)) as file:
                file.append(b"synced")
                await file.sync()
            await disk.sync_directory("a")
            disk.crash()
            found.add(tuple(tree(disk).items()))

        assert found == {(), (("a", None), ("a/log", b"synced"))}

    async def test_a_synced_name_stays_whatever_its_neighbours_do(self) -> None:
        disk = SimulatedDisk(Random(1))
        await durable_file(disk, "log", b"synced")
        disk.make_directory("a")

        disk.rename("log", "renamed")
        disk.crash(keep_nothing=True)

        assert tree(disk) == {"log": b"synced"}

    @pytest.mark.parametrize("chosen", [1, 2])
    async def test_a_replaced_file_is_old_or_new_wherever_the_power_is_cut(
        self, chosen: int
    ) -> None:
        waits = 0

        async def cut_at_the_chosen_wait() -> None:
            nonlocal waits
            waits += 1
            if waits == chosen:
                disk.crash()

        for seed in range(100):
            waits = -2  # of the first replacement: one for the file, one for its name
            disk = SimulatedDisk(Random(seed), delay=cut_at_the_chosen_wait)
            await disk.replace("checkpoint", b"old")
            with pytest.raises(FileClosed, match="power was cut"):
                await disk.replace("checkpoint", b"new and longer")

            assert content(disk, "checkpoint") in {b"old", b"new and longer"}

    async def test_a_file_that_was_replaced_stays_so(self) -> None:
        for seed in range(100):
            disk = SimulatedDisk(Random(seed))
            await disk.replace("checkpoint", b"old")
            await disk.replace("checkpoint", b"new and longer")
            disk.crash()

            assert tree(disk) == {"checkpoint": b"new and longer"}

    async def test_one_cut_off_does_not_touch_what_comes_after_it(self) -> None:
        go_on = asyncio.Event()

        async def wait() -> None:
            await go_on.wait()

        disk = SimulatedDisk(Random(1), delay=wait)
        before = asyncio.ensure_future(disk.replace("checkpoint", b"before"))
        await asyncio.sleep(0)
        disk.crash()
        after = asyncio.ensure_future(disk.replace("checkpoint", b"after"))
        await asyncio.sleep(0)

        before.cancel()
        await asyncio.wait([before])
        go_on.set()
        await after

        assert tree(disk) == {"checkpoint": b"after"}


async def test_handles_die_with_the_power_and_the_disk_goes_on() -> None:
    disk = SimulatedDisk(Random(1), capacity=10)
    old = await durable_file(disk, "log", b"synced")

    disk.crash()
    for name, *arguments in (("append", b"x"), ("read_at", 0, 1), ("truncate", 0)):
        with pytest.raises(FileClosed, match="log"):
            getattr(old, name)(*arguments)
    new = disk.open("log")
    disk.remove("log")
    old.close()

    assert (new.read_at(0, 9), disk.free()) == (b"synced", 4)
    new.close()
    assert disk.free() == 10


class TestFaults:
    async def test_what_does_not_fit_is_not_written_at_all(self) -> None:
        disk = SimulatedDisk(Random(1), capacity=10)
        file = await durable_file(disk, "log", b"12345678")

        for name, *arguments in (("append", b"xyz"), ("write_at", 6, b"vwxyz"), ("truncate", 11)):
            with pytest.raises(DiskFull, match="log"):
                getattr(file, name)(*arguments)
        with pytest.raises(DiskFull):
            await disk.replace("log", b"xyz")

        assert (tree(disk), disk.free()) == ({"log": b"12345678"}, 2)

    async def test_a_filled_disk_has_room_for_what_is_cut_or_removed(self) -> None:
        disk = SimulatedDisk(Random(1))
        file = await durable_file(disk, "log", b"12345678")
        await durable_file(disk, "other", b"1234")

        disk.fill()
        file.write_at(0, b"X")
        file.truncate(6)
        file.append(b"78")
        assert disk.free() == 0
        disk.remove("other")
        with pytest.raises(DiskFull):
            file.append(b"x")  # who has it open still needs the room

        disk.heal()
        file.append(b"9")
        assert content(disk, "log") == b"X23456789"

    async def test_a_failed_part_fails_at_each_touch_until_it_is_healed(self) -> None:
        disk = SimulatedDisk(Random(1))
        bad = await durable_file(disk, "bad-0", b"data")
        good = await durable_file(disk, "good-0", b"data")

        disk.fail("bad")
        with pytest.raises(DiskFailed, match="bad-0"):
            bad.read_at(0, 1)
        for name, *paths in (("open", "bad-0"), ("exists", "bad-0"), ("list", "bad"),
                             ("size", "bad-0"), ("remove", "bad-0"), ("make_directory", "bad-1"),
                             ("rename", "good-0", "bad-1"), ("rename", "bad-0", "x")):  # fmt: skip
            with pytest.raises(DiskFailed, match="bad"):
                getattr(disk, name)(*paths)
        assert disk.list() == ("bad-0", "good-0")
        good.append(b"!")
        disk.fail()
        with pytest.raises(DiskFailed, match="good-0"):
            await good.sync()

        disk.heal()
        await good.sync()
        assert tree(disk) == {"bad-0": b"data", "good-0": b"data!"}

    async def test_a_disk_that_fails_during_a_sync_has_not_synced(self) -> None:
        async def fail() -> None:
            disk.fail("log")

        disk = SimulatedDisk(Random(1), delay=fail)
        with pytest.raises(DiskFailed):
            await durable_file(disk, "log", b"data")

        disk.heal()
        await disk.sync_directory("")
        disk.heal()
        disk.crash(keep_nothing=True)
        assert content(disk, "log") == b""

    async def test_a_read_only_disk_can_be_read(self) -> None:
        disk = SimulatedDisk(Random(1))
        file = await durable_file(disk, "log", b"data")

        disk.make_read_only()

        assert content(disk, "log") == b"data"
        for name, *arguments in (("append", b"x"), ("write_at", 0, b"x"), ("truncate", 0)):
            with pytest.raises(ReadOnlyDisk, match="log"):
                getattr(file, name)(*arguments)
        for name, *paths in (("make_directory", "a"), ("remove", "log"), ("rename", "log", "b")):
            with pytest.raises(ReadOnlyDisk):
                getattr(disk, name)(*paths)
        with pytest.raises(ReadOnlyDisk):
            disk.open("new", create=True)
        with pytest.raises(FileMissing):
            disk.open("new")

    async def test_a_flipped_bit_stays_flipped(self) -> None:
        disk = SimulatedDisk(Random(1))
        await durable_file(disk, "log", b"abc")

        disk.flip_bit("log", 1, 0)
        disk.crash()

        assert content(disk, "log") == b"acc"


def test_a_sync_does_not_copy_the_file() -> None:
    tracemalloc.start()
    file = SimulatedDisk(Random(1)).open("log", create=True)
    file.append(bytes(8_000_000))
    now(file.sync())
    before, _ = tracemalloc.get_traced_memory()

    tracemalloc.reset_peak()
    for _ in range(1_000):
        file.append(b"x" * 100)
        now(file.sync())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak - before < 4_000_000
