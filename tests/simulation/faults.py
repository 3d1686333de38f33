"""Every single and every double fault at every step of a produce-replicate-acknowledge cycle.

Rule: enumerated, not sampled. A run is told by its schedule, `controller/step:fault/step:fault`,
and the same schedule is the same run: whoever explores forks at a step instead of running up to it.

    python -m tests.simulation.faults --single
    python -m tests.simulation.faults --double --from 0 --to 99
    python -m tests.simulation.faults --replay 1/7:lose-2/31:kill-1
"""

import argparse
import gc
import os
import sys
import time
import traceback
from asyncio import events
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TextIO

from actors.faults.violation import Violation
from runtime.simulation.simulator import run
from tests.simulation.fault_cycle import BROKERS, FAULTS, Fault, Stage, play

CONTROLLERS = (1, 2)  # on the leader, and on a follower
OnStep = Callable[[Stage, int], None]


class Strike(NamedTuple):
    """A fault at a step."""

    step: int
    fault: Fault

    def __str__(self) -> str:
        return f"{self.step}:{self.fault}"


class Schedule(NamedTuple):
    """One run."""

    controller: int
    strikes: tuple[Strike, ...] = ()

    def __str__(self) -> str:
        return "/".join(map(str, (self.controller, *self.strikes)))

    def then(self, strike: Strike) -> "Schedule":
        return Schedule(self.controller, (*self.strikes, strike))

    @classmethod
    def parse(cls, text: str) -> "Schedule":
        controller, *strikes = text.split("/")
        pairs = (strike.split(":") for strike in strikes)
        return cls(int(controller), tuple(Strike(int(s), Fault.parse(f)) for s, f in pairs))


def replay(schedule: Schedule, told: OnStep | None = None) -> Stage:
    """Run one schedule; Violation says what it did wrong."""
    strikes = list(schedule.strikes)

    def on_step(stage: Stage, step: int) -> None:
        if told is not None:
            told(stage, step)
        while strikes and strikes[0].step == step:
            stage.strike(strikes.pop(0).fault)

    return run(lambda: play(schedule.controller, on_step))


class Explorer:
    """Runs a cycle once, and forks at every step for every fault: its children are the runs."""

    def __init__(self, controller: int, faults: int, choice: "Choice", out: int) -> None:
        self._left = faults
        self._choice = choice
        self._out = out
        self._first = self._second = 0  # count the faults that could be
        self._schedule = Schedule(controller)

    def explore(self) -> None:
        """All runs that begin with a first fault of mine."""
        me = os.getpid()
        failure = end = ""
        try:
            end = run(lambda: play(self._schedule.controller, self._on_step)).end
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is told
            failure = " ".join(f"{type(error).__name__} {error}".split())
            if not isinstance(error, Violation):
                failure += " " + traceback.format_exc().strip().splitlines()[-3].strip()
        if failure or self._schedule.strikes:
            self._tell(self._schedule, end, failure)
        if os.getpid() != me:
            os._exit(0)

    def _tell(self, schedule: Schedule, end: str, failure: str) -> None:
        line = f"{schedule}\t{end}\t{failure}"
        os.write(self._out, line[:3_000].encode() + b"\n")  # short enough to stay in one piece

    def _on_step(self, stage: Stage, step: int) -> None:
        if not self._left or step > self._choice.until:
            return
        for fault in FAULTS:
            if stage.can(fault) and self._is_chosen(fault):
                child = os.fork()
                if not child:
                    self._enter(stage, Strike(step, fault))
                    return
                _, status = os.waitpid(child, 0)
                if status:
                    self._tell(self._schedule.then(Strike(step, fault)), "", f"status {status}")

    def _is_chosen(self, fault: Fault) -> bool:
        if self._schedule.strikes:
            self._second += 1
            is_hit = (self._first + self._second) % self._choice.stride == 0
            return is_hit and fault in self._choice.seconds
        self._first += 1
        return self._choice.has(self._first - 1)

    def _enter(self, stage: Stage, strike: Strike) -> None:
        """In the child: this is another run from here on."""
        events._set_running_loop(stage.sim.loop)  # which a child forgets
        self._left -= 1
        self._schedule = self._schedule.then(strike)
        stage.strike(strike.fault)
        self._on_step(stage, strike.step)  # the second may come at the same step


class Choice(NamedTuple):
    """Which of all runs are wanted."""

    first: int = 0  # of the first faults, from here
    last: int = 1 << 30  # to here
    stride: int = 1  # of the second faults every so many
    until: int = 1 << 30  # no fault after this step
    seconds: tuple[Fault, ...] = FAULTS  # and only these
    core: int = 0
    cores: int = 1

    def has(self, first: int) -> bool:
        return first % self.cores == self.core and self.first <= first <= self.last


class Ended(NamedTuple):
    """A run that is over."""

    schedule: Schedule
    end: str  # the same for the same run
    failure: str


def explore(controllers: Sequence[int], faults: int, choice: Choice) -> Iterator[Ended]:
    """Every run, on all cores."""
    cores = os.cpu_count() or 1
    readable, writable = os.pipe()
    workers = []
    gc.collect()
    gc.freeze()  # what a child does not touch is not copied
    for core in range(cores):
        worker = os.fork()
        if not worker:
            os.close(readable)
            gc.disable()
            for controller in controllers:
                mine = choice._replace(core=core, cores=cores)
                Explorer(controller, faults, mine, writable).explore()
            os._exit(0)
        workers.append(worker)
    os.close(writable)
    gc.unfreeze()
    with os.fdopen(readable) as lines:
        for line in lines:
            schedule, end, failure = line.rstrip("\n").split("\t", 2)
            yield Ended(Schedule.parse(schedule), end, failure)
    for worker in workers:
        _, status = os.waitpid(worker, 0)
        assert status == 0, f"an explorer ended with status {status}"


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--single", action="store_true")
    parser.add_argument("--double", action="store_true")
    parser.add_argument("--replay", type=Schedule.parse)
    parser.add_argument("--controller", type=int, choices=BROKERS, action="append")
    parser.add_argument("--from", type=int, default=0, dest="first", help="of the first faults")
    parser.add_argument("--to", type=int, default=1 << 30, dest="last")
    parser.add_argument(
        "--until", type=int, default=1 << 30, help="no fault after this step (the cycle has 23)"
    )
    parser.add_argument("--stride", type=int, default=1, help="of the second faults every Nth")
    options = parser.parse_args()
    if options.replay is not None:
        replay(options.replay, _show)
        return 0
    begun, runs, failures = time.monotonic(), 0, 0
    controllers = options.controller or CONTROLLERS
    choice = Choice(options.first, options.last, options.stride, options.until)
    for schedule, _, failure in explore(controllers, 2 if options.double else 1, choice):
        runs += 1
        failures += bool(failure)
        if failure:
            say(f"{schedule}\t{failure}")
        if runs % 1_000 == 0:
            took = time.monotonic() - begun
            say(f"{runs} runs, {failures} failed, {took:.0f} s, at {schedule}", sys.stderr)
    say(f"{runs} runs, {failures} failed, {time.monotonic() - begun:.0f} s")
    return 1 if failures else 0


def _show(stage: Stage, step: int) -> None:
    last = stage.last
    if not isinstance(last, tuple):  # a frame, or the end of a connection
        last = (last.source, "→", last.destination)
    say(f"{step:4} {stage.sim.now_ms:9.3f} {' '.join(map(str, last))}")


def say(line: str, to: TextIO = sys.stdout) -> None:
    to.write(f"{line}\n")
    to.flush()


if __name__ == "__main__":
    sys.exit(main())
