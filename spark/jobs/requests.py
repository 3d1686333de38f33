"""Requests: who asked whom for what, how often, how long it took, and what went wrong.

Rule: a call that was not answered is an error, whatever the reason. A trace does not say which call
tries again what another failed to do; the errors of a source are as many as its tries in vain.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from spark.trace import Trace
from spark.transforms import Step, counted, ordered, spread, with_bin
from wire.trace import CallFinished, LeaderElected, ReplicaLeftIsr

KEYS = ("run", "source", "destination", "request", "outcome")
BYTES = ("request_bytes", "response_bytes")
LATENCY = ("latency_us",)
CONTROL = ("LeaderAndIsr", "StopReplica", "UpdateMetadata")


def call_counts(trace: Trace) -> DataFrame:
    """Every kind of call by how long it took: the ground of all tables of requests."""
    return trace.events(CallFinished).transform(counted(KEYS, LATENCY, BYTES))


def requests(trace: Trace) -> DataFrame:
    """Source × destination × request."""
    return trace.once(call_counts).transform(by_request)


def by_request(counts: DataFrame) -> DataFrame:
    """With errors, and the outcome that was most frequent among them."""
    keys = ["run", "source", "destination", "request"]
    usual = f.min_by("outcome", f.struct(-f.col("times"), "outcome"))  # of two the first by name
    failed = (
        counts.where("outcome != 'ok'")
        .groupBy(*keys, "outcome")
        .agg(f.sum("times").alias("times"))
        .groupBy(*keys)
        .agg(f.sum("times").alias("errors"), usual.alias("usual_error"))
    )
    return (
        counts.transform(spread(keys, LATENCY, "calls", BYTES))
        .join(failed, keys, "left")
        .na.fill(0, ["errors"])
        .transform(ordered("run", f.desc("calls"), *keys[1:]))
    )


def kinds(trace: Trace) -> DataFrame:
    """By request alone: percentiles of latency, errors, and requests a changed partition."""
    return trace.once(call_counts).transform(
        by_kind(trace.events(LeaderElected), trace.events(ReplicaLeftIsr))
    )


def by_kind(elected: DataFrame, left: DataFrame) -> Step:
    """What the controller's requests cost a partition that changed is their amplification."""
    columns = ("run", "topic", "partition")
    changes = elected.select(*columns).unionAll(left.select(*columns)).groupBy("run").count()

    def step(counts: DataFrame) -> DataFrame:
        is_error = f.col("outcome") != "ok"
        errors = counts.groupBy("run", "request").agg(
            f.sum(f.when(is_error, f.col("times")).otherwise(0)).alias("errors")
        )
        amplification = f.when(f.col("request").isin(*CONTROL), f.col("calls") / f.col("count"))
        return (
            counts.transform(spread(("run", "request"), LATENCY, "calls", BYTES))
            .join(errors, ["run", "request"])
            .join(f.broadcast(changes), "run", "left")
            .withColumn("calls_a_changed_partition", amplification)
            .drop("count")
            .transform(ordered("run", f.desc("calls"), "request"))
        )

    return step


def over_time(trace: Trace) -> DataFrame:
    """Calls, errors and the slowest call of each kind in each slice of time."""
    return (
        trace.events(CallFinished)
        .transform(with_bin(trace.bin_us))
        .groupBy("run", "request", "bin_us")
        .agg(
            f.count("*").alias("calls"),
            f.count_if(f.col("outcome") != "ok").alias("errors"),
            f.avg("latency_us").alias("latency_mean_us"),
            f.max("latency_us").alias("latency_max_us"),
        )
        .transform(ordered("run", "request", "bin_us"))
    )
