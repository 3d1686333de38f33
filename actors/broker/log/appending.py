"""What may be appended to a log, decided before anything is written.

Rule: all of it is sound or all of it is refused. A leader gives each batch its offsets and epoch in
place and stores the other bytes as they came (D6); a follower stores what the leader has, as it is.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from actors.broker.log.config import LogConfig, TimestampType
from runtime.files import Data
from wire.errors import (
    CorruptRecordBatch,
    ErrorCode,
    InvalidRecord,
    MessageTooLarge,
    exception_of,
)
from wire.ids import NO_PRODUCER_ID, LeaderEpoch, Offset
from wire.markers import Marker, decode_marker
from wire.packing import Compression
from wire.records import (
    HEADER_BYTES,
    BatchHeader,
    Buffer,
    RecordBatch,
    assign,
    batches,
    decode_header,
    decode_records,
    stamp_append_time,
    unpacked,
    verify,
)

RecordBatchTooLarge: Final = exception_of(ErrorCode.RECORD_LIST_TOO_LARGE)

_WORTH_SPARING: Final = 32 * 1024  # to copy a smaller batch costs less than to write it in parts


class UnexpectedAppend(Exception):
    """What a follower was given does not continue its log. It is a bug, here or at its leader."""


class UnexpectedAppendOffset(UnexpectedAppend):
    """The batch begins before the log's end, or leaves a gap that compaction does not explain."""


class FallingLeaderEpoch(UnexpectedAppend):
    """The batch is of an earlier leader than the one before it."""


class Appended(Struct, frozen=True, kw_only=True):
    """What an append did."""

    first_offset: Offset
    last_offset: Offset  # one less than the first if there was nothing to append
    log_append_time_ms: int  # NO_TIMESTAMP_MS if records keep their producer's time
    log_start_offset: Offset
    has_rolled: bool  # a segment is complete: worth a flush, and a reason to answer fetches (B165)
    is_duplicate: bool = False  # it was there already, and nothing was appended


NO_MARKERS: Final[Mapping[int, Marker]] = MappingProxyType({})


class Accepted(Struct, frozen=True):
    """Sound batches, as they will be written."""

    data: memoryview
    headers: list[BatchHeader]
    heads: list[bytearray] | None = None  # instead of the first bytes of each batch in the data
    markers: Mapping[int, Marker] = NO_MARKERS  # by the number of their batch

    def parts(self, start: int, end: int, first: int, count: int) -> list[Data]:
        """The bytes between two positions, where so many batches are, from one of them on."""
        if self.heads is None:
            return [self.data if end - start == len(self.data) else self.data[start:end]]
        parts: list[Data] = []
        for number in range(first, first + count):
            end = start + self.headers[number].size_in_bytes
            parts += self.heads[number], self.data[start + HEADER_BYTES : end]
            start = end
        return parts


def accept_from_producer(
    data: Buffer,
    end_offset: Offset,
    leader_epoch: LeaderEpoch,
    now_ms: int,
    config: LogConfig,
    *,
    is_internal: bool = False,
) -> Accepted:
    """Check, then give offsets from `end_offset` on.

    Of what cannot be written to, the headers are copied, or all of it if there is little to gain.
    `is_internal`: it comes from a coordinator, which alone writes markers.
    """
    view = memoryview(data).cast("B")
    found = list(batches(view))
    if not found or _size(found) != len(view):
        raise CorruptRecordBatch(f"{len(view)} bytes that do not end with a whole batch")
    for batch in found:
        _check_from_producer(batch, config, is_internal=is_internal)
        if batch.header.producer_id > NO_PRODUCER_ID and not is_internal:
            _check_stamp(batch.header, len(found))
    markers = _markers_in(found)
    is_stamped = config.message_timestamp_type is TimestampType.LOG_APPEND_TIME
    heads: list[bytearray] | None = None
    if view.readonly:
        if is_stamped or len(view) < _WORTH_SPARING * len(found):
            view = memoryview(bytearray(view))
        else:
            heads = [bytearray(batch.data[:HEADER_BYTES]) for batch in found]
    headers = []
    for number, batch in enumerate(found):
        place, at = (view, batch.position) if heads is None else (heads[number], 0)
        if is_stamped:
            stamp_append_time(view, at, timestamp_ms=now_ms)
        assign(place, at, base_offset=end_offset, leader_epoch=leader_epoch)
        header = decode_header(place, at)
        headers.append(header)
        end_offset = header.next_offset
    return Accepted(view, headers, heads, markers)


