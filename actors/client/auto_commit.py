"""What is committed by itself: enable.auto.commit.

Rule: poll commits what earlier polls have returned, aside, when the interval is over; what goes to
somebody else is committed before it goes. A commit that fails is no failure of poll: the next one
says more.
"""

from collections.abc import Iterable
from contextlib import suppress

from actors.client.config import ConsumerConfig
from actors.client.deadline import Deadline
from actors.client.group import GroupOffsets, OffsetAndMetadata
from actors.client.subscription import Assigned
from runtime.tasks import Tasks
from runtime.world import Clock
from wire.errors import ApiError, MalformedMessage
from wire.ids import TopicPartition

Offsets = dict[TopicPartition, OffsetAndMetadata]


def positions_of(partitions: Iterable[Assigned]) -> Offsets:
    """How far a consumer has come."""
    return {
        each.partition: OffsetAndMetadata(each.position, "", each.leader_epoch)
        for each in partitions
        if each.position is not None
    }


class AutoCommit:
    """Commits from time to time."""

    def __init__(
        self, config: ConsumerConfig, clock: Clock, group: GroupOffsets | None, tasks: Tasks
    ) -> None:
        self._config = config
        self._clock = clock
        self._group = group if config.enable_auto_commit else None
        self._tasks = tasks
        self._due_ms = clock.elapsed_ms() + config.auto_commit_interval_ms
        self._is_committing = False

    def at_poll(self, partitions: Iterable[Assigned]) -> None:
        """The program asks for more: it has done with what it got."""
        now_ms = self._clock.elapsed_ms()
        if self._group is None or now_ms < self._due_ms or self._is_committing:
            return
        self._due_ms = now_ms + self._config.auto_commit_interval_ms
        if wanted := positions_of(partitions):
            self._is_committing = True
            self._tasks.start(self._commit_aside(wanted))

    async def finally_(self, partitions: Iterable[Assigned], timeout_ms: float) -> None:
        """These go to somebody else."""
        wanted = {} if self._group is None else positions_of(partitions)
        if wanted:
            await self._commit(wanted, timeout_ms)

    async def _commit_aside(self, wanted: Offsets) -> None:
        try:
            await self._commit(wanted, self._config.default_api_timeout_ms)
        finally:
            self._is_committing = False

    async def _commit(self, wanted: Offsets, timeout_ms: float) -> None:
        assert self._group is not None, "without a group nothing is committed"
        with suppress(ApiError, MalformedMessage):
            await self._group.commit(wanted, Deadline(self._clock, timeout_ms))
