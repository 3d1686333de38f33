"""Records through three brokers onto three disks, against bare Python with the same bytes.

Producing and fetching send prebuilt batches in a client's own requests: brokers and replication are
measured, not how a client packs records. Disks are files, in the page cache on both sides.
"""

import asyncio
import gc
import os
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median

from crc32c import crc32c

from actors.broker.leading import ALL
from actors.broker.log.config import LogConfig
from actors.broker.log.manager import LogManager
from actors.client.connection import Connection
from actors.client.producer import Producer
from actors.cluster import Cluster
from actors.names import node_name
from runtime.disk import RealDisk
from tests.bench.harness import Row, at_least, at_most, less_than, seconds
from wire.data import Fetch, FetchPartition, Produce, ProducePartition
from wire.errors import ErrorCode
from wire.ids import BrokerId, LeaderEpoch, Offset, TopicPartition
from wire.records import CRC_STARTS_AT, HEADER_BYTES, Record, batches, encode_batch

KB, MB = 1 << 10, 1 << 20
BROKERS = REPLICAS = 3
LARGE, SMALL = MB, 16 * KB  # batches
PARTITIONS = 12
IN_FLIGHT = 5  # requests to a leader, as max.in.flight.requests.per.connection
LARGE_ROUND, SMALL_ROUND = 64 * MB, 24 * MB  # bytes of one measurement
ROUNDS = 9  # short ones: on a shared machine one of them is left in peace
SENDS = 300
IDLE_TOPICS, IDLE_A_TOPIC = 10, 100
IDLE_S = 10
SETTLE_S = 3
LOG_BYTES, TAIL_BYTES = 1 << 30, 256 * MB
WITHIN_MS = 30_000
POLL_S = 0.01
STREAM, SPREAD, SINGLE = "stream", "spread", "single"  # topics
AT = TopicPartition(STREAM, 0)


def rows() -> Iterator[Row]:
    """Every bar of logs and replication."""
    yield from asyncio.run(cluster_rows())
    with tempfile.TemporaryDirectory() as folder:
        yield from asyncio.run(open_rows(Path(folder)))


# --- what is sent --------------------------------------------------------------------------------


