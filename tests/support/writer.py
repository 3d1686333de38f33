"""A cluster in a process of its own that writes until it is told to stop, or killed.

Each acknowledged record is a line on standard output: partition, offset, leader epoch, value. A
line on standard input stops it: then the cluster is closed as a person would close it.
"""

import asyncio
import sys
from contextlib import suppress
from pathlib import Path

from actors.cluster import Cluster
from wire.ids import TopicPartition

TOPIC = "orders"
GROUP = "readers"
PARTITIONS = 3


def say(*words: object) -> None:
    """At once, so that whoever kills this has read it."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def leader_epoch(cluster: Cluster, number: int) -> int:
    """In which a partition is led now."""
    partition = TopicPartition(TOPIC, number)
    held = [node.replica_manager.replicas.get(partition) for node in cluster.nodes.values()]
    return next(each.leader_epoch for each in held if each is not None and each.is_leader)


async def main(data: Path) -> None:
    cluster = Cluster(3, data=data, session_timeout_ms=3_000, overrides={"min_insync_replicas": 2})
    async with cluster:
        admin = cluster.admin()
        if TOPIC not in await admin.list_topics():
            await admin.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=3)
        stop = asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
        async with cluster.producer(acks=-1) as producer, cluster.consumer(group_id=GROUP) as group:
            number = 0
            while not stop.done():
                sent = await producer.send(
                    TOPIC, value=str(number).encode(), partition=number % PARTITIONS
                )
                epoch = leader_epoch(cluster, sent.partition)
                say("record", sent.partition, sent.offset, epoch, number)
                number += 1
                if number % 50 == 0:
                    at = {TopicPartition(TOPIC, sent.partition): sent.offset}
                    await group.commit(at)
                    say("commit", sent.partition, sent.offset, epoch, "-")


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main(Path(sys.argv[1])))
