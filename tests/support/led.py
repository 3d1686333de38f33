"""One broker that leads, and a test that plays its followers, 8 and 9, request by request."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from runtime.simulation.simulator import Simulator
from tests.support.data import batch_of
from tests.support.drive import Drive
from tests.support.orders import leader_and_isr, order
from wire.control import LeaderAndIsrResponse
from wire.data import (
    INITIAL_SESSION_EPOCH,
    NO_SESSION,
    Fetch,
    FetchPartition,
    FetchResponse,
    FetchResult,
    Produce,
    ProducePartition,
    ProduceResponse,
    ProduceResult,
)
from wire.errors import ErrorCode
from wire.ids import BrokerId, Offset, TopicPartition

LAG_MS = 10_000
EPOCH = 10  # the first leader epoch; the topic's own controller stays below
ORDERS = TopicPartition("orders", 0)
ALL = (1, 8, 9)
MIB = 1 << 20


def at(number: int) -> TopicPartition:
    return TopicPartition("orders", number)


class Led:
    """Broker 1 leads `orders`, also for replicas 8 and 9, who are nobody but the test."""

    def __init__(self, drive: Drive) -> None:
        self.drive = drive
        self.sim = drive.sim

    @classmethod
    async def start(
        cls,
        sim: Simulator,
        *,
        isr: Sequence[int] = ALL,
        partitions: int = 1,
        overrides: Mapping[str, Any] | None = None,
        **config: str,
    ) -> "Led":
        """Start it; `config` is the topic's, and `overrides` the broker's."""
        calm = {"auto_leader_rebalance_enable": False, "replica_lag_time_max_ms": LAG_MS}
        led = cls(await Drive.start(sim, 1, overrides=calm | dict(overrides or {})))
        if config:
            await led.drive.configure("topics", "orders", **config)
        await led.drive.create("orders", {number: [1] for number in range(partitions)})
        await led.lead(*map(at, range(partitions)), isr=isr)
        return led

    async def lead(
        self,
        *partitions: TopicPartition,
        isr: Sequence[int] = ALL,
        replicas: Sequence[int] = ALL,
        epoch: int = EPOCH,
        leader: int = 1,
    ) -> None:
        """Decide, as the controller would."""
        orders = [
            order(
                each,
                leader,
                epoch,
                isr=tuple(isr),
                replicas=tuple(replicas),
                partition_epoch=self.drive.version(each.topic, each.partition),
            )
            for each in partitions or (ORDERS,)
        ]
        response = await self.drive.ask(1, leader_and_isr(*orders), LeaderAndIsrResponse)
        assert {each.error_code for each in response.partitions} == {ErrorCode.NONE}

    # --- what is there ----------------------------------------------------------------------------

    @property
    def manager(self) -> Any:
        return self.drive.node(1).replica_manager

    def replica(self, partition: TopicPartition = ORDERS) -> Any:
        return self.drive.replica(1, partition.topic, partition.partition)

    @property
    def high_watermark(self) -> int:
        return int(self.replica().high_watermark)

    @property
    def isr(self) -> tuple[int, ...]:
        """The leader's, which it takes from ZooKeeper."""
        isr: tuple[int, ...] = self.replica().hosted.isr
        return isr

    @property
    def waiting(self) -> tuple[int, int]:
        """How many produce requests and fetches wait."""
        return len(self.manager.leading.purgatory), self.manager.leading.serving.readers.waiting

    # --- what is asked ----------------------------------------------------------------------------

    async def produce(
        self, *values: bytes, acks: int = 1, timeout_ms: int = 30_000
    ) -> ProduceResult:
        """Append one batch to partition 0."""
        (result,) = await self.produce_to({ORDERS: batch_of(*values)}, acks, timeout_ms)
        return result

    async def produce_to(
        self, batches: Mapping[TopicPartition, bytes | bytearray], acks: int, timeout_ms: int
    ) -> tuple[ProduceResult, ...]:
        entries = tuple(ProducePartition(to, memoryview(data)) for to, data in batches.items())
        request = Produce(acks=acks, timeout_ms=timeout_ms, partitions=entries)
        return (await self.drive.ask(1, request, ProduceResponse)).partitions

    async def fetch(
        self, offset: int, *, by: int = -1, epoch: int = -1, last_epoch: int = -1, **fields: Any
    ) -> FetchResult:
        """Read partition 0 as a consumer, or as a follower without a session."""
        (result,) = (await self.fetch_of({ORDERS: offset}, by, epoch, last_epoch, **fields))[0]
        return result

    async def fetch_of(
        self,
        offsets: Mapping[TopicPartition, int],
        by: int = -1,
        epoch: int = -1,
        last_epoch: int = -1,
        **fields: Any,
    ) -> tuple[tuple[FetchResult, ...], FetchResponse]:
        response = await self.ask_fetch(offsets, by, epoch, last_epoch, **fields)
        return response.partitions, response

    async def ask_fetch(
        self,
        offsets: Mapping[TopicPartition, int],
        by: int = -1,
        epoch: int = -1,
        last_epoch: int = -1,
        **fields: Any,
    ) -> FetchResponse:
        most = fields.pop("partition_max_bytes", MIB)
        wanted = tuple(
            FetchPartition(
                partition=each,
                fetch_offset=Offset(offset),
                max_bytes=most,
                current_leader_epoch=epoch,
                last_fetched_epoch=last_epoch,
                log_start_offset=Offset(0),
            )
            for each, offset in offsets.items()
        )
        defaults = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": MIB}
        request = Fetch(replica_id=BrokerId(by), partitions=wanted, **(defaults | fields))
        return await self.drive.ask(1, request, FetchResponse)

    def later(self, answer: Any) -> "asyncio.Task[Any]":
        """Ask now, and hear the answer when the test wants to."""
        return asyncio.ensure_future(answer)


class FollowerSession:
    """A follower's fetch session, in which a request names what has changed."""

    def __init__(self, led: Led, broker: int) -> None:
        self._led = led
        self._broker = broker
        self.id = NO_SESSION
        self.epoch = INITIAL_SESSION_EPOCH

    async def fetch(
        self,
        offsets: Mapping[TopicPartition, int] | int | None = None,
        *,
        forgotten: Iterable[TopicPartition] = (),
        **fields: Any,
    ) -> dict[TopicPartition, FetchResult]:
        """The next request of the session; without offsets, one that says nothing new."""
        named = {ORDERS: offsets} if isinstance(offsets, int) else offsets or {}
        session = {"session_id": self.id, "session_epoch": self.epoch}
        response = await self._led.ask_fetch(
            named, self._broker, forgotten=tuple(forgotten), **(session | fields)
        )
        assert response.error_code is ErrorCode.NONE
        self.id, self.epoch = response.session_id, self.epoch + 1
        return {each.partition: each for each in response.partitions}
