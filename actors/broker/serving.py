"""What a leader hands out: records to followers and consumers, at once or when there are any.

Rule: decided for each partition by itself; one partition's error is its own. A follower's offset
counts only after the read that it asked for (B166). Consumers see what is below the high watermark,
followers all (B165). Who waits is looked at when something changed, and answered once.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from actors.asked import Asked
from actors.broker.local import ReadRecords, RecordsRead
from actors.broker.log.reading import available
from actors.broker.log.storage import Storage
from actors.broker.meters import Meters
from actors.broker.quota import ReplicationQuota
from actors.broker.readers import Pending, Reader, Readers, Told
from actors.broker.replica import ZERO, Proposal, Replica, Replicas
from actors.config import BrokerConfig
from runtime.ref import Timer
from runtime.world import World
from wire.data import (
    NO_SESSION,
    AbortedTransaction,
    EpochEndOffset,
    Fetch,
    FetchPartition,
    FetchResponse,
    FetchResult,
)
from wire.errors import (
    ApiError,
    ErrorCode,
    KafkaStorageError,
    NotLeaderOrFollower,
    OffsetOutOfRange,
)
from wire.ids import NO_LEADER_EPOCH, BrokerId, LeaderEpoch, Offset, TopicPartition
from wire.records import Buffer, batches, holds_a_batch

# Whoever asks may be gone long before: what waits for nobody must not fill a broker for weeks.
MAX_WAIT_MS: Final = 5 * 60_000
_CHEAP_BYTES: Final = 4_096  # to read so little costs no more than to find out how much there is


@dataclass(frozen=True)
class FetchOver:
    """A fetch has waited long enough."""

    reader: Reader
    asked: Asked  # the reader may be waiting with another one by then


class Serving:
    """Those who read here, and what they are given."""

    def __init__(  # noqa: PLR0913 - it reads for a leader, and tells it what it found
        self,
        world: World,
        config: BrokerConfig,
        replicas: Replicas,
        meters: Meters,
        *,
        led: Callable[[TopicPartition, LeaderEpoch], Replica],
        advance: Callable[[Replica], None],
        after: Callable[[float, Any], Timer],
        propose: Callable[[Proposal], None],
        failed: Callable[[KafkaStorageError], None],
    ) -> None:
        self._world = world
        self._config = config
        self._me = BrokerId(config.broker_id)
        self._replicas = replicas
        self._meters = meters
        self._led = led
        self._advance = advance
        self._after = after
        self._propose = propose
        self._failed = failed
        self.readers = Readers(world)
        self.quota = ReplicationQuota()

    def fetch(self, asked: Asked, request: Fetch) -> None:
        """Answer at once, or when there is enough to answer with (B165)."""
        now_ms = self._world.clock.elapsed_ms()
        reader = self.readers.reader_for(request, now_ms)
        if reader.pending is not None:  # its answer went astray, and the follower asks anew
            self._answer(reader, [])
        reader.line.ask(now_ms)
        self.readers.take(reader, request)
        results = self._look(reader, request)
        if reader.is_follower:
            self._hear(reader, request, results)
        if request.max_wait_ms <= 0 or not reader.wanted or self._is_enough(results, request):
            self._reply(reader, asked, results)
            return
        wait_ms = min(request.max_wait_ms, MAX_WAIT_MS)
        timer = self._after(wait_ms, FetchOver(reader, asked))
        self.readers.wait(reader, Pending(asked, request, timer))

    def fetch_over(self, over: FetchOver) -> None:
        """Its time is up: answer with what there is."""
        pending = over.reader.pending
        if pending is not None and pending.asked is over.asked:
            self._answer(over.reader, self._look(over.reader, pending.request))

    def _hear(self, reader: Reader, request: Fetch, results: list[FetchResult]) -> None:
        """What a follower asks for tells how far it is (B158); it may be in sync now (B160)."""
        named = {each.partition: each for each in request.partitions}  # the last was looked at
        refused = {
            each.partition
            for each in results
            if each.error_code is not ErrorCode.NONE or each.diverging_epoch is not None
        }
        joining: Proposal = {}
        heard = [each for at, each in named.items() if at not in refused]
        for wanted in heard:
            replica = self._replicas[wanted.partition]
            follower = replica.followers[reader.replica_id]
            start, end = wanted.log_start_offset, replica.log_end_offset
            follower.asked(wanted.fetch_offset, start, end, reader.line)
            if not replica.may_join(reader.replica_id):
                continue
            if replica.pending_isr is None:
                joining[wanted.partition] = (*replica.hosted.isr, reader.replica_id)
            else:  # it will not ask for the partition again: what has not changed is not named
                replica.joining_next[reader.replica_id] = None
        self._propose(joining)
        for wanted in heard:
            self._advance(self._replicas[wanted.partition])

    def look_again(self, readers: Iterable[Reader]) -> None:
        """Something changed for these: answer those for whom it is enough."""
        for reader in readers:
            pending = reader.pending
            if pending is None or not self._may_be_enough(reader, pending.request):
                continue
            results = self._look(reader, pending.request)
            is_due = reader.is_due and any(each.records for each in results)
            if is_due or self._is_enough(results, pending.request):
                self._answer(reader, results)

    def tell(self, readers: Iterable[Reader]) -> None:
        """Something changed that followers shall hear of although there are no records."""
        for reader in [each for each in readers if each.is_follower]:
            pending = reader.pending
            if pending is not None:
                self._answer(reader, self._look(reader, pending.request))

    def _may_be_enough(self, reader: Reader, request: Fetch) -> bool:
        """Whether a look may end the wait, as far as positions tell.

        Who waits for much must not have all of it read at every append, as DelayedFetch.
        """
        needed, size = self._needed(request), 0
        if reader.is_due or needed <= _CHEAP_BYTES:
            return True
        most = min(request.max_bytes, self._config.fetch_max_bytes)
        for wanted in map(reader.wanted.__getitem__, reader.changed):
            limit = min(wanted.max_bytes, most - size)
            try:
                replica = self._led_for(reader, wanted)
                if _diverging(replica, wanted) is not None:
                    return True
                bound = None if reader.is_follower else _end_for(reader, replica)
                offset = wanted.fetch_offset
                size += _size(replica, offset, limit, bound, is_first=size == 0)
            except ApiError:  # that ends the wait, too
                return True
            if size >= needed:
                return True
        return False

    def _is_enough(self, results: list[FetchResult], request: Fetch) -> bool:
        size = 0
        for result in results:
            if result.error_code is not ErrorCode.NONE or result.diverging_epoch is not None:
                return True
            size += len(result.records or b"")
        return size >= self._needed(request)

    def _needed(self, request: Fetch) -> int:
        """How many bytes to wait for: more than an answer may hold never come."""
        return min(request.min_bytes, request.max_bytes, self._config.fetch_max_bytes)

    def _answer(self, reader: Reader, results: list[FetchResult]) -> None:
        pending = self.readers.finish(reader)
        assert pending is not None, "only a fetch that waits is answered"
        self._reply(reader, pending.asked, results)

    def _reply(self, reader: Reader, asked: Asked, results: list[FetchResult]) -> None:
        reader.is_due = False
        size = sum([len(each.records) for each in results if each.records])
        self._meters.sent(size, is_to_follower=reader.is_follower)
        # Of a consumer nothing is remembered.
        for result in results if reader.is_follower else ():
            partition = result.partition
            told = Told(result.high_watermark, result.log_start_offset)
            if result.records or not self._has_more(reader, partition, told):
                reader.changed.pop(partition, None)
            if result.diverging_epoch is None:  # who has to truncate listens to nothing else
                reader.told[partition] = told
            if result.records:
                self._record_throttled(partition, len(result.records))
        asked.answer(FetchResponse(partitions=tuple(results), session_id=reader.session_id))

    def _look(self, reader: Reader, request: Fetch) -> list[FetchResult]:
        """What there is to tell a reader; what there is nothing to tell of is looked at no more."""
        left = min(request.max_bytes, self._config.fetch_max_bytes)
        is_session = reader.session_id != NO_SESSION
        results: list[FetchResult] = []
        is_first = True
        self._meters.fetches += len(reader.changed)
        for partition in tuple(reader.changed):
            wanted = reader.wanted[partition]
            try:
                result = self._read(reader, wanted, left, is_first=is_first)
            except KafkaStorageError as error:
                result = FetchResult(partition=partition, error_code=error.code)
                self._failed(error)
            except ApiError as error:
                result = FetchResult(partition=partition, error_code=error.code)
                self._meters.unread(error)
            if result is None:
                continue  # throttled: later
            if result.records:
                left -= len(result.records)
                is_first = False
            elif is_session and _is_known(result, told := reader.told.get(partition)):
                if not self._has_more(reader, partition, told):
                    del reader.changed[partition]
                continue
            results.append(result)
        return results

    def _has_more(self, reader: Reader, partition: TopicPartition, told: Told | None) -> bool:
        """Whether there are records for which an answer had no room, or news since it was made.

        The fetch at hand may have raised the high watermark after the look.
        """
        replica = self._replicas.get(partition)
        if replica is None or not replica.is_leader:
            return False
        if told is not None and 0 <= told.high_watermark != replica.high_watermark:
            return True
        end = replica.log_end_offset if reader.is_follower else _end_for(reader, replica)
        return reader.wanted[partition].fetch_offset < end

    def _read(
        self, reader: Reader, wanted: FetchPartition, left: int, *, is_first: bool
    ) -> FetchResult | None:
        replica = self._led_for(reader, wanted)
        diverging = _diverging(replica, wanted)
        records: Buffer = b""
        aborted: tuple[AbortedTransaction, ...] | None = None
        if diverging is None:
            if reader.is_follower and self._is_throttled(replica, reader.replica_id):
                _check_offset(replica, wanted.fetch_offset)
                return None
            limit = min(wanted.max_bytes, left)
            bound = None if reader.is_follower else _end_for(reader, replica)
            records = _records(replica, wanted.fetch_offset, limit, bound, is_first=is_first)
            if reader.is_read_committed:
                aborted = _aborted(replica, wanted.fetch_offset, records)
        return FetchResult(
            partition=wanted.partition,
            high_watermark=replica.high_watermark,
            last_stable_offset=replica.last_stable_offset,
            log_start_offset=replica.log_start_offset,
            diverging_epoch=diverging,
            aborted_transactions=aborted,
            records=memoryview(records) if records else None,
        )

    def _led_for(self, reader: Reader, wanted: FetchPartition) -> Replica:
        replica = self._led(wanted.partition, wanted.current_leader_epoch)
        if reader.is_follower and reader.replica_id not in replica.followers:
            raise NotLeaderOrFollower(f"{reader.replica_id} is no replica of it")
        return replica

    def read_local(self, read: ReadRecords) -> None:
        """Read what is committed, for another actor of this broker."""
        replica = self._replicas.get(read.partition)
        if replica is None or replica.leader_epoch != read.leader_epoch or not replica.is_leader:
            read.done(RecordsRead(ErrorCode.NOT_LEADER_OR_FOLLOWER, b"", ZERO, ZERO, ZERO))
            return
        start, watermark = replica.log_start_offset, replica.high_watermark
        code, records = ErrorCode.NONE, b""
        try:
            if replica.log is not None:
                offset = max(read.offset, start)
                records = bytes(replica.log.read(offset, read.max_bytes, watermark))
        except KafkaStorageError as error:
            code = error.code
            self._failed(error)
        except ApiError as error:
            code = error.code
        read.done(RecordsRead(code, records, start, watermark, replica.log_end_offset))

    # --- throttle ---------------------------------------------------------------------------------

    def _is_throttled(self, replica: Replica, broker: BrokerId) -> bool:
        """Whether a follower that is not in sync has to wait for its turn (B167)."""
        return (
            broker not in replica.hosted.isr
            and self._may_throttle(replica)
            and self.quota.is_exceeded(self._world.clock.elapsed_ms())
        )

    def _may_throttle(self, replica: Replica) -> bool:
        settings = replica.settings
        return settings is not None and settings.leader_throttled.includes(
            replica.partition.partition, self._me
        )

    def _record_throttled(self, partition: TopicPartition, size: int) -> None:
        replica = self._replicas.get(partition)
        if replica is not None and self._may_throttle(replica):
            self.quota.record(size, self._world.clock.elapsed_ms())


def _end_for(reader: Reader, replica: Replica) -> Offset:
    """How far a consumer may see (B165)."""
    return replica.last_stable_offset if reader.is_read_committed else replica.high_watermark


def _aborted(replica: Replica, first: Offset, records: Buffer) -> tuple[AbortedTransaction, ...]:
    """Those whose records a consumer must pass over in the whole batches that it is given."""
    log = replica.log
    if log is None or not records or not log.aborted_in(first, replica.last_stable_offset):
        return ()
    upto = first
    for batch in batches(records):
        upto = batch.header.next_offset
    return tuple(
        AbortedTransaction(each.producer_id, each.first_offset)
        for each in log.aborted_in(first, upto)
    )


def _records(
    replica: Replica, offset: Offset, limit: int, bound: Offset | None, *, is_first: bool
) -> Buffer:
    log = replica.log
    if log is None or (limit <= 0 and not is_first):
        _check_offset(replica, offset)
        return b""
    records = log.read(offset, max(limit, 0), bound, min_one_batch=is_first)
    return records if is_first or holds_a_batch(records) else b""


def _size(
    replica: Replica, offset: Offset, limit: int, bound: Offset | None, *, is_first: bool
) -> int:
    """How many bytes `_records` would find."""
    _check_offset(replica, offset)
    log = replica.log
    if log is None or (limit <= 0 and not is_first):
        return 0
    bound = log.log_end_offset if bound is None else bound
    with Storage(log.folder):
        return available(log.segments, offset, max(limit, 0), bound, is_first)


def _check_offset(replica: Replica, offset: Offset) -> None:
    """What a read would refuse is refused without a read, too (B166)."""
    start, end = replica.log_start_offset, replica.log_end_offset
    if not start <= offset <= end:
        raise OffsetOutOfRange(f"{offset} is not from {start} to {end}")


def _diverging(replica: Replica, wanted: FetchPartition) -> EpochEndOffset | None:
    """Where the reader's log and this one part, if they do (B154)."""
    if wanted.last_fetched_epoch == NO_LEADER_EPOCH:
        return None
    epochs, end = replica.opened().epochs, replica.log_end_offset
    epoch, epoch_end = epochs.end_offset_for(wanted.last_fetched_epoch, end)
    if epoch_end < 0:
        raise OffsetOutOfRange(f"epoch {wanted.last_fetched_epoch} is not known here")
    if epoch < wanted.last_fetched_epoch or epoch_end < wanted.fetch_offset:
        return EpochEndOffset(epoch, epoch_end)
    return None


def _is_known(result: FetchResult, told: Told | None) -> bool:
    return (
        result.error_code is ErrorCode.NONE
        and result.diverging_epoch is None
        and told == (result.high_watermark, result.log_start_offset)
    )
