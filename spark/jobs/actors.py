"""Actors: who handled what, how long it waited before, and how long it took.

Rule: messages are counted before anything is made of them; what an actor is, is worked out from
thousands of rows and not from millions.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from spark.trace import Trace
from spark.transforms import Step, counted, kind_of, ordered, spread, with_bin
from wire.trace import MessageHandled

KEYS = ("run", "node", "actor", "message")
MEASURES = ("queue_us", "handle_us")


def message_counts(trace: Trace) -> DataFrame:
    """Every actor's messages by their waiting and handling times: the ground of both tables."""
    return trace.events(MessageHandled).transform(counted(KEYS, MEASURES))


def actors(trace: Trace) -> DataFrame:
    """By what the actors are, and by message."""
    return trace.once(message_counts).transform(by_kind)


def by_kind(counts: DataFrame) -> DataFrame:
    """Percentiles by class of actor and type of message, the busiest first."""
    return (
        counts.withColumn("kind", kind_of("actor"))
        .transform(spread(("run", "kind", "message"), MEASURES, "messages"))
        .transform(ordered("run", f.desc("handle_total_us"), "kind", "message"))
    )


def busiest(trace: Trace) -> DataFrame:
    """By actor."""
    return trace.once(message_counts).transform(by_actor)


def by_actor(counts: DataFrame) -> DataFrame:
    """Percentiles by actor, the busiest first."""
    busy = counts.transform(spread(("run", "node", "actor"), MEASURES, "messages"))
    return busy.transform(ordered("run", f.desc("handle_total_us"), "actor"))


def mailboxes(trace: Trace) -> DataFrame:
    """How full inboxes were, over time."""
    return (
        trace.events(MessageHandled)
        .transform(with_bin(trace.bin_us))
        .transform(depths(trace.bin_us))
    )


def depths(width_us: int) -> Step:
    """By Little's law, the mean number of messages that wait is their waiting over the time."""

    def step(frame: DataFrame) -> DataFrame:
        return (
            frame.groupBy("run", "actor", "bin_us")
            .agg(
                f.count("*").alias("messages"),
                (f.sum("queue_us") / width_us).alias("mean_depth"),
                f.max("queue_us").alias("longest_wait_us"),
                (f.sum("handle_us") / width_us).alias("busy"),
            )
            .transform(ordered("run", "actor", "bin_us"))
        )

    return step
