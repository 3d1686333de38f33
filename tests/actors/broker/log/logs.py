"""Logs to test with, and what must hold of each."""

import struct
from collections.abc import Coroutine, Iterable, Iterator
from contextlib import closing
from typing import Any

import pytest
from crc32c import crc32c

from actors.broker.log.config import LogConfig
from actors.broker.log.log import Log
from runtime.files import Disk
from wire.ids import LeaderEpoch, Offset
from wire.records import CRC_STARTS_AT, BatchHeader, Record, batches, encode_batch, verify

FOLDER = "orders-0"
NOW_MS = 1_000_000
EPOCH = LeaderEpoch(0)
SMALL = LogConfig(segment_bytes=300, index_interval_bytes=100)


def a_batch(*values: bytes, at_ms: int | Iterable[int] = NOW_MS, base_offset: int = 0) -> bytearray:
    """As a producer sends it."""
    times = [at_ms] * len(values) if isinstance(at_ms, int) else list(at_ms)
    return encode_batch(
        [
            Record(offset=Offset(base_offset + number), timestamp_ms=time_ms, key=b"k", value=value)
            for number, (value, time_ms) in enumerate(zip(values, times, strict=True))
        ]
    )


def with_attributes(batch: bytearray, attributes: int) -> bytearray:
    """The batch with these, whatever they claim, and the CRC that belongs to its bytes."""
    struct.pack_into(">h", batch, CRC_STARTS_AT, attributes)
    struct.pack_into(">I", batch, CRC_STARTS_AT - 4, crc32c(bytes(batch[CRC_STARTS_AT:])))
    return batch


def from_leader(value: bytes, base_offset: int, epoch: int = 0) -> bytearray:
    """As a follower fetches it."""
    record = Record(offset=Offset(base_offset), timestamp_ms=NOW_MS, value=value)
    return encode_batch([record], partition_leader_epoch=LeaderEpoch(epoch))


def opened(disk: Disk, config: LogConfig = SMALL, *, is_clean: bool = False, **options: Any) -> Log:
    return Log.open(disk, FOLDER, config, now_ms=NOW_MS, is_clean=is_clean, **options)


def append(log: Log, *values: bytes, epoch: int = 0, at_ms: int = NOW_MS) -> None:
    """A batch for each value."""
    for value in values:
        log.append_as_leader(a_batch(value, at_ms=at_ms), LeaderEpoch(epoch), at_ms)


def read_all(log: Log) -> bytes:
    """Everything, segment by segment."""
    found, offset = b"", log.log_start_offset
    while data := log.read(offset, 1 << 30):
        found += data
        offset = list(batches(data))[-1].header.next_offset
    return found


def headers_of(log: Log) -> list[BatchHeader]:
    return [batch.header for batch in batches(read_all(log))]


def content(disk: Disk, path: str) -> bytes:
    with closing(disk.open(path)) as file:
        return file.read_at(0, file.size)


def now(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run to its end what has nothing to wait for."""
    with pytest.raises(StopIteration):
        coroutine.send(None)


def files_of(disk: Disk, kind: str) -> dict[int, bytes]:
    return {
        int(name[:20]): content(disk, f"{FOLDER}/{name}")
        for name in (disk.list(FOLDER) if disk.exists(FOLDER) else ())
        if name.endswith(kind)
    }


def check_indexes(log: Log, disk: Disk) -> None:
    """I-23: entries point at batch starts, rise, and tell the truth."""
    for base, data in files_of(disk, ".index").items():
        log_data = content(disk, f"{FOLDER}/{base:020}.log")
        found = {batch.position: batch.header for batch in batches(log_data)}
        assert sum(header.size_in_bytes for header in found.values()) == len(log_data)
        for batch in batches(log_data):
            verify(batch)
        last = (-1, -1)
        for relative, position in struct.iter_unpack(">ii", data):
            assert found[position].last_offset == base + relative
            assert relative > last[0]
            assert position > last[1]
            last = relative, position
        check_times(base, list(found.values()), content(disk, f"{FOLDER}/{base:020}.timeindex"))
    assert [segment.base_offset for segment in log.segments] == sorted(files_of(disk, ".log"))


def check_times(base: int, headers: list[BatchHeader], data: bytes) -> None:
    """Up to an entry's offset no record is later than its time."""
    last = -1
    for time_ms, relative in struct.iter_unpack(">qi", data):
        assert time_ms > last
        upto = [each for each in headers if each.last_offset <= base + relative]
        assert max(each.max_timestamp_ms for each in upto) == time_ms
        last = time_ms


def values_of(data: bytes) -> Iterator[bytes]:
    """The last byte of each batch's records' bytes will do to tell them apart."""
    for batch in batches(data):
        yield bytes(batch.data[61:])
