"""Availability: when nobody served a partition, and when it had fewer replicas in sync than it has.

Rule: a partition is leaderless from the moment its leader is gone, or stands still, until the next
leader takes its place, or the same one goes on; not from when the controller noticed. It is
under-replicated as Kafka counts: from the change of the ISR on. A planned handover is no gap.
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from spark.jobs.incidents import incidents
from spark.jobs.shared import (
    absences,
    by_run,
    merged,
    replica_sets,
    run_ends,
    without_burials,
)
from spark.trace import Trace
from spark.transforms import (
    PARTITION,
    Step,
    bin_of,
    lasting,
    nearest,
    ordered,
    united,
    with_next,
)
from wire.trace import LeaderElected, PartitionStateChanged, ReplicaLeftIsr, ReplicaRoleChanged

LEADERLESS = "leaderless"
UNDER_REPLICATED = "under-replicated"
ANYBODY = "\n"  # in place of a node: no node has such a name


def windows(trace: Trace) -> DataFrame:
    """Every window, with the incident that it began with."""
    ends = by_run(trace, trace.value(run_ends), "end_us")
    leaders = leaderships(trace).transform(without_leader(trace.once(absences), ends))
    replicas = trace.once(replica_sets).transform(under_replicated(ends))
    return (
        united([leaders, replicas])
        .transform(trace.recent("to_us"))
        .transform(because_of(trace.once(incidents)))
        .withColumn("duration_us", lasting("from_us", "to_us"))
        .transform(ordered("run", "from_us", "topic", "partition", "kind"))
    )


def leaderships(trace: Trace) -> DataFrame:
    """Who leads each partition from when on: a node, or nobody."""
    stamp = ("run", "time_us", "id", "topic", "partition")
    took = trace.events(ReplicaRoleChanged).where("role = 'leader'").select(*stamp, "node")
    elected = trace.events(LeaderElected).select(*stamp, "leader", f.lit("").alias("node"))
    left = trace.events(ReplicaLeftIsr).select(*stamp, "leader", f.lit("").alias("node"))
    gone = trace.events(PartitionStateChanged).where("after = 'NonExistentPartition'")
    alive, dead = f.lit(False).alias("is_gone"), f.lit(True).alias("is_gone")
    return (
        united(
            [took.select("*", alive), elected.select("*", alive), left, gone.select(*stamp, dead)]
        )
        .transform(without_burials)
        .where("leader is null or leader = -1")
        .drop("leader", "is_gone")
    )


def without_leader(absences: DataFrame, ends: DataFrame) -> Step:
    """The windows in which nobody leads: nobody is elected, or who is has gone."""

    def step(leaderships: DataFrame) -> DataFrame:
        return (
            leaderships.transform(with_next(PARTITION, ["time_us"], ["time_us", "id"]))
            .where(f.col("node").isNotNull())
            .join(f.broadcast(ends), "run")
            .withColumn("until_us", f.least(f.coalesce("next_time_us", "end_us"), "end_us"))
            .where("time_us < until_us")
            .withColumn(
                "is_open", f.coalesce(f.col("next_time_us") >= f.col("end_us"), f.lit(True))
            )
            .transform(deserted(absences))
            .transform(merged_open(PARTITION))
            .withColumn("kind", f.lit(LEADERLESS))
        )

    return step


def deserted(absences: DataFrame) -> Step:
    """What was left of leaderships when the leader had gone, or while it stood still.

    All of it, where nobody leads. A node's absences are numbered, so a leadership knows which of
    them it met without meeting the others.
    """
    numbers = absences.transform(numbered)
    marks = numbers.select("run", "node", "which", "first", f.col("down_us").alias("time_us"))
    by_then = marks.withColumnRenamed("time_us", "until_us")
    nobody, no_end = f.col("node") == "", f.lit(2**62)
    back_us = f.when(f.col("state") == "paused", f.coalesce("up_us", no_end)).otherwise(no_end)
    from_which = f.coalesce("begun.first", f.lit(1))
    to_which = f.coalesce("ended.which", f.lit(0))
    met = f.when(from_which <= to_which, f.sequence(from_which, to_which))
    away = numbers.select("run", "node", "which", "state", "down_us", "up_us")
    return lambda leaderships: (
        leaderships.transform(nearest(marks, ("run", "node"), "time_us", "begun"))
        .transform(nearest(by_then, ("run", "node"), "until_us", "ended", inclusive=False))
        .withColumn("which", f.explode_outer(met))
        .join(away, ["run", "node", "which"], "left")
        .where(nobody | (f.col("down_us").isNotNull() & f.expr("coalesce(up_us > time_us, true)")))
        .select(
            *PARTITION,
            f.when(~nobody, f.col("node")).alias("lost"),
            f.greatest("time_us", "down_us").alias("from_us"),
            f.least("until_us", back_us).alias("to_us"),
            (f.col("is_open") & (back_us >= f.col("until_us"))).alias("is_open"),
        )
    )


def numbered(absences: DataFrame) -> DataFrame:
    """Each node's absences in their order; with the first of those that end together."""
    in_order = Window.partitionBy("run", "node").orderBy("down_us", "id")
    together = Window.partitionBy("run", "node", "up_us")
    return absences.withColumn("which", f.row_number().over(in_order)).withColumn(
        "first", f.min("which").over(together)
    )


