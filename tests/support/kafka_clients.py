"""Clients that nobody here wrote, as one table: what each can do, in the same few words.

Rule: a client runs in a thread of its own and blocks there. One that gives up says so: it raises.
Who adds to what clients do adds a method here, for each family, and a test to the table's tests.
"""

import asyncio
import subprocess
import warnings
from collections.abc import Callable, Iterable
from itertools import islice
from threading import Semaphore
from typing import Any, Protocol

from tests.support.kcat import ensure_kcat

with warnings.catch_warnings():  # of what they themselves are built on
    warnings.simplefilter("ignore")
    import aiokafka
    import confluent_kafka
    import kafka
    from aiokafka.admin import AIOKafkaAdminClient
    from aiokafka.admin import NewTopic as AioNewTopic
    from aiokafka.admin.config_resource import ConfigResource as AioConfigResource
    from aiokafka.admin.config_resource import ConfigResourceType as AioConfigResourceType
    from confluent_kafka import admin as confluent_admin
    from kafka import admin as kafka_admin

IN_FLIGHT = 200  # records that are sent and not acknowledged
PATIENCE_S = 60
BATCH_BYTES = 16_384
Acked = Callable[[int, bytes, int], None]  # a partition, a value, its offset
Records = Iterable[tuple[int, bytes]]  # partitions and values


class Client(Protocol):
    """What every family can do."""

    name: str

    def __init__(self, servers: str) -> None: ...

    def produce(self, topic: str, records: Records, acked: Acked, **options: Any) -> None:
        """Send all of them with acks=all, and wait until each is acknowledged."""

    def consume(self, topic: str, partition: int, count: int) -> list[tuple[int, bytes]]:
        """So many records from the beginning on, with their offsets: by assignment."""


class Administrator(Client, Protocol):
    """What those can do that administer, too."""

    def create(self, topic: str, partitions: int, replicas: int, configs: dict[str, str]) -> None:
        """Create a topic."""

    def topics(self) -> set[str]:
        """All there are."""

    def configs(self, topic: str) -> dict[str, str]:
        """How a topic is configured."""

    def alter(self, topic: str, key: str, value: str) -> None:
        """Configure it otherwise."""

    def delete(self, topic: str) -> None:
        """Delete it."""


class KafkaPython:
    """kafka-python."""

    name = "kafka-python"

    def __init__(self, servers: str) -> None:
        self._servers = {"bootstrap_servers": servers}

    def produce(self, topic: str, records: Records, acked: Acked, **options: Any) -> None:
        room, failures = Semaphore(IN_FLIGHT), []
        options = {"enable_idempotence": False, "delivery_timeout_ms": PATIENCE_S * 1_000} | options
        producer = kafka.KafkaProducer(**self._servers, acks="all", retries=2**31 - 1, **options)
        try:
            for partition, value in records:
                room.acquire()
                sent = producer.send(topic, value, partition=partition)
                sent.add_both(lambda _: room.release())
                sent.add_callback(lambda at, p=partition, v=value: acked(p, v, at.offset))
                sent.add_errback(failures.append)
            producer.flush(PATIENCE_S)
        finally:
            producer.close()
        assert not failures, failures[:3]

    def consume(self, topic: str, partition: int, count: int) -> list[tuple[int, bytes]]:
        consumer = kafka.KafkaConsumer(
            **self._servers, enable_auto_commit=False, consumer_timeout_ms=PATIENCE_S * 1_000
        )
        where = kafka.TopicPartition(topic, partition)
        try:
            consumer.assign([where])
            consumer.seek_to_beginning(where)
            return [(each.offset, each.value) for each in islice(consumer, count)]
        finally:
            consumer.close()

    def _admin(self) -> Any:
        return kafka_admin.KafkaAdminClient(**self._servers)

    def create(self, topic: str, partitions: int, replicas: int, configs: dict[str, str]) -> None:
        new = kafka_admin.NewTopic(topic, partitions, replicas, topic_configs=configs)
        _closing(self._admin(), lambda admin: admin.create_topics([new]))

    def topics(self) -> set[str]:
        return set(_closing(self._admin(), lambda admin: admin.list_topics()))

    def configs(self, topic: str) -> dict[str, str]:
        resource = kafka_admin.ConfigResource(kafka_admin.ConfigResourceType.TOPIC, topic)
        found = _closing(self._admin(), lambda admin: admin.describe_configs([resource]))
        return _named(found)

    def alter(self, topic: str, key: str, value: str) -> None:
        kind = kafka_admin.ConfigResourceType.TOPIC
        resource = kafka_admin.ConfigResource(kind, topic, {key: value})
        _closing(self._admin(), lambda admin: admin.alter_configs([resource]))

    def delete(self, topic: str) -> None:
        _closing(self._admin(), lambda admin: admin.delete_topics([topic]))


