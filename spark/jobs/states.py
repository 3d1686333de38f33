"""The two state machines: how often each change happened, and which were refused, and why.

Rule: a state is what the controller called it; the cause of a refused change is the message that
the controller was handling.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from spark.jobs.shared import control_messages
from spark.trace import Trace
from spark.transforms import Step, ordered, united
from wire.trace import PartitionStateChanged, ReplicaStateChanged, TransitionRefused

PARTITION_MACHINE = "partition"
REPLICA_MACHINE = "replica"


def transitions(trace: Trace) -> DataFrame:
    """A row for each pair of states of each machine."""
    return united(
        [
            trace.events(PartitionStateChanged)
            .transform(trace.recent("time_us"))  # it is read from the beginning
            .transform(paired("after"))
            .withColumn("machine", f.lit(PARTITION_MACHINE)),
            trace.events(ReplicaStateChanged)
            .transform(paired("after"))
            .withColumn("machine", f.lit(REPLICA_MACHINE)),
            trace.events(TransitionRefused).transform(paired("wanted", _machine())),
        ]
    ).transform(matrix)


def paired(after: str, *others: Column) -> Step:
    """From one state to another, or refused."""
    is_refused = f.lit(after == "wanted").alias("is_refused")
    return lambda frame: frame.select(
        "run", "before", f.col(after).alias("after"), is_refused, *others
    )


def _machine() -> Column:
    is_partition = f.col("broker") == -1
    return f.when(is_partition, PARTITION_MACHINE).otherwise(REPLICA_MACHINE).alias("machine")


def matrix(pairs: DataFrame) -> DataFrame:
    """Counted."""
    return (
        pairs.groupBy("run", "machine", "before", "after")
        .agg(
            f.count_if(~f.col("is_refused")).alias("changes"),
            f.count_if("is_refused").alias("refused"),
        )
        .transform(ordered("run", "machine", "before", "after"))
    )


def refusals(trace: Trace) -> DataFrame:
    """Refused changes by the message that led to them."""
    return trace.events(TransitionRefused).transform(with_cause(trace.once(control_messages)))


def with_cause(messages: DataFrame) -> Step:
    """What was being handled when a change was refused."""
    handled = messages.select("run", f.col("id").alias("cause"), "message", "actor")

    def step(refused: DataFrame) -> DataFrame:
        return (
            refused.withColumn("machine", _machine())
            .join(handled, ["run", "cause"], "left")
            .groupBy("run", "machine", "before", "wanted", "actor", "message")
            .agg(
                f.count("*").alias("times"),
                f.min("time_us").alias("first_us"),
                f.min_by("topic", "time_us").alias("topic"),
                f.min_by("partition", "time_us").alias("partition"),
                f.min_by("broker", "time_us").alias("broker"),
            )
            .transform(ordered("run", f.desc("times"), "machine", "before", "wanted"))
        )

    return step
