"""Folders and files, wherever Hadoop finds them.

Rule: a path is any that Hadoop knows; this is the only file that asks Java for files. Long
lists come in one piece: each question to Java costs a third of a millisecond.
"""

import re
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import unquote

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from spark.parts import MAGIC, TAIL, footer_length, local_tail

SLASHES: Final = re.compile(r"^file:/+")  # a path has one, its address three


class NoSuchPath(Exception):
    """Hadoop cannot go there. The text is one sentence for people."""


class Hadoop:
    """Java's file systems."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        context = session.sparkContext
        self._java: Any = context._jvm  # noqa: SLF001 - Python has no door of its own to Hadoop
        self._configuration = context._jsc.hadoopConfiguration()  # noqa: SLF001

    def path(self, text: str) -> tuple[Any, Any]:
        """A path, and the file system that it is on."""
        try:
            path = self._java.org.apache.hadoop.fs.Path(text)
            return path, path.getFileSystem(self._configuration)
        except Py4JJavaError as error:
            raise NoSuchPath(f"{text} cannot be reached: {reason_of(error)}") from None

    def glob(self, pattern: str) -> list[str]:
        """The few paths of a pattern, in order: each costs a question."""
        path, files = self.path(pattern)
        try:
            found = files.globStatus(path)
        except Py4JJavaError as error:
            raise NoSuchPath(f"{pattern} cannot be read: {reason_of(error)}") from None
        return sorted(each.getPath().toString() for each in found or ())

    def files(self, folders: Sequence[str]) -> list[str]:
        """The paths of all Parquet files below some folders: Spark lists them, in one piece."""
        reader = self._session.read.format("binaryFile").option("recursiveFileLookup", "true")
        listed = reader.option("pathGlobFilter", "*.parquet").load(
            [literal(each) for each in folders]
        )
        # Not by a query, which would pass over files without a byte.
        return sorted(SLASHES.sub("file:/", unquote(each)) for each in listed.inputFiles())

    def is_folder(self, text: str) -> bool:
        """Whether a folder is there."""
        path, files = self.path(text)
        return bool(files.exists(path) and files.getFileStatus(path).isDirectory())

    def exists(self, text: str) -> bool:
        """Whether a file or a folder is there."""
        path, files = self.path(text)
        return bool(files.exists(path))

    def bytes_in(self, text: str) -> int:
        """How many bytes a folder has."""
        path, files = self.path(text)
        return int(files.getContentSummary(path).getLength())

    def tail(self, text: str) -> tuple[bytes, bytes]:
        """A file's first bytes, and its Parquet footer."""
        if text.startswith("file:"):
            return local_tail(text)
        path, files = self.path(text)
        try:
            size = int(files.getFileStatus(path).getLen())
            with_tail = footer_length(self._read(files, path, max(size - TAIL, 0), TAIL), size)
            head = self._read(files, path, 0, len(MAGIC))
            return head, self._read(files, path, size - with_tail, with_tail)
        except Py4JJavaError as error:
            raise OSError(reason_of(error)) from None

    def write(self, text: str, content: bytes) -> None:
        """A file, new or anew."""
        path, files = self.path(text)
        raw = files.getRawFileSystem() if files.getScheme() == "file" else files  # without .crc
        stream = raw.create(path, True)
        stream.write(content)
        stream.close()

    def read(self, text: str) -> bytes:
        """A small file."""
        path, files = self.path(text)
        size = int(files.getFileStatus(path).getLen())
        return self._read(files, path, 0, size)

    def rename(self, before: str, after: str) -> None:
        """Move a file within one file system."""
        path, files = self.path(before)
        if not files.rename(path, self.path(after)[0]):
            raise OSError(f"{before} cannot become {after}")

    def remove(self, text: str) -> None:
        """A file or a folder with all that is in it; it may be gone already."""
        path, files = self.path(text)
        files.delete(path, True)

    def _read(self, files: Any, path: Any, start: int, length: int) -> bytes:
        stream = files.open(path)
        try:
            stream.seek(start)
            return bytes(self._java.org.apache.commons.io.IOUtils.toByteArray(stream, length))
        finally:
            stream.close()


def reason_of(error: Py4JJavaError) -> str:
    """What Java says, without where it said it."""
    lines = str(error.java_exception.toString()).strip().splitlines()
    return lines[0].partition(": ")[2] or lines[0]


def literal(path: str) -> str:
    """A path that is no pattern."""
    return "".join(f"\\{each}" if each in "*?[]{}\\" else each for each in path)
