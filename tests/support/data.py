"""Records in and out of a driven cluster, as clients and as people with a file viewer see them."""

from tests.support.drive import Drive
from wire.data import (
    Fetch,
    FetchPartition,
    FetchResponse,
    FetchResult,
    Produce,
    ProducePartition,
    ProduceResponse,
    ProduceResult,
)
from wire.ids import Offset, TopicPartition
from wire.records import Record, RecordBatch, batches, decode_records, encode_batch

MIB = 1 << 20


def batch_of(*values: bytes, timestamp_ms: int = 1) -> bytearray:
    """One batch of records without keys."""
    return encode_batch(
        [
            Record(offset=Offset(number), timestamp_ms=timestamp_ms, value=value)
            for number, value in enumerate(values)
        ]
    )


async def produce(
    drive: Drive,
    partition: TopicPartition,
    *values: bytes,
    acks: int = 1,
    timeout_ms: int = 30_000,
    leader: int | None = None,
) -> ProduceResult:
    """Append one batch at the leader, or at whoever is said to be one."""
    if leader is None:
        leader = drive.state(partition.topic, partition.partition).leader
    entry = ProducePartition(partition, memoryview(bytes(batch_of(*values))))
    request = Produce(acks=acks, timeout_ms=timeout_ms, partitions=(entry,))
    (result,) = (await drive.ask(leader, request, ProduceResponse)).partitions
    return result


async def fetch(
    drive: Drive,
    partition: TopicPartition,
    offset: int = 0,
    *,
    leader: int | None = None,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = MIB,
) -> FetchResult:
    """Read as a consumer does."""
    if leader is None:
        leader = drive.state(partition.topic, partition.partition).leader
    wanted = FetchPartition(partition=partition, fetch_offset=Offset(offset), max_bytes=max_bytes)
    request = Fetch(
        max_wait_ms=max_wait_ms, min_bytes=min_bytes, max_bytes=max_bytes, partitions=(wanted,)
    )
    (result,) = (await drive.ask(leader, request, FetchResponse)).partitions
    return result


def values_in(data: bytes | memoryview | None) -> list[bytes | None]:
    """The values of all whole batches."""
    return [record.value for batch in batches(data or b"") for record in decode_records(batch)]


def batches_on(drive: Drive, broker: int, partition: TopicPartition) -> list[RecordBatch]:
    """All that a broker's log holds."""
    replica = drive.replica(broker, partition.topic, partition.partition)
    found: list[RecordBatch] = []
    if replica is None or replica.log is None:
        return found
    offset = replica.log_start_offset
    while offset < replica.log_end_offset:
        whole = list(batches(bytes(replica.log.read(offset, MIB))))
        assert whole, f"nothing at offset {offset} of broker {broker}"
        found += whole
        offset = whole[-1].header.next_offset
    return found


def values_on(drive: Drive, broker: int, partition: TopicPartition) -> list[bytes | None]:
    """The values that a broker's log holds."""
    found = batches_on(drive, broker, partition)
    return [record.value for batch in found for record in decode_records(batch)]