def merged_open(keys: tuple[str, ...]) -> Step:
    """Merged, and open if the last of its pieces is."""

    def step(frame: DataFrame) -> DataFrame:
        last = f.when(f.col("is_open"), f.col("to_us"))
        return (
            frame.withColumn("open_to_us", f.max(last).over(Window.partitionBy(*keys)))
            .drop("is_open")
            .transform(merged(keys))
            .withColumn("is_open", f.coalesce(f.col("open_to_us") == f.col("to_us"), f.lit(False)))
            .drop("open_to_us")
        )

    return step


def under_replicated(ends: DataFrame) -> Step:
    """The windows in which fewer replicas were in sync than are assigned."""
    in_order = Window.partitionBy(*PARTITION).orderBy("time_us", "id")

    def step(replica_sets: DataFrame) -> DataFrame:
        is_under = (f.col("in_sync") < f.col("factor")) & ~f.col("is_gone")
        return (
            replica_sets.withColumn("is_under", is_under)
            .withColumn("was_under", f.lag("is_under").over(in_order))
            .where("not (is_under <=> was_under)")
            .transform(with_next(PARTITION, ["time_us"], ["time_us", "id"]))
            .where("is_under")
            .join(f.broadcast(ends), "run")
            .select(
                *PARTITION,
                f.col("time_us").alias("from_us"),
                f.least(f.coalesce("next_time_us", "end_us"), "end_us").alias("to_us"),
                f.coalesce(f.col("next_time_us") >= f.col("end_us"), f.lit(True)).alias("is_open"),
                f.lit(UNDER_REPLICATED).alias("kind"),
            )
            .where("from_us < to_us")
        )

    return step


def because_of(incidents: DataFrame) -> Step:
    """The last incident before a window, of the node that was lost if one was."""
    known = incidents.select(
        "run", f.col("time_us").alias("from_us"), "incident", f.col("target").alias("hit")
    )
    marks = united([known, known.withColumn("hit", f.lit(ANYBODY))])
    in_order = Window.partitionBy("run", "hit").orderBy("from_us", f.col("kind").isNotNull())

    def step(windows: DataFrame) -> DataFrame:
        hit = f.coalesce("lost", f.lit(ANYBODY))
        return (
            united([windows.withColumn("hit", hit), marks])
            .withColumn("incident", f.last("incident", ignorenulls=True).over(in_order))
            .where("kind is not null")
            .drop("hit")
        )

    return step


def availability(trace: Trace) -> DataFrame:
    """A row a partition that was ever without a leader or a replica, the worst first."""
    return trace.once(windows).transform(by_partition)


def by_partition(windows: DataFrame) -> DataFrame:
    """How often, how long in all, and how long at most."""
    columns = []
    for kind, name in ((LEADERLESS, "leaderless"), (UNDER_REPLICATED, "under_replicated")):
        long = f.when(f.col("kind") == kind, f.col("duration_us"))
        columns += [
            f.count(long).alias(f"{name}_windows"),
            f.coalesce(f.sum(long), f.lit(0)).alias(f"{name}_us"),
            f.coalesce(f.max(long), f.lit(0)).alias(f"{name}_longest_us"),
        ]
    return (
        windows.groupBy(*PARTITION)
        .agg(*columns)
        .transform(
            ordered("run", f.desc("leaderless_us"), f.desc("under_replicated_us"), *PARTITION[1:])
        )
    )


def over_time(trace: Trace) -> DataFrame:
    """How many partitions were out in each slice of time."""
    return trace.once(windows).transform(counted_over_time(trace.bin_us))


def counted_over_time(width_us: int) -> Step:
    """From what began and ended in each slice, how many there were; quiet slices are left out.

    A partition counts once in a slice, however often it was out in it.
    """
    keys = (*PARTITION, "kind")
    slices = [bin_of(each, width_us).alias(each) for each in ("from_us", "to_us")]

    def step(windows: DataFrame) -> DataFrame:
        spans = windows.select(*keys, *slices).transform(merged(keys))
        stamp = ("run", "kind")
        began = spans.select(*stamp, f.col("from_us").alias("bin_us"), f.lit(1).alias("began"))
        ended = spans.select(*stamp, f.col("to_us").alias("bin_us"), f.lit(1).alias("ended"))
        so_far = Window.partitionBy("run", "kind").orderBy("bin_us")
        return (
            united([began, ended])
            .groupBy("run", "kind", "bin_us")
            .agg(*(f.coalesce(f.sum(each), f.lit(0)).alias(each) for each in ("began", "ended")))
            .withColumn("after", f.sum(f.col("began") - f.col("ended")).over(so_far))
            .withColumn("partitions", f.col("after") + f.col("ended"))
            .transform(ordered("run", "kind", "bin_us"))
        )

    return step
