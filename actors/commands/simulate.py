"""bin/simulate: random faults by seed, on all cores, until something is wrong.

Rule: a seed is a run, whoever runs it. What fails is told with its seed, its invariant, the first
bad event and what led to it, and is written, made as short as it can be, as a scenario that
bin/inject-fault replays.
"""

import argparse
import multiprocessing
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from actors.commands.common import many
from actors.commands.fault_arguments import add_invariants
from actors.commands.parser import Parser, folder
from actors.config import GENERATIONS
from actors.faults.nemesis import FAULTS, RECORDS
from actors.faults.scenario import Scenario
from actors.faults.shrinking import shrink
from actors.faults.simulated import Verdict, judge, scenario_of_seed
from actors.faults.written import scenario_toml
from runtime.clock import RealClock
from runtime.main import INTERRUPTED

FOUND: Final = 2  # the exit code for a violation
MOST_SEEDS: Final = 10_000_000
REPORT_S: Final = 1.0
WIDTH: Final = 24
Only = tuple[str, ...]  # the invariants that look on; none: all
Work = tuple[int, dict[str, Any], Only]
EXAMPLE: Final = """examples:
  bin/simulate --seed 7
  bin/simulate --seeds 1..10000
  bin/simulate --seeds 1..500 --generation high-watermark   # the truncation that lost records,
      --invariant I-7 --invariant I-19                      # and nothing but the loss itself

exit codes: 0 all held, 1 wrong arguments, 2 a violation was found, 130 Ctrl-C"""


def main(arguments: list[str] | None = None) -> int:
    """The command."""
    given = _parser().parse_args(arguments)
    overrides = {"replication.generation": given.generation}
    options = {
        "faults": given.faults,
        "records": given.records,
        "overrides": overrides,
        "idempotence": given.idempotence,
    }
    only = tuple(given.invariant)
    try:
        given.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        _say_aside(f"simulate: {given.out} cannot be written to: {error.strerror}")
        return 1
    try:
        if given.seed is not None:
            return _one(given.seed, options, only, given)
        return _many(given.seeds, options, only, given)
    except KeyboardInterrupt:
        return INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="simulate",
        description="Run seeds of random faults, administration and load in the simulator.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--seed", type=_seed, help="one seed, with an account of what happens")
    which.add_argument("--seeds", type=_seeds, metavar="FROM..TO", help="many, on all cores")
    parser.add_argument(
        "--generation",
        choices=GENERATIONS,
        default=GENERATIONS[-1],
        help=f"replication.generation; default: {GENERATIONS[-1]}",
    )
    add_invariants(parser, "only this one looks on, and others so named: I-7, L-2; default: all")
    parser.add_argument("--faults", type=_count, default=FAULTS, help=f"default: {FAULTS}")
    parser.add_argument("--records", type=_count, default=RECORDS, help=f"default: {RECORDS}")
    parser.add_argument(
        "--idempotence", action="store_true", help="records that are there twice are violations"
    )
    parser.add_argument("--jobs", type=_count, default=os.cpu_count() or 1, help="default: cores")
    parser.add_argument("--out", type=folder, default=Path(), help="where failures are written")
    parser.add_argument("--keep-going", action="store_true", help="after a violation, too")
    parser.add_argument("--no-shrink", action="store_true", help="write the schedule as it is")
    parser.add_argument("--json", action="store_true", help="verdicts as JSON, a line each")
    return parser


def _seed(text: str) -> int:
    if not text.isdecimal() or int(text) > 2**62:
        raise argparse.ArgumentTypeError(f"{text!r} is no seed: it is a number from 0 on")
    return int(text)


def _seeds(text: str) -> range:
    first, dots, last = text.partition("..")
    if not dots or not first.isdecimal() or not last.isdecimal() or int(first) > int(last):
        raise argparse.ArgumentTypeError(f"{text!r} is no range: 1..10000 is one")
    if int(last) - int(first) >= MOST_SEEDS:
        raise argparse.ArgumentTypeError(f"{text!r} has more than {MOST_SEEDS} seeds")
    return range(int(first), int(last) + 1)


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 1_000_000:  # noqa: PLR2004
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 1000000")
    return int(text)


# --- one seed -------------------------------------------------------------------------------------


def _one(seed: int, options: dict[str, Any], only: Only, given: argparse.Namespace) -> int:
    scenario = scenario_of_seed(seed, **options)
    tell = None if given.json else lambda line: _say(f"  {line}")
    began = _now_s()
    verdict = judge(scenario, tell=tell, is_traced=True, only=only)
    if given.json:
        _say(msgspec.json.encode(verdict).decode())
    else:
        account, took_s = verdict.account, _now_s() - began
        _say(
            f"seed {seed}: {verdict.virtual_ms / 1000:.1f} virtual seconds in {took_s:.2f} s, "
            f"{_deeds(account.injected)}, {many(account.acknowledged, 'record')} acknowledged, "
            f"{account.failed} given up"
        )
        _say(f"trace: sha256 {verdict.digest}")
        if verdict.is_good:
            _say("verdict: every invariant held")
    if verdict.is_good:
        return 0
    _tell_failure(verdict, scenario, only, given)
    return FOUND


