"""Histories of our own clients.

Rule: recording changes nothing: a recorded client answers what the client answers. A record counts
as sent before the producer has it, and as acknowledged when whoever sent it was told. What nobody
waited for is neither acknowledged nor failed.

    history = History(clock)
    producer = HistoryProducer(cluster.producer(), history, "writer")
    reader = HistoryConsumer(cluster.consumer(), history, "reader")
    …
    await reader.read_to_end([TopicPartition("orders", 0)])
    assert check_history(history.events) == []
"""

import hashlib
from collections.abc import Generator, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Self

from actors.client.accumulator import Delivery, RecordMetadata
from actors.client.consumer import Consumer
from actors.client.group import OffsetAndMetadata
from actors.client.producer import Producer
from actors.client.subscription import ConsumerRecord
from actors.faults.history.events import (
    ALL,
    NOTHING_COMMITTED,
    UNKNOWN_OFFSET,
    UNKNOWN_PARTITION,
    Acknowledged,
    AnyEvent,
    Committed,
    CommittedSeen,
    EndSeen,
    Failed,
    Polled,
    Positioned,
    Sent,
)
from actors.faults.history.files import write_history
from runtime.world import Clock
from wire.ids import TopicPartition
from wire.records import Headers

MOST_LETTERS: Final = 200


def text_of(value: bytes | None) -> str:
    """A record's value in a history: itself if it is short text, else its hash."""
    if value is None:
        return "(null)"
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = ""
    if 0 < len(text) <= MOST_LETTERS or not value:
        return text
    return f"sha256:{hashlib.sha256(value).hexdigest()}"


class History:
    """Takes down what clients tell it, in the order in which they do."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._sent = 0
        self.events: list[AnyEvent] = []

    def write(self, path: Path) -> None:
        """As a file that bin/check-history reads."""
        write_history(path, self.events)

    def now_ms(self) -> float:
        """The time, for began_ms."""
        return self._clock.elapsed_ms()

    def sent(
        self,
        client: str,
        topic: str,
        value: bytes | None,
        *,
        partition: int = UNKNOWN_PARTITION,
        acks: int = ALL,
        is_idempotent: bool = False,
    ) -> str:
        """A record is about to be sent; the answer is its id."""
        self._sent += 1
        event = Sent(
            at_ms=self.now_ms(),
            client=client,
            id=f"{client}-{self._sent}",
            topic=topic,
            partition=partition,
            value=text_of(value),
            acks=acks,
            is_idempotent=is_idempotent,
        )
        self.events.append(event)
        return event.id

    def acknowledged(
        self, record_id: str, offset: int = UNKNOWN_OFFSET, partition: int = UNKNOWN_PARTITION
    ) -> None:
        """The cluster has the record."""
        event = Acknowledged(at_ms=self.now_ms(), id=record_id, offset=offset, partition=partition)
        self.events.append(event)

    def failed(
        self, record_id: str, error: BaseException | str, *, is_certain: bool = False
    ) -> None:
        """The client gave up; surely nothing was written, if that is certain."""
        if isinstance(error, BaseException):
            error = f"{type(error).__name__}: {error}"
        at_ms = self.now_ms()
        self.events.append(Failed(at_ms=at_ms, id=record_id, error=error, is_certain=is_certain))

    def positioned(self, client: str, partition: TopicPartition, offset: int) -> None:
        """A reader goes on from here."""
        self._add(Positioned, client, partition, offset)

    def polled(
        self, client: str, partition: TopicPartition, offset: int, value: bytes | None
    ) -> None:
        """A reader was given a record."""
        self._add(Polled, client, partition, offset, value=text_of(value))

    def end_seen(
        self, client: str, partition: TopicPartition, offset: int, began_ms: float | None = None
    ) -> None:
        """A reader has read all that was before this end."""
        self._add(EndSeen, client, partition, offset, began_ms=began_ms)

    def committed(
        self,
        client: str,
        group: str,
        partition: TopicPartition,
        offset: int,
        *,
        began_ms: float | None = None,
        is_acknowledged: bool = True,
    ) -> None:
        """A group's offset was committed, or may be."""
        more = {"group": group, "began_ms": began_ms, "is_acknowledged": is_acknowledged}
        self._add(Committed, client, partition, offset, **more)

    def committed_seen(
        self,
        client: str,
        group: str,
        partition: TopicPartition,
        offset: int | None,
        began_ms: float | None = None,
    ) -> None:
        """A group's offset was read back; None if there was none."""
        found = NOTHING_COMMITTED if offset is None else offset
        self._add(CommittedSeen, client, partition, found, group=group, began_ms=began_ms)

    def _add(
        self, kind: Any, client: str, partition: TopicPartition, offset: int, **more: Any
    ) -> None:
        event = kind(
            at_ms=self.now_ms(),
            client=client,
            topic=partition.topic,
            partition=partition.partition,
            offset=offset,
            **more,
        )
        self.events.append(event)


