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

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from spark.exports.facts import read_facts, read_messages

MOST: Final = 1_000_000  # messages: what a browser still opens
TRACKS: Final = "node string, actor string, pid int, tid int"
NO_ACTOR: Final = ""  # the node's own track


class Exported(NamedTuple):
    """What is in the file."""

    messages: int
    left_out: int  # later messages, beyond the most that a viewer takes
    facts: int


def write_perfetto(
    session: SparkSession, folder: str, file: Path, run: str, *, most: int = MOST
) -> Exported:
    """Write a run's time line."""
    messages = read_messages(session, folder, run)
    count = messages.count()
    kept = messages.orderBy("time_us", "id").limit(most).cache()
    facts = read_facts(session, folder, run).cache()
    try:
        if count > most:
            last_us = kept.agg(F.max("time_us")).first()[0]  # type: ignore[index]
            facts = facts.where(F.col("time_us") <= last_us)
        with_actors = facts.transform(with_actor, kept)
        tracks = tracks_of(session, kept, with_actors)
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
    causes = messages.select(F.col("id").alias("cause"), "actor", F.col("node").alias("at"))
    joined = facts.join(causes, "cause", "left")
    # A frame that is handed over in memory leaves its effect's node another than its cause's.
    actor = F.when(F.col("at") == F.col("node"), F.col("actor")).otherwise(NO_ACTOR)
    return joined.withColumn("actor", F.coalesce(actor, F.lit(NO_ACTOR))).drop("at")


def tracks_of(session: SparkSession, messages: DataFrame, facts: DataFrame) -> DataFrame:
    """Numbers for nodes and their actors, in the order of their names."""
    pairs = messages.select("node", "actor").union(facts.select("node", "actor")).distinct()
    found = sorted((row["node"], row["actor"]) for row in pairs.collect())
    nodes = {node: at + 1 for at, node in enumerate(sorted({node for node, _ in found}))}
    rows = [(node, actor, nodes[node], at + 1) for at, (node, actor) in enumerate(found)]
    return session.createDataFrame(rows, TRACKS)


def slices(messages: DataFrame, tracks: DataFrame) -> DataFrame:
    """A slice a message."""
    said = F.struct("id", "cause", "queue_us", "outcome").alias("args")
    return _lines(
        messages.join(F.broadcast(tracks), ["node", "actor"]),
        F.lit("X").alias("ph"),
        F.col("message").alias("name"),
        F.lit("message").alias("cat"),
        F.col("time_us").alias("ts"),
        _length().alias("dur"),
        "pid",
        "tid",
        said,
    )


def arrows(messages: DataFrame, tracks: DataFrame) -> DataFrame:
    """Two ends an arrow: it must begin within the slice of its cause."""
    placed = messages.join(F.broadcast(tracks), ["node", "actor"])
    causes = placed.select(
        F.col("id").alias("cause"),
        F.col("time_us").alias("from_us"),
        (F.col("time_us") + _length()).alias("to_us"),
        F.col("pid").alias("from_pid"),
        F.col("tid").alias("from_tid"),
    )
    pairs = placed.join(causes, "cause")
    sent_us = F.col("time_us") - F.col("queue_us")
    within = F.least(F.greatest(sent_us, F.col("from_us")), F.col("to_us"))
    begin = _lines(
        pairs,
        F.lit("s").alias("ph"),
        *_named("cause"),
        "id",
        within.alias("ts"),
        F.col("from_pid").alias("pid"),
        F.col("from_tid").alias("tid"),
    )
    end = _lines(
        pairs,
        F.lit("f").alias("ph"),
        F.lit("e").alias("bp"),
        *_named("cause"),
        "id",
        F.col("time_us").alias("ts"),
        "pid",
        "tid",
    )
    return begin.unionByName(end)


def marks(facts: DataFrame, tracks: DataFrame) -> DataFrame:
    """A mark a fact, on the track of the actor that was at work, or on the node's own."""
    return _lines(
        facts.join(F.broadcast(tracks), ["node", "actor"]),
        F.lit("i").alias("ph"),
        F.lit("t").alias("s"),
        F.col("kind").alias("name"),
        F.lit("fact").alias("cat"),
        F.col("time_us").alias("ts"),
        "pid",
        "tid",
        F.struct("id", "cause", "said").alias("args"),
    )


def _length() -> Column:
    return F.greatest(F.col("handle_us"), F.lit(1))  # a viewer shows nothing of no length


def _named(name: str) -> tuple[Column, Column]:
    return F.lit(name).alias("name"), F.lit(name).alias("cat")


def _lines(frame: DataFrame, *columns: Column | str) -> DataFrame:
    return frame.select(F.to_json(F.struct(*columns)).alias("line"))


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
