"""What a broker does to its logs in the background: note, flush, retire, compact.

Rule: one round of each kind at a time, begun by a timer and awaited aside; the replica manager goes
on meanwhile. A disk that fails under one of them is told of as if an append had failed.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from actors.broker.log.manager import LogManager
from actors.broker.replica import Replicas
from actors.config import BrokerConfig
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


@dataclass(frozen=True)
class Due:
    """It is time for a round."""

    round: Round


@dataclass(frozen=True)
class Done:
    """A round is over."""

    round: Round
    outcome: Outcome


class Upkeep:
    """The rounds of one broker."""

    def __init__(
        self,
        world: World,
        config: BrokerConfig,
        replicas: Replicas,
        *,
        after: Callable[[float, Any], Timer],
        pipe: Callable[[Awaitable[Any], Callable[[Outcome], Any]], None],
    ) -> None:
        self._world = world
        self._config = config
        self._replicas = replicas
        self._after = after
        self._pipe = pipe
        self._is_begun = False

    def begin(self) -> None:
        """Set the timers, at the first decision of a controller (B136)."""
        if not self._is_begun:
            self._is_begun = True
            for each in Round:
                if each is not Round.CLEANER or self._config.log_cleaner_enable:
                    self._again(each)

    def on_due(self, due: Due, logs: LogManager) -> None:
        """Begin a round."""
        self._pipe(self._work(due.round, logs), lambda outcome: Done(due.round, outcome))

    def on_done(self, done: Done) -> KafkaStorageError | None:
        """Set the timer for the next one; the failure, if the disk failed."""
        self._again(done.round)
        if isinstance(done.outcome.error, KafkaStorageError):
            return done.outcome.error
        failures: Mapping[TopicPartition, KafkaStorageError] = done.outcome.get() or {}
        return next(iter(failures.values()), None)

    def high_watermarks(self) -> dict[TopicPartition, Offset]:
        """Of all replicas that have a log."""
        return {
            at: replica.high_watermark
            for at, replica in self._replicas.items()
            if replica.log is not None
        }

    async def _work(self, round: Round, logs: LogManager) -> Any:  # noqa: A002 - it is one
        now_ms = self._world.clock.now_ms()
        match round:
            case Round.HIGH_WATERMARKS:
                failures = await logs.flush_dirty(now_ms)
                await logs.checkpoint_high_watermarks(self.high_watermarks())
                return failures
            case Round.RECOVERY_POINTS:
                await logs.checkpoint_recovery_points()
            case Round.LOG_STARTS:
                await logs.checkpoint_log_start_offsets()
            case Round.RETENTION:
                return await logs.delete_old_segments(self.high_watermarks(), now_ms)
            case Round.DELETION:
                await logs.delete_marked(now_ms)
            case Round.CLEANER:
                await logs.clean_dirtiest(self.high_watermarks(), now_ms)
        return None

    def _again(self, round: Round) -> None:  # noqa: A002
        delay_ms = getattr(self._config, round.value.replace(".", "_"))
        self._after(delay_ms or AT_ONCE_MS, Due(round))
