"""Trace events as StructTypes.

Rule: the columns are those of wire.trace.COLUMNS, which the recorder wrote by; after them come the
two that the names of folders say.
"""

from typing import Final

from pyspark.sql.types import (
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from wire.trace import COLUMNS, TraceEvent

SPARK_TYPES: Final[dict[type, DataType]] = {
    int: LongType(),
    str: StringType(),
    bool: BooleanType(),
    float: DoubleType(),
}
PARTITIONS: Final = ("run", "hour")  # hour: UTC, as 2020-09-13T12


def schema_of(event: type[TraceEvent]) -> StructType:
    """An event's table as Spark reads it. To Spark, what comes from files may always be null."""
    fields = [
        StructField(name, SPARK_TYPES[kind]) for name, kind in COLUMNS[event.__name__].items()
    ]
    return StructType(fields + [StructField(name, StringType()) for name in PARTITIONS])
