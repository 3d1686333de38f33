"""What the page and the summary say: rows of the jobs' tables, few enough to be read by people.

Rule: a table is asked for its first so many rows; what is more is counted and not shown. Charts of
time are those of one run: of the most incidents, the most time without leaders, the longest.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from spark.jobs.availability import LEADERLESS
from spark.jobs.clocks import silences
from spark.jobs.shared import run_ends
from spark.pipeline import Tables
from spark.report.words import date_and_clock, duration
from spark.trace import SLICES, Trace
from spark.transforms import bin_of

Row = dict[str, Any]
SHOWN: Final = 40  # rows of a table on the page
MOST: Final = 4_000  # rows that a chart is drawn from
LANES: Final = 40
INBOXES: Final = 12
CLOCKS: Final = 5  # oddities of time, in sentences
WIDTHS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 50_000)


@dataclass
class Heat:
    """Partitions by slices of time: how many of each row were out."""

    kind: str
    rows: Sequence[str]
    cells: Mapping[tuple[str, float], float]
    width_us: int
    partitions_a_row: int


@dataclass
class Facts:
    """All that is told."""

    roots: Sequence[str]
    runs: Sequence[str]
    spans: Mapping[str, tuple[int, int]]
    ends: Mapping[str, int]
    counts: Mapping[str, int]
    parts: int
    bytes: int
    complaints: Sequence[str]
    bin_us: int
    run: str  # the one that charts of time are of
    is_whole: bool  # not only what came since some moment
    totals: dict[str, list[Row]]
    tables: dict[str, list[Row]] = field(default_factory=dict)
    heat: Heat | None = None

    @property
    def start(self) -> int:
        """Of the run that charts are of."""
        return self.spans[self.run][0]

    @property
    def end(self) -> int:
        """Of the run that charts are of."""
        return self.spans[self.run][1]

    @property
    def events(self) -> int:
        """All that was recorded."""
        return sum(self.counts.values())

    @property
    def partitions(self) -> int:
        """How many there were, in all runs."""
        return sum(row["partitions"] for row in self.totals["partitions"])

    def total(self, kind: str) -> Row:
        """Windows of a kind, in all runs."""
        rows = [row for row in self.totals["availability"] if row["kind"] == kind]
        longest = max(rows, key=lambda row: row["longest_us"], default=None)
        return {
            **{
                name: sum(row[name] for row in rows)
                for name in ("windows", "partitions", "total_us", "open")
            },
            "longest_us": longest["longest_us"] if longest else 0,
            "where": longest["where"] if longest else "",
        }

    def here(self, name: str) -> list[Row]:
        """A table's rows of that run."""
        return [row for row in self.tables[name] if row["run"] == self.run]


