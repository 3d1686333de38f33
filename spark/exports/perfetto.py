"""A run as a time line that Perfetto and Chrome open: a track an actor, arrows from causes.

Rule: every handled message is a slice on its actor's track; an arrow leaves the cause at the moment
of the sending and ends where the effect is taken up; all else that happened is a mark. The file is
complete or absent. It is Chrome's Trace Event Format, as JSON, in which a process stands for a node
and a thread for an actor.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from spark.exports.facts import facts_of, messages_of
from spark.trace import Trace

MOST: Final = 1_000_000  # messages: what a browser still opens
TRACKS: Final = "node string, actor string, pid int, tid int"
NO_ACTOR: Final = ""  # the node's own track


class Exported(NamedTuple):
    """What is in the file."""

    messages: int
    left_out: int  # later messages, beyond the most that a viewer takes
    facts: int


def write_perfetto(trace: Trace, file: Path, run: str, *, most: int = MOST) -> Exported:
    """Write a run's time line."""
    messages = messages_of(trace, run)
    count = messages.count()
    kept = messages.orderBy("time_us", "id").limit(most).transform(with_length).cache()
    facts = facts_of(trace, run).cache()
    try:
        if count > most:
            last_us = kept.agg(f.max("time_us")).first()[0]  # type: ignore[index]
            facts = facts.where(f.col("time_us") <= last_us)
        with_actors = facts.transform(with_actor, kept)
        tracks = tracks_of(trace.session, kept, with_actors)
        lines = (
            slices(kept, tracks)
            .unionByName(arrows(kept, tracks))
            .unionByName(marks(with_actors, tracks))
        )
        _write(file, _heads(tracks), (row["line"] for row in lines.toLocalIterator()), run)
        return Exported(min(count, most), max(0, count - most), facts.count())
    finally:
        kept.unpersist()
        facts.unpersist()


# --- steps ----------------------------------------------------------------------------------------


def with_actor(facts: DataFrame, messages: DataFrame) -> DataFrame:
    """Facts, and the actor that was at work when each came about; none for what came by itself."""
    causes = messages.select(f.col("id").alias("cause"), "actor", f.col("node").alias("at"))
    joined = facts.join(causes, "cause", "left")
    # A frame that is handed over in memory leaves its effect's node another than its cause's.
    actor = f.when(f.col("at") == f.col("node"), f.col("actor")).otherwise(NO_ACTOR)
    return joined.withColumn("actor", f.coalesce(actor, f.lit(NO_ACTOR))).drop("at")


def tracks_of(session: SparkSession, messages: DataFrame, facts: DataFrame) -> DataFrame:
    """Numbers for nodes and their actors, in the order of their names."""
    pairs = messages.select("node", "actor").union(facts.select("node", "actor")).distinct()
    found = sorted((row["node"], row["actor"]) for row in pairs.collect())
    nodes = {node: at + 1 for at, node in enumerate(sorted({node for node, _ in found}))}
    rows = [(node, actor, nodes[node], at + 1) for at, (node, actor) in enumerate(found)]
    return session.createDataFrame(rows, TRACKS)


def slices(messages: DataFrame, tracks: DataFrame) -> DataFrame:
    """A slice a message."""
    said = f.struct("id", "cause", "queue_us", "outcome").alias("args")
    return _lines(
        messages.join(f.broadcast(tracks), ["node", "actor"]),
        f.lit("X").alias("ph"),
        f.col("message").alias("name"),
        f.lit("message").alias("cat"),
        f.col("time_us").alias("ts"),
        f.col("length_us").alias("dur"),
        "pid",
        "tid",
        said,
    )


def arrows(messages: DataFrame, tracks: DataFrame) -> DataFrame:
    """Two ends an arrow: it must begin within the slice of its cause."""
    placed = messages.join(f.broadcast(tracks), ["node", "actor"])
    causes = placed.select(
        f.col("id").alias("cause"),
        f.col("time_us").alias("from_us"),
        (f.col("time_us") + f.col("length_us")).alias("to_us"),
        f.col("pid").alias("from_pid"),
        f.col("tid").alias("from_tid"),
    )
    pairs = placed.join(causes, "cause")
    sent_us = f.col("time_us") - f.col("queue_us")
    within = f.least(f.greatest(sent_us, f.col("from_us")), f.col("to_us"))
    begin = _lines(
        pairs,
        f.lit("s").alias("ph"),
        *_named("cause"),
        "id",
        within.alias("ts"),
        f.col("from_pid").alias("pid"),
        f.col("from_tid").alias("tid"),
    )
    end = _lines(
        pairs,
        f.lit("f").alias("ph"),
        f.lit("e").alias("bp"),
        *_named("cause"),
        "id",
        f.col("time_us").alias("ts"),
        "pid",
        "tid",
    )
    return begin.unionByName(end)


def marks(facts: DataFrame, tracks: DataFrame) -> DataFrame:
    """A mark a fact, on the track of the actor that was at work, or on the node's own."""
    return _lines(
        facts.join(f.broadcast(tracks), ["node", "actor"]),
        f.lit("i").alias("ph"),
        f.lit("t").alias("s"),
        f.col("kind").alias("name"),
        f.lit("fact").alias("cat"),
        f.col("time_us").alias("ts"),
        "pid",
        "tid",
        f.struct("id", "cause", "said").alias("args"),
    )


def with_length(messages: DataFrame) -> DataFrame:
    """How long each slice is: durations are rounded, and slices of one track must not overlap."""
    length = f.greatest(f.col("handle_us"), f.lit(1))  # a viewer shows nothing of no length
    in_order = Window.partitionBy("node", "actor").orderBy("time_us", "id")
    room = f.lead("time_us").over(in_order) - f.col("time_us")
    return messages.withColumn(
        "length_us", f.when(room > 0, f.least(length, room)).otherwise(length)
    )


def _named(name: str) -> tuple[Column, Column]:
    return f.lit(name).alias("name"), f.lit(name).alias("cat")


def _lines(frame: DataFrame, *columns: Column | str) -> DataFrame:
    return frame.select(f.to_json(f.struct(*columns)).alias("line"))


# --- the file -------------------------------------------------------------------------------------


def _heads(tracks: DataFrame) -> Iterator[str]:
    seen = set()
    for row in tracks.collect():
        if row["pid"] not in seen:
            seen.add(row["pid"])
            yield _head("process_name", row["pid"], 0, row["node"])
        own = row["actor"].removeprefix(f"{row['node']}/") or row["node"]
        yield _head("thread_name", row["pid"], row["tid"], own)


def _head(what: str, pid: int, tid: int, name: str) -> str:
    head: dict[str, Any] = {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}
    return json.dumps(head)


def _write(file: Path, heads: Iterator[str], lines: Iterator[str], run: str) -> None:
    hidden = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    try:
        with hidden.open("w", encoding="utf-8") as out:
            out.write('{"displayTimeUnit":"ms","otherData":' + json.dumps({"run": run}))
            out.write(',"traceEvents":[\n')
            between = ""
            for source in (heads, lines):
                for line in source:
                    out.write(between + line)
                    between = ",\n"
            out.write("\n]}\n")
        hidden.replace(file)
    finally:
        hidden.unlink(missing_ok=True)
