"""Taking turns, for those who await in the middle of what must not be mixed.

Rule: first come, first served. Whoever holds a turn awaits I/O and nothing else, or another's turn
that comes later in one order that all keep: else two wait for each other.
"""

import asyncio


class Turn:
    """Held by one at a time: `async with turn`."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    @property
    def is_taken(self) -> bool:
        """Whether somebody holds it now."""
        return self._lock.locked()

    async def __aenter__(self) -> None:
        await self._lock.acquire()

    async def __aexit__(self, *_: object) -> None:
        self._lock.release()


async def let_others_run() -> None:
    """In the middle of long work that has nothing to await."""
    await asyncio.sleep(0)
