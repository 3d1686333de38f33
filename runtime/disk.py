"""Disk over files: one node's folder on a real file system.

Rule: the folder belongs to this process, so a file's size is known without asking the kernel. Paths
are walked name by name and no symbolic link in them is followed, wherever it leads.
"""

import asyncio
import errno
import os
import shutil
import stat
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from runtime.files import (
    AlreadyExists,
    BadPath,
    Data,
    DirectoryNotEmpty,
    DiskError,
    DiskFailed,
    DiskFull,
    File,
    FileClosed,
    FileMissing,
    ReadOnlyDisk,
    WrongKind,
    entry_of,
    refuse_to_move_into_itself,
    replace_whole,
    segments_of,
)
from runtime.mapped import Mapped
from runtime.trouble import Trouble

ERRORS: Final[Mapping[int, type[DiskError]]] = {
    errno.ENOENT: FileMissing,
    errno.EEXIST: AlreadyExists,
    errno.ENOTDIR: WrongKind,
    errno.EISDIR: WrongKind,
    errno.ENOTEMPTY: DirectoryNotEmpty,
    errno.ENOSPC: DiskFull,
    errno.EDQUOT: DiskFull,
    errno.EFBIG: DiskFull,
    errno.EROFS: ReadOnlyDisk,
    errno.EACCES: ReadOnlyDisk,
    errno.EPERM: ReadOnlyDisk,
    errno.ENAMETOOLONG: BadPath,
    errno.ELOOP: BadPath,  # a symbolic link
}  # all else is DiskFailed

_MOST_BUFFERS: Final = 1024  # IOV_MAX of Linux and macOS
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY
_sync_bytes: Final[Callable[[int], None]] = getattr(os, "fdatasync", os.fsync)  # macOS has none


def disk_error(error: OSError, path: str) -> DiskError:
    """What the kernel said, as the DiskError that it is."""
    return ERRORS.get(error.errno or 0, DiskFailed)(path, error.strerror or "")


