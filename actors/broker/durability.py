"""Records that must be durable before they count: flush.messages.

Rule: as Kafka, which flushes inside the append, nobody is told of a record before the flush that
its log's flush.messages demands. By default none is demanded: replicas make records safe.
"""

from collections.abc import Iterable

from actors.broker.log.config import NEVER
from actors.broker.replica import Replica
from wire.errors import KafkaStorageError
from wire.ids import TopicPartition


async def flush_demanded(
    replicas: Iterable[Replica],
) -> dict[TopicPartition, KafkaStorageError]:
    """Flush the logs that have too many unflushed records; those that could not be."""
    failed: dict[TopicPartition, KafkaStorageError] = {}
    for replica in replicas:
        log = replica.log
        if log is None or log.config.flush_messages == NEVER:
            continue
        if log.log_end_offset - log.recovery_point >= log.config.flush_messages:
            try:
                await log.flush()
            except KafkaStorageError as error:
                failed[replica.partition] = error
    return failed
