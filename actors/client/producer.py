"""A producer: records go in, and their offsets come out.

Rule: records of one partition are in the log in the order in which they were enqueued, each at
least once if its delivery succeeds; one whose delivery fails may be there too (acks were lost).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Self

from actors.client.accumulator import Delivery, RecordMetadata, Unsent, size_bound
from actors.client.arguments import (
    check_bytes,
    check_destination,
    check_record_time,
    header_pairs,
)
from actors.client.config import ProducerConfig
from actors.client.connection import Connection
from actors.client.deadline import Deadline
from actors.client.errors import ClientClosed
from actors.client.metadata import ClientMetadata
from actors.client.partitioner import StickyPartitioner, partition_of_key
from actors.client.sender import Sender
from actors.client.transactions import Transactions
from runtime.tasks import Bell, Tasks
from runtime.world import Clock, Network
from wire.errors import (
    ApiError,
    InvalidRecord,
    InvalidRequest,
    MalformedMessage,
    MessageTooLarge,
    RequestTimedOut,
    UnknownTopicOrPartition,
)
from wire.ids import BrokerId, TopicPartition
from wire.records import HEADER_BYTES, Headers


class Producer:
    """Sends records; `async with` closes it, and so sends what is still there.

    The network is its own, and is closed with it.
    """

    def __init__(
        self,
        network: Network,
        clock: Clock,
        bootstrap: Sequence[str],
        *,
        name_of: Callable[[BrokerId], str],
        config: ProducerConfig | None = None,
    ) -> None:
        self._config = config or ProducerConfig()
        self._clock = clock
        self._bell = Bell()
        self._tasks = Tasks(self._crashed)
        self._partitioner = StickyPartitioner()
        self._connection = connection = Connection(network, clock, bootstrap, name_of)
        self._metadata = ClientMetadata(
            connection,
            clock,
            self._tasks,
            self._bell,
            max_age_ms=self._config.metadata_max_age_ms,
            backoff_ms=self._config.retry_backoff_ms,
        )
        self._sender = Sender(
            self._config, clock, connection, self._metadata, self._tasks, self._bell
        )
        self._is_running = False
        self._end: Exception | None = None  # why nothing is taken any more

    @property
    def config(self) -> ProducerConfig:
        """What it was told."""
        return self._config

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def send(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        *,
        partition: int | None = None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
    ) -> RecordMetadata:
        """Send a record, and wait until it is as safe as `acks` asks."""
        delivery = await self.enqueue(
            topic, value, key, partition=partition, headers=headers, timestamp_ms=timestamp_ms
        )
        return await delivery

    async def enqueue(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        *,
        partition: int | None = None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
    ) -> Delivery:
        """Put a record into its batch; await the answer later for where it went.

        Waits up to max.block.ms for the topic to be known and for room in buffer.memory.
        """
        if self._sender.batches.is_behind:
            self._sender.batches.is_behind = False
            await self._clock.sleep(0)  # nothing below need wait, and the sender must have its turn
        self._check_open()
        if self._sender.transactions is not None:
            self._sender.transactions.check_open()
        check_destination(topic, partition)
        record = self._checked(value, key, headers, timestamp_ms)
        deadline = Deadline(self._clock, self._config.max_block_ms)
        if not self._metadata.knows(topic, partition):
            await self._await_topic(topic, partition, deadline)
        if not self._sender.memory.try_reserve(record.size):
            self._bell.ring()  # what lingers goes now
            await self._sender.memory.reserve(record.size, deadline)
        try:
            self._check_open()
            chosen = TopicPartition(topic, self._choose(topic, partition, record))
        except BaseException:
            self._sender.memory.release(record.size)
            raise
        delivery = self._sender.batches.append(chosen, record, self._clock.elapsed_ms())
        self._start()
        self._bell.ring()
        return delivery

    async def partitions_for(self, topic: str) -> tuple[int, ...]:
        """The partitions of a topic; waits up to max.block.ms for it to be known."""
        self._check_open()
        check_destination(topic, None)
        if not self._metadata.knows(topic, None):
            await self._await_topic(topic, None, Deadline(self._clock, self._config.max_block_ms))
        return self._metadata.partitions(topic)

    async def flush(self, timeout_ms: float | None = None) -> None:
        """Send all that is there now, and wait until each record is delivered or has failed.

        Who wants to know which, awaits what `enqueue` gave.
        """
        limit_ms = self._config.delivery_timeout_ms if timeout_ms is None else timeout_ms
        deadline = Deadline(self._clock, limit_ms)
        self._sender.flushes += 1
        self._bell.ring()
        try:
            for batch in self._sender.batches.unfinished():
                if not await batch.done.settled(deadline.left_ms):
                    raise RequestTimedOut(f"records are still unsent after {limit_ms:g} ms")
        finally:
            self._sender.flushes -= 1

    # --- transactions ----------------------------------------------------------------------------

    async def init_transactions(self, timeout_ms: float | None = None) -> None:
        """Take over the transactional id, and end what its former producer has left open."""
        await self._transactions.init(self._deadline(timeout_ms))

    def begin_transaction(self) -> None:
        """All that is sent from now on counts together, or not at all."""
        self._transactions.begin()

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, int], group_id: str, timeout_ms: float | None = None
    ) -> None:
        """Commit these offsets of a group together with the records."""
        await self._transactions.send_offsets(offsets, group_id, self._deadline(timeout_ms))

    async def commit_transaction(self, timeout_ms: float | None = None) -> None:
        """Send what is there, and let all of it count; if anything failed, abort instead."""
        deadline = self._deadline(timeout_ms)
        await self._transactions.finish(True, lambda: self.flush(deadline.left_ms), deadline)

    async def abort_transaction(self, timeout_ms: float | None = None) -> None:
        """Let nothing of it count; what is not sent yet fails."""
        deadline = self._deadline(timeout_ms)
        self._transactions.check_begun()
        self._sender.batches.give_up_waiting(InvalidRecord("the transaction was aborted"))
        await self._transactions.finish(False, lambda: self.flush(deadline.left_ms), deadline)

    @property
    def _transactions(self) -> Transactions:
        self._check_open()
        if self._sender.transactions is None:
            raise InvalidRequest("this producer has no transactional.id")
        return self._sender.transactions

    def _deadline(self, timeout_ms: float | None) -> Deadline:
        return Deadline(
            self._clock, self._config.max_block_ms if timeout_ms is None else timeout_ms
        )

    async def close(self, timeout_ms: float | None = None) -> None:
        """Take nothing more, send what is there within the time, and fail the rest."""
        if isinstance(self._end, ClientClosed):
            return
        crash, self._end = self._end, ClientClosed("the producer is closed")
        error = ClientClosed("the producer was closed before this was acknowledged")
        try:
            if crash is None:
                await self.flush(timeout_ms)
        except RequestTimedOut:
            pass  # those who wait for a delivery are told
        finally:
            self._sender.memory.close(error)
            self._sender.batches.close(error)
            self._bell.ring()
            await self._tasks.close()
            self._connection.close()

    # --- checking --------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._end is not None:
            raise self._end

    def _checked(
        self,
        value: bytes | None,
        key: bytes | None,
        headers: Headers,
        timestamp_ms: int | None,
    ) -> Unsent:
        """The record, if it is one and not too large."""
        check_bytes("value", value)
        check_bytes("key", key)
        pairs = header_pairs(headers) if headers != () else ()
        if timestamp_ms is None:
            timestamp_ms = self._clock.now_ms()
        else:
            check_record_time(timestamp_ms)
        try:
            size = size_bound(key, value, pairs)
        except UnicodeEncodeError as error:
            raise InvalidRecord(f"a header's name is no text: {error}") from error
        most = min(self._config.max_request_size, self._config.buffer_memory)
        if HEADER_BYTES + size > most:
            raise MessageTooLarge(
                f"a record of {size} bytes is over max.request.size or buffer.memory, {most}"
            )
        return Unsent(timestamp_ms, key, value, pairs, size)

    # --- where it goes ---------------------------------------------------------------------------

    async def _await_topic(self, topic: str, partition: int | None, deadline: Deadline) -> None:
        while not self._metadata.knows(topic, partition):
            self._check_open()
            if refusal := self._metadata.refusal(topic):
                self._metadata.forget(topic)
                raise refusal
            if deadline.is_over:
                raise self._unknown(topic, partition, deadline)
            if self._metadata.partitions(topic):
                self._metadata.mark_stale()  # the topic is known, and may have grown
            wait_ms = self._metadata.keep_fresh(topic=topic)
            await self._bell.wait(min(wait_ms, deadline.left_ms))
        self._check_open()

    def _unknown(
        self, topic: str, partition: int | None, deadline: Deadline
    ) -> ApiError | MalformedMessage:
        after = f"after {deadline.timeout_ms:g} ms"
        if count := len(self._metadata.partitions(topic)):
            return UnknownTopicOrPartition(
                f"Topic {topic!r} has {count} partitions, and still no {partition} {after}"
            )
        why = self._metadata.why_unknown(topic) or self._metadata.failure
        self._metadata.forget(topic)
        if why is None:
            return RequestTimedOut(f"Topic {topic!r} is still unknown {after}")
        return type(why)(f"{why}, still {after}")

    def _choose(self, topic: str, partition: int | None, record: Unsent) -> int:
        if partition is not None:
            return partition
        known = self._metadata.partitions(topic)
        if not known:  # it was forgotten while we waited for room
            raise UnknownTopicOrPartition(f"Topic {topic!r} is gone")
        if record.key is not None:
            return known[partition_of_key(record.key, len(known))]
        available = self._metadata.partitions_with_leaders(topic) or known
        return self._partitioner.choose(
            topic,
            available,
            lambda each: self._sender.batches.has_room(TopicPartition(topic, each), record.size),
        )

    # --------------------------------------------------------------------------------------------

    def _start(self) -> None:
        """The task begins with the first record: before that there may be no loop to run it."""
        if not self._is_running:
            self._is_running = True
            self._tasks.start(self._sender.run())

    def _crashed(self, error: Exception) -> None:
        """A bug: nobody must wait for what will never come."""
        self._end = self._end or error
        self._sender.memory.close(error)
        self._sender.batches.close(error)
        self._bell.ring()
