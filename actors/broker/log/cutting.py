"""Logs are cut, durably.

Rule: what is noted is lowered first, so that a note never vouches for what half a cut has left.
Each log that is cut has its turn for as long as that takes.
"""

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack

from actors.broker.log.log import Log
from actors.broker.log.notes import Notes, Offsets
from actors.broker.log.storage import RottenLog
from wire.errors import CorruptRecordBatch, KafkaStorageError
from wire.ids import TopicPartition

Failures = Mapping[TopicPartition, KafkaStorageError]
Then = Callable[[TopicPartition], None]


def nothing(_: TopicPartition) -> None:
    """Nobody waits for the cut itself."""


class Cutting:
    """Cuts logs of one disk."""

    def __init__(self, logs: Mapping[TopicPartition, Log], notes: Notes) -> None:
        self._logs = logs
        self._notes = notes

    async def cut(
        self, offsets: Offsets, cut: Callable[[TopicPartition, Log], object], then: Then
    ) -> Failures:
        """Vouch for less, then cut: half of it may be all that survives. Then make it durable."""
        logs = {at: self._logs[at] for at in sorted(offsets)}
        failures: dict[TopicPartition, KafkaStorageError] = {}
        async with AsyncExitStack() as turns:
            await take_turns(turns, logs)
            try:
                async with self._notes.turn:
                    await self._notes.lower(offsets)
                    for at, log in logs.items():
                        try:
                            if not log.is_closed:
                                cut(at, log)
                                then(at)
                        except KafkaStorageError as failure:
                            failures[at] = failure
                        except CorruptRecordBatch as rot:
                            failures[at] = RottenLog(f"{at} cannot be truncated: {rot}")
            except KafkaStorageError as failure:  # of a note
                return dict.fromkeys(logs, failure)
            for at, log in logs.items():
                try:
                    await log.flush_in_turn(log.log_end_offset)
                except KafkaStorageError as failure:
                    failures.setdefault(at, failure)
        return failures


async def take_turns(turns: AsyncExitStack, logs: Mapping[TopicPartition, Log | None]) -> None:
    """In one order: two who need the same do not wait for each other."""
    for at in sorted(logs):
        log = logs[at]
        if log is not None:
            await turns.enter_async_context(log.turn)
