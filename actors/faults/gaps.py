"""What Kafka 2.8 leaves behind under some faults, and no invariant may complain of.

Rule: a gap is one that tests/behaviours.py names; it is told by what is there, not by guessing.
"""

from actors.faults.ledger import Ledger
from actors.faults.sight import Sight


def blocked_topics(sight: Sight, ledger: Ledger) -> set[str]:
    """Topics of which a broker still holds a replica of an earlier namesake (L-8).

    It was away when a move removed that replica; nobody tells it again, and it refuses the new one.
    """
    blocked: set[str] = set()
    for node in sight.cluster.nodes.values():
        if not node.system.is_up:
            continue
        for partition, replica in node.replica_manager.replicas.items():
            topic = ledger.topics.get(partition.topic)
            if topic is not None and replica.hosted.topic_id != topic.topic_id:
                blocked.add(partition.topic)
    return blocked
