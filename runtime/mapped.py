"""A file's bytes as memory, for many small reads.

Rule: the memory is only read. A write through it would meet a full disk as a signal that ends the
process, so writes stay system calls. Nothing past the file's end is touched, for the same reason.
"""

import mmap
from typing import Final

# Less than this at the end of a file is not worth a new mapping: it is read by a system call.
GROWTH_BYTES: Final = 64 * 1024


class Mapped:
    """The first part of a file; it follows the file as that grows."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._memory: mmap.mmap | None = None
        self._length = 0

    def read(self, position: int, end: int, size: int) -> bytes | None:
        """The bytes of a file of this size, or None where they are not mapped."""
        assert end <= size, f"{end} is past the end, {size}"
        if size - self._length >= GROWTH_BYTES:
            self._map(size)
        if self._memory is None or end > self._length:
            return None
        return self._memory[position:end]

    def close(self) -> None:
        if self._memory is not None:
            self._memory.close()
            self._memory = None

    def _map(self, size: int) -> None:
        self.close()
        self._length = 0
        self._memory = mmap.mmap(self._descriptor, size, access=mmap.ACCESS_READ)
        self._length = size
