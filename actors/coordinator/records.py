"""Kafka's own format of what is in __consumer_offsets.

Rule: a key or value begins with its version. An offset's key is written as version 1 and its value
as version 3, as Kafka does since 2.1; versions 0 to 3 of the value are read. A key of any other
version is somebody else's, as 2 is the group protocol's, and no error. A value of None forgets.

    key   0, 1   group string, topic string, partition int32
    value 0, 2   offset int64,                     metadata string, commit time int64
    value 1      offset int64,                     metadata string, commit time int64, expiry int64
    value 3      offset int64, leader epoch int32, metadata string, commit time int64
"""

import struct
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from msgspec import Struct

from wire.errors import InvalidRecord
from wire.ids import (
    NO_LEADER_EPOCH,
    NO_TIMESTAMP_MS,
    LeaderEpoch,
    Offset,
    TopicPartition,
)
from wire.records import Buffer, Record, batches, decode_records, encode_batch, verify

OFFSETS_TOPIC: Final = "__consumer_offsets"
MAX_STRING_BYTES: Final = 2**15 - 1

_KEY_VERSION: Final = 1
_KEY_VERSIONS: Final = frozenset({0, 1})
_VALUE_VERSION: Final = 3
_VALUE_VERSIONS: Final = frozenset({0, 1, 2, 3})

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")


class OffsetKey(Struct, frozen=True, order=True, gc=False):
    """Whose offset, and of what."""

    group: str
    partition: TopicPartition


class OffsetValue(Struct, frozen=True, kw_only=True, gc=False):
    """What was committed, and when."""

    offset: Offset
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH
    metadata: str = ""
    commit_timestamp_ms: int
    # When it goes, whatever the retention; only clients before Kafka 2.1 could ask for it.
    expire_timestamp_ms: int = NO_TIMESTAMP_MS


Change: TypeAlias = tuple[OffsetKey, OffsetValue | None]  # None: a tombstone


def encode_changes(changes: Sequence[Change], now_ms: int) -> bytearray:
    """One batch with a record for each change, in their order."""
    return encode_batch(
        [
            Record(
                offset=Offset(index),
                timestamp_ms=now_ms,
                key=encode_key(key),
                value=None if value is None else encode_value(value),
            )
            for index, (key, value) in enumerate(changes)
        ]
    )


def decode_changes(buffer: Buffer, first_offset: Offset) -> Iterator[tuple[Offset, Change]]:
    """The changes from an offset on, each with its own; raises an ApiError at what is unreadable.

    A batch is read whole, and may begin before the offset. Markers of transactions tell nothing.
    """
    for batch in batches(buffer):
        verify(batch)
        if batch.header.is_control:
            continue
        for record in decode_records(batch):
            key = None if record.offset < first_offset else decode_key(record.key)
            if key is not None:
                value = None if record.value is None else decode_value(record.value)
                yield record.offset, (key, value)


def encode_key(key: OffsetKey) -> bytes:
    """An offset's key, as Kafka writes it."""
    topic, number = key.partition.topic, key.partition.partition
    return b"".join(
        (_INT16.pack(_KEY_VERSION), _string(key.group), _string(topic), _INT32.pack(number))
    )


def encode_value(value: OffsetValue) -> bytes:
    """An offset's value, as Kafka writes it."""
    return b"".join(
        (
            _INT16.pack(_VALUE_VERSION),
            _INT64.pack(value.offset),
            _INT32.pack(value.leader_epoch),
            _string(value.metadata),
            _INT64.pack(value.commit_timestamp_ms),
        )
    )


def decode_key(data: bytes | None) -> OffsetKey | None:
    """An offset's key; None if it is the key of something else."""
    if data is None:
        raise InvalidRecord(f"a record without a key in {OFFSETS_TOPIC}")
    reader = _Reader(data)
    if reader.number(_INT16) not in _KEY_VERSIONS:
        return None
    group, topic = reader.string(), reader.string()
    return OffsetKey(group, TopicPartition(topic, reader.number(_INT32)))


def decode_value(data: bytes) -> OffsetValue:
    """An offset's value, of any version there is."""
    reader = _Reader(data)
    version = reader.number(_INT16)
    if version not in _VALUE_VERSIONS:
        raise InvalidRecord(f"a committed offset of version {version}")
    offset = Offset(reader.number(_INT64))
    epoch = LeaderEpoch(reader.number(_INT32)) if version == _VALUE_VERSION else NO_LEADER_EPOCH
    return OffsetValue(
        offset=offset,
        leader_epoch=epoch,
        metadata=reader.string(),
        commit_timestamp_ms=reader.number(_INT64),
        expire_timestamp_ms=reader.number(_INT64) if version == 1 else NO_TIMESTAMP_MS,
    )


def fits(text: str) -> bool:
    """Whether a string can be written."""
    return len(text) <= MAX_STRING_BYTES and len(text.encode()) <= MAX_STRING_BYTES


def _string(text: str) -> bytes:
    data = text.encode()
    assert len(data) <= MAX_STRING_BYTES, "whoever takes a string in asks whether it fits"
    return _INT16.pack(len(data)) + data


class _Reader:
    """Field after field; what is missing is an InvalidRecord."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def number(self, kind: struct.Struct) -> int:
        data = self._take(kind.size)
        number: int = kind.unpack(data)[0]
        return number

    def string(self) -> str:
        try:
            return self._take(self.number(_INT16)).decode()
        except UnicodeDecodeError as error:
            raise InvalidRecord(f"a string that is none: {error}") from error

    def _take(self, length: int) -> bytes:
        end = self._position + length
        if length < 0 or end > len(self._data):
            raise InvalidRecord(f"{length} bytes wanted at {self._position} of {len(self._data)}")
        data = self._data[self._position : end]
        self._position = end
        return data
