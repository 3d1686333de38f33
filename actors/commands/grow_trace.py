"""bin/grow-trace: a large trace from a small real one, to try reports and benchmarks on.

Rule: a target that holds anything is refused; what a Ctrl-C leaves are whole parts.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from actors.commands.common import say
from actors.commands.parser import Parser, folder, whole
from actors.commands.progress import Progress
from runtime.clock import RealClock
from runtime.growing import CannotGrow, grow
from runtime.main import INTERRUPTED

MOST: Final = 10_000_000_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    given = _parser().parse_args(arguments)
    progress = Progress("growing", given.events, sys.stderr, RealClock())
    try:
        written = grow(
            given.trace,
            given.out,
            given.events,
            spread="topic" if given.spread else "",
            tell=lambda done, _: progress.update(done, f"{done:,} events"),
        )
    except (CannotGrow, OSError) as error:
        sys.stderr.write(f"grow-trace: {error}\n")
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        progress.close()
    say(f"{written:,} events are in {given.out}; next: bin/trace-report {given.out}")
    return 0


def _parser() -> Parser:
    parser = Parser(
        prog="grow-trace",
        description="Make a large trace from a small one: the same run again and again, each time"
        " later,\nwith causes, epochs and offsets that stay consistent.",
        epilog="example: bin/grow-trace trace --out large --events 20000000\n\n"
        "exit code: 0 done, 1 wrong input, 130 Ctrl-C",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("trace", type=folder, metavar="DIR", help="what --trace has written")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="a new folder")
    parser.add_argument(
        "--events",
        type=lambda text: whole(text, 1, MOST),
        required=True,
        metavar="N",
        help="at least so many; copies are whole",
    )
    parser.add_argument(
        "--spread", action="store_true", help="each copy has topics of its own: many partitions"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
