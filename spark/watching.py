"""bin/trace-report --watch: the ten lines, again and again, while a cluster runs.

Rule: what is large was counted as it came; what is small is kept whole, and the jobs are those of
the report. High watermarks are too many to be kept: that one promise only the report checks.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from functools import cached_property, reduce
from threading import Event
from typing import Any, Final
from zlib import crc32

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from spark.follow import COUNTED, FACTS, TAKEN, TALLY, Follower, add_taken, add_tally
from spark.hadoop import Hadoop
from spark.jobs.shared import appended, replica_sets
from spark.pipeline import JOBS, Tables
from spark.report.facts import Facts, told_by
from spark.report.summary import lines
from spark.schema import schema_of
from spark.source import NotATrace
from spark.trace import LASTING, Trace
from spark.transforms import PARTITION
from wire.trace import CallFinished, LogTruncated, MessageHandled, TraceEvent

REFRESH_S: Final = 2.0
WANTED: Final = ("failover_budget", "controller", "request_kinds", "actors_busiest")
UNCHECKED: Final = "High watermarks are checked by the report alone."
RAW: Final[Mapping[type[TraceEvent], str]] = {MessageHandled: "control", CallFinished: "told"}


class Watched(Trace):
    """A trace as far as it has been taken; the jobs see no difference."""

    def __init__(self, session: SparkSession, root: str, follower: Follower) -> None:
        self._begin(session)
        self.complaints = list(follower.complaints)
        self.desk = follower.desk
        self._parts = {root: []}
        self._kept = follower.kept
        tally = self._kept.all(TALLY)
        self._tally = [] if tally is None else tally.transform(add_tally).collect()
        for row in self._tally:
            self.counts[row.table] += row.events
        for make, (name, merge) in COUNTED.items():
            frame = self._kept.all(name)
            if frame is not None:
                self.keep(make, self.settled(frame.transform(merge)))

    def has(self, event: type[TraceEvent]) -> bool:
        """Whether an event happened at all."""
        return event.__name__ in self.counts

    @cached_property
    def spans(self) -> dict[str, tuple[int, int]]:
        """When each run began and ended."""
        usual = {event.__name__ for event in (MessageHandled, *LASTING)}
        covered = {row.run for row in self._tally if row.table in usual}
        told = [row for row in self._tally if row.table in usual or row.run not in covered]
        return {
            run: (
                min(row.first_us for row in told if row.run == run),
                max(row.last_us for row in told if row.run == run),
            )
            for run in {row.run for row in told}
        }

    @property
    def size(self) -> tuple[int, int]:
        """How many parts, and how many bytes were taken."""
        taken = self._kept.all(TAKEN)
        row = None if taken is None else taken.transform(add_taken).first()
        return (row["parts"], row["bytes"]) if row is not None else (0, 0)

    def _read(self, event: type[TraceEvent]) -> DataFrame:
        schema = schema_of(event)
        frame = self._kept.all(RAW[event]) if event in RAW else self._facts
        if frame is None or not self.has(event):
            return self.session.createDataFrame([], schema)
        if event not in RAW:
            frame = frame.where(f.col("table") == event.__name__)
        # As for the report: what an older version did not say is empty, and never null.
        return frame.select(*schema.names).na.fill("").na.fill(0).na.fill(False)

    @cached_property
    def _facts(self) -> DataFrame | None:
        frame = self._kept.all(FACTS)
        return None if frame is None else self.settled(frame)


class LiveTables(Tables):
    """What the jobs say now; nothing is written."""

    def __init__(self, trace: Trace) -> None:
        super().__init__(trace.session, "")
        self._trace = trace

    def table(self, name: str) -> DataFrame:
        """A table."""
        return self._trace.once(partitions if name == "replication" else JOBS[name])


def partitions(trace: Trace) -> DataFrame:
    """All that are known of, and what was produced to them: as far as the lines say."""
    records = f.sum(f.when(f.col("role") == "leader", f.col("records"))).alias("records")
    frames = [trace.once(appended).groupBy(*PARTITION).agg(records)]
    frames += [
        frame.select(*PARTITION, f.lit(0).cast("long").alias("records"))
        for frame in (trace.once(replica_sets), trace.events(LogTruncated))
    ]
    every = reduce(DataFrame.unionByName, frames)
    return (
        every.groupBy(*PARTITION)
        .agg(f.coalesce(f.sum("records"), f.lit(0)).alias("records"))
        .withColumn("records_cut", f.lit(0).cast("long"))  # of which the lines say nothing
    )


class Watch:
    """One trace, followed."""

    def __init__(self, session: SparkSession, root: str, out: str) -> None:
        hadoop = Hadoop(session)
        found = [each for each in hadoop.glob(root.rstrip("/")) if hadoop.is_folder(each)]
        if len(found) != 1:
            raise NotATrace(f"--watch follows one folder; {root} is {len(found) or 'none'}")
        self._session = session
        self._root = found[0]
        mark = f"{crc32(self._root.encode()):08x}"  # another trace needs a checkpoint of its own
        self._follower = Follower(session, self._root, f"{out}/watch-{mark}")

    def take(self) -> None:
        """What is new."""
        self._follower.take()

    def tell(self) -> Facts | None:
        """All that was taken, ever; None while there is nothing."""
        trace = Watched(self._session, self._root, self._follower)
        if not trace.counts:
            return None
        try:
            return told_by(trace, LiveTables(trace), WANTED)
        finally:
            trace.close()


class Screen:
    """The lines: drawn anew on a terminal; elsewhere each is said when it has changed."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._is_live = sys.stdout.isatty()
        self._shown: Sequence[str] = ()

    def show(self, facts: Facts | None) -> None:
        """One refresh."""
        if self._as_json:
            said = [] if facts is None else [json.dumps(as_object(facts))]
        else:
            said = ["Nothing was recorded yet."] if facts is None else [*lines(facts), UNCHECKED]
            said += [] if facts is None else list(facts.complaints)
        if self._is_live and not self._as_json:
            # Home, and clear: the lines are longer than a narrow terminal, and wrap.
            sys.stdout.write("\x1b[H\x1b[2J" + "\n".join(said) + "\n")
        else:
            fresh = said if self._as_json else [each for each in said if each not in self._shown]
            sys.stdout.write("".join(f"{each}\n" for each in fresh))
        sys.stdout.flush()
        self._shown = said


def as_object(facts: Facts) -> dict[str, Any]:
    """A refresh, for programs."""
    return {
        "summary": lines(facts),
        "events": facts.counts,
        "complaints": facts.complaints,
        "incidents": facts.tables["failover_budget"],
        "totals": facts.totals,
        "controllers": facts.tables["controller"],
    }


def watch(session: SparkSession, given: argparse.Namespace, out: str) -> int:
    """Until Ctrl-C."""
    if len(given.traces) != 1:
        raise NotATrace("--watch follows one TRACE_DIR")
    session.conf.set("spark.sql.files.ignoreMissingFiles", "true")  # a part may be merged meanwhile
    session.conf.set("spark.sql.files.ignoreCorruptFiles", "true")
    followed, screen = Watch(session, given.traces[0], out), Screen(as_json=given.json)
    pause = Event()
    while True:
        followed.take()
        screen.show(followed.tell())
        pause.wait(REFRESH_S)
