"""Committed offsets on real ZooKeeper, over real ports, when the coordinator dies."""

import asyncio

from actors.coordinator.offsets import partition_for
from actors.coordinator.records import OFFSETS_TOPIC
from tests.support.real_cluster import RealDrive, real_cluster
from tests.support.zookeeper import SharedZooKeeper
from wire.ids import TopicPartition
from wire.trace import GroupOffsetsLoaded

PARTITIONS = 3
GROUPS = ("readers", "writers", "auditors")
ORDERS = TopicPartition("orders", 0)
OVERRIDES = {"offsets_topic_num_partitions": PARTITIONS, "min_insync_replicas": 2}
SESSION_MS = 3_000


async def commit(drive: RealDrive, group: str, offset: int) -> None:
    async with drive.cluster.consumer(group_id=group) as consumer:
        await consumer.commit({ORDERS: offset})


async def committed(drive: RealDrive, group: str) -> int | None:
    async with drive.cluster.consumer(group_id=group) as consumer:
        found = (await consumer.committed([ORDERS]))[ORDERS]
    return None if found is None else found.offset


def partition_of(group: str) -> TopicPartition:
    return TopicPartition(OFFSETS_TOPIC, partition_for(group, PARTITIONS))


async def test_what_groups_committed_is_told_by_their_next_coordinators(
    zookeeper: SharedZooKeeper,
):
    async with real_cluster(zookeeper, session_timeout_ms=SESSION_MS, overrides=OVERRIDES) as drive:
        await drive.admin.create_topic("orders", replication_factor=3)
        for number, group in enumerate(GROUPS):
            await commit(drive, group, 10 + number)
        former = (await drive.state(partition_of(GROUPS[0]))).leader
        drive.events.clear()

        drive.cluster.kill(former)
        told = [await committed(drive, group) for group in GROUPS]

        assert told == [10, 11, 12]
        new = await drive.state(partition_of(GROUPS[0]))
        assert new.leader != former
        loads = [each for each in drive.events if isinstance(each, GroupOffsetsLoaded)]
        assert (partition_of(GROUPS[0]).partition, new.leader_epoch) in {
            (each.partition, each.leader_epoch) for each in loads
        }

        await commit(drive, GROUPS[0], 20)
        await drive.cluster.start_broker(former)
        assert await committed(drive, GROUPS[0]) == 20


async def test_a_group_that_commits_all_the_time_loses_nothing_when_its_coordinator_dies(
    zookeeper: SharedZooKeeper,
):
    async with real_cluster(zookeeper, session_timeout_ms=SESSION_MS, overrides=OVERRIDES) as drive:
        await drive.admin.create_topic("orders", replication_factor=3)
        group = GROUPS[0]
        acknowledged, stale, is_over = 0, list[tuple[int, int]](), False

        async def write() -> None:
            nonlocal acknowledged
            async with drive.cluster.consumer(group_id=group) as consumer:
                while not is_over:
                    await consumer.commit({ORDERS: acknowledged + 1})
                    acknowledged += 1

        async def read() -> None:
            async with drive.cluster.consumer(group_id=group) as consumer:
                while not is_over:
                    before = acknowledged
                    found = (await consumer.committed([ORDERS]))[ORDERS]
                    if before and (found is None or found.offset < before):
                        stale.append((before, found.offset if found else 0))

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(write())
            tasks.create_task(read())
            for _ in range(2):
                before = acknowledged
                await drive.until(lambda before=before: acknowledged > before + 20)
                victim = (await drive.state(partition_of(group))).leader
                drive.cluster.kill(victim)
                await drive.cluster.start_broker(victim)
            before = acknowledged
            await drive.until(lambda: acknowledged > before + 20)
            is_over = True

        assert stale == []
        assert await committed(drive, group) == acknowledged
