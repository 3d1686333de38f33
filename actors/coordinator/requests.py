"""What a consumer may commit, and what it is told.

Rule: pure. What is wrong with one partition does not harm the others in its request.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from actors.coordinator.offsets import CommittedOffsets
from actors.coordinator.records import Change, OffsetKey, OffsetValue, encode_key
from wire.errors import ErrorCode, exception_of
from wire.fields import fits
from wire.groups import (
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitResponse,
    OffsetFetch,
    OffsetFetchResponse,
    OffsetFetchResult,
)
from wire.ids import NO_TIMESTAMP_MS, TopicPartition
from wire.message import PartitionResult

_LATEST_MS: Final = 2**63 - 1
TOMBSTONES_BYTES: Final = 16 * 1024  # in one batch; it must stay below max.message.bytes

InvalidGroupId: Final = exception_of(ErrorCode.INVALID_GROUP_ID)


def check_group(group: str) -> None:
    """Refuse a name that no group may have. Kafka takes commits without one, of old clients."""
    if not group:
        raise InvalidGroupId("The group's name is empty.")
    if not fits(group):
        raise InvalidGroupId(f"The group's name has {len(group)} characters; that is too long.")


class Commit:
    """A commit under way: what of it is appended, and what is answered."""

    def __init__(
        self,
        request: OffsetCommit,
        known: Collection[TopicPartition],
        now_ms: int,
        metadata_max_bytes: int,
    ) -> None:
        kept_ms = request.retention_time_ms
        expires_ms = NO_TIMESTAMP_MS if kept_ms < 0 else min(now_ms + kept_ms, _LATEST_MS)
        self._judged = [
            (each, _judge(each, known, metadata_max_bytes)) for each in request.partitions
        ]
        self.changes: list[Change] = [
            (OffsetKey(request.group_id, each.partition), _value_of(each, now_ms, expires_ms))
            for each, code in self._judged
            if code is ErrorCode.NONE
        ]

    def response(self, code: ErrorCode) -> OffsetCommitResponse:
        """How it went, with a code for all that could be appended."""
        return OffsetCommitResponse(
            partitions=tuple(
                PartitionResult(each.partition, code if judged is ErrorCode.NONE else judged)
                for each, judged in self._judged
            )
        )


def _judge(
    commit: OffsetCommitPartition, known: Collection[TopicPartition], metadata_max_bytes: int
) -> ErrorCode:
    if commit.partition not in known:  # as KafkaApis, by its metadata
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    metadata = commit.metadata or ""
    units = len(metadata.encode("utf-16-be")) // 2  # as Kafka, whose "bytes" are Java's characters
    if units > metadata_max_bytes or not fits(metadata):
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    return ErrorCode.NONE


def _value_of(commit: OffsetCommitPartition, now_ms: int, expires_ms: int) -> OffsetValue:
    return OffsetValue(
        offset=commit.committed_offset,
        leader_epoch=commit.committed_leader_epoch,
        metadata=commit.metadata or "",
        commit_timestamp_ms=now_ms,
        expire_timestamp_ms=expires_ms,
    )


def fetch(request: OffsetFetch, offsets: CommittedOffsets) -> OffsetFetchResponse:
    """What a group has committed."""
    group, wanted = request.group_id, request.partitions
    if wanted is None:
        wanted = tuple(offsets.partitions_of(group))
    return OffsetFetchResponse(
        partitions=tuple(
            OffsetFetchResult(partition=each, error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT)
            if request.require_stable and offsets.staged.is_unstable(group, each)
            else _result_of(each, offsets.get(group, each))
            for each in wanted
        )
    )


def _result_of(partition: TopicPartition, value: OffsetValue | None) -> OffsetFetchResult:
    if value is None:
        return OffsetFetchResult(partition=partition)  # not an error (B178)
    return OffsetFetchResult(
        partition=partition,
        committed_offset=value.offset,
        committed_leader_epoch=value.leader_epoch,
        metadata=value.metadata,
    )


def tombstones(keys: Sequence[OffsetKey]) -> Iterator[list[Change]]:
    """What forgets these keys, in batches that no log finds too large."""
    batch: list[Change] = []
    size = 0
    for key in keys:
        more = len(encode_key(key))
        if batch and size + more > TOMBSTONES_BYTES:
            yield batch
            batch, size = [], 0
        batch.append((key, None))
        size += more
    if batch:
        yield batch
