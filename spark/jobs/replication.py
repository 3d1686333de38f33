"""Replication: the ISR's coming and going, records that were cut off, lag, and bytes by link.

Rule: a partition's row counts what its leaders and followers said of it; lag is told in records, at
the ends of slices of time, from what leader and follower had appended by then.
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from spark.jobs.requests import BYTES, call_counts
from spark.jobs.shared import appended, replica_sets
from spark.trace import Trace
from spark.transforms import PARTITION, ordered, spread, with_bin
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
    return (
        trace.once(appended)
        .transform(amplified)
        .join(trace.once(replica_sets).transform(isr_changes), keys, "full")
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


def isr_changes(replica_sets: DataFrame) -> DataFrame:
    """How often a partition's ISR shrank and expanded, and how small it got."""
    in_order = Window.partitionBy(*PARTITION).orderBy("time_us", "id")
    before = f.lag("in_sync").over(in_order)
    return (
        replica_sets.where("not is_gone")
        .withColumn("change", f.col("in_sync") - before)
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
    """At the ends of slices of time, where a follower appended anything."""
    leaders = appends.groupBy(*PARTITION, "bin_us").agg(
        f.max(f.when(f.col("role") == "leader", f.col("last_offset"))).alias("led_to")
    )
    followers = (
        appends.where("role = 'follower'")
        .groupBy(*PARTITION, "node", "bin_us")
        .agg(f.max("last_offset").alias("offset"))
    )
    so_far = Window.partitionBy(*PARTITION).orderBy("bin_us")
    known = leaders.withColumn("led_to", f.max("led_to").over(so_far))
    lag = f.greatest(f.col("led_to") - f.col("offset"), f.lit(0))
    return (
        followers.join(known, [*PARTITION, "bin_us"])
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
