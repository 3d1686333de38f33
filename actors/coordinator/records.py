"""Kafka's own format of what is in __consumer_offsets.

Rule: a key or value begins with its version. An offset's key is written as version 1 and its value
as version 3, as Kafka does since 2.1, or as 1 if it has an expiry; versions 0 to 3 of the value are
read. A key of version 2 is a group's (group_records.py), of any other version somebody else's, and
no error. A value of None forgets.

    key   0, 1   group string, topic string, partition int32
    value 0, 2   offset int64,                     metadata string, commit time int64
    value 1      offset int64,                     metadata string, commit time int64, expiry int64
    value 3      offset int64, leader epoch int32, metadata string, commit time int64
"""

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from msgspec import Struct

from wire.errors import InvalidRecord
from wire.fields import INT16, INT32, INT64, Reader, string
from wire.ids import (
    NO_LEADER_EPOCH,
    NO_TIMESTAMP_MS,
    LeaderEpoch,
    Offset,
    TopicPartition,
)
from wire.records import Buffer, Record, batches, decode_records, encode_batch, verify

OFFSETS_TOPIC: Final = "__consumer_offsets"

_KEY_VERSION: Final = 1
_KEY_VERSIONS: Final = frozenset({0, 1})
_VALUE_VERSION: Final = 3
_EXPIRING_VERSION: Final = 1
_VALUE_VERSIONS: Final = frozenset({0, 1, 2, 3})


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
    for record in decode_data(buffer, first_offset):
        change = decode_change(record)
        if change is not None:
            yield record.offset, change


def decode_change(record: Record) -> Change | None:
    """What a record says of an offset; None if it speaks of something else."""
    key = decode_key(record.key)
    if key is None:
        return None
    return key, None if record.value is None else decode_value(record.value)


def decode_data(buffer: Buffer, first_offset: Offset) -> Iterator[Record]:
    """The records from an offset on, but for markers."""
    for batch in batches(buffer):
        verify(batch)
        if not batch.header.is_control:
            for record in decode_records(batch):
                if record.offset >= first_offset:
                    yield record


def encode_key(key: OffsetKey) -> bytes:
    """An offset's key, as Kafka writes it."""
    topic, number = key.partition.topic, key.partition.partition
    return b"".join(
        (INT16.pack(_KEY_VERSION), string(key.group), string(topic), INT32.pack(number))
    )


def encode_value(value: OffsetValue) -> bytes:
    """An offset's value, as Kafka writes it."""
    if value.expire_timestamp_ms != NO_TIMESTAMP_MS:
        return b"".join(
            (
                INT16.pack(_EXPIRING_VERSION),
                INT64.pack(value.offset),
                string(value.metadata),
                INT64.pack(value.commit_timestamp_ms),
                INT64.pack(value.expire_timestamp_ms),
            )
        )
    return b"".join(
        (
            INT16.pack(_VALUE_VERSION),
            INT64.pack(value.offset),
            INT32.pack(value.leader_epoch),
            string(value.metadata),
            INT64.pack(value.commit_timestamp_ms),
        )
    )


def decode_key(data: bytes | None) -> OffsetKey | None:
    """An offset's key; None if it is the key of something else."""
    if data is None:
        raise InvalidRecord(f"a record without a key in {OFFSETS_TOPIC}")
    reader = Reader(data)
    if reader.number(INT16) not in _KEY_VERSIONS:
        return None
    group, topic = reader.string(), reader.string()
    return OffsetKey(group, TopicPartition(topic, reader.number(INT32)))


def decode_value(data: bytes) -> OffsetValue:
    """An offset's value, of any version there is."""
    reader = Reader(data)
    version = reader.number(INT16)
    if version not in _VALUE_VERSIONS:
        raise InvalidRecord(f"a committed offset of version {version}")
    offset = Offset(reader.number(INT64))
    epoch = LeaderEpoch(reader.number(INT32)) if version == _VALUE_VERSION else NO_LEADER_EPOCH
    return OffsetValue(
        offset=offset,
        leader_epoch=epoch,
        metadata=reader.string(),
        commit_timestamp_ms=reader.number(INT64),
        expire_timestamp_ms=reader.number(INT64)
        if version == _EXPIRING_VERSION
        else NO_TIMESTAMP_MS,
    )
