"""What several jobs stand on, worked out once.

Rule: each of these is asked for with `trace.once`, and stays until the jobs are done.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from spark.trace import Trace
from spark.transforms import PARTITION, Step, ordered, united
from wire.trace import (
    BrokerStateChanged,
    FaultHealed,
    FaultInjected,
    IsrChanged,
    LeaderElected,
    MessageHandled,
    NodePaused,
    NodeResumed,
    NodeStarted,
    NodeStopped,
    PartitionStateChanged,
    RecordsAppended,
    ReplicaLeftIsr,
)

LEAVING: Final = "PendingControlledShutdown"
GOODBYES_US: Final = 2_000_000  # brokers that stop one after the other with less between them
MOST_LIVES: Final = 200_000


def control_messages(trace: Trace) -> DataFrame:
    """What controllers and their channels handled: few among all messages, and all of a cause."""
    handled = trace.events(MessageHandled).where(f.col("actor").contains("/controller"))
    return handled.drop("hour")


def appended(trace: Trace) -> DataFrame:
    """What each replica appended in each leader epoch."""
    return trace.events(RecordsAppended).transform(appended_by_epoch)


def appended_by_epoch(frame: DataFrame) -> DataFrame:
    """Batches, records and offsets, when the first came and when the last."""
    records = f.col("last_offset") - f.col("first_offset") + 1
    return frame.groupBy("run", "node", "topic", "partition", "role", "leader_epoch").agg(
        f.min("id").alias("id"),
        f.count("*").alias("batches"),
        f.sum(records).alias("records"),
        f.min("first_offset").alias("first_offset"),
        f.max("last_offset").alias("last_offset"),
        f.min("time_us").alias("first_us"),
        f.max("time_us").alias("last_us"),
    )


def replica_sets(trace: Trace) -> DataFrame:
    """Each partition's ISR and replicas after each change, whoever made it; and its end."""
    columns = ("run", "id", "time_us", "topic", "partition")
    elected = trace.events(LeaderElected).select(
        *columns, "isr", "replicas", f.lit(False).alias("is_gone")
    )
    left = trace.events(ReplicaLeftIsr).select(*columns, "isr")
    changed = trace.events(IsrChanged).select(*columns, "isr")
    gone = (
        trace.events(PartitionStateChanged)
        .where("after = 'NonExistentPartition'")
        .select(*columns, f.lit(True).alias("is_gone"))
    )
    changes = united([elected, left, changed, gone])
    return changes.transform(without_burials).transform(with_replicas_known)


def without_burials(frame: DataFrame) -> DataFrame:
    """Without what is still done to a partition that is gone, until it has a leader again.

    A controller that deletes a topic takes its replicas out of their ISRs afterwards: no outage.
    """
    so_far = Window.partitionBy(*PARTITION).orderBy("time_us", "id")
    return (
        frame.withColumn("is_buried", f.last("is_gone", ignorenulls=True).over(so_far))
        .where("is_gone is not null or not coalesce(is_buried, false)")
        .drop("is_buried")
    )


def with_replicas_known(frame: DataFrame) -> DataFrame:
    """Replicas as last heard; if a trace never says, the most that ever were in sync will do."""
    so_far = Window.partitionBy(*PARTITION).orderBy("time_us", "id")
    heard = f.last(f.when(f.col("replicas") != "", f.col("replicas")), ignorenulls=True)
    in_sync = f.when(f.coalesce("isr", f.lit("")) == "", 0).otherwise(f.size(f.split("isr", ",")))
    known_factor = f.size(f.split("replicas", ","))
    return (
        frame.withColumn("in_sync", in_sync)
        .withColumn("most_in_sync", f.max("in_sync").over(so_far))
        .withColumn("replicas", heard.over(so_far))
        .withColumn("factor", f.coalesce(known_factor, f.col("most_in_sync")))
        .drop("most_in_sync")
        .withColumn("is_gone", f.coalesce("is_gone", f.lit(False)))
        .drop("isr", "replicas")
    )


def presences(trace: Trace) -> DataFrame:
    """When each node came and went: rows `state` up, down, paused."""
    stamp = ("run", "id", "time_us")

    def marks(frame: DataFrame, state: str, node: str = "node") -> DataFrame:
        return frame.select(*stamp, f.col(node).alias("node"), f.lit(state).alias("state"))

    injected, healed = trace.events(FaultInjected), trace.events(FaultHealed)
    return united(
        [
            marks(trace.events(NodeStarted), "up"),
            marks(trace.events(NodeStopped), "down"),
            marks(injected.where("fault = 'kill'"), "down", "target"),
            marks(trace.events(NodePaused), "paused"),
            marks(injected.where("fault = 'pause'"), "paused", "target"),
            marks(trace.events(NodeResumed), "up"),
            marks(healed.where("fault = 'pause'"), "up", "target"),
        ]
    )


def nodes(trace: Trace) -> DataFrame:
    """Each node's times: up, down or paused, from when until when."""
    ends = trace.session.createDataFrame(
        [(run, end) for run, (_, end) in trace.spans.items()], "run string, last_us long"
    )
    return trace.once(presences).transform(in_states(ends)).transform(trace.recent("to_us"))


