"""The failover budget: where the time went between a fault and the first produce after it.

Rule: what belongs to a fault is found along causes. The controller's first event after the fault
that names its target is the reaction; whatever has that event as its cause, or has it at the end of
its chain of causes, is part of the failover. Without a reaction the row says so by its nulls.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from spark.jobs.availability import LEADERLESS, windows
from spark.jobs.incidents import incidents
from spark.jobs.shared import appended, control_messages, united
from spark.trace import Trace
from spark.transforms import Step, broker_of
from wire.trace import (
    BrokersChanged,
    CallFinished,
    ControllerElected,
    KeeperOperation,
    LeaderElected,
    ReplicaLeftIsr,
    ReplicaRoleChanged,
    WatchFired,
)

HOPS: Final = 4  # event, channel, its call, another try
TOLD: Final = ("LeaderAndIsr", "StopReplica", "UpdateMetadata")
WATCHED: Final = ("/controller", "/brokers/ids")
CONTROLLED: Final = "ControlledShutdown%"
# The steps of a failover: each lasts from the one before it, or from the last that is known.
MOMENTS: Final = (
    "watch_us",
    "begun_us",
    "first_write_us",
    "written_us",
    "told_us",
    "first_produce_us",
)


def budgets(trace: Trace) -> DataFrame:
    """A row an incident."""
    hit = trace.once(incidents).transform(with_reaction(trace))
    return (
        hit.transform(joined(begun(trace.once(control_messages))))
        .transform(with_watch(trace.events(WatchFired)))
        .transform(joined(elected(trace.events(LeaderElected), trace.events(ReplicaLeftIsr))))
        .transform(joined(written(trace.events(KeeperOperation))))
        .transform(joined(told(trace, trace.once(reactions))))
        .transform(joined(serving(trace)))
        .transform(joined(produced(trace)))
        .transform(with_windows(trace.once(windows)))
        .orderBy("run", "incident")
    )


def reactions(trace: Trace) -> DataFrame:
    """Every event by which a controller took note that a broker had gone."""
    stamp = ("run", "time_us", "node", "cause")
    changed = trace.events(BrokersChanged)
    lost = f.concat_ws(",", *(f.when(f.col(x) != "", f.col(x)) for x in ("removed", "bounced")))
    noticed = (
        changed.where("removed != '' or bounced != ''")
        .select(*stamp, f.explode(f.split(lost, ",")).alias("number"))
        .select(
            *stamp,
            f.concat(f.lit("broker-"), "number").alias("target"),
            f.lit("the controller saw it go").alias("reaction"),
        )
    )
    return united([noticed, successions(trace), handovers(trace)])


def successions(trace: Trace) -> DataFrame:
    """A new controller, as the reaction to what happened to the one before."""
    stamp = ("run", "time_us", "node", "cause")
    elected = trace.events(ControllerElected)
    before = elected.select(
        "run",
        (f.col("controller_epoch") + 1).alias("controller_epoch"),
        f.concat(f.lit("broker-"), f.col("broker").cast("string")).alias("target"),
    ).distinct()
    return elected.join(f.broadcast(before), ["run", "controller_epoch"]).select(
        *stamp, "target", f.lit("another controller was elected").alias("reaction")
    )


def handovers(trace: Trace) -> DataFrame:
    """A controller moves leaderships away from a broker that is leaving."""
    asked = trace.events(LeaderElected).where(f.col("reason").like(CONTROLLED))
    return (
        asked.groupBy("run", "node", "cause")
        .agg(f.min("time_us").alias("time_us"))
        .select(
            "run",
            "time_us",
            "node",
            "cause",
            f.lit(None).cast("string").alias("target"),
            f.lit("the controller moved its leaderships").alias("reaction"),
        )
    )


def with_reaction(trace: Trace) -> Step:
    """The first reaction after an incident and before the next one of the same target."""
    known = trace.once(reactions).withColumnRenamed("time_us", "reacted_us")

    def step(incidents: DataFrame) -> DataFrame:
        same = f.col("i.target") == f.col("r.target")
        leaving = f.col("r.target").isNull() & f.col("i.what").isin("shutdown", "shut-down")
        is_of_it = (
            (f.col("i.run") == f.col("r.run"))
            & (same | leaving)
            & (f.col("r.reacted_us") >= f.col("i.time_us"))
            & (f.col("r.reacted_us") < f.col("i.until_us"))
        )
        row = f.struct("reacted_us", "r.node", "r.cause", "r.reaction")
        return (
            incidents.alias("i")
            .join(f.broadcast(known).alias("r"), is_of_it, "left")
            .groupBy(*(f.col(f"i.{name}") for name in incidents.columns))
            .agg(f.min_by(row, "reacted_us").alias("first"))
            .select(
                *(name for name in incidents.columns if name not in {"id", "end_us"}),
                f.col("first.reacted_us"),
                f.col("first.node").alias("controller"),
                f.col("first.cause").alias("cause"),
                f.col("first.reaction").alias("reaction"),
            )
        )

    return step


def joined(parts: DataFrame) -> Step:
    """With what has the reaction as its cause; a row a cause."""
    return lambda frame: frame.join(f.broadcast(parts), ["run", "cause"], "left")


def with_watch(fired: DataFrame) -> Step:
    """When ZooKeeper told the controller that reacted: the last watch before it began."""
    told = fired.where(f.col("path").isin(*WATCHED)).select(
        "run", f.col("node").alias("controller"), f.col("time_us").alias("fired_us")
    )
    until_us = f.coalesce("i.begun_us", "i.reacted_us")

    def step(frame: DataFrame) -> DataFrame:
        is_of_it = (
            (f.col("i.run") == f.col("w.run"))
            & (f.col("i.controller") == f.col("w.controller"))
            & f.col("w.fired_us").between(f.col("i.time_us"), until_us)
        )
        return (
            frame.alias("i")
            .join(f.broadcast(told).alias("w"), is_of_it, "left")
            .groupBy(*(f.col(f"i.{name}") for name in frame.columns))
            .agg(f.max("w.fired_us").alias("watch_us"))
        )

    return step


def begun(messages: DataFrame) -> DataFrame:
    """When the controller took the event in hand."""
    return messages.where(f.col("actor").endswith("/controller")).select(
        "run", f.col("id").alias("cause"), f.col("time_us").alias("begun_us")
    )


def elected(leaders: DataFrame, left: DataFrame) -> DataFrame:
    """Leaders that an event elected, and replicas that it took out of their ISR."""
    one = leaders.groupBy("run", "cause").agg(
        f.count("*").alias("elections"),
        f.sum(f.col("is_unclean").cast("int")).alias("unclean"),
        f.max("time_us").alias("elected_us"),
    )
    other = left.groupBy("run", "cause").agg(f.count("*").alias("left_isr"))
    return one.join(other, ["run", "cause"], "full")


def written(operations: DataFrame) -> DataFrame:
    """An event's writes to ZooKeeper, from the start of the first to the end of the last."""
    is_write = f.col("operation").isin("write") & (f.col("outcome") == "ok")
    return (
        operations.where(is_write)
        .groupBy("run", "cause")
        .agg(
            f.min(f.col("time_us") - f.col("latency_us")).alias("first_write_us"),
            f.max("time_us").alias("written_us"),
            f.sum("count").alias("znodes"),
        )
    )


