"""How long a coordinator may trust its own memory when ZooKeeper does not answer.

Rule: who has not had ZooKeeper for so long that its session may be over does not say what groups
have committed: another may lead by now, and have acknowledged more (I-25). Appends need no such
rule, since the in-sync replicas of a deposed leader do not fetch from it.

A client of ZooKeeper knows within two thirds of the session's time-out that nobody answers, and a
server ends no session earlier than after all of it: a third is left. When a session is over, what
was led in it is doubtful until the controller speaks of it again, or for one more time-out, in
which it would have spoken. The price: while all of ZooKeeper is down, and so nobody can be elected,
nobody is told an offset either.

Kafka has no such rule: its coordinator answers from memory until LeaderAndIsr reaches it. Here an
old answer is still possible from one who
    stood still, or session ended from outside   until it sees so: a reconnect, at most a third of
                                                 the time-out (20 ms in the simulator)
    has ZooKeeper, but the controller's words    without limit, if somebody moves its leadership
    do not reach it                              meanwhile; once links are well, until the request
                                                 that was lost is sent again, 30 s at most
The second would need a look at when in-sync followers last fetched; the replica manager has that.
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
        self._timeout_ms = session_timeout_ms
        self._ends_at_ms: float | None = None  # None: ZooKeeper answers
        self._is_over = False
        self._began_anew_at_ms: float | None = None  # with another session

    def note(self, event: SessionEvent) -> None:
        """The session's state is another."""
        now_ms = self._clock.elapsed_ms()
        match event.state:
            case SessionState.CONNECTED:
                self._ends_at_ms = None
                if self._is_over:
                    self._is_over, self._began_anew_at_ms = False, now_ms
            case SessionState.SUSPENDED:
                self._ends_at_ms = now_ms + self._timeout_ms * LEFT
            case _:
                self._is_over, self._ends_at_ms = True, now_ms

    def check(self, led_since_ms: float) -> None:
        """Refuse to tell what may be old."""
        now_ms, anew_ms = self._clock.elapsed_ms(), self._began_anew_at_ms
        if self._ends_at_ms is not None and now_ms >= self._ends_at_ms:
            raise CoordinatorNotAvailable("ZooKeeper does not answer; another may coordinate now.")
        if anew_ms is not None and led_since_ms < anew_ms and now_ms < anew_ms + self._timeout_ms:
            raise CoordinatorNotAvailable("A session was lost; another may coordinate now.")