def accept_from_leader(
    data: Buffer,
    end_offset: Offset,
    latest_epoch: LeaderEpoch,
    config: LogConfig,
    *,
    may_fall: bool = False,
) -> Accepted:
    """Check that it continues the log; a batch cut short at the end of a fetch is left out.

    `may_fall`: take batches of earlier leaders, too, as Kafka did before it could tell (H19).
    """
    view = memoryview(data).cast("B")
    found = list(batches(view))
    for batch in found:
        verify(batch)
        header = batch.header
        has_gap = header.base_offset > end_offset and not config.is_compacted
        if header.base_offset < end_offset or has_gap:
            raise UnexpectedAppendOffset(
                f"a batch from offset {header.base_offset} on, at the log's end {end_offset}"
            )
        if header.partition_leader_epoch < latest_epoch and not may_fall:
            raise FallingLeaderEpoch(
                f"offset {header.base_offset} is of epoch {header.partition_leader_epoch}, "
                f"after epoch {latest_epoch}"
            )
        end_offset, latest_epoch = header.next_offset, header.partition_leader_epoch
    headers = [batch.header for batch in found]
    return Accepted(view[: _size(found)], headers, markers=_markers_in(found))


def _size(found: Sequence[RecordBatch]) -> int:
    return sum(batch.header.size_in_bytes for batch in found)


def _markers_in(found: Sequence[RecordBatch]) -> Mapping[int, Marker]:
    markers = NO_MARKERS
    for number, batch in enumerate(found):
        if batch.header.is_control:
            marker = decode_marker(batch)
            if marker is not None:
                markers = {**markers, number: marker}
    return markers


def _check_from_producer(batch: RecordBatch, config: LogConfig, *, is_internal: bool) -> None:
    header, size = batch.header, batch.header.size_in_bytes
    if size > config.max_message_bytes:
        raise MessageTooLarge(
            f"a batch of {size} bytes, and {config.max_message_bytes} are allowed"
        )
    if size > config.segment_bytes:
        raise RecordBatchTooLarge(f"a batch of {size} bytes fits no segment")
    verify(batch)
    # As LogValidator.validateBatch: only compaction may leave records out.
    if header.record_count != header.last_offset_delta + 1:
        raise InvalidRecord(
            f"{header.record_count} records at {header.last_offset_delta + 1} offsets"
        )
    # As LogValidator.validateBatch: markers are written by brokers.
    if header.is_control and not is_internal:
        raise InvalidRecord("a control batch, and a producer may not write any")
    try:
        compression = header.compression
    except CorruptRecordBatch as error:
        raise InvalidRecord(str(error)) from error
    if config.is_compacted and not header.is_control:
        _check_keys(batch)
    elif compression is not Compression.NONE:
        _check_packing(batch)


def _check_packing(batch: RecordBatch) -> None:
    """What cannot be unpacked could be read by nobody."""
    try:
        unpacked(batch)
    except CorruptRecordBatch as error:  # its CRC is right: to send it again would not help
        raise InvalidRecord(str(error)) from error


def _check_stamp(header: BatchHeader, batches_sent: int) -> None:
    """As LogValidator.validateBatch; two batches at once could be a duplicate and its follower."""
    if header.base_sequence < 0 or header.producer_epoch < 0:
        raise InvalidRecord(
            f"producer {header.producer_id} sends sequence {header.base_sequence} "
            f"of epoch {header.producer_epoch}"
        )
    if batches_sent != 1:
        raise InvalidRecord(f"{batches_sent} batches of a producer, and it may send one at a time")


def _check_keys(batch: RecordBatch) -> None:
    """Compaction keeps the last record of a key, so each must have one."""
    _check_packing(batch)
    for record in decode_records(batch):
        if record.key is None:
            raise InvalidRecord("a record without a key, for a log that is compacted")
