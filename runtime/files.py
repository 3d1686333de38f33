"""One node's folder, as actors see it: files that are appended to, and names that are made durable.

Rule: a path is relative and stays inside the folder. Reads and writes go to the page cache and do
not wait; what must outlive a power cut is awaited: `sync` for a file's bytes, `sync_directory` for
the names in a directory.

    DiskError
    ├── BadPath              it would leave the folder, or no disk has such a name
    ├── FileMissing
    ├── FileClosed           the handle was closed, or the power was cut under it
    ├── AlreadyExists
    ├── WrongKind            a file where a directory is needed, or the other way round
    ├── DirectoryNotEmpty
    ├── DiskFull
    ├── ReadOnlyDisk
    └── DiskFailed           EIO and its like: what is on this disk is no longer certain
"""

from contextlib import suppress
from itertools import chain, count
from typing import ClassVar, Protocol

Data = bytes | bytearray | memoryview

MAX_NAME_BYTES = 255  # NAME_MAX of Linux and macOS


class DiskError(Exception):
    """A disk did not do what it was asked to do."""

    sentence: ClassVar[str] = "could not be used"

    def __init__(self, path: str, reason: str = "") -> None:
        super().__init__(f"{path!r} {self.sentence}{reason and f': {reason}'}")
        self.path = path


class BadPath(DiskError):
    """The path would leave the folder, or no disk has such a name."""

    sentence = "is not a path inside the folder"


class FileMissing(DiskError):
    """Nothing has this name."""

    sentence = "does not exist"


class FileClosed(DiskError):
    """The handle was closed, or the power was cut under it."""

    sentence = "is no longer open"


class AlreadyExists(DiskError):
    """Something has this name already."""

    sentence = "already exists"


class WrongKind(DiskError):
    """A file stands where a directory is needed, or the other way round."""

    sentence = "is or leads through a file or directory where the other kind is needed"


class DirectoryNotEmpty(DiskError):
    """Only an empty directory can be removed or replaced."""

    sentence = "is a directory that is not empty"


class DiskFull(DiskError):
    """There is no room for this write, and nothing of it was kept."""

    sentence = "does not fit on the disk"


class ReadOnlyDisk(DiskError):
    """The disk, or this part of it, may not be written."""

    sentence = "is on a disk that may not be written"


class DiskFailed(DiskError):
    """The disk broke: what is on it is no longer certain."""

    sentence = "is on a disk that failed"


class File(Protocol):
    """An open file. All handles of one disk on one file see the same bytes and the same size."""

    @property
    def path(self) -> str:
        """The path by which it was opened; a later rename does not change it."""

    @property
    def size(self) -> int:
        """The number of bytes in it."""

    def append(self, data: Data) -> int:
        """Write all of it at the end, or nothing, and say at which position it begins."""

    def write_at(self, position: int, *data: Data) -> None:
        """Write in place, one after the other. A gap left behind the end reads as zeros.

        If it fails the size is what it was, but bytes in place may be old or new."""

    def read_at(self, position: int, length: int) -> bytes:
        """Read up to `length` bytes: fewer at the end of the file, none beyond it."""

    def truncate(self, size: int) -> None:
        """Cut the file, or lengthen it with zeros."""

    async def sync(self) -> None:
        """Make durable what was written before this call."""

    def close(self) -> None:
        """Let go of the file. To close twice is fine; to use it afterwards is FileClosed."""


class Disk(Protocol):
    """One node's folder. Paths are relative, with "/" between names; "" is the folder itself."""

    def open(self, path: str, *, create: bool = False, mapped: bool = False) -> File:
        """Open a file; with `create`, make it if it is missing and its directory is there.

        `mapped` changes no answer: small reads of a long file are then faster."""

    def exists(self, path: str) -> bool:
        """Whether a file or directory has this name."""

    def is_directory(self, path: str) -> bool:
        """Whether a directory has this name."""

    def list(self, path: str = "") -> tuple[str, ...]:
        """The names in a directory, sorted."""

    def size(self, path: str) -> int:
        """The number of bytes in a file."""

    def make_directory(self, path: str) -> None:
        """Make a directory and those above it; fine if it is there."""

    def rename(self, old: str, new: str) -> None:
        """Rename at one stroke, in the place of a file or empty directory of the same kind."""

    def remove(self, path: str) -> None:
        """Remove a file or an empty directory. An open handle goes on working."""

    def remove_tree(self, path: str) -> None:
        """Remove a directory and all in it."""

    async def sync_directory(self, path: str) -> None:
        """Make durable what was done to the names in a directory before this call."""

    async def replace(self, path: str, data: bytes) -> None:
        """Make this the durable content of a file, which is old or new and never between."""

    def free(self) -> int:
        """The number of bytes that still fit."""


def segments_of(path: str) -> tuple[str, ...]:
    """The names that a path is made of, or BadPath."""
    if not path:
        return ()
    names = tuple(path.split("/"))
    for name in names:
        if name in {"", ".", ".."}:
            raise BadPath(path, f"it has the segment {name!r}")
        if "\0" in name:
            raise BadPath(path, "it has a NUL in it")
        try:
            length = len(name.encode())
        except UnicodeEncodeError:
            raise BadPath(path, "it is not text") from None
        if length > MAX_NAME_BYTES:
            raise BadPath(path, f"a name in it is longer than {MAX_NAME_BYTES} bytes")
    return names


def entry_of(path: str) -> tuple[tuple[str, ...], str]:
    """The directory and the name of what can be made or removed, which the folder cannot."""
    names = segments_of(path)
    if not names:
        raise BadPath(path, "it is the folder itself")
    return names[:-1], names[-1]


def refuse_to_move_into_itself(old: str, new: str) -> None:
    """BadPath if a rename would put a directory below itself."""
    if new.startswith(f"{old}/"):
        raise BadPath(new, f"it lies below {old!r}, which was to be renamed")


async def replace_whole(disk: Disk, path: str, data: bytes, asides: set[str]) -> None:
    """`Disk.replace`, in terms of what every disk can do.

    The content is written aside first: as in Kafka to `<path>.tmp`, a name that is the disk's own.
    `asides` are those in use now: two may replace the same file at once.
    """
    directory, _ = entry_of(path)
    names = chain([f"{path}.tmp"], (f"{path}.{number}.tmp" for number in count(1)))
    aside = next(name for name in names if name not in asides)
    asides.add(aside)
    try:
        await _write_aside_and_rename(disk, aside, path, data)
    finally:
        asides.discard(aside)
    await disk.sync_directory("/".join(directory))


async def _write_aside_and_rename(disk: Disk, aside: str, path: str, data: bytes) -> None:
    file = disk.open(aside, create=True)
    try:
        file.truncate(0)  # a crash may have left one
        file.append(data)
        await file.sync()
        disk.rename(aside, path)
    except BaseException:
        with suppress(DiskError):
            file.truncate(0)  # refused after a power cut: the name is then no longer ours
            disk.remove(aside)
        raise
    finally:
        file.close()
