"""What a broker does to its logs in the background: note, flush, retire, compact.

Rule: one round of each kind at a time, begun by a timer and awaited aside; the replica manager goes
on meanwhile. A disk that fails under one of them is told of as if an append had failed.

A log is flushed when flush.messages or flush.ms is reached, not when a round comes by: the append
that reaches the one begins the flush, and the first append after a flush sets a timer for the
other. Nobody waits for it: what is acknowledged may not be durable yet on any one disk.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from actors.broker.log.config import NEVER
from actors.broker.log.log import Log
from actors.broker.log.manager import LogManager
from actors.broker.log.storage import Storage
from actors.broker.replica import Replicas
from actors.config import BrokerConfig
from runtime.files import DiskError
from runtime.ref import Outcome, Timer
from runtime.world import World
from wire.errors import KafkaStorageError
from wire.ids import Offset, TopicPartition

AT_ONCE_MS: Final = 100  # if there is to be no delay: others work in between


class Round(Enum):
    """What is done again and again."""

    HIGH_WATERMARKS = "replica.high.watermark.checkpoint.interval.ms"
    RECOVERY_POINTS = "log.flush.offset.checkpoint.interval.ms"
    LOG_STARTS = "log.flush.start.offset.checkpoint.interval.ms"
    RETENTION = "log.retention.check.interval.ms"
    DELETION = "log.segment.delete.delay.ms"  # as LogManager.deleteLogs: of whole logs (B141)
    CLEANER = "log.cleaner.backoff.ms"
    PRODUCERS = "producer.id.expiration.check.interval.ms"


@dataclass(frozen=True)
class Due:
    """It is time for a round, or for a log to be flushed."""

    work: Round | Log


@dataclass(frozen=True)
class Done:
    """A round, or a log's flush, is over."""

    work: Round | Log
    outcome: Outcome


class Upkeep:
    """The rounds of one broker, and the flushes of its logs."""

    def __init__(
        self,
        world: World,
        config: BrokerConfig,
        replicas: Replicas,
        stopped: Replicas,
        *,
        after: Callable[[float, Any], Timer],
        pipe: Callable[[Awaitable[Any], Callable[[Outcome], Any]], None],
    ) -> None:
        self._world = world
        self._config = config
        self._replicas = replicas
        self._stopped = stopped  # a broker that leaves is told to stop all that it follows
        self._after = after
        self._pipe = pipe
        self._is_begun = False
        self._flushing: set[Log] = set()
        self._timers: dict[Log, Timer] = {}  # of those that have a flush.ms, and something to flush

    def begin(self) -> None:
        """Set the timers, at the first decision of a controller (B136)."""
        if not self._is_begun:
            self._is_begun = True
            for each in Round:
                if each is not Round.CLEANER or self._config.log_cleaner_enable:
                    self._again(each)

    def on_due(self, due: Due, logs: LogManager) -> None:
        """Begin a round, or a flush."""
        match due.work:
            case Round():
                self._pipe(self._work(due.work, logs), lambda outcome: Done(due.work, outcome))
            case Log():
                self._timers.pop(due.work, None)
                self._flush(due.work)

    def on_done(self, done: Done) -> KafkaStorageError | None:
        """See to the next one; the failure, if the disk failed."""
        error = done.outcome.error
        if isinstance(done.work, Round):
            self._again(done.work)
        else:
            self._flushing.discard(done.work)
            if error is None:
                self._look(done.work)  # there were perhaps appends meanwhile
        if isinstance(error, KafkaStorageError):
            return error
        failures: Mapping[TopicPartition, KafkaStorageError] = done.outcome.get() or {}
        return next(iter(failures.values()), None)

    async def end(self, logs: LogManager) -> None:
        """Leave the logs as after a clean stop; if the disk refuses, the next life looks closer."""
        with suppress(DiskError):
            await logs.clean_shutdown(self._to_note())

    # --- flushes ----------------------------------------------------------------------------------

    def appended(self, partitions: Iterable[TopicPartition]) -> None:
        """Something was perhaps appended to these: flush those for which it is time."""
        for at in partitions:
            replica = self._replicas.get(at)
            if replica is not None and replica.log is not None:
                self._look(replica.log)

    def _look(self, log: Log) -> None:
        config = log.config
        if config.flush_messages == config.flush_ms == NEVER or log in self._flushing:
            return
        if log.is_flush_due(self._world.clock.now_ms()):
            self._flush(log)
        elif config.flush_ms < NEVER and log not in self._timers and _is_unflushed(log):
            self._timers[log] = self._after(config.flush_ms, Due(log))

    def _flush(self, log: Log) -> None:
        timer = self._timers.pop(log, None)
        if timer is not None:
            timer.cancel()
        if log not in self._flushing and _is_unflushed(log):
            self._flushing.add(log)
            self._pipe(log.flush(), lambda outcome: Done(log, outcome))

    # --- rounds -----------------------------------------------------------------------------------

    async def _work(self, round: Round, logs: LogManager) -> Any:  # noqa: A002 - it is one
        now_ms = self._world.clock.now_ms()
        with Storage(round.value):
            match round:
                case Round.HIGH_WATERMARKS:
                    failures = await logs.flush_dirty(now_ms)  # as it is configured now
                    await logs.checkpoint_high_watermarks(self._to_note())
                    return failures
                case Round.RECOVERY_POINTS:
                    failures = await _flush_complete(logs)
                    await logs.checkpoint_recovery_points()
                    return failures
                case Round.LOG_STARTS:
                    await logs.checkpoint_log_start_offsets()
                case Round.RETENTION:
                    return await logs.delete_old_segments(_high_watermarks(self._replicas), now_ms)
                case Round.DELETION:
                    await logs.delete_marked(now_ms)
                case Round.CLEANER:
                    await logs.clean_dirtiest(_high_watermarks(self._replicas), now_ms)
                case Round.PRODUCERS:
                    _forget_producers(logs, now_ms - self._config.producer_id_expiration_ms)
        return None

    def _to_note(self) -> dict[TopicPartition, Offset]:
        """Also of what was stopped: it is kept as it is, and may be asked for again."""
        return _high_watermarks(self._stopped) | _high_watermarks(self._replicas)

    def _again(self, round: Round) -> None:  # noqa: A002
        delay_ms = getattr(self._config, round.value.replace(".", "_"))
        self._after(delay_ms or AT_ONCE_MS, Due(round))


def _high_watermarks(replicas: Replicas) -> dict[TopicPartition, Offset]:
    """Of all that have a log."""
    return {at: each.high_watermark for at, each in replicas.items() if each.log is not None}


async def _flush_complete(logs: LogManager) -> Mapping[TopicPartition, KafkaStorageError]:
    """As Log.roll, if not at once: a segment that is complete is durable whatever is configured."""
    failures = {}
    for at, log in tuple(logs.logs.items()):
        if log.has_segments and log.segments[-1].base_offset > log.recovery_point:
            try:
                await log.flush(log.segments[-1].base_offset)
            except KafkaStorageError as failure:
                failures[at] = failure
    return failures


def _forget_producers(logs: LogManager, before_ms: int) -> None:
    """As ProducerStateManager.removeExpiredProducers: of those not heard since then."""
    for log in logs.logs.values():
        if log.producers is not None:
            log.producers.states.forget_silent(before_ms)


def _is_unflushed(log: Log) -> bool:
    return not log.is_closed and log.log_end_offset > log.recovery_point
