"""A trace as it grows: each part is taken once, and each event of it.

Rule: a part comes with the batch that Spark's checkpoint says, also after a restart. An event is
counted once by its run and id, however many parts it is in: one that was delivered twice, or merged
with others. Of the events of which there are millions only counts are kept, and their ids, on disk;
what is in memory is one batch, and it spills.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any, Final

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import LongType, StringType, StructField, StructType

from spark.hadoop import Hadoop, literal
from spark.jobs.actors import KEYS as MESSAGE_KEYS
from spark.jobs.actors import MEASURES, message_counts
from spark.jobs.budget import TOLD
from spark.jobs.requests import BYTES, LATENCY, call_counts
from spark.jobs.requests import KEYS as CALL_KEYS
from spark.jobs.shared import appended, appended_by_epoch
from spark.kept import Kept
from spark.parts import Part, look_at, part_of
from spark.schema import SPARK_TYPES
from spark.trace import LARGE, Trace
from spark.transforms import Step, counted
from wire.trace import COLUMNS, CallFinished, HighWatermarkMoved, MessageHandled, RecordsAppended

A_BATCH: Final = 2_000  # parts at once
ON_DISK_TOO: Final = StorageLevel.MEMORY_AND_DISK
MOST_RANGES: Final = 64
ORIGIN_BITS: Final = 40  # of an id: which process gave it
LONGEST_SILENCE: Final = "1d"  # so old a part, beside the newest, is not taken up
FACTS: Final = "facts"  # all small tables in one, as wide as they all are
TALLY: Final = "tally"
TAKEN: Final = "taken"
LARGE_NAMES: Final = tuple(event.__name__ for event in LARGE)


def _wide() -> StructType:
    """Every column of every event: no two mean another type by the same name."""
    every = {name: kind for columns in COLUMNS.values() for name, kind in columns.items()}
    return StructType([StructField(name, SPARK_TYPES[kind]) for name, kind in every.items()])


WIDE: Final = _wide()
STAMP: Final = StructType([StructField("id", LongType())])
PARTS: Final = StructType(
    [StructField(name, StringType()) for name in ("file_path", "table", "run", "hour")]
)


def add_counts(keys: Sequence[str], sums: Sequence[str]) -> Step:
    """Counts of several batches as one."""

    def step(frame: DataFrame) -> DataFrame:
        return frame.groupBy(*keys, "measure", "value").agg(
            *(f.sum(each).alias(each) for each in ("times", "total")),
            f.max("longest").alias("longest"),
            *(f.sum(each).alias(each) for each in sums),
        )

    return step


def add_appended(frame: DataFrame) -> DataFrame:
    """What replicas appended, in several batches."""
    least = {name: f.min(name).alias(name) for name in ("id", "first_offset", "first_us")}
    most = {name: f.max(name).alias(name) for name in ("last_offset", "last_us")}
    total = {name: f.sum(name).alias(name) for name in ("batches", "records")}
    return frame.groupBy("run", "node", "topic", "partition", "role", "leader_epoch").agg(
        *(least | most | total).values()
    )


def add_tally(frame: DataFrame) -> DataFrame:
    """How many events there were of each kind, and when."""
    return frame.groupBy("table", "run").agg(
        f.sum("events").alias("events"),
        f.min("first_us").alias("first_us"),
        f.max("last_us").alias("last_us"),
    )


def add_taken(frame: DataFrame) -> DataFrame:
    """How many parts were taken, and their bytes."""
    return frame.agg(f.sum("parts").alias("parts"), f.sum("bytes").alias("bytes"))


# What is kept of large tables: a name, what makes it of fresh events, and what adds two batches.
Made = tuple[str, Step, Step | None]
KEPT: Final[Mapping[str, Sequence[Made]]] = {
    MessageHandled.__name__: (
        ("message_counts", counted(MESSAGE_KEYS, MEASURES), add_counts(MESSAGE_KEYS, ())),
        ("control", lambda frame: frame.where(f.col("actor").contains("/controller")), None),
    ),
    CallFinished.__name__: (
        ("call_counts", counted(CALL_KEYS, LATENCY, BYTES), add_counts(CALL_KEYS, BYTES)),
        ("told", lambda frame: frame.where(f.col("request").isin(*TOLD)), None),
    ),
    RecordsAppended.__name__: (("appended", appended_by_epoch, add_appended),),
    HighWatermarkMoved.__name__: (),
}
# The same tables, by the steps of which the jobs begin.
COUNTED: Final[Mapping[Callable[[Trace], DataFrame], tuple[str, Step]]] = {
    message_counts: ("message_counts", add_counts(MESSAGE_KEYS, ())),
    call_counts: ("call_counts", add_counts(CALL_KEYS, BYTES)),
    appended: ("appended", add_appended),
}


class Follower:
    """Takes what is new of one trace."""

    def __init__(self, session: SparkSession, root: str, folder: str) -> None:
        self._session = session
        self._hadoop = Hadoop(session)
        self._root = root
        self._checkpoint = f"{folder}/checkpoint"
        self.kept = Kept(session, f"{folder}/kept")
        self.desk = f"{folder}/desk"
        self.complaints: list[str] = []

    def take(self) -> None:
        """All that is new, in batches."""
        parts = (
            self._session.readStream.schema(STAMP)
            .option("maxFilesPerTrigger", A_BATCH)
            .option("maxFileAge", LONGEST_SILENCE)
            .parquet(f"{literal(self._root)}/*/run=*/hour=*")
            .select("_metadata.file_path", "_metadata.file_size")
        )
        query = (
            parts.writeStream.foreachBatch(self._take)
            .option("checkpointLocation", self._checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination()
        finally:
            query.stop()

    def _take(self, batch: DataFrame, number: int) -> None:
        """One batch: the same parts under the same number, if it comes again."""
        self._fold(number)
        files = {row[0]: row[1] for row in batch.distinct().collect()}
        whole = self._whole(files)
        small = [path for path, part in whole.items() if part.event not in LARGE_NAMES]
        tallies = [self._take_small(whole, small, number)] if small else []
        for event in LARGE_NAMES:
            paths = [path for path, part in whole.items() if part.event == event]
            if paths:
                tallies.append(self._take_large(event, whole, paths, number))
        if tallies:
            rows = [row for tally in tallies for row in tally]
            schema = "table string, run string, events long, first_us long, last_us long"
            self.kept.put(TALLY, number, self._session.createDataFrame(rows, schema))
        taken = [(len(whole), sum(files[path] for path in whole))]
        of_it = self._session.createDataFrame(taken, "parts long, bytes long")
        self.kept.put(TAKEN, number, of_it)

    def _whole(self, files: Mapping[str, int]) -> dict[str, Part]:
        named = {path: part for path in files if (part := part_of(path))}
        looked = look_at(named.values(), self._hadoop.tail)
        found = {}
        for path, each in zip(named, looked, strict=True):
            if not each.complaint:
                found[path] = each.part
            elif self._hadoop.exists(each.part.path):  # not merged into another meanwhile
                self.complaints.append(f"{each.part.path} is left out: {each.complaint}")
        return found

    def _read(self, schema: StructType, whole: Mapping[str, Part], paths: list[str]) -> DataFrame:
        """Parts, with what their folders say."""
        rows = [(path, part.event, part.run, part.hour) for path in paths if (part := whole[path])]
        folders = self._session.createDataFrame(rows, PARTS)
        frame = self._session.read.schema(schema).parquet(
            *(literal(whole[path].path) for path in paths)
        )
        return (
            frame.select("*", "_metadata.file_path")
            .join(f.broadcast(folders), "file_path")
            .drop("file_path")
            .dropDuplicates(["run", "id"])
        )

    def _take_small(self, whole: Mapping[str, Part], paths: list[str], number: int) -> list[Any]:
        fresh = without(self._read(WIDE, whole, paths), self.kept.before(FACTS, number))
        fresh = fresh.coalesce(1).persist(ON_DISK_TOO)
        self.kept.put(FACTS, number, fresh)
        tally = _tally(fresh)
        fresh.unpersist()
        return tally

    def _take_large(
        self, event: str, whole: Mapping[str, Part], paths: list[str], number: int
    ) -> list[Any]:
        columns = [StructField(name, SPARK_TYPES[kind]) for name, kind in COLUMNS[event].items()]
        frame = self._read(StructType(columns), whole, paths).persist(ON_DISK_TOO)
        seen = self.kept.before(f"ids-{event}", number)
        fresh = frame if seen is None else without(frame, seen.where(_ranges(frame)))
        fresh = fresh.persist(ON_DISK_TOO)
        for name, make, _ in KEPT[event]:
            self.kept.put(name, number, fresh.transform(make))
        tally = _tally(fresh)
        self.kept.put(f"ids-{event}", number, fresh.select("run", "id").sort("id"))
        fresh.unpersist()
        frame.unpersist()
        return tally

    def _fold(self, number: int) -> None:
        """What is behind becomes fewer files, before anything new is written."""
        self.kept.fold(FACTS, number)
        self.kept.fold(TALLY, number, add_tally)
        self.kept.fold(TAKEN, number, add_taken)
        for event in LARGE_NAMES:
            self.kept.fold(f"ids-{event}", number)
            for name, _, merge in KEPT[event]:
                self.kept.fold(name, number, merge)


def without(frame: DataFrame, seen: DataFrame | None) -> DataFrame:
    """Only events that were not seen before."""
    return (
        frame if seen is None else frame.join(seen.select("run", "id"), ["run", "id"], "left_anti")
    )


def _ranges(frame: DataFrame) -> Column:
    """Where ids of these events could be: those of other runs and times need not be read."""
    origin = f.shiftright("id", ORIGIN_BITS)
    spans = frame.groupBy("run", origin).agg(f.min("id"), f.max("id")).limit(MOST_RANGES).collect()
    if len(spans) == MOST_RANGES:
        return f.lit(True)
    each = [(f.col("run") == run) & f.col("id").between(low, high) for run, _, low, high in spans]
    return reduce(or_, each, f.lit(False))


def _tally(fresh: DataFrame) -> list[Any]:
    return (
        fresh.groupBy("table", "run")
        .agg(f.count("*"), f.min("time_us"), f.max("time_us"))
        .collect()
    )
