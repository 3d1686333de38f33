"""Which offset belongs to a time: what a consumer asks the leaders.

Rule: it is asked again until the deadline as long as the failure may pass; a partition that is
found is told at once, whatever becomes of the others.
"""

from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct

from actors.client.answers import by_partition, error_of
from actors.client.config import ISOLATION_LEVELS, ConsumerConfig
from actors.client.connection import Connection
from actors.client.deadline import Deadline
from actors.client.errors import may_pass
from actors.client.metadata import ClientMetadata, Leader
from runtime.tasks import Bell, all_of
from runtime.world import Clock
from wire.data import ListOffsets, ListOffsetsPartition, ListOffsetsResult
from wire.errors import ApiError, ErrorCode, LeaderNotAvailable, MalformedMessage
from wire.ids import NO_OFFSET, BrokerId, Offset, TopicPartition

Times = Mapping[TopicPartition, int]
Found = Callable[[TopicPartition, ListOffsetsResult], None]
Led = dict[BrokerId, dict[TopicPartition, Leader]]


class OffsetAndTimestamp(Struct, frozen=True, gc=False):
    """The first record at or after a time."""

    offset: Offset
    timestamp_ms: int


class OffsetLookup:
    """Asks for offsets by time, leader by leader."""

    def __init__(
        self,
        config: ConsumerConfig,
        clock: Clock,
        connection: Connection,
        metadata: ClientMetadata,
        bell: Bell,
    ) -> None:
        self._config = config
        self._clock = clock
        self._connection = connection
        self._metadata = metadata
        self._bell = bell  # rings when leaders are learnt

    async def find(self, times: Times, deadline: Deadline, found: Found) -> None:
        """Tell `found` of each; raise what went wrong last if the time is over."""
        missing = dict(times)
        failure: ApiError | None = None
        while missing:
            self._connection.check_open()
            wait_ms = self._metadata.keep_fresh(missing)
            led = self._by_leader(missing)
            within_ms = min(self._config.request_timeout_ms, deadline.left_ms)
            calls = [self._ask(leader, each, times, within_ms) for leader, each in led.items()]
            for asked, outcome in zip(led.values(), await all_of(calls), strict=True):
                if isinstance(outcome.error, ApiError):
                    failure = self._passing(outcome.error, asked)
                    continue
                for partition, result in outcome.get().items():
                    if result.error_code is ErrorCode.NONE:
                        del missing[partition]
                        found(partition, result)
                    else:
                        failure = self._passing(error_of(result, "ListOffsets of"), [partition])
            if missing and deadline.is_over:
                raise self._why_missing(min(missing), failure)
            if missing and led:
                backoff_ms = max(1, self._config.retry_backoff_ms)
                await self._clock.sleep(min(backoff_ms, deadline.left_ms))
            elif missing:
                await self._bell.wait(min(wait_ms, deadline.left_ms))

    def _by_leader(self, partitions: Mapping[TopicPartition, int]) -> Led:
        led: Led = {}
        for partition in sorted(partitions):
            if refusal := self._metadata.refusal(partition.topic):
                raise refusal
            leader = self._metadata.leader(partition)
            if leader is not None:
                led.setdefault(leader.broker, {})[partition] = leader
        return led

    async def _ask(
        self,
        broker: BrokerId,
        leaders: Mapping[TopicPartition, Leader],
        times: Times,
        within_ms: float,
    ) -> dict[TopicPartition, ListOffsetsResult]:
        request = ListOffsets(
            isolation_level=ISOLATION_LEVELS[self._config.isolation_level],
            partitions=tuple(
                ListOffsetsPartition(
                    partition=each,
                    timestamp_ms=times[each],
                    current_leader_epoch=leader.epoch,
                )
                for each, leader in leaders.items()
            ),
        )
        response = await self._connection.call(broker, request, within_ms)
        results = by_partition(leaders, response.partitions, "ListOffsets")
        for each in results.values():
            is_lost = each.offset == NO_OFFSET and times[each.partition] < 0
            if each.error_code is ErrorCode.NONE and (each.offset < NO_OFFSET or is_lost):
                raise MalformedMessage(f"offset {each.offset} was answered for {each.partition}")
        return results

    def _passing(self, error: ApiError, partitions: Iterable[TopicPartition]) -> ApiError:
        """Remember what may pass, raise what does not."""
        if not may_pass(error.code):
            raise error
        for each in partitions:
            self._metadata.doubt(each)
        return error

    def _why_missing(self, partition: TopicPartition, failure: ApiError | None) -> Exception:
        is_led = partition.partition in self._metadata.partitions_with_leaders(partition.topic)
        if failure is not None and is_led:
            return failure
        why = self._metadata.why_unknown(partition.topic) or self._metadata.failure
        if why is not None:
            return type(why)(f"{partition} has no leader: {why}")
        return LeaderNotAvailable(f"{partition} has no leader")