def told(trace: Trace, reactions: DataFrame) -> DataFrame:
    """When the last broker had been told what an event decided, and how many were."""
    roots = reactions.select("run", "cause").distinct()
    calls = (
        trace.events(CallFinished)
        .where(f.col("request").isin(*TOLD) & (f.col("outcome") == "ok"))
        .select("run", f.col("cause").alias("id"), "destination", "time_us")
    )
    return (
        trace.once(control_messages)
        .where(f.col("actor").contains("/channel-"))  # a timer's message is another matter
        .select("run", "id", f.col("cause").alias("parent"))
        .transform(descended(roots, HOPS))
        .join(calls, ["run", "id"])
        .groupBy("run", "cause")
        .agg(
            f.max("time_us").alias("told_us"),
            f.count_distinct("destination").alias("brokers_told"),
        )
    )


def descended(roots: DataFrame, hops: int) -> Step:
    """The messages that some causes led to, each with the cause at its chain's end."""

    def step(messages: DataFrame) -> DataFrame:
        found = roots.select("run", f.col("cause").alias("id"), "cause")
        every = [found]
        for _ in range(hops):
            above = f.broadcast(found.withColumnRenamed("id", "parent"))
            found = messages.join(above, ["run", "parent"]).select("run", "id", "cause")
            every.append(found)
        return united(every)

    return step


def elections_of(trace: Trace) -> DataFrame:
    """The partitions that reactions elected leaders for."""
    roots = trace.once(reactions).select("run", "cause").distinct()
    return (
        trace.events(LeaderElected)
        .where("leader >= 0")
        .join(f.broadcast(roots), ["run", "cause"])
        .select("run", "cause", "topic", "partition", "leader_epoch", "time_us")
    )


def serving(trace: Trace) -> DataFrame:
    """When the last of the elected leaders had taken its place."""
    took = (
        trace.events(ReplicaRoleChanged)
        .where("role = 'leader'")
        .select("run", "topic", "partition", "leader_epoch", f.col("time_us").alias("took_us"))
    )
    keys = ["run", "topic", "partition", "leader_epoch"]
    return (
        elections_of(trace)
        .join(took, keys)
        .groupBy("run", "cause")
        .agg(f.max("took_us").alias("serving_us"))
    )


def produced(trace: Trace) -> DataFrame:
    """When the elected leaders appended their first records."""
    leaders = (
        trace.once(appended)
        .where("role = 'leader'")
        .select("run", "topic", "partition", f.col("leader_epoch").alias("epoch"), "first_us")
    )
    first: Column = f.col("first_us")
    return (
        elections_of(trace)
        .join(leaders, ["run", "topic", "partition"])
        .where("epoch = leader_epoch")
        .groupBy("run", "cause")
        .agg(
            f.min(first).alias("first_produce_us"),
            f.max(first).alias("last_produce_us"),
            f.count("*").alias("produced_to"),
        )
    )


def with_windows(windows: DataFrame) -> Step:
    """With the partitions that had no leader because of it."""
    gaps = (
        windows.where(f.col("kind") == LEADERLESS)
        .groupBy("run", "incident")
        .agg(
            f.count_distinct("topic", "partition").alias("leaderless"),
            f.max("duration_us").alias("leaderless_longest_us"),
            f.sum("duration_us").alias("leaderless_us"),
            f.max(f.col("is_open").cast("int")).alias("still_leaderless"),
        )
    )
    counts = ["elections", "unclean", "left_isr", "leaderless", "leaderless_us"]
    return lambda frame: (
        frame.join(f.broadcast(gaps), ["run", "incident"], "left")
        .na.fill(0, counts)
        .withColumn("broker", broker_of("target"))
    )
