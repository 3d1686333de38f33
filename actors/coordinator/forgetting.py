"""What a coordinator forgets: what is old, what is of no use, what it is told to forget.

Rule: tombstones are appended, and what they are for is seen until they are in the log. Kafka
forgets first, and so may remember again after a failover. A tombstone that fails is tried again at
the next look for old offsets; who asked for it is told.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from actors.asked import Asked
from actors.config import BrokerConfig
from actors.coordinator.events import Finish
from actors.coordinator.group import Group
from actors.coordinator.group_states import EMPTY, STABLE
from actors.coordinator.membership import Membership
from actors.coordinator.messages import TopicsDeleted
from actors.coordinator.offsets import commit_time
from actors.coordinator.rebalancing import AppendGroup
from actors.coordinator.records import OFFSETS_TOPIC, Change, OffsetKey, OffsetValue
from actors.coordinator.requests import check_group, tombstones
from actors.coordinator.shards import Shard, Shards
from runtime.world import World
from wire.consumer_protocol import PROTOCOL_TYPE
from wire.errors import ApiError, ErrorCode, exception_of
from wire.groups import (
    DeleteGroups,
    DeleteGroupsResponse,
    GroupResult,
    OffsetDelete,
    OffsetDeleteResponse,
)
from wire.ids import TopicPartition
from wire.message import PartitionResult
from wire.trace import GroupForgotten, GroupOffsetsForgotten

MINUTE_MS: Final = 60_000
EXPIRED: Final = "expired"
TOPIC_DELETED: Final = "topic deleted"
ASKED_FOR: Final = "asked for"

GroupIdNotFound: Final = exception_of(ErrorCode.GROUP_ID_NOT_FOUND)
NonEmptyGroup: Final = exception_of(ErrorCode.NON_EMPTY_GROUP)
AppendChanges = Callable[[Shard, Sequence[Change], Finish], None]


class Forgetting:
    """Tombstones for offsets and groups."""

    def __init__(
        self,
        world: World,
        config: BrokerConfig,
        shards: Shards,
        membership: Membership,
        append: AppendChanges,
        append_group: AppendGroup,
    ) -> None:
        self._world = world
        self._config = config
        self._shards = shards
        self._membership = membership
        self._append = append
        self._append_group = append_group

    # --- what is old ------------------------------------------------------------------------------

    def expire(self) -> None:
        """Look for what nobody needs any longer."""
        now_ms = self._world.clock.now_ms()
        retention_ms = self._config.offsets_retention_minutes * MINUTE_MS
        for shard in self._shards.loaded():
            unused_since = partial(_unused_since, shard)
            expired = shard.offsets.expired(now_ms, retention_ms, unused_since)
            self.forget(shard, expired, EXPIRED)
            self._forget_groups(shard)

    def on_topics_deleted(self, event: TopicsDeleted) -> None:
        """Nobody needs offsets in a topic that is gone."""
        if OFFSETS_TOPIC in event.topics:
            self._shards.partitions = None  # it may be made anew, with another number
        for shard in self._shards.all():
            if shard.load is None:
                self.forget(shard, shard.offsets.doom(event.topics), TOPIC_DELETED)
            else:
                shard.deleted_topics |= event.topics

    def forget(self, shard: Shard, keys: Sequence[OffsetKey], reason: str) -> None:
        """Append their tombstones."""
        for batch in tombstones(keys):
            self._append(shard, batch, partial(self._on_forgotten, shard, len(batch), reason))

    def _on_forgotten(self, shard: Shard, offsets: int, reason: str, code: ErrorCode) -> None:
        if code is not ErrorCode.NONE:
            return
        number, epoch = shard.partition.partition, shard.leader_epoch
        self._world.trace(GroupOffsetsForgotten(number, epoch, offsets, reason))
        if reason == EXPIRED:
            self._forget_groups(shard)

    def _forget_groups(self, shard: Shard) -> None:
        """Empty groups whose offsets have all gone, as cleanupGroupMetadata."""
        if not self._shards.is_current(shard):
            return
        for group in tuple(shard.groups.values()):
            has_offsets = shard.offsets.knows(group.group_id)
            is_used = has_offsets or group.pending or shard.offsets.has_pending(group.group_id)
            if group.state is EMPTY and not is_used and not group.is_storing:
                self._forget_group(shard, group, EXPIRED, lambda _: None)

    def _forget_group(self, shard: Shard, group: Group, reason: str, finish: Finish) -> None:
        group.is_storing = True
        done = partial(self._on_group_forgotten, shard, group, group.generation_id, reason, finish)
        self._append_group(shard, (group.group_id, None), done)

    def _on_group_forgotten(
        self,
        shard: Shard,
        group: Group,
        generation_id: int,
        reason: str,
        finish: Finish,
        code: ErrorCode,
    ) -> None:
        is_same = group.generation_id == generation_id and group.state is EMPTY
        if is_same:
            group.is_storing = False
        # Who has come meanwhile will be in the log after the tombstone.
        if code is ErrorCode.NONE and is_same and not group.pending:
            self._world.trace(GroupForgotten(group.group_id, generation_id, reason))
            self._membership.bury(shard, group, reason)
        finish(code)

    # --- what somebody asked for ------------------------------------------------------------------

    def delete_groups(self, asked: Asked, request: DeleteGroups) -> None:
        """Forget groups whole; answered when that is in the log."""
        names = tuple(dict.fromkeys(request.groups))
        results: dict[str, ErrorCode] = {}

        def note(name: str, code: ErrorCode) -> None:
            results[name] = code
            if len(results) == len(names):
                done = tuple(GroupResult(each, results[each]) for each in names)
                asked.answer(DeleteGroupsResponse(groups=done))

        if not names:
            asked.answer(DeleteGroupsResponse(groups=()))
        for each in names:
            try:
                self._delete_group(each, partial(note, each))
            except ApiError as error:
                note(each, error.code)

    def _delete_group(self, name: str, done: Finish) -> None:
        check_group(name)
        shard = self._shards.of(name)
        group, keys = shard.groups.get(name), shard.offsets.keys_of(name)
        if group is None and not keys:
            raise GroupIdNotFound(f"There is no group {name!r:.80}.")
        if group is not None and group.state is not EMPTY:
            raise NonEmptyGroup("Somebody is a member.")
        batches = list(tombstones(keys))
        left, failed = len(batches) + (group is not None), ErrorCode.NONE

        def note(code: ErrorCode) -> None:
            nonlocal left, failed
            left -= 1
            failed = failed or code
            if not left:
                done(failed)

        for batch in batches:
            forgotten = partial(self._on_forgotten, shard, len(batch), ASKED_FOR)
            self._append(shard, batch, _both(forgotten, note))
        if group is not None:
            self._forget_group(shard, group, ASKED_FOR, note)

    def delete_offsets(self, asked: Asked, request: OffsetDelete) -> None:
        """Forget some offsets; answered when that is in the log."""
        name = request.group_id
        check_group(name)
        shard = self._shards.of(name)
        group = shard.groups.get(name)
        if group is None and not shard.offsets.knows(name):
            raise GroupIdNotFound(f"There is no group {name!r:.80}.")
        used: frozenset[str] = frozenset()
        if group is not None and group.state is not EMPTY:
            if group.protocol_type != PROTOCOL_TYPE:
                raise NonEmptyGroup("Somebody is a member.")
            topics = group.subscribed_topics()
            used = (
                frozenset(each.topic for each in request.partitions) if topics is None else topics
            )
        forgotten = [each for each in request.partitions if each.topic not in used]
        known = set(shard.offsets.keys_of(name))
        keys = sorted({OffsetKey(name, each) for each in forgotten} & known)
        batches = list(tombstones(keys))
        left, failed = len(batches), ErrorCode.NONE

        def note(code: ErrorCode) -> None:
            nonlocal left, failed
            left -= 1
            failed = failed or code
            if left <= 0:
                results = (_deleted(each, used, failed) for each in request.partitions)
                asked.answer(OffsetDeleteResponse(partitions=tuple(results)))

        for batch in batches:
            done = partial(self._on_forgotten, shard, len(batch), ASKED_FOR)
            self._append(shard, batch, _both(done, note))
        if not batches:
            note(ErrorCode.NONE)


def _deleted(partition: TopicPartition, used: frozenset[str], code: ErrorCode) -> PartitionResult:
    is_used = partition.topic in used
    return PartitionResult(partition, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_used else code)


def _both(first: Finish, second: Finish) -> Finish:
    def finish(code: ErrorCode) -> None:
        first(code)
        second(code)

    return finish


def _unused_since(shard: Shard, key: OffsetKey, value: OffsetValue) -> int | None:
    """When an offset began to be of no use, as GroupMetadata.removeExpiredOffsets."""
    group = shard.groups.get(key.group)
    if group is None or not group.protocol_type:
        return commit_time(key, value)
    if group.state is EMPTY:
        # Kafka: since the group is empty, however young the commit. An older value has no time.
        return max(group.state_timestamp_ms, commit_time(key, value))
    if group.state is STABLE:
        topics = group.subscribed_topics()
        if topics is not None and key.partition.topic not in topics:
            return commit_time(key, value)
    return None
