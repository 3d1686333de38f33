"""The jobs of spark/pipeline.py once more, in another engine and in other words.

Rule: the queries in tests/spark/queries say what the jobs' rules say, and know nothing of how the
jobs do it. A later query may use an earlier one's table.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import duckdb

from spark.trace import WIDTHS_US
from wire.trace import COLUMNS

QUERIES = Path(__file__).parents[1] / "spark/queries"
SQL_TYPES = {int: "bigint", str: "varchar", bool: "boolean", float: "double"}

Table = tuple[dict[str, str], list[tuple[Any, ...]]]  # types by column, and rows


def queried(trace: Path, names: Iterable[str]) -> duckdb.DuckDBPyConnection:
    """All tables, by the names of the jobs."""
    engine = duckdb.connect()
    engine.execute("set threads = 2")
    for event, columns in COLUMNS.items():
        engine.execute(f"create view {event} as {source(trace / event, columns)}")
    engine.execute("create table widths (width_us bigint)")
    engine.executemany("insert into widths values (?)", [[each] for each in WIDTHS_US])
    engine.execute((QUERIES / "shared.sql").read_text())
    for name in names:
        engine.execute(f"create table {name} as {(QUERIES / f'{name}.sql').read_text()}")
    return engine


def source(folder: Path, columns: dict[str, type]) -> str:
    """The parts of an event; none, if it did not happen."""
    if folder.is_dir():
        return (
            f"select * from read_parquet('{folder}/*/*/*.parquet', hive_partitioning = true,"
            " hive_types = {'run': varchar, 'hour': varchar})"
        )
    nulls = [f"null::{SQL_TYPES[kind]} as {name}" for name, kind in columns.items()]
    return f"select {', '.join(nulls)}, null::varchar as run, null::varchar as hour where false"


def table_of(engine: duckdb.DuckDBPyConnection, query: str) -> Table:
    """Types by column, and rows; columns by their names, rows in order."""
    found = engine.sql(query)
    types = {name: str(kind) for name, kind in zip(found.columns, found.types, strict=True)}
    names = sorted(types)
    rows = found.project(", ".join(f'"{name}"' for name in names)).fetchall()
    return {name: types[name] for name in names}, sorted(rows, key=repr)
