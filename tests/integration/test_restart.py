"""A cluster that was stopped, or killed, and is started again with the same data folder."""

import os
import socket
import subprocess
import sys
from asyncio import Event, create_task
from pathlib import Path

import pytest

from actors.cluster import Cluster
from actors.conditions import brokers_up
from tests.support.processes import ROOT, wait_for_end, zookeepers_in
from tests.support.writer import GROUP, PARTITIONS, TOPIC
from wire.ids import TopicPartition

ENOUGH = 400  # lines

ALL = tuple(TopicPartition(TOPIC, number) for number in range(PARTITIONS))


def write_and_end(data: Path, how: str) -> list[tuple[str, int, int, int, str]]:
    """What a cluster of its own process said, until it was stopped or killed."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.writer", str(data)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(ENOUGH)]
    if how == "killed":
        process.kill()
    rest, _ = process.communicate("stop\n" if how == "stopped" else None, timeout=60)
    assert process.returncode == (0 if how == "stopped" else -9)
    for server in zookeepers_in(data):
        wait_for_end(server)
    said = [line for line in (*lines, *rest.splitlines(keepends=True)) if line.endswith("\n")]
    return [
        (kind, int(partition), int(offset), int(epoch), value)
        for kind, partition, offset, epoch, value in map(str.split, said)
    ]


async def read_all(cluster: Cluster) -> dict[tuple[int, int], tuple[int, str]]:
    async with cluster.consumer(auto_offset_reset="earliest") as consumer:
        consumer.assign(ALL)
        ends = await consumer.end_offsets(ALL)
        found: dict[tuple[int, int], tuple[int, str]] = {}
        while len(found) < sum(ends.values()):
            for record in await consumer.poll(timeout_ms=1_000):
                value = record.value.decode()
                found[record.partition, record.offset] = (record.leader_epoch, value)
        return found


@pytest.mark.parametrize("how", ["stopped", "killed"])
async def test_all_that_was_acknowledged_is_there_after_a_start_with_the_same_folder(tmp_path, how):
    said = write_and_end(tmp_path, how)
    records = {
        (at, offset): (epoch, value) for kind, at, offset, epoch, value in said if kind == "record"
    }
    commits = {at: offset for kind, at, offset, _, _ in said if kind == "commit"}
    assert len(records) > ENOUGH // 2
    assert commits

    overrides = {"min_insync_replicas": 2}
    async with Cluster(3, data=tmp_path, session_timeout_ms=3_000, overrides=overrides) as cluster:
        found = await read_all(cluster)
        async with cluster.consumer(group_id=GROUP) as group:
            committed = await group.committed(ALL)
        async with cluster.producer(acks=-1) as producer:
            after = await producer.send(TOPIC, value=b"after", partition=0)

    assert {at: found.get(at) for at in records} == records
    for partition, offset in commits.items():
        now = committed[TopicPartition(TOPIC, partition)]
        assert now is not None
        assert now.offset >= offset
    assert after.offset == sum(partition == 0 for partition, _ in found)


async def test_a_cluster_that_is_up_again_knows_its_topics(tmp_path):
    names = {f"topic-{number}" for number in range(20)}
    async with Cluster(3, data=tmp_path) as cluster:
        for name in sorted(names):
            await cluster.admin().create_topic(name, partitions=3, replication_factor=3)

    async with Cluster(3, data=tmp_path) as cluster:
        found = [set(node.replica_manager.cache.topics) for node in cluster.nodes.values()]
        listed = set(await cluster.admin().list_topics())

    assert found == [names] * 3
    assert listed == names


async def test_a_start_is_refused_until_the_one_before_has_opened_both_doors(monkeypatch):
    async with Cluster(1) as cluster:
        cluster.kill(1)
        await cluster.until(brokers_up() == set())
        listen, is_at_the_door, may_go_on = cluster.process.listen, Event(), Event()

        async def slowly(node, *, port):
            is_at_the_door.set()
            await may_go_on.wait()
            return await listen(node, port=port)

        monkeypatch.setattr(cluster.process, "listen", slowly)
        first = create_task(cluster.start_broker(1))
        await is_at_the_door.wait()
        with pytest.raises(ValueError, match="broker 1 is starting already"):
            await cluster.start_broker(1)
        may_go_on.set()

        assert (await first).system.is_up


async def test_a_broker_whose_second_door_cannot_open_leaves_the_first_to_the_next_try():
    async with Cluster(1) as cluster:
        port = int(cluster.bootstrap_servers.rpartition(":")[2])
        cluster.kill(1)
        await cluster.until(brokers_up() == set())
        with socket.socket() as somebody:
            somebody.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            somebody.bind(("127.0.0.1", port))
            somebody.listen()
            with pytest.raises(OSError, match="in use"):
                await cluster.start_broker(1)

        assert (await cluster.start_broker(1)).system.is_up
