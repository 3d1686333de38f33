"""Clients that measure themselves, each a process: `python -m tests.support.kafka_load`.

Rule: what it measured is its one line of output, in megabytes (of 10^6) a second.
"""

import asyncio
import struct
import sys
from time import perf_counter
from typing import Any

import confluent_kafka

from actors.remote import RemoteCluster

RECORD = b"x" * 1_024
PARTITIONS = 12
CHUNK = 1_000
WAIT_S = 60.0


def confluent_produce(servers: str, topic: str, count: int) -> float:
    """librdkafka, as it comes, but that it may keep more than its 100,000 records."""
    failed = 0

    def told(error: Any, _: Any) -> None:
        nonlocal failed
        failed += error is not None

    producer = confluent_kafka.Producer(
        {"bootstrap.servers": servers, "acks": "all", "queue.buffering.max.messages": 1_000_000}
    )
    producer.list_topics(topic, WAIT_S)
    begun = perf_counter()
    for number in range(count):
        producer.produce(topic, RECORD, partition=number % PARTITIONS, on_delivery=told)
        if number % CHUNK == 0:
            producer.poll(0)
    left = producer.flush(WAIT_S)
    took = perf_counter() - begun
    assert not left, f"{left} records are not acknowledged"
    assert not failed, f"{failed} records were refused"
    return count * len(RECORD) / took / 1e6


def confluent_consume(servers: str, topic: str, count: int) -> float:
    """librdkafka, by assignment, from the beginning."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": servers, "group.id": "bench", "enable.auto.commit": False}
    )
    consumer.list_topics(topic, WAIT_S)
    beginning = confluent_kafka.OFFSET_BEGINNING
    places = [confluent_kafka.TopicPartition(topic, at, beginning) for at in range(PARTITIONS)]
    begun, found = perf_counter(), 0
    consumer.assign(places)
    while found < count:
        records = consumer.consume(CHUNK, WAIT_S)
        assert records, "no record comes any more"
        found += len(records)
    took = perf_counter() - begun
    consumer.close()
    return found * len(RECORD) / took / 1e6


def own_produce(servers: str, topic: str, count: int) -> float:
    """Our own client, over its WebSocket, with librdkafka's batches and waits."""

    async def send() -> float:
        async with (
            RemoteCluster(servers) as cluster,
            cluster.producer(acks=-1, linger_ms=5, batch_size=1_000_000) as producer,
        ):
            await producer.send(topic, RECORD, partition=0)
            begun = perf_counter()
            for number in range(count):
                await producer.enqueue(topic, RECORD, partition=number % PARTITIONS)
            await producer.flush()
            return count * len(RECORD) / (perf_counter() - begun) / 1e6

    return asyncio.run(send())


def idle(servers: str, _: str, count: int) -> float:
    """So many connections that have asked once and ask no more; they end with the input's end."""

    async def connect() -> None:
        host, _, port = servers.partition(",")[0].rpartition(":")
        held = []
        ask = struct.pack(">ihhih", 10, 18, 0, 1, -1)
        for _ in range(count):
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(ask)
            await reader.readexactly(struct.unpack(">i", await reader.readexactly(4))[0])
            held.append(writer)
        sys.stdout.write("0\n")
        sys.stdout.flush()
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)

    asyncio.run(connect())
    return 0.0


if __name__ == "__main__":
    what, where, about, how_many = sys.argv[1:]
    sys.stdout.write(f"{globals()[what](where, about, int(how_many))}\n")
