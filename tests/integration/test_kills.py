"""A real cluster under load, whose leaders and controllers are killed again and again.

Rule: nothing that was acknowledged is lost, nothing is there twice that was sent once, and the
order of each partition is that of its sender.
"""

import asyncio
from collections import Counter
from itertools import count

from actors.cluster import Cluster
from runtime.network import Network
from tests.support.zookeeper import SharedZooKeeper
from wire.data import Produce
from wire.ids import TopicPartition
from wire.parted import unpack
from wire.records import batches, decode_records

TOPIC = "orders"
PARTITIONS = tuple(TopicPartition(TOPIC, number) for number in range(3))
DURATION_S = 60
SESSION_MS = 3_000
IN_FLIGHT = 50


class Counted:
    """The producer's network, and how often each record was sent."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self.sent = Counter[tuple[TopicPartition, bytes]]()
        self._call = network.call
        network.call = self.call  # type: ignore[method-assign]

    async def call(self, to: str, payload: bytes, **options) -> memoryview:
        request = unpack(payload)
        if isinstance(request, Produce):
            for entry in request.partitions:
                for batch in batches(entry.records):
                    for record in decode_records(batch):
                        self.sent[entry.partition, record.value] += 1
        return await self._call(to, payload, **options)


class Load:
    """Numbered records to all partitions, and what became of each."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.acknowledged: dict[TopicPartition, dict[bytes, int]] = {p: {} for p in PARTITIONS}
        self.seen: dict[TopicPartition, list[tuple[int, bytes]]] = {p: [] for p in PARTITIONS}
        self.is_over = False
        self.counted: Counted | None = None

    async def produce(self) -> None:
        producer = self.cluster.producer(acks=-1, linger_ms=2, delivery_timeout_ms=60_000)
        self.counted = Counted(producer._connection._network)
        room = asyncio.Semaphore(IN_FLIGHT)
        async with producer, asyncio.TaskGroup() as tasks:
            for number in count():
                if self.is_over:
                    break
                await room.acquire()
                partition = PARTITIONS[number % len(PARTITIONS)]
                value = str(number).encode()
                sent = await producer.enqueue(TOPIC, value=value, partition=partition.partition)
                tasks.create_task(self._acknowledge(partition, value, sent, room))

    async def _acknowledge(self, partition, value, sent, room) -> None:
        metadata = await sent
        self.acknowledged[partition][value] = metadata.offset
        room.release()

    async def consume(self) -> None:
        async with self.cluster.consumer(auto_offset_reset="earliest") as consumer:
            consumer.assign(PARTITIONS)
            while not self.is_over:
                self._see(await consumer.poll(timeout_ms=500))

    def _see(self, records) -> None:
        for record in records:
            partition = TopicPartition(record.topic, record.partition)
            self.seen[partition].append((record.offset, record.value))

    async def read_all(self) -> dict[TopicPartition, list[tuple[int, bytes]]]:
        """What is there in the end."""
        found: dict[TopicPartition, list[tuple[int, bytes]]] = {p: [] for p in PARTITIONS}
        async with self.cluster.consumer(auto_offset_reset="earliest") as consumer:
            consumer.assign(PARTITIONS)
            ends = await consumer.end_offsets(PARTITIONS)
            while any(found[p][-1:] == [] or found[p][-1][0] + 1 < ends[p] for p in ends):
                for record in await consumer.poll(timeout_ms=1_000):
                    partition = TopicPartition(record.topic, record.partition)
                    found[partition].append((record.offset, record.value))
        return found


async def kill_in_turn(cluster: Cluster, until: float) -> int:
    """Kill the leader of a partition, then the controller, and so on; how many were killed."""
    loop, killed = asyncio.get_running_loop(), 0
    while loop.time() < until:
        victim = _controller(cluster) if killed % 2 else _leader(cluster)
        if victim is not None and all(node.system.is_up for node in cluster.nodes.values()):
            cluster.kill(victim)
            killed += 1
            await cluster.start_broker(victim)
        await asyncio.sleep(0.5)
    return killed


def _leader(cluster: Cluster) -> int | None:
    for node in cluster.nodes.values():
        led = [each for each in node.replica_manager.replicas.values() if each.is_leader]
        if node.system.is_up and any(each.partition.topic == TOPIC for each in led):
            return node.config.broker_id
    return None


def _controller(cluster: Cluster) -> int | None:
    return None if cluster.controller is None else cluster.controller.config.broker_id


def check(load: Load, found: dict[TopicPartition, list[tuple[int, bytes]]]) -> None:
    assert load.counted is not None
    for partition in PARTITIONS:
        there = dict(found[partition])
        acknowledged = load.acknowledged[partition]
        lost = [value for value, at in acknowledged.items() if there.get(at) != value]
        assert lost == [], f"{len(lost)} acknowledged records of {partition} are not there"
        times = Counter(value for _, value in found[partition])
        twice = [
            each for each, often in times.items() if often > load.counted.sent[partition, each]
        ]
        assert twice == [], "there more often than sent"
        numbers = [int(value) for value in dict.fromkeys(value for _, value in found[partition])]
        assert numbers == sorted(numbers), "out of order"
        seen = load.seen[partition]
        assert seen == found[partition][: len(seen)], "a reader saw what is not there"


async def test_nothing_acknowledged_is_lost_while_leaders_and_controllers_die(
    zookeeper: SharedZooKeeper, tmp_path
):
    overrides = {"min_insync_replicas": 2, "replica_lag_time_max_ms": 5_000}
    hosts = zookeeper.hosts + zookeeper.chroot()
    cluster = Cluster(
        3,
        zookeeper=hosts,
        data=tmp_path,
        session_timeout_ms=SESSION_MS,
        overrides=overrides,
    )
    async with cluster:
        await cluster.admin().create_topic(TOPIC, partitions=len(PARTITIONS), replication_factor=3)
        load = Load(cluster)
        producing = asyncio.create_task(load.produce())
        consuming = asyncio.create_task(load.consume())
        until = asyncio.get_running_loop().time() + DURATION_S
        killed = await kill_in_turn(cluster, until)
        load.is_over = True
        await asyncio.gather(producing, consuming)
        found = await load.read_all()
    check(load, found)
    assert killed >= 4
    assert sum(map(len, load.acknowledged.values())) > 1_000