class _Inode:
    """What the handles on one file share."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.handles = 0
        self.is_uncertain = False  # a failed write could not be undone, or a sync failed

    def sync_and_close(self, descriptor: int) -> None:
        """Runs in a thread, and to its end, even if nobody waits for it any more."""
        try:
            _sync_bytes(descriptor)
        except OSError:
            # The kernel reports a lost page once: asked again, it would say that all is well.
            self.is_uncertain = True
            raise
        finally:
            os.close(descriptor)


class RealFile:
    """A file, open in the kernel."""

    def __init__(
        self,
        path: str,
        descriptor: int,
        inode: _Inode,
        *,
        writable: bool,
        mapped: bool,
        trouble: Trouble,
        on_close: Callable[[], None],
    ) -> None:
        self.path = path
        self._trouble = trouble
        self._descriptor = descriptor
        self._inode = inode
        self._is_writable = writable
        self._mapped = Mapped(descriptor) if mapped else None
        self._on_close = on_close
        self._is_closed = False

    @property
    def size(self) -> int:
        self._check()
        return self._inode.size

    def append(self, data: Data) -> int:
        position = self._inode.size
        self.write_at(position, data)
        return position

    def write_at(self, position: int, *data: Data) -> None:
        self._check_writable(position)
        views = [memoryview(each).cast("B") for each in data]
        length = len(views[0]) if len(views) == 1 else sum(map(len, views))
        if not length:
            return
        written = 0
        try:
            if len(views) > 1:
                written = os.pwritev(self._descriptor, views[:_MOST_BUFFERS], position)
            while written < length:  # the kernel may take less than all
                view = views[0] if len(views) == 1 else memoryview(b"".join(views))
                rest = view[written:] if written else view
                written += os.pwrite(self._descriptor, rest, position + written)
        except OSError as error:
            self._undo(position + written)
            raise disk_error(error, self.path) from error
        self._inode.size = max(self._inode.size, position + length)

    def read_at(self, position: int, length: int) -> bytes:
        self._check(position)
        wanted = min(length, self._inode.size - position)
        if wanted <= 0:
            return b""
        try:
            if self._mapped is not None:
                found = self._mapped.read(position, position + wanted, self._inode.size)
                if found is not None:
                    return found
            data = os.pread(self._descriptor, wanted, position)
            while len(data) < wanted:
                more = os.pread(self._descriptor, wanted - len(data), position + len(data))
                if not more:
                    raise DiskFailed(self.path, f"it ends before its size, {self._inode.size}")
                data += more
        except OSError as error:
            raise disk_error(error, self.path) from error
        return data

    def truncate(self, size: int) -> None:
        self._check_writable(size)
        try:
            os.ftruncate(self._descriptor, size)
        except OSError as error:
            raise disk_error(error, self.path) from error
        self._inode.size = size

    async def sync(self) -> None:
        self._check()
        if self._trouble.slowness_s:
            await asyncio.sleep(self._trouble.slowness_s)
        try:
            # A descriptor of its own: the file may be closed before the thread is done.
            await _in_thread(self._inode.sync_and_close, os.dup(self._descriptor))
        except OSError as error:
            raise DiskFailed(self.path, error.strerror or "") from error

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._on_close()
        if self._mapped is not None:
            self._mapped.close()
        try:
            os.close(self._descriptor)
        except OSError as error:
            raise disk_error(error, self.path) from error

    def __del__(self) -> None:
        if not self._is_closed:
            warnings.warn(
                f"{self.path!r} was not closed", ResourceWarning, source=self, stacklevel=2
            )
            self.close()

    def _check(self, position: int = 0) -> None:
        assert position >= 0, f"{position} is before the start of {self.path}"
        if self._is_closed:
            raise FileClosed(self.path)
        if self._inode.is_uncertain:
            raise DiskFailed(self.path, "an earlier write may be lost")
        if self._trouble.failing:
            self._trouble.touch(self.path)

    def _check_writable(self, position: int) -> None:
        self._check(position)
        if not self._is_writable:
            raise ReadOnlyDisk(self.path)
        if self._trouble.is_full:
            raise DiskFull(self.path)

    def _undo(self, end: int) -> None:
        if end <= self._inode.size:
            return
        try:
            os.ftruncate(self._descriptor, self._inode.size)
        except OSError:
            self._inode.is_uncertain = True


class RealDisk:
    """A folder of the file system, made if it is missing."""

    def __init__(self, root: Path, trouble: Trouble | None = None) -> None:
        self._trouble = trouble or Trouble()
        try:
            root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise disk_error(error, str(root)) from error
        self._root = root.resolve()
        self._inodes: dict[tuple[int, int], _Inode] = {}  # of the files open now
        self._asides: set[str] = set()

    def open(self, path: str, *, create: bool = False, mapped: bool = False) -> File:
        if not path:
            raise WrongKind(path)
        if self._trouble.failing:
            self._trouble.touch(path)
        with self._entry(path) as (parent, name):
            descriptor, writable = _open_file(parent, name, create=create)
        status = os.fstat(descriptor)
        key = (status.st_dev, status.st_ino)
        inode = self._inodes.setdefault(key, _Inode(status.st_size))
        inode.handles += 1

        def on_close() -> None:
            inode.handles -= 1
            if not inode.handles:
                del self._inodes[key]

        return RealFile(
            path,
            descriptor,
            inode,
            writable=writable,
            mapped=mapped,
            trouble=self._trouble,
            on_close=on_close,
        )

    def exists(self, path: str) -> bool:
        try:
            self._status(path)
        except (FileMissing, WrongKind):
            return False
        return True

    def is_directory(self, path: str) -> bool:
        return self.exists(path) and stat.S_ISDIR(self._status(path).st_mode)

    def list(self, path: str = "") -> tuple[str, ...]:
        with self._directory(path, segments_of(path)) as directory:
            return tuple(sorted(os.listdir(directory)))

    def size(self, path: str) -> int:
        status = self._status(path)
        if stat.S_ISDIR(status.st_mode):
            raise WrongKind(path)
        return status.st_size

    def make_directory(self, path: str) -> None:
        names = segments_of(path)
        for depth, name in enumerate(names):
            with self._directory(path, names[:depth]) as parent:
                try:
                    os.mkdir(name, dir_fd=parent)
                except FileExistsError:
                    continue
        if not self.is_directory(path):
            raise AlreadyExists(path)

    def rename(self, old: str, new: str) -> None:
        refuse_to_move_into_itself(old, new)
        self._status(old)  # so that an error below is about the new name
        with self._entry(old) as (source, name), self._entry(new) as (target, new_name):
            os.rename(name, new_name, src_dir_fd=source, dst_dir_fd=target)

    def remove(self, path: str) -> None:
        with self._entry(path) as (parent, name):
            if stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
                os.rmdir(name, dir_fd=parent)
            else:
                os.unlink(name, dir_fd=parent)

    def remove_tree(self, path: str) -> None:
        if not stat.S_ISDIR(self._status(path).st_mode):
            raise WrongKind(path)
        with self._entry(path) as (parent, name):
            shutil.rmtree(name, dir_fd=parent)

    async def sync_directory(self, path: str) -> None:
        with self._directory(path, segments_of(path)) as directory:
            descriptor = os.dup(directory)
        try:
            await _in_thread(_sync_directory_and_close, descriptor)
        except OSError as error:
            raise DiskFailed(path, error.strerror or "") from error

    async def replace(self, path: str, data: bytes) -> None:
        await replace_whole(self, path, data, self._asides)

    def free(self) -> int:
        try:
            status = os.statvfs(self._root)
        except OSError as error:
            raise disk_error(error, "") from error
        return status.f_bavail * status.f_frsize

    def _status(self, path: str) -> os.stat_result:
        names = segments_of(path)
        name = names[-1] if names else "."
        with self._directory(path, names[:-1]) as parent:
            status = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            raise BadPath(path, "it is a symbolic link")
        return status

    @contextmanager
    def _directory(self, path: str, names: tuple[str, ...]) -> Iterator[int]:
        """The directory these names lead to; what the kernel refuses is a DiskError of path."""
        here = -1
        try:
            here = os.open(self._root, _DIRECTORY)
            for name in names:
                below = _open_directory(path, here, name)
                os.close(here)
                here = below
            yield here
        except OSError as error:
            raise disk_error(error, path) from error
        finally:
            if here >= 0:
                os.close(here)

    @contextmanager
    def _entry(self, path: str) -> Iterator[tuple[int, str]]:
        names, name = entry_of(path)
        with self._directory(path, names) as parent:
            yield parent, name


def _open_directory(path: str, parent: int, name: str) -> int:
    try:
        return os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    except NotADirectoryError:
        if stat.S_ISLNK(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            raise BadPath(path, f"{name!r} is a symbolic link") from None
        raise


def _open_file(parent: int, name: str, *, create: bool) -> tuple[int, bool]:
    """A descriptor, and whether it may be written: what may only be read is opened for that."""
    flags = os.O_RDWR | os.O_NOFOLLOW | (os.O_CREAT if create else 0)
    try:
        return os.open(name, flags, 0o666, dir_fd=parent), True
    except OSError as error:
        if ERRORS.get(error.errno or 0) is not ReadOnlyDisk:
            raise
        try:
            return os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=parent), False
        except FileNotFoundError:
            raise error from None  # missing, and it may not be made


def _sync_directory_and_close(descriptor: int) -> None:
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


async def _in_thread(function: Callable[[int], None], descriptor: int) -> None:
    """Run to the end what closes its descriptor, even when the one who waits is cancelled."""
    await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, function, descriptor))
