"""A program that moves things in transactions, and what it may count on.

Rule: two records in two partitions are there together or not at all, for whoever reads what was
committed; what the program was told has happened.
"""

from contextlib import suppress

from actors.cluster import SimulatedCluster
from runtime.simulation.simulator import Simulator
from wire.errors import ApiError, MalformedMessage
from wire.ids import TopicPartition

FROM, TO = TopicPartition("transfers", 0), TopicPartition("transfers", 1)
STATE = TopicPartition("__transaction_state", 0)
SESSION_MS = 300
OVERRIDES = {
    "min_insync_replicas": 2,
    "auto_leader_rebalance_enable": False,
    "transaction_state_log_num_partitions": 1,
    "offsets_topic_num_partitions": 1,
    "transaction_abort_timed_out_transaction_cleanup_interval_ms": 500,
    "replica_lag_time_max_ms": 600,
    "replica_socket_timeout_ms": 500,
    "replica_fetch_wait_max_ms": 400,
    "replica_fetch_backoff_ms": 50,
    "controlled_shutdown_enable": False,
}
FAILURES = (ApiError, MalformedMessage)
PATIENCE_MS = 30_000


class Transfers:
    """A cluster, and those who write and read there."""

    def __init__(self, sim: Simulator) -> None:
        self.sim = sim
        self.cluster = SimulatedCluster(sim, brokers=3, overrides=OVERRIDES)

    async def start(self) -> None:
        await self.cluster.start_nodes()
        await self.sim.sleep(100)
        async with self.cluster.admin() as admin:
            await admin.create_topic("transfers", partitions=2, replication_factor=3)

    async def producer(self, name: str = "mover", **options):
        """One that has taken its transactional id over."""
        producer = self.cluster.producer(
            transactional_id=name,
            request_timeout_ms=1_000,
            delivery_timeout_ms=5_000,
            **options,
        )
        await producer.init_transactions(PATIENCE_MS)
        return producer

    async def move(self, producer, what: bytes, *, is_committed: bool = True) -> None:
        """Both records, in one transaction."""
        producer.begin_transaction()
        await producer.enqueue(FROM.topic, b"-" + what, partition=FROM.partition)
        await producer.enqueue(TO.topic, b"+" + what, partition=TO.partition)
        if is_committed:
            await producer.commit_transaction(PATIENCE_MS)
        else:
            await producer.flush()
            await producer.abort_transaction(PATIENCE_MS)

    async def read(self, level: str = "read_committed") -> dict[TopicPartition, list[bytes]]:
        """All that such a reader sees, up to the end that it is told."""
        found: dict[TopicPartition, list[bytes]] = {FROM: [], TO: []}
        consumer = self.cluster.consumer(isolation_level=level, auto_offset_reset="earliest")
        async with consumer:
            consumer.assign([FROM, TO])
            ends = await consumer.end_offsets([FROM, TO])
            while any([await consumer.position(each) < ends[each] for each in (FROM, TO)]):
                for each in await consumer.poll(500):
                    found[TopicPartition(each.topic, each.partition)].append(each.value)
        return found

    def leader_of(self, partition: TopicPartition) -> int:
        return int(self.cluster.view(offsets=False).partitions[partition].leader)

    async def restart(self, broker: int, after_ms: float = 400) -> None:
        """Kill it, and start it again later."""
        self.cluster.kill(broker)
        await self.sim.sleep(after_ms)
        await self.cluster.start_broker(broker)


async def try_to_move(transfers: Transfers, what: bytes) -> str:
    """What the program was told: committed, aborted, or nothing it could rely on."""
    producer = None
    try:
        producer = await transfers.producer()
        await transfers.move(producer, what)
        return "committed"
    except FAILURES:
        with suppress(*FAILURES):
            if producer is not None:
                await producer.abort_transaction(PATIENCE_MS)
                return "aborted"
        return "unknown"
    finally:
        if producer is not None:
            await producer.close(1_000)
