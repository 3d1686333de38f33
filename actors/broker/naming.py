"""Whose log is whose: the id of a topic, in memory and beside its records.

Rule: a log is used for the topic that it was written for, and for no namesake. One of which nobody
can say is used, as Kafka uses what older versions wrote.
"""

from collections.abc import Iterable, Mapping

from actors.broker.log.identity import read_topic_id, write_topic_id
from actors.broker.log.manager import LogManager
from actors.broker.log.storage import Storage
from actors.broker.replica import Replica, Replicas
from runtime.files import Disk
from wire.ids import TopicId, TopicPartition


def name_log(disk: Disk, replica: Replica) -> None:
    """Note beside a log's first records of which topic they are."""
    replica.is_named = True
    topic_id, log = replica.hosted.topic_id, replica.log
    if topic_id is not None and log is not None:
        with Storage(log.folder):
            write_topic_id(disk, log.folder, topic_id)


def of_namesakes(
    partitions: Iterable[TopicPartition],
    topic_ids: Mapping[str, TopicId],
    disk: Disk,
    logs: LogManager,
    stopped: Replicas,
) -> list[TopicPartition]:
    """Those of whose logs it is known that they are another topic's."""
    found = []
    for partition in partitions:
        topic_id = topic_ids.get(partition.topic)
        if topic_id is None or logs.get(partition) is None:
            continue
        replica = stopped.get(partition)
        known = replica.hosted.topic_id if replica is not None else None
        known = known or read_topic_id(disk, str(partition))
        if known is not None and known != topic_id:
            found.append(partition)
    return found