# --- many -----------------------------------------------------------------------------------------


def _many(seeds: range, options: dict[str, Any], only: Only, given: argparse.Namespace) -> int:
    tally = _Tally(len(seeds), given.jobs, is_silent=given.json)
    failed = 0
    work = ((seed, options, only) for seed in seeds)
    try:
        for verdict in _verdicts(work, min(given.jobs, len(seeds))):
            tally.add(verdict)
            if given.json:
                _say(msgspec.json.encode(verdict).decode())
            if not verdict.is_good:
                failed += 1
                tally.clear()
                _tell_failure(verdict, scenario_of_seed(verdict.seed, **options), only, given)
                if not given.keep_going:
                    break
    finally:  # whoever stops it wants to know how far it came
        tally.end(failed)
    return FOUND if failed else 0


def _verdicts(work: Iterator[Work], jobs: int) -> Iterator[Verdict]:
    if jobs == 1:
        yield from map(_run, work)
        return
    context = multiprocessing.get_context("fork")
    with context.Pool(jobs, initializer=_ignore_interrupt) as pool:
        yield from pool.imap_unordered(_run, work, chunksize=4)


def _ignore_interrupt() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one who tells


def _run(item: Work) -> Verdict:
    seed, options, only = item
    return judge(scenario_of_seed(seed, **options), only=only)


class _Tally:
    """How far it is, how fast, and what was reached."""

    def __init__(self, total: int, jobs: int, *, is_silent: bool) -> None:
        self._total, self._jobs = total, jobs
        self._is_silent = is_silent
        self._is_terminal = sys.stderr.isatty()
        self._began = self._told = _now_s()
        self._done = 0
        self._faults = self._records = 0
        self._reached: Counter[tuple[str, str]] = Counter()

    def add(self, verdict: Verdict) -> None:
        """One is done."""
        self._done += 1
        self._faults += verdict.account.injected
        self._records += verdict.account.acknowledged
        self._reached.update(verdict.coverage)
        now = _now_s()
        every_s = REPORT_S if self._is_terminal else 10 * REPORT_S
        if not self._is_silent and now - self._told >= every_s:
            self._told = now
            self._show()

    def clear(self) -> None:
        """Make room for a line of somebody else's."""
        if self._is_terminal and not self._is_silent:
            sys.stderr.write("\r\x1b[K")

    def end(self, failed: int) -> None:
        """The last word."""
        if self._is_silent:
            return
        self.clear()
        transitions = {transition for transition, _ in self._reached}
        kinds = {fault for _, fault in self._reached}
        _say(
            f"{many(self._done, 'seed')}, {failed} with a violation; {_deeds(self._faults)}, "
            f"{many(self._records, 'record')} acknowledged; {self._speed()}"
        )
        possible = len(transitions) * len(kinds)
        _say(
            f"coverage: {len(self._reached)} of {possible} pairs of {len(transitions)} state "
            f"transitions and {len(kinds)} kinds of faults"
        )

    def _speed(self) -> str:
        minutes = max(1e-9, (_now_s() - self._began) / 60)
        rate = self._done / minutes
        return f"{rate:.0f} seeds a minute, {rate / self._jobs:.0f} a core"

    def _show(self) -> None:
        share = self._done / self._total
        bar = "#" * round(WIDTH * share)
        line = f"[{bar:<{WIDTH}}] {self._done}/{self._total}, {self._speed()}, "
        line += f"{len(self._reached)} pairs covered"
        sys.stderr.write(f"\r{line}\x1b[K" if self._is_terminal else f"{line}\n")
        sys.stderr.flush()


# --- failures -------------------------------------------------------------------------------------


def _tell_failure(
    verdict: Verdict, scenario: Scenario, only: Only, given: argparse.Namespace
) -> None:
    say = _say_aside if given.json else _say
    say(f"seed {verdict.seed} violates {verdict.violation}")
    traced = judge(scenario, is_traced=True, only=only)
    if traced.causes:
        say("the first bad event, and what led to it:")
        for cause in traced.causes:
            say(f"  {cause}")
    path = given.out / f"seed-{verdict.seed}.toml"
    try:
        _write(path, scenario)  # as it is, should there be no time to make it shorter
        if not given.no_shrink:
            _say_aside(f"seed {verdict.seed}: making its schedule shorter")
            scenario = shrink(
                scenario, lambda each: judge(each, only=only).invariant == verdict.invariant
            )
            _write(path, scenario)
    except OSError as error:  # what was found stands, and its seed is told
        _say_aside(f"simulate: {path} cannot be written: {error.strerror}")
        return
    shown = many(len(scenario.steps), "step shows it", "steps show it")
    looking = "".join(f" --invariant {name}" for name in only)
    say(f"{shown}; replay: bin/inject-fault {path}{looking}")


def _write(path: Path, scenario: Scenario) -> None:
    """Whole or not at all: somebody may press Ctrl-C."""
    beside = path.with_name(f".{path.name}")
    beside.write_text(scenario_toml(scenario))
    beside.replace(path)


def _deeds(count: int) -> str:
    return many(count, "fault or deed", "faults and deeds")


def _now_s() -> float:
    return RealClock().elapsed_ms() / 1000


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _say_aside(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
