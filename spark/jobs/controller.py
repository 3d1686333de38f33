"""The controller: its epochs, the events it handled in them, and its failovers step by step.

Rule: a reign lasts until it is resigned, until its broker is gone, until the next one begins or
until the run is over, whatever comes first.
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from spark.jobs.shared import absences, by_run, control_messages, run_ends
from spark.trace import Trace
from spark.transforms import Step, nearest, ordered
from wire.trace import (
    ControllerElected,
    ControllerResigned,
    FailoverStep,
    LeaderElected,
    ReplicaLeftIsr,
)


def epochs(trace: Trace) -> DataFrame:
    """A row a reign."""
    resigned = (
        trace.events(ControllerResigned)
        .groupBy("run", "controller_epoch")
        .agg(f.min("time_us").alias("resigned_us"), f.min_by("reason", "time_us").alias("reason"))
    )
    steps = (
        trace.events(FailoverStep)
        .groupBy("run", "controller_epoch")
        .agg(f.sum("took_us").alias("failover_us"), f.count("*").alias("failover_steps"))
    )
    ends = by_run(trace, trace.value(run_ends), "end_us")
    return (
        trace.events(ControllerElected)
        .transform(with_ends(resigned, trace.once(absences), ends))
        .transform(trace.recent("ended_us"))
        .join(steps, ["run", "controller_epoch"], "left")
        .transform(ordered("run", "controller_epoch", "elected_us"))
    )


def with_ends(resigned: DataFrame, absences: DataFrame, ends: DataFrame) -> Step:
    """When each reign ended, and how."""
    in_order = Window.partitionBy("run").orderBy("controller_epoch", "time_us")
    away = absences.select("run", "node", f.col("down_us").alias("time_us"), "down_us", "state")

    def step(elected: DataFrame) -> DataFrame:
        named = (
            elected.withColumn("next_us", f.lead("time_us").over(in_order))
            .transform(nearest(away, ("run", "node"), "time_us", "gone", later=True))
            .join(f.broadcast(resigned), ["run", "controller_epoch"], "left")
            .join(f.broadcast(ends), "run")
            .where("time_us <= end_us")
        )
        choices = f.array(
            f.struct(f.col("resigned_us").alias("at"), f.col("reason").alias("how")),
            f.struct(
                f.col("gone.down_us").alias("at"),
                f.when(f.col("gone.state") == "paused", "its broker stood still")
                .otherwise("its broker went down")
                .alias("how"),
            ),
            f.struct(
                f.when(f.col("next_us").isNotNull(), f.greatest("next_us", "time_us")).alias("at"),
                f.lit("the next one was elected").alias("how"),
            ),
            f.struct(
                f.greatest("end_us", "time_us").alias("at"), f.lit("the run ended").alias("how")
            ),
        )
        first = f.array_min(f.filter(choices, lambda each: each["at"].isNotNull()))
        return named.withColumn("end", first).select(
            "run",
            "controller_epoch",
            "broker",
            "node",
            "id",
            "cause",
            f.col("time_us").alias("elected_us"),
            f.col("end.at").alias("ended_us"),
            f.col("end.how").alias("ended_by"),
            f.greatest(f.col("end.at") - f.col("time_us"), f.lit(0)).alias("life_us"),
        )

    return step


def events(trace: Trace) -> DataFrame:
    """A row for each event that a controller handled: its wait, its work, and what came of it."""
    return (
        trace.once(control_messages)
        .where(f.col("actor").endswith("/controller"))
        .transform(with_effects(trace.events(LeaderElected), trace.events(ReplicaLeftIsr)))
        .transform(in_epochs(trace.once(epochs)))
        .transform(ordered("run", "time_us", "id"))
    )


def with_effects(elected: DataFrame, left: DataFrame) -> Step:
    """How many leaders an event elected, and how many replicas it took out of their ISR."""

    def effects(frame: DataFrame, name: str) -> DataFrame:
        counts = frame.groupBy("run", "cause").agg(f.count("*").alias(name))
        return counts.withColumnRenamed("cause", "id")

    def step(messages: DataFrame) -> DataFrame:
        return (
            messages.drop("hour")
            .join(effects(elected, "elections"), ["run", "id"], "left")
            .join(effects(left, "left_isr"), ["run", "id"], "left")
            .na.fill(0, ["elections", "left_isr"])
        )

    return step


def in_epochs(epochs: DataFrame) -> Step:
    """With the epoch that its broker held then, if any.

    The event that won the election is of the epoch, though it began before.
    """
    reigns = epochs.select(
        "run", "node", f.col("elected_us").alias("time_us"), "controller_epoch", "ended_us"
    )
    wins = epochs.select(
        "run", f.col("cause").alias("id"), f.col("controller_epoch").alias("won")
    ).dropDuplicates(["run", "id"])
    held = f.when(f.col("time_us") <= f.col("reign.ended_us"), f.col("reign.controller_epoch"))
    return lambda messages: (
        messages.transform(nearest(reigns, ("run", "node"), "time_us", "reign"))
        .join(f.broadcast(wins), ["run", "id"], "left")
        .withColumn("controller_epoch", f.coalesce("won", held))
        .drop("reign", "won")
    )


def failovers(trace: Trace) -> DataFrame:
    """Each step of taking office, in its order; for the epochs that there is a row of."""
    held = trace.once(epochs).select("run", "controller_epoch").distinct()
    return (
        trace.events(FailoverStep)
        .transform(with_begin)
        .join(f.broadcast(held), ["run", "controller_epoch"], "left_semi")
        .transform(ordered("run", "controller_epoch", "id"))
    )


def with_begin(steps: DataFrame) -> DataFrame:
    """When a step began; its event is left at its end."""
    begun = f.col("time_us") - f.col("took_us")
    return steps.select(
        "run", "controller_epoch", "node", "step", "count", "took_us", "id", "time_us"
    ).withColumn("begun_us", begun)
