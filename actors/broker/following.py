"""What a follower does with what its fetchers bring: append, cut off, catch up.

Rule: the logs are changed here and nowhere else; an answer that was asked for under another leader
epoch, or at another place than where the log ends, changes nothing (B153). One partition's trouble
is its own (B156).
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from actors.broker.durability import flush_demanded
from actors.broker.fetching import Advanced, Fetched, FetchState, LeaderSpan, Position
from actors.broker.log.appending import UnexpectedAppend, UnexpectedAppendOffset
from actors.broker.log.manager import LogManager
from actors.broker.log.storage import RottenLog
from actors.broker.meters import Meters
from actors.broker.naming import name_log
from actors.broker.quota import ReplicationQuota
from actors.broker.replica import Replica, Replicas
from actors.broker.truncation import Generation, cut_for
from runtime.world import World
from wire.data import EpochEndOffset, FetchResult, OffsetForLeaderEpochResult
from wire.errors import ApiError, KafkaStorageError
from wire.ids import NO_LEADER_EPOCH, BrokerId, LeaderEpoch, Offset, TopicPartition
from wire.records import batches
from wire.trace import FollowerFailed, HighWatermarkMoved, LogTruncated, RecordsAppended


class _Progress:
    """What the fetcher will be told."""

    def __init__(self) -> None:
        self.positions: dict[TopicPartition, Position] = {}
        self.failed: list[TopicPartition] = []
        self.ended: list[TopicPartition] = []
        self.throttled: list[TopicPartition] = []
        self.cuts: dict[TopicPartition, tuple[Replica, Offset, FetchState]] = {}
        self.restarts: dict[TopicPartition, tuple[Replica, Offset, FetchResult | None]] = {}

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
        meters: Meters,
        failed: Callable[[KafkaStorageError], None],
    ) -> None:
        self._world = world
        self._me = me
        self._generation = generation
        self._replicas = replicas
        self._quota = quota
        self._meters = meters
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
            if replica.settings is None:  # how to make a log for it nobody knows yet
                progress.failed.append(result.partition)
                continue
            if replica.log_end_offset != position.offset:
                progress.positions[result.partition] = position_of(replica, position.state)
                continue
            self._guarded(replica, progress, partial(self._take, replica, result, progress))
        await self._restart(logs, progress)
        await self._make_durable(progress)
        await self._finish_cuts(logs, progress)
        fetched.fetcher.tell(progress.advanced())

    async def _make_durable(self, progress: _Progress) -> None:
        """Before the leader hears of it."""
        grown = [self._replicas[each] for each in progress.positions]
        for partition, error in (await flush_demanded(grown)).items():
            del progress.positions[partition]
            progress.ended.append(partition)
            self._failed(error)

    def _guarded(self, replica: Replica, progress: _Progress, act: Callable[[], None]) -> None:
        """Do something with one partition; what goes wrong is its own affair (B156)."""
        at = replica.partition
        try:
            act()
        except KafkaStorageError as error:
            progress.ended.append(at)
            self._failed(error)
        except UnexpectedAppend as error:  # it would be the same the next time
            progress.ended.append(at)
            self._trace_failure(replica, error)
        except ApiError as error:  # a corrupt batch, or its topic's configuration is not known yet
            progress.failed.append(at)
            self._trace_failure(replica, error)

    def _take(self, replica: Replica, result: Any, progress: _Progress) -> None:
        match result:
            case FetchResult(diverging_epoch=None):
                self._append_or_restart(replica, result, progress)
            case FetchResult(diverging_epoch=EpochEndOffset() as found):
                # As Kafka since 3.5: what was truncated says nothing of the high watermark.
                self._plan(replica, found.leader_epoch, found.end_offset, progress)
            case OffsetForLeaderEpochResult():
                is_old = self._generation is Generation.KIP_101
                epoch = NO_LEADER_EPOCH if is_old else result.leader_epoch
                self._plan(replica, epoch, result.end_offset, progress)
            case LeaderSpan():
                self._find_again(replica, result, progress)

    def _append_or_restart(
        self, replica: Replica, result: FetchResult, progress: _Progress
    ) -> None:
        try:
            self._append(replica, result, progress)
        except UnexpectedAppendOffset:
            # As Partition.appendRecordsToFollower: the leader's log starts within a batch, and so
            # does this one, which has nothing yet; but a batch is stored as a whole.
            if replica.log_start_offset < replica.log_end_offset:
                raise
            first = next(iter(batches(result.records or b""))).header.base_offset
            if first >= replica.log_end_offset:
                raise
            progress.restarts[replica.partition] = (replica, first, result)

    def _append(self, replica: Replica, result: FetchResult, progress: _Progress) -> None:
        """B157: what follows the log's end, then the high watermark, then the log start."""
        records = result.records
        if records:
            log = replica.opened()
            before = replica.log_end_offset
            now_ms, may_fall = self._world.clock.now_ms(), self._generation.may_part
            appended = log.append_as_follower(records, now_ms, may_fall=may_fall)
            if not replica.is_named and replica.log_end_offset > before:
                name_log(self._world.disk, replica)
            if replica.log_end_offset > before and self._world.trace.wants(RecordsAppended):
                self._trace_append(replica, before, Offset(appended.last_offset))
        if replica.follow_to(result.high_watermark) and self._world.trace.wants(HighWatermarkMoved):
            at, epoch = replica.partition, replica.leader_epoch
            self._world.trace(
                HighWatermarkMoved(
                    at.topic, at.partition, "follower", epoch, replica.high_watermark
                )
            )
        lag = result.high_watermark - replica.log_end_offset
        self._meters.followed(replica.partition, len(records or b""), lag)
        start = min(result.log_start_offset, replica.log_end_offset)
        has_moved = start > replica.log_start_offset and replica.log is not None
        if has_moved:
            replica.opened().move_log_start_offset(start)
            replica.cut_high_watermark()
        if records or has_moved:
            progress.positions[replica.partition] = position_of(replica)
        if records:
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

    def _find_again(self, replica: Replica, span: LeaderSpan, progress: _Progress) -> None:
        """B155: the offset is not in the leader's log."""
        at, end = replica.partition, replica.log_end_offset
        if span.log_end_offset < end:
            progress.cuts[at] = (replica, span.log_end_offset, FetchState.FETCHING)
        elif span.log_start_offset > end:
            replica.opened()
            progress.restarts[at] = (replica, span.log_start_offset, None)
        else:  # it is there by now; if it is refused again, then not at once
            progress.positions[at] = position_of(replica)
            progress.failed.append(at)

    async def _restart(self, logs: LogManager, progress: _Progress) -> None:
        """Empty logs, and let them go on from elsewhere: with what was brought, if anything was."""
        for at, (replica, offset, result) in progress.restarts.items():
            start, end = replica.log_start_offset, replica.log_end_offset
            try:
                await logs.truncate_fully_and_start_at(
                    at, offset, partial(_lower_high_watermark, replica)
                )
            except KafkaStorageError as error:
                progress.ended.append(at)
                self._failed(error)
                continue
            if start < end:
                self._trace_cut(replica, end, start)
            progress.positions[at] = position_of(replica)
            if result is not None:
                self._guarded(replica, progress, partial(self._append, replica, result, progress))

    async def _finish_cuts(self, logs: LogManager, progress: _Progress) -> None:
        if not progress.cuts:
            return
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
        failed = await logs.truncate(needed, lambda at: cuts[at][0].cut_high_watermark())
        for replica, _, _ in cuts.values():
            # As Log.truncateTo: an epoch that this broker began as leader, and wrote nothing in.
            if replica.log is not None:
                replica.log.epochs.truncate_from_end(replica.log_end_offset)
        for at in needed:
            replica = cuts[at][0]
            if at in failed:
                if isinstance(failed[at], RottenLog):
                    self._trace_failure(replica, failed[at])
                else:
                    self._failed(failed[at])
                continue
            self._trace_cut(replica, before[at], replica.log_end_offset)
        return failed

    # --- traces -----------------------------------------------------------------------------------

    def _trace_cut(self, replica: Replica, before: Offset, offset: Offset) -> None:
        at, epoch = replica.partition, replica.leader_epoch
        self._world.trace(LogTruncated(at.topic, at.partition, epoch, before, offset))

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


def _lower_high_watermark(replica: Replica, _: TopicPartition) -> None:
    replica.cut_high_watermark()
