"""This package, for the machines that work for a remote master.

Rule: executors get the same sources as the driver has, as one archive. No job runs Python there
today; whoever writes one that does finds `spark` and `wire` importable.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from zipfile import ZIP_DEFLATED, ZipFile

from pyspark.sql import SparkSession

ROOMS: Final = ("spark", "wire")
HERE: Final = Path(__file__).resolve().parents[1]


@contextmanager
def shipped(session: SparkSession) -> Iterator[None]:
    """Our packages are with all executors, as long as the block lasts."""
    with TemporaryDirectory(prefix="understudy-spark-") as folder:
        archive = Path(folder) / "understudy.zip"
        pack(archive)
        session.sparkContext.addPyFile(str(archive))
        yield


def pack(archive: Path) -> None:
    """The sources of all rooms that Spark may see."""
    with ZipFile(archive, "w", ZIP_DEFLATED) as packed:
        for room in ROOMS:
            for source in sorted((HERE / room).rglob("*.py")):
                packed.write(source, source.relative_to(HERE))
