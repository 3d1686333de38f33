"""How a group coordinator writes to __consumer_offsets.

Rule: whoever asked for an append hears of its end once, whoever leads by then. What members and
consumers are told is in their own words: they know groups, not logs.
"""

from collections.abc import Callable, Sequence
from typing import Any

from actors.broker.local import AppendRecords
from actors.config import BrokerConfig
from actors.coordinator.events import Appended, Finish, GroupAppended
from actors.coordinator.group_records import GroupChange, encode_group_change
from actors.coordinator.offsets import commit_error
from actors.coordinator.records import Change, encode_changes
from actors.coordinator.shards import Shard
from actors.coordinator.staged_offsets import encode_staged
from runtime.ref import InboxFull, Receiver
from runtime.world import World
from wire.data import ProduceResult
from wire.errors import ErrorCode
from wire.records import ProducerStamp


class GroupLog:
    """Appends on their way."""

    def __init__(
        self,
        world: World,
        config: BrokerConfig,
        replica_manager: Receiver,
        tell: Callable[[Any], None],
    ) -> None:
        self._world = world
        self._config = config
        self._replica_manager = replica_manager
        self._tell = tell

    def append(
        self,
        shard: Shard,
        changes: Sequence[Change],
        finish: Finish,
        producer: ProducerStamp | None = None,
    ) -> None:
        """Commit or forget offsets; with a producer, if its transaction commits."""
        now_ms = self._world.clock.now_ms()
        if producer is None:
            shard.offsets.begin(changes)
            records = encode_changes(changes, now_ms)
        else:
            shard.offsets.staged.begin(changes)
            records = encode_staged(changes, now_ms, producer)
        append = AppendRecords(
            partition=shard.partition,
            leader_epoch=shard.leader_epoch,
            records=records,
            acks=self._config.offsets_commit_required_acks,
            timeout_ms=self._config.offsets_commit_timeout_ms,
            done=lambda result: self._tell(Appended(shard, changes, result, finish, producer)),
        )
        try:
            self._replica_manager.tell(append)
        except InboxFull:
            code = ErrorCode.REQUEST_TIMED_OUT
            refused = ProduceResult(partition=shard.partition, error_code=code)
            on_appended(Appended(shard, changes, refused, finish, producer))

    def append_group(self, shard: Shard, change: GroupChange, finish: Finish) -> None:
        """Let the log say what a group is now."""
        append = AppendRecords(
            partition=shard.partition,
            leader_epoch=shard.leader_epoch,
            records=encode_group_change(change, self._world.clock.now_ms()),
            acks=self._config.offsets_commit_required_acks,
            timeout_ms=self._config.offsets_commit_timeout_ms,
            done=lambda result: self._tell(GroupAppended(result, finish)),
        )
        try:
            self._replica_manager.tell(append)
        except InboxFull:
            finish(ErrorCode.COORDINATOR_NOT_AVAILABLE)


def on_appended(appended: Appended) -> None:
    """Whoever leads by now: the answer is about the log. An unloaded shard nobody reads."""
    code, base_offset = appended.result.error_code, appended.result.base_offset
    is_done = code is ErrorCode.NONE
    assert not is_done or base_offset >= 0, "what is appended has an offset"
    offsets, place = appended.shard.offsets, base_offset if is_done else None
    if appended.producer is None:
        offsets.end(appended.changes, place)
    else:
        offsets.staged.end(appended.producer.producer_id, appended.changes, place)
    appended.finish(commit_error(code))
