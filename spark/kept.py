"""Tables that grow by batches and are read as one, on any file system.

Rule: a batch is a folder by its number, written beside its place and moved there. Written twice, it
is there once. Many folders are folded into one; whoever finds both reads the fold alone.
"""

from collections.abc import Callable
from functools import reduce
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession

from spark.hadoop import Hadoop, literal

FOLD: Final = 24  # so many folders become one
DIGITS: Final = 12

Fold = Callable[[DataFrame], DataFrame]


class Extent(NamedTuple):
    """The batches that a folder has."""

    first: int
    last: int

    @property
    def name(self) -> str:
        """Of the folder."""
        return f"{self.first:0{DIGITS}d}-{self.last:0{DIGITS}d}"


class Kept:
    """The tables of one watch."""

    def __init__(self, session: SparkSession, folder: str) -> None:
        self._session = session
        self._hadoop = Hadoop(session)
        self._folder = folder

    def put(self, table: str, batch: int, frame: DataFrame) -> None:
        """A batch of a table, in place of the same one."""
        self._write(table, Extent(batch, batch), frame)

    def before(self, table: str, batch: int) -> DataFrame | None:
        """All batches before one, if there are any."""
        return self._read(table, [each for each in self._extents(table) if each.last < batch])

    def all(self, table: str) -> DataFrame | None:
        """All batches, if there are any."""
        return self._read(table, self._extents(table))

    def fold(self, table: str, before: int, merge: Fold | None = None) -> None:
        """Few folders from many; `merge` makes one of the rows of all, and else they are kept."""
        extents = [each for each in self._extents(table) if each.last < before]
        if merge is None:
            extents = [each for each in extents if each.first == each.last]
        if len(extents) < FOLD:
            return
        frame = self._read(table, extents)
        if frame is not None:
            folded = frame if merge is None else merge(frame)
            self._write(table, Extent(extents[0].first, extents[-1].last), folded.coalesce(1))
        for each in extents:
            self._hadoop.remove(f"{self._folder}/{table}/{each.name}")

    def _extents(self, table: str) -> list[Extent]:
        """What is to be read: no fold's parts, which a sudden end may have left."""
        names = [
            path.rpartition("/")[2]
            for path in self._hadoop.glob(f"{literal(self._folder)}/{table}/[0-9]*-[0-9]*")
        ]
        found = [Extent(*map(int, name.split("-"))) for name in names]
        chosen: list[Extent] = []
        for each in sorted(found, key=lambda each: (each.first, -each.last)):
            if not chosen or each.first > chosen[-1].last:
                chosen.append(each)
        return chosen

    def _read(self, table: str, extents: list[Extent]) -> DataFrame | None:
        frames = [
            self._session.read.parquet(literal(f"{self._folder}/{table}/{each.name}"))
            for each in extents
        ]
        return reduce(DataFrame.unionByName, frames) if frames else None

    def _write(self, table: str, extent: Extent, frame: DataFrame) -> None:
        place = f"{self._folder}/{table}/{extent.name}"
        beside = f"{self._folder}/{table}/.{extent.name}"
        frame.write.mode("overwrite").parquet(beside)
        self._hadoop.remove(place)
        self._hadoop.rename(beside, place)
