"""Reading a partition of __consumer_offsets into memory.

Rule: a load goes from the log's start to the end that the log had when the load began, and waits
for the high watermark to get there. B176 says to the high watermark; but a new leader's lags, and
what the former leader has acknowledged lies between it and the log's end. Stopping at it would
show an older offset than one acknowledged (I-25). Kafka reads to the end too, committed or not.
"""

from enum import Enum
from typing import Final

from actors.broker.local import RecordsRead
from actors.coordinator.group_records import GroupValue, decode_group_change
from actors.coordinator.offsets import CommittedOffsets
from actors.coordinator.records import decode_change
from wire.errors import ErrorCode, exception_of
from wire.ids import Offset, ProducerId
from wire.markers import decode_marker
from wire.records import Record, RecordBatch, batches, decode_records, verify

FIRST_WAIT_MS: Final = 10
LONGEST_WAIT_MS: Final = 100


class Next(Enum):
    """How a load goes on."""

    READ = "read"
    WAIT = "wait"  # the high watermark has still to rise
    DONE = "done"


class Load:
    """How far a partition has been read."""

    def __init__(self) -> None:
        self.position = Offset(0)
        self.records = 0
        self.groups: dict[str, GroupValue] = {}  # as the last records of each say
        self._end: Offset | None = None  # of the log when the load began
        self._wait_ms = FIRST_WAIT_MS

    def take(self, read: RecordsRead, offsets: CommittedOffsets) -> Next:
        """Take in what was read; raises an ApiError if it cannot be."""
        if read.error_code is not ErrorCode.NONE:
            raise exception_of(read.error_code)("the log of the group's offsets is not readable")
        if self._end is None:
            self._end = read.log_end_offset
        self.position = max(self.position, read.log_start_offset)
        for batch in batches(read.records):
            verify(batch)
            self._take_batch(batch, offsets)
        self.position = self._after(read)
        if self.position >= self._end:
            return Next.DONE
        return Next.READ if self.position < read.high_watermark else Next.WAIT

    def _take_batch(self, batch: RecordBatch, offsets: CommittedOffsets) -> None:
        header = batch.header
        if header.is_control:
            marker = decode_marker(batch)
            if marker is not None:
                offsets.end_transaction(header.producer_id, is_committed=marker.is_committed)
            return
        producer = header.producer_id if header.is_transactional else None
        for record in decode_records(batch):
            if record.offset >= self.position:
                self._take_record(record, offsets, producer)

    def _take_record(
        self, record: Record, offsets: CommittedOffsets, producer: ProducerId | None
    ) -> None:
        change = decode_change(record)
        if change is not None:
            key, value = change
            if producer is None:
                offsets.put(key, value, record.offset)
            else:
                offsets.staged.put(producer, key, value, record.offset)
            self.records += 1
            return
        group_change = decode_group_change(record)
        if group_change is None:
            return  # somebody else's
        group, described = group_change
        self.groups.pop(group, None)
        if described is not None:
            self.groups[group] = described
        self.records += 1

    def wait_ms(self) -> float:
        """How long to wait for the high watermark, longer each time."""
        wait_ms = self._wait_ms
        self._wait_ms = min(2 * wait_ms, LONGEST_WAIT_MS)
        return wait_ms

    def _after(self, read: RecordsRead) -> Offset:
        ends = [batch.header.next_offset for batch in batches(read.records)]
        if ends:
            assert ends[-1] > self.position, "a read begins at its offset"
            return ends[-1]
        assert not read.records, "a read has whole batches"
        return max(self.position, read.high_watermark)  # compaction took all that was in between
