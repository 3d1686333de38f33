"""Incidents: what went wrong, by whose hand or by itself.

Rule: an incident is a fault that was injected, a broker that left, crashed or was killed by a
stranger, or a session or a disk that was lost without any of these. Its number counts them in a
run. To start a broker again is no incident, though it is asked for like a fault: it mends one.
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from spark.jobs.shared import LEAVING, by_run, run_ends
from spark.trace import Trace
from spark.transforms import Step, nearest, ordered, united
from wire.trace import (
    BrokerStateChanged,
    FaultHealed,
    FaultInjected,
    LogDirWentOffline,
    NodeStarted,
    NodeStopped,
    SessionChanged,
)

MENDING = "restart"
CLOSE_US = 1_000_000  # what follows a fault within this is the fault
WAKE_US = 120_000_000  # a session or a disk may be lost so long after what cost it


def incidents(trace: Trace) -> DataFrame:
    """All of them, in order, with when each was mended."""
    stamp = ("run", "time_us", "id")
    faults = (
        trace.events(FaultInjected)
        .where(f.col("fault") != MENDING)
        .select(*stamp, f.col("fault").alias("what"), "target", "detail", "number")
    )
    left = trace.events(BrokerStateChanged).where(f.col("state") == LEAVING)
    stopped = trace.events(NodeStopped).where("reason != 'stopped'")
    expired = trace.events(SessionChanged).where("state = 'expired'")
    disks = trace.events(LogDirWentOffline)
    of_node = f.col("node").alias("target")
    unexplained = united(
        [
            left.select(*stamp, f.lit("shutdown").alias("what"), of_node).transform(
                explained_within(CLOSE_US)
            ),
            stopped.select(*stamp, f.col("reason").alias("what"), of_node).transform(
                explained_within(CLOSE_US)
            ),
            expired.select(*stamp, f.lit("session lost").alias("what"), of_node).transform(
                explained_within(WAKE_US)
            ),
            disks.select(*stamp, f.lit("disk failed").alias("what"), of_node).transform(
                explained_within(WAKE_US)
            ),
        ]
    ).transform(unlike(faults))
    ends = by_run(trace, trace.value(run_ends), "end_us")
    return (
        united([faults, unexplained])
        .join(f.broadcast(ends), "run")
        .where("time_us < end_us")
        .transform(numbered)
        .transform(trace.recent("time_us"))
        .transform(mended(trace.events(FaultHealed), trace.events(NodeStarted)))
        .transform(ordered("run", "incident"))
    )


def explained_within(us: int) -> Step:
    """For so long a fault explains what happens to its node."""
    return lambda frame: frame.withColumn("within_us", f.lit(us))


def unlike(faults: DataFrame) -> Step:
    """Only what no fault of the same node explains: none came at most `within_us` before."""
    known = faults.select("run", "target", "time_us", f.col("time_us").alias("us"))
    since_us = f.col("time_us") - f.col("fault.us")

    def step(frame: DataFrame) -> DataFrame:
        return (
            frame.transform(nearest(known, ("run", "target"), "time_us", "fault"))
            .where(f.coalesce(since_us > f.col("within_us"), f.lit(True)))
            .drop("fault", "within_us")
        )

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
    """When it was healed, by its number; or who was hit, before the next one hits the same."""
    by_number = (
        healed.where("number > 0").groupBy("run", "number").agg(f.min("time_us").alias("healed_us"))
    )
    at = ("time_us", f.col("time_us").alias("us"))
    ends = united(
        [
            healed.where("number = 0").select("run", "target", *at),
            started.select("run", f.col("node").alias("target"), *at),
        ]
    )
    by_target = nearest(ends, ("run", "target"), "time_us", "mend", later=True, inclusive=False)
    is_its_own = f.col("mend.us") <= f.col("until_us")
    return lambda frame: (
        frame.join(by_number, ["run", "number"], "left")
        .transform(by_target)
        .withColumn("mended_us", f.coalesce("healed_us", f.when(is_its_own, f.col("mend.us"))))
        .drop("mend", "healed_us")
    )
