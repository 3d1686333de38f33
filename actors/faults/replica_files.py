"""Logs of one partition agree, by what is in their files.

Rule: it is asked when nothing is written any more. Followers keep the leader's bytes, so batches
are compared by place, epoch and CRC, from the first offset on that all replicas still have.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from actors.faults.sight import Batch
from actors.faults.violation import Violation
from actors.operations.logs import Unreadable, batches_in, segments_in
from actors.view import PartitionView
from wire.ids import TopicPartition

FolderOf = Callable[[int], Path | None]


def compare_replicas(
    partitions: Mapping[TopicPartition, PartitionView], folder_of: FolderOf
) -> int:
    """Raise I-8 where two replicas differ; the answer is how many batches were compared."""
    compared = 0
    for partition, view in sorted(partitions.items()):
        logs = {broker: batches_of(folder_of(broker), partition) for broker in view.replicas}
        first = max((log[0].base_offset for log in logs.values() if log), default=0)
        leader = [each for each in logs.get(view.leader, []) if each.base_offset >= first]
        for broker, log in logs.items():
            own = [each for each in log if each.base_offset >= first]
            if own != leader:
                at = next((a for a, b in zip(own, leader, strict=False) if a != b), None)
                raise Violation(
                    "I-8",
                    f"their files differ: {len(own)} and {len(leader)} batches, first at {at}",
                    partition=partition,
                    brokers=(broker, view.leader),
                )
            compared += len(own)
    return compared


def batches_of(folder: Path | None, partition: TopicPartition) -> list[Batch]:
    """All batches in the files of one replica; raise I-8 if they are none."""
    log = None if folder is None else folder / str(partition)
    if log is None or not log.is_dir():
        return []
    found: list[Batch] = []
    for segment in segments_in(log):
        try:
            for batch in batches_in(segment, segment.read_bytes()):
                head = batch.header
                found.append(
                    Batch(head.base_offset, head.last_offset, head.partition_leader_epoch, head.crc)
                )
        except Unreadable as error:
            raise Violation("I-8", str(error), partition=partition) from None
    return found
