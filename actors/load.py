"""A workload of one's own: records at a steady rate, and a group that reads them.

Rule: what is behind its time is sent at once, so the rate holds on average; how many are under way
is bounded, so a cluster that takes less than is offered is shown, not drowned.
"""

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from math import ceil
from typing import Final

from msgspec import Struct

from actors.client.accumulator import Delivery
from actors.client.consumer import Consumer
from actors.client.producer import Producer
from actors.clients import Clients
from runtime.tasks import Tasks
from runtime.world import Clock
from wire.errors import ApiError, MalformedMessage, TopicAlreadyExists
from wire.ids import TopicPartition

TOPIC: Final = "load"
GROUP: Final = "load"
PARTITIONS: Final = 6
RECORD_BYTES: Final = 100
TICK_MS: Final = 10
REPORT_MS: Final = 1_000
MOST_UNDER_WAY: Final = 10_000
MOST_REPLICAS: Final = 3
BACKOFF_MS: Final = 100
SAMPLES: Final = 20_000


class LoadReport(Struct, frozen=True):
    """What the last second was like."""

    offered: float  # records a second
    acknowledged: float
    consumed: float
    failed: int  # so far
    p50_ms: float
    p99_ms: float
    under_way: int


class Load:
    """Produces and consumes until it is closed."""

    def __init__(
        self,
        clients: Clients,
        clock: Clock,
        *,
        rate: float,
        on_report: Callable[[LoadReport], None],
    ) -> None:
        self._clients = clients
        self._clock = clock
        self._rate = rate
        self._on_report = on_report
        self._latencies: deque[float] = deque(maxlen=SAMPLES)
        self._sent = self._acknowledged = self._consumed = self._failed = self._under_way = 0
        self._tasks = Tasks(self._crashed)
        self.error: Exception | None = None

    async def start(self, brokers: int) -> None:
        """Make the topic, unless it is there, and begin."""
        with suppress(TopicAlreadyExists):
            await self._clients.admin().create_topic(
                TOPIC, partitions=PARTITIONS, replication_factor=min(MOST_REPLICAS, brokers)
            )
        self._tasks.start(self._produce())
        self._tasks.start(self._consume())
        self._tasks.start(self._report())

    async def close(self) -> None:
        """Stop at once; what is under way is not waited for."""
        await self._tasks.close()

    async def _produce(self) -> None:
        async with self._clients.producer(acks=-1, linger_ms=5) as producer:
            begun_ms = self._clock.elapsed_ms()
            while True:
                due = int((self._clock.elapsed_ms() - begun_ms) * self._rate / 1000)
                room = MOST_UNDER_WAY - self._under_way
                if due - self._sent > room:  # what there was no room for is not made up for
                    begun_ms = self._clock.elapsed_ms() - (self._sent + room) * 1000 / self._rate
                for _ in range(min(due - self._sent, room)):
                    await self._send(producer)
                await self._clock.sleep(TICK_MS)

    async def _send(self, producer: Producer) -> None:
        value = f"record {self._sent} ".encode().ljust(RECORD_BYTES, b".")
        self._sent += 1
        partition = self._sent % PARTITIONS
        try:
            delivery = await producer.enqueue(TOPIC, value, partition=partition)
        except (ApiError, MalformedMessage):
            self._failed += 1
            return
        self._under_way += 1
        self._tasks.start(self._await(delivery, self._clock.elapsed_ms()))

    async def _await(self, delivery: Delivery, sent_ms: float) -> None:
        try:
            await delivery
            self._acknowledged += 1
            self._latencies.append(self._clock.elapsed_ms() - sent_ms)
        except (ApiError, MalformedMessage):
            self._failed += 1
        finally:
            self._under_way -= 1

    async def _consume(self) -> None:
        options = {"group_id": GROUP, "auto_offset_reset": "earliest", "max_poll_records": 5_000}
        async with self._clients.consumer(**options) as consumer:
            consumer.assign([TopicPartition(TOPIC, number) for number in range(PARTITIONS)])
            committed_ms = self._clock.elapsed_ms()
            while True:
                try:
                    self._consumed += len(await consumer.poll(timeout_ms=500))
                    if self._clock.elapsed_ms() - committed_ms > REPORT_MS:
                        committed_ms = self._clock.elapsed_ms()
                        await self._commit(consumer)
                except (ApiError, MalformedMessage):
                    await self._clock.sleep(BACKOFF_MS)  # nobody leads for a moment

    async def _commit(self, consumer: Consumer) -> None:
        with suppress(ApiError):  # the next one says all that this one would have said
            await consumer.commit(timeout_ms=REPORT_MS)

    async def _report(self) -> None:
        before = (self._sent, self._acknowledged, self._consumed)
        at_ms = self._clock.elapsed_ms()
        while True:
            await self._clock.sleep(REPORT_MS)
            now, now_ms = (self._sent, self._acknowledged, self._consumed), self._clock.elapsed_ms()
            sent, acknowledged, consumed = (
                (new - old) * 1000 / (now_ms - at_ms) for new, old in zip(now, before, strict=True)
            )
            ranked = sorted(self._latencies)
            self._latencies.clear()
            before, at_ms = now, now_ms
            self._on_report(
                LoadReport(
                    round(sent, 1),
                    round(acknowledged, 1),
                    round(consumed, 1),
                    self._failed,
                    _percentile(ranked, 50),
                    _percentile(ranked, 99),
                    self._under_way,
                )
            )

    def _crashed(self, error: Exception) -> None:
        self.error = self.error or error


def _percentile(ranked: list[float], part: float) -> float:
    if not ranked:
        return 0.0
    return round(ranked[max(ceil(part / 100 * len(ranked)), 1) - 1], 2)
