"""A trace as tables: every event of every run, read once and as it was declared.

Rule: what is wrong with a part is a sentence among `complaints`, and never the end of the rest. A
table that two jobs want is kept in memory, if it is one of the small ones.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, reduce
from typing import Any, Final, TypeVar
from urllib.parse import unquote

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from spark.compaction import merged_away, parts_below
from spark.hadoop import Hadoop, literal
from spark.parts import Looked, Part, look_at, part_of
from spark.schema import schema_of
from spark.source import NotATrace
from spark.transforms import Step
from wire.trace import (
    EVENTS,
    SCHEMA_VERSION,
    BrokerStateChanged,
    CallFinished,
    ControllerElected,
    FailoverStep,
    FaultHealed,
    FaultInjected,
    HighWatermarkMoved,
    IsrChanged,
    LeaderElected,
    MessageHandled,
    NodePaused,
    NodeResumed,
    NodeStarted,
    NodeStopped,
    PartitionStateChanged,
    RecordsAppended,
    ReplicaLeftIsr,
    ReplicaRoleChanged,
    SessionChanged,
    TraceEvent,
)

# There are millions of these in a long run; whoever wants them reads the few columns it needs.
LARGE: Final = (CallFinished, HighWatermarkMoved, MessageHandled, RecordsAppended)
# What holds until something else comes: asked for the last hour, they are read from the beginning.
LASTING: Final = (
    BrokerStateChanged,
    ControllerElected,
    FailoverStep,
    FaultHealed,
    FaultInjected,
    IsrChanged,
    LeaderElected,
    NodePaused,
    NodeResumed,
    NodeStarted,
    NodeStopped,
    PartitionStateChanged,
    ReplicaLeftIsr,
    ReplicaRoleChanged,
    SessionChanged,
)
CRUMB: Final = 1_000  # rows: so many are read in the time that it takes to open a part
SHOWN: Final = 3  # paths that are named for one reason
SLICES: Final = 240  # of time, in charts: about so many
WIDTHS_US: Final = tuple(
    int(seconds * 1_000_000)
    for seconds in (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1_800, 3_600, 10_800)
)
DAY_US: Final = 86_400_000_000

T = TypeVar("T")


class Trace:
    """All that there is to be read."""

    def __init__(self, session: SparkSession, roots: Sequence[str]) -> None:
        self._begin(session)
        self._bad: set[str] = set()
        self._versions: dict[str, set[int]] = defaultdict(set)  # by event
        self._rows: dict[str, int] = {}  # by path
        for root in self._expand(roots):
            self._find(root)
        if not any(self._parts.values()):
            raise NotATrace(f"there is no trace in {', '.join(roots)}: no part could be read")

    def _begin(self, session: SparkSession) -> None:
        """What there is before anything was found."""
        self.session = session
        self.hadoop = Hadoop(session)
        self.since_us: int | None = None
        self.complaints: list[str] = []
        self.counts: dict[str, int] = defaultdict(int)  # of events, by event
        self.desk: str | None = None  # a folder that is ours until we close
        self._parts: dict[str, list[Part]] = {}  # by root
        self._merged: dict[str, frozenset[str]] = {}  # by root: parts that a merged one stands for
        self._frames: dict[type[TraceEvent], DataFrame] = {}
        self._once: dict[Callable[[Trace], Any], Any] = {}
        self._in_memory: list[DataFrame] = []
        self._settled = 0  # tables on the desk

    @property
    def roots(self) -> tuple[str, ...]:
        """The folders, after globbing."""
        return tuple(self._parts)

    @property
    def parts(self) -> list[Part]:
        """All that will be read."""
        return [part for parts in self._parts.values() for part in parts]

    @property
    def size(self) -> tuple[int, int]:
        """How many parts, and how many bytes there are in the folders."""
        return len(self.parts), sum(self.hadoop.bytes_in(root) for root in self.roots)

    @property
    def runs(self) -> list[str]:
        """Names of runs of which there is something, in order."""
        return sorted(self.spans)

    def has(self, event: type[TraceEvent]) -> bool:
        """Whether an event happened at all."""
        return any(part.event == event.__name__ for part in self.parts)

    def events(self, event: type[TraceEvent]) -> DataFrame:
        """All that the trace says of one event."""
        if event not in self._frames:
            frame = self._read(event)
            if event not in LARGE and self._is_crumbled(event):
                frame = frame.persist(StorageLevel.MEMORY_AND_DISK)
                self._in_memory.append(frame)
            self._frames[event] = frame
        return self._frames[event]

    def leave_out(self, path: str, reason: str) -> bool:
        """Go on without a part that could not be read to its end; whether that is news."""
        found = [part for part in self.parts if same_file(part.path, path)]
        if not found or found[0].path in self._bad:
            return False
        self._bad.add(found[0].path)
        self.complaints.append(f"{found[0].path} is left out: {reason}")
        self.counts[found[0].event] -= self._rows.pop(found[0].path, 0)
        for root, parts in self._parts.items():
            self._parts[root] = [part for part in parts if part not in found]
        self.close()
        return True

    def once(self, make: "Callable[[Trace], DataFrame]") -> DataFrame:
        """A table that several jobs stand on: made for the first, and kept for the others."""
        if make not in self._once:
            self._once[make] = self.settled(make(self))
        kept: DataFrame = self._once[make]
        return kept

    def keep(self, make: "Callable[[Trace], DataFrame]", made: DataFrame) -> None:
        """The same, made by somebody else."""
        self._once[make] = made

    def settled(self, frame: DataFrame) -> DataFrame:
        """The same rows, worked out: whoever goes on from there carries no long plan along.

        Spark looks at all of a plan at every step and again for each job. With a desk the rows lie
        there as Parquet; without one they are kept in memory, once somebody asks for them.
        """
        if self.desk is None:
            kept = frame.persist(StorageLevel.MEMORY_AND_DISK)
            self._in_memory.append(kept)
            return kept
        self._settled += 1
        path = f"{self.desk}/{self._settled:03}"
        frame.write.mode("overwrite").parquet(path)
        return self.session.read.schema(frame.schema).parquet(literal(path))

    def value(self, make: "Callable[[Trace], T]") -> T:
        """The same for what is no table."""
        if make not in self._once:
            self._once[make] = make(self)
        found: T = self._once[make]
        return found

    @cached_property
    def spans(self) -> dict[str, tuple[int, int]]:
        """When each run began and ended, by its messages and by what is kept of it anyway."""
        # One look at a single column of all tables; what a part's folder says is known here.
        paths = [path for event in self._telling() for path in self._paths(event)]
        reader = self.session.read.schema("time_us long").option("recursiveFileLookup", "true")
        stamps = reader.parquet(*map(literal, paths))
        ends = (
            stamps.transform(self.recent("time_us"))
            .groupBy("_metadata.file_path")
            .agg(f.min("time_us"), f.max("time_us"))
        )
        found: dict[str, tuple[int, int]] = {}
        runs = {_bare(part.path): part.run for part in self.parts}
        for path, first, last in ends.collect():
            run = runs[_bare(unquote(path))]
            known = found.get(run, (first, last))
            found[run] = min(known[0], first), max(known[1], last)
        if not found:
            raise NotATrace("there is nothing in this trace since then")
        return found

    @property
    def bin_us(self) -> int:
        """How wide a slice of time is in charts: so that the longest run has a few hundred."""
        longest = max((end - start for start, end in self.spans.values()), default=0)
        wide = (each for each in WIDTHS_US if each * SLICES >= longest)
        return next(wide, DAY_US)

    def begin_at(self, since_us: int) -> None:
        """Leave out what came before, except for what still held then."""
        self.close()
        self.since_us = since_us

    def recent(self, column: str) -> Step:
        """Only what came, or lasted, since the moment that is asked for."""
        since_us = self.since_us
        return lambda frame: frame if since_us is None else frame.where(f.col(column) >= since_us)

    def close(self) -> None:
        """Give the memory back, and clear the desk."""
        for each in self._in_memory:
            each.unpersist()
        self._in_memory.clear()
        if self.desk is not None:
            self.hadoop.remove(self.desk)
        self._frames.clear()
        self._once.clear()
        self.__dict__.pop("spans", None)

    def _telling(self) -> list[type[TraceEvent]]:
        """A few kinds of events, of which each run has at least one."""
        named: dict[str, type[TraceEvent]] = {event.__name__: event for event in EVENTS}
        usual = {event.__name__ for event in (MessageHandled, *LASTING) if self.has(event)}
        chosen = {name: named[name] for name in sorted(usual)}
        covered = {part.run for part in self.parts if part.event in chosen}
        for part in self.parts:
            if part.run not in covered:
                chosen[part.event] = named[part.event]
                covered.add(part.run)
        return list(chosen.values())

    # --- finding ----------------------------------------------------------------------------------

    def _expand(self, roots: Sequence[str]) -> list[str]:
        found: list[str] = []
        for root in roots:
            matches = self.hadoop.glob(root.rstrip("/") or "/")
            if not matches:
                raise NotATrace(f"there is no trace in {root}: it does not exist")
            folders = [each for each in matches if self.hadoop.is_folder(each)]
            found += folders
            if not folders:
                raise NotATrace(f"there is no trace in {root}: it is not a folder")
        return list(dict.fromkeys(found))

    def _find(self, root: str) -> None:
        merged = self._merged[root] = merged_away(self.hadoop, root)
        paths = parts_below(self.hadoop, root)
        parts = [part for path in paths if (part := part_of(path)) and path not in merged]
        if not parts:
            self.complaints.append(f"{root} has no parts of events: nothing was recorded there")
        whole = self._sift(list(look_at(parts, self.hadoop.tail)))
        self._parts[root] = whole
        self._bad |= {part.path for part in parts} - {part.path for part in whole}

    def _sift(self, looked: Iterable[Looked]) -> list[Part]:
        whole, broken, newer = [], [], Counter[int]()
        for each in looked:
            if each.complaint:
                broken.append(each)
                continue
            whole.append(each.part)
            self.counts[each.part.event] += each.rows
            self._rows[each.part.path] = each.rows
            version = SCHEMA_VERSION if each.version is None else each.version
            self._versions[each.part.event].add(version)
            newer[version] += version > SCHEMA_VERSION
        for each in broken[:SHOWN]:
            self.complaints.append(f"{each.part.path} is left out: {each.complaint}")
        if len(broken) > SHOWN:
            self.complaints.append(
                f"{len(broken) - SHOWN} more parts are left out for such reasons"
            )
        for version, count in sorted(newer.items()):
            if count:
                self.complaints.append(
                    f"{count} parts are from a newer Understudy (events of version {version}; here"
                    f" {SCHEMA_VERSION} is known): what is new in them is not shown"
                )
        return whole

    # --- reading ----------------------------------------------------------------------------------

    def _read(self, event: type[TraceEvent]) -> DataFrame:
        schema = schema_of(event)
        frames = []
        for root in self._parts:
            paths = self._paths(event, root)
            if paths:
                reader = self.session.read.schema(schema).option("basePath", _table(root, event))
                frames.append(reader.parquet(*map(literal, paths)))
        if not frames:
            return self.session.createDataFrame([], schema)
        frame = reduce(DataFrame.unionByName, frames)
        if min(self._versions[event.__name__]) < SCHEMA_VERSION:
            frame = frame.na.fill("").na.fill(0).na.fill(False)
        return frame if event in LASTING else self._since(frame)

    def _paths(self, event: type[TraceEvent], *roots: str) -> list[str]:
        """Where to read an event: its folders, or all of its parts where not all are to be read."""
        found: list[str] = []
        for root in roots or self._parts:
            table = _table(root, event)
            mine = [part.path for part in self._parts[root] if part.event == event.__name__]
            is_whole = not any(path.startswith(f"{table}/") for path in self._bad)
            # One folder is listed by Spark itself, faster than so many names are passed to it.
            found += [table] if mine and is_whole and not self._merged[root] else mine
        return found

    def _is_crumbled(self, event: type[TraceEvent]) -> bool:
        """Whether it lies in so many small parts that to open them costs more than their rows."""
        parts = sum(part.event == event.__name__ for part in self.parts)
        return self.counts.get(event.__name__, 0) < parts * CRUMB

    def _since(self, frame: DataFrame) -> DataFrame:
        if self.since_us is None:
            return frame
        hour = f.date_format(f.timestamp_micros(f.lit(self.since_us)), "yyyy-MM-dd'T'HH")
        return frame.where(f.col("hour") >= hour).transform(self.recent("time_us"))


def _table(root: str, event: type[TraceEvent]) -> str:
    return f"{root}/{event.__name__}"


def same_file(one: str, other: str) -> bool:
    """Whether two ways to write a path mean one."""
    return _bare(one) == _bare(other)


def _bare(path: str) -> str:
    """A path without the slashes that some put behind `file:`."""
    return "/" + path.removeprefix("file:").lstrip("/") if path.startswith("file:") else path