class AioKafka:
    """aiokafka."""

    name = "aiokafka"

    def __init__(self, servers: str) -> None:
        self._servers = {"bootstrap_servers": servers}

    def produce(self, topic: str, records: Records, acked: Acked, **options: Any) -> None:
        async def send() -> None:
            producer = aiokafka.AIOKafkaProducer(
                **self._servers, acks="all", request_timeout_ms=PATIENCE_S * 1_000, **options
            )
            await producer.start()
            room = asyncio.Semaphore(IN_FLIGHT)

            async def one(partition: int, value: bytes, sent: Any) -> None:
                acked(partition, value, (await sent).offset)
                room.release()

            async with asyncio.TaskGroup() as tasks:
                for partition, value in records:
                    await room.acquire()
                    sent = await producer.send(topic, value, partition=partition)
                    tasks.create_task(one(partition, value, sent))
            await producer.stop()

        asyncio.run(send())

    def consume(self, topic: str, partition: int, count: int) -> list[tuple[int, bytes]]:
        async def read() -> list[tuple[int, bytes]]:
            consumer = aiokafka.AIOKafkaConsumer(**self._servers, enable_auto_commit=False)
            where = aiokafka.TopicPartition(topic, partition)
            consumer.assign([where])
            await consumer.start()
            try:
                await consumer.seek_to_beginning(where)
                async with asyncio.timeout(PATIENCE_S):
                    found = [await consumer.getone() for _ in range(count)]
                return [(each.offset, each.value) for each in found]
            finally:
                await consumer.stop()

        return asyncio.run(read())

    def _administer(self, work: Callable[[Any], Any]) -> Any:
        async def run() -> Any:
            admin = AIOKafkaAdminClient(**self._servers)
            await admin.start()
            try:
                return await work(admin)
            finally:
                await admin.close()

        return asyncio.run(run())

    def create(self, topic: str, partitions: int, replicas: int, configs: dict[str, str]) -> None:
        new = AioNewTopic(topic, partitions, replicas, topic_configs=configs)
        self._administer(lambda admin: admin.create_topics([new]))

    def topics(self) -> set[str]:
        return set(self._administer(lambda admin: admin.list_topics()))

    def configs(self, topic: str) -> dict[str, str]:
        resource = AioConfigResource(AioConfigResourceType.TOPIC, topic)
        (answer,) = self._administer(lambda admin: admin.describe_configs([resource]))
        (described,) = answer.resources
        return {entry[0]: entry[1] for entry in described[4]}

    def alter(self, topic: str, key: str, value: str) -> None:
        resource = AioConfigResource(AioConfigResourceType.TOPIC, topic, {key: value})
        self._administer(lambda admin: admin.alter_configs([resource]))

    def delete(self, topic: str) -> None:
        self._administer(lambda admin: admin.delete_topics([topic]))


