"""Trace files to DataFrames.

Rule: a table is read with the schema that wire.trace declares, never a guessed one, so an event
that did not happen is an empty table and not an error. A folder that is no trace is an error.
"""

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from spark.schema import schema_of
from wire.trace import COLUMNS, TraceEvent


class NotATrace(Exception):
    """There are no events where events were looked for. The text is one sentence for people."""


def read_events(session: SparkSession, folder: str, event: type[TraceEvent]) -> DataFrame:
    """All that a trace says of one event; `folder` is any path that Hadoop knows."""
    schema = schema_of(event)
    if event.__name__ not in _tables(session, folder):
        return session.createDataFrame([], schema)
    return session.read.schema(schema).parquet(f"{folder.rstrip('/')}/{event.__name__}")


def _tables(session: SparkSession, folder: str) -> set[str]:
    """The events that have a folder here."""
    java: Any = session.sparkContext._jvm  # noqa: SLF001 - Python has no door of its own to Hadoop
    configuration = session.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001
    path = java.org.apache.hadoop.fs.Path(folder)
    files = path.getFileSystem(configuration)
    if not files.exists(path):
        raise NotATrace(f"there is no trace in {folder}: it does not exist")
    if not files.getFileStatus(path).isDirectory():
        raise NotATrace(f"there is no trace in {folder}: it is not a folder")
    names = {each.getPath().getName() for each in files.listStatus(path)}
    tables = names & set(COLUMNS)
    if not tables:
        raise NotATrace(f"there is no trace in {folder}: it has no folder named for an event")
    return tables
