"""What is in a log's files, by the names that kafka-dump-log gives it.

Rule: it only reads, and reads files of any age: what is wrong in one is told with its place.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from actors.broker.log.names import LOG, parse_name
from wire.errors import ApiError
from wire.packing import Compression
from wire.records import RecordBatch, batches, decode_records, verify

MOST_BYTES: Final = 1 << 30


class Unreadable(Exception):
    """A file that cannot be shown; the sentence says why."""


def batches_in(path: Path, content: bytes) -> Iterator[RecordBatch]:
    """Each batch with its place; what is no batch ends it with a sentence."""
    end = 0
    try:
        for batch in batches(content):
            yield batch
            end = batch.position + batch.header.size_in_bytes
    except (ApiError, ValueError) as error:
        raise Unreadable(f"{path} has no batch at {end}: {error}") from None
    if end < len(content):
        raise Unreadable(f"{path} ends in {len(content) - end} bytes that are no batch, at {end}")


def describe(batch: RecordBatch) -> dict[str, Any]:
    """A batch's head, by Kafka's names and in Kafka's order."""
    head = batch.header
    base, count = head.base_sequence, head.record_count
    return {
        "baseOffset": head.base_offset,
        "lastOffset": head.last_offset,
        "count": count,
        "baseSequence": base,
        "lastSequence": -1 if base < 0 else base + count - 1,
        "producerId": head.producer_id,
        "producerEpoch": head.producer_epoch,
        "partitionLeaderEpoch": head.partition_leader_epoch,
        "isTransactional": head.is_transactional,
        "isControl": head.is_control,
        "position": batch.position,
        ("LogAppendTime" if head.is_log_append_time else "CreateTime"): head.max_timestamp_ms,
        "size": head.size_in_bytes,
        "magic": head.magic,
        "compresscodec": _codec(batch),
        "crc": head.crc,
        "isvalid": _is_valid(batch),
    }


def _codec(batch: RecordBatch) -> str:
    try:
        return Compression(batch.header.compression).name
    except ApiError:
        return "UNKNOWN"


def _is_valid(batch: RecordBatch) -> bool:
    try:
        verify(batch)
    except ApiError:
        return False
    return True


def record_rows(batch: RecordBatch, *, with_data: bool) -> list[dict[str, Any]]:
    """The records of a batch, by Kafka's names."""
    base = batch.header.base_sequence
    try:
        records = decode_records(batch)
    except ApiError as error:
        return [{"error": str(error)}]
    rows: list[dict[str, Any]] = []
    for number, record in enumerate(records):
        row: dict[str, Any] = {
            "offset": record.offset,
            "CreateTime": record.timestamp_ms,
            "keySize": -1 if record.key is None else len(record.key),
            "valueSize": -1 if record.value is None else len(record.value),
            "sequence": -1 if base < 0 else base + number,
            "headerKeys": [name for name, _ in record.headers],
        }
        if with_data and record.key is not None:
            row["key"] = record.key.decode(errors="replace")
        if with_data and record.value is not None:
            row["payload"] = record.value.decode(errors="replace")
        rows.append(row)
    return rows


def segments_in(folder: Path) -> list[Path]:
    """The segments of one log, oldest first."""
    found = []
    for path in folder.iterdir():
        parsed = parse_name(path.name)
        if parsed is not None and parsed[1:] == (LOG, ""):
            found.append(path)
    return sorted(found)
