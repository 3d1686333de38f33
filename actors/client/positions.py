"""Where a consumer begins to read a partition.

Rule: at the offset that its group committed, else where auto.offset.reset says. It is looked up
aside, so that one partition without a leader holds up no other.
"""

from collections.abc import Awaitable, Callable, Iterable

from actors.client.config import RESETS, ConsumerConfig
from actors.client.deadline import Deadline
from actors.client.errors import NoOffsetForPartition, may_pass
from actors.client.group import GroupOffsets
from actors.client.offsets import OffsetLookup
from actors.client.subscription import Assigned, Need
from runtime.tasks import Bell, Tasks
from runtime.world import Clock
from wire.data import ListOffsetsResult
from wire.errors import ApiError, MalformedMessage
from wire.ids import TopicPartition

Turns = dict[TopicPartition, tuple[Assigned, int]]  # and the turn in which it was asked


class Positions:
    """Finds positions for the partitions that have none."""

    def __init__(
        self,
        config: ConsumerConfig,
        clock: Clock,
        lookup: OffsetLookup,
        group: GroupOffsets | None,
        tasks: Tasks,
        bell: Bell,
    ) -> None:
        self._config = config
        self._clock = clock
        self._lookup = lookup
        self._group = group
        self._tasks = tasks
        self._bell = bell

    def look_up(self, partitions: Iterable[Assigned]) -> None:
        """Ask aside for what is missing; the bell rings when it is known."""
        now_ms = self._clock.elapsed_ms()
        missing = [each for each in partitions if each.position is None and each.is_idle(now_ms)]
        if RESETS[self._config.auto_offset_reset] is None:
            for each in missing:
                if each.need is Need.RESET:
                    each.error = NoOffsetForPartition(each.partition)
        for need, ask in ((Need.COMMITTED, self._committed), (Need.RESET, self._reset)):
            asked: Turns = {
                each.partition: (each, each.turn)
                for each in missing
                if each.need is need and each.error is None
            }
            for each, _ in asked.values():
                each.is_asking = True
            if asked:
                self._tasks.start(self._guarded(asked, ask))

    async def _guarded(self, asked: Turns, ask: Callable[[Turns], Awaitable[None]]) -> None:
        """What may pass is asked again after a while; the rest is for the program to hear."""
        error: ApiError | MalformedMessage | None = None
        try:
            await ask(asked)
        except (ApiError, MalformedMessage) as failure:
            error = failure
        for each, turn in asked.values():
            if each.turn != turn:
                continue  # found, or no longer wanted
            each.is_asking = False
            each.retry_at_ms = self._clock.elapsed_ms() + self._config.retry_backoff_ms
            if not (isinstance(error, ApiError) and may_pass(error.code)):
                each.error = error
        self._bell.ring()

    async def _committed(self, asked: Turns) -> None:
        assert self._group is not None, "without a group nothing was committed"
        found = await self._group.committed(tuple(asked), self._deadline())
        for partition, (each, turn) in asked.items():
            committed = found[partition]
            if each.turn != turn:
                continue
            if committed is None:
                each.become(None, Need.RESET)
            else:
                each.become(committed.offset)

    async def _reset(self, asked: Turns) -> None:
        time_ms = RESETS[self._config.auto_offset_reset]
        assert time_ms is not None, "auto.offset.reset says where to go"

        def found(partition: TopicPartition, result: ListOffsetsResult) -> None:
            each, turn = asked[partition]
            if each.turn == turn:
                each.become(result.offset)
                self._bell.ring()

        await self._lookup.find(dict.fromkeys(asked, time_ms), self._deadline(), found)

    def _deadline(self) -> Deadline:
        return Deadline(self._clock, self._config.default_api_timeout_ms)