class Confluent:
    """confluent-kafka, which is librdkafka."""

    name = "confluent-kafka"

    def __init__(self, servers: str) -> None:
        self._servers = {"bootstrap.servers": servers, "log_level": 0}
        self._kept: Any = None  # the administrator: what is asked of it ends with it

    def produce(self, topic: str, records: Records, acked: Acked, **options: Any) -> None:
        failures: list[Any] = []
        under_way = 0

        def told(error: Any, message: Any) -> None:
            nonlocal under_way
            under_way -= 1
            if error is None:
                acked(message.partition(), message.value(), message.offset())
            else:
                failures.append(error)

        patience = {"delivery.timeout.ms": PATIENCE_S * 1_000}
        producer = confluent_kafka.Producer({**self._servers, "acks": "all", **patience, **options})
        for partition, value in records:
            while under_way >= IN_FLIGHT:
                producer.poll(0.1)
            under_way += 1
            producer.produce(topic, value, partition=partition, on_delivery=told)
            producer.poll(0)
        assert producer.flush(PATIENCE_S) == 0
        assert not failures, failures[:3]

    def consume(self, topic: str, partition: int, count: int) -> list[tuple[int, bytes]]:
        consumer = confluent_kafka.Consumer(
            {**self._servers, "group.id": "nobody", "enable.auto.commit": False}
        )
        beginning = confluent_kafka.OFFSET_BEGINNING
        consumer.assign([confluent_kafka.TopicPartition(topic, partition, beginning)])
        found: list[tuple[int, bytes]] = []
        try:
            while len(found) < count:
                (message,) = consumer.consume(1, PATIENCE_S)
                assert message.error() is None, message.error()
                found.append((message.offset(), message.value()))
        finally:
            consumer.close()
        return found

    def _admin(self) -> Any:
        self._kept = self._kept or confluent_admin.AdminClient(self._servers)
        return self._kept

    def create(self, topic: str, partitions: int, replicas: int, configs: dict[str, str]) -> None:
        new = confluent_admin.NewTopic(topic, partitions, replicas, config=configs)
        self._admin().create_topics([new])[topic].result(PATIENCE_S)

    def topics(self) -> set[str]:
        return set(self._admin().list_topics(timeout=PATIENCE_S).topics)

    def configs(self, topic: str) -> dict[str, str]:
        resource = confluent_admin.ConfigResource(confluent_admin.ResourceType.TOPIC, topic)
        found = self._admin().describe_configs([resource])[resource].result(PATIENCE_S)
        return {name: entry.value for name, entry in found.items()}

    def alter(self, topic: str, key: str, value: str) -> None:
        change = confluent_admin.AlterConfigOpType.SET
        entry = confluent_admin.ConfigEntry(key, value, incremental_operation=change)
        kind = confluent_admin.ResourceType.TOPIC
        resource = confluent_admin.ConfigResource(kind, topic, incremental_configs=[entry])
        self._admin().incremental_alter_configs([resource])[resource].result(PATIENCE_S)

    def delete(self, topic: str) -> None:
        self._admin().delete_topics([topic])[topic].result(PATIENCE_S)


class Kcat:
    """kcat, another librdkafka, from a shell; it administers nothing."""

    name = "kcat"

    def __init__(self, servers: str) -> None:
        self._kcat = [ensure_kcat(), "-b", servers]

    def produce(self, topic: str, records: Records, acked: Acked, **options: Any) -> None:
        """It tells of no single record: once it ends well, all are acknowledged."""
        given = [argument for each in options.items() for argument in ("-X", "=".join(each))]
        writers: dict[int, subprocess.Popen[bytes]] = {}
        sent = []
        for partition, value in records:
            if partition not in writers:
                where = ["-P", "-t", topic, "-p", str(partition), "-X", "acks=all", *given]
                writers[partition] = subprocess.Popen(
                    [*self._kcat, *where], stdin=subprocess.PIPE, stderr=subprocess.PIPE
                )
            pipe = writers[partition].stdin
            assert pipe is not None
            pipe.write(value + b"\n")
            pipe.flush()
            sent.append((partition, value))
        for writer in writers.values():
            _, complaints = writer.communicate(timeout=PATIENCE_S)
            assert writer.returncode == 0, complaints.decode()
        for partition, value in sent:
            acked(partition, value, -1)

    def consume(self, topic: str, partition: int, count: int) -> list[tuple[int, bytes]]:
        where = ["-C", "-t", topic, "-p", str(partition), "-o", "beginning", "-c", str(count)]
        lines = self._run(*where, "-q", "-f", "%o %s\\n").splitlines()
        return [
            (int(offset), value) for offset, _, value in (line.partition(b" ") for line in lines)
        ]

    def topics(self) -> set[str]:
        """As it lists them."""
        lines = self._run("-L").decode().splitlines()
        return {line.split('"')[1] for line in lines if line.startswith("  topic ")}

    def brokers(self) -> dict[int, str]:
        """Where it was told that they are."""
        lines = [line.split() for line in self._run("-L").decode().splitlines()]
        return {int(each[1]): each[3] for each in lines if each[:1] == ["broker"]}

    def _run(self, *arguments: str, given: bytes = b"") -> bytes:
        done = subprocess.run(
            [*self._kcat, *arguments],
            input=given,
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout


def _closing(admin: Any, work: Callable[[Any], Any]) -> Any:
    try:
        return work(admin)
    finally:
        admin.close()


def _named(found: Any) -> dict[str, str]:
    """kafka-python's description, by the keys' names."""
    (topics,) = found.values()
    (configs,) = topics.values()
    return {name: entry["value"] for name, entry in configs.items()}


FAMILIES: list[type[Any]] = [KafkaPython, AioKafka, Confluent, Kcat]
ADMINISTRATORS: list[type[Any]] = [KafkaPython, AioKafka, Confluent]
