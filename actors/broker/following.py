"""What a follower does with what its fetchers bring: append, cut off, catch up.

Rule: the logs are changed here and nowhere else; an answer that was asked for under another leader
epoch, or at another place than where the log ends, changes nothing (B153). One partition's trouble
is its own (B156).
"""

from collections.abc import Callable, Mapping
from typing import Any

from actors.broker.fetching import Advanced, Fetched, FetchState, LeaderSpan, Position
from actors.broker.log.appending import UnexpectedAppend
from actors.broker.log.manager import LogManager
from actors.broker.quota import ReplicationQuota
from actors.broker.replica import Replica, Replicas
from actors.broker.truncation import Generation, cut_for
from runtime.world import World
from wire.data import EpochEndOffset, FetchResult, OffsetForLeaderEpochResult
from wire.errors import BadData, KafkaStorageError
from wire.ids import NO_LEADER_EPOCH, BrokerId, LeaderEpoch, Offset, TopicPartition
from wire.trace import FollowerFailed, HighWatermarkMoved, LogTruncated, RecordsAppended


class _Progress:
    """What the fetcher will be told."""

    def __init__(self) -> None:
        self.positions: dict[TopicPartition, Position] = {}
        self.failed: list[TopicPartition] = []
        self.ended: list[TopicPartition] = []
        self.throttled: list[TopicPartition] = []
        self.cuts: dict[TopicPartition, tuple[Replica, Offset, FetchState]] = {}

    def advanced(self) -> Advanced:
        return Advanced(
            self.positions, tuple(self.failed), tuple(self.ended), tuple(self.throttled)
        )


