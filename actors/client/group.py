"""How far a group has read: what a consumer tells its coordinator, and asks it.

Rule: who coordinates is remembered until that broker denies it or does not answer; all that may
pass is tried again until the deadline.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct

from actors.client.answers import by_partition, error_of
from actors.client.config import ConsumerConfig
from actors.client.connection import Connection
from actors.client.deadline import Deadline
from actors.client.errors import may_pass
from runtime.world import Clock
from wire.errors import (
    ApiError,
    CoordinatorLoadInProgress,
    ErrorCode,
    MalformedMessage,
    exception_of,
)
from wire.groups import FindCoordinator, OffsetCommit, OffsetCommitPartition, OffsetFetch
from wire.ids import NO_LEADER_EPOCH, NO_OFFSET, BrokerId, LeaderEpoch, Offset, TopicPartition
from wire.message import Message, Request

Value = TypeVar("Value")
Response = TypeVar("Response", bound=Message)


class OffsetAndMetadata(Struct, frozen=True, gc=False):
    """A committed offset: the next record that the group will read."""

    offset: Offset
    metadata: str = ""  # the consumer's own note; Kafka's NO_METADATA is the empty string
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH  # of the last record read


Committed = dict[TopicPartition, OffsetAndMetadata | None]


class Identity(Struct, frozen=True, kw_only=True):
    """Who commits: a member of a generation, or somebody who is no member."""

    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


class GroupOffsets:
    """One group's committed offsets, and the way to its coordinator."""

    def __init__(
        self, group_id: str, config: ConsumerConfig, connection: Connection, clock: Clock
    ) -> None:
        self._group_id = group_id
        self._config = config
        self._connection = connection
        self._clock = clock
        self._coordinator: BrokerId | None = None
        self.identity = Identity()

    async def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], deadline: Deadline
    ) -> None:
        """Have these remembered; raise the first that was refused."""
        identity = self.identity
        request = OffsetCommit(
            group_id=self._group_id,
            generation_id=identity.generation_id,
            member_id=identity.member_id,
            group_instance_id=identity.group_instance_id,
            partitions=tuple(
                OffsetCommitPartition(
                    partition=partition,
                    committed_offset=each.offset,
                    committed_leader_epoch=each.leader_epoch,
                    metadata=each.metadata,
                )
                for partition, each in sorted(offsets.items())
            ),
        )

        async def attempt(coordinator: BrokerId, within_ms: float) -> None:
            response = await self._connection.call(coordinator, request, within_ms)
            results = by_partition(offsets, response.partitions, "OffsetCommit")
            for _, each in sorted(results.items()):
                if each.error_code is not ErrorCode.NONE:
                    raise error_of(each, "OffsetCommit of")

        await self._with_coordinator(attempt, deadline)

    async def committed(
        self, partitions: Sequence[TopicPartition] | None, deadline: Deadline
    ) -> Committed:
        """What was last committed; None where nothing was. Without partitions: all there is."""
        wanted = None if partitions is None else tuple(sorted(partitions))
        request = OffsetFetch(group_id=self._group_id, partitions=wanted)

        async def attempt(coordinator: BrokerId, within_ms: float) -> Committed:
            response = await self._connection.call(coordinator, request, within_ms)
            if response.error_code is not ErrorCode.NONE:
                sentence = f"OffsetFetch of group {self._group_id!r}: {response.error_code.name}"
                raise exception_of(response.error_code)(sentence)
            asked = [each.partition for each in response.partitions] if wanted is None else wanted
            results = by_partition(asked, response.partitions, "OffsetFetch")
            found: Committed = {}
            for partition, each in sorted(results.items()):
                if each.error_code is not ErrorCode.NONE:
                    raise error_of(each, "OffsetFetch of")
                if each.committed_offset < NO_OFFSET:
                    raise MalformedMessage(
                        f"committed offset {each.committed_offset} was answered for {partition}"
                    )
                found[partition] = None
                if each.committed_offset != NO_OFFSET:
                    found[partition] = OffsetAndMetadata(
                        each.committed_offset, each.metadata or "", each.committed_leader_epoch
                    )
            return found

        return await self._with_coordinator(attempt, deadline)

    async def ask_once(self, request: Request[Response], within_ms: float) -> Response:
        """Ask the coordinator one time; who it is is found out, or forgotten if it fails."""
        try:
            if self._coordinator is None:
                find_ms = min(within_ms, self._config.request_timeout_ms)
                self._coordinator = await self._find(find_ms)
            response = await self._connection.call(self._coordinator, request, within_ms)
            code = getattr(response, "error_code", ErrorCode.NONE)
            if code is not ErrorCode.NONE and may_pass(code):
                raise exception_of(code)(f"{type(request).__name__}: {code.name}")
        except ApiError as error:
            self._failed(error)
            raise
        return response

    async def ask(
        self,
        request: Request[Response],
        code_of: Callable[[Response], ErrorCode],
        deadline: Deadline,
    ) -> Response:
        """Ask the coordinator until it answers; what cannot pass is raised."""

        async def attempt(coordinator: BrokerId, within_ms: float) -> Response:
            response = await self._connection.call(coordinator, request, within_ms)
            code = code_of(response)
            if code is not ErrorCode.NONE:
                raise exception_of(code)(f"group {self._group_id!r:.100}: {code.name}")
            return response

        return await self._with_coordinator(attempt, deadline)

    # --------------------------------------------------------------------------------------------

    def _failed(self, error: ApiError) -> None:
        if not isinstance(error, CoordinatorLoadInProgress):
            self._coordinator = None

    async def _with_coordinator(
        self, attempt: Callable[[BrokerId, float], Awaitable[Value]], deadline: Deadline
    ) -> Value:
        while True:
            within_ms = min(self._config.request_timeout_ms, deadline.left_ms)
            try:
                coordinator = self._coordinator
                if coordinator is None:
                    coordinator = self._coordinator = await self._find(within_ms)
                return await attempt(coordinator, within_ms)
            except ApiError as error:
                if not may_pass(error.code):
                    raise
                failure = error
            self._failed(failure)
            if deadline.left_ms <= self._config.retry_backoff_ms:
                raise failure
            await self._clock.sleep(max(1, self._config.retry_backoff_ms))

    async def _find(self, within_ms: float) -> BrokerId:
        request = FindCoordinator(key=self._group_id)
        response = await self._connection.call_any(request, within_ms)
        if response.error_code is not ErrorCode.NONE:
            self._connection.turn()
            sentence = response.error_message or response.error_code.name
            raise exception_of(response.error_code)(
                f"the coordinator of group {self._group_id!r}: {sentence}"
            )
        if response.coordinator is None or response.coordinator.id < 0:
            raise MalformedMessage(f"nobody was answered to coordinate group {self._group_id!r}")
        return response.coordinator.id
