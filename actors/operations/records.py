"""Records: a bounded number in, a bounded number out.

Rule: bytes that are UTF-8 are shown as text, all others as base64, under another name, so that
nobody takes one for the other.
"""

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from actors.client.accumulator import size_bound
from actors.client.config import ProducerConfig
from actors.client.consumer import Consumer
from actors.client.subscription import ConsumerRecord
from actors.clients import Clients
from actors.operations.given import (
    GroupName,
    Headers,
    PartitionNumber,
    Text,
    TimeoutMs,
    TimestampMs,
    TopicName,
)
from actors.operations.operation import BadInput, Operation
from runtime.tasks import all_of
from wire.errors import MessageTooLarge, UnknownTopicOrPartition
from wire.ids import Offset, TopicPartition
from wire.records import HEADER_BYTES

MOST_RECORDS: Final = 10_000
ACKS: Final = {"0": 0, "1": 1, "-1": -1, "all": -1}
PLACES: Final = ("earliest", "latest")
MOST_RECORD_BYTES: Final = ProducerConfig().max_request_size
MOST_BYTES: Final = 8 << 20  # of keys and values in one answer, but for the last record
Place = Annotated[str, Meta(max_length=19)]  # as many digits as an offset has


class RecordGiven(Struct, kw_only=True, forbid_unknown_fields=True):
    """A record to be sent; key and value as text, or as base64."""

    value: Text | None = None
    value_base64: Text | None = None
    key: Text | None = None
    key_base64: Text | None = None
    partition: PartitionNumber | None = None
    headers: Headers = {}
    timestamp_ms: TimestampMs | None = None


class ProduceGiven(Struct, kw_only=True, forbid_unknown_fields=True):
    """Records to be sent."""

    topic: TopicName
    records: Annotated[list[RecordGiven], Meta(min_length=1, max_length=MOST_RECORDS)]
    acks: str = "all"


class RecordSent(Struct):
    """Where a record went."""

    partition: int
    offset: int
    timestamp_ms: int


class ConsumeGiven(Struct, kw_only=True, forbid_unknown_fields=True):
    """From where on to read, and how much."""

    topic: TopicName
    partition: PartitionNumber | None = None  # None: all
    offset: Place = "earliest"  # a number, earliest, or latest; a group goes on where it was
    group: GroupName | None = None  # what is answered is committed for it
    max_records: Annotated[int, Meta(ge=1, le=MOST_RECORDS)] = 100
    timeout_ms: TimeoutMs = 1_000


class RecordRead(Struct, omit_defaults=True):
    """A record; key and value as text, or as base64 if they are no text."""

    partition: int
    offset: int
    timestamp_ms: int
    leader_epoch: int = -1
    key: str | None = None
    value: str | None = None
    key_base64: str | None = None
    value_base64: str | None = None
    headers: dict[str, str | None] = {}


def _bytes(name: str, text: str | None, encoded: str | None) -> bytes | None:
    if text is not None and encoded is not None:
        raise BadInput(f"{name} and {name}_base64 are both given")
    if encoded is None:
        return None if text is None else text.encode()
    try:
        return b64decode(encoded, validate=True)
    except (Base64Error, ValueError):
        raise BadInput(f"{name}_base64 is no base64") from None


async def produce(clients: Clients, given: ProduceGiven) -> list[RecordSent]:
    """Send records, and answer where each went."""
    if given.acks not in ACKS:
        raise BadInput(f"acks is {given.acks!r:.20}; it must be one of {', '.join(ACKS)}")
    records = [
        (
            _bytes("value", each.value, each.value_base64),
            _bytes("key", each.key, each.key_base64),
            each,
        )
        for each in given.records
    ]
    for number, (value, key, each) in enumerate(records):
        headers = tuple((name, of.encode()) for name, of in each.headers.items())
        if (size := HEADER_BYTES + size_bound(key, value, headers)) > MOST_RECORD_BYTES:
            raise MessageTooLarge(
                f"records[{number}] has {size} bytes; it must have at most {MOST_RECORD_BYTES}"
            )
    await _check_destinations(clients, given)
    async with clients.producer(acks=ACKS[given.acks], linger_ms=5, max_block_ms=10_000) as sender:
        deliveries = [
            await sender.enqueue(
                given.topic,
                value,
                key,
                partition=each.partition,
                headers=tuple((name, of.encode()) for name, of in each.headers.items()),
                timestamp_ms=each.timestamp_ms,
            )
            for value, key, each in records
        ]
        await sender.flush()
        sent: list[Any] = [each.get() for each in await all_of(deliveries)]
    return [RecordSent(each.partition, each.offset, each.timestamp_ms) for each in sent]


