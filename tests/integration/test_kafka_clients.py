"""Other people's clients on a real cluster: they find what Kafka has, and lose nothing."""

import asyncio
import gc
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from threading import Event
from typing import Any

import pytest

from actors.cluster import Cluster, Door
from actors.faults.history.checker import check_history
from actors.faults.history.events import Acknowledged, AnyEvent, EndSeen, Polled, Positioned, Sent
from tests.support.kafka_clients import ADMINISTRATORS, FAMILIES, AioKafka, Confluent, Kcat
from wire.ids import TopicPartition

pytestmark = pytest.mark.filterwarnings("ignore")  # theirs
COUNT = 300
SESSION_MS = 1_500
LAG_MS = 3_000
PARTITIONS = 3
ACKED_BEFORE = 50  # records of each client between two faults


def settings() -> dict[str, Any]:
    return {
        "min_insync_replicas": 2,
        "default_replication_factor": 3,
        "replica_lag_time_max_ms": LAG_MS,
    }


@pytest.fixture
async def cluster(zookeeper) -> AsyncIterator[Cluster]:
    hosts = zookeeper.hosts + zookeeper.chroot()
    async with Cluster(
        3, zookeeper=hosts, session_timeout_ms=SESSION_MS, overrides=settings()
    ) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def leftovers() -> Iterator[None]:
    """Sockets that they forget to close are closed here, where nobody is blamed for them."""
    before = {id(each) for each in inet_sockets()}
    yield
    gc.collect()
    for each in inet_sockets():
        if id(each) not in before:
            each.close()


def inet_sockets() -> list[socket.socket]:
    found = (each for each in gc.get_objects() if isinstance(each, socket.socket))
    return [each for each in found if each.fileno() >= 0 and each.family == socket.AF_INET]


class Told:
    """What one client's program knows of its records: a history."""

    def __init__(self, name: str, topic: str, on_news: Callable[[], None]) -> None:
        self._on_news = on_news
        self.name = name
        self.topic = topic
        self.events: list[AnyEvent] = []
        self.acked = 0
        self.is_over = Event()

    def records(self) -> Iterator[tuple[int, bytes]]:
        """Numbered, without an end until it is over."""
        number = 0
        while not self.is_over.is_set():
            number += 1
            if number > 20 * (self.acked + 100):  # who is not acknowledged does not run away
                time.sleep(0.001)
            where, value = number % PARTITIONS, f"{self.name} {number}"
            self.sent(where, value)
            yield where, value.encode()

    def sent(self, where: int, value: str) -> None:
        now = time.monotonic() * 1_000
        self.events.append(
            Sent(
                at_ms=now,
                client=self.name,
                id=value,
                topic=self.topic,
                partition=where,
                value=value,
            )
        )

    def acknowledge(self, where: int, value: bytes, offset: int) -> None:
        del where
        now = time.monotonic() * 1_000
        self.events.append(Acknowledged(at_ms=now, id=value.decode(), offset=offset))
        self.acked += 1
        self._on_news()

    def read(self, where: int, found: list[tuple[int, bytes]], end: int, began_ms: float) -> None:
        reader, now = f"reader of {self.name}", time.monotonic() * 1_000
        at = {"at_ms": now, "client": reader, "topic": self.topic, "partition": where}
        self.events.append(Positioned(**at, offset=0))
        self.events += [Polled(**at, offset=each, value=value.decode()) for each, value in found]
        self.events.append(EndSeen(**at, offset=end, began_ms=began_ms))


