"""The failover budget: where the time went between a fault and the first produce after it.

Rule: what belongs to a fault is found along causes. The controller's first event after the fault
that names its target is the reaction; whatever has that event as its cause, or has it at the end of
its chain of causes, is part of the failover. Without a reaction the row says so by its nulls.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from spark.jobs.availability import LEADERLESS, UNDER_REPLICATED, windows
from spark.jobs.incidents import incidents
from spark.jobs.shared import appended, control_messages
from spark.trace import Trace
from spark.transforms import Step, broker_of, nearest, ordered, united
from wire.trace import (
    BrokersChanged,
    CallFinished,
    ControllerElected,
    KeeperOperation,
    LeaderElected,
    LogDirWentOffline,
    ReplicaLeftIsr,
    ReplicaRoleChanged,
    WatchFired,
)

HOPS: Final = 4  # event, channel, its call, another try
TOLD: Final = ("LeaderAndIsr", "StopReplica", "UpdateMetadata")
WATCHED: Final = ("/controller", "/brokers/ids")
LEAVINGS: Final = ("shutdown", "shut down")  # by itself, and as a fault
ANSWER: Final = "LeaderAndIsrAnswered"
EVACUATED: Final = "the controller gave up what was on its disk"
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
    hit, roots = trace.once(reacted), trace.once(causes)
    control = trace.once(control_messages)
    return (
        hit.transform(joined(control.transform(among(roots, "id")).transform(begun)))
        .transform(with_watch(trace.events(WatchFired)))
        .transform(joined(elected(trace, roots)))
        .transform(joined(trace.events(KeeperOperation).transform(among(roots)).transform(written)))
        .transform(joined(told(trace, roots)))
        .transform(joined(serving(trace)))
        .transform(joined(produced(trace)))
        .transform(with_windows(trace.once(windows)))
        .transform(ordered("run", "incident"))
    )


def reacted(trace: Trace) -> DataFrame:
    """Each incident with the controller's reaction to it."""
    disks = trace.events(LogDirWentOffline)
    return trace.once(incidents).transform(with_reaction(reactions(trace), disks))


def causes(trace: Trace) -> DataFrame:
    """The messages that were reactions: as few as there are incidents."""
    return trace.once(reacted).where("cause is not null").select("run", "cause").distinct()


def among(roots: DataFrame, cause: str = "cause") -> Step:
    """Only what has one of these causes; or is one of them."""
    few = f.broadcast(roots.withColumnRenamed("cause", cause))
    return lambda frame: frame.join(few, ["run", cause], "left_semi")


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
    return united([noticed, successions(trace), handovers(trace), evacuations(trace)])


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


def evacuations(trace: Trace) -> DataFrame:
    """A controller hears in answers which replicas a failed disk had, and does without them."""
    changes = united(
        [
            trace.events(event).select("run", "time_us", "node", "cause")
            for event in (LeaderElected, ReplicaLeftIsr)
        ]
    )
    answers = (
        trace.once(control_messages)
        .where(f.col("message") == ANSWER)
        .select("run", f.col("id").alias("cause"))
    )
    return (
        changes.join(answers, ["run", "cause"], "left_semi")
        .groupBy("run", "node", "cause")
        .agg(f.min("time_us").alias("time_us"))
        .withColumn("reaction", f.lit(EVACUATED))
    )


def with_reaction(reactions: DataFrame, disks: DataFrame) -> Step:
    """The first reaction after an incident and before the next one of the same target.

    Who leaves is not named when its leaderships are moved, nor whose disk has failed: there the
    first reaction of that kind counts, whomever it was about.
    """
    stamp = ("run", f.col("time_us"), f.col("time_us").alias("us"), "node", "cause", "reaction")
    is_evacuation = f.col("reaction") == EVACUATED
    named = reactions.where("target is not null").select(*stamp, "target")
    moved = reactions.where(f.col("target").isNull() & ~is_evacuation).select(*stamp)
    given_up = reactions.where(is_evacuation).select(*stamp).withColumnRenamed("time_us", "off_us")
    failed = disks.select("run", f.col("node").alias("target"), *stamp[1:3])
    off_us = f.when(f.col("disk.us") < f.col("until_us"), f.col("disk.us"))
    is_leaving = f.col("what").isin(*LEAVINGS)
    choices = f.array(
        f.col("by_name"),
        f.when(is_leaving, f.col("by_move")),
        f.when(f.col("off_us").isNotNull(), f.col("by_answer")),
    )
    of_it = f.filter(choices, lambda each: each["us"] < f.col("until_us"))

    def step(incidents: DataFrame) -> DataFrame:
        return (
            incidents.drop("id", "end_us")
            .transform(nearest(named, ("run", "target"), "time_us", "by_name", later=True))
            .transform(nearest(moved, ("run",), "time_us", "by_move", later=True))
            .transform(nearest(failed, ("run", "target"), "time_us", "disk", later=True))
            .withColumn("off_us", off_us)
            .transform(nearest(given_up, ("run",), "off_us", "by_answer", later=True))
            .withColumn("first", f.array_min(of_it))
            .withColumns(
                {
                    "reacted_us": f.col("first.us"),
                    "controller": f.col("first.node"),
                    "cause": f.col("first.cause"),
                    "reaction": f.col("first.reaction"),
                }
            )
            .drop("by_name", "by_move", "disk", "off_us", "by_answer", "first")
        )

    return step


