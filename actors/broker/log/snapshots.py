"""Files in which a log notes what it knows of its producers: `<offset>.snapshot`, as Kafka's.

Rule: a snapshot says what follows from all batches before its offset, of each producer its last
batch. Its CRC tells whether it is whole; whoever meets a bad one goes by an earlier one.

    version int16 = 1, CRC-32C int32 of what follows, count int32, and for each producer:
    id int64, epoch int16, last sequence int32, last offset int64, offset delta int32,
    timestamp int64, coordinator epoch int32, first offset of its open transaction int64
"""

import re
import struct
from typing import Final

from crc32c import crc32c

from actors.broker.log.checkpoints import read_whole
from actors.broker.log.producers import KnownProducer, ProducerStates, WrittenBatch
from runtime.files import Disk
from wire.errors import CorruptRecordBatch
from wire.ids import NO_OFFSET, NO_SEQUENCE, Offset, ProducerEpoch, ProducerId

SNAPSHOT: Final = ".snapshot"

_VERSION: Final = 1
_HEAD: Final = struct.Struct(">hI")
_COUNT: Final = struct.Struct(">i")
_ENTRY: Final = struct.Struct(">qhiqiqiq")
_NAME: Final = re.compile(r"(\d{20})\.snapshot")


def snapshot_name(offset: Offset) -> str:
    """For instance 00000000000000000042.snapshot."""
    return f"{offset:020}{SNAPSHOT}"


def snapshot_offset(name: str) -> Offset | None:
    """Of a file with this name; None if it is no snapshot."""
    found = _NAME.fullmatch(name)
    return None if found is None else Offset(int(found[1]))


def encode_snapshot(states: ProducerStates) -> bytes:
    """The file's content."""
    entries = b"".join(_entry_of(each) for each in states)
    body = _COUNT.pack(len(states)) + entries
    return _HEAD.pack(_VERSION, crc32c(body)) + body


def _entry_of(known: KnownProducer) -> bytes:
    last = known.batches[-1] if known.batches else WrittenBatch(NO_SEQUENCE, NO_OFFSET, 0, 0)
    begun = NO_OFFSET if known.transaction_offset is None else known.transaction_offset
    return _ENTRY.pack(
        known.producer_id,
        known.epoch,
        last.last_sequence,
        last.last_offset,
        last.offset_delta,
        known.timestamp_ms,
        known.coordinator_epoch,
        begun,
    )


def decode_snapshot(data: bytes, path: str, now_ms: int) -> ProducerStates:
    """What a file holds, as if all in it were heard now; CorruptRecordBatch if it is not whole."""
    if len(data) < _HEAD.size + _COUNT.size:
        raise CorruptRecordBatch(f"{path} has {len(data)} bytes: it is cut short")
    version, crc = _HEAD.unpack_from(data)
    body = memoryview(data)[_HEAD.size :]
    (count,) = _COUNT.unpack_from(body)
    if version != _VERSION:
        raise CorruptRecordBatch(f"{path} is of version {version}, not {_VERSION}")
    if len(body) != _COUNT.size + count * _ENTRY.size or crc32c(body) != crc:
        raise CorruptRecordBatch(f"{path} is not what its CRC says")
    entries = _ENTRY.iter_unpack(body[_COUNT.size :])
    return ProducerStates(_known_of(entry, now_ms) for entry in entries)


def _known_of(entry: tuple[int, ...], now_ms: int) -> KnownProducer:
    producer, epoch, sequence, offset, delta, timestamp_ms, coordinator_epoch, begun = entry
    # As ProducerStateManager.readSnapshot: one that only ended transactions has no batch.
    batch = WrittenBatch(sequence, Offset(offset), delta, timestamp_ms)
    return KnownProducer(
        ProducerId(producer),
        ProducerEpoch(epoch),
        (batch,) if offset >= 0 and sequence >= 0 else (),
        now_ms,
        timestamp_ms,
        coordinator_epoch,
        Offset(begun) if begun >= 0 else None,
    )


def read_snapshot(disk: Disk, path: str, now_ms: int) -> ProducerStates:
    """What a file holds; CorruptRecordBatch if it is not whole, or gone."""
    return decode_snapshot(read_whole(disk, path) or b"", path, now_ms)
