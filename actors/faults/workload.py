"""What clients do while things fail: they send, they read, they commit; and all is taken down.

Rule: it stops by itself. A record that nobody acknowledged is no failure of the workload: whether
that is right is the history's to tell.
"""

from contextlib import suppress
from typing import Final

from actors.clients import Clients
from actors.faults.history.recording import (
    History,
    HistoryConsumer,
    HistoryDelivery,
    HistoryProducer,
)
from actors.faults.scenario import Load, Produce, Topic
from runtime.tasks import Tasks
from runtime.world import Clock
from wire.errors import ApiError, MalformedMessage
from wire.ids import TopicPartition

BURST: Final = 5  # records that are sent together
DELIVERY_TIMEOUT_MS: Final = 15_000
REQUEST_TIMEOUT_MS: Final = 3_000
POLL_MS: Final = 500
GROUP: Final = "readers"
MEMBERS: Final = "members"  # of their group
SESSION_MS: Final = 6_000
HEARTBEAT_MS: Final = 500
FAILURES: Final = (ApiError, MalformedMessage)


class Workload:
    """Clients that work until their records are sent."""

    def __init__(self, clients: Clients, clock: Clock, topics: tuple[Topic, ...]) -> None:
        self.history = History(clock)
        self.acknowledged = 0
        self.failed = 0
        self._clients = clients
        self._clock = clock
        self._partitions = [
            TopicPartition(topic.name, number)
            for topic in topics
            for number in range(len(topic.replicas))
        ]
        self._tasks = Tasks(self._crashed)
        self._writing = Tasks(self._crashed)
        self._sent = 0
        self.crashes: list[Exception] = []

    def start(self, load: Load) -> None:
        """Begin."""
        if load.records and self._partitions:
            self._writing.start(self._write(load))
            self._tasks.start(self._read())
            if load.groups:
                self._tasks.start(self._commit())
            for number in range(load.members):
                self._tasks.start(self._belong(f"member-{number + 1}"))

    async def finish(self) -> None:
        """Wait until all that is sent was answered or given up; the readers stop then."""
        await self._writing.idle()
        await self._tasks.close()

    async def close(self) -> None:
        """Stop at once."""
        await self._writing.close()
        await self._tasks.close()

    async def produce(self, asked: Produce) -> None:
        """Send some records beside the load."""
        async with self._producer(asked.acks, "extra", is_idempotent=False) as producer:
            partition = TopicPartition(asked.topic, asked.partition)
            for _ in range(asked.records):
                await self._settle(await self._enqueue(producer, partition))

    async def read_all(self) -> None:
        """Read everything once, from the beginning to the end."""
        consumer = HistoryConsumer(self._clients.consumer(), self.history, "judge")
        async with consumer:
            await consumer.read_to_end(self._partitions)

    async def _write(self, load: Load) -> None:
        bursts = max(1, -(-load.records // BURST))
        pace_ms = load.over_ms / bursts
        is_idempotent = load.idempotence
        async with self._producer(load.acks, "writer", is_idempotent=is_idempotent) as producer:
            deliveries = Tasks(self._crashed)
            for number in range(bursts):
                partition = self._partitions[number % len(self._partitions)]
                for _ in range(min(BURST, load.records - number * BURST)):
                    with suppress(*FAILURES):
                        delivery = await self._enqueue(producer, partition)
                        deliveries.start(self._settle(delivery))
                await self._clock.sleep(pace_ms)
            await deliveries.idle()

    async def _enqueue(
        self, producer: HistoryProducer, partition: TopicPartition
    ) -> HistoryDelivery:
        self._sent += 1
        value = f"{partition} {self._sent}".encode()
        return await producer.enqueue(partition.topic, value, partition=partition.partition)

    async def _settle(self, delivery: HistoryDelivery) -> None:
        try:
            await delivery
            self.acknowledged += 1
        except FAILURES:
            self.failed += 1

    def _producer(self, acks: int, name: str, *, is_idempotent: bool) -> HistoryProducer:
        producer = self._clients.producer(
            acks=acks,
            enable_idempotence=is_idempotent,
            delivery_timeout_ms=DELIVERY_TIMEOUT_MS,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            max_block_ms=DELIVERY_TIMEOUT_MS,
        )
        return HistoryProducer(producer, self.history, name)

    async def _read(self) -> None:
        consumer = HistoryConsumer(
            self._clients.consumer(auto_offset_reset="earliest"), self.history, "reader"
        )
        async with consumer:
            consumer.assign(self._partitions)
            while True:
                with suppress(*FAILURES):
                    await consumer.poll(POLL_MS)
                await self._clock.sleep(POLL_MS)

    async def _commit(self) -> None:
        consumer = HistoryConsumer(
            self._clients.consumer(group_id=GROUP), self.history, "committer"
        )
        offset = 0
        async with consumer:
            while True:
                offset += 1
                with suppress(*FAILURES):
                    await consumer.commit({self._partitions[0]: offset}, 2_000)
                with suppress(*FAILURES):
                    await consumer.committed(self._partitions[:1], 2_000)
                await self._clock.sleep(POLL_MS)

    async def _belong(self, name: str) -> None:
        """Read what the group gives, and commit it; a member that fails goes on."""
        consumer = HistoryConsumer(
            self._clients.consumer(
                group_id=MEMBERS,
                auto_offset_reset="earliest",
                session_timeout_ms=SESSION_MS,
                heartbeat_interval_ms=HEARTBEAT_MS,
                max_poll_interval_ms=2 * SESSION_MS,
                request_timeout_ms=REQUEST_TIMEOUT_MS,
            ),
            self.history,
            name,
        )
        async with consumer:
            consumer.subscribe(sorted({each.topic for each in self._partitions}))
            while True:
                with suppress(*FAILURES):
                    if await consumer.poll(POLL_MS):
                        await consumer.commit(timeout_ms=2_000)
                await self._clock.sleep(POLL_MS)

    def _crashed(self, error: Exception) -> None:
        self.crashes.append(error)
