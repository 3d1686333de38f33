"""Kafka's clients on three brokers: librdkafka's first word, its megabytes, and thousands at rest.

librdkafka and our own client run in processes of their own, one after the other, on the same
brokers; the brokers share one process, and with it one core.
"""

import asyncio
import gc
import os
import resource
import struct
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Iterator
from io import BytesIO
from time import perf_counter

from kio.schema.api_versions.v3.request import ApiVersionsRequest
from kio.schema.metadata.v12.request import MetadataRequest
from kio.serial import entity_writer

from actors.cluster import Cluster
from tests.bench.groups import group_rows
from tests.bench.harness import Row, at_least, less_than

MODULE = "tests.support.kafka_load"
RECORDS = 60_000  # of 1 KB, in one round
ROUNDS = 3
CONNECTIONS = 2_000
PARTITIONS, REPLICAS = 12, 3
HEAD = struct.Struct(">hhih")


def rows() -> Iterator[Row]:
    """Every bar of Kafka's door."""
    yield from asyncio.run(_rows())


async def _rows() -> list[Row]:
    async with Cluster(brokers=3, overrides={"min_insync_replicas": 2}) as cluster:
        found = [await first_metadata(cluster)]
        found += await load(cluster)
        found += [row async for row in group_rows(cluster)]
        found.append(await at_rest(cluster))
        return found


async def first_metadata(cluster: Cluster) -> Row:
    """The very first request of anybody: nothing has been loaded for it."""
    version = (
        entity_writer(ApiVersionsRequest),
        ApiVersionsRequest(client_software_name="bench", client_software_version="1"),
    )
    metadata = (
        entity_writer(MetadataRequest),
        MetadataRequest(topics=None, include_topic_authorized_operations=False),
    )
    host, _, port = cluster.bootstrap_servers.partition(",")[0].rpartition(":")
    begun = perf_counter()
    reader, writer = await asyncio.open_connection(host, int(port))
    answer = b""
    for key, number, (write, request) in ((18, 3, version), (3, 12, metadata)):
        body = BytesIO()
        body.write(HEAD.pack(key, number, 1, -1) + b"\0")
        write(body, request)
        writer.write(struct.pack(">i", len(body.getvalue())) + body.getvalue())
        answer = await reader.readexactly(struct.unpack(">i", await reader.readexactly(4))[0])
    took_ms = (perf_counter() - begun) * 1_000
    assert struct.pack(">i", int(port)) in answer, "it names the brokers' ports"
    writer.close()
    return less_than("3 brokers ready → first Metadata", took_ms, 30, " ms", "connecting included")


async def load(cluster: Cluster) -> list[Row]:
    """librdkafka and our own client in turn, each round on a topic of its own."""
    theirs, ours, read = [], [], []
    for number in range(ROUNDS):
        for name, times in (("confluent_produce", theirs), ("own_produce", ours)):
            topic = f"{name}-{number}"
            await cluster.admin().create_topic(
                topic, partitions=PARTITIONS, replication_factor=REPLICAS
            )
            servers = cluster.bootstrap_servers
            if name == "own_produce":
                servers = ",".join(cluster.addresses().values())
            times.append(await measured(name, servers, topic, RECORDS))
        topic = f"confluent_produce-{number}"
        read.append(await measured("confluent_consume", cluster.bootstrap_servers, topic, RECORDS))
    what = "1 KB, acks=all, RF 3, 12 partitions"
    ratio = max(theirs) / max(ours)
    return [
        at_least(f"confluent produce, {what}", max(theirs), 40, " MB/s"),
        at_least("  against our own client", ratio, 0.5, " ×", f"it does {max(ours):.0f} MB/s"),
        at_least("confluent consume of the same", max(read), 80, " MB/s"),
    ]


async def at_rest(cluster: Cluster) -> Row:
    """What connections take that say nothing any more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    gc.collect()
    before = resident_bytes()
    child = await started("idle", cluster.bootstrap_servers, "-", CONNECTIONS)
    assert child.stdout is not None
    assert child.stdin is not None
    await child.stdout.readline()
    more = (resident_bytes() - before) / 1e6
    child.stdin.close()
    await child.wait()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return less_than(f"{CONNECTIONS:,} connections at rest", more, 200, " MB more")


async def started(what: str, *given: object) -> Process:
    arguments = [what, *map(str, given)]
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", MODULE, *arguments, stdin=PIPE, stdout=PIPE
    )


async def measured(what: str, *given: object) -> float:
    child = await started(what, *given)
    said, _ = await child.communicate()
    assert child.returncode == 0, f"{what} has failed"
    return float(said.split()[-1])


def resident_bytes() -> int:
    """What this process has in memory now."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
