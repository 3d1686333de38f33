"""A disk in memory that forgets, at a power cut, what was not synced.

Rule: `crash` loses only what a real disk may lose, and the seed chooses. Of a file's bytes: what
was appended or cut since its last sync survives up to some point, and the append at that point may
be torn; what was overwritten in place is old or new, each write by itself. Of the names: what was
done since the last sync of their directory survives up to some point, in the order it was done in.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random

from runtime import files
from runtime.files import Data, DiskFailed, DiskFull, File, FileClosed, FileMissing, WrongKind
from runtime.simulation.platter import Content, Directory, Names, Node

Delay = Callable[[], Awaitable[None]]

_ENDLESS = 1 << 60


class _Drive:
    """What a disk and its open files share: room, faults, and how often the power was cut."""

    def __init__(self, capacity: int, delay: Delay | None) -> None:
        self.capacity = capacity
        self.used = 0
        self.power_cuts = 0
        self.is_read_only = False
        self.failing: tuple[str, ...] = ()  # prefixes of paths
        self.slowness_s = 0.0  # that a sync takes longer
        self._delay = delay

    def touch(self, path: str, *, writing: bool = False) -> None:
        if path.startswith(self.failing):
            raise DiskFailed(path)
        if writing and self.is_read_only:
            raise files.ReadOnlyDisk(path)

    def take(self, path: str, count: int) -> None:
        """Room for so many bytes more; fewer than none gives it back."""
        if count > 0 and self.used + count > self.capacity:
            raise DiskFull(path)
        self.used += count

    def give_back(self, content: Content) -> None:
        """The room of a file that has no name and no handle is free."""
        if not content.is_named and not content.handles:
            self.used -= len(content.bytes)

    async def flush(self, path: str) -> None:
        """Take as long as a sync takes; a power cut meanwhile is the end of it."""
        power_cuts = self.power_cuts
        self.touch(path)
        if self._delay is not None:
            await self._delay()
        if self.slowness_s:
            await asyncio.sleep(self.slowness_s)
        if power_cuts != self.power_cuts:
            raise FileClosed(path, "the power was cut during its sync")
        self.touch(path)


class SimulatedFile:
    """A handle. It dies with the power; the file may live on."""

    def __init__(self, path: str, content: Content, drive: _Drive) -> None:
        self.path = path
        self._content = content
        self._drive = drive
        self._power_cuts = drive.power_cuts
        self._is_closed = False
        content.handles += 1

    @property
    def size(self) -> int:
        self._check()
        return len(self._content.bytes)

    def append(self, data: Data) -> int:
        position = len(self._content.bytes)
        self.write_at(position, data)
        return position

    def write_at(self, position: int, *data: Data) -> None:
        self._check(position, writing=True)
        whole = data[0] if len(data) == 1 else b"".join(data)
        length = memoryview(whole).nbytes
        if length:
            self._drive.take(self.path, max(0, position + length - len(self._content.bytes)))
            self._content.write(position, whole)

    def read_at(self, position: int, length: int) -> bytes:
        self._check(position)
        with memoryview(self._content.bytes) as view:
            return bytes(view[position : position + max(0, length)])

    def truncate(self, size: int) -> None:
        self._check(size, writing=True)
        self._drive.take(self.path, size - len(self._content.bytes))
        self._content.truncate(size)

    async def sync(self) -> None:
        self._check()
        writes = self._content.writes
        await self._drive.flush(self.path)
        self._content.settle(writes)

    def close(self) -> None:
        if not self._is_closed and self._power_cuts == self._drive.power_cuts:
            self._content.handles -= 1
            self._drive.give_back(self._content)
        self._is_closed = True

    def _check(self, position: int = 0, *, writing: bool = False) -> None:
        assert position >= 0, f"{position} is before the start of {self.path}"
        if self._is_closed or self._power_cuts != self._drive.power_cuts:
            raise FileClosed(self.path)
        self._drive.touch(self.path, writing=writing)


class SimulatedDisk:
    """A folder in memory, and the faults of a disk as methods. They last until `heal`."""

    def __init__(
        self, random: Random, *, capacity: int | None = None, delay: Delay | None = None
    ) -> None:
        self.is_forgetful = False  # whether a power cut leaves nothing that was not synced
        self._random = random
        self._capacity = _ENDLESS if capacity is None else capacity
        self._drive = _Drive(self._capacity, delay)
        self._names = Names()
        self._asides: set[str] = set()

    def open(self, path: str, *, create: bool = False, mapped: bool = False) -> File:
        del mapped  # its files are memory anyway, and a crash forgets the same of all
        if create and path and not self.exists(path):
            self._drive.touch(path, writing=True)
            self._names.change((*self._names.entry(path), Content()))
        self._drive.touch(path)
        return SimulatedFile(path, self._names.find(Content, path), self._drive)

    def exists(self, path: str) -> bool:
        self._drive.touch(path)
        with suppress(FileMissing, WrongKind):
            self._names.find(Node, path)
            return True
        return False

    def is_directory(self, path: str) -> bool:
        return self.exists(path) and isinstance(self._names.find(Node, path), Directory)

    def list(self, path: str = "") -> tuple[str, ...]:
        self._drive.touch(path)
        return tuple(sorted(self._names.find(Directory, path).entries))

    def size(self, path: str) -> int:
        self._drive.touch(path)
        return len(self._names.find(Content, path).bytes)

    def make_directory(self, path: str) -> None:
        names = files.segments_of(path)
        for depth, name in enumerate(names):
            parent = self._names.find(Directory, path, names[:depth])
            if name not in parent.entries:
                self._drive.touch(path, writing=True)
                self._names.change((parent, name, Directory()))
        if not self.is_directory(path):
            raise files.AlreadyExists(path)

    def rename(self, old: str, new: str) -> None:
        files.refuse_to_move_into_itself(old, new)
        self._drive.touch(old, writing=True)
        self._drive.touch(new, writing=True)
        source, node = self._names.entry(old), self._names.find(Node, old)
        target = directory, name = self._names.entry(new)
        replaced = directory.entries.get(name)
        if replaced is node:
            return
        if isinstance(replaced, Directory) and old.startswith(f"{new}/"):
            raise files.DirectoryNotEmpty(new)
        if replaced is not None and type(replaced) is not type(node):
            raise WrongKind(new)
        self._names.change((*source, None), (*target, node), emptied=self._nameless(new, replaced))

    def remove(self, path: str) -> None:
        self._drive.touch(path, writing=True)
        entry, node = self._names.entry(path), self._names.find(Node, path)
        self._names.change((*entry, None), emptied=self._nameless(path, node))

    def remove_tree(self, path: str) -> None:
        files.entry_of(path)
        for name in self.list(path):
            below = f"{path}/{name}"
            (self.remove_tree if self.is_directory(below) else self.remove)(below)
        self.remove(path)

    async def sync_directory(self, path: str) -> None:
        directory, changes = self._names.find(Directory, path), self._names.changes
        await self._drive.flush(path)
        self._names.settle(directory, changes)

    async def replace(self, path: str, data: bytes) -> None:
        await files.replace_whole(self, path, data, self._asides)

    def free(self) -> int:
        self._drive.touch("")
        return max(0, self._drive.capacity - self._drive.used)

    def crash(self, *, keep_nothing: bool = False) -> None:
        """Cut the power: handles die, and what was not synced is kept or lost by chance."""
        random = None if keep_nothing or self.is_forgetful else self._random
        self._asides = set()
        self._drive.power_cuts += 1
        self._drive.used = 0
        for content in self._names.crash(random):
            content.crash(random)
            content.handles, content.is_named = 0, True
            self._drive.used += len(content.bytes)

    def settle(self) -> None:
        """All is durable from now on that was written up to now."""
        for content in self._names.settle_all():
            content.settle(content.writes)

    def fill(self) -> None:
        """Leave no room."""
        self._drive.capacity = self._drive.used

    def fail(self, path_prefix: str = "") -> None:
        """Whatever touches a path that begins so is DiskFailed."""
        self._drive.failing += (path_prefix,)

    def slow_down(self, duration_ms: float) -> None:
        """Every sync takes so much longer."""
        self._drive.slowness_s = duration_ms / 1000

    def make_read_only(self) -> None:
        """Refuse every write."""
        self._drive.is_read_only = True

    def heal(self) -> None:
        """Undo `fill`, `fail`, `slow_down` and `make_read_only`; a power cut does not."""
        self._drive.slowness_s = 0.0
        self.is_forgetful = False
        self._drive.capacity = self._capacity
        self._drive.failing = ()
        self._drive.is_read_only = False

    def flip_bit(self, path: str, position: int, bit: int) -> None:
        """Let a bit rot where it lies."""
        self._names.find(Content, path).bytes[position] ^= 1 << bit

    def _nameless(self, path: str, node: Node | None) -> Node | None:
        """What is about to lose its name; a directory must be empty for that."""
        if isinstance(node, Directory) and node.entries:
            raise files.DirectoryNotEmpty(path)
        if isinstance(node, Content):
            node.is_named = False
            self._drive.give_back(node)
        return node
