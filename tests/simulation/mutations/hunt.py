"""The hunt for a removed guard: runs, one after the other, until one of them goes wrong.

Rule: a guard is removed in a forked process, so that its absence ends with it. What went wrong
there must go well in another process that has all guards, or it proves nothing and the hunt goes
on. A run that does not come to its end is a finding, too.
"""

import gc
import multiprocessing
import signal
import time
from collections import deque
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any, Final, NamedTuple

from tests.simulation.mutations.grounds import Finding, Ground, play
from tests.simulation.mutations.guard import Guard

RUN_CPU_S: Final = 60.0  # a run takes a fraction of a second
HUNG: Final = Finding("hang", f"the run did not end in {RUN_CPU_S:.0f} s of the processor")


class Begun(NamedTuple):
    """A run begins."""

    guard: str
    number: int


class Caught(NamedTuple):
    """How the absence of a guard was noticed."""

    guard: str
    finding: Finding | None  # None: it was not
    number: int  # of the run
    seconds: float  # of the processor, all runs together


class _Found(NamedTuple):
    finding: Finding | None
    number: int
    seconds: float


class _Work:
    """A process that plays runs from one number on, with a guard removed, or with none."""

    def __init__(self, guard: Guard, first: int, last: int, *, is_removed: bool) -> None:
        context = multiprocessing.get_context("fork")
        self.guard, self.number, self.is_removed = guard, first, is_removed
        self.readable, writable = context.Pipe(duplex=False)
        self._process = context.Process(
            target=_play_all,
            args=(guard, range(first, last + 1), writable, is_removed),
            daemon=True,
        )
        self._process.start()
        writable.close()

    def hear(self) -> int | _Found:
        """The number of a run that begins, or the end."""
        try:
            said: int | _Found = self.readable.recv()
        except EOFError:
            said = _Found(HUNG, self.number, RUN_CPU_S)
        if isinstance(said, _Found):
            self._process.join()
            self.readable.close()
            assert self._process.exitcode in {0, -signal.SIGPROF}, self._process.exitcode
        else:
            self.number = said
        return said


def _play_all(guard: Guard, numbers: range, to: Connection, is_removed: bool) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one who tells
    if is_removed:
        guard.remove()
    to.send(_search(guard.ground, numbers, to))


def _search(ground: Ground, numbers: range, to: Connection) -> _Found:
    for number in numbers:
        signal.setitimer(signal.ITIMER_PROF, RUN_CPU_S)  # which ends the process
        to.send(number)
        finding = play(ground, number)
        signal.setitimer(signal.ITIMER_PROF, 0)
        if finding is not None:
            return _Found(finding, number, time.process_time())
    return _Found(None, numbers[-1], time.process_time())


class _Hunt:
    """What is known of one guard's hunt."""

    def __init__(self, guard: Guard) -> None:
        self.guard = guard
        self.seconds = 0.0
        self.suspect: _Found | None = None

    def begin(self) -> _Work:
        return _Work(self.guard, 1, self.guard.ground.most, is_removed=True)

    def next(self, found: _Found) -> _Work | Caught:
        """What follows from the end of a process."""
        guard, most = self.guard, self.guard.ground.most
        if self.suspect is None:
            self.seconds += found.seconds
            if found.finding is None:
                return Caught(guard.name, None, found.number, self.seconds)
            self.suspect = found
            return _Work(guard, found.number, found.number, is_removed=False)
        suspect, self.suspect = self.suspect, None
        if found.finding is None:
            return Caught(guard.name, suspect.finding, suspect.number, self.seconds)
        if suspect.number == most:
            return Caught(guard.name, None, most, self.seconds)
        return _Work(guard, suspect.number + 1, most, is_removed=True)


def hunt(guards: Sequence[Guard], jobs: int = 1) -> Iterator[Begun | Caught]:
    """All of them, so many at a time, each until it is caught."""
    gc.collect()
    gc.freeze()  # what a child does not touch is not copied
    waiting = deque(guards)
    going: dict[Any, tuple[_Hunt, _Work]] = {}
    while waiting or going:
        while waiting and len(going) < jobs:
            begun = _Hunt(waiting.popleft())
            work = begun.begin()
            going[work.readable] = (begun, work)
        for readable in wait(list(going)):
            one, work = going[readable]
            said = work.hear()
            if isinstance(said, int):
                yield Begun(one.guard.name, said)
                continue
            del going[readable]
            following = one.next(said)
            if isinstance(following, Caught):
                yield following
            else:
                going[following.readable] = (one, following)
    gc.unfreeze()


def caught(guard: Guard) -> Caught:
    """One of them."""
    (last,) = (said for said in hunt([guard]) if isinstance(said, Caught))
    return last
