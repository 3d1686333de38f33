"""What Kafka 2.8 leaves behind under some faults, and no invariant may complain of.

Rule: a gap is one that tests/behaviours.py names; it is told by what is there, not by guessing.
"""

from actors.faults.ledger import Ledger
from actors.faults.sight import Sight


def blocked_topics(sight: Sight, ledger: Ledger) -> set[str]:
    """Topics of which a broker refuses a replica, since it holds one of an earlier namesake (L-8).

    It was away when a move removed that replica, and nobody tells it again. One that is to have
    none of the new topic hears of that from metadata: nothing of it is excused.
    """
    blocked: set[str] = set()
    for broker, node in sight.cluster.nodes.items():
        if not node.system.is_up:
            continue
        for partition, replica in node.replica_manager.replicas.items():
            topic, assignment = ledger.topics.get(partition.topic), ledger.assignment(partition)
            is_assigned = assignment is not None and broker in assignment.replicas
            if is_assigned and topic is not None and replica.hosted.topic_id != topic.topic_id:
                blocked.add(partition.topic)
    return blocked
