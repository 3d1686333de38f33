"""The audit: promises of the control plane that a trace alone can show to be broken.

Rule: a finding names the event that broke the promise, and says what it should have been. What a
trace cannot know (the beginning of a run that is not in it, a topic's earlier life) is no finding.
"""

from collections.abc import Callable, Mapping
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from spark.jobs.shared import appended
from spark.trace import Trace
from spark.transforms import PARTITION, Step, ordered, united
from wire.trace import (
    BrokerRegistered,
    ControllerElected,
    HighWatermarkMoved,
    IsrChanged,
    LeaderElected,
    PartitionStateChanged,
    ReplicaLeftIsr,
    ReplicaRoleChanged,
    ReplicaStateChanged,
)

NEW_TOPIC: Final = "NewPartition"
LEGAL_PARTITION: Final[Mapping[str, tuple[str, ...]]] = {  # from what, by what comes after
    "NewPartition": ("NonExistentPartition",),
    "OnlinePartition": ("NewPartition", "OnlinePartition", "OfflinePartition"),
    "OfflinePartition": ("NewPartition", "OnlinePartition", "OfflinePartition"),
    "NonExistentPartition": ("OfflinePartition",),
}
LEGAL_REPLICA: Final[Mapping[str, tuple[str, ...]]] = {
    "NewReplica": ("NonExistentReplica",),
    "OnlineReplica": (
        "NewReplica",
        "OnlineReplica",
        "OfflineReplica",
        "ReplicaDeletionIneligible",
    ),
    "OfflineReplica": (
        "NewReplica",
        "OnlineReplica",
        "OfflineReplica",
        "ReplicaDeletionIneligible",
    ),
    "ReplicaDeletionStarted": ("OfflineReplica",),
    "ReplicaDeletionSuccessful": ("ReplicaDeletionStarted",),
    "ReplicaDeletionIneligible": ("OfflineReplica", "ReplicaDeletionStarted"),
    "NonExistentReplica": ("ReplicaDeletionSuccessful",),
}
STAMP: Final = ("run", "id", "time_us", "node")

Check = Callable[[Trace], DataFrame]


def audit(trace: Trace) -> DataFrame:
    """All findings."""
    findings = united([check(trace) for check in CHECKS]).transform(trace.recent("time_us"))
    return findings.transform(ordered("run", "invariant", "time_us", "id"))


def found(invariant: str, detail: Column, *where: str) -> Step:
    """A row of the table from an event that should not be."""
    return lambda frame: frame.select(
        *STAMP, *where, f.lit(invariant).alias("invariant"), detail.alias("detail")
    )


# --- controllers and brokers ----------------------------------------------------------------------


def one_controller_an_epoch(trace: Trace) -> DataFrame:
    """I-1: no epoch is won twice."""
    return trace.events(ControllerElected).transform(epoch_won_twice)


def epoch_won_twice(elected: DataFrame) -> DataFrame:
    """Every winner but the first."""
    in_order = Window.partitionBy("run", "controller_epoch").orderBy("time_us", "id")
    said = f.format_string(
        "broker %d won controller epoch %d, which broker %d had won",
        "broker",
        "controller_epoch",
        f.col("first"),
    )
    return (
        elected.withColumn("first", f.first("broker").over(in_order))
        .withColumn("which", f.row_number().over(in_order))
        .where("which > 1")
        .transform(found("one controller an epoch", said))
    )


def controller_epochs_rise(trace: Trace) -> DataFrame:
    """Who is elected later has the higher epoch."""
    return trace.events(ControllerElected).transform(
        falls(("run",), "controller_epoch", "controller epochs rise", "controller epoch")
    )


def broker_epochs_rise(trace: Trace) -> DataFrame:
    """A broker's next life has a higher epoch."""
    return trace.events(BrokerRegistered).transform(
        falls(("run", "broker"), "broker_epoch", "broker epochs rise", "broker epoch")
    )


