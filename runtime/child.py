"""A process of ours: what it prints comes in as lines, what it should do goes out as lines.

Rule: no orphan. The kernel kills a child whose parent is gone, and a child whose standard input
ends knows that, too. A line is bounded; one that is too long ends the child.
"""

import asyncio
import ctypes
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Final

PR_SET_PDEATHSIG: Final = 1
MAX_LINE_BYTES: Final = 1 << 20
KILL_AFTER_S: Final = 5
TAIL_LINES: Final = 20

_LIBC: Final = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def die_with_parent(parent: int) -> Callable[[], None]:
    """What a child does between fork and exec."""

    def ask_kernel() -> None:
        if _LIBC is not None:
            _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:  # it died before the kernel was asked
                os._exit(1)

    return ask_kernel


class Child:
    """One life of a process."""

    def __init__(self, process: asyncio.subprocess.Process, on_line: Callable[[str], None]) -> None:
        self._process = process
        self._on_line = on_line
        self._errors: list[str] = []  # the last of what it printed to standard error
        loop = asyncio.get_running_loop()
        self._reading = loop.create_task(self._read())
        self._complaints = loop.create_task(self._read_errors())

    @classmethod
    async def start(
        cls,
        module: str,
        arguments: Sequence[str],
        on_line: Callable[[str], None],
        *,
        environment: Mapping[str, str] | None = None,
    ) -> "Child":
        """Run a module of ours with this Python."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            module,
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=MAX_LINE_BYTES,
            env={**os.environ, **(environment or {})},
            start_new_session=True,  # a Ctrl-C is for us: we end them one by one
            preexec_fn=die_with_parent(os.getpid()),
        )
        return cls(process, on_line)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended, as far as is known."""
        return self._process.returncode is None

    @property
    def complaint(self) -> str:
        """The last thing that it said of what is wrong."""
        return self._errors[-1] if self._errors else ""

    def send(self, line: str) -> None:
        """Tell it something."""
        stdin = self._process.stdin
        if stdin is not None and not stdin.is_closing():
            stdin.write(line.encode() + b"\n")

    def signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.is_alive:
            self._process.send_signal(number)

    async def ended(self) -> int:
        """Wait for its end, and for its last words; a negative code is a signal's number."""
        await asyncio.wait([self._reading, self._complaints])
        return await self._process.wait()

    async def terminate(self, timeout_s: float) -> int:
        """Ask it to end, and insist if that takes too long."""
        self.signal(signal.SIGCONT)  # one that stands still does not hear
        self.signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(timeout_s):
                return await self.ended()
        except TimeoutError:
            self.signal(signal.SIGKILL)
            return await self.ended()

    async def _read(self) -> None:
        stdout = self._process.stdout
        assert stdout is not None, "it was opened as a pipe"
        try:
            async for line in stdout:
                self._on_line(line.decode(errors="replace").rstrip("\n"))
        except ValueError:  # a line that is too long
            self.signal(signal.SIGKILL)

    async def _read_errors(self) -> None:
        stderr = self._process.stderr
        assert stderr is not None, "it was opened as a pipe"
        try:
            async for line in stderr:
                self._errors.append(line.decode(errors="replace").rstrip("\n"))
                del self._errors[:-TAIL_LINES]
        except ValueError:
            self.signal(signal.SIGKILL)


async def orders() -> AsyncIterator[str]:
    """In a child: what its parent tells it, until the parent is gone."""
    reader = asyncio.StreamReader(limit=MAX_LINE_BYTES)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    async for line in reader:
        yield line.decode(errors="replace").rstrip("\n")
