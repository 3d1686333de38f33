"""How a consumer's records come from their leaders.

Rule: one fetch at a time is in flight to a leader, and those to several run side by side. What may
pass is tried again with the leaders looked up anew; the rest is left at the partition for the
program to hear of. An answer counts only if the partition still waits at the offset that was asked.
"""

from collections.abc import Sequence

from msgspec import Struct

from actors.client.answers import by_partition, error_of
from actors.client.config import ISOLATION_LEVELS, RESETS, ConsumerConfig
from actors.client.connection import Connection
from actors.client.errors import PositionOutOfRange, may_pass
from actors.client.isolation import aborted_batches
from actors.client.metadata import ClientMetadata
from actors.client.subscription import Assigned, Need, Subscription
from runtime.tasks import Bell, Tasks
from runtime.world import Clock
from wire.data import Fetch, FetchPartition, FetchResult
from wire.errors import (
    ApiError,
    BadData,
    ErrorCode,
    MalformedMessage,
    exception_of,
)
from wire.ids import BrokerId, LeaderEpoch, Offset, TopicPartition
from wire.records import batches


class Asked(Struct, frozen=True):
    """What one fetch wants of one partition."""

    assigned: Assigned
    offset: Offset
    epoch: LeaderEpoch

    @property
    def is_current(self) -> bool:
        """Whether the answer is still wanted: a former leader's may come late, or after a seek."""
        return self.assigned.position == self.offset and not self.assigned.has_batches


class Fetches:
    """The fetches of one consumer."""

    def __init__(
        self,
        config: ConsumerConfig,
        clock: Clock,
        connection: Connection,
        metadata: ClientMetadata,
        tasks: Tasks,
        bell: Bell,
    ) -> None:
        self._config = config
        self._clock = clock
        self._connection = connection
        self._metadata = metadata
        self._tasks = tasks
        self._bell = bell
        self._in_flight: set[BrokerId] = set()

    def send(self, subscription: Subscription) -> None:
        """Ask every leader that is not being asked for what the program has not got."""
        now_ms = self._clock.elapsed_ms()
        wanted: dict[BrokerId, list[Asked]] = {}
        for each in subscription:
            if each.position is None or each.has_batches or not each.is_idle(now_ms):
                continue
            leader = self._metadata.leader(each.partition)
            if leader is not None and leader.broker not in self._in_flight:
                asked = Asked(each, each.position, leader.epoch)
                wanted.setdefault(leader.broker, []).append(asked)
        for broker, asked_here in wanted.items():
            self._in_flight.add(broker)
            self._tasks.start(self._exchange(broker, asked_here))

    async def _exchange(self, broker: BrokerId, asked: Sequence[Asked]) -> None:
        try:
            response = await self._connection.call(
                broker, self._request(asked), self._config.request_timeout_ms
            )
            if response.error_code is not ErrorCode.NONE:
                sentence = f"Fetch: {response.error_code.name}"
                raise exception_of(response.error_code)(sentence)
            partitions = [each.assigned.partition for each in asked]
            results = by_partition(partitions, response.partitions, "Fetch")
            for each in asked:
                if each.is_current:
                    self._take(each, results[each.assigned.partition])
        except (ApiError, MalformedMessage) as error:
            for each in asked:
                self._failed(each, error)
        finally:
            self._in_flight.discard(broker)
            self._bell.ring()

    def _request(self, asked: Sequence[Asked]) -> Fetch:
        return Fetch(
            max_wait_ms=self._config.fetch_max_wait_ms,
            min_bytes=self._config.fetch_min_bytes,
            max_bytes=self._config.fetch_max_bytes,
            isolation_level=ISOLATION_LEVELS[self._config.isolation_level],
            partitions=tuple(
                FetchPartition(
                    partition=each.assigned.partition,
                    fetch_offset=each.offset,
                    max_bytes=self._config.max_partition_fetch_bytes,
                    current_leader_epoch=each.epoch,
                )
                for each in asked
            ),
        )

    def _take(self, asked: Asked, result: FetchResult) -> None:
        assigned = asked.assigned
        partition = assigned.partition
        if result.error_code is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._out_of_range(assigned, partition, asked.offset)
        elif result.error_code is not ErrorCode.NONE:
            self._failed(asked, error_of(result, "Fetch of"))
        elif result.records is not None:
            assigned.high_watermark = result.high_watermark
            try:
                found = list(batches(result.records))
                aborted = aborted_batches(found, result.aborted_transactions or ())
                assigned.take(found, len(result.records), aborted)
            except (BadData, MalformedMessage) as error:
                assigned.drop()
                assigned.error = type(error)(f"{partition} at offset {asked.offset}: {error}")

    def _out_of_range(self, assigned: Assigned, partition: TopicPartition, offset: Offset) -> None:
        if RESETS[self._config.auto_offset_reset] is None:
            assigned.error = PositionOutOfRange(partition, offset)
        else:
            assigned.become(None, Need.RESET)

    def _failed(self, asked: Asked, error: ApiError | MalformedMessage) -> None:
        if not asked.is_current:
            return
        # A batch that the leader finds corrupt will not be better next time.
        is_passing = (
            isinstance(error, ApiError)
            and may_pass(error.code)
            and error.code is not ErrorCode.CORRUPT_MESSAGE
        )
        if is_passing:
            self._metadata.doubt(asked.assigned.partition)
            backoff_ms = self._config.retry_backoff_ms
            asked.assigned.retry_at_ms = self._clock.elapsed_ms() + backoff_ms
        else:
            asked.assigned.error = error
