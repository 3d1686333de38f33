"""The batches in the files of one replica, while its broker writes to them.

Rule: bounded in what is read, looked through and shown, for brokers wait meanwhile. Files are read
and not mapped: a log may be cut at any time. What ends in the middle of a batch is still written.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from actors.broker.log.names import parse_name
from actors.operations.logs import describe, record_rows, segments_in
from actors.operations.operation import BadInput
from wire.errors import ApiError
from wire.records import HEADER_BYTES, RecordBatch, batches, decode_header

WINDOW_BYTES: Final = 4 << 20
MOST_SHOWN_BYTES: Final = 4 << 20  # of batches, whose records are larger as JSON
MOST_SKIPPED: Final = 100_000  # batches between a segment's start and the offset wanted


def dump(log: Path, *, offset: int, most: int, with_records: bool) -> list[dict[str, Any]]:
    """Batches from the one on that holds the offset, or comes after it."""
    shown: list[dict[str, Any]] = []
    size = skipped = 0
    for segment in _from_offset(segments_in(log), offset):
        for batch in _batches_in(segment):
            if batch.header.last_offset < offset:
                skipped += 1
                if skipped > MOST_SKIPPED:
                    raise BadInput(f"offset {offset} lies too deep in a file: use bin/dump-log")
                continue
            row = describe(batch)
            if with_records:
                row["records"] = record_rows(batch, with_data=True)
            shown.append(row)
            size += batch.header.size_in_bytes
            if len(shown) == most or size >= MOST_SHOWN_BYTES:
                return shown
    return shown


def _from_offset(segments: Sequence[Path], offset: int) -> Sequence[Path]:
    """From the segment on whose base offset is the last one not above it."""
    parsed = [parse_name(each.name) for each in segments]
    earlier = [number for number, each in enumerate(parsed) if each and each[0] <= offset]
    return segments[max(earlier, default=0) :]


def _batches_in(segment: Path) -> Iterator[RecordBatch]:
    """Whole batches, each with its place in the file; nothing after what is none."""
    start = 0
    with segment.open("rb") as file:
        while True:
            file.seek(start)
            content = file.read(WINDOW_BYTES)
            end = 0
            try:
                for batch in batches(content):
                    end = batch.position + batch.header.size_in_bytes
                    yield replace(batch, position=start + batch.position)
                if end == 0 and len(content) == WINDOW_BYTES:  # one that is larger than a window
                    end = decode_header(content).size_in_bytes
            except ApiError:
                return
            if end < HEADER_BYTES:
                return
            start += end
