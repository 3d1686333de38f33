"""Other people's clients write in transactions: all of it is read, or nothing."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from actors.cluster import Cluster
from tests.support.kafka_clients import aiokafka, confluent_kafka, kafka

pytestmark = pytest.mark.filterwarnings("ignore")  # theirs
TIMEOUT_S = 30


@pytest.fixture
async def servers(zookeeper) -> AsyncIterator[str]:
    hosts = zookeeper.hosts + zookeeper.chroot()
    overrides = {"transaction_state_log_num_partitions": 3, "min_insync_replicas": 2}
    async with Cluster(3, zookeeper=hosts, overrides=overrides) as cluster:
        async with cluster.admin() as admin:
            await admin.create_topic("orders", partitions=2, replication_factor=3)
        yield cluster.bootstrap_servers


def confluent_moves(servers: str) -> str:
    """What a zombie is told in the end."""
    options = {"bootstrap.servers": servers, "transactional.id": "mover"}
    zombie = confluent_kafka.Producer(options)
    zombie.init_transactions(TIMEOUT_S)
    for name, is_committed in (("a", True), ("b", False), ("c", True)):
        zombie.begin_transaction()
        for number in range(4):
            zombie.produce("orders", f"{name}{number}", partition=number % 2)
        zombie.flush(TIMEOUT_S)
        (zombie.commit_transaction if is_committed else zombie.abort_transaction)(TIMEOUT_S)
    heir = confluent_kafka.Producer(options)
    heir.init_transactions(TIMEOUT_S)
    zombie.begin_transaction()
    zombie.produce("orders", "zombie", partition=0)
    try:
        zombie.commit_transaction(TIMEOUT_S)
    except confluent_kafka.KafkaException as error:
        return str(error.args[0].name())
    finally:
        zombie.purge()
    return "nothing"


def confluent_reads(servers: str, level: str, count: int) -> list[str]:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": servers, "group.id": "x", "isolation.level": level}
    )
    consumer.assign([confluent_kafka.TopicPartition("orders", each, 0) for each in (0, 1)])
    found: list[str] = []
    while len(found) < count:
        message = consumer.poll(TIMEOUT_S)
        assert message is not None, found
        found.append(message.value().decode())
    assert consumer.poll(0.3) is None
    consumer.close()
    return sorted(found)


async def aiokafka_moves(servers: str) -> None:
    producer = aiokafka.AIOKafkaProducer(bootstrap_servers=servers, transactional_id="aio")
    await producer.start()
    async with producer.transaction():
        await producer.send("orders", b"d0", partition=0)
    await producer.begin_transaction()
    await producer.send_and_wait("orders", b"e0", partition=0)
    await producer.abort_transaction()
    await producer.stop()


def kafka_python_sends(servers: str) -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=servers, enable_idempotence=True, acks="all")
    producer.send("orders", b"f0", partition=1).get(TIMEOUT_S)
    producer.close()


async def test_transactions_of_other_peoples_clients_are_all_or_nothing(servers):
    told = await asyncio.to_thread(confluent_moves, servers)
    await aiokafka_moves(servers)
    await asyncio.to_thread(kafka_python_sends, servers)

    committed = await asyncio.to_thread(confluent_reads, servers, "read_committed", 10)
    everything = await asyncio.to_thread(confluent_reads, servers, "read_uncommitted", 15)

    assert told == "_FENCED"
    assert committed == [*(f"{name}{n}" for name in "ac" for n in range(4)), "d0", "f0"]
    assert set(everything) - set(committed) == {*(f"b{n}" for n in range(4)), "e0"}
