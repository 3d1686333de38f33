"""Lines of a file or of standard input, without holding up the loop.

Rule: a line is bounded. What may wait for a person is waited for by the loop, so that Ctrl-C ends
it; a file is read by a thread, a little ahead.
"""

import asyncio
import stat
import sys
from collections.abc import AsyncIterator
from os import fstat
from pathlib import Path
from typing import BinaryIO, Final

AT_ONCE: Final = 1_000
MAX_LINE_BYTES: Final = 1 << 20


class LineTooLong(ValueError):
    """A line has no end within the bound."""


def lines_of(file: Path | None) -> AsyncIterator[bytes]:
    """Each line without its end; None is standard input."""
    if file is not None:
        return _read(file)
    mode = fstat(sys.stdin.fileno()).st_mode
    if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or sys.stdin.isatty():
        return _wait()
    return _read(None)


async def _wait() -> AsyncIterator[bytes]:
    reader = asyncio.StreamReader(limit=MAX_LINE_BYTES)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    try:
        async for line in reader:
            yield line.rstrip(b"\r\n")
    except ValueError:
        raise LineTooLong(f"a line has more than {MAX_LINE_BYTES} bytes") from None
    finally:
        transport.close()


async def _read(file: Path | None) -> AsyncIterator[bytes]:
    stream = sys.stdin.buffer if file is None else await asyncio.to_thread(file.open, "rb")
    try:
        while lines := await asyncio.to_thread(_some, stream):
            for line in lines:
                if len(line) == MAX_LINE_BYTES and not line.endswith(b"\n"):
                    raise LineTooLong(f"a line has more than {MAX_LINE_BYTES} bytes")
                yield line.rstrip(b"\r\n")
    finally:
        if file is not None:
            stream.close()


def _some(stream: BinaryIO) -> list[bytes]:
    lines: list[bytes] = []
    while len(lines) < AT_ONCE:
        line = stream.readline(MAX_LINE_BYTES)
        if not line:
            break
        lines.append(line)
    return lines
