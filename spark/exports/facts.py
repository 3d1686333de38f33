"""What happened besides messages, whatever it was, in one frame.

Rule: a fact has its stamp, the name of its kind, and all its own columns as one JSON text, so that
whoever shows facts need not know what kinds there are.
"""

from functools import reduce
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from spark.trace import Trace
from wire.trace import COLUMNS, EVENTS, MessageHandled, Stamp, TraceEvent

STAMP: Final = Stamp.__struct_fields__
# A call is a message at both of its ends, and a record or a high watermark moves with every batch.
LEFT_OUT: Final = frozenset(
    {"MessageHandled", "CallFinished", "RecordsAppended", "HighWatermarkMoved"}
)
FACTS: Final = tuple(event for event in EVENTS if event.__name__ not in LEFT_OUT)
SCHEMA: Final = "id long, time_us long, node string, cause long, kind string, said string"


def messages_of(trace: Trace, run: str) -> DataFrame:
    """The handled messages of one run."""
    return trace.events(MessageHandled).where(f.col("run") == run)


def facts_of(trace: Trace, run: str) -> DataFrame:
    """All else that happened in one run."""
    frames = [_facts(trace, event, run) for event in FACTS if trace.has(event)]
    return reduce(DataFrame.unionByName, frames, trace.session.createDataFrame([], SCHEMA))


def latest_run(trace: Trace) -> str:
    """The run that began last."""
    return max(trace.spans, key=lambda run: (trace.spans[run][0], run))


def _facts(trace: Trace, event: type[TraceEvent], run: str) -> DataFrame:
    own = [name for name in COLUMNS[event.__name__] if name not in STAMP]
    said = f.to_json(f.struct(*own)) if own else f.lit("{}")
    frame = trace.events(event).where(f.col("run") == run)
    return frame.select(*STAMP, f.lit(event.__name__).alias("kind"), said.alias("said"))
