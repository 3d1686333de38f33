"""A group of two other people's consumers: how long from subscribing to the first record.

librdkafka, with records waiting. Both subscribe at once, and what is measured ends when the first
of them has a record; then when both have one, which takes another heartbeat.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from threading import Thread
from time import perf_counter

from confluent_kafka import Consumer

from actors.cluster import Cluster
from tests.bench.harness import Row, less_than

TOPIC = "group-bench"
PARTITIONS = 12
ROUNDS = 5
LIMIT_S = 30
HEARTBEAT_MS = 500
NEVER = float("inf")


def rows() -> Iterator[Row]:
    """Every bar of groups."""
    yield from asyncio.run(_all_rows())


async def _all_rows() -> list[Row]:
    async with Cluster(brokers=3, overrides={"min_insync_replicas": 2}) as cluster:
        return [row async for row in group_rows(cluster)]


async def group_rows(cluster: Cluster) -> AsyncIterator[Row]:
    """On a cluster that runs already."""
    await cluster.admin().create_topic(TOPIC, partitions=PARTITIONS, replication_factor=3)
    async with cluster.producer(acks=-1) as producer:
        for number in range(PARTITIONS):
            await producer.send(TOPIC, b"x", partition=number)
    await _measure(cluster, "warm-up")  # the coordinators' topic is made at its first use
    measured = [await _measure(cluster, f"group-{number}") for number in range(ROUNDS)]
    first, both = (min(column) for column in zip(*measured, strict=True))
    detail = f"both have one after {1_000 * both:.0f} ms"
    yield less_than("group of 2, subscribe → first record", 1_000 * first, 500, " ms", detail)


async def _measure(cluster: Cluster, group: str) -> tuple[float, float]:
    """Seconds until the first has a record, and until both have."""
    members: list[_Member] = []
    members += (_Member(cluster.bootstrap_servers, group, members) for _ in range(2))
    begun = perf_counter()
    for each in members:
        each.start()
    for each in members:
        await asyncio.to_thread(each.join, LIMIT_S)
    times = sorted(each.first_at - begun for each in members)
    return times[0], times[1]


class _Member(Thread):
    """Reads until all of its group have a record, and leaves."""

    def __init__(self, bootstrap: str, group: str, members: list["_Member"]) -> None:
        super().__init__(daemon=True)
        self._members = members
        self.first_at = NEVER
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "heartbeat.interval.ms": HEARTBEAT_MS,
            }
        )

    def run(self) -> None:
        self._consumer.subscribe([TOPIC])
        until = perf_counter() + LIMIT_S
        while perf_counter() < until and any(each.first_at == NEVER for each in self._members):
            for message in self._consumer.consume(1, 0.05):
                if message.error() is None:
                    self.first_at = min(self.first_at, perf_counter())
        self._consumer.close()
