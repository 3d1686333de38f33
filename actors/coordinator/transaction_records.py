"""Kafka's own format of what is in __transaction_state.

Rule: a key or value begins with its version, which is 0. A value of None forgets the id.

    key     transactional id string
    value   producer id int64, producer epoch int16, timeout int32, state int8,
            partitions: null, or an array of topic string and an array of partition int32,
            last update int64, start int64
"""

import struct
from collections.abc import Iterator
from itertools import groupby
from typing import Final, TypeAlias

from actors.administration.auto_topics import TRANSACTIONS_TOPIC
from actors.coordinator.records import decode_data
from actors.coordinator.transaction_states import EMPTY, TransactionState, TransactionValue
from wire.errors import InvalidRecord
from wire.fields import INT16, INT32, INT64, Reader, string
from wire.ids import Offset, ProducerEpoch, ProducerId, TopicPartition
from wire.records import Buffer, Record, encode_batch

_VERSION: Final = 0
_INT8: Final = struct.Struct(">b")

TransactionChange: TypeAlias = tuple[str, TransactionValue | None]  # None: a tombstone


def encode_transaction(change: TransactionChange, now_ms: int) -> bytearray:
    """A batch with this one change."""
    transactional_id, value = change
    record = Record(
        offset=Offset(0),
        timestamp_ms=now_ms,
        key=INT16.pack(_VERSION) + string(transactional_id),
        value=None if value is None else encode_value(value),
    )
    return encode_batch([record])


def encode_value(value: TransactionValue) -> bytes:
    """As Kafka writes it: an id without a transaction has no partitions."""
    parts = [
        INT16.pack(_VERSION),
        INT64.pack(value.producer_id),
        INT16.pack(value.producer_epoch),
        INT32.pack(value.timeout_ms),
        _INT8.pack(value.state),
    ]
    if value.state is EMPTY:
        parts.append(INT32.pack(-1))
    else:
        topics = [
            (topic, [each.partition for each in partitions])
            for topic, partitions in groupby(sorted(value.partitions), key=lambda at: at.topic)
        ]
        parts.append(INT32.pack(len(topics)))
        for topic, numbers in topics:
            parts += string(topic), INT32.pack(len(numbers)), *map(INT32.pack, numbers)
    return b"".join((*parts, INT64.pack(value.update_ms), INT64.pack(value.start_ms)))


def decode_transactions(buffer: Buffer, first_offset: Offset) -> Iterator[TransactionChange]:
    """The changes from an offset on; raises an ApiError at what is unreadable."""
    for record in decode_data(buffer, first_offset):
        if record.key is None:
            raise InvalidRecord(f"a record without a key in {TRANSACTIONS_TOPIC}")
        reader = Reader(record.key)
        if reader.number(INT16) == _VERSION:  # else it speaks of something newer
            value = None if record.value is None else decode_value(record.value)
            yield reader.string(), value


def decode_value(data: bytes) -> TransactionValue:
    """What a record says."""
    reader = Reader(data)
    version = reader.number(INT16)
    if version != _VERSION:
        raise InvalidRecord(f"a transaction of version {version}")
    producer, epoch = reader.number(INT64), reader.number(INT16)
    timeout_ms, state = reader.number(INT32), reader.number(_INT8)
    topics = reader.number(INT32)
    partitions = frozenset(
        TopicPartition(topic, reader.number(INT32))
        for topic in (reader.string() for _ in range(max(0, topics)))
        for _ in range(reader.count())
    )
    try:
        known = TransactionState(state)
    except ValueError:
        raise InvalidRecord(f"a transaction in state {state}") from None
    return TransactionValue(
        producer_id=ProducerId(producer),
        producer_epoch=ProducerEpoch(epoch),
        timeout_ms=timeout_ms,
        state=known,
        partitions=partitions,
        update_ms=reader.number(INT64),
        start_ms=reader.number(INT64),
    )