def falls(keys: tuple[str, ...], column: str, invariant: str, what: str, *where: str) -> Step:
    """Values that are lower than an earlier one, in time."""
    before = (
        Window.partitionBy(*keys)
        .orderBy("time_us", "id")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    said = f.format_string(f"{what} %d came after {what} %d", f.col(column), f.col("most"))
    return lambda frame: (
        frame.withColumn("most", f.max(column).over(before))
        .where(f.col(column) < f.col("most"))
        .transform(found(invariant, said, *where))
    )


# --- leaders and ISRs -----------------------------------------------------------------------------


def leader_epochs_never_fall(trace: Trace) -> DataFrame:
    """I-4: in a topic's life."""
    return trace.once(decisions).transform(
        falls(
            (*PARTITION, "life"),
            "leader_epoch",
            "leader epochs never fall",
            "leader epoch",
            "topic",
            "partition",
        )
    )


def decisions(trace: Trace) -> DataFrame:
    """What was written of partitions, each in the life of its topic."""
    columns = (*STAMP, "topic", "partition", "leader_epoch", "isr")
    elected = trace.events(LeaderElected).select(
        *columns, "leader", "replicas", "reason", "is_unclean"
    )
    left = trace.events(ReplicaLeftIsr).select(*columns, "leader")
    changed = trace.events(IsrChanged).select(*columns)
    return united([elected, left, changed]).transform(with_life)


def with_life(frame: DataFrame) -> DataFrame:
    """A topic that is made anew begins with leader epoch 0 again."""
    in_order = Window.partitionBy(*PARTITION).orderBy("time_us", "id")
    is_new = f.coalesce((f.col("reason") == NEW_TOPIC).cast("int"), f.lit(0))
    return frame.withColumn("life", f.sum(is_new).over(in_order))


def isr_within_replicas(trace: Trace) -> DataFrame:
    """I-5: nobody is in sync who holds no replica, and the leader is."""
    return trace.once(decisions).transform(isr_outside)


def isr_outside(decisions: DataFrame) -> DataFrame:
    """Elections whose ISR or leader is not where it should be."""
    isr, replicas = f.split("isr", ","), f.split("replicas", ",")
    strangers = f.array_except(isr, replicas)
    leader = f.col("leader").cast("string")
    is_known = f.coalesce(f.col("replicas") != "", f.lit(False)) & (f.col("isr") != "")
    has_strangers = is_known & (f.size(strangers) > 0)
    said = f.when(
        has_strangers,
        f.format_string("in sync are %s, of replicas %s", f.col("isr"), f.col("replicas")),
    ).otherwise(f.format_string("leader %s is not in the ISR %s", leader, f.col("isr")))
    is_led = f.coalesce(f.col("leader") >= 0, f.lit(False))
    return decisions.where(has_strangers | (is_led & ~f.array_contains(isr, leader))).transform(
        found("the ISR is within the replicas", said, "topic", "partition")
    )


def one_leader_an_epoch(trace: Trace) -> DataFrame:
    """I-2: two brokers never lead, nor append as leaders, in one epoch of a topic's life."""
    births = trace.events(LeaderElected).where(f.col("reason") == NEW_TOPIC)
    columns = (*STAMP, "topic", "partition", "leader_epoch")
    roles = trace.events(ReplicaRoleChanged).where("role = 'leader'").select(*columns)
    wrote = (
        trace.once(appended)
        .where("role = 'leader'")
        .select("run", "id", f.col("first_us").alias("time_us"), *columns[3:])
    )
    born = births.select(*columns, f.lit(NEW_TOPIC).alias("reason"))
    return united([roles, wrote, born]).transform(with_life).transform(led_by_two)


def led_by_two(leaders: DataFrame) -> DataFrame:
    """Whoever led in an epoch after somebody else had."""
    in_order = Window.partitionBy(*PARTITION, "life", "leader_epoch").orderBy("time_us", "id")
    said = f.format_string(
        "%s led in leader epoch %d, in which %s had led", "node", "leader_epoch", "first"
    )
    return (
        leaders.where("reason is null")
        .withColumn("first", f.first("node").over(in_order))
        .where("node != first")
        .transform(found("one leader an epoch", said, "topic", "partition"))
    )


def high_watermarks_never_fall(trace: Trace) -> DataFrame:
    """I-18: a leader's high watermark, as long as it leads in one epoch."""
    return trace.events(HighWatermarkMoved).where("role = 'leader'").transform(fallen)


def fallen(moves: DataFrame) -> DataFrame:
    """By ids, which one process gives in order, so that clocks do not matter."""
    keys = ("run", "node", "topic", "partition", "leader_epoch")
    in_order = Window.partitionBy(*keys).orderBy("id")
    said = f.format_string(
        "the high watermark fell from %d to %d in leader epoch %d",
        f.col("before"),
        f.col("high_watermark"),
        f.col("leader_epoch"),
    )
    return (
        moves.select(*keys, "id", "time_us", "high_watermark")
        .withColumn("before", f.lag("high_watermark").over(in_order))
        .where("high_watermark < before")
        .transform(found("high watermarks never fall", said, "topic", "partition"))
    )


# --- states ---------------------------------------------------------------------------------------


def changes_are_legal(trace: Trace) -> DataFrame:
    """I-13: both state machines move along their tables, but for a controller that takes office."""
    return united(
        [
            trace.events(PartitionStateChanged).transform(illegal(LEGAL_PARTITION, "partition")),
            trace.events(ReplicaStateChanged).transform(illegal(LEGAL_REPLICA, "replica")),
        ]
    )


def illegal(legal: Mapping[str, tuple[str, ...]], machine: str) -> Step:
    """Changes that are no row; a new controller starts from what it reads, out of nothing."""
    pairs = [f"{before}>{after}" for after, each in legal.items() for before in each]
    pair = f.concat("before", f.lit(">"), "after")
    starts = f.col("before").startswith("NonExistent")
    said = f.format_string(f"a {machine} went from %s to %s", "before", "after")
    return lambda frame: frame.where(~pair.isin(*pairs) & ~starts).transform(
        found("states change by their tables", said, "topic", "partition")
    )


CHECKS: Final[tuple[Check, ...]] = (
    one_controller_an_epoch,
    controller_epochs_rise,
    broker_epochs_rise,
    leader_epochs_never_fall,
    isr_within_replicas,
    one_leader_an_epoch,
    high_watermarks_never_fall,
    changes_are_legal,
)
