"""The committed offsets of the groups in one partition of __consumer_offsets.

Rule: the log decides. What stands later in it wins, in whatever order appends are heard to be
done, so that nobody sees less here than the next coordinator will read. An append that failed, or
is still under way, is not shown, even if it is in the log after all (B177).
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final, TypeAlias

from msgspec import Struct

from actors.coordinator.records import Change, OffsetKey, OffsetValue
from actors.coordinator.staged_offsets import StagedOffsets
from wire.errors import ErrorCode
from wire.ids import NO_TIMESTAMP_MS, Offset, ProducerId, TopicPartition
from wire.java import absolute, string_hash

_NOT_AVAILABLE: Final = ErrorCode.COORDINATOR_NOT_AVAILABLE
_COMMIT_ERRORS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: _NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: _NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: _NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: _NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_COORDINATOR,
    ErrorCode.UNKNOWN_LEADER_EPOCH: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
}


def commit_error(append_error: ErrorCode) -> ErrorCode:
    """What a consumer is told of an append's error: it knows groups, not logs (B177)."""
    return _COMMIT_ERRORS.get(append_error, append_error)


_GROUP_ERRORS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: _NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: _NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: _NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_COORDINATOR,
    ErrorCode.UNKNOWN_LEADER_EPOCH: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def group_error(append_error: ErrorCode) -> ErrorCode:
    """What members are told of a group that could not be written, as GroupMetadataManager."""
    return _GROUP_ERRORS.get(append_error, append_error)


def partition_for(group: str, partitions: int) -> int:
    """Which partition of __consumer_offsets a group is in (B175)."""
    return absolute(string_hash(group)) % partitions


class _Entry(Struct, frozen=True, gc=False):
    value: OffsetValue
    log_offset: Offset  # where in __consumer_offsets it stands
    is_doomed: bool = False  # its topic is gone; a tombstone is tried until one is in the log


UnusedSince: TypeAlias = Callable[[OffsetKey, OffsetValue], int | None]


def commit_time(_: OffsetKey, value: OffsetValue) -> int:
    """Of a group that assigns its partitions itself: since it was committed."""
    return value.commit_timestamp_ms


class CommittedOffsets:
    """What is committed, and which keys have an append on its way."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[TopicPartition, _Entry]] = {}
        self._pending = Counter[OffsetKey]()
        # Where a key's tombstone stands, kept while an append that may stand before it is pending.
        self._tombstones: dict[OffsetKey, Offset] = {}
        self.staged = StagedOffsets()

    def knows(self, group: str) -> bool:
        """Whether the group has committed anything."""
        return group in self._groups

    def groups(self) -> list[str]:
        """All that have committed something."""
        return [group for group, entries in self._groups.items() if entries]

    def get(self, group: str, partition: TopicPartition) -> OffsetValue | None:
        """What a group last committed for a partition."""
        entry = self._groups.get(group, {}).get(partition)
        return None if entry is None else entry.value

    def partitions_of(self, group: str) -> list[TopicPartition]:
        """All that a group has committed something for, sorted."""
        return sorted(self._groups.get(group, ()))

    def has_pending(self, group: str) -> bool:
        """Whether an append for the group is on its way."""
        return any(key.group == group for key in self._pending)

    # --- changes ----------------------------------------------------------------------------------

    def begin(self, changes: Sequence[Change]) -> None:
        """These are being appended."""
        self._pending.update(key for key, _ in changes)

    def end(self, changes: Sequence[Change], base_offset: Offset | None) -> None:
        """They stand in the log from an offset on; or, with None, perhaps not at all."""
        for index, (key, value) in enumerate(changes):
            self._pending[key] -= 1
            if base_offset is not None:
                self.put(key, value, Offset(base_offset + index))
            if not self._pending[key]:
                del self._pending[key]
                self._tombstones.pop(key, None)

    def put(self, key: OffsetKey, value: OffsetValue | None, log_offset: Offset) -> None:
        """The log says so at this offset; nothing changes if it says something else later on."""
        group = self._groups.get(key.group, {})
        entry = group.get(key.partition)
        if entry is not None and entry.log_offset > log_offset:
            return
        if self._tombstones.get(key, -1) > log_offset:
            return
        if value is not None:
            self._groups.setdefault(key.group, group)[key.partition] = _Entry(value, log_offset)
            return
        if entry is not None:
            del group[key.partition]
            if not group:
                del self._groups[key.group]
        if self._pending[key]:
            self._tombstones[key] = log_offset

    def end_transaction(self, producer: ProducerId, *, is_committed: bool) -> None:
        """A marker says what becomes of a producer's offsets."""
        for key, value, log_offset in self.staged.take(producer):
            if is_committed:
                self.put(key, value, log_offset)

    # --- what goes --------------------------------------------------------------------------------

    def expired(
        self, now_ms: int, retention_ms: int, unused_since: UnusedSince = commit_time
    ) -> list[OffsetKey]:
        """What is too old, sorted. Not what has an append on its way: it may be a younger commit.

        As GroupMetadata.removeExpiredOffsets: when an offset began to be of no use is the group's
        to say, and None as long as it is in use.
        """
        return sorted(
            key
            for key, entry in self._entries()
            if not self._pending[key]
            and (entry.is_doomed or _is_old(key, entry.value, now_ms, retention_ms, unused_since))
        )

    def keys_of(self, group: str) -> list[OffsetKey]:
        """All that is committed or being committed by a group, sorted."""
        known = {OffsetKey(group, each) for each in self._groups.get(group, ())}
        return sorted(known | {key for key in self._pending if key.group == group})

    def doom(self, topics: Collection[str]) -> list[OffsetKey]:
        """All that is committed, or being committed, for topics that are gone, sorted."""
        found = [(key, entry) for key, entry in self._entries() if key.partition.topic in topics]
        for key, entry in found:
            doomed = _Entry(entry.value, entry.log_offset, is_doomed=True)
            self._groups[key.group][key.partition] = doomed
        pending = {key for key in self._pending if key.partition.topic in topics}
        return sorted(pending | {key for key, _ in found})

    def _entries(self) -> Iterator[tuple[OffsetKey, _Entry]]:
        for group, entries in self._groups.items():
            for partition, entry in entries.items():
                yield OffsetKey(group, partition), entry


def _is_old(
    key: OffsetKey, value: OffsetValue, now_ms: int, retention_ms: int, unused_since: UnusedSince
) -> bool:
    since_ms = unused_since(key, value)
    if since_ms is None:
        return False
    if value.expire_timestamp_ms != NO_TIMESTAMP_MS:
        return value.expire_timestamp_ms <= now_ms
    return since_ms + retention_ms <= now_ms