def in_states(ends: DataFrame) -> Step:
    """From one mark to the next one that says something else."""
    in_order = Window.partitionBy("run", "node").orderBy("time_us", "id")

    def step(marks: DataFrame) -> DataFrame:
        return (
            marks.withColumn("before", f.lag("state").over(in_order))
            .where("not (state <=> before)")
            .withColumn("next_us", f.lead("time_us").over(in_order))
            .join(f.broadcast(ends), "run")
            .select(
                "run",
                "node",
                "state",
                f.col("time_us").alias("from_us"),
                f.greatest(f.coalesce("next_us", "last_us"), "time_us").alias("to_us"),
            )
            .transform(ordered("run", "node", "from_us"))
        )

    return step


def absences(trace: Trace) -> DataFrame:
    """When each node was down or stood still, and until when."""
    return trace.once(presences).transform(from_down_to_up)


def from_down_to_up(frame: DataFrame) -> DataFrame:
    """Of marks in a row that say the same, the first counts; no end: it never came back."""
    in_order = Window.partitionBy("run", "node").orderBy("time_us", "id")
    # Backwards: a window without an end costs Spark the square of what is in it.
    in_reverse = Window.partitionBy("run", "node").orderBy(f.desc("time_us"), f.desc("id"))
    later = in_reverse.rowsBetween(Window.unboundedPreceding, -1)
    is_up = f.col("state") == "up"
    return (
        frame.withColumn("before", f.lag("state").over(in_order))
        .withColumn("up_us", f.min(f.when(is_up, f.col("time_us"))).over(later))
        .where((f.col("state") != "up") & ~f.col("before").eqNullSafe(f.col("state")))
        .select("run", "node", "state", f.col("time_us").alias("down_us"), "up_us", "id")
    )


class Life(NamedTuple):
    """When a node left, and when it was gone."""

    left_us: int
    gone_us: int


def run_ends(trace: Trace) -> dict[str, int]:
    """When each run ended: where the goodbyes began with which nothing was left, or its last event.

    What happens while a whole cluster stops is no outage.
    """
    stamp = ("run", "time_us", "node")
    left = trace.events(BrokerStateChanged).where(f.col("state") == LEAVING).select(*stamp)
    marks = [
        (trace.events(NodeStarted).select(*stamp), "started"),
        (left, "left"),
        (trace.events(NodeStopped).select(*stamp), "gone"),
    ]
    rows = united([frame.withColumn("what", f.lit(what)) for frame, what in marks])
    ordered = rows.orderBy(f.desc("time_us")).limit(MOST_LIVES).collect()
    ends = {run: end for run, (_, end) in trace.spans.items()}
    for run, last_us in ends.items():
        mine = [(row.time_us, row.node, row.what) for row in ordered if row.run == run]
        ends[run] = min(last_us, goodbye_of(mine[::-1]) or last_us)
    return ends


def goodbye_of(marks: Iterable[tuple[int, str, str]]) -> int | None:
    """When the last nodes began to leave, if all left in the end."""
    alive: dict[str, int | None] = {}  # when each that is up began to leave
    goodbyes: list[Life] = []
    for time_us, node, what in marks:
        if what == "started":
            alive[node] = None
            goodbyes.clear()
        elif what == "left":
            alive[node] = time_us
        elif node in alive:
            left_us = alive.pop(node)
            goodbyes.append(Life(time_us if left_us is None else left_us, time_us))
    if any(left is None for left in alive.values()):
        return None
    goodbyes += [Life(left, left) for left in alive.values() if left is not None]
    began: int | None = None
    for life in sorted(goodbyes, reverse=True):
        if began is not None and began - life.gone_us > GOODBYES_US:
            break
        began = life.left_us
    return began


def by_run(trace: Trace, values: dict[str, int], name: str) -> DataFrame:
    """A number for each run, to be joined."""
    return trace.session.createDataFrame(sorted(values.items()), f"run string, {name} long")


def merged(keys: tuple[str, ...]) -> Step:
    """Windows `from_us` to `to_us` that touch or overlap become one; the first says why."""
    in_order = Window.partitionBy(*keys).orderBy("from_us", "to_us")
    before = in_order.rowsBetween(Window.unboundedPreceding, -1)

    def step(frame: DataFrame) -> DataFrame:
        others = [name for name in frame.columns if name not in {*keys, "from_us", "to_us"}]
        reached = f.max("to_us").over(before)
        begins: Column = f.coalesce(f.col("from_us") > reached, f.lit(True))
        return (
            frame.withColumn("begins", begins.cast("int"))
            .withColumn("island", f.sum("begins").over(in_order))
            .groupBy(*keys, "island")
            .agg(
                f.min("from_us").alias("from_us"),
                f.max("to_us").alias("to_us"),
                *(f.min_by(name, "from_us").alias(name) for name in others),
            )
            .drop("island")
        )

    return step
