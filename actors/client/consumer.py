"""A consumer: it reads partitions that it was assigned, or that its group gives it.

Rule: what poll returns is passed: the position is behind it, and it comes again only after a seek.
Nothing is committed unless `commit` is called, or enable.auto.commit given. Every call ends within
its time; poll returns nothing then, all others raise.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Self, TypeVar

from actors.client.arguments import (
    check_by_partition,
    check_offset,
    check_partition,
    check_time,
    check_timeout,
    offsets_to_commit,
    some_partitions,
    some_topics,
)
from actors.client.auto_commit import AutoCommit, positions_of
from actors.client.config import ConsumerConfig
from actors.client.connection import Connection
from actors.client.deadline import Deadline
from actors.client.errors import ClientClosed, NotAssigned
from actors.client.fetches import Fetches
from actors.client.group import GroupOffsets, OffsetAndMetadata
from actors.client.membership import LEAVE_MS, GroupMembership, Listener
from actors.client.metadata import ClientMetadata
from actors.client.offsets import OffsetAndTimestamp, OffsetLookup, Times
from actors.client.positions import Positions
from actors.client.subscription import (
    Assigned,
    ConsumerRecord,
    FetchedBatches,
    Need,
    Subscription,
)
from runtime.tasks import Bell, Tasks
from runtime.world import Clock, Network
from wire.data import EARLIEST_TIMESTAMP_MS, LATEST_TIMESTAMP_MS, ListOffsetsResult
from wire.errors import BadData, ErrorCode, InvalidRequest, RequestTimedOut, exception_of
from wire.ids import NO_OFFSET, BrokerId, Offset, TopicPartition
from wire.records import RecordBatch, verify

LEAST_WAIT_MS: Final = 0.01  # even poll(0) lets others run, and moves a clock
Given = TypeVar("Given")


class Consumer:
    """Reads the partitions that it is assigned; `async with` closes it.

    The network is its own, and is closed with it.
    """

    def __init__(
        self,
        network: Network,
        clock: Clock,
        bootstrap: Sequence[str],
        *,
        name_of: Callable[[BrokerId], str],
        config: ConsumerConfig | None = None,
    ) -> None:
        self._config = config or ConsumerConfig()
        self._clock = clock
        self._bell = Bell()
        self._tasks = Tasks(self._crashed)
        self._end: Exception | None = None  # why nothing is answered any more
        self._connection = connection = Connection(network, clock, bootstrap, name_of)
        self._metadata = ClientMetadata(
            connection,
            clock,
            self._tasks,
            self._bell,
            max_age_ms=self._config.metadata_max_age_ms,
            backoff_ms=self._config.retry_backoff_ms,
            allow_auto_topic_creation=self._config.allow_auto_create_topics,
        )
        self._lookup = OffsetLookup(self._config, clock, connection, self._metadata, self._bell)
        self._group: GroupOffsets | None = None
        if self._config.group_id is not None:
            self._group = GroupOffsets(self._config.group_id, self._config, connection, clock)
        self._positions = Positions(
            self._config, clock, self._lookup, self._group, self._tasks, self._bell
        )
        self._fetches = Fetches(
            self._config, clock, connection, self._metadata, self._tasks, self._bell
        )
        self._subscription = Subscription()
        self._auto_commit = AutoCommit(self._config, clock, self._group, self._tasks)
        self._membership: GroupMembership | None = None
        if self._group is not None:
            self._membership = GroupMembership(
                self._config,
                clock,
                connection,
                self._group,
                self._subscription,
                self._auto_commit,
                self._tasks,
                self._bell,
            )

    @property
    def config(self) -> ConsumerConfig:
        """What it was told."""
        return self._config

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Leave the group, and ask for nothing more.

        What was read and not committed is not committed, unless enable.auto.commit.
        """
        if not isinstance(self._end, ClientClosed):
            if self._end is None:
                await self._go()
            self._end = ClientClosed("the consumer is closed")
            self._bell.ring()
            await self._tasks.close()
            self._connection.close()

    # --- what is read ----------------------------------------------------------------------------

    def subscribe(
        self,
        topics: Iterable[str],
        *,
        on_assigned: Listener | None = None,
        on_revoked: Listener | None = None,
    ) -> None:
        """Share these topics with the other members of the group, from the next poll on.

        The listeners run inside poll, and are told of partitions that come, or that go.
        """
        self._require_group()
        if self._subscription and not self._is_member:
            raise InvalidRequest("partitions are assigned by hand: a member gets them of its group")
        assert self._membership is not None, "who has a group may be its member"
        self._membership.subscribe(some_topics(topics), on_assigned, on_revoked)

    async def unsubscribe(self) -> None:
        """Read nothing any longer; a member leaves its group."""
        await self._go()
        self._subscription.assign((), Need.RESET)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these and no others; those that stay keep their positions."""
        if self._is_member:
            raise InvalidRequest("the consumer is subscribed: unsubscribe first")
        need = Need.RESET if self._group is None else Need.COMMITTED
        self._subscription.assign(some_partitions(partitions), need)
        self._metadata.forget_others(each.topic for each in self._subscription.partitions)

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        """What is read, sorted."""
        return self._subscription.partitions

    async def poll(self, timeout_ms: float = 1_000) -> list[ConsumerRecord]:
        """The next records, at most max.poll.records; none if none came in time."""
        check = self._check_of_batches()

        def give(each: Assigned, given: list[ConsumerRecord]) -> list[ConsumerRecord]:
            return each.give_records(self._config.max_poll_records - len(given), check)

        return await self._poll(give, timeout_ms)

    async def poll_batches(self, timeout_ms: float = 1_000) -> list[FetchedBatches]:
        """As poll, for who decodes by itself: all that was fetched, as it came."""
        check = self._check_of_batches()

        def give(each: Assigned, _: list[FetchedBatches]) -> list[FetchedBatches]:
            batches = each.give_batches(check)
            return [] if batches is None else [batches]

        return await self._poll(give, timeout_ms)

    # --- where it is read ------------------------------------------------------------------------

    async def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> Offset:
        """The offset of the next record that poll will return; found out if need be."""
        check_partition(partition)
        deadline = self._deadline(timeout_ms)
        while True:
            self._check_open()
            assigned = self._subscription[partition]
            self._raise_error_of(assigned)
            if assigned.position is not None:
                return assigned.position
            if deadline.is_over:
                raise RequestTimedOut(
                    f"{partition} has no position after {deadline.timeout_ms:g} ms"
                )
            wait_ms = self._pump(is_fetching=False)
            await self._bell.wait(min(wait_ms, max(LEAST_WAIT_MS, deadline.left_ms)))

    async def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on from this offset."""
        self._check_open()
        check_partition(partition)
        check_offset(offset)
        if offset < 0:
            raise InvalidRequest(f"there is no offset {offset} to seek in {partition}")
        self._subscription[partition].become(Offset(offset))

    async def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Go on from the first offsets that there are now; of all partitions, if none is named."""
        await self._seek_to(EARLIEST_TIMESTAMP_MS, partitions)

    async def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Go on after the last records that there are now: not, as in Kafka, at the next poll."""
        await self._seek_to(LATEST_TIMESTAMP_MS, partitions)

    async def seek_to_timestamp(self, partition: TopicPartition, timestamp_ms: int) -> None:
        """Go on from the first record at or after a time, or from the end if there is none."""
        check_partition(partition)
        check_time(timestamp_ms)
        assigned = self._subscription[partition]
        found = (await self._find({partition: timestamp_ms}, None))[partition].offset
        if found == NO_OFFSET:
            found = (await self._find({partition: LATEST_TIMESTAMP_MS}, None))[partition].offset
        assigned.become(found)

    async def offsets_for_times(
        self, times: Mapping[TopicPartition, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first records at or after these times; None where there is none so late."""
        check_by_partition("times", times)
        for each in times.values():
            check_time(each)
        found = await self._find(times, timeout_ms)
        return {
            partition: None
            if each.offset == NO_OFFSET
            else OffsetAndTimestamp(each.offset, each.timestamp_ms)
            for partition, each in sorted(found.items())
        }

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, Offset]:
        """The first offsets that there are."""
        return await self._offsets_at(EARLIEST_TIMESTAMP_MS, partitions, timeout_ms)

    async def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, Offset]:
        """The offsets after the last records that can be read."""
        return await self._offsets_at(LATEST_TIMESTAMP_MS, partitions, timeout_ms)

    # --- what the group remembers ----------------------------------------------------------------

    async def commit(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
        timeout_ms: float | None = None,
    ) -> None:
        """Have the group remember these offsets, or else all positions."""
        group = self._require_group()
        if self._membership is not None:
            self._membership.check_may_commit()
        wanted = positions_of(self._subscription) if offsets is None else offsets_to_commit(offsets)
        if wanted:
            await group.commit(wanted, self._deadline(timeout_ms))

    async def committed(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group last committed of these; None where it did not."""
        group = self._require_group()
        wanted = sorted(set(some_partitions(partitions)))
        return await group.committed(wanted, self._deadline(timeout_ms)) if wanted else {}

    # --------------------------------------------------------------------------------------------

    async def _poll(
        self, give: Callable[[Assigned, list[Given]], list[Given]], timeout_ms: float
    ) -> list[Given]:
        check_timeout(timeout_ms)
        deadline = Deadline(self._clock, timeout_ms)
        has_waited = False
        while True:
            self._check_open()
            if self._membership is not None:
                await self._membership.at_poll()
            if not self._subscription and not self._is_member:
                raise NotAssigned("no partition is assigned to this consumer")
            self._auto_commit.at_poll(self._subscription)
            for assigned in self._subscription:
                self._raise_error_of(assigned)
            if given := self._gather(give):
                return given
            if deadline.is_over and has_waited:
                return []
            wait_ms = self._pump(is_fetching=True)
            await self._bell.wait(max(LEAST_WAIT_MS, min(wait_ms, deadline.left_ms)))
            has_waited = True

    def _gather(self, give: Callable[[Assigned, list[Given]], list[Given]]) -> list[Given]:
        given: list[Given] = []
        for assigned in self._subscription:
            if not assigned.has_batches or len(given) >= self._config.max_poll_records:
                continue
            try:
                more = give(assigned, given)
            except BadData:
                if not given:
                    raise
                break  # fetched again, and told then: what was given out is passed already
            if more:
                given += more
                self._subscription.served(assigned)
        return given

    def _pump(self, *, is_fetching: bool) -> float:
        """Ask for all that is missing; how long to wait at most before doing so again."""
        partitions = self._subscription.partitions
        wait_ms = self._metadata.keep_fresh(partitions)
        for each in self._subscription:
            if refusal := self._metadata.refusal(each.partition.topic):
                self._metadata.forget(each.partition.topic)
                each.error = refusal
        self._positions.look_up(self._subscription)
        if is_fetching:
            self._fetches.send(self._subscription)
        if any(each.error for each in self._subscription):
            return LEAST_WAIT_MS  # there is something to tell
        now_ms = self._clock.elapsed_ms()
        retries = (each.retry_at_ms - now_ms for each in self._subscription)
        return max(LEAST_WAIT_MS, min([wait_ms, *(each for each in retries if each > 0)]))

    @property
    def _is_member(self) -> bool:
        return self._membership is not None and bool(self._membership.topics)

    async def _go(self) -> None:
        if self._is_member:
            assert self._membership is not None
            await self._membership.leave()
        else:
            await self._auto_commit.finally_(self._subscription, LEAVE_MS)

    def _raise_error_of(self, assigned: Assigned) -> None:
        error, assigned.error = assigned.error, None
        if error is not None:
            raise error

    async def _seek_to(self, timestamp_ms: int, partitions: tuple[TopicPartition, ...]) -> None:
        named = some_partitions(partitions) or self.assignment
        chosen = [self._subscription[each] for each in named]
        found = await self._find({each.partition: timestamp_ms for each in chosen}, None)
        for each in chosen:
            each.become(found[each.partition].offset)

    async def _offsets_at(
        self, timestamp_ms: int, partitions: Iterable[TopicPartition], timeout_ms: float | None
    ) -> dict[TopicPartition, Offset]:
        times = dict.fromkeys(some_partitions(partitions), timestamp_ms)
        found = await self._find(times, timeout_ms)
        return {partition: each.offset for partition, each in sorted(found.items())}

    async def _find(
        self, times: Times, timeout_ms: float | None
    ) -> dict[TopicPartition, ListOffsetsResult]:
        self._check_open()
        results: dict[TopicPartition, ListOffsetsResult] = {}
        await self._lookup.find(times, self._deadline(timeout_ms), results.__setitem__)
        return results

    def _deadline(self, timeout_ms: float | None) -> Deadline:
        limit_ms = self._config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        check_timeout(limit_ms)
        return Deadline(self._clock, limit_ms)

    def _check_of_batches(self) -> Callable[[RecordBatch], None]:
        return verify if self._config.check_crcs else lambda _: None

    def _require_group(self) -> GroupOffsets:
        self._check_open()
        if self._group is None:
            raise exception_of(ErrorCode.INVALID_GROUP_ID)("the consumer has no group.id")
        return self._group

    def _check_open(self) -> None:
        if self._end is not None:
            raise self._end

    def _crashed(self, error: Exception) -> None:
        """A bug: nobody must wait for what will never come."""
        self._end = self._end or error
        self._bell.ring()