def batch_of(size: int) -> bytes:
    """A batch of about so many bytes and no more, of records of 1 KB."""
    each = KB - 16  # leaves room for a record's own fields
    records = [
        Record(offset=Offset(number), timestamp_ms=number, value=os.urandom(each))
        for number in range((size - HEADER_BYTES) // KB)
    ]
    batch = bytes(encode_batch(records))
    assert len(batch) <= size
    return batch


def produce_of(batch: bytes, partitions: list[TopicPartition]) -> Produce:
    """The same batch to each partition."""
    records = tuple(ProducePartition(each, memoryview(batch)) for each in partitions)
    return Produce(acks=ALL, timeout_ms=WITHIN_MS, partitions=records)


# --- a cluster to measure ------------------------------------------------------------------------


class Bench:
    """A cluster and a client of it."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._brokers = [node_name(each) for each in cluster.brokers]
        network, clock = cluster.process.client("bench")
        self.connection = Connection(network, clock, self._brokers, node_name)

    async def create(self, topic: str, partitions: int) -> dict[TopicPartition, BrokerId]:
        """A new topic: who leads its partitions."""
        admin = self.cluster.admin()
        await admin.create_topic(topic, partitions=partitions, replication_factor=REPLICAS)
        nodes = self.cluster.nodes.values()
        known = [node.replica_manager.cache.topics for node in nodes]
        while any(len(each.get(topic, ())) < partitions for each in known):  # noqa: ASYNC110
            await asyncio.sleep(POLL_S)
        return {TopicPartition(topic, at): one.leader for at, one in known[0][topic].items()}

    async def produce(self, requests: Mapping[BrokerId, list[Produce]]) -> float:
        """Seconds until all are acknowledged, several under way to each leader at a time."""

        async def send(leader: BrokerId, unsent: Iterator[Produce]) -> None:
            for request in unsent:
                response = await self.connection.call(leader, request, WITHIN_MS)
                assert all(each.error_code is ErrorCode.NONE for each in response.partitions)

        gc.collect()
        begun = time.perf_counter()
        senders = []
        for leader, each in requests.items():
            unsent = iter(each)
            senders += [send(leader, unsent) for _ in range(IN_FLIGHT)]
        await asyncio.gather(*senders)
        return time.perf_counter() - begun

    async def consume(self, partition: TopicPartition, leader: BrokerId, size: int) -> float:
        """Seconds to fetch so many bytes from the start, 1 MB at a time."""
        gc.collect()
        begun = time.perf_counter()
        offset, left = Offset(0), size
        while left > 0:
            asked = FetchPartition(partition=partition, fetch_offset=offset, max_bytes=MB)
            fetch = Fetch(max_wait_ms=500, min_bytes=1, max_bytes=MB, partitions=(asked,))
            response = await self.connection.call(leader, fetch, WITHIN_MS)
            for batch in batches(response.partitions[0].records or b""):
                offset, left = batch.header.next_offset, left - batch.header.size_in_bytes
        return time.perf_counter() - begun

    async def latency_ms(self) -> float:
        """The median of sends one after the other; the best of several rounds."""
        network, clock = self.cluster.process.client(f"producer-{time.perf_counter_ns()}")
        medians = []
        async with Producer(network, clock, self._brokers, name_of=node_name) as producer:
            for _ in range(ROUNDS):
                gc.collect()
                took = []
                for _ in range(SENDS):
                    value = os.urandom(KB)
                    begun = time.perf_counter()
                    await producer.send(SINGLE, value, partition=0)
                    took.append(time.perf_counter() - begun)
                medians.append(median(took))
        return min(medians) * 1000


@asynccontextmanager
async def bench(trace: Path | None = None) -> AsyncIterator[Bench]:
    overrides = {"min_insync_replicas": 2, "auto_leader_rebalance_enable": False}
    async with Cluster(
        BROKERS, session_timeout_ms=10_000, overrides=overrides, trace=trace
    ) as cluster:
        yield Bench(cluster)


async def cluster_rows() -> list[Row]:
    """All that is measured on one cluster, the idle partitions last."""
    async with bench() as it:
        found = await produce_rows(it)
        found.append(await consume_row(it))
        await it.create(SINGLE, 1)
        alone = await it.latency_ms()
        found.append(less_than("produce 1 KB, acks=all, median", alone, 3, " ms", "Producer.send"))
        await rest(it)
        beside = await it.latency_ms()
        detail = f"{beside:.2f} ms, one record in each"
        measure = f"  beside {IDLE_TOPICS * IDLE_A_TOPIC:,} idle partitions × 3"
        found.append(at_most(measure, beside / alone, 1.5, " ×", detail))
        found.append(await idle_row())
        return found


# --- throughput ----------------------------------------------------------------------------------


def bare(batch: bytes, times: int) -> float:
    """Seconds to count the CRC of a batch and write it to three files, so many times."""

    def write() -> None:
        view = memoryview(batch)
        for _ in range(times):
            crc32c(view[CRC_STARTS_AT:])
            for file in files:
                os.write(file, view)

    with tempfile.TemporaryDirectory() as folder:
        names = [Path(folder, str(number)) for number in range(REPLICAS)]
        files = [os.open(name, os.O_WRONLY | os.O_CREAT) for name in names]
        try:
            return seconds(write)
        finally:
            for file in files:
                os.close(file)


async def produce_rows(it: Bench) -> list[Row]:
    leaders = await it.create(STREAM, 1)
    ratio, detail = await throughput(it, leaders, batch_of(LARGE), LARGE_ROUND)
    large = at_least("produce acks=all, 1 MB batches, 1 partition", ratio, 0.30, " ×", detail)
    leaders = await it.create(SPREAD, PARTITIONS)
    ratio, detail = await throughput(it, leaders, batch_of(SMALL), SMALL_ROUND)
    small = at_least(f"  16 KB batches, {PARTITIONS} partitions", ratio, 0.10, " ×", detail)
    return [large, small]


async def throughput(
    it: Bench, leaders: Mapping[TopicPartition, BrokerId], batch: bytes, size: int
) -> tuple[float, str]:
    """Ours against bare."""
    requests = requests_to(leaders, batch, size)
    total = size // len(batch) // len(leaders) * len(leaders)
    await it.produce({leader: each[:IN_FLIGHT] for leader, each in requests.items()})
    ours, theirs = [], []
    for _ in range(ROUNDS):
        ours.append(await it.produce(requests))
        theirs.append(bare(batch, total))
    mine, rival = (total * len(batch) / min(each) / 1e6 for each in (ours, theirs))
    return mine / rival, f"{mine:,.0f} against {rival:,.0f} MB/s"


def requests_to(
    leaders: Mapping[TopicPartition, BrokerId], batch: bytes, size: int
) -> dict[BrokerId, list[Produce]]:
    """So many bytes; a request has a batch for each partition of its leader."""
    led: dict[BrokerId, list[TopicPartition]] = {}
    for partition, leader in leaders.items():
        led.setdefault(leader, []).append(partition)
    times = size // len(batch) // len(leaders)
    return {leader: [produce_of(batch, each)] * times for leader, each in led.items()}


async def consume_row(it: Bench) -> Row:
    """Of the partition that was filled with batches of 1 MB."""
    leader = it.cluster.nodes[1].replica_manager.cache.topics[STREAM][0].leader
    file = it.cluster.process.data / node_name(leader) / str(AT) / f"{0:020}.log"
    size = min(file.stat().st_size, 2 * LARGE_ROUND) // MB * MB

    def read() -> None:
        for at in range(0, size, MB):
            os.pread(descriptor, MB, at)

    descriptor = os.open(file, os.O_RDONLY)
    ours, theirs = [], []
    for _ in range(ROUNDS):
        ours.append(await it.consume(AT, leader, size))
        theirs.append(seconds(read))
    os.close(descriptor)
    mine, rival = (size / min(each) / 1e6 for each in (ours, theirs))
    detail = f"{mine:,.0f} against {rival:,.0f} MB/s"
    return at_least("consume, 1 MB fetches, against pread", mine / rival, 0.5, " ×", detail)


# --- many that rest ------------------------------------------------------------------------------


async def rest(it: Bench) -> None:
    """Fill partitions with one record each, and let them be."""
    batch = batch_of(2 * KB)
    for number in range(IDLE_TOPICS):
        led: dict[BrokerId, list[TopicPartition]] = {}
        for partition, leader in (await it.create(f"idle-{number}", IDLE_A_TOPIC)).items():
            led.setdefault(leader, []).append(partition)
        await it.produce({leader: [produce_of(batch, each)] for leader, each in led.items()})
    await asyncio.sleep(SETTLE_S)


async def idle_row() -> Row:
    await asyncio.sleep(SETTLE_S)
    gc.collect()
    begun, used = time.perf_counter(), time.process_time()
    await asyncio.sleep(IDLE_S)
    share = (time.process_time() - used) / (time.perf_counter() - begun) * 100
    measure = f"idle, {BROKERS} brokers, {IDLE_TOPICS * IDLE_A_TOPIC:,} partitions × 3"
    return less_than(measure, share, 10, " % of a core", "ZooKeeper apart")


# --- opening -------------------------------------------------------------------------------------


async def open_rows(folder: Path) -> list[Row]:
    """1 GB in batches of 16 KB; at the kill its last quarter is not known to be durable."""
    disk, batch = RealDisk(folder), batch_of(SMALL)
    await fill(disk, batch, LOG_BYTES - TAIL_BYTES, is_clean=True)
    durable = file_of(folder).stat().st_size
    await fill(disk, batch, LOG_BYTES, is_clean=False)
    killed, tail = [], []
    for _ in range(ROUNDS):
        killed.append(await opening(disk, is_clean=False))
        tail.append(seconds(lambda: read_with_crc(file_of(folder), durable)))
    logs = await opened(disk)
    await logs.clean_shutdown({})
    stopped = [await opening(disk, is_clean=True) for _ in range(ROUNDS)]
    what = f"open a log of {LOG_BYTES >> 20:,} MB, 16 KB batches"
    detail = f"{min(killed):.2f} s; {TAIL_BYTES >> 20} MB are past the recovery point"
    ratio = min(killed) / min(tail)
    return [
        less_than(f"{what}, stopped", min(stopped), 0.2, " s"),
        at_most("  killed, against CRC of the tail", ratio, 2, " ×", detail),
    ]


def file_of(folder: Path) -> Path:
    return folder / str(AT) / f"{0:020}.log"


async def opened(disk: RealDisk) -> LogManager:
    config = LogConfig(segment_bytes=2 * LOG_BYTES - 1)  # one file, whatever is appended
    return await LogManager.open(disk, lambda _: config, now_ms=0, unique_hex=lambda: "0" * 32)


async def fill(disk: RealDisk, batch: bytes, size: int, *, is_clean: bool) -> None:
    """Append up to a size; then close the log, or let go of it as a kill would."""
    logs = await opened(disk)
    log = logs.get_or_create(AT, LogConfig(segment_bytes=2 * LOG_BYTES - 1), 0)
    while log.size < size:
        log.append_as_leader(batch, LeaderEpoch(0), 0)
    if is_clean:
        await logs.clean_shutdown({})
    else:
        logs.abandon()


async def opening(disk: RealDisk, *, is_clean: bool) -> float:
    """Seconds until the logs are open; they are left as they were found."""
    gc.collect()
    begun = time.perf_counter()
    logs = await opened(disk)
    took = time.perf_counter() - begun
    assert logs.logs[AT].size >= LOG_BYTES
    if is_clean:
        await logs.clean_shutdown({})
    else:
        logs.abandon()
    return took


def read_with_crc(file: Path, position: int) -> None:
    descriptor = os.open(file, os.O_RDONLY)
    while chunk := os.pread(descriptor, MB, position):
        crc32c(chunk)
        position += len(chunk)
    os.close(descriptor)
