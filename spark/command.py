"""bin/trace-report: what happened in a cluster, from its trace.

Rule: answers go to standard output, progress and complaints to standard error. Exit code 0: there
is a report; 1: there is none, and one sentence says why; 2: there is one, and the audit found
broken promises in it; 130: Ctrl-C.
"""

import argparse
import json
import logging
import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NoReturn

from pyspark.sql import SparkSession

from spark.compaction import compact
from spark.hadoop import Hadoop, NoSuchPath
from spark.pipeline import JobFailed, Tables, run_jobs
from spark.report.facts import Facts, gather
from spark.report.page import page
from spark.report.summary import lines
from spark.session import LOCAL, SparkMissing, spark_session
from spark.shipping import shipped
from spark.source import NotATrace
from spark.trace import Trace
from spark.watching import watch

NAME: Final = "trace-report"
BROKEN_PROMISES: Final = 2
INTERRUPTED: Final = 130
UNITS_US: Final = {"s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}
SMALL_BYTES: Final = 12_000_000
BAR: Final = 24
EPILOG: Final = """\
examples:
  bin/run-cluster --trace t --load 200 --exit-after 20 && bin/trace-report t
  bin/trace-report 'traces/2026-11-*' --since 2h --out weekly
  bin/trace-report hdfs://name/traces --master spark://driver:7077 --out hdfs://name/report
  bin/trace-report t --watch          # while the cluster runs; goes on where it was
  bin/trace-report t --compact        # many small parts become few

With a remote master, paths are those that its workers see too, and SPARK_LOCAL_IP is the address at
which they find this machine; without it, that is 127.0.0.1.

It leaves report.html, which needs no network, and tables/: a Parquet table for each job.

exit codes: 0 a report was written; 1 none was, or wrong arguments; 2 it was written, and its audit
found broken promises; 130 Ctrl-C"""


class Parser(argparse.ArgumentParser):
    """argparse, with our exit code and without its page of usage."""

    def error(self, message: str) -> NoReturn:
        """One sentence."""
        self.exit(1, f"{self.prog}: {message}; see bin/{self.prog} --help\n")


class BadSince(Exception):
    """No moment. The text is one sentence for people."""


def main(java_home: Callable[[], Path], arguments: Sequence[str] | None = None) -> int:
    """Run the command; `java_home` finds Java, once that is needed."""
    given = parser().parse_args(arguments)
    logging.disable(logging.CRITICAL)  # py4j's: what went wrong is told below, in a sentence
    try:
        is_local = given.master.startswith("local")
        host = LOCAL if is_local else os.environ.get("SPARK_LOCAL_IP", LOCAL)
        quick = is_local and is_small(given.traces)
        with (
            spark_session(given.master, java_home=java_home(), host=host, quick=quick) as session,
            nullcontext() if is_local else shipped(session),
        ):
            # Spark's own handler asks Java to cancel while Java is being asked something else.
            signal.signal(signal.SIGINT, signal.default_int_handler)
            if given.watch:
                return watch(session, given, _out(given))
            return _compact(session, given) if given.compact else report(session, given)
    except (NotATrace, NoSuchPath, JobFailed, BadSince, SparkMissing) as error:
        return _fail(str(error))
    except OSError as error:
        return _fail(f"the report cannot be written: {error}")
    except KeyboardInterrupt:
        return INTERRUPTED


def parser() -> Parser:
    """What it may be told."""
    parser = Parser(
        prog=NAME,
        description="Tell what happened in a cluster: what failed, when, for how long and why.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "traces", nargs="+", type=_path, metavar="TRACE_DIR", help="any path or glob of Hadoop's"
    )
    parser.add_argument(
        "--out", type=_path, metavar="DIR", help="where to write; default: TRACE_DIR-report"
    )
    parser.add_argument("--master", default="local[*]", help="Spark's; default: local[*]")
    parser.add_argument(
        "--since",
        metavar="WHEN",
        help="only what came then or later: 2026-11-18T20:05 (UTC), or 15m, 2h, 1d before the end",
    )
    parser.add_argument("--json", action="store_true", help="the summary as JSON")
    parser.add_argument(
        "--watch", action="store_true", help="follow a running cluster: the summary, until Ctrl-C"
    )
    parser.add_argument(
        "--compact", action="store_true", help="merge small parts into large ones, and do no more"
    )
    return parser


def _path(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("a folder has no name")
    return text


def default_out(traces: Sequence[str]) -> str:
    """Beside the trace, if it is one."""
    only = traces[0].rstrip("/")
    return f"{only}-report" if len(traces) == 1 and not re.search(r"[*?\[{]", only) else NAME


def _out(given: argparse.Namespace) -> str:
    chosen: str = given.out or default_out(given.traces)
    return chosen.rstrip("/")


def is_small(traces: Sequence[str]) -> bool:
    """Whether these are folders of this machine with no more than a million events or two."""
    total = 0
    for text in traces:
        folder = Path(text.removeprefix("file:"))
        if not folder.is_dir():
            return False
        for file in folder.rglob("*.parquet"):
            total += file.stat().st_size
            if total > SMALL_BYTES:
                return False
    return True


def since_us(text: str, last_us: int) -> int:
    """A moment, or so long before the last one."""
    short = re.fullmatch(r"(\d{1,9})([smhd])", text)
    if short:
        return max(last_us - int(short[1]) * UNITS_US[short[2]], 0)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise BadSince(
            f"--since {text!r} is neither a time such as 2026-11-18T20:05 nor one such as 15m"
        ) from None
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1_000_000)


def report(session: SparkSession, given: argparse.Namespace) -> int:
    """Read, work, write, and tell; the answer is the exit code."""
    trace = Trace(session, given.traces)
    if given.since is not None:
        trace.begin_at(since_us(given.since, max(end for _, end in trace.spans.values())))
    out, hadoop = _out(given), Hadoop(session)
    events = sum(trace.counts.values())
    progress = Progress(f"{events:,} events in {len(trace.parts):,} parts")
    # A place of our own: another report may be under way to the same one.
    beside = f"{out}/.tables-{session.sparkContext.applicationId}-{os.getpid()}"
    try:
        tables = run_jobs(trace, beside, progress)
        facts = gather(trace, tables)
        progress("the page", 1, 1)
        file = f"{out}/report.html"
        hadoop.write(file, page(facts).encode())
        tables.move_to(f"{out}/tables")
    finally:
        trace.close()
        hadoop.remove(beside)
        progress.end()
    for complaint in facts.complaints:
        sys.stderr.write(f"{NAME}: {complaint}\n")
    _tell(facts, tables, file, as_json=given.json)
    return BROKEN_PROMISES if facts.totals["audit"] else 0


def _tell(facts: Facts, tables: Tables, file: str, *, as_json: bool) -> None:
    said = lines(facts)
    if as_json:
        answer = {
            "summary": said,
            "report": file,
            "tables": tables.folder,
            "runs": [
                {"run": run, "from_us": start, "to_us": end}
                for run, (start, end) in sorted(facts.spans.items())
            ],
            "events": facts.counts,
            "complaints": facts.complaints,
            "incidents": facts.tables["failover_budget"],
            "totals": facts.totals,
            "controllers": facts.tables["controller"],
        }
        said = [json.dumps(answer)]
    else:
        said.append(f"The report: {file}")
    try:
        sys.stdout.write("\n".join(said) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read it has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _compact(session: SparkSession, given: argparse.Namespace) -> int:
    done = compact(session, given.traces)
    sys.stdout.write(f"{done.before:,} parts became {done.after:,}, with {done.rows:,} events.\n")
    return 0


def _fail(sentence: str) -> int:
    sys.stderr.write(f"{NAME}: {sentence}\n")
    return 1


class Progress:
    """A line that says how far Spark is: one that changes, on a terminal."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._is_live = sys.stderr.isatty()
        if not self._is_live:
            sys.stderr.write(f"{NAME}: {what}\n")

    def __call__(self, name: str, done: int, of: int) -> None:
        """So many of all jobs are done, and this one is next."""
        if self._is_live:
            bar = ("━" * round(BAR * done / of)).ljust(BAR, "╌")
            sys.stderr.write(f"\r\x1b[K{self._what} {bar} {name.replace('_', ' ')}")
            sys.stderr.flush()

    def end(self) -> None:
        """Leave the line to others."""
        if self._is_live:
            sys.stderr.write("\r\x1b[K")