async def _check_destinations(clients: Clients, given: ProduceGiven) -> None:
    """All of them, before the first is sent; and a misspelt topic is not made."""
    known = {each.partition for each in await partitions_of(clients, given.topic)}
    for number, each in enumerate(given.records):
        if each.partition is not None and each.partition not in known:
            raise UnknownTopicOrPartition(
                f"records[{number}]: topic {given.topic} has {len(known)} partitions, and no "
                f"partition {each.partition}"
            )


async def consume(clients: Clients, given: ConsumeGiven) -> list[RecordRead]:
    """Read until there are enough, or nothing has come for a while."""
    partitions = await partitions_of(clients, given.topic, given.partition)
    reset = given.offset if given.offset in PLACES else "none"
    if reset == "none" and not given.offset.isdecimal():
        raise BadInput(f"offset is {given.offset!r:.30}; it must be a number, earliest or latest")
    if reset == "none" and given.partition is None:
        raise BadInput(f"offset is {given.offset}; partition must be given with it")
    options: dict[str, Any] = {
        "max_poll_records": given.max_records,
        "auto_offset_reset": reset,  # none: an offset that is not there is told
        "fetch_max_bytes": MOST_BYTES,
    }
    if given.group is not None:
        options["group_id"] = given.group
    async with clients.consumer(**options) as consumer:
        consumer.assign(partitions)
        if reset == "none":
            for partition in partitions:
                await consumer.seek(partition, Offset(int(given.offset)))
        records = await _gather(consumer, given)
        if given.group is not None and records:
            await consumer.commit(positions_after(records))
    return [shown(each) for each in records]


async def _gather(consumer: Consumer, given: ConsumeGiven) -> list[ConsumerRecord]:
    """Until there are enough, or nothing has come for as long as was to be waited."""
    records: list[ConsumerRecord] = []
    size = 0
    while found := await consumer.poll(timeout_ms=given.timeout_ms):
        for each in found:
            records.append(each)
            size += len(each.key or b"") + len(each.value or b"")
            if len(records) == given.max_records or size > MOST_BYTES:
                return records
    return records


def positions_after(records: list[ConsumerRecord]) -> dict[TopicPartition, int]:
    """What a group has passed when it has these."""
    return {TopicPartition(each.topic, each.partition): each.offset + 1 for each in records}


async def partitions_of(
    clients: Clients, topic: str, partition: int | None = None
) -> list[TopicPartition]:
    """The partitions of a topic, or the one that is meant; raise if there is none."""
    found = (await clients.admin().describe_topics([topic]))[topic]
    if isinstance(found, UnknownTopicOrPartition):
        raise UnknownTopicOrPartition(f"There is no topic {topic!r:.100}.")
    if isinstance(found, Exception):
        raise found
    numbers = [each.partition for each in found.partitions]
    if partition is not None and partition not in numbers:
        raise BadInput(f"topic {topic} has {len(numbers)} partitions, and no partition {partition}")
    return [TopicPartition(topic, each) for each in numbers if partition in (None, each)]


def shown(record: ConsumerRecord) -> RecordRead:
    """A record as JSON can have it."""
    key, key_base64 = _text(record.key)
    value, value_base64 = _text(record.value)
    return RecordRead(
        record.partition,
        record.offset,
        record.timestamp_ms,
        record.leader_epoch,
        key,
        value,
        key_base64,
        value_base64,
        {name: None if of is None else of.decode(errors="replace") for name, of in record.headers},
    )


def _text(value: bytes | None) -> tuple[str | None, str | None]:
    if value is None:
        return None, None
    try:
        return value.decode(), None
    except UnicodeDecodeError:
        return None, b64encode(value).decode()


OPERATIONS: Final = (
    Operation(
        "produceRecords",
        "POST",
        "/api/topics/{topic}/records",
        "Send records, and answer where each went.",
        ProduceGiven,
        list[RecordSent],
        produce,
    ),
    Operation(
        "consumeRecords",
        "GET",
        "/api/topics/{topic}/records",
        "Read records from an offset on, or on behalf of a group.",
        ConsumeGiven,
        list[RecordRead],
        consume,
    ),
)
