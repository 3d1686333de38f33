"""How a producer's batches reach their leaders.

Rule: every batch ends exactly once: acknowledged, refused for good, or too old. What may pass is
tried again after retry.backoff.ms, with the leaders looked up anew. A batch that cannot be encoded
fails alone. An idempotent producer sends nothing before a broker has said who it is.
"""

from typing import Final

from actors.client.accumulator import Accumulator, ProducerBatch, grouped
from actors.client.answers import by_partition, error_of
from actors.client.config import ProducerConfig
from actors.client.connection import Connection
from actors.client.errors import failure_of, may_pass
from actors.client.memory import Memory
from actors.client.metadata import ClientMetadata
from actors.client.sequences import Sequences
from actors.client.transactions import Transactions
from runtime.network import NetworkError
from runtime.tasks import Bell, Tasks
from runtime.world import Clock
from wire.data import Produce, ProducePartition, ProduceResult
from wire.errors import ApiError, ErrorCode, InvalidRecord, MalformedMessage, exception_of
from wire.ids import NO_OFFSET, NO_TIMESTAMP_MS, BrokerId, TopicPartition
from wire.records import Attributes
from wire.transactions import InitProducerId

LEAST_WAIT_MS: Final = 0.01  # a shorter wait may not move a clock at all


class Sender:
    """The task behind a producer."""

    def __init__(
        self,
        config: ProducerConfig,
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
        self._bell = bell  # rings when something is enqueued, answered or learnt
        self.memory = Memory(config.buffer_memory)
        self._sequences = Sequences()
        self._is_naming = False
        self._name_at_ms = 0.0  # not before
        self.batches = Accumulator(config, self.memory.release, self._gave_up)
        self.transactions: Transactions | None = None
        if config.transactional_id is not None:
            self.transactions = Transactions(
                config, clock, connection, self._sequences, tasks, bell
            )
        self.flushes = 0  # that go on: nothing lingers meanwhile
        self._requests: dict[BrokerId, int] = {}  # in flight
        self._has_refused = False  # a batch in this turn, and there may be another behind it

    async def run(self) -> None:
        """Send what is ready, then sleep until something may be; ends by being cancelled."""
        while True:
            wait_ms = self._turn()
            await self._bell.wait(None if wait_ms is None else max(LEAST_WAIT_MS, wait_ms))

    def _turn(self) -> float | None:
        """Send what can go now; how long until the next turn is due, if nothing rings."""
        self._has_refused = False
        now_ms = self._clock.elapsed_ms()
        waits = [self.batches.expire(now_ms)]
        is_urgent = self.flushes > 0 or self.memory.is_short
        ready, next_ms = self.batches.ready(now_ms, is_urgent)
        waits.append(next_ms)
        if self.batches.partitions:
            # Also for those that wait to be sent again: by then their leaders should be known.
            waits.append(self._metadata.keep_fresh(self.batches.partitions))
        if self.transactions is not None:
            ready, retry_ms = self.transactions.admit(ready, now_ms)
            waits.append(retry_ms)
            if self.transactions.failure is not None:
                self.batches.give_up_waiting(self.transactions.failure)
        elif ready and self._config.enable_idempotence and not self._sequences.is_named:
            waits.append(self._ask_for_a_name(now_ms))
            ready = []
        for leader, partitions in grouped(ready, self._leader_of).items():
            self._send_to(leader, partitions)
            if self._config.acks == 0 or self._has_refused:
                waits.append(0)  # no answer will ring, and there may be more
        return min((each for each in waits if each is not None), default=None)

    def _send_to(self, leader: BrokerId, partitions: list[TopicPartition]) -> None:
        """As many requests as the leader may have unanswered."""
        most = self._config.max_in_flight_requests_per_connection
        while partitions and self._requests.get(leader, 0) < most:
            batches = self.batches.take(partitions)
            partitions = partitions[len(batches) :]
            self._send(leader, batches)

    # --- who the producer is ---------------------------------------------------------------------

    def _ask_for_a_name(self, now_ms: float) -> float | None:
        """Ask aside, one request at a time; how long to wait until the next."""
        if self._is_naming:
            return None
        if now_ms < self._name_at_ms:
            return self._name_at_ms - now_ms
        self._is_naming = True
        self._tasks.start(self._be_named())
        return None

    async def _be_named(self) -> None:
        try:
            response = await self._connection.call_any(
                InitProducerId(), self._config.request_timeout_ms
            )
            if response.error_code is not ErrorCode.NONE:
                self._connection.turn()
                raise exception_of(response.error_code)("no broker gives this producer an id")
            self._sequences.name(response.producer_id)
        except (ApiError, MalformedMessage) as error:
            if isinstance(error, MalformedMessage) or not may_pass(error.code):
                self.batches.close(error)
            self._name_at_ms = self._clock.elapsed_ms() + self._config.retry_backoff_ms
        finally:
            self._is_naming = False
            self._bell.ring()

    def _gave_up(self, batch: ProducerBatch) -> None:
        if self.transactions is not None:
            self.transactions.broke(batch.last_error or InvalidRecord(f"{batch.partition} failed"))
        elif batch.stamp is not None:
            self._sequences.give_up(batch.partition, batch.stamp)

    def _leader_of(self, partition: TopicPartition) -> BrokerId | None:
        leader = self._metadata.leader(partition)
        return None if leader is None else leader.broker

    # --- one request -----------------------------------------------------------------------------

    def _send(self, leader: BrokerId, taken: list[ProducerBatch]) -> None:
        batches = [each for each in taken if self._can_be_encoded(each)]
        if not batches:
            return
        for batch in batches:
            batch.attempts += 1
        request = Produce(
            acks=self._config.acks,
            timeout_ms=self._config.request_timeout_ms,
            partitions=tuple(ProducePartition(each.partition, each.encoded()) for each in batches),
            transactional_id=self._config.transactional_id,
        )
        if self._config.acks == 0:
            self._send_unanswered(leader, request, batches)
        else:
            self._requests[leader] = self._requests.get(leader, 0) + 1
            self._tasks.start(self._exchange(leader, request, batches))

    def _can_be_encoded(self, batch: ProducerBatch) -> bool:
        try:
            if self._config.enable_idempotence and batch.stamp is None:
                stamp = self._sequences.stamp(batch.partition)
                is_in_transaction = self.transactions is not None
                kind = Attributes.TRANSACTIONAL if is_in_transaction else Attributes.NONE
                batch.encoded(stamp, attributes=kind)
                batch.stamp = stamp
                self._sequences.use(batch.partition, stamp, len(batch.records))
            batch.encoded()
        except Exception as error:  # noqa: BLE001 - told to those whose records they are
            why = f"{type(error).__name__}: {error}"
            refusal = InvalidRecord(f"records for {batch.partition} cannot be encoded: {why}")
            self.batches.fail(batch, refusal)
            self._has_refused = True
            return False
        return True

    def _send_unanswered(
        self, leader: BrokerId, request: Produce, batches: list[ProducerBatch]
    ) -> None:
        try:
            self._connection.send(leader, request)
        except NetworkError as error:
            self._all_failed(batches, failure_of(error))
            return
        for batch in batches:
            self.batches.complete(batch, NO_OFFSET, NO_TIMESTAMP_MS)

    async def _exchange(
        self, leader: BrokerId, request: Produce, batches: list[ProducerBatch]
    ) -> None:
        try:
            response = await self._connection.call(leader, request, self._config.request_timeout_ms)
            asked = [batch.partition for batch in batches]
            results = by_partition(asked, response.partitions, "Produce")
            for batch in batches:
                self._on_result(batch, results[batch.partition])
        except (ApiError, MalformedMessage) as error:
            self._all_failed(batches, error)
        finally:
            self._requests[leader] -= 1
            self._bell.ring()

    def _on_result(self, batch: ProducerBatch, result: ProduceResult) -> None:
        if result.error_code is not ErrorCode.NONE:
            self._failed(batch, error_of(result, "Produce to"))
        elif result.base_offset < 0:
            answer = f"offset {result.base_offset} was answered for {batch.partition}"
            self.batches.fail(batch, MalformedMessage(answer))
        else:
            self.batches.complete(batch, result.base_offset, result.log_append_time_ms)

    def _all_failed(self, batches: list[ProducerBatch], error: ApiError | MalformedMessage) -> None:
        for batch in batches:
            self._failed(batch, error)

    def _failed(self, batch: ProducerBatch, error: ApiError | MalformedMessage) -> None:
        """Try again what may pass, as long as retries and time allow."""
        batch.last_error = error
        # Nobody knows what one who talks nonsense has done with the records: that is for the user.
        is_final = isinstance(error, MalformedMessage) or not may_pass(error.code)
        if is_final or batch.attempts > self._config.retries:
            self.batches.fail(batch, error)
            return
        self._metadata.doubt(batch.partition)
        retry_at_ms = self._clock.elapsed_ms() + self._config.retry_backoff_ms
        self.batches.give_back(batch, retry_at_ms)
