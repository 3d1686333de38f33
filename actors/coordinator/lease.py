"""How long a coordinator may trust its own memory when ZooKeeper does not answer.

Rule: who has not had ZooKeeper for so long that its session may be over does not say what groups
have committed: another may lead by now, and have acknowledged more (I-25). Appends need no such
rule, since the in-sync replicas of a deposed leader do not fetch from it.

A client of ZooKeeper knows within two thirds of the session's time-out that nobody answers, and a
server ends no session earlier than after all of it: a third is left. Kafka has no such rule, and
its coordinator answers from memory for as long as it is cut off. The price: while all of ZooKeeper
is down, and so nobody can be elected, nobody is told an offset either.
"""

from typing import Final

from runtime.keeper import SessionEvent, SessionState
from runtime.world import Clock
from wire.errors import CoordinatorNotAvailable

LEFT: Final = 1 / 3  # of a session's time-out, when its client sees that nobody answers


class Lease:
    """Whether somebody else may lead already, by what is known of the session."""

    def __init__(self, clock: Clock, session_timeout_ms: float) -> None:
        self._clock = clock
        self._left_ms = session_timeout_ms * LEFT
        self._ends_at_ms: float | None = None  # None: ZooKeeper answers

    def note(self, event: SessionEvent) -> None:
        """The session's state is another."""
        now_ms = self._clock.elapsed_ms()
        match event.state:
            case SessionState.CONNECTED:
                self._ends_at_ms = None
            case SessionState.SUSPENDED:
                self._ends_at_ms = now_ms + self._left_ms
            case _:
                self._ends_at_ms = now_ms

    def check(self) -> None:
        """Refuse to tell what may be old."""
        if self._ends_at_ms is not None and self._clock.elapsed_ms() >= self._ends_at_ms:
            raise CoordinatorNotAvailable("ZooKeeper does not answer; another may coordinate now.")
