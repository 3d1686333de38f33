"""What happened besides messages, whatever it was, in one frame.

Rule: a fact has its stamp, the name of its kind, and all its own columns as one JSON text, so that
whoever shows facts need not know what kinds there are.
"""

from functools import reduce
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from spark.source import read_events
from wire.trace import COLUMNS, EVENTS, MessageHandled, Stamp, TraceEvent

STAMP: Final = Stamp.__struct_fields__
# One for each of what others say already: a call is a message at both of its ends, and a record or
# a high watermark moves with every batch.
LEFT_OUT: Final = frozenset(
    {"MessageHandled", "CallFinished", "RecordsAppended", "HighWatermarkMoved"}
)
FACTS: Final = tuple(event for event in EVENTS if event.__name__ not in LEFT_OUT)


def read_messages(session: SparkSession, folder: str, run: str) -> DataFrame:
    """The handled messages of one run."""
    return read_events(session, folder, MessageHandled).where(F.col("run") == run)


def read_facts(session: SparkSession, folder: str, run: str) -> DataFrame:
    """All else that happened in one run."""
    frames = [_facts_of(session, folder, event).where(F.col("run") == run) for event in FACTS]
    return reduce(DataFrame.unionByName, frames).drop("run")


def latest_run(session: SparkSession, folder: str) -> str:
    """The run that began last."""
    starts = read_events(session, folder, MessageHandled).groupBy("run").agg(F.min("time_us"))
    first = starts.orderBy(F.col("min(time_us)").desc(), F.col("run").desc()).first()
    return "" if first is None else str(first["run"])


def _facts_of(session: SparkSession, folder: str, event: type[TraceEvent]) -> DataFrame:
    own = [name for name in COLUMNS[event.__name__] if name not in STAMP]
    said = F.to_json(F.struct(*own)) if own else F.lit("{}")
    frame = read_events(session, folder, event)
    return frame.select(*STAMP, "run", F.lit(event.__name__).alias("kind"), said.alias("said"))
