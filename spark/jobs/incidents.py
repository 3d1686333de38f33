"""Incidents: what went wrong, by whose hand or by itself.

Rule: an incident is a fault that was injected, a broker that left, crashed or was killed by a
stranger, or a session that was lost without any of these. Its number counts them in a run.
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from spark.jobs.shared import LEAVING, by_run, run_ends, united
from spark.trace import Trace
from spark.transforms import Step
from wire.trace import (
    BrokerStateChanged,
    FaultHealed,
    FaultInjected,
    NodeStarted,
    NodeStopped,
    SessionChanged,
)

CLOSE_US = 1_000_000  # what follows a fault within this is the fault
WAKE_US = 120_000_000  # a session may be lost so long after what cost it


def incidents(trace: Trace) -> DataFrame:
    """All of them, in order, with when each was mended."""
    stamp = ("run", "time_us", "id")
    faults = trace.events(FaultInjected).select(
        *stamp, f.col("fault").alias("what"), "target", "detail", "number"
    )
    left = trace.events(BrokerStateChanged).where(f.col("state") == LEAVING)
    stopped = trace.events(NodeStopped).where("reason != 'stopped'")
    expired = trace.events(SessionChanged).where("state = 'expired'")
    others = united(
        [
            left.select(*stamp, f.lit("shutdown").alias("what"), f.col("node").alias("target")),
            stopped.select(
                *stamp, f.col("reason").alias("what"), f.col("node").alias("target")
            ).transform(unlike(faults, CLOSE_US)),
            expired.select(
                *stamp, f.lit("session lost").alias("what"), f.col("node").alias("target")
            ).transform(unlike(faults, WAKE_US)),
        ]
    )
    ends = by_run(trace, trace.value(run_ends), "end_us")
    return (
        united([faults, others])
        .join(f.broadcast(ends), "run")
        .where("time_us < end_us")
        .transform(numbered)
        .transform(trace.recent("time_us"))
        .transform(mended(trace.events(FaultHealed), trace.events(NodeStarted)))
    )


def unlike(faults: DataFrame, within_us: int) -> Step:
    """Only what no fault of the same node explains."""
    known = faults.select("run", "target", f.col("time_us").alias("fault_us"))

    def step(frame: DataFrame) -> DataFrame:
        is_explained = (
            (f.col("e.run") == f.col("k.run"))
            & (f.col("e.target") == f.col("k.target"))
            & f.col("e.time_us").between(f.col("k.fault_us"), f.col("k.fault_us") + within_us)
        )
        return frame.alias("e").join(f.broadcast(known).alias("k"), is_explained, "left_anti")

    return step


def numbered(frame: DataFrame) -> DataFrame:
    """With the number in its run, and when the next one hits the same target."""
    in_order = Window.partitionBy("run").orderBy("time_us", "id")
    of_target = Window.partitionBy("run", "target").orderBy("time_us", "id")
    return (
        frame.withColumn("incident", f.row_number().over(in_order).cast("long"))
        .withColumn("until_us", f.coalesce(f.lead("time_us").over(of_target), "end_us"))
        .na.fill("", ["detail", "target"])
        .na.fill(0, ["number"])
    )


def mended(healed: DataFrame, started: DataFrame) -> Step:
    """When it was healed, or the node started again."""

    def step(frame: DataFrame) -> DataFrame:
        ends = united(
            [
                healed.select("run", "target", f.col("time_us").alias("mended_us")),
                started.select(
                    "run", f.col("node").alias("target"), f.col("time_us").alias("mended_us")
                ),
            ]
        )
        columns = [f.col(f"i.{name}") for name in frame.columns]
        is_end = (
            (f.col("i.run") == f.col("m.run"))
            & (f.col("i.target") == f.col("m.target"))
            & (f.col("m.mended_us") > f.col("i.time_us"))
            & (f.col("m.mended_us") <= f.col("i.until_us"))
        )
        return (
            frame.alias("i")
            .join(f.broadcast(ends).alias("m"), is_end, "left")
            .groupBy(*columns)
            .agg(f.min("m.mended_us").alias("mended_us"))
            .orderBy("run", "incident")
        )

    return step
