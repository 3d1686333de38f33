"""ZooKeeper: what was asked of it, in what batches, how fast it was; its watches and sessions.

Rule: an operation's latency is what its client saw, retries and all.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from spark.trace import Trace
from spark.transforms import counted, ordered, spread, with_bin
from wire.trace import KeeperOperation, SessionChanged, WatchFired

KEYS = ("run", "operation", "outcome")


def operations(trace: Trace) -> DataFrame:
    """By operation and outcome."""
    return trace.events(KeeperOperation).transform(by_operation)


def by_operation(frame: DataFrame) -> DataFrame:
    """With the sizes of batches: how many znodes one operation was about."""
    sizes = frame.groupBy(*KEYS).agg(
        f.sum("count").alias("znodes"),
        f.avg("count").alias("batch_mean"),
        f.max("count").alias("batch_max"),
    )
    return (
        frame.transform(counted(KEYS, ("latency_us",)))
        .transform(spread(KEYS, ("latency_us",), "operations"))
        .join(sizes, list(KEYS))
        .transform(ordered("run", f.desc("operations"), *KEYS[1:]))
    )


def over_time(trace: Trace) -> DataFrame:
    """Operations and their latency in each slice of time."""
    return (
        trace.events(KeeperOperation)
        .transform(with_bin(trace.bin_us))
        .groupBy("run", "bin_us")
        .agg(
            f.count("*").alias("operations"),
            f.sum("count").alias("znodes"),
            f.avg("latency_us").alias("latency_mean_us"),
            f.max("latency_us").alias("latency_max_us"),
        )
        .transform(ordered("run", "bin_us"))
    )


def watches(trace: Trace) -> DataFrame:
    """Watches that went off, by the kind of path."""
    return (
        trace.events(WatchFired)
        .groupBy("run", path_kind("path").alias("path"), "change")
        .agg(f.count("*").alias("times"), f.count_distinct("node").alias("nodes"))
        .transform(ordered("run", f.desc("times"), "path", "change"))
    )


def path_kind(path: str) -> Column:
    """A path without its names: /brokers/topics/orders is one of many."""
    known = f.regexp_replace(path, r"^(/brokers/(?:ids|topics)|/config/\w+)/.+$", "$1/…")
    return f.regexp_replace(known, r"\d{10}$", "…")


def sessions(trace: Trace) -> DataFrame:
    """What became of each node's sessions."""
    return trace.events(SessionChanged).transform(by_node)


def by_node(changes: DataFrame) -> DataFrame:
    """Each life of a node counts its sessions anew; one that was only suspended is the same."""
    in_order = Window.partitionBy("run", "node").orderBy("time_us", "id")
    is_same = (f.lag("state").over(in_order) == "suspended") & (
        f.lag("session").over(in_order) == f.col("session")
    )
    is_new = (f.col("state") == "connected") & ~f.coalesce(is_same, f.lit(False))
    return (
        changes.withColumn("is_new", is_new)
        .groupBy("run", "node")
        .agg(
            f.count_if("is_new").alias("sessions"),
            *(
                f.count_if(f.col("state") == state).alias(state)
                for state in ("connected", "suspended", "expired", "closed")
            ),
        )
        .transform(ordered("run", "node"))
    )
