"""Kafka's messages in each of their versions, as kio has them.

Rule: an API's file names all fields that any version of its response has; what a version does not
know is left out here. Ids, times and error codes are ours until they are filled in.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import Field, dataclass, fields
from datetime import UTC, datetime, timedelta
from functools import cache
from io import BytesIO
from itertools import groupby
from types import NoneType
from typing import Any, Final, Protocol, TypeVar, get_args, get_origin
from uuid import UUID  # noqa: TID251 - kio's form of an id that we were given

from kio.index import load_payload_module
from kio.schema.errors import ErrorCode as KafkaErrorCode
from kio.serial import entity_reader, entity_writer
from kio.serial.errors import SerialError
from kio.static.constants import EntityType

from wire.errors import MalformedMessage
from wire.ids import TopicId, TopicPartition

MOST_WORDS: Final = 1_000  # of an error message: a name in it may be as long as a string can be
_FLEXIBLE_REQUEST: Final = 2
_FLEXIBLE_RESPONSE: Final = 1
# What kio raises for bytes that are no message: LookupError for tags that it does not know, and
# RecursionError and MemoryError for those that would be a very large one.
NO_MESSAGE: Final = (
    SerialError,
    ValueError,
    LookupError,
    OverflowError,
    RecursionError,
    MemoryError,
    TypeError,
)

Fill = Callable[[Any], Any]


class _OfPartition(Protocol):
    @property
    def partition(self) -> TopicPartition: ...


OfPartition = TypeVar("OfPartition", bound=_OfPartition)


@dataclass(frozen=True)
class Shape:
    """One version of one API."""

    read: Callable[[memoryview, int], tuple[Any, int]]
    write: Callable[[BytesIO, Any], None]
    fill: Fill
    check: Callable[[Any], None]  # that no array is null which must not be: kio lets them pass
    is_flexible: bool  # its request's header may have tagged fields
    has_flexible_answer: bool  # and so may its response's

    def decode(self, frame: memoryview, position: int) -> Any:
        """The request that begins there; what follows it is ignored, as Kafka does."""
        try:
            request = self.read(frame.toreadonly(), position)[0]
        except NO_MESSAGE as error:
            raise MalformedMessage(f"{type(error).__name__}: {error}") from error
        self.check(request)
        return request

    def encode(self, given: Mapping[str, Any]) -> bytes:
        """A response of these fields."""
        buffer = BytesIO()
        self.write(buffer, self.fill(given))
        return buffer.getvalue()


@cache
def shape_of(api_key: int, version: int) -> Shape:
    """What kio knows of a version, loaded when it is first used."""
    request = _payload(api_key, version, EntityType.request)
    response = _payload(api_key, version, EntityType.response)
    return Shape(
        read=entity_reader(request),
        write=entity_writer(response),
        fill=filler(response),
        check=checker(request),
        is_flexible=request.__header_schema__.__version__ >= _FLEXIBLE_REQUEST,
        has_flexible_answer=response.__header_schema__.__version__ >= _FLEXIBLE_RESPONSE,
    )


def _payload(api_key: int, version: int, kind: Any) -> Any:
    module = load_payload_module(api_key, version, kind)
    return next(
        each
        for each in vars(module).values()
        if getattr(each, "__type__", None) is kind and each.__module__ == module.__name__
    )


@cache
def checker(kind: Any) -> Callable[[Any], None]:
    """Raises MalformedMessage if an array in an entity is null and must not be."""
    arrays = []
    for each in fields(kind):
        inside = _without_none(each.type)
        if get_origin(inside) is tuple:
            one = get_args(inside)[0]
            nested = checker(one) if hasattr(one, "__type__") else None
            arrays.append((each.name, inside is not each.type, nested))

    def check(entity: Any) -> None:
        for name, may_be_null, nested in arrays:
            values = getattr(entity, name)
            if values is None:
                if not may_be_null:
                    raise MalformedMessage(f"{kind.__name__}.{name} is null")
            elif nested is not None:
                for value in values:
                    nested(value)

    return check


@cache
def filler(kind: Any) -> Fill:
    """How an entity is made of a mapping of its fields."""
    known = tuple((each.name, _converter(each)) for each in fields(kind))

    def fill(given: Mapping[str, Any]) -> Any:
        return kind(**{name: convert(given[name]) for name, convert in known if name in given})

    return fill


def _converter(field: Field[Any]) -> Fill:
    kind = _without_none(field.type)
    if get_origin(kind) is tuple:
        each = _one(field, _without_none(get_args(kind)[0]))
        return lambda values: None if values is None else tuple(map(each, values))
    return _one(field, kind)


def _one(field: Field[Any], kind: Any) -> Fill:
    if hasattr(kind, "__type__"):
        inside = filler(kind)
        return lambda value: None if value is None else inside(value)
    if field.name == "error_message":
        return lambda text: text and text[:MOST_WORDS]
    return _BY_KIND.get(field.metadata["kafka_type"], _as_it_is)


def _without_none(kind: Any) -> Any:
    return next((each for each in get_args(kind) if each is not NoneType), kind) if (
        NoneType in get_args(kind)
    ) else kind  # fmt: skip


def _as_it_is(value: Any) -> Any:
    return value


def by_topic(results: Iterable[OfPartition]) -> Iterator[tuple[str, list[OfPartition]]]:
    """Results of partitions as Kafka's responses have them, in their order."""
    for topic, each in groupby(results, key=lambda result: result.partition.topic):
        yield topic, list(each)


def uuid_of(topic_id: TopicId | None) -> UUID | None:
    """A topic id as kio wants it."""
    return None if topic_id is None else UUID(bytes=urlsafe_b64decode(topic_id + "=="))


def topic_id_of(uuid: UUID | None) -> TopicId | None:
    """A topic id as it is printed; None: none was given."""
    if uuid is None or not uuid.int:
        return None
    return TopicId(urlsafe_b64encode(uuid.bytes).decode().rstrip("="))


def milliseconds(duration: timedelta) -> int:
    """A duration as we have it."""
    return round(duration / timedelta(milliseconds=1))


def _duration(milliseconds: int) -> timedelta:
    return timedelta(milliseconds=milliseconds)


def _moment(timestamp_ms: int | None) -> datetime | None:
    if timestamp_ms is None or timestamp_ms < 0:
        return None
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC)


_BY_KIND: Final[Mapping[str, Fill]] = {
    "error_code": {each.value: each for each in KafkaErrorCode}.__getitem__,
    "timedelta_i32": _duration,
    "timedelta_i64": _duration,
    "datetime_i64": _moment,
    "uuid": uuid_of,
}
