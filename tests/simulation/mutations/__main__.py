"""Take the guards of actors/ out, one at a time, and see whether anybody notices.

Rule: all that is listed must be caught; what is found is written to MUTATIONS.md.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Final

from tests.simulation.mutations.guard import Guard, Rotten, check
from tests.simulation.mutations.guards import GUARDS
from tests.simulation.mutations.hunt import Begun, Caught, hunt
from tests.simulation.mutations.table import TABLE, read_table, row_of, text_of

SURVIVORS: Final = 2  # the exit code
INTERRUPTED: Final = 130
EXAMPLE: Final = """examples:
  python -m tests.simulation.mutations                          # all of them, on all cores
  python -m tests.simulation.mutations --only broker-epoch
  python -m tests.simulation.mutations --only 'move-*' --jobs 1
  python -m tests.simulation.mutations --list

exit codes: 0 all were caught, 1 wrong arguments or a guard that is no longer in the source,
2 one was not caught, 130 Ctrl-C"""


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    given = _parser().parse_args(arguments)
    chosen = [each for each in GUARDS if _is_wanted(each, given.only)]
    if not chosen:
        return _fail(f"no guard is called {', '.join(given.only)}; --list tells their names")
    try:
        for each in GUARDS:
            check(each)
    except Rotten as rotten:
        return _fail(str(rotten))
    if given.list:
        for each in chosen:
            _say(f"{each.name:<28} {each.ground.name:<10} {each.protects}")
        return 0
    try:
        return _hunt(chosen, given.jobs, is_written=not given.no_table)
    except KeyboardInterrupt:
        return INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation.mutations",
        description="Take the guards of actors/ out, one at a time: each must be missed by some "
        "invariant, the history checker, liveness, or a crash.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="these; * stands for anything"
    )
    parser.add_argument(
        "--jobs", type=_count, default=os.cpu_count() or 1, help="at a time; default: cores"
    )
    parser.add_argument("--list", action="store_true", help="only tell which guards there are")
    parser.add_argument("--no-table", action="store_true", help=f"leave {TABLE.name} as it is")
    return parser


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 1_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 1000")
    return int(text)


def _is_wanted(guard: Guard, names: Sequence[str]) -> bool:
    return not names or any(fnmatchcase(guard.name, each) for each in names)


def _hunt(chosen: Sequence[Guard], jobs: int, *, is_written: bool) -> int:
    by_name = {each.name: each for each in chosen}
    rows = read_table()
    done = 0
    survivors: list[str] = []
    for said in hunt(chosen, jobs):
        if isinstance(said, Begun):
            _show(said, done, by_name)
            continue
        done += 1
        _clear()
        _say(_line(said, by_name[said.guard]))
        rows[said.guard] = row_of(by_name[said.guard], said)
        if said.finding is None:
            survivors.append(said.guard)
        if is_written:
            TABLE.write_text(text_of(GUARDS, rows))
    _say(f"{done - len(survivors)} of {done} were caught")
    if survivors:
        return _fail(f"nobody missed {', '.join(survivors)}", SURVIVORS)
    return 0


def _line(said: Caught, guard: Guard) -> str:
    if said.finding is None:
        return f"{said.guard}: SURVIVED {said.number} runs ({guard.ground.name})"
    return (
        f"{said.guard}: {said.finding.invariant} in {guard.ground.name} {said.number}, "
        f"{said.seconds:.1f} s: {said.finding.sentence}"
    )


def _show(begun: Begun, done: int, by_name: dict[str, Guard]) -> None:
    if sys.stderr.isatty():
        ground = by_name[begun.guard].ground.name
        share = f"{done}/{len(by_name)}"
        sys.stderr.write(f"\r{share} caught; {begun.guard}: {ground} {begun.number}\x1b[K")
        sys.stderr.flush()


def _clear() -> None:
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _fail(sentence: str, code: int = 1) -> int:
    sys.stderr.write(f"mutations: {sentence}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