# How many rows of each table, whether only of the run that charts are of, and in which order.
WANTED: Final[Mapping[str, tuple[int, bool, tuple[str, ...]]]] = {
    "nodes": (MOST, True, ("node", "from_us")),
    "failover_budget": (MOST, False, ("run", "incident")),
    "availability": (SHOWN // 2, True, ("-leaderless_us", "-under_replicated_us", "topic")),
    "availability_over_time": (MOST, True, ("kind", "bin_us")),
    "controller": (MOST, False, ("run", "controller_epoch")),
    "controller_events": (SHOWN // 2, False, ("-handle_us",)),
    "failover_steps": (MOST, True, ("controller_epoch", "id")),
    "replication": (SHOWN // 2, True, ("-shrinks", "-truncations", "-lag_last", "-records")),
    "replication_links": (SHOWN, True, ("-response_bytes",)),
    "requests": (SHOWN, True, ("-errors", "-calls")),
    "requests_refused": (SHOWN // 2, True, ("-answers", "node", "source", "request", "error")),
    "request_kinds": (SHOWN, True, ("-calls",)),
    "requests_over_time": (MOST, True, ("bin_us",)),
    "states": (MOST, True, ("machine", "before", "after")),
    "states_refused": (SHOWN, False, ("-times",)),
    "zookeeper": (SHOWN, True, ("-operations",)),
    "zookeeper_over_time": (MOST, True, ("bin_us",)),
    "zookeeper_watches": (SHOWN, True, ("-times",)),
    "zookeeper_sessions": (SHOWN, True, ("-expired", "-sessions", "node")),
    "audit": (SHOWN, False, ("run", "time_us")),
    "actors": (SHOWN, True, ("-handle_total_us",)),
    "actors_busiest": (SHOWN, True, ("-handle_total_us",)),
}


def gather(trace: Trace, tables: Tables) -> Facts:
    """Read what will be told."""
    facts = told_by(trace, tables, WANTED)
    is_here = f.col("run") == facts.run
    _with_windows(facts, tables.table("availability_windows").where(is_here))
    facts.complaints = [*facts.complaints, *_of_clocks(tables)]
    _with_depths(facts, tables.table("actors_over_time").where(is_here))
    return facts


def told_by(trace: Trace, tables: Tables, wanted: Collection[str]) -> Facts:
    """Totals, and the first rows of some tables: enough for the summary's lines."""
    totals = {name: _rows(frame) for name, frame in _totals(tables).items()}
    incidents = {row["run"]: row["incidents"] for row in totals["incidents"]}
    out = {
        row["run"]: row["total_us"] for row in totals["availability"] if row["kind"] == LEADERLESS
    }
    spans = trace.spans

    def weight(run: str) -> tuple[int, int, int, str]:
        return incidents.get(run, 0), out.get(run, 0), spans[run][1] - spans[run][0], run

    parts, size = trace.size
    facts = Facts(
        roots=trace.roots,
        runs=trace.runs,
        spans=spans,
        ends=trace.value(run_ends),
        counts=dict(trace.counts),
        parts=parts,
        bytes=size,
        complaints=trace.complaints,
        bin_us=trace.bin_us,
        run=max(spans, key=weight),
        is_whole=trace.since_us is None,
        totals=totals,
    )
    is_here = f.col("run") == facts.run
    for name in wanted:
        limit, is_of_run, order = WANTED[name]
        ordered = [f.desc(each[1:]) if each[0] == "-" else f.asc(each) for each in order]
        found = tables.table(name)
        chosen = found.where(is_here) if is_of_run else found
        facts.tables[name] = _rows(chosen.orderBy(*ordered).limit(limit))
    return facts


def _of_clocks(tables: Tables) -> list[str]:
    """What is odd about time, in sentences."""
    back = [
        f"the clock of {row['node']} went back by {duration(row['before_us'] - row['time_us'])} at"
        f" {date_and_clock(row['before_us'])} (run {row['run']}): times after that cannot be"
        f" compared with those before"
        for row in _rows(tables.table("clocks").limit(CLOCKS))
    ]
    quiet = [
        f"no message was handled for {duration(row['next_us'] - row['bin_us'])} from"
        f" {date_and_clock(row['bin_us'])} on (run {row['run']}): nothing happened, or a clock was"
        f" set forward"
        for row in _rows(silences(tables.table("actors_over_time")).limit(CLOCKS))
    ]
    return back + quiet


def _totals(tables: Tables) -> dict[str, DataFrame]:
    """Counts over whole tables, by run."""
    windows = tables.table("availability_windows")
    where = f.concat("topic", f.lit("-"), "partition")
    return {
        "incidents": tables.table("incidents").groupBy("run").agg(f.count("*").alias("incidents")),
        "partitions": tables.table("replication")
        .groupBy("run")
        .agg(
            f.count("*").alias("partitions"),
            f.sum("records").alias("records"),
            f.sum("records_cut").alias("cut"),
        ),
        "availability": windows.groupBy("run", "kind").agg(
            f.count("*").alias("windows"),
            f.count_distinct("topic", "partition").alias("partitions"),
            f.sum("duration_us").alias("total_us"),
            f.max("duration_us").alias("longest_us"),
            f.max_by(where, "duration_us").alias("where"),
            f.count_if("is_open").alias("open"),
        ),
        "audit": tables.table("audit").groupBy("invariant").agg(f.count("*").alias("findings")),
        "reigns": tables.table("controller").agg(
            f.count("*").alias("reigns"), f.max("failover_us").alias("failover_us")
        ),
        "calls": tables.table("request_kinds").agg(
            f.sum("calls").alias("calls"), f.sum("errors").alias("errors")
        ),
        "refusals": tables.table("requests_refused")
        .groupBy("error")
        .agg(f.sum("answers").alias("answers")),
        "messages": tables.table("actors_busiest")
        .groupBy("run")
        .agg(f.sum("messages").alias("messages")),
        "refused": tables.table("states").groupBy("run").agg(f.sum("refused").alias("refused")),
    }


def _with_windows(facts: Facts, windows: DataFrame) -> None:
    """Each window where there are few partitions, or how many were out in each slice of time."""
    affected = [row for row in facts.totals["availability"] if row["run"] == facts.run]
    if max((row["partitions"] for row in affected), default=0) <= LANES:
        facts.tables["windows"] = _rows(
            windows.orderBy("from_us", "topic", "partition").limit(MOST)
        )
        return
    facts.tables["windows"] = []
    kinds = [row["kind"] for row in affected]
    kind = LEADERLESS if LEADERLESS in kinds else kinds[0]
    facts.heat = heat_of(windows.where(f.col("kind") == kind), kind, facts.bin_us)


def heat_of(windows: DataFrame, kind: str, width_us: int) -> Heat:
    """Partitions by slices of time, so many partitions a row that the rows fit the page."""
    topics = _rows(
        windows.groupBy("topic")
        .agg(f.max("partition").alias("last"), f.sum("duration_us").alias("total_us"))
        .orderBy(f.desc("total_us"), "topic")
        .limit(LANES)
    )
    a_row = next(
        (each for each in WIDTHS if sum(row["last"] // each + 1 for row in topics) <= LANES),
        WIDTHS[-1],
    )
    slices = f.sequence(bin_of("from_us", width_us), f.col("to_us"), f.lit(width_us))
    counted = (
        windows.where(f.col("topic").isin([row["topic"] for row in topics]))
        .withColumn("first", f.col("partition") - f.pmod("partition", f.lit(a_row)))
        .select("topic", "first", "partition", f.explode(slices).alias("bin_us"))
        .groupBy("topic", "first", "bin_us")
        .agg(f.count_distinct("partition").alias("partitions"))
        .orderBy("topic", "first", "bin_us")
        .limit(LANES * 4 * SLICES)
    )
    cells = {}
    for row in _rows(counted):
        last = row["first"] + a_row - 1
        name = f"{row['topic']}-{row['first']}" + (f"…{last}" if a_row > 1 else "")
        cells[name, float(row["bin_us"])] = float(row["partitions"])
    return Heat(kind, list(dict.fromkeys(name for name, _ in cells)), cells, width_us, a_row)


def _with_depths(facts: Facts, depths: DataFrame) -> None:
    """The fullest inboxes over time."""
    fullest = _rows(
        depths.groupBy("actor")
        .agg(f.max("mean_depth").alias("depth"))
        .orderBy(f.desc("depth"), "actor")
        .limit(INBOXES)
    )
    names = [row["actor"] for row in fullest]
    chosen = depths.where(f.col("actor").isin(names)).orderBy("actor", "bin_us").limit(2 * MOST)
    facts.tables["depths"] = _rows(chosen)
    facts.tables["fullest"] = fullest


def _rows(frame: DataFrame) -> list[Row]:
    return [row.asDict() for row in frame.collect()]
