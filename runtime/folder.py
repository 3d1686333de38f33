"""The folder that a process works in: given and kept, or temporary and removed.

Rule: one process a folder. A lock that the kernel drops with its process tells a folder in use
from one that a killed process left behind; temporary ones of the latter kind are swept.
"""

import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import Final, Self

PREFIX: Final = "understudy-"
LOCK: Final = ".lock"


class FolderInUse(Exception):
    """Another process works in this folder."""


class Folder:
    """A locked folder."""

    def __init__(self, path: Path, descriptor: int, *, is_temporary: bool) -> None:
        self.path = path
        self._descriptor = descriptor
        self._is_temporary = is_temporary

    @classmethod
    def open(cls, path: Path | None) -> Self:
        """Take the folder, made if need be; without a path, a temporary one."""
        if path is None:
            sweep()
            made = Path(tempfile.mkdtemp(prefix=PREFIX))
            return cls(made, _lock(made), is_temporary=True)
        path.mkdir(parents=True, exist_ok=True)
        return cls(path, _lock(path), is_temporary=False)

    def close(self) -> None:
        """Let go of it; a temporary one is removed."""
        if self._is_temporary:
            shutil.rmtree(self.path, ignore_errors=True)
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def sweep() -> None:
    """Remove the temporary folders of processes that were killed."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        if not (path / LOCK).exists() or path.is_symlink():
            continue
        try:
            descriptor = _lock(path)
        except (FolderInUse, OSError):
            continue  # in use, or somebody else's
        shutil.rmtree(path, ignore_errors=True)
        os.close(descriptor)


def _lock(path: Path) -> int:
    descriptor = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise FolderInUse(f"another process works in {path}") from None
    return descriptor
