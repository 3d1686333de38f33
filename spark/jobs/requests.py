"""Requests: who asked whom for what, how often, how long it took, and what went wrong.

Rule: a call that was not answered is an error, whatever the reason; one that was answered with an
error code is refused. A retry is what a channel or a fetcher sends when it has waited after a call
in vain: the message that caused it says so. Clients have no messages, and their retries no mark.
"""

from functools import reduce
from operator import or_

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from spark.trace import Trace
from spark.transforms import Step, counted, ordered, spread, with_bin
from wire.trace import (
    CallFinished,
    ErrorAnswered,
    LeaderElected,
    MessageHandled,
    ReplicaLeftIsr,
)

PLACE = ("run", "source", "destination", "request")
KEYS = (*PLACE, "outcome")
BYTES = ("request_bytes", "response_bytes")
LATENCY = ("latency_us",)
CONTROL = ("LeaderAndIsr", "StopReplica", "UpdateMetadata")
AGAIN = {"_Again": "/controller/channel-", "_Rested": "/fetcher-"}  # by message, who tells itself


def call_counts(trace: Trace) -> DataFrame:
    """Every kind of call by how long it took: the ground of all tables of requests."""
    return trace.events(CallFinished).transform(counted(KEYS, LATENCY, BYTES))


def requests(trace: Trace) -> DataFrame:
    """Source × destination × request."""
    again = retries(trace.events(CallFinished), trace.events(MessageHandled))
    return (
        trace.once(call_counts)
        .transform(by_request)
        .join(f.broadcast(again), list(PLACE), "left")
        .na.fill(0, ["retries"])
        .transform(ordered("run", f.desc("calls"), *PLACE[1:]))
    )


def retries(calls: DataFrame, messages: DataFrame) -> DataFrame:
    """How many calls were made again, by source, destination and request."""
    is_again = reduce(
        or_,
        (
            (f.col("message") == message) & f.col("actor").contains(actor)
            for message, actor in AGAIN.items()
        ),
    )
    causes = messages.where(is_again).select("run", f.col("id").alias("cause"))
    return (
        calls.where("cause > 0")
        .join(causes, ["run", "cause"], "left_semi")
        .groupBy(*PLACE)
        .agg(f.count("*").alias("retries"))
    )


def by_request(counts: DataFrame) -> DataFrame:
    """With errors, and the outcome that was most frequent among them."""
    keys = list(PLACE)
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
    )


def refusals(trace: Trace) -> DataFrame:
    """Answers with an error code: whose, to whom, and how often."""
    return trace.events(ErrorAnswered).transform(by_error)


def by_error(frame: DataFrame) -> DataFrame:
    """Of an answer, several partitions may have one error."""
    keys = ("run", "node", "source", "request", "error")
    return (
        frame.groupBy(*keys)
        .agg(
            f.count("*").alias("answers"),
            f.sum("count").alias("times"),
            f.min("time_us").alias("first_us"),
            f.max("time_us").alias("last_us"),
        )
        .transform(ordered("run", f.desc("answers"), *keys[1:]))
    )


def kinds(trace: Trace) -> DataFrame:
    """By request alone: percentiles of latency, errors, and requests a changed partition."""
    elected, left = (
        trace.events(event).transform(trace.recent("time_us"))
        for event in (LeaderElected, ReplicaLeftIsr)
    )
    return trace.once(call_counts).transform(by_kind(elected, left))


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
