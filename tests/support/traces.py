"""A trace for tests, whose clock stands until it is told to go on, and what Parquet kept of it."""

from pathlib import Path

import pyarrow.parquet as pq

from runtime.tracing import Trace
from wire.trace import COLUMNS

EPOCH_US = 1_600_000_000_000_000
SECOND_US = 1_000_000


class StandingTrace(Trace):
    """Its time is `at_us`, counted from EPOCH_US."""

    def __init__(self, *, origin: int = 0, recording: bool = True) -> None:
        self.at_us = 0
        super().__init__(
            now_s=lambda: (SECOND_US + self.at_us) / 1e6,  # 0 would mean: no time at all
            epoch_us=EPOCH_US - SECOND_US,
            origin=origin,
            recording=recording,
        )


def example_of(event):
    """An event with a value in every field; values differ, so that no two can be swapped."""
    fields = tuple(COLUMNS[event.__name__].items())[4:]
    return event(**{name: _value(kind, at) for at, (name, kind) in enumerate(fields)})


def _value(kind, at):
    return {int: 2**62 - at, str: f"käse 🧀\n\t'\"{at}", bool: True, float: at / 10}[kind]


def parts_of(folder: Path, event) -> list[Path]:
    return sorted(folder.glob(f"{event.__name__}/run=*/hour=*/*.parquet"))


def rows_of(folder: Path, event) -> list[dict]:
    """The rows that a folder keeps of an event, part after part."""
    tables = (pq.ParquetFile(part).read() for part in parts_of(folder, event))
    return [row for table in tables for row in table.to_pylist()]
