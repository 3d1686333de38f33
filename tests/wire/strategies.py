"""Values to try, made from the types of the fields: a new message is covered as it is written."""

from collections.abc import Callable
from enum import Enum
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from msgspec import Struct, inspect

from wire.codec import AnyMessage


def fixed(examples: int) -> settings:
    """The same examples in every run, so that a red build is red again."""
    return settings(derandomize=True, deadline=None, database=None, max_examples=examples)


MESSAGES: tuple[type[Struct], ...] = AnyMessage.__args__


def values_of(cls: type[Struct]) -> st.SearchStrategy[Any]:
    return _of(inspect.type_info(cls))


def _of(kind: inspect.Type) -> st.SearchStrategy[Any]:
    return STRATEGIES[type(kind)](kind)


def _integers(kind: inspect.IntType) -> st.SearchStrategy[int]:
    assert kind.ge is not None, "an int without the range that the protocol gives it"
    assert kind.le is not None
    return st.integers(kind.ge, kind.le) | st.sampled_from([kind.ge, -1, 0, 1, kind.le])


STRATEGIES: dict[type[inspect.Type], Callable[[Any], st.SearchStrategy[Any]]] = {
    inspect.StructType: lambda kind: st.builds(
        kind.cls, **{field.name: _of(field.type) for field in kind.fields}
    ),
    inspect.IntType: _integers,
    inspect.EnumType: lambda kind: st.sampled_from(list(kind.cls)),
    inspect.FloatType: lambda _: st.floats(allow_nan=False),
    inspect.StrType: lambda _: st.text(max_size=12),
    inspect.BoolType: lambda _: st.booleans(),
    inspect.NoneType: lambda _: st.none(),
    inspect.BytesType: lambda _: st.binary(max_size=20),
    inspect.MemoryViewType: lambda _: st.binary(max_size=40).map(memoryview),
    inspect.VarTupleType: lambda kind: st.lists(_of(kind.item_type), max_size=3).map(tuple),
    inspect.TupleType: lambda kind: st.tuples(*map(_of, kind.item_types)),
    inspect.UnionType: lambda kind: st.one_of(*map(_of, kind.types)),
}


def plain(value: Any) -> Any:
    """What anybody's msgpack reader makes of a message."""
    if isinstance(value, Struct):
        code = value.__struct_config__.tag
        fields = [plain(getattr(value, name)) for name in value.__struct_fields__]
        return fields if code is None else [code, *fields]
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    if isinstance(value, memoryview):
        return bytes(value)
    if isinstance(value, Enum):
        return value.value
    return value
