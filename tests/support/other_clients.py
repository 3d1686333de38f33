"""A member of a group with a client that nobody here wrote, in a process of its own.

    python -m tests.support.other_clients kafka-python 127.0.0.1:9092 group topic

What it sees and commits is told on standard output, a line of JSON each, with the time.
"""

import asyncio
import json
import sys
import threading
import time
import warnings
from collections.abc import Callable
from queue import Empty, SimpleQueue
from subprocess import PIPE, Popen

from aiokafka import AIOKafkaConsumer
from aiokafka import ConsumerRebalanceListener as AioListener
from confluent_kafka import Consumer as LibrdkafkaConsumer
from confluent_kafka import KafkaException

with warnings.catch_warnings():  # it reads its own files in a way that will go
    warnings.simplefilter("ignore")
    from kafka import ConsumerRebalanceListener, KafkaConsumer
    from kafka.errors import KafkaError as PythonError

from tests.support.kcat import ensure_kcat

SESSION_MS = 6_000
HEARTBEAT_MS = 500
POLL_MS = 200
TopicPartition = tuple[str, int]
Records = list[tuple[TopicPartition, int, bytes]]
IS_OVER = threading.Event()


class Confluent:
    """librdkafka."""

    failures = (KafkaException,)

    def __init__(self, bootstrap: str, group: str, topic: str, on_assigned: Callable[[], None]):
        self._consumer = LibrdkafkaConsumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": SESSION_MS,
                "heartbeat.interval.ms": HEARTBEAT_MS,
            }
        )
        self._consumer.subscribe([topic], on_assign=lambda *_: on_assigned())

    def poll(self) -> Records:
        found = self._consumer.consume(500, POLL_MS / 1_000)
        return [
            ((each.topic(), each.partition()), each.offset(), each.value())
            for each in found
            if each.error() is None
        ]

    def commit(self) -> None:
        self._consumer.commit(asynchronous=False)

    def close(self) -> None:
        self._consumer.close()


class KafkaPython:
    """kafka-python."""

    failures = (PythonError,)

    def __init__(self, bootstrap: str, group: str, topic: str, on_assigned: Callable[[], None]):
        class Listener(ConsumerRebalanceListener):
            def on_partitions_revoked(self, revoked):
                pass

            def on_partitions_assigned(self, assigned):
                on_assigned()

        self._consumer = KafkaConsumer(
            bootstrap_servers=bootstrap.split(","),
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
        )
        self._consumer.subscribe([topic], listener=Listener())

    def poll(self) -> Records:
        found = self._consumer.poll(POLL_MS)
        return [
            ((at.topic, at.partition), each.offset, each.value)
            for at, records in found.items()
            for each in records
        ]

    def commit(self) -> None:
        self._consumer.commit()

    def close(self) -> None:
        self._consumer.close()


class Aiokafka:
    """aiokafka, in a loop of its own."""

    failures = (Exception,)  # its errors have no base of their own

    def __init__(self, bootstrap: str, group: str, topic: str, on_assigned: Callable[[], None]):
        class Listener(AioListener):
            def on_partitions_revoked(self, revoked):
                pass

            def on_partitions_assigned(self, assigned):
                on_assigned()

        self._loop = asyncio.new_event_loop()

        async def start():
            consumer = AIOKafkaConsumer(
                bootstrap_servers=bootstrap,
                group_id=group,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                session_timeout_ms=SESSION_MS,
                heartbeat_interval_ms=HEARTBEAT_MS,
            )
            consumer.subscribe([topic], listener=Listener())
            await consumer.start()
            return consumer

        self._consumer = self._loop.run_until_complete(start())

    def poll(self) -> Records:
        found = self._loop.run_until_complete(self._consumer.getmany(timeout_ms=POLL_MS))
        return [
            ((at.topic, at.partition), each.offset, each.value)
            for at, records in found.items()
            for each in records
        ]

    def commit(self) -> None:
        self._loop.run_until_complete(self._consumer.commit())

    def close(self) -> None:
        self._loop.run_until_complete(self._consumer.stop())
        self._loop.close()


class Kcat:
    """kcat, a process of its own: it commits by itself, from time to time and when it ends."""

    failures = ()

    def __init__(self, bootstrap: str, group: str, topic: str, on_assigned: Callable[[], None]):
        self._on_assigned = on_assigned
        self._records: SimpleQueue[Records] = SimpleQueue()
        settings = {
            "auto.offset.reset": "earliest",
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": HEARTBEAT_MS,
        }
        given = [part for key, value in settings.items() for part in ("-X", f"{key}={value}")]
        self._process = Popen(
            (
                ensure_kcat(),
                "-b",
                bootstrap,
                *given,
                "-u",
                "-f",
                "%t %p %o %s\n",
                "-G",
                group,
                topic,
            ),
            stdout=PIPE,
            stderr=PIPE,
            text=True,
        )
        for work in (self._read, self._hear):
            threading.Thread(target=work, daemon=True).start()

    def poll(self) -> Records:
        try:
            return self._records.get(timeout=POLL_MS / 1_000)
        except Empty:
            return []

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()

    def _read(self) -> None:
        for line in self._process.stdout or ():
            topic, partition, offset, value = line.split()
            self._records.put([((topic, int(partition)), int(offset), value.encode())])

    def _hear(self) -> None:
        for line in self._process.stderr or ():
            if "assigned:" in line and "revoked" not in line:
                self._on_assigned()


CLIENTS = {
    "confluent-kafka": Confluent,
    "kafka-python": KafkaPython,
    "aiokafka": Aiokafka,
    "kcat": Kcat,
}


def main() -> None:
    """Be a member until standard input ends; say on standard output what is seen, and when."""
    kind, bootstrap, group, topic = sys.argv[1:]
    threading.Thread(target=_watch_input, daemon=True).start()
    failures = CLIENTS[kind].failures
    client = CLIENTS[kind](bootstrap, group, topic, lambda: say("assigned"))
    positions: dict[TopicPartition, int] = {}
    while not IS_OVER.is_set():
        try:
            records = client.poll()
            if records:
                say(
                    "polled", records=[(*at, offset, text.decode()) for at, offset, text in records]
                )
            positions |= {at: offset + 1 for at, offset, _ in records}
            if positions and hasattr(client, "commit"):
                wanted, positions = positions, {}
                _commit(client, wanted, failures)
        except failures as error:
            say("failed", error=repr(error))
    client.close()
    say("closed")


def _commit(client, wanted, failures) -> None:
    began_ms, is_done = now_ms(), False
    try:
        client.commit()
        is_done = True
    except failures as error:
        say("failed", error=repr(error))
    offsets = [(*at, offset) for at, offset in wanted.items()]
    say("committed", offsets=offsets, began_ms=began_ms, is_done=is_done)


def _watch_input() -> None:
    sys.stdin.read()
    IS_OVER.set()


def now_ms() -> float:
    """As the real world's clock has it, in every process."""
    return time.perf_counter_ns() / 1e6


def say(event: str, **fields) -> None:
    """One line."""
    sys.stdout.write(json.dumps({"event": event, "at_ms": now_ms(), **fields}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
