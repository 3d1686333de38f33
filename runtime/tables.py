"""Trace events as Arrow tables.

Rule: a table has the columns that wire.trace declares, in its order, and no nulls. Whoever builds
one holds Python's lock against the actors, so values become columns in bulk.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from runtime.tracing import MESSAGE, MESSAGE_INTEGERS, NOT_TIMED, Drained, Trace
from wire.trace import COLUMNS, MessageHandled, Stamp, TraceEvent

ARROW_TYPES: Final[dict[type, pa.DataType]] = {
    int: pa.int64(),
    str: pa.string(),
    bool: pa.bool_(),
    float: pa.float64(),
}
HOUR_US: Final = 3_600_000_000


def schema_of(event: type[TraceEvent]) -> pa.Schema:
    """An event's table as Arrow knows it."""
    columns = COLUMNS[event.__name__]
    return pa.schema(
        [pa.field(name, ARROW_TYPES[kind], nullable=False) for name, kind in columns.items()]
    )


class Group(NamedTuple):
    """Events of one kind, and their stamps."""

    stamps: list[Stamp]
    events: list[TraceEvent]


def by_event(drained: Drained) -> dict[type[TraceEvent], Group]:
    """Events, each among its own kind."""
    groups: dict[type[TraceEvent], Group] = defaultdict(lambda: Group([], []))
    for stamp, event in drained.stamped():
        group = groups[type(event)]
        group.stamps.append(stamp)
        group.events.append(event)
    return groups


def table_of_events(event: type[TraceEvent], group: Group) -> pa.Table:
    """Events of one kind."""
    schema = schema_of(event)
    columns = [list(map(attrgetter(name), group.stamps)) for name in Stamp.__struct_fields__]
    columns += [list(map(attrgetter(name), group.events)) for name in event.__struct_fields__]
    arrays = [_array(values, kind) for values, kind in zip(columns, schema.types, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def table_of_messages(trace: Trace, rows: bytearray) -> pa.Table:
    """Handled messages, a MESSAGE each."""
    number, cause, mark, sent, begun, ended = _columns(rows)
    queued = pc.if_else(pc.equal(sent, NOT_TIMED), 0.0, pc.subtract(begun, sent))
    node, actor, message, outcome = _names_of(trace, mark)
    arrays = [
        number,
        pc.add(_microseconds(begun), trace.epoch_us),
        node,
        cause,
        actor,
        message,
        _microseconds(queued),
        _microseconds(pc.subtract(ended, begun)),
        outcome,
    ]
    declared = schema_of(MessageHandled)
    fields = [field.with_type(each.type) for field, each in zip(declared, arrays, strict=True)]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def by_hour(table: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """A table cut at the hours of its events, nearly always into one piece."""
    times = table.column("time_us")
    ends = pc.min_max(times).as_py()
    first, last = ends["min"] // HOUR_US, ends["max"] // HOUR_US
    if first == last:
        yield _hour(first), table
        return
    hours = pc.divide(times, HOUR_US)
    for hour in pc.unique(hours).to_pylist():
        yield _hour(hour), table.filter(pc.equal(hours, hour))


def _hour(number: int) -> str:
    return datetime.fromtimestamp(number * HOUR_US // 1_000_000, UTC).strftime("%Y-%m-%dT%H")


def _array(values: Sequence[Any], kind: pa.DataType) -> Any:
    try:
        return pa.array(values, kind)
    except UnicodeEncodeError:  # half of a surrogate pair, from the name of a file perhaps
        whole = (value.encode("utf-8", "backslashreplace").decode() for value in values)
        return pa.array(whole, kind)


def _columns(rows: bytearray) -> list[Any]:
    """The columns of MESSAGE rows, whose fields have eight bytes each: integers, then times."""
    count, width = len(rows) // MESSAGE.size, MESSAGE.size // 8
    firsts = pc.cumulative_sum(pa.repeat(pa.scalar(width, pa.int64()), count), start=-width)
    flat = [None, pa.py_buffer(rows)]
    integers = pa.Array.from_buffers(pa.int64(), count * width, flat)
    times = pa.Array.from_buffers(pa.float64(), count * width, flat)
    return [
        (integers if at < MESSAGE_INTEGERS else times).slice(at).take(firsts) for at in range(width)
    ]


def _microseconds(seconds: Any) -> Any:
    """As runtime.tracing.microseconds: to the nearest, of times that are not negative."""
    return pc.cast(pc.add(pc.multiply(seconds, 1e6), 0.5), pa.int64(), safe=False)


def _names_of(trace: Trace, marks: Any) -> list[Any]:
    """Nodes, actors, messages and outcomes: each text is kept once, and only if it occurs."""
    encoded = marks.dictionary_encode()
    texts = map(trace.named, encoded.dictionary.to_pylist())
    columns = [_array(each, pa.string()).dictionary_encode() for each in zip(*texts, strict=True)]
    return [
        pa.DictionaryArray.from_arrays(each.indices.take(encoded.indices), each.dictionary)
        for each in columns
    ]