def joined(parts: DataFrame) -> Step:
    """With what has the reaction as its cause; a row a cause."""
    return lambda frame: frame.join(f.broadcast(parts), ["run", "cause"], "left")


def with_watch(fired: DataFrame) -> Step:
    """When ZooKeeper told the controller that reacted: the last watch before it began."""
    told = fired.where(f.col("path").isin(*WATCHED)).select(
        "run",
        f.col("node").alias("controller"),
        f.col("time_us").alias("seen_us"),
        f.col("time_us").alias("us"),
    )
    is_of_it = f.col("watch.us") >= f.col("time_us")
    return lambda frame: (
        frame.withColumn("seen_us", f.coalesce("begun_us", "reacted_us"))
        .transform(nearest(told, ("run", "controller"), "seen_us", "watch"))
        .withColumn("watch_us", f.when(is_of_it, f.col("watch.us")))
        .drop("seen_us", "watch")
    )


def begun(messages: DataFrame) -> DataFrame:
    """When the controller took the event in hand."""
    return messages.where(f.col("actor").endswith("/controller")).select(
        "run", f.col("id").alias("cause"), f.col("time_us").alias("begun_us")
    )


def elected(trace: Trace, roots: DataFrame) -> DataFrame:
    """Leaders that an event elected, and replicas that it took out of their ISR."""
    leaders = trace.events(LeaderElected).transform(among(roots))
    left = trace.events(ReplicaLeftIsr).transform(among(roots))
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


def told(trace: Trace, roots: DataFrame) -> DataFrame:
    """When the last broker had been told what an event decided, and how many were."""
    calls = (
        trace.events(CallFinished)
        .where(f.col("request").isin(*TOLD) & (f.col("outcome") == "ok"))
        .select("run", f.col("cause").alias("id"), "destination", "time_us")
    )
    return (
        trace.once(sends)
        .transform(descended(roots, HOPS, trace.settled))
        .join(calls, ["run", "id"])
        .groupBy("run", "cause")
        .agg(
            f.max("time_us").alias("told_us"),
            f.count_distinct("destination").alias("brokers_told"),
        )
    )


def sends(trace: Trace) -> DataFrame:
    """What channels handled, and why; a timer's message is another matter."""
    return (
        trace.once(control_messages)
        .where(f.col("actor").contains("/channel-"))
        .select("run", "id", f.col("cause").alias("parent"))
    )


def descended(roots: DataFrame, hops: int, settled: Step = lambda frame: frame) -> Step:
    """The messages that some causes led to, each with the cause at its chain's end."""

    def step(messages: DataFrame) -> DataFrame:
        found = roots.select("run", f.col("cause").alias("id"), "cause")
        every = [found]
        for _ in range(hops):
            above = found.withColumnRenamed("id", "parent")
            found = settled(messages.join(above, ["run", "parent"]).select("run", "id", "cause"))
            every.append(found)
        return united(every)

    return step


def elections(trace: Trace) -> DataFrame:
    """The partitions that reactions elected leaders for."""
    return (
        trace.events(LeaderElected)
        .where("leader >= 0")
        .transform(among(trace.once(causes)))
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
        trace.once(elections)
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
        trace.once(elections)
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
    """With the partitions that had no leader because of it, or fewer replicas in sync."""
    columns = []
    for kind, name in ((LEADERLESS, "leaderless"), (UNDER_REPLICATED, "under_replicated")):
        is_it = f.col("kind") == kind
        columns += [
            f.count_distinct(f.when(is_it, f.struct("topic", "partition"))).alias(name),
            f.max(f.when(is_it, f.col("duration_us"))).alias(f"{name}_longest_us"),
            f.sum(f.when(is_it, f.col("duration_us"))).alias(f"{name}_us"),
            f.max(f.when(is_it, f.col("is_open").cast("int"))).alias(f"still_{name}"),
        ]
    gaps = windows.where("incident is not null").groupBy("run", "incident").agg(*columns)
    counts = ["elections", "unclean", "left_isr"]
    counts += [f"{name}{of}" for name in ("leaderless", "under_replicated") for of in ("", "_us")]
    return lambda frame: (
        frame.join(gaps, ["run", "incident"], "left")
        .na.fill(0, counts)
        .withColumn("broker", broker_of("target"))
    )
