"""How much a producer may hold that no broker has taken yet.

Rule: whoever waits longest for room gets it first, however much others want; so a large record is
not starved by small ones.
"""

from collections import deque

from actors.client.deadline import Deadline
from actors.client.errors import BufferExhausted
from runtime.tasks import Promise


class Memory:
    """Bytes to give out: buffer.memory."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._free = limit
        self._waiting: deque[tuple[Promise[None], int]] = deque()

    @property
    def is_short(self) -> bool:
        """Whether somebody waits for room."""
        return bool(self._waiting)

    @property
    def used(self) -> int:
        """How much is given out."""
        return self.limit - self._free

    def try_reserve(self, size: int) -> bool:
        """Take so many bytes if they are there and nobody waits."""
        if self._waiting or size > self._free:
            return False
        self._free -= size
        return True

    async def reserve(self, size: int, deadline: Deadline) -> None:
        """Take so many bytes, or wait for them."""
        turn: Promise[None] = Promise()
        waiting = (turn, size)
        self._waiting.append(waiting)
        is_given = False
        try:
            is_given = await turn.settled(deadline.left_ms)
        finally:
            if turn.is_settled and not is_given:
                self.release(size)  # given while the one who waited was cancelled
            elif not is_given:
                self._waiting.remove(waiting)
                self.release(0)  # the next one may want less
        if not is_given:
            raise BufferExhausted(
                f"no room for {size} bytes within {deadline.timeout_ms:g} ms: "
                f"{self.used} of {self.limit} are waiting to be sent"
            )
        await turn

    def release(self, size: int) -> None:
        """Give bytes back, and hand them to those who wait."""
        self._free += size
        while self._waiting and self._waiting[0][1] <= self._free:
            turn, wanted = self._waiting.popleft()
            self._free -= wanted
            turn.keep(None)

    def close(self, error: Exception) -> None:
        """Nobody need wait any more."""
        while self._waiting:
            self._waiting.popleft()[0].fail(error)
