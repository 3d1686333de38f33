"""The end of a transaction in a log: a control batch with one record, Kafka's EndTransactionMarker.

Rule: a marker's key says whether the transaction was committed, its value which coordinator said
so; its batch names the producer. What is no such batch is a CorruptRecordBatch.
"""

import struct
from typing import Final

from msgspec import Struct

from wire.errors import CorruptRecordBatch
from wire.ids import NO_SEQUENCE, Offset, ProducerEpoch, ProducerId
from wire.records import (
    Attributes,
    ProducerStamp,
    Record,
    RecordBatch,
    decode_records,
    encode_batch,
)

_KEY: Final = struct.Struct(">hh")  # version, and 0 for aborted or 1 for committed
_VALUE: Final = struct.Struct(">hi")  # version, and the coordinator's epoch
_VERSION: Final = 0


class Marker(Struct, frozen=True, gc=False):
    """How a transaction ended, and in which epoch of its coordinator's partition."""

    is_committed: bool
    coordinator_epoch: int


def encode_marker(
    producer: ProducerId, epoch: ProducerEpoch, marker: Marker, now_ms: int
) -> bytearray:
    """The batch that ends a producer's transaction."""
    record = Record(
        offset=Offset(0),
        timestamp_ms=now_ms,
        key=_KEY.pack(_VERSION, marker.is_committed),
        value=_VALUE.pack(_VERSION, marker.coordinator_epoch),
    )
    stamp = ProducerStamp(producer_id=producer, producer_epoch=epoch, base_sequence=NO_SEQUENCE)
    attributes = Attributes.TRANSACTIONAL | Attributes.CONTROL
    return encode_batch([record], attributes=attributes, producer=stamp)


def decode_marker(batch: RecordBatch) -> Marker | None:
    """The marker in a control batch; None if compaction took it, or it is another control record.

    As ControlRecordType: later versions may have more behind these fields.
    """
    records = decode_records(batch)
    if not records:
        return None
    key, value = records[0].key or b"", records[0].value or b""
    if len(key) < _KEY.size:
        raise CorruptRecordBatch(f"a control record with a key of {len(key)} bytes")
    version, kind = _KEY.unpack_from(key)
    if version < 0 or kind not in {0, 1}:
        return None
    if len(value) < _VALUE.size:
        raise CorruptRecordBatch(f"a marker with a value of {len(value)} bytes")
    return Marker(bool(kind), _VALUE.unpack_from(value)[1])
