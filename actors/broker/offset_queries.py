"""Questions about a leader's offsets: where is a time, where did an epoch end.

Rule: one answer a partition; an error is that partition's own.
"""

from collections.abc import Callable

from actors.broker.log.log import Log
from actors.broker.log.reading import FoundOffset
from actors.broker.replica import Replica
from wire.data import (
    EARLIEST_TIMESTAMP_MS,
    LATEST_TIMESTAMP_MS,
    MAX_TIMESTAMP_MS,
    IsolationLevel,
    ListOffsets,
    ListOffsetsPartition,
    ListOffsetsResponse,
    ListOffsetsResult,
    OffsetForLeaderEpoch,
    OffsetForLeaderEpochPartition,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderEpochResult,
)
from wire.errors import ApiError, KafkaStorageError, OffsetNotAvailable
from wire.ids import (
    NO_LEADER_EPOCH,
    NO_OFFSET,
    NO_TIMESTAMP_MS,
    LeaderEpoch,
    Offset,
    TopicPartition,
)

Led = Callable[[TopicPartition, LeaderEpoch], Replica]
EndOf = Callable[[Replica], Offset]


def list_offsets(
    request: ListOffsets, led: Led, failed: Callable[[KafkaStorageError], None]
) -> ListOffsetsResponse:
    """Which offsets belong to these times; a disk that failed is told of."""
    is_follower = request.replica_id >= 0
    is_committed = request.isolation_level is IsolationLevel.READ_COMMITTED

    def end_of(replica: Replica) -> Offset:
        """The end that the asker may see."""
        if is_follower:
            return replica.log_end_offset
        return replica.last_stable_offset if is_committed else replica.high_watermark

    return ListOffsetsResponse(
        partitions=tuple(_list_offset(each, led, failed, end_of) for each in request.partitions)
    )


def _list_offset(
    asked: ListOffsetsPartition,
    led: Led,
    failed: Callable[[KafkaStorageError], None],
    end_of: EndOf,
) -> ListOffsetsResult:
    partition = asked.partition
    try:
        replica = led(partition, asked.current_leader_epoch)
        offset, timestamp_ms = _find(replica, asked.timestamp_ms, end_of)
    except ApiError as error:
        if isinstance(error, KafkaStorageError):
            failed(error)
        return ListOffsetsResult(partition=partition, error_code=error.code)
    log = replica.log
    epoch = NO_LEADER_EPOCH
    if offset >= 0:
        epoch = replica.leader_epoch if log is None else log.epochs.epoch_for(offset)
    return ListOffsetsResult(
        partition=partition, timestamp_ms=timestamp_ms, offset=offset, leader_epoch=epoch
    )


def _find(replica: Replica, timestamp_ms: int, end_of: EndOf) -> tuple[Offset, int]:
    if timestamp_ms == EARLIEST_TIMESTAMP_MS:
        return replica.log_start_offset, NO_TIMESTAMP_MS
    end = end_of(replica)
    # As Kafka since KIP-207: a new leader may not know yet how far its predecessor was.
    is_behind = end < replica.log_end_offset and replica.high_watermark < replica.epoch_start_offset
    if timestamp_ms == LATEST_TIMESTAMP_MS:
        if is_behind:
            raise OffsetNotAvailable(f"{replica.partition}: the high watermark is not known yet")
        return end, NO_TIMESTAMP_MS
    found = None if replica.log is None else _find_time(replica.log, timestamp_ms)
    if found is None or found.offset >= end:
        if is_behind:
            raise OffsetNotAvailable(f"{replica.partition}: the high watermark is not known yet")
        return NO_OFFSET, NO_TIMESTAMP_MS
    return found.offset, found.timestamp_ms


def _find_time(log: Log, timestamp_ms: int) -> FoundOffset | None:
    """The first record of a time, or of the greatest there is."""
    if timestamp_ms == MAX_TIMESTAMP_MS:
        times = (each.largest.timestamp_ms for each in log.segments)
        timestamp_ms = max(times, default=NO_TIMESTAMP_MS)
        if timestamp_ms < 0:
            return None
    return log.offset_for_timestamp(timestamp_ms)


def ends_of_epochs(request: OffsetForLeaderEpoch, led: Led) -> OffsetForLeaderEpochResponse:
    """Where these epochs ended (B150)."""
    return OffsetForLeaderEpochResponse(
        partitions=tuple(_end_of_epoch(each, led) for each in request.partitions)
    )


def _end_of_epoch(asked: OffsetForLeaderEpochPartition, led: Led) -> OffsetForLeaderEpochResult:
    partition = asked.partition
    try:
        replica = led(partition, asked.current_leader_epoch)
        epochs = replica.opened().epochs
        epoch, end = epochs.end_offset_for(asked.leader_epoch, replica.log_end_offset)
    except ApiError as error:
        return OffsetForLeaderEpochResult(partition=partition, error_code=error.code)
    return OffsetForLeaderEpochResult(partition=partition, leader_epoch=epoch, end_offset=end)
