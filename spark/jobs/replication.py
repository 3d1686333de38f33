"""Replication: the ISR's coming and going, records that were cut off, lag, and bytes by link.

Rule: a partition's row counts what its leaders and followers said of it; lag is told in records, at
the ends of slices of time, from what leader and follower had appended by then.
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from spark.jobs.requests import BYTES, call_counts
from spark.jobs.shared import appended, by_run, replica_sets, run_ends
from spark.trace import Trace
from spark.transforms import PARTITION, Step, ordered, spread, with_bin
from wire.trace import LogTruncated, RecordsAppended

COARSE = 10  # slices for lag are so many times as wide


def replication(trace: Trace) -> DataFrame:
    """A row a partition."""
    cut = (
        trace.events(LogTruncated)
        .groupBy(*PARTITION)
        .agg(
            f.count("*").alias("truncations"),
            f.sum(f.col("log_end_offset") - f.col("offset")).alias("records_cut"),
        )
    )
    keys = list(PARTITION)
    ends = by_run(trace, trace.value(run_ends), "end_us")
    changes = trace.once(replica_sets).transform(isr_changes(ends, trace.recent("time_us")))
    return (
        trace.once(appended)
        .transform(amplified)
        .join(changes, keys, "full")
        .join(cut, keys, "full")
        .join(lags(trace), keys, "left")
        .na.fill(0)
        .transform(ordered("run", f.desc("shrinks"), f.desc("records"), *PARTITION[1:]))
    )


def amplified(appended: DataFrame) -> DataFrame:
    """Records that leaders took, and how often each was written again by followers."""
    by_leader, by_follower = f.col("role") == "leader", f.col("role") == "follower"
    return (
        appended.groupBy(*PARTITION)
        .agg(
            f.sum(f.when(by_leader, f.col("batches"))).alias("batches"),
            f.sum(f.when(by_leader, f.col("records"))).alias("records"),
            f.sum(f.when(by_follower, f.col("records"))).alias("copied"),
        )
        .na.fill(0)
        .withColumn("amplification", f.col("copied") / f.nullif(f.col("records"), f.lit(0)))
    )


def isr_changes(ends: DataFrame, recent: Step) -> Step:
    """How often a partition's ISR shrank and expanded, and how small it got.

    Not while the whole cluster stops, and, asked for the last hour, only in that.
    """
    in_order = Window.partitionBy(*PARTITION).orderBy("time_us", "id")
    before = f.lag("in_sync").over(in_order)
    return lambda replica_sets: (
        replica_sets.where("not is_gone")
        .withColumn("change", f.col("in_sync") - before)
        .join(f.broadcast(ends), "run")
        .where("time_us <= end_us")
        .transform(recent)
        .groupBy(*PARTITION)
        .agg(
            f.count_if(f.col("change") < 0).alias("shrinks"),
            f.count_if(f.col("change") > 0).alias("expands"),
            f.min("in_sync").alias("fewest_in_sync"),
            f.max("factor").alias("replicas"),
        )
    )


def lags(trace: Trace) -> DataFrame:
    """How many records the slowest follower was behind, at most and in the end."""
    most = (
        trace.events(RecordsAppended).transform(with_bin(trace.bin_us * COARSE)).transform(behind)
    )
    last = trace.once(appended).transform(behind_in_the_end)
    return most.join(last, list(PARTITION), "full")


def behind(appends: DataFrame) -> DataFrame:
    """At the ends of slices of time in which anybody appended: who is dead falls behind, too."""
    leaders = appends.groupBy(*PARTITION, "bin_us").agg(
        f.max(f.when(f.col("role") == "leader", f.col("last_offset"))).alias("led_to")
    )
    reached = appends.groupBy(*PARTITION, "node", "bin_us").agg(
        f.max("last_offset").alias("offset")
    )
    slices = Window.partitionBy(*PARTITION).orderBy("bin_us")
    of_node = Window.partitionBy(*PARTITION, "node").orderBy("bin_us")
    known = leaders.withColumn("led_to", f.max("led_to").over(slices))
    every = known.join(reached.select(*PARTITION, "node").distinct(), list(PARTITION))
    lag = f.greatest(f.col("led_to") - f.col("offset"), f.lit(0))
    return (
        every.join(reached, [*PARTITION, "node", "bin_us"], "left")
        .withColumn("offset", f.max("offset").over(of_node))
        .groupBy(*PARTITION)
        .agg(f.max(lag).alias("lag_max"))
    )


def behind_in_the_end(appended: DataFrame) -> DataFrame:
    """By the last offsets that each replica ever appended."""
    offset = f.max("last_offset")
    replicas = appended.groupBy(*PARTITION, "node").agg(offset.alias("offset"))
    return replicas.groupBy(*PARTITION).agg((f.max("offset") - f.min("offset")).alias("lag_last"))


def links(trace: Trace) -> DataFrame:
    """What followers fetched: a row for each leader and follower."""
    return trace.once(call_counts).transform(by_link)


def by_link(counts: DataFrame) -> DataFrame:
    """Fetches between brokers."""
    between = (f.col("request") == "Fetch") & f.col("source").startswith("broker-")
    return (
        counts.where(between & (f.col("outcome") == "ok"))
        .transform(spread(("run", "destination", "source"), ("latency_us",), "fetches", BYTES))
        .withColumnsRenamed({"source": "follower", "destination": "leader"})
        .transform(ordered("run", "leader", "follower"))
    )
