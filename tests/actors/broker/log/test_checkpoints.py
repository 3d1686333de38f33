"""Checkpoints in Kafka's formats, whole at every moment (B172)."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.broker.log import checkpoints
from actors.broker.log.checkpoints import (
    CLEAN_SHUTDOWN,
    HIGH_WATERMARKS,
    LEADER_EPOCHS,
    META_PROPERTIES,
    MalformedCheckpoint,
    MetaProperties,
)
from runtime.disk import RealDisk
from runtime.files import Data, Disk, File
from runtime.simulation.disk import SimulatedDisk
from tests.wire.strategies import fixed
from wire.ids import TopicPartition


class PowerCut(BaseException):
    """Nobody below a test catches it: the process is gone."""


class FragileFile:
    """A file whose every change is a step of its disk."""

    def __init__(self, disk: "FragileDisk", file: File) -> None:
        self._disk = disk
        self._file = file

    @property
    def path(self) -> str:
        return self._file.path

    @property
    def size(self) -> int:
        return self._file.size

    def append(self, data: Data) -> int:
        self._disk.step()
        return self._file.append(data)

    def write_at(self, position: int, *data: Data) -> None:
        self._disk.step()
        self._file.write_at(position, *data)

    def read_at(self, position: int, length: int) -> bytes:
        return self._file.read_at(position, length)

    def truncate(self, size: int) -> None:
        self._disk.step()
        self._file.truncate(size)

    async def sync(self) -> None:
        self._disk.step()
        await self._file.sync()

    def close(self) -> None:
        self._file.close()


class FragileDisk(SimulatedDisk):
    """Cuts the power before the step that it is armed for."""

    def __init__(self, seed: int) -> None:
        super().__init__(Random(seed))
        self._loses_all = seed == 0
        self._left = -1

    def arm(self, steps: int) -> None:
        self._left = steps

    def cut(self) -> None:
        self._left = -1
        self.crash(keep_nothing=self._loses_all)

    def step(self) -> None:
        if self._left == 0:
            self.cut()
            raise PowerCut
        self._left -= 1

    def open(self, path: str, *, create: bool = False, mapped: bool = False) -> File:
        if create and not self.exists(path):
            self.step()
        return FragileFile(self, super().open(path, create=create, mapped=mapped))

    def make_directory(self, path: str) -> None:
        self.step()
        super().make_directory(path)

    def rename(self, old: str, new: str) -> None:
        self.step()
        super().rename(old, new)

    def remove(self, path: str) -> None:
        self.step()
        super().remove(path)

    async def sync_directory(self, path: str) -> None:
        self.step()
        await super().sync_directory(path)


async def at_every_step(
    prepare: Callable[[FragileDisk], Awaitable[object]],
    act: Callable[[FragileDisk], Awaitable[object]],
    check: Callable[[FragileDisk, bool], Awaitable[object]],
    seeds: int = 8,
) -> int:
    """Cut the power before each step of an act, and after the last; the number of cuts."""
    cuts = 0
    for seed in range(seeds):
        for steps in count():
            disk = FragileDisk(seed)
            await prepare(disk)
            disk.arm(steps)
            try:
                await act(disk)
                is_done = True
                disk.cut()
            except PowerCut:
                is_done = False
            await check(disk, is_done)
            cuts += 1
            if is_done:
                break
    return cuts


@pytest.fixture(params=["real", "simulated"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    return RealDisk(tmp_path / "node") if request.param == "real" else SimulatedDisk(Random(1))


async def put(disk: Disk, path: str, data: bytes) -> None:
    await disk.replace(path, data)


ORDERS = TopicPartition("orders", 0)
OFFSETS = {TopicPartition("pay-ments.2", 11): 2**63 - 1, ORDERS: 0}


class TestOffsets:
    async def test_the_file_is_kafkas(self, disk):
        await checkpoints.write_offsets(disk, HIGH_WATERMARKS, OFFSETS)

        written = checkpoints.read_whole(disk, HIGH_WATERMARKS)
        assert written == b"0\n2\norders 0 0\npay-ments.2 11 9223372036854775807\n"

    async def test_what_is_written_is_read(self, disk):
        await checkpoints.write_offsets(disk, HIGH_WATERMARKS, OFFSETS)

        assert checkpoints.read_offsets(disk, HIGH_WATERMARKS) == OFFSETS

    async def test_a_missing_file_is_empty(self, disk):
        assert checkpoints.read_offsets(disk, HIGH_WATERMARKS) == {}

    @pytest.mark.parametrize("data", [b"", b"0\n", b"0", b"0\n0\n"])
    def test_a_file_without_rows_is_empty(self, data):
        assert checkpoints.decode_offsets(data, HIGH_WATERMARKS) == {}

    @pytest.mark.parametrize(
        ("data", "line"),
        [
            (b"1\n0\n", 1),
            (b"\n0\n", 1),
            (b"zero\n0\n", 1),
            (b"0\nmany\n", 2),
            (b"0\n-1\n", 2),
            (b"0\n2\norders 0 5\n", 2),
            (b"0\n0\norders 0 5\n", 2),
            (b"0\n1\norders 0\n", 3),
            (b"0\n1\norders 0 5 6\n", 3),
            (b"0\n1\n\n", 3),
            (b"0\n2\norders 0 5\norders 0 6\n", 4),
            (b"0\n1\norders 0 -5\n", 3),
            (b"0\n1\norders x 5\n", 3),
            (b"0\n1\norders 2147483648 5\n", 3),
            (b"0\n1\norders 0 9223372036854775808\n", 3),
            (b"0\n1\norders 0 " + b"9" * 5000 + b"\n", 3),
            ("0\n1\norders 0 ٣\n".encode(), 3),
            (b"0\n1\nor/ders 0 5\n", 3),
            (b"0\n1\n.. 0 5\n", 3),
            (b"0\n1\n" + b"x" * 250 + b" 0 5\n", 3),
            (b"0\n1\n\xff 0 5\n", 3),
        ],
    )
    def test_a_malformed_file_is_refused_with_its_line(self, data, line):
        with pytest.raises(MalformedCheckpoint) as refused:
            checkpoints.decode_offsets(data, HIGH_WATERMARKS)

        assert refused.value.line == line
        assert refused.value.path == HIGH_WATERMARKS
        assert len(str(refused.value)) < 500

    def test_a_file_edited_on_windows_is_read(self):
        data = b"0\r\n1\r\norders 0 5\r\n"

        assert checkpoints.decode_offsets(data, HIGH_WATERMARKS) == {ORDERS: 5}


NAMES = st.text("abcXYZ019._-", min_size=1, max_size=249).filter(lambda name: name.strip("."))
ROWS = st.dictionaries(
    st.builds(TopicPartition, NAMES, st.integers(0, 2**31 - 1)), st.integers(0, 2**63 - 1)
)
LINES = st.lists(
    st.one_of(
        st.sampled_from(["0", "1", "2", "orders 0 5", "3 4", "0 0", "", " ", "-1", "1 1 1"]),
        st.text(max_size=12),
    ),
    max_size=6,
).map(lambda lines: "\n".join(lines).encode("utf-8", "surrogatepass"))


@fixed(300)
@given(ROWS)
def test_any_offsets_survive_the_file(offsets):
    data = checkpoints.encode_offsets(offsets)

    assert checkpoints.decode_offsets(data, HIGH_WATERMARKS) == offsets


@fixed(300)
@given(st.one_of(st.binary(max_size=80), LINES))
def test_whatever_is_in_a_file_it_is_read_or_malformed(data):
    for decode, path in (
        (checkpoints.decode_offsets, HIGH_WATERMARKS),
        (checkpoints.decode_epochs, LEADER_EPOCHS),
    ):
        with suppress(MalformedCheckpoint):
            decode(data, path)


@fixed(300)
@given(ROWS, st.data())
def test_a_flipped_bit_is_read_or_malformed(offsets, chosen):
    data = bytearray(checkpoints.encode_offsets(offsets))
    data[chosen.draw(st.integers(0, len(data) - 1))] ^= 1 << chosen.draw(st.integers(0, 7))

    with suppress(MalformedCheckpoint):
        assert len(checkpoints.decode_offsets(bytes(data), HIGH_WATERMARKS)) in {0, len(offsets)}


async def test_a_crash_during_a_write_leaves_the_old_file_or_the_new_one():
    old, new = {ORDERS: 5}, {ORDERS: 7, TopicPartition("orders", 1): 3}

    async def check(disk: FragileDisk, is_done: bool) -> None:
        found = checkpoints.read_offsets(disk, HIGH_WATERMARKS)
        assert found == new or (found == old and not is_done)
        await checkpoints.write_offsets(
            disk, HIGH_WATERMARKS, old
        )  # what is left is in nobody's way
        assert checkpoints.read_offsets(disk, HIGH_WATERMARKS) == old

    cuts = await at_every_step(
        lambda disk: checkpoints.write_offsets(disk, HIGH_WATERMARKS, old),
        lambda disk: checkpoints.write_offsets(disk, HIGH_WATERMARKS, new),
        check,
    )
    assert cuts > 8 * 4


class TestCleanShutdown:
    async def test_the_marker_is_there_until_it_is_removed(self, disk):
        assert not checkpoints.was_clean_shutdown(disk)

        await checkpoints.mark_clean_shutdown(disk)
        assert checkpoints.was_clean_shutdown(disk)
        assert disk.size(CLEAN_SHUTDOWN) == 0

        await checkpoints.unmark_clean_shutdown(disk)
        await checkpoints.unmark_clean_shutdown(disk)
        assert not checkpoints.was_clean_shutdown(disk)

    async def test_a_marker_that_was_removed_does_not_come_back_at_a_power_cut(self):
        async def check(disk: FragileDisk, is_done: bool) -> None:
            assert not (is_done and checkpoints.was_clean_shutdown(disk))

        await at_every_step(
            checkpoints.mark_clean_shutdown, checkpoints.unmark_clean_shutdown, check
        )


class TestMetaProperties:
    async def test_what_is_written_is_read(self, disk):
        await checkpoints.write_meta_properties(disk, MetaProperties(3, "cluster-a"))

        assert checkpoints.read_meta_properties(disk) == MetaProperties(3, "cluster-a")

    async def test_a_missing_file_is_nobodys_folder(self, disk):
        assert checkpoints.read_meta_properties(disk) is None

    async def test_kafkas_own_is_read(self, disk):
        kafkas = b"#\n#Thu Apr 01 12:00:00 UTC 2021\ncluster.id=x=y\nversion=0\nbroker.id=12\n"
        await put(disk, META_PROPERTIES, kafkas)

        assert checkpoints.read_meta_properties(disk) == MetaProperties(12, "x=y")

    @pytest.mark.parametrize(
        ("data", "line"),
        [
            (b"", 1),
            (b"version=0\ncluster.id=a\n", 1),
            (b"broker.id=1\nversion=1\ncluster.id=a\n", 2),
            (b"version=0\ncluster.id=a\nbroker.id=one\n", 3),
            (b"version=0\nbroker\n", 2),
            (b"version=0\n\xff\n", 2),
        ],
    )
    async def test_a_malformed_one_is_refused_with_its_line(self, disk, data, line):
        await put(disk, META_PROPERTIES, data)

        with pytest.raises(MalformedCheckpoint) as refused:
            checkpoints.read_meta_properties(disk)
        assert refused.value.line == line
