"""The parts of a trace: found, looked at from outside, and told from what is none.

Rule: a part that is whole begins and ends as Parquet does, and its last bytes say which version of
the events it holds. Whatever is wrong with a part becomes a sentence; the other parts are read.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import unquote

from spark.footer import BrokenFooter, shape_of, version_of
from wire.trace import COLUMNS, SCHEMA_VERSION

MAGIC: Final = b"PAR1"
TAIL: Final = 8  # the length of the footer, and the magic again
MOST_FOOTER: Final = 64 << 20
COMPACTED: Final = re.compile(r"/part-compacted(\d+)-")  # Spark's own files carry no metadata
PART: Final = re.compile(r"(?P<event>\w+)/run=(?P<run>[^/]+)/hour=(?P<hour>[^/]+)/[^/.][^/]*$")
LOCAL: Final = "file:"
LOOKERS: Final = 8

Tail = Callable[[str], tuple[bytes, bytes]]  # a file's first bytes, and its footer with the tail


class Part(NamedTuple):
    """A file of one event, one run and one hour."""

    path: str
    event: str
    run: str
    hour: str


class Looked(NamedTuple):
    """What the outside of a part says."""

    part: Part
    version: int | None = None  # of the events; None: it does not say
    rows: int = 0
    complaint: str = ""


def part_of(path: str) -> Part | None:
    """A part by its path, if it is one that a recorder or a compaction could have written."""
    match = PART.search(path)
    if match is None or match["event"] not in COLUMNS:
        return None
    return Part(path, match["event"], unquote(match["run"]), unquote(match["hour"]))


def look_at(parts: Iterable[Part], tail: Tail) -> Iterator[Looked]:
    """Each part, looked at from outside."""
    with ThreadPoolExecutor(LOOKERS) as lookers:
        yield from lookers.map(partial(_look_at, tail), parts)


def _look_at(tail: Tail, part: Part) -> Looked:
    try:
        head, footer = tail(part.path)
        if head != MAGIC:
            raise BrokenFooter("it does not begin as a Parquet file")
        compacted = COMPACTED.search(part.path)
        version = int(compacted[1]) if compacted else version_of(footer)
        shape = shape_of(footer)
        _check_columns(part, SCHEMA_VERSION if version is None else version, shape.columns)
        return Looked(part, version, shape.rows)
    except BrokenFooter as broken:
        return Looked(part, complaint=str(broken))
    except OSError as error:
        return Looked(part, complaint=error.strerror or str(error))


def _check_columns(part: Part, version: int, columns: frozenset[str]) -> None:
    """Read as another event, what it has would be nothing, and what it lacks nulls."""
    known = frozenset(COLUMNS[part.event])
    strange = columns - known if version <= SCHEMA_VERSION else frozenset()
    lacking = known - columns if version >= SCHEMA_VERSION else frozenset()
    if strange or lacking:
        raise BrokenFooter(f"its columns are not those of {part.event}")


def footer_length(tail: bytes, size: int) -> int:
    """How long a file's footer is with the tail, by its last bytes."""
    if size < len(MAGIC) + TAIL or tail[-len(MAGIC) :] != MAGIC:
        raise BrokenFooter("it ends too early: it was written in part only")
    length = int.from_bytes(tail[: -len(MAGIC)], "little") + TAIL
    if length > min(MOST_FOOTER, size - len(MAGIC)):
        raise BrokenFooter("its footer makes no sense")
    return length


def local_tail(path: str) -> tuple[bytes, bytes]:
    """The ends of a file of this machine."""
    file = Path(path.removeprefix(LOCAL))
    with file.open("rb") as whole:
        head = whole.read(len(MAGIC))
        size = whole.seek(0, 2)
        whole.seek(max(size - TAIL, 0))
        whole.seek(size - footer_length(whole.read(), size))
        return head, whole.read()
