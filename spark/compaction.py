"""Many small parts become few: a week of a trace is a million files otherwise.

Rule: no event is ever lost or there twice. What was merged is written under a hidden name; then a
journal says which parts it stands for; only then is it moved into place and are they removed.
Whoever finds a journal knows from it which of the two to read, and the next compaction finishes
what was interrupted. Parts that a running cluster adds meanwhile are left alone.
"""

import json
from collections import defaultdict
from collections.abc import Sequence
from typing import Final, NamedTuple
from urllib.parse import quote

from pyspark.sql import SparkSession

from spark.hadoop import Hadoop, literal
from spark.parts import look_at, part_of
from spark.source import NotATrace
from wire.trace import COLUMNS, SCHEMA_VERSION

JOURNAL: Final = ".compacting-"
ROWS_A_PART: Final = 5_000_000


class Done(NamedTuple):
    """What a compaction did."""

    before: int
    after: int
    rows: int


class Journal(NamedTuple):
    """What stands for what."""

    path: str
    merged: str  # where it is to be
    originals: tuple[str, ...]


def compact(session: SparkSession, roots: Sequence[str]) -> Done:
    """Merge the parts of each event, run and hour."""
    hadoop = Hadoop(session)
    done = [
        _compact(session, hadoop, root) for pattern in roots for root in _found(hadoop, pattern)
    ]
    return Done(*(sum(numbers) for numbers in zip(*done, strict=True)))


def _found(hadoop: Hadoop, pattern: str) -> list[str]:
    found = [each for each in hadoop.glob(pattern.rstrip("/")) if hadoop.is_folder(each)]
    if not found:
        raise NotATrace(f"there is no trace in {pattern}: it is not a folder")
    return found


def merged_away(hadoop: Hadoop, root: str) -> frozenset[str]:
    """Parts whose events are in a merged one too: a compaction was interrupted."""
    return frozenset(
        original
        for journal in _journals(hadoop, root)
        if hadoop.exists(journal.merged)
        for original in journal.originals
    )


def parts_below(hadoop: Hadoop, root: str) -> list[str]:
    """The paths of all files in a trace's tables."""
    tables = [each for each in hadoop.glob(f"{literal(root)}/*") if _name(each) in COLUMNS]
    return hadoop.files(tables) if tables else []


def _compact(session: SparkSession, hadoop: Hadoop, root: str) -> Done:
    for journal in _journals(hadoop, root):
        _finish(hadoop, journal)
    for half_written in hadoop.glob(f"{literal(root)}/{JOURNAL}*"):
        hadoop.remove(half_written)
    folders: dict[str, list[str]] = defaultdict(list)
    parts = [part for path in parts_below(hadoop, root) if (part := part_of(path))]
    rows: dict[str, int] = defaultdict(int)
    for looked in look_at(parts, hadoop.tail):
        # What is broken, or of another version, stays as it is: its reader will say so.
        if not looked.complaint and looked.version in (None, SCHEMA_VERSION):
            folder = looked.part.path.rpartition("/")[0]
            folders[folder].append(looked.part.path)
            rows[folder] += looked.rows
    before = after = total = 0
    for folder, paths in sorted(folders.items()):
        if len(paths) > 1:
            _merge(session, hadoop, root, folder, sorted(paths))
            before, after, total = before + len(paths), after + 1, total + rows[folder]
    return Done(before, after, total)


def _merge(
    session: SparkSession, hadoop: Hadoop, root: str, folder: str, paths: Sequence[str]
) -> None:
    number = 1 + max(
        (int(path.rpartition("-")[2].split(".")[0]) for path in paths if "compacted" in path),
        default=0,
    )
    name = f"part-compacted{SCHEMA_VERSION}-{number:06d}.parquet"
    hidden = f"{root}/{JOURNAL}{quote(folder[len(root) + 1 :], safe='')}"
    session.read.parquet(*map(literal, paths)).orderBy("id").coalesce(1).write.option(
        "compression", "zstd"
    ).mode("overwrite").parquet(hidden)
    (written,) = (each for each in hadoop.glob(f"{literal(hidden)}/*.parquet"))
    journal = Journal(f"{hidden}.json", f"{folder}/{name}", tuple(paths))
    hadoop.write(journal.path, json.dumps([journal.merged, *journal.originals]).encode())
    hadoop.rename(written, journal.merged)
    _finish(hadoop, journal)


def _finish(hadoop: Hadoop, journal: Journal) -> None:
    if hadoop.exists(journal.merged):
        for original in journal.originals:
            hadoop.remove(original)
    hadoop.remove(journal.path.removesuffix(".json"))
    hadoop.remove(journal.path)


def _journals(hadoop: Hadoop, root: str) -> list[Journal]:
    found = []
    for path in hadoop.glob(f"{literal(root)}/{JOURNAL}*.json"):
        merged, *originals = json.loads(hadoop.read(path))
        found.append(Journal(path, merged, tuple(originals)))
    return found


def _name(path: str) -> str:
    return path.rpartition("/")[2]