@pytest.mark.parametrize("family", ADMINISTRATORS, ids=lambda family: family.name)
async def test_a_client_creates_fills_reads_configures_and_deletes_a_topic(cluster, family):
    client = family(cluster.bootstrap_servers)

    def works() -> None:
        client.create("orders", PARTITIONS, 3, {"retention.ms": "777000"})
        assert "orders" in client.topics()
        assert client.configs("orders")["retention.ms"] == "777000"

        acked: dict[int, list[tuple[int, bytes]]] = {number: [] for number in range(PARTITIONS)}
        records = [(number % PARTITIONS, b"value %d" % number) for number in range(COUNT)]
        client.produce("orders", records, lambda p, v, offset: acked[p].append((offset, v)))
        for number in range(PARTITIONS):
            found = client.consume("orders", number, COUNT // PARTITIONS)
            assert found == sorted(acked[number])
            assert [value for _, value in found] == [v for p, v in records if p == number]

        client.alter("orders", "retention.ms", "888000")
        assert client.configs("orders")["retention.ms"] == "888000"
        client.delete("orders")
        assert "orders" not in client.topics()

    await asyncio.to_thread(works)


async def test_kcat_creates_a_topic_by_writing_to_it_and_reads_it(cluster):
    client = Kcat(cluster.bootstrap_servers)
    acked = []

    def works() -> list[tuple[int, bytes]]:
        client.produce(
            "orders", [(0, b"one"), (0, b"two")], lambda _, value, __: acked.append(value)
        )
        assert "orders" in client.topics()
        return client.consume("orders", 0, 2)

    assert await asyncio.to_thread(works) == [(0, b"one"), (1, b"two")]
    assert acked == [b"one", b"two"]


async def test_what_librdkafka_compresses_others_read_and_brokers_look_into(cluster):
    sender = Confluent(cluster.bootstrap_servers)
    reader = AioKafka(cluster.bootstrap_servers)
    values = [b"%d is like all that came before. " % number * 20 for number in range(COUNT)]

    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        await cluster.admin().create_topic(codec, partitions=1, replication_factor=3)
        records = [(0, value) for value in values]
        options = {"compression.codec": codec, "linger.ms": 50}
        send = partial(sender.produce, codec, records, lambda *_: None, **options)
        await asyncio.to_thread(send)

        found = await asyncio.to_thread(reader.consume, codec, 0, COUNT)
        own = [each.value for each in await all_of(cluster, codec)]

        assert [value for _, value in found] == values
        assert own == values  # by our own client, which unpacks as a broker does
        size = cluster.nodes[1].replica_manager.replicas[TopicPartition(codec, 0)].log.size
        assert (size < sum(map(len, values))) == (codec != "none")


async def all_of(cluster: Cluster, topic: str) -> list[Any]:
    where = TopicPartition(topic, 0)
    async with cluster.consumer(auto_offset_reset="earliest") as consumer:
        consumer.assign([where])
        found: list[Any] = []
        while len(found) < COUNT:
            found += await consumer.poll(timeout_ms=1_000)
        return found


async def test_clients_lose_nothing_while_leaders_and_controllers_die(cluster):
    news, loop = asyncio.Event(), asyncio.get_running_loop()
    ring = partial(loop.call_soon_threadsafe, news.set)
    stories = [Told(family.name, f"of-{family.name}", ring) for family in FAMILIES]
    clients = [family(cluster.bootstrap_servers) for family in FAMILIES]
    admin = cluster.admin()
    for story in stories:
        await admin.create_topic(story.topic, partitions=PARTITIONS, replication_factor=3)

    servers = cluster.bootstrap_servers
    async with asyncio.TaskGroup() as tasks:
        for client, story in zip(clients, stories, strict=True):
            produce = partial(client.produce, story.topic, story.records(), story.acknowledge)
            tasks.create_task(asyncio.to_thread(produce))
        try:
            await everybody_goes_on(stories, news)
            first = leader_of(cluster, stories[0].topic)
            await replace(cluster, first, stories, news)
            assert cluster.controller is not None
            await replace(cluster, cluster.controller.config.broker_id, stories, news)
        finally:
            for story in stories:
                story.is_over.set()

    assert cluster.bootstrap_servers == servers
    for client, story in zip(clients, stories, strict=True):
        assert story.acked > 3 * ACKED_BEFORE
        await read_back(cluster, client, story)
        assert check_history(story.events) == []


async def test_clients_are_told_the_advertised_host(zookeeper):
    hosts, door = zookeeper.hosts + zookeeper.chroot(), Door(advertised_host="localhost")
    async with Cluster(1, zookeeper=hosts, door=door) as cluster:
        servers = cluster.bootstrap_servers
        assert servers.startswith("localhost:")
        told = await asyncio.to_thread(Kcat(servers.replace("localhost", "127.0.0.1")).brokers)

    assert told == {1: servers}


def leader_of(cluster: Cluster, topic: str) -> int:
    return next(each.leader for at, each in cluster.view().partitions.items() if at.topic == topic)


async def everybody_goes_on(stories: list[Told], news: asyncio.Event) -> None:
    """Each client has so many more records acknowledged."""
    heard = [story for story in stories if story.name != Kcat.name]  # which tells in the end
    wanted = {story: story.acked + ACKED_BEFORE for story in heard}
    async with asyncio.timeout(60):
        while any(story.acked < least for story, least in wanted.items()):
            news.clear()
            await news.wait()


async def replace(cluster: Cluster, broker: int, stories: list[Told], news: asyncio.Event) -> None:
    """Kill a broker; when its work has gone on elsewhere, start it again."""
    cluster.kill(broker)
    await everybody_goes_on(stories, news)
    await cluster.start_broker(broker)
    await cluster.until(
        lambda view: all(len(each.isr) == 3 for each in view.partitions.values()), timeout_ms=60_000
    )


async def read_back(cluster: Cluster, client: Any, story: Told) -> None:
    """What the client itself finds, to the end of each partition."""
    for where in range(PARTITIONS):
        began_ms = time.monotonic() * 1_000
        at = TopicPartition(story.topic, where)
        async with cluster.consumer() as consumer:
            end = (await consumer.end_offsets([at]))[at]
        found = await asyncio.to_thread(client.consume, story.topic, where, end)
        story.read(where, found, end, began_ms)
