"""A large trace made from a small one: the same run again and again, each time later.

Rule: every copy is as consistent as the original. Ids and causes are shifted together, times go on
where the copy before has ended, and whatever may only rise (epochs, offsets, versions) goes on
from the highest that was reached. What stands for "none" stays.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from runtime.tables import by_hour
from runtime.tracing import ORIGIN_BITS
from wire.trace import COLUMNS

PATTERN: Final = "*/run=*/hour=*/part-*.parquet"
IDS: Final = ("id", "cause")
TIME: Final = "time_us"
GAP_US: Final = 1_000_000  # between two copies
# Columns that rise together: the same thing under several names.
RISING: Final[tuple[frozenset[str], ...]] = (
    frozenset({"controller_epoch", "epoch_version"}),
    frozenset({"leader_epoch"}),
    frozenset({"partition_epoch"}),
    frozenset({"broker_epoch"}),
    frozenset({"first_offset", "last_offset", "high_watermark", "log_end_offset", "offset"}),
    frozenset({"session"}),
    frozenset({"number"}),
)
FAMILY_OF: Final = {name: at for at, names in enumerate(RISING) for name in names}
MOST_SMALL: Final = 5_000_000  # events that are held in memory
PART_ROWS: Final = 250_000  # of the largest table, in one file
LOW: Final = 2**ORIGIN_BITS - 1  # an id without its origin
ZERO_IS_NONE: Final = frozenset({"number", "session"})


class CannotGrow(ValueError):
    """There is nothing to make more of, or no room for it. The text is one sentence."""


class Span(NamedTuple):
    """How far one copy reaches."""

    events: int
    ids: int
    us: int
    rising: tuple[int, ...]  # a number for each of RISING


class Piece(NamedTuple):
    """All that one process of one run has recorded of one event."""

    event: str
    run: str
    origin: str
    table: pa.Table


def pieces_of(folder: Path) -> list[Piece]:
    """All of a trace, read."""
    parts: dict[tuple[str, str, str], list[pa.Table]] = {}
    events = 0
    for path in sorted(folder.glob(PATTERN)):
        event, run = path.parts[-4], path.parts[-3].removeprefix("run=")
        if event in COLUMNS:
            origin = path.stem.removeprefix("part-").rpartition("-")[0]
            table = pq.ParquetFile(path).read()
            parts.setdefault((event, run, origin), []).append(table)
            events += table.num_rows
            if events > MOST_SMALL:
                raise CannotGrow(
                    f"{folder} is no small trace: it has more than {MOST_SMALL} events"
                )
    if not events:
        raise CannotGrow(f"there is no trace in {folder}")
    return [Piece(*key, pa.concat_tables(tables)) for key, tables in parts.items()]


def span_of(pieces: list[Piece]) -> Span:
    """Look through all of it once."""
    ids = 0
    first_us, last_us = 2**63, 0
    rising = [0] * len(RISING)
    for piece in pieces:
        table = piece.table
        ids = max(ids, pc.max(pc.bit_wise_and(table["id"], LOW)).as_py())
        ends = pc.min_max(table[TIME]).as_py()
        first_us, last_us = min(first_us, ends["min"]), max(last_us, ends["max"])
        for name in FAMILY_OF.keys() & set(table.column_names):
            at = FAMILY_OF[name]
            rising[at] = max(rising[at], pc.max(table[name]).as_py() + 1)
    events = sum(piece.table.num_rows for piece in pieces)
    return Span(events, ids, last_us - first_us + GAP_US, tuple(rising))


def grow(
    source: Path,
    target: Path,
    events: int,
    *,
    spread: str = "",
    tell: Callable[[int, int], None] | None = None,
) -> int:
    """Write copies until there are so many events; column `spread` has names of its own in each."""
    pieces = pieces_of(source)
    span = span_of(pieces)
    copies = -(-events // span.events)
    if (copies + 1) * span.ids > LOW:
        raise CannotGrow(f"{copies} copies of {span.events} events have more ids than there are")
    if target.exists() and any(target.iterdir()):
        raise CannotGrow(f"{target} is not empty")
    largest = max(piece.table.num_rows for piece in pieces)
    at_once = max(1, PART_ROWS // largest)
    written = 0
    for first in range(0, copies, at_once):
        some = range(first, min(copies, first + at_once))
        for piece in pieces:
            copied = [shifted(piece.table, copy, span, spread=spread) for copy in some]
            written += _write(piece, pa.concat_tables(copied), first, target)
        if tell is not None:
            tell(written, copies * span.events)
    return written


def _write(piece: Piece, table: pa.Table, first: int, target: Path) -> int:
    for hour, rows in by_hour(table):
        folder = target / piece.event / f"run={piece.run}" / f"hour={hour}"
        folder.mkdir(parents=True, exist_ok=True)
        name = f"part-{piece.origin}-{first:06}.parquet"
        hidden = folder / f".{name}.{os.getpid()}.tmp"
        pq.write_table(rows, hidden, compression="zstd")
        hidden.replace(folder / name)
    return int(table.num_rows)


def shifted(table: pa.Table, copy: int, span: Span, *, spread: str = "") -> pa.Table:
    """One copy."""
    changed = dict(_shifts(table.column_names, copy, span))
    columns = []
    for field in table.schema:
        column = table[field.name]
        shift = changed.get(field.name)
        if shift:
            none = field.name == "cause" or field.name in ZERO_IS_NONE
            is_there = pc.greater(column, 0) if none else pc.greater_equal(column, 0)
            column = pc.if_else(is_there, pc.add(column, shift), column)
        elif copy and field.name == spread:
            column = pc.binary_join_element_wise(column, f"copy-{copy}", "-")
        columns.append(column)
    return pa.Table.from_arrays(columns, schema=table.schema)


def _shifts(names: list[str], copy: int, span: Span) -> Iterator[tuple[str, Any]]:
    for name in names:
        if name in IDS:
            yield name, copy * span.ids
        elif name == TIME:
            yield name, copy * span.us
        elif name in FAMILY_OF:
            yield name, copy * span.rising[FAMILY_OF[name]]