class HistoryDelivery:
    """A delivery whose end is taken down, once, when it is awaited."""

    def __init__(self, delivery: Delivery, history: History, record_id: str) -> None:
        self._delivery = delivery
        self._history = history
        self._id = record_id
        self._is_told = False

    @property
    def is_done(self) -> bool:
        """Whether awaiting it takes no time."""
        return self._delivery.is_done

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        try:
            metadata = yield from self._delivery.__await__()
        except Exception as error:  # whatever it was, an earlier try may have been written
            if not self._is_told:
                self._history.failed(self._id, error)
            self._is_told = True
            raise
        if not self._is_told:
            self._history.acknowledged(self._id, metadata.offset, metadata.partition)
        self._is_told = True
        return metadata


class HistoryProducer:
    """A producer whose records are taken down."""

    def __init__(self, producer: Producer, history: History, client: str) -> None:
        self.producer = producer
        self._history = history
        self._client = client
        self._is_idempotent = producer.config.enable_idempotence

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.producer.close()

    async def send(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        *,
        partition: int | None = None,
        headers: Headers = (),
    ) -> RecordMetadata:
        """As Producer.send."""
        return await (await self.enqueue(topic, value, key, partition=partition, headers=headers))

    async def enqueue(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        *,
        partition: int | None = None,
        headers: Headers = (),
    ) -> HistoryDelivery:
        """As Producer.enqueue."""
        record_id = self._history.sent(
            self._client,
            topic,
            value,
            partition=UNKNOWN_PARTITION if partition is None else partition,
            acks=self.producer.config.acks,
            is_idempotent=self._is_idempotent,
        )
        try:
            delivery = await self.producer.enqueue(
                topic, value, key, partition=partition, headers=headers
            )
        except BaseException as error:  # it never came into a batch
            self._history.failed(record_id, error, is_certain=True)
            raise
        return HistoryDelivery(delivery, self._history, record_id)


class HistoryConsumer:
    """A consumer whose reads and commits are taken down."""

    def __init__(self, consumer: Consumer, history: History, client: str) -> None:
        self.consumer = consumer
        self._history = history
        self._client = client
        self._positions: dict[TopicPartition, int] = {}  # as far as the history knows them

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.consumer.close()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """As Consumer.assign."""
        self.consumer.assign(partitions)
        kept = set(self.consumer.assignment)
        self._positions = {each: at for each, at in self._positions.items() if each in kept}

    def subscribe(self, topics: Iterable[str]) -> None:
        """As Consumer.subscribe; what the group gives is begun where the group has come to."""
        self.consumer.subscribe(topics, on_assigned=self._given)

    def _given(self, _: Iterable[TopicPartition]) -> None:
        self._positions = {}

    async def poll(self, timeout_ms: float = 1_000) -> list[ConsumerRecord]:
        """As Consumer.poll."""
        records = await self.consumer.poll(timeout_ms)
        for each in records:
            partition = TopicPartition(each.topic, each.partition)
            if partition not in self._positions:  # its first since it was assigned
                self._history.positioned(self._client, partition, each.offset)
            self._history.polled(self._client, partition, each.offset, each.value)
            self._positions[partition] = each.offset + 1
        return records

    async def seek(self, partition: TopicPartition, offset: int) -> None:
        """As Consumer.seek."""
        await self.consumer.seek(partition, offset)
        self._moved(partition, offset)

    async def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """As Consumer.seek_to_beginning."""
        await self.consumer.seek_to_beginning(*partitions)
        for each in partitions or self.consumer.assignment:
            self._moved(each, await self.consumer.position(each))

    async def read_to_end(
        self, partitions: Iterable[TopicPartition], timeout_ms: float = 60_000
    ) -> list[ConsumerRecord]:
        """Read these from their beginning to the end that they have now."""
        wanted = sorted(partitions)
        self.assign(wanted)
        await self.seek_to_beginning(*wanted)
        began_ms = self._history.now_ms()
        ends = await self.consumer.end_offsets(wanted, timeout_ms)
        found: list[ConsumerRecord] = []
        while any(self._positions[each] < end for each, end in ends.items()):
            if self._history.now_ms() - began_ms > timeout_ms:
                break  # no end was seen, so nothing is missed
            found += await self.poll()
        for partition, end in ends.items():
            if self._positions[partition] >= end:
                self._history.end_seen(self._client, partition, end, began_ms)
        return found

    async def commit(
        self, offsets: Mapping[TopicPartition, int] | None = None, timeout_ms: float | None = None
    ) -> None:
        """As Consumer.commit."""
        wanted = dict(self._positions if offsets is None else offsets)
        began_ms = self._history.now_ms()
        is_acknowledged = False
        try:
            await self.consumer.commit(offsets, timeout_ms)
            is_acknowledged = True
        finally:
            for partition, offset in wanted.items() if self._group else ():
                self._history.committed(
                    self._client,
                    self._group,
                    partition,
                    offset,
                    began_ms=began_ms,
                    is_acknowledged=is_acknowledged,
                )

    async def committed(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """As Consumer.committed."""
        began_ms = self._history.now_ms()
        answer = await self.consumer.committed(partitions, timeout_ms)
        for partition, found in answer.items():
            offset = None if found is None else found.offset
            self._history.committed_seen(self._client, self._group, partition, offset, began_ms)
        return answer

    @property
    def _group(self) -> str:
        return self.consumer.config.group_id or ""

    def _moved(self, partition: TopicPartition, offset: int) -> None:
        self._positions[partition] = offset
        self._history.positioned(self._client, partition, offset)
