"""Trace events as Arrow tables.

Rule: a table has the columns that wire.trace declares, in its order, and no nulls. Whoever builds
one holds Python's lock against the actors, so values become columns in bulk, and in small bites.
"""

from array import array
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from runtime.tracing import MESSAGE_WIDTH, NOT_TIMED, Drained, Trace
from wire.trace import COLUMNS, OUTCOMES, MessageHandled, Stamp, TraceEvent

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


def table_of_messages(trace: Trace, rows: "array[int]") -> pa.Table:
    """Handled messages, of which a trace keeps MESSAGE_WIDTH integers each."""
    count = len(rows) // MESSAGE_WIDTH

    def column(index: int) -> Any:
        buffer = pa.py_buffer(rows[index::MESSAGE_WIDTH])
        return pa.Array.from_buffers(pa.int64(), count, [None, buffer])

    number, cause, actor, kind, sent, begun, ended, outcome = map(column, range(MESSAGE_WIDTH))
    queue = pc.if_else(pc.equal(sent, NOT_TIMED), 0, pc.subtract(begun, sent))
    nodes, addresses = _names_of_actors(trace, actor)
    arrays = [
        number,
        pc.divide(pc.add(begun, trace.epoch_ns), 1000),
        nodes,
        cause,
        addresses,
        _names(kind, trace.kinds.names),
        pc.divide(queue, 1000),
        pc.divide(pc.subtract(ended, begun), 1000),
        _names(outcome, OUTCOMES),
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


def _names(numbers: Any, names: Sequence[str]) -> Any:
    """Numbers as the texts they stand for, each text kept once: only those that occur."""
    encoded = numbers.dictionary_encode()
    texts = [names[number] for number in encoded.dictionary.to_pylist()]
    return pa.DictionaryArray.from_arrays(encoded.indices, _array(texts, pa.string()))


def _names_of_actors(trace: Trace, actors: Any) -> tuple[Any, Any]:
    """The nodes and addresses of actors. Several actors share a node, and a reborn one its name."""
    encoded = actors.dictionary_encode()
    used = [trace.actors[number] for number in encoded.dictionary.to_pylist()]
    nodes, addresses = (
        _array(texts, pa.string()).dictionary_encode() for texts in zip(*used, strict=True)
    )
    return tuple(
        pa.DictionaryArray.from_arrays(texts.indices.take(encoded.indices), texts.dictionary)
        for texts in (nodes, addresses)
    )