class Following:
    """The partitions that this broker follows."""

    def __init__(
        self,
        world: World,
        me: BrokerId,
        generation: Generation,
        replicas: Replicas,
        quota: ReplicationQuota,
        failed: Callable[[KafkaStorageError], None],
    ) -> None:
        self._world = world
        self._me = me
        self._generation = generation
        self._replicas = replicas
        self._quota = quota
        self._failed = failed

    # --- beginning --------------------------------------------------------------------------------

    async def begin(
        self, logs: LogManager, replicas: list[Replica]
    ) -> dict[TopicPartition, Position]:
        """Where to fetch from, after what must be cut off first (B147, B148)."""
        cuts: dict[TopicPartition, tuple[Replica, Offset, FetchState]] = {}
        for replica in replicas:
            is_blind = self._generation is Generation.HIGH_WATERMARK or (
                replica.latest_epoch == NO_LEADER_EPOCH
            )
            if is_blind and replica.log is not None:
                cuts[replica.partition] = (replica, replica.high_watermark, FetchState.FETCHING)
        failed = await self._cut(logs, cuts)
        return {
            each.partition: self._first(each) for each in replicas if each.partition not in failed
        }

    def _first(self, replica: Replica) -> Position:
        asks = self._generation.asks_first and replica.latest_epoch != NO_LEADER_EPOCH
        return position_of(replica, FetchState.TRUNCATING if asks else FetchState.FETCHING)

    # --- going on ---------------------------------------------------------------------------------

    async def on_fetched(self, logs: LogManager, fetched: Fetched) -> None:
        """Take in what came, and tell the fetcher where to go on."""
        progress = _Progress()
        for position, result in fetched.found:
            replica = self._replicas.get(result.partition)
            if replica is None or not _is_followed_in(replica, position):
                continue
            if replica.log_end_offset != position.offset:
                progress.positions[result.partition] = position_of(replica)
                continue
            try:
                self._take(replica, position, result, progress)
            except KafkaStorageError as error:
                progress.ended.append(result.partition)
                self._failed(error)
            except (BadData, UnexpectedAppend) as error:
                progress.failed.append(result.partition)
                self._trace_failure(replica, error)
        await self._finish_cuts(logs, progress)
        fetched.fetcher.tell(progress.advanced())

    def _take(self, replica: Replica, position: Position, result: Any, progress: _Progress) -> None:
        match result:
            case FetchResult(diverging_epoch=None):
                self._append(replica, result, progress)
            case FetchResult(diverging_epoch=EpochEndOffset() as found):
                # As Kafka since 3.5: what was truncated says nothing of the high watermark.
                self._plan(replica, found.leader_epoch, found.end_offset, progress)
            case OffsetForLeaderEpochResult():
                is_old = self._generation is Generation.KIP_101
                epoch = NO_LEADER_EPOCH if is_old else result.leader_epoch
                self._plan(replica, epoch, result.end_offset, progress)
            case LeaderSpan():
                self._find_again(replica, position, result, progress)

    def _append(self, replica: Replica, result: FetchResult, progress: _Progress) -> None:
        """B157: what follows the log's end, then the high watermark, then the log start."""
        records = result.records
        if records:
            log = replica.opened()
            before = replica.log_end_offset
            appended = log.append_as_follower(records, self._world.clock.now_ms())
            if self._world.trace.is_on and replica.log_end_offset > before:
                self._trace_append(replica, before, Offset(appended.last_offset))
        if replica.follow_to(result.high_watermark) and self._world.trace.is_on:
            at, epoch = replica.partition, replica.leader_epoch
            self._world.trace(
                HighWatermarkMoved(
                    at.topic, at.partition, "follower", epoch, replica.high_watermark
                )
            )
        start = min(result.log_start_offset, replica.log_end_offset)
        if start > replica.log_start_offset and replica.log is not None:
            replica.log.move_log_start_offset(start)
            replica.cut_high_watermark()
        if records:
            progress.positions[replica.partition] = position_of(replica)
            self._throttle(replica, len(records), result.high_watermark, progress)

    def _throttle(
        self, replica: Replica, size: int, leader_high_watermark: Offset, progress: _Progress
    ) -> None:
        """B167: what is throttled and behind waits while there was too much of it."""
        at, settings = replica.partition, replica.settings
        if settings is None or not settings.follower_throttled.includes(at.partition, self._me):
            return
        now_ms = self._world.clock.elapsed_ms()
        self._quota.record(size, now_ms)
        is_behind = replica.log_end_offset < leader_high_watermark
        if is_behind and self._quota.is_exceeded(now_ms):
            progress.throttled.append(at)

    # --- cutting ----------------------------------------------------------------------------------

    def _plan(
        self, replica: Replica, epoch: LeaderEpoch, end_offset: Offset, progress: _Progress
    ) -> None:
        cut = cut_for(
            epoch,
            end_offset,
            epochs=replica.opened().epochs,
            log_end_offset=replica.log_end_offset,
            high_watermark=replica.high_watermark,
        )
        # A fetch that says where logs part is followed by another fetch, which says it again.
        again = self._generation.asks_first and not cut.is_done
        state = FetchState.TRUNCATING if again else FetchState.FETCHING
        progress.cuts[replica.partition] = (replica, cut.offset, state)

    def _find_again(
        self, replica: Replica, position: Position, span: LeaderSpan, progress: _Progress
    ) -> None:
        """B155: the offset is not in the leader's log."""
        if span.log_end_offset < replica.log_end_offset:
            progress.cuts[replica.partition] = (replica, span.log_end_offset, FetchState.FETCHING)
        elif span.log_start_offset > replica.log_end_offset:
            progress.cuts[replica.partition] = (replica, span.log_start_offset, FetchState.LOST)
        else:
            progress.positions[replica.partition] = position_of(replica)

    async def _finish_cuts(self, logs: LogManager, progress: _Progress) -> None:
        lost = {at: cut for at, cut in progress.cuts.items() if cut[2] is FetchState.LOST}
        for at, (replica, offset, _) in lost.items():
            del progress.cuts[at]
            replica.opened()
            try:
                await logs.truncate_fully_and_start_at(at, offset)
            except KafkaStorageError as error:
                progress.ended.append(at)
                self._failed(error)
                continue
            replica.high_watermark = offset
            progress.positions[at] = position_of(replica)
        failed = await self._cut(logs, progress.cuts)
        for at, (replica, _, state) in progress.cuts.items():
            if at in failed:
                progress.ended.append(at)
            else:
                progress.positions[at] = position_of(replica, state)

    async def _cut(
        self, logs: LogManager, cuts: Mapping[TopicPartition, tuple[Replica, Offset, FetchState]]
    ) -> Mapping[TopicPartition, KafkaStorageError]:
        """Cut logs, durably; those that could not be."""
        before = {at: replica.log_end_offset for at, (replica, _, _) in cuts.items()}
        needed = {at: offset for at, (_, offset, _) in cuts.items() if offset < before[at]}
        failed = await logs.truncate(needed)
        for replica, _, _ in cuts.values():
            # As Log.truncateTo: an epoch that this broker began as leader, and wrote nothing in.
            if replica.log is not None:
                replica.log.epochs.truncate_from_end(replica.log_end_offset)
        for at in needed:
            if at in failed:
                self._failed(failed[at])
                continue
            replica = cuts[at][0]
            replica.cut_high_watermark()
            self._world.trace(
                LogTruncated(
                    at.topic,
                    at.partition,
                    replica.leader_epoch,
                    before[at],
                    replica.log_end_offset,
                )
            )
        return failed

    # --- traces -----------------------------------------------------------------------------------

    def _trace_append(self, replica: Replica, first: Offset, last: Offset) -> None:
        at, epoch = replica.partition, replica.leader_epoch
        self._world.trace(RecordsAppended(at.topic, at.partition, "follower", epoch, first, last))

    def _trace_failure(self, replica: Replica, error: Exception) -> None:
        at, epoch = replica.partition, replica.leader_epoch
        self._world.trace(FollowerFailed(at.topic, at.partition, epoch, str(error)))


def position_of(replica: Replica, state: FetchState = FetchState.FETCHING) -> Position:
    """Where a replica's log stands."""
    return Position(
        replica.leader_epoch,
        replica.log_end_offset,
        replica.latest_epoch,
        replica.log_start_offset,
        state,
    )


def _is_followed_in(replica: Replica, position: Position) -> bool:
    """Whether the replica still follows in that epoch (B153)."""
    return not replica.is_leader and replica.leader_epoch == position.leader_epoch
