"""Steps that several jobs take.

Rule: a step is a pure DataFrame -> DataFrame; what it is told first, it is told by partial or by a
closure. Durations are microseconds and never negative: a clock may have jumped.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

Step = Callable[[DataFrame], DataFrame]

PARTITION: Final = ("run", "topic", "partition")
PERCENTILES: Final = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
EXACT_BITS: Final = 9  # values below 1,024 are kept as they are, others to a part in 512


def united(frames: Iterable[DataFrame]) -> DataFrame:
    """One below the other; what one lacks is null there."""
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)


def ordered(*columns: str | Column) -> Step:
    """The rows of a table, in their order, in one part.

    To sort what is in many parts, Spark would do all that comes before twice: once to find bounds.
    """
    return lambda frame: frame.repartition(1).sortWithinPartitions(*columns)


def nearest(
    marks: DataFrame,
    keys: Sequence[str],
    at: str,
    says: str,
    *,
    later: bool = False,
    inclusive: bool = True,
) -> Step:
    """With what the last mark says that came before a row, or with it; or the first mark after it.

    Marks have the keys, the time under the name `at`, and what they say, which becomes a struct.
    All go by in the order of time, once: no row meets every mark, however many there are.
    """
    told = marks.select(
        *keys,
        at,
        f.lit(False).alias("is_row"),
        f.struct(*(each for each in marks.columns if each not in {*keys, at})).alias(says),
    )
    time = f.desc(at) if later else f.asc(at)
    first = f.asc("is_row") if inclusive else f.desc("is_row")  # of those at one moment
    so_far = (
        Window.partitionBy(*keys)
        .orderBy(time, first)
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )

    def step(frame: DataFrame) -> DataFrame:
        return (
            united([frame.withColumn("is_row", f.lit(True)), told])
            .withColumn(says, f.last(says, ignorenulls=True).over(so_far))
            .where("is_row")
            .drop("is_row")
        )

    return step


def rounded(value: str) -> Column:
    """A duration with as many digits as matter, so that there are few different ones.

    That makes percentiles of millions of values those of a few thousand counts.
    """
    shift = f"int(floor(log2({value}))) - {EXACT_BITS}"
    return f.expr(
        f"if({value} < {2 << EXACT_BITS}, {value},"
        f" shiftleft(shiftright({value}, {shift}), {shift}))"
    )


def percentiles(value: Column, weight: Column, name: str) -> list[Column]:
    """p50, p95, p99 of weighted values; microseconds as the name says, cut to whole ones.

    What lies between two values is reckoned in binary fractions: 328,788 may be a little less.
    """
    found = f.percentile(value, list(PERCENTILES.values()), weight)
    return [
        f.round(found[at], 3).cast("long").alias(f"{name}_{of}_us")
        for at, of in enumerate(PERCENTILES)
    ]


def counted(keys: Sequence[str], measures: Sequence[str], sums: Sequence[str] = ()) -> Step:
    """How often each (rounded) value of each measure occurs: `measure`, `value`, `times`."""
    pairs = ", ".join(f"'{each}', {each}" for each in measures)

    def step(frame: DataFrame) -> DataFrame:
        stacked = f.expr(f"stack({len(measures)}, {pairs}) as (measure, exact)")
        return (
            frame.select(*keys, *sums, stacked)
            .withColumn("value", rounded("exact"))
            .groupBy(*keys, "measure", "value")
            .agg(
                f.count("*").alias("times"),
                f.sum("exact").alias("total"),
                f.max("exact").alias("longest"),
                *(f.sum(each).alias(each) for each in sums),
            )
        )

    return step


def spread(
    keys: Sequence[str], measures: Sequence[str], count: str, sums: Sequence[str] = ()
) -> Step:
    """From counted values to a row by keys: the count, and each measure's percentiles and most."""
    is_first = f.col("measure") == measures[0]

    def step(frame: DataFrame) -> DataFrame:
        columns = [
            f.sum(f.when(is_first, f.col(column))).alias(name)
            for column, name in [("times", count), *zip(sums, sums, strict=True)]
        ]
        for measure in measures:
            is_it = f.col("measure") == measure
            name = measure.removesuffix("_us")
            columns += percentiles(f.when(is_it, f.col("value")), f.col("times"), name)
            columns.append(f.max(f.when(is_it, f.col("longest"))).alias(f"{name}_max_us"))
            columns.append(f.sum(f.when(is_it, f.col("total"))).alias(f"{name}_total_us"))
        return frame.groupBy(*keys).agg(*columns)

    return step


def bin_of(time: str, width_us: int) -> Column:
    """The slice of time that a moment is in, by the slice's start."""
    return f.col(time) - f.pmod(f.col(time), f.lit(width_us))


def with_bin(width_us: int) -> Step:
    """The slice of time that an event is in."""
    return lambda frame: frame.withColumn("bin_us", bin_of("time_us", width_us))


def size_of(ids: str) -> Column:
    """How many are in a list of ids."""
    return f.when(f.col(ids) == "", 0).otherwise(f.size(f.split(ids, ",")))


def broker_of(node: str) -> Column:
    """The number in a node's name, or -1: not every node is a broker."""
    number = f.regexp_extract(node, r"^broker-(\d{1,9})$", 1)
    return f.when(number == "", -1).otherwise(number.cast("long"))


def kind_of(actor: str) -> Column:
    """What an actor is, without who and which: broker-1/controller/channel-2 is one of many."""
    below = f.regexp_replace(actor, r"^[^/]*/", "")
    return f.regexp_replace(below, r"-\d+", "-N")


def with_next(keys: Sequence[str], columns: Sequence[str], order: Sequence[str]) -> Step:
    """For each row, some columns of the one that comes after it, as `next_<column>`."""
    window = Window.partitionBy(*keys).orderBy(*order)

    def step(frame: DataFrame) -> DataFrame:
        for column in columns:
            frame = frame.withColumn(f"next_{column}", f.lead(column).over(window))
        return frame

    return step


def lasting(start: str, end: str) -> Column:
    """From one time to another."""
    return f.greatest(f.col(end) - f.col(start), f.lit(0))
