"""Groups that commit and read on a whole simulated cluster, and what they were promised."""

import asyncio

from actors.coordinator.offsets import partition_for
from actors.coordinator.records import OFFSETS_TOPIC, decode_changes
from actors.names import node_name
from tests.support.data import batches_on
from tests.support.drive import Drive
from wire.errors import ApiError
from wire.groups import (
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitResponse,
    OffsetFetch,
    OffsetFetchResponse,
)
from wire.ids import TopicPartition

GROUP = "readers"
PARTITIONS = 3
ORDERS = TopicPartition("orders", 0)
SAFE = {"offsets_topic_num_partitions": PARTITIONS, "min_insync_replicas": 2}


class Shop:
    """A cluster with a topic, and groups that read it."""

    @classmethod
    async def open(cls, sim, watch=None, **overrides):
        shop = cls()
        shop.sim = sim
        shop.drive = await Drive.start(sim, overrides=SAFE | overrides, watch=watch)
        shop.cluster = shop.drive.cluster
        shop.admin = shop.cluster.admin()
        shop.shard = TopicPartition(OFFSETS_TOPIC, partition_for(GROUP, PARTITIONS))
        await shop.admin.create_topic("orders", partitions=2, replication_factor=3)
        return shop

    # --- groups -----------------------------------------------------------------------------------

    def group(self, name=GROUP, **options):
        return self.cluster.consumer(group_id=name, **options)

    async def commit(self, offset, partition=ORDERS, *, group=GROUP, timeout_ms=None):
        async with self.group(group) as consumer:
            await consumer.commit({partition: offset}, timeout_ms)

    async def committed(self, partition=ORDERS, *, group=GROUP):
        """The offset that a group has committed, as a client that finds its way sees it."""
        async with self.group(group) as consumer:
            found = (await consumer.committed([partition]))[partition]
        return None if found is None else found.offset

    # --- one broker -------------------------------------------------------------------------------

    @property
    def coordinator(self):
        """Who coordinates the group, by what ZooKeeper says."""
        return self.drive.state(OFFSETS_TOPIC, self.shard.partition).leader

    @property
    def others(self):
        return [each for each in self.cluster.brokers if each != self.coordinator]

    async def commit_at(self, broker, offset):
        """The error of a commit at one broker, whoever coordinates."""
        part = OffsetCommitPartition(partition=ORDERS, committed_offset=offset)
        request = OffsetCommit(group_id=GROUP, partitions=(part,))
        (result,) = (await self.drive.ask(broker, request, OffsetCommitResponse)).partitions
        return result.error_code

    async def committed_at(self, broker):
        """What one broker says, an offset or an error."""
        request = OffsetFetch(group_id=GROUP, partitions=(ORDERS,))
        response = await self.drive.ask(broker, request, OffsetFetchResponse)
        return response.error_code or response.partitions[0].committed_offset

    def changes_on(self, broker):
        """What a broker's log of the group's partition says, in order."""
        batches = batches_on(self.drive, broker, self.shard)
        return [change for batch in batches for _, change in decode_changes(bytes(batch.data), 0)]

    def cut_off(self, broker, *from_):
        for other in from_:
            self.sim.cut(node_name(broker), node_name(other))


class Diary:
    """I-25: a group commits 1, 2, 3, …; who reads sees the last acknowledged, or a later one."""

    def __init__(self, shop, group=GROUP):
        self._shop, self._group = shop, group
        self.tried = self.acknowledged = self.read = 0
        self.refused = self.reads = 0
        self.stale = []  # reads of less than had been acknowledged before they began
        self._is_over = False
        self._tasks = []

    async def __aenter__(self):
        self._tasks = [asyncio.create_task(self._write()), asyncio.create_task(self._read())]
        await self._shop.sim.until(lambda: self.acknowledged and self.reads)
        return self

    async def __aexit__(self, *_):
        self._is_over = True
        await asyncio.gather(*self._tasks)

    async def advance(self, commits=3):
        """Wait until some more commits have been acknowledged, and were read."""
        acknowledged, reads = self.acknowledged + commits, self.reads + commits
        await self._shop.sim.until(
            lambda: self.acknowledged >= acknowledged and self.reads >= reads
        )

    async def _write(self):
        async with self._shop.group(self._group, request_timeout_ms=8_000) as consumer:
            while not self._is_over:
                self.tried += 1
                number = self.tried
                try:
                    await consumer.commit({ORDERS: number}, timeout_ms=20_000)
                except ApiError:
                    self.refused += 1
                else:
                    self.acknowledged = number
                await self._shop.sim.sleep(20)

    async def _read(self):
        async with self._shop.group(self._group, request_timeout_ms=8_000) as consumer:
            while not self._is_over:
                before = self.acknowledged
                try:
                    found = (await consumer.committed([ORDERS], timeout_ms=20_000))[ORDERS]
                except ApiError:
                    continue
                offset = 0 if found is None else found.offset
                self.reads += 1
                assert offset <= self.tried, "nobody has committed this"
                if offset < before:
                    self.stale.append((self._shop.sim.now_ms, offset, before))
                await self._shop.sim.sleep(20)
