"""Clocks: whether the time that events were stamped with went on as time does.

Rule: a process numbers its events in order, so a later number with an earlier time is a clock that
was set back. One that was set forward looks like a silence, and may be one.
"""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from spark.trace import LASTING, Trace
from spark.transforms import ordered, united

ORIGIN_BITS: Final = 40  # of an id: below, the number; above, which process
BACK_US: Final = 1_000_000
SILENCE_US: Final = 600_000_000


def clocks(trace: Trace) -> DataFrame:
    """Where a clock was set back, by events that are few."""
    stamps = [trace.events(event).select("run", "id", "time_us", "node") for event in LASTING]
    return united(stamps).transform(set_back)


def set_back(stamps: DataFrame) -> DataFrame:
    """A row for each time that an event is earlier than one before it, by more than a second."""
    in_order = Window.partitionBy("run", "origin").orderBy("id")
    return (
        stamps.withColumn("origin", f.shiftright("id", ORIGIN_BITS))
        .withColumn("before_us", f.lag("time_us").over(in_order))
        .where(f.col("before_us") - f.col("time_us") > BACK_US)
        .select("run", "node", "id", "before_us", "time_us")
        .transform(ordered("run", "id"))
    )


def silences(slices: DataFrame) -> DataFrame:
    """Where nobody handled a message for long, from slices of time in which somebody did."""
    in_order = Window.partitionBy("run").orderBy("bin_us")
    return (
        slices.select("run", "bin_us")
        .distinct()
        .withColumn("next_us", f.lead("bin_us").over(in_order))
        .where(f.col("next_us") - f.col("bin_us") > SILENCE_US)
        .orderBy("run", "bin_us")
    )
