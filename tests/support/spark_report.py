"""A full report in a process of its own, and what it took: `python -m tests.support.spark_report`.

Rule: the clock starts when Spark's session is there. Memory is the most that Java and Python ever
had, as the kernel counts it.
"""

import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from runtime.java import ensure_java
from spark.command import default_out
from spark.hadoop import Hadoop
from spark.jobs.actors import actors
from spark.pipeline import run_jobs
from spark.report.facts import gather
from spark.report.page import page
from spark.session import spark_session
from spark.trace import Trace


def report(session: SparkSession, folder: str, out: str) -> int:
    """As bin/trace-report: every job, every table, the page."""
    trace = Trace(session, [folder])
    events = sum(trace.counts.values())
    tables = run_jobs(trace, f"{out}/tables", lambda *_: None)
    Hadoop(session).write(f"{out}/report.html", page(gather(trace, tables)).encode())
    trace.close()
    return events


def one_job(session: SparkSession, folder: str, _: str) -> int:
    """One job: messages by what actors are, with percentiles."""
    trace = Trace(session, [folder])
    rows = actors(trace).count()
    trace.close()
    return rows


def by_hand(session: SparkSession, folder: str, _: str) -> int:
    """The same from JSON, as one would write it without thinking of it again."""
    frame = session.read.json(folder)
    kind = F.regexp_replace(F.element_at(F.split("actor", "/"), -1), r"-\d.*$", "")
    shares = F.array(*map(F.lit, (0.5, 0.95, 0.99)))
    measures = [
        each
        for name in ("queue_us", "handle_us")
        for each in (
            F.percentile(name, shares).alias(f"{name}_shares"),
            F.max(name).alias(f"{name}_max"),
            F.sum(name).alias(f"{name}_sum"),
        )
    ]
    return frame.groupBy("run", kind, "message").agg(F.count("*"), *measures).count()


WORK: dict[str, Callable[[SparkSession, str, str], int]] = {
    "report": report,
    "job": one_job,
    "by-hand": by_hand,
}


def peak_bytes() -> int:
    """Of Java and of Python."""
    status = Path(f"/proc/{SparkContext._gateway.proc.pid}/status").read_text()
    java = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    return (java + resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) * 1024


def main() -> None:
    """Do one thing, or the same a few times, and print what it took."""
    what, folder, times = sys.argv[1], sys.argv[2], int(sys.argv[3])
    begun = time.perf_counter()
    with spark_session("local[2]", java_home=ensure_java().home) as session:
        session.range(1).count()
        told: dict[str, Any] = {"session_s": time.perf_counter() - begun, "took_s": []}
        for _ in range(times):
            begun = time.perf_counter()
            told["found"] = WORK[what](session, folder, default_out([folder]))
            told["took_s"].append(time.perf_counter() - begun)
        told["peak_bytes"] = peak_bytes()
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
