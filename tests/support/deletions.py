"""What can be seen of a topic on its way out."""

from actors.controller.context import Replica
from wire.control import StopReplica
from wire.ids import TopicPartition
from wire.trace import TopicDeletionStep

ORDERS = TopicPartition("orders", 0)


def steps(drive, topic="orders"):
    """What the trace tells of a topic's end."""
    return [event.step for event in drive.of(TopicDeletionStep) if event.topic == topic]


def stops(drive, to, topic="orders"):
    """What a broker was told to stop of a topic: in order, (delete, leader epoch)."""
    return [
        (entry.delete, entry.leader_epoch)
        for request in drive.sent(StopReplica, to)
        for entry in request.partitions
        if entry.partition.topic == topic
    ]


def phases(drive, partition=ORDERS):
    """Where each replica of a partition stands."""
    context = drive.context
    return {
        broker: context.replica_phase(Replica(partition, broker))
        for broker in context.replicas(partition)
    }


def is_gone(drive, topic):
    """Whether nothing of a topic is left, neither in ZooKeeper nor in the controller."""
    paths = (f"/brokers/topics/{topic}", f"/config/topics/{topic}", f"/admin/delete_topics/{topic}")
    return not any(map(drive.exists, paths)) and topic not in drive.context.topics
