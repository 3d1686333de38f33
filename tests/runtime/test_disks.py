"""One suite, two disks: what a real folder does, the simulated one does too."""

import asyncio
import contextlib
import ctypes
import gc
import os
import resource
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import pytest

from runtime.disk import RealDisk
from runtime.files import (
    AlreadyExists,
    BadPath,
    DirectoryNotEmpty,
    Disk,
    DiskError,
    DiskFailed,
    DiskFull,
    File,
    FileClosed,
    FileMissing,
    ReadOnlyDisk,
    WrongKind,
)
from runtime.simulation.disk import SimulatedDisk

Open = Callable[[str], File]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "node"


@pytest.fixture
def real(folder: Path) -> RealDisk:
    return RealDisk(folder)


class MappingDisk(RealDisk):
    """Reads all it can as memory."""

    def open(self, path: str, *, create: bool = False, mapped: bool = True) -> File:
        return super().open(path, create=create, mapped=mapped)


@pytest.fixture(params=["real", "mapped", "simulated"])
def disk(request: pytest.FixtureRequest, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    if request.param == "mapped":
        monkeypatch.setattr("runtime.mapped.GROWTH_BYTES", 1)
        return MappingDisk(folder)
    return RealDisk(folder) if request.param == "real" else SimulatedDisk(Random(1))


@pytest.fixture
def opened(disk: Disk) -> Iterator[Open]:
    """Opens on the disk, makes what is missing, and closes in the end."""
    with contextlib.ExitStack() as stack:
        yield lambda path: stack.enter_context(contextlib.closing(disk.open(path, create=True)))


def content(disk: Disk, path: str) -> bytes:
    with contextlib.closing(disk.open(path)) as file:
        return file.read_at(0, file.size)


class TestBytes:
    def test_an_append_says_where_it_begins(self, opened: Open) -> None:
        file = opened("log")

        assert [file.append(b"one"), file.append(b""), file.append(b"three")] == [0, 3, 3]
        assert (file.read_at(0, 100), file.size) == (b"onethree", 8)

    @pytest.mark.parametrize("wrap", [bytearray, memoryview, lambda b: memoryview(b).cast("I")])
    def test_any_bytes_are_written_as_they_are_now(self, opened: Open, wrap: Any) -> None:
        file, buffer = opened("log"), bytearray(b"abcd")
        data = wrap(buffer)

        assert (file.append(data), file.append(data)) == (0, 4)
        file.write_at(2, data)
        buffer[:] = b"late"

        assert file.read_at(0, 8) == b"ababcdcd"

    def test_a_read_is_short_at_the_end_and_empty_beyond_it(self, opened: Open) -> None:
        file = opened("log")
        file.append(b"abc")

        reads = [file.read_at(*at) for at in [(1, 1), (1, 9), (3, 1), (99, 1), (0, 0), (1, -1)]]

        assert reads == [b"b", b"bc", b"", b"", b"", b""]

    def test_a_write_in_place_may_reach_past_the_end(self, opened: Open) -> None:
        file = opened("log")
        file.append(b"abc")

        file.write_at(2, b"XYZ")

        assert (file.read_at(0, 9), file.append(b"!")) == (b"abXYZ", 5)

    def test_several_buffers_are_written_one_after_the_other(self, opened: Open) -> None:
        file = opened("log")
        file.append(b"abc")

        file.write_at(2, b"12", b"", bytearray(b"3"), memoryview(b"45").cast("H"))
        file.write_at(9)
        file.write_at(9, b"", b"")

        assert (file.read_at(0, 99), file.size) == (b"ab12345", 7)

    def test_more_buffers_than_the_kernel_takes_at_once(self, opened: Open) -> None:
        file = opened("log")
        parts = [b"%05d" % number for number in range(3000)]

        file.write_at(0, *parts)

        assert file.read_at(0, 99_999) == b"".join(parts)

    def test_a_gap_reads_as_zeros_and_nothing_makes_no_gap(self, opened: Open) -> None:
        file = opened("log")

        file.write_at(4, b"x")
        file.write_at(100, b"")

        assert (file.size, file.read_at(0, 9)) == (5, b"\0\0\0\0x")

    def test_an_append_after_a_truncation_begins_at_the_new_end(
        self, opened: Open, disk: Disk
    ) -> None:
        file = opened("log")
        file.append(b"abcdef")

        file.truncate(2)
        assert file.append(b"X") == 2
        file.truncate(5)

        assert (file.read_at(0, 9), disk.size("log")) == (b"abX\0\0", 5)

    def test_two_handles_see_one_file(self, opened: Open) -> None:
        first, second = opened("log"), opened("log")

        assert [first.append(b"ab"), second.append(b"cd"), first.append(b"ef")] == [0, 2, 4]
        second.truncate(3)

        assert (first.size, first.append(b"!"), second.read_at(0, 9)) == (3, 3, b"abc!")

    @pytest.mark.parametrize("use", [("read_at", 1), ("write_at", b"x"), ("truncate",)])
    def test_a_position_before_the_start_is_a_bug(self, opened: Open, use: Any) -> None:
        name, *arguments = use
        with pytest.raises(AssertionError):
            getattr(opened("log"), name)(-1, *arguments)

    async def test_a_closed_file_refuses_everything_but_to_be_closed(self, disk: Disk) -> None:
        file = disk.open("log", create=True)
        file.close()
        file.close()

        for name, *arguments in (("append", b""), ("write_at", 0, b""), ("read_at", 0, 1)):
            with pytest.raises(FileClosed, match="'log' is no longer open"):
                getattr(file, name)(*arguments)
        with pytest.raises(FileClosed):
            file.truncate(0)
        with pytest.raises(FileClosed):
            _ = file.size
        with pytest.raises(FileClosed):
            await file.sync()

    async def test_a_sync_leaves_the_file_to_be_written_and_closed(self, disk: Disk) -> None:
        file = disk.open("log", create=True)
        file.append(b"ab")

        syncs = asyncio.gather(file.sync(), file.sync())
        await asyncio.sleep(0)
        file.append(b"cd")
        file.close()
        await syncs

        assert content(disk, "log") == b"abcd"


class TestMapped:
    def test_small_reads_of_a_long_file_follow_what_is_done_to_it(self, disk: Disk) -> None:
        with contextlib.closing(disk.open("index", create=True, mapped=True)) as file:
            data = bytes(range(256)) * 1024
            for at in range(0, len(data), 1000):
                file.append(data[at : at + 1000])
                assert file.read_at(at // 2, 7) == data[at // 2 : at // 2 + 7]
            file.write_at(70_000, b"in place")
            file.truncate(70_004)
            assert (file.read_at(70_000, 99), file.read_at(70_004, 1)) == (b"in p", b"")
            file.write_at(70_006, b"again")
            assert file.read_at(70_000, 99) == b"in p\0\0again"
            file.truncate(0)
            assert file.read_at(0, 9) == b""

    def test_what_another_handle_does_is_seen(self, disk: Disk, opened: Open) -> None:
        with contextlib.closing(disk.open("index", create=True, mapped=True)) as file:
            other = opened("index")
            other.append(bytes(100_000))
            assert file.read_at(99_999, 9) == b"\0"
            other.write_at(99_999, b"x")
            assert file.read_at(99_999, 9) == b"x"
            other.truncate(10)
            assert file.read_at(9, 9) == b"\0"

    def test_a_mapped_file_lets_go_of_all_when_it_is_closed(self, disk: Disk) -> None:
        before = descriptors()
        file = disk.open("index", create=True, mapped=True)
        file.append(bytes(100_000))
        file.read_at(0, 9)

        file.close()
        file.close()

        assert descriptors() == before
        with pytest.raises(FileClosed):
            file.read_at(0, 9)

    async def test_a_crash_forgets_of_a_mapped_file_what_was_not_synced(self) -> None:
        disk = SimulatedDisk(Random(1))
        file = disk.open("index", create=True, mapped=True)
        file.append(b"kept")
        await file.sync()
        await disk.sync_directory("")
        file.append(b"lost")

        disk.crash(keep_nothing=True)

        assert content(disk, "index") == b"kept"


REFUSED: dict[type[DiskError], list[str]] = {
    FileMissing: ["open no", "list no", "size no", "rename no new", "rename file no/x",
                  "remove no", "remove_tree no", "sync_directory no"],
    WrongKind: ["open directory", "open file/x", "open ", "list file", "size directory", "size ",
                "make_directory file/x", "rename file directory", "rename directory file",
                "remove file/x", "remove_tree file", "sync_directory file"],
    AlreadyExists: ["make_directory file"],
    DirectoryNotEmpty: ["remove directory", "rename other directory",
                        "rename directory/x directory"],
    BadPath: ["rename directory directory/x/y", "rename  new", "rename other ", "remove ",
              "remove_tree "],
}  # fmt: skip


class TestNames:
    def test_the_folder_itself_is_an_empty_directory_at_first(self, disk: Disk) -> None:
        assert (disk.exists(""), disk.is_directory(""), disk.list()) == (True, True, ())
        assert disk.free() > 0

    def test_an_existing_file_is_opened_as_it_is(self, disk: Disk, opened: Open) -> None:
        opened("log").append(b"kept")

        assert opened("log").path == "log"
        assert content(disk, "log") == b"kept"

    def test_parents_are_made_for_directories(self, disk: Disk) -> None:
        disk.make_directory("a/b")
        disk.make_directory("a/b")
        disk.make_directory("")

        assert (disk.is_directory("a/b"), disk.list("a"), disk.list("a/b")) == (True, ("b",), ())

    def test_names_are_listed_in_order(self, disk: Disk, opened: Open) -> None:
        for name in ("b", "a", "10", "9", "é", "Z"):
            opened(name)
        disk.make_directory("a-directory")

        assert disk.list() == ("10", "9", "Z", "a", "a-directory", "b", "é")

    def test_exists_and_is_directory_only_answer(self, disk: Disk, opened: Open) -> None:
        opened("file")

        assert disk.exists("file")
        assert not any(disk.exists(path) for path in ("file/x", "no", "no/x"))
        assert not any(disk.is_directory(path) for path in ("file", "file/x", "no", "no/x"))

    def test_a_rename_takes_the_place_of_a_file(self, disk: Disk, opened: Open) -> None:
        old, new = opened("old"), opened("new")
        old.append(b"old")
        new.append(b"new")

        disk.rename("old", "new")
        disk.rename("new", "new")
        old.append(b"!")

        assert (disk.list(), content(disk, "new"), new.read_at(0, 9)) == (("new",), b"old!", b"new")

    def test_a_directory_is_renamed_under_its_open_files(self, disk: Disk, opened: Open) -> None:
        disk.make_directory("orders-0/deep")
        disk.make_directory("orders-0.delete")
        file = opened("orders-0/deep/log")
        file.append(b"before ")

        disk.rename("orders-0", "orders-0.delete")
        file.append(b"after")

        assert disk.list() == ("orders-0.delete",)
        assert content(disk, "orders-0.delete/deep/log") == b"before after"

    def test_a_removed_file_lives_on_for_who_has_it_open(self, disk: Disk, opened: Open) -> None:
        old = opened("log")
        old.append(b"old")

        disk.remove("log")
        opened("log").append(b"new")
        old.append(b"!")

        assert (old.read_at(0, 9), content(disk, "log")) == (b"old!", b"new")

    def test_a_tree_is_removed_with_all_in_it(self, disk: Disk, opened: Open) -> None:
        disk.make_directory("a/b/c")
        disk.make_directory("b")
        for path in ("a/b/log", "a/log", "c"):
            opened(path)

        disk.remove_tree("a")
        disk.remove("b")

        assert disk.list() == ("c",)

    @pytest.mark.parametrize(
        ("use", "error"), [(use, error) for error, uses in REFUSED.items() for use in uses]
    )
    async def test_what_cannot_be_done_is_refused_by_name_and_changes_nothing(
        self, disk: Disk, opened: Open, use: str, error: type[DiskError]
    ) -> None:
        opened("file")
        disk.make_directory("directory/x")
        disk.make_directory("other")
        name, *paths = use.split(" ")

        with pytest.raises(error) as refused:
            await as_coroutine(getattr(disk, name)(*paths))

        assert refused.value.path in paths
        assert repr(refused.value.path) in str(refused.value)
        assert (disk.list(), disk.list("directory")) == (("directory", "file", "other"), ("x",))

    @pytest.mark.parametrize("path", ["/etc", "..", "a/..", ".", "a//b", "a/", "a\0b", "\ud800"])
    async def test_a_path_stays_inside_the_folder(self, disk: Disk, path: str) -> None:
        disk.make_directory("a")
        uses = "open exists is_directory list size make_directory remove remove_tree sync_directory"

        for name in uses.split():
            with pytest.raises(BadPath):
                await as_coroutine(getattr(disk, name)(path))
        for name, *two in (("rename", "a", path), ("rename", path, "b"), ("replace", path, b"")):
            with pytest.raises(BadPath):
                await as_coroutine(getattr(disk, name)(*two))
        assert disk.list() == ("a",)

    def test_the_longest_name_is_255_bytes(self, disk: Disk, opened: Open) -> None:
        opened("é" * 127 + "e")

        with pytest.raises(BadPath, match="longer than 255 bytes"):
            disk.open("é" * 128, create=True)


async def as_coroutine(result: Any) -> Any:
    return await result if asyncio.iscoroutine(result) else result


class TestReplace:
    async def test_a_file_is_replaced_whole_and_nothing_is_left_aside(self, disk: Disk) -> None:
        disk.make_directory("a")
        with contextlib.closing(disk.open("a/checkpoint.tmp", create=True)) as left_by_a_crash:
            left_by_a_crash.append(b"longer than what comes now")

        for data in (b"first", b"2nd"):
            await disk.replace("a/checkpoint", data)
            assert (content(disk, "a/checkpoint"), disk.list("a")) == (data, ("checkpoint",))

    async def test_a_replacement_that_is_refused_leaves_nothing_aside(self, disk: Disk) -> None:
        disk.make_directory("checkpoint")

        with pytest.raises(WrongKind, match="checkpoint"):
            await disk.replace("checkpoint", b"data")

        assert disk.list() == ("checkpoint",)

    async def test_several_may_replace_the_same_file_at_once(self, disk: Disk) -> None:
        contents = [b"one", b"twotwo", b"three" * 3]

        await asyncio.gather(*(disk.replace("checkpoint", data) for data in contents))

        assert content(disk, "checkpoint") in contents
        assert disk.list() == ("checkpoint",)


def descriptors() -> int:
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


class TestRealDisk:
    """What only the kernel can do."""

    @pytest.mark.parametrize("path", ["link", "link/secret", "inside", "inside/file"])
    def test_no_link_is_followed(self, real: RealDisk, folder: Path, path: str) -> None:
        outside = folder.parent / "outside"
        outside.mkdir()
        (outside / "secret").write_text("secret")
        (folder / "link").symlink_to(outside)
        (folder / "directory").mkdir()
        (folder / "inside").symlink_to(folder / "directory")

        uses = "open exists is_directory list size make_directory remove_tree"
        for name in uses.split():
            with pytest.raises(BadPath, match="link"):
                getattr(real, name)(path)
        real.remove("link")

        assert [file.name for file in outside.iterdir()] == ["secret"]

    def test_a_short_write_is_undone(self, real: RealDisk) -> None:
        with contextlib.closing(real.open("log", create=True)) as file:
            file.append(b"kept")
            with no_file_longer_than(64), pytest.raises(DiskFull, match="log"):
                file.append(b"x" * 100)
            assert (real.size("log"), file.size) == (4, 4)
            with no_file_longer_than(64), pytest.raises(DiskFull):
                file.write_at(2, b"x" * 100)
            with no_file_longer_than(64), pytest.raises(DiskFull):
                file.write_at(4, b"x" * 50, b"x" * 50)
            assert (real.size("log"), file.append(b"!")) == (4, 4)

    async def test_a_replacement_that_does_not_fit_leaves_the_old(self, real: RealDisk) -> None:
        await real.replace("checkpoint", b"old")

        with no_file_longer_than(64), pytest.raises(DiskFull):
            await real.replace("checkpoint", b"x" * 100)

        assert (content(real, "checkpoint"), real.list()) == (b"old", ("checkpoint",))

    def test_a_full_device_is_a_full_disk(self) -> None:
        file = RealDisk(Path("/dev")).open("full")
        with contextlib.closing(file), pytest.raises(DiskFull, match="full"):
            file.append(b"x")

    def test_an_input_output_error_is_a_failed_disk(self) -> None:
        file = RealDisk(Path("/proc/self")).open("mem")  # no memory is mapped at address 0
        with contextlib.closing(file), pytest.raises(DiskFailed, match="Input/output error"):
            file.append(b"x")

    async def test_after_a_failed_sync_nothing_is_certain(self) -> None:
        with contextlib.closing(RealDisk(Path("/dev")).open("null")) as file:
            with pytest.raises(DiskFailed, match="Invalid argument"):
                await file.sync()
            with pytest.raises(DiskFailed, match="may be lost"):
                file.append(b"x")

    def test_what_may_not_be_written_can_still_be_read(self, unprivileged: Path) -> None:
        disk = RealDisk(unprivileged)
        with contextlib.closing(disk.open("file", create=True)) as file:
            assert file.read_at(0, 9) == b"kept"
            for name, *arguments in (("append", b"x"), ("write_at", 0, b"x"), ("truncate", 0)):
                with pytest.raises(ReadOnlyDisk, match="file"):
                    getattr(file, name)(*arguments)
        with pytest.raises(ReadOnlyDisk, match="new"):
            disk.open("new", create=True)
        for name, *paths in (
            ("make_directory", "new"),
            ("remove", "file"),
            ("rename", "file", "b"),
        ):
            with pytest.raises(ReadOnlyDisk):
                getattr(disk, name)(*paths)

    def test_a_full_and_a_read_only_file_system_say_so(self) -> None:
        if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode:
            pytest.skip("this user may not mount")
        script = 'mount -t tmpfs -o size=64k tmpfs /mnt && exec $0 -c "$1"'
        done = subprocess.run(
            ["unshare", "-m", "sh", "-c", script, sys.executable, ON_A_SMALL_FILE_SYSTEM],
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            check=False,
        )

        assert (done.stdout, done.stderr) == (
            "DiskFull 40000 ReadOnlyDisk ReadOnlyDisk 40000\n",
            "",
        )

    def test_a_file_that_was_not_closed_is_reported(self, real: RealDisk) -> None:
        before = descriptors()
        with pytest.warns(ResourceWarning, match="'log' was not closed"):
            real.open("log", create=True)

        assert descriptors() == before

    async def test_a_sync_is_done_by_a_thread_even_if_nobody_waits(self, real: RealDisk) -> None:
        before, go_on = descriptors(), threading.Event()
        with ThreadPoolExecutor(1) as threads, contextlib.ExitStack() as stack:
            stack.callback(go_on.set)
            asyncio.get_running_loop().set_default_executor(threads)
            await real.replace("checkpoint", b"old")
            threads.submit(go_on.wait)
            replacement = asyncio.ensure_future(real.replace("checkpoint", b"new"))
            await asyncio.sleep(0)

            assert real.list() == ("checkpoint", "checkpoint.tmp")
            assert content(real, "checkpoint") == b"old"
            replacement.cancel()
            await asyncio.wait([replacement])

        await asyncio.sleep(0)
        assert (content(real, "checkpoint"), real.list()) == (b"old", ("checkpoint",))
        assert descriptors() == before


ON_A_SMALL_FILE_SYSTEM = """
import subprocess
from pathlib import Path
from runtime.disk import RealDisk
from runtime.files import DiskError

def said(use, *arguments, **options):
    try:
        use(*arguments, **options)
    except DiskError as error:
        return type(error).__name__

disk = RealDisk(Path("/mnt"))
file = disk.open("log", create=True)
file.append(bytes(40_000))
full, size = said(file.append, bytes(40_000)), disk.size("log")
file.close()
subprocess.run(["mount", "-o", "remount,ro", "/mnt"], check=True)
file = disk.open("log")
print(full, size, said(file.append, b"x"), said(disk.open, "new", create=True), file.size)
file.close()
"""


@contextlib.contextmanager
def no_file_longer_than(size: int) -> Iterator[None]:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.fixture
def unprivileged() -> Iterator[Path]:
    """A folder that may only be read, and nobody to whom that does not apply."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "file").write_bytes(b"kept")
        (folder / "file").chmod(0o444)
        folder.chmod(0o555)
        capabilities = effective_capabilities()
        set_effective_capabilities(capabilities & ~OVERRIDE_PERMISSIONS)
        try:
            yield folder
        finally:
            set_effective_capabilities(capabilities)
            folder.chmod(0o755)


# --- root without its privileges ------------------------------------------------------------------
# Another user could not pass the folders above, which are this user's own.

CAPABILITY_VERSION = 0x20080522
OVERRIDE_PERMISSIONS = 0b110  # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH
SETS = struct.Struct("6I")  # effective, permitted, inheritable; first all low words, then all high
HEADER = struct.pack("Ii", CAPABILITY_VERSION, 0)  # of this thread


def effective_capabilities() -> int:
    """The low word of what this thread may do beyond permissions; 0 for an ordinary user."""
    return SETS.unpack(capability_sets())[0]


def set_effective_capabilities(effective: int) -> None:
    """Change that low word."""
    sets = SETS.pack(effective, *SETS.unpack(capability_sets())[1:])
    done = ctypes.CDLL(None, use_errno=True).capset(HEADER, sets)
    assert done == 0, os.strerror(ctypes.get_errno())


def capability_sets() -> bytes:
    """What the kernel says of this thread."""
    sets = ctypes.create_string_buffer(SETS.size)
    done = ctypes.CDLL(None, use_errno=True).capget(HEADER, sets)
    assert done == 0, os.strerror(ctypes.get_errno())
    return sets.raw
