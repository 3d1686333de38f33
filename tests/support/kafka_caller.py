"""A Kafka client of frames: what it says is made by kio, and so is what it understands."""

import struct
from dataclasses import fields
from datetime import timedelta
from io import BytesIO
from types import NoneType
from typing import Any, get_args, get_origin
from uuid import UUID

from hypothesis import strategies as st
from kio.index import load_payload_module
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from actors.doors.kafka.call import Api
from actors.doors.kafka.header import skip_tags
from actors.doors.kafka.shapes import uuid_of
from actors.doors.kafka.table import APIS
from runtime.simulation.simulator import Simulator
from wire.ids import TopicPartition
from wire.records import Record, encode_batch

NAMES = {each.name: each for each in APIS}


def entity(api: Api, version: int, kind: EntityType, name: str | None = None) -> Any:
    """One of kio's classes for a version: the whole message, or a part of it by its name."""
    module = load_payload_module(api.key, version, kind)
    own = [
        each
        for each in vars(module).values()
        if hasattr(each, "__type__") and each.__module__ == module.__name__
    ]
    if name is not None:
        return next(each for each in own if each.__name__ == name)
    return next(each for each in own if each.__type__ is kind)


def made(kind: Any, **given: Any) -> Any:
    """An entity of these fields: entities in it are mappings, durations milliseconds."""
    return kind(
        **{
            each.name: _as_kio(each, given[each.name])
            for each in fields(kind)
            if each.name in given
        }
    )


def _as_kio(field: Any, value: Any) -> Any:
    inside = _inside(field.type)
    if value is None:
        return None
    if hasattr(inside, "__type__"):
        return tuple(made(inside, **each) for each in value)
    if field.metadata["kafka_type"].startswith("timedelta"):
        return timedelta(milliseconds=value)
    return tuple(value) if isinstance(value, list) else value


def _inside(kind: Any) -> Any:
    """The type in a tuple, or in something that may be null."""
    if get_origin(kind) is tuple:
        return _inside(get_args(kind)[0])
    if NoneType in get_args(kind):
        return _inside(next(each for each in get_args(kind) if each is not NoneType))
    return kind


def framed(api: Api, version: int, body: Any, *, client: str = "tests", number: int = 1) -> bytes:
    """A request as it is sent, without the frame's length."""
    name = client.encode()
    head = struct.pack(">hhih", api.key, version, number, len(name)) + name
    if type(body).__header_schema__.__version__ >= 2:
        head += b"\0"
    buffer = BytesIO()
    entity_writer(type(body))(buffer, body)
    return head + buffer.getvalue()


def understood(api: Api, version: int, data: bytes) -> tuple[int, Any]:
    """A response's number, and what it says; it ends where it should."""
    (number,) = struct.unpack_from(">i", data)
    kind = entity(api, version, EntityType.response)
    position = 4
    if kind.__header_schema__.__version__ >= 1:
        position = skip_tags(memoryview(data), position)
    answer, size = entity_reader(kind)(data, position)
    assert position + size == len(data), "there is more than the answer"
    return number, answer


class KafkaCaller:
    """One connection to a simulated broker."""

    def __init__(self, sim: Simulator, broker: int = 1, *, client: str = "tests") -> None:
        self.sim = sim
        self.client = client
        self.line = sim.listeners[f"broker-{broker}"].connect("stranger")
        self._number = 0

    def say(self, api: str, version: int, **given: Any) -> int:
        """Ask, and do not wait; the answer is the request's number."""
        self._number += 1
        body = made(entity(NAMES[api], version, EntityType.request), **given)
        self.line.say(framed(NAMES[api], version, body, client=self.client, number=self._number))
        return self._number

    async def ask(self, api: str, version: int, **given: Any) -> Any:
        """Ask, and wait for the answer to just this."""
        before = len(self.line.heard)
        number = self.say(api, version, **given)
        await self.sim.until(lambda: len(self.line.heard) > before or not self.line.is_open)
        assert self.line.is_open or len(self.line.heard) > before, self.line.refusal
        answered, answer = understood(NAMES[api], version, self.line.heard[before])
        assert answered == number
        return answer

    def heard(self, at: int, api: str, version: int) -> tuple[int, Any]:
        """What was heard as the so-manieth."""
        return understood(NAMES[api], version, self.line.heard[at])


# --- what is often said ---------------------------------------------------------------------------

ORDERS = TopicPartition("orders", 0)
NOBODY = UUID(int=7)  # no topic has this id


def batch(*times: int) -> bytes:
    return bytes(
        encode_batch([Record(offset=n, timestamp_ms=ms, value=b"v") for n, ms in enumerate(times)])
    )


async def produce(caller, records: bytes, topic: str = "orders", version: int = 3):
    data = [{"index": 0, "records": records}]
    answer = await caller.ask(
        "Produce",
        version,
        acks=-1,
        timeout=5_000,
        topic_data=[{"name": topic, "partition_data": data}],
    )
    return answer.responses[0].partition_responses[0]


def id_of(drive, topic: str = "orders") -> UUID:
    return uuid_of(drive.node(1).replica_manager.cache.topic_ids[topic])


async def offsets_of(caller, version: int, timestamp: int):
    wanted = [{"partition_index": 0, "timestamp": timestamp}]
    topics = [{"name": "orders", "partitions": wanted}]
    answer = await caller.ask(
        "ListOffsets", version, replica_id=-1, isolation_level=0, topics=topics
    )
    return answer.topics[0].partitions


# --- anything that a client could say -------------------------------------------------------------

NAMES_OF_THINGS = st.one_of(
    st.sampled_from(["orders", "", "__consumer_offsets", "nobody", "1", "retention.ms", "PLAIN"]),
    st.text(max_size=8),
)
_WHOLE = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


def requests_of(api: Api, version: int) -> st.SearchStrategy[Any]:
    """Any request of a version, however foolish."""
    return _entities(entity(api, version, EntityType.request))


def _entities(kind: Any) -> st.SearchStrategy[Any]:
    return st.builds(kind, **{each.name: _values(each) for each in fields(kind)})


def _values(field: Any) -> st.SearchStrategy[Any]:
    kind, kafka_type = _inside(field.type), field.metadata.get("kafka_type", "")
    one: st.SearchStrategy[Any]
    if hasattr(kind, "__type__"):
        one = _entities(kind)
    elif kafka_type in _WHOLE:
        most = 2 ** (_WHOLE[kafka_type] - 1)
        one = st.one_of(st.integers(-5, 5), st.integers(-most, most - 1))
    elif kafka_type == "string":
        one = NAMES_OF_THINGS
    elif kafka_type in {"bytes", "records"}:
        one = st.binary(max_size=100)
    elif kafka_type == "bool":
        one = st.booleans()
    elif kafka_type == "uuid":
        one = st.builds(UUID, int=st.integers(0, 3))
    else:
        assert kafka_type.startswith("timedelta"), kafka_type
        one = st.integers(-10, 2**31 - 1).map(lambda ms: timedelta(milliseconds=ms))
    if get_origin(field.type) is tuple or any(
        get_origin(each) is tuple for each in get_args(field.type)
    ):
        one = st.lists(one, max_size=3).map(tuple)
    elif NoneType in get_args(field.type) and kafka_type != "uuid":
        one = st.none() | one
    return one
