"""Requests with tagged fields that nobody here knows.

Rule: as KIP-482 says, such fields are skipped. kio refuses them, so what it refused for that is
read once more, here, by the same entities; nothing else comes this way.
"""

from dataclasses import MISSING, Field, fields
from functools import cache
from typing import Any, get_args, get_origin

from kio.serial._implicit_defaults import get_tagged_field_default
from kio.serial._parse import get_reader
from kio.serial.readers import read_compact_array_length, read_unsigned_varint

from wire.errors import MalformedMessage


def read_tolerantly(kind: Any, data: memoryview, position: int) -> tuple[Any, int]:
    """An entity of a flexible version, and how many bytes it takes."""
    begun = position
    plain, tagged = _fields_of(kind)
    values = {}
    for each in plain:
        values[each.name], size = _read(each, data, position)
        position += size
    for each in tagged.values():
        is_given = each.default is not MISSING
        values[each.name] = each.default if is_given else get_tagged_field_default(each)
    count, size = read_unsigned_varint(data, position)
    position += size
    for _ in range(count):
        tag, size = read_unsigned_varint(data, position)
        position += size
        length, size = read_unsigned_varint(data, position)
        position += size
        if length > len(data) - position:
            raise MalformedMessage(f"a tagged field of {length} bytes")
        if tag in tagged:
            values[tagged[tag].name], _ = _read(tagged[tag], data, position)
        position += length
    return kind(**values), position - begun


@cache
def _fields_of(kind: Any) -> tuple[tuple[Field[Any], ...], dict[int, Field[Any]]]:
    """Those that are always there, and the others by their tags."""
    every = fields(kind)
    plain = tuple(each for each in every if "tag" not in each.metadata)
    return plain, {each.metadata["tag"]: each for each in every if "tag" in each.metadata}


def _read(field: Field[Any], data: memoryview, position: int) -> tuple[Any, int]:
    kind = field.type
    may_be_null = type(None) in get_args(kind)
    if may_be_null:
        kind = next(each for each in get_args(kind) if each is not type(None))
    if get_origin(kind) is not tuple:
        return _read_one(field, kind, may_be_null, data, position)
    one, begun, values = get_args(kind)[0], position, []
    count, size = read_compact_array_length(data, position)
    position += size
    if count is None or count < 0:
        return None, position - begun
    for _ in range(count):
        value, size = _read_one(field, one, False, data, position)
        position += size
        values.append(value)
    return tuple(values), position - begun


def _read_one(
    field: Field[Any], kind: Any, may_be_null: bool, data: memoryview, position: int
) -> tuple[Any, int]:
    if hasattr(kind, "__type__"):
        return read_tolerantly(kind, data, position)
    optional = may_be_null and "tag" not in field.metadata
    value, size = get_reader(field.metadata["kafka_type"], True, optional)(data, position)
    return value, size
