"""The files that real brokers leave behind, as other people's tools read them."""

import asyncio
from pathlib import Path

import pytest

from tests.support.real_cluster import LIMIT_S, real_cluster
from tests.wire.kafka_python import MemoryRecords

BROKERS = (1, 2, 3)
KEYS = 5
SHORT = {"segment.bytes": "2000", "index.interval.bytes": "100"}

Row = tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]


def folder(data: Path, broker: int, name: str) -> Path:
    return data / f"broker-{broker}" / name


def files(data: Path, broker: int, name: str, kind: str) -> dict[str, bytes]:
    """The files of one kind, by name."""
    found = sorted(folder(data, broker, name).glob(f"*.{kind}"))
    return {each.name: each.read_bytes() for each in found}


def rows(data: Path, broker: int, name: str) -> list[Row]:
    """All records of a partition as kafka-python reads them; each CRC must be true."""
    found: list[Row] = []
    for file, content in files(data, broker, name, "log").items():
        records, taken = MemoryRecords(content), 0
        while records.has_next():
            batch = records.next_batch()
            assert batch.validate_crc()
            taken += 1
            found += [
                (each.offset, each.timestamp, each.key, each.value, tuple(each.headers))
                for each in batch
            ]
        assert taken or not content, f"{file} has no batch"
        assert records.size_in_bytes() == len(content), f"{file} ends with half a batch"
    return found


def checkpoint(data: Path, broker: int, name: str) -> list[str]:
    """The rows of a checkpoint file: below a version and their number, one a line (B172)."""
    text = folder(data, broker, name).read_text()
    assert text.endswith("\n")
    version, count, *lines = text.removesuffix("\n").split("\n")
    assert (version, int(count)) == ("0", len(lines))
    return lines


def all_is_committed(node) -> bool:
    """Whether a broker knows that all it has is everywhere: a follower hears of it later."""
    replicas = node.replica_manager.replicas.values()
    return all(each.high_watermark == each.log_end_offset for each in replicas)


async def send_orders(cluster) -> list[Row]:
    """Records with and without keys, values and headers, several in a batch; as they were sent."""
    sent = []
    async with cluster.producer(acks=-1, linger_ms=5) as producer:
        for number in range(200):
            key = None if number % 3 == 0 else b"key %d" % number
            value = None if number % 7 == 6 else b"value %d " % number * (number % 5)
            headers = (("trace", b"%d" % number), ("empty", b"")) if number % 4 == 0 else ()
            delivery = await producer.enqueue(
                "orders", value, key, partition=0, headers=headers, timestamp_ms=1_000 + number
            )
            sent.append((number, 1_000 + number, key, value, headers))
            if number % 10 == 9:
                await delivery
    return sent


@pytest.mark.behaviour("B168", "B169", "B172")
async def test_other_peoples_tools_find_the_same_records_in_the_same_files_of_all_brokers(
    zookeeper, tmp_path
):
    async with real_cluster(zookeeper, data=tmp_path) as drive:
        await drive.admin.create_topic("orders", assignments={0: BROKERS}, configs=SHORT)
        sent = await send_orders(drive.cluster)

    logs = files(tmp_path, 1, "orders-0", "log")
    assert len(logs) > 3
    for broker in BROKERS:
        assert rows(tmp_path, broker, "orders-0") == sent
        for kind in ("log", "index", "timeindex"):
            assert files(tmp_path, broker, "orders-0", kind) == files(tmp_path, 1, "orders-0", kind)
        names = {each.name for each in folder(tmp_path, broker, "orders-0").iterdir()}
        stems = [each.removesuffix(".log") for each in logs]
        assert all(len(stem) == 20 and stem.isdigit() for stem in stems)
        expected = {f"{stem}.{kind}" for stem in stems for kind in ("log", "index", "timeindex")}
        assert names == expected | {"leader-epoch-checkpoint", "partition.metadata"}


@pytest.mark.behaviour("B172", "B173")
async def test_the_checkpoints_of_a_stopped_broker_have_kafkas_format(zookeeper, tmp_path):
    async with real_cluster(zookeeper, data=tmp_path) as drive:
        for topic in ("orders", "sales"):
            await drive.admin.create_topic(topic, assignments={0: BROKERS, 1: BROKERS})
        async with drive.cluster.producer(acks=-1) as producer:
            for number in range(3):
                await producer.send("orders", b"%d" % number, partition=1)
            await producer.send("sales", b"x", partition=0)
        await drive.until(
            lambda: all(all_is_committed(each) for each in drive.cluster.nodes.values())
        )

    for broker in BROKERS:
        ends = ["orders 1 3", "sales 0 1"]
        assert sorted(checkpoint(tmp_path, broker, "recovery-point-offset-checkpoint")) == ends
        assert sorted(checkpoint(tmp_path, broker, "replication-offset-checkpoint")) == ends
        assert checkpoint(tmp_path, broker, "orders-1/leader-epoch-checkpoint")[0] == "0 0"
        assert folder(tmp_path, broker, ".kafka_cleanshutdown").read_bytes() == b""
        assert not folder(tmp_path, broker, "orders-0").exists()  # nothing was appended there


async def test_a_compacted_log_is_read_by_other_peoples_tools_too(zookeeper, tmp_path):
    often = {"log_cleaner_backoff_ms": 50}
    async with real_cluster(zookeeper, data=tmp_path, overrides=often) as drive:
        configs = SHORT | {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1"}
        await drive.admin.create_topic("sales", assignments={0: BROKERS}, configs=configs)
        sent: list[tuple[int, bytes, bytes]] = []
        async with drive.cluster.producer(acks=-1) as producer, asyncio.timeout(LIMIT_S):
            while len(sent) < 100 or any(
                len(rows(tmp_path, broker, "sales-0")) == len(sent) for broker in BROKERS
            ):
                key, value = b"%d" % (len(sent) % KEYS), b"%d" % len(sent)
                metadata = await producer.send("sales", value, key, partition=0)
                sent.append((metadata.offset, key, value))

    for broker in BROKERS:
        left = [
            (offset, key, value) for offset, _, key, value, _ in rows(tmp_path, broker, "sales-0")
        ]
        assert len(left) < len(sent)
        assert set(left) <= set(sent)
        assert {key: value for _, key, value in left} == {key: value for _, key, value in sent}
        assert [offset for offset, _, _ in left] == sorted(offset for offset, _, _ in left)
