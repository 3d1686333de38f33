"""From a shell to a loop and back.

Rule: the first Ctrl-C (or TERM) asks the work to end and lets it clean up; the second ends the
process at once. Children die with us either way.
"""

import asyncio
import os
import select
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any, Final, NoReturn

INTERRUPTED: Final = 130  # what a shell calls a process that Ctrl-C ended
UNREAD: Final = 141  # and one that had more to say than was read


class Sentence(Exception):
    """What a person should read instead of a traceback."""


def finish(main: Callable[[], int]) -> NoReturn:
    """End the process with a command's exit code; if nobody reads on, there and without a word."""
    try:
        try:
            code = main()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        if not _is_unread():  # it was another pipe, and that is a bug
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = UNREAD
    sys.exit(code)


def _is_unread() -> bool:
    """Whether whoever read standard output has gone."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return bool(poll.poll(0))


def run(work: Coroutine[Any, Any, int | None], *, name: str, interrupted: int = 0) -> int:
    """Run to the end; the exit code is the work's own, or `interrupted` if it was asked to stop."""
    try:
        return asyncio.run(_until_signal(work)) or 0
    except asyncio.CancelledError:
        return interrupted
    except Sentence as sentence:
        sys.stderr.write(f"{name}: {sentence}\n")
        return 1


async def _until_signal(work: Coroutine[Any, Any, int | None]) -> int | None:
    loop = asyncio.get_running_loop()
    task = loop.create_task(work)
    is_asked = False

    def on_signal() -> None:
        nonlocal is_asked
        if is_asked:
            os._exit(INTERRUPTED)
        is_asked = True
        task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal)
    return await task


async def forever() -> None:
    """Wait until somebody cancels."""
    await asyncio.get_running_loop().create_future()
