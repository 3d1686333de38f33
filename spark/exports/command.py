"""bin/trace-export: a run for Perfetto's viewer, or what followed from one message for Mermaid.

Rule: exit code 0 only when the file is whole; else one sentence says why, and nothing is left.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from spark.command import INTERRUPTED, Parser
from spark.exports.facts import latest_run
from spark.exports.perfetto import MOST, write_perfetto
from spark.exports.sequence import NoSuchCause, chain_of, mermaid, most_consequential
from spark.hadoop import NoSuchPath
from spark.session import spark_session
from spark.source import NotATrace
from spark.trace import Trace

NAME: Final = "trace-export"
EPILOG: Final = """\
examples:
  bin/trace-export t --perfetto t.json              # open it at ui.perfetto.dev, or chrome://tracing
  bin/trace-export t --mermaid failover.mmd         # what the most consequential message led to
  bin/trace-export t --mermaid chain.mmd --cause 150

exit codes: 0 written, 1 wrong arguments or nothing to show, 130 Ctrl-C"""


class CannotExport(Exception):
    """There is nothing to show. The text is one sentence for people."""


def main(java_home: Callable[[], Path], arguments: Sequence[str] | None = None) -> int:
    """Run the command; `java_home` finds Java, once that is needed."""
    given = _parser().parse_args(arguments)
    try:
        with spark_session("local[*]", java_home=java_home()) as session:
            sys.stdout.write(_export(session, given) + "\n")
            return 0
    except (NotATrace, NoSuchPath, NoSuchCause, CannotExport) as error:
        return _fail(str(error))
    except OSError as error:
        return _fail(f"{given.perfetto or given.mermaid} cannot be written: {error.strerror}")
    except KeyboardInterrupt:
        return INTERRUPTED


def _parser() -> Parser:
    parser = Parser(
        prog=NAME,
        description="Show one run of a trace in other people's viewers.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("trace", metavar="TRACE_DIR", help="what --trace has written")
    form = parser.add_mutually_exclusive_group(required=True)
    form.add_argument("--perfetto", type=Path, metavar="FILE", help="a track an actor, as JSON")
    form.add_argument("--mermaid", type=Path, metavar="FILE", help="a sequence diagram")
    parser.add_argument("--run", metavar="NAME", help="default: the run that began last")
    parser.add_argument(
        "--cause", type=int, metavar="ID", help="the message that the diagram begins with"
    )
    return parser


def _export(session: SparkSession, given: argparse.Namespace) -> str:
    trace = Trace(session, [given.trace])
    try:
        run = latest_run(trace) if given.run is None else given.run
        if run not in trace.runs:
            raise CannotExport(f"there is no run {run!r}; there are: {', '.join(trace.runs)}")
        return _timeline(trace, given, run) if given.perfetto else _diagram(trace, given, run)
    finally:
        for complaint in trace.complaints:
            sys.stderr.write(f"{NAME}: {complaint}\n")
        trace.close()


def _timeline(trace: Trace, given: argparse.Namespace, run: str) -> str:
    done = write_perfetto(trace, given.perfetto, run)
    late = f"; {done.left_out:,} later ones are left out, beyond {MOST:,}" if done.left_out else ""
    what = f"{done.messages:,} messages and {done.facts:,} other events of run {run}"
    return f"{what} are in {given.perfetto}{late}"


def _diagram(trace: Trace, given: argparse.Namespace, run: str) -> str:
    cause = most_consequential(trace, run) if given.cause is None else given.cause
    if cause is None:
        raise CannotExport("no leader was elected in this run: say with --cause where to begin")
    chain = chain_of(trace, run, cause)
    given.mermaid.write_text(mermaid(chain), encoding="utf-8")
    return f"{len(chain.arrows)} arrows from message {cause} of run {run} are in {given.mermaid}"


def _fail(sentence: str) -> int:
    sys.stderr.write(f"{NAME}: {sentence}\n")
    return 1
