"""A consumer's membership in its group: it subscribes, joins, and hears of what it is given.

Rule: a rebalance begins in poll, and nowhere else: what the program works on is not given to others
behind its back, unless it does not poll for max.poll.interval.ms. From then on until the group has
agreed poll returns nothing. The eager protocol: all is let go before the next generation.
"""

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from enum import Enum
from typing import Final

from actors.client.assignors import ASSIGNORS
from actors.client.auto_commit import AutoCommit
from actors.client.config import ConsumerConfig
from actors.client.connection import Connection
from actors.client.errors import may_pass
from actors.client.group import GroupOffsets, Identity
from actors.client.subscription import Need, Subscription
from runtime.tasks import Bell, Tasks
from runtime.world import Clock
from wire.consumer_protocol import (
    ConsumerAssignment,
    ConsumerSubscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from wire.errors import ApiError, ErrorCode, MalformedMessage, exception_of
from wire.groups import (
    Heartbeat,
    JoinGroup,
    JoinGroupResponse,
    JoinProtocol,
    LeaveGroup,
    LeavingMember,
    MemberAssignment,
    SyncGroup,
)
from wire.ids import TopicPartition
from wire.metadata import Metadata

METADATA_MS: Final = 2_000  # a broker has it at hand
LOOK_AGAIN_MS: Final = 1_000  # for a topic that is not there yet
LEAVE_MS: Final = 2_000  # what a last commit, and a goodbye, may take
NOT_KNOWN: Final = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)

Partitions = tuple[TopicPartition, ...]
Listener = Callable[[Partitions], Awaitable[None] | None]


class Phase(Enum):
    """Where a member is."""

    OUT = "out"  # it must join, at the next poll
    JOINING = "joining"
    IN = "in"


class GroupMembership:
    """One member; its consumer tells it of each poll."""

    def __init__(
        self,
        config: ConsumerConfig,
        clock: Clock,
        connection: Connection,
        group: GroupOffsets,
        subscription: Subscription,
        auto_commit: AutoCommit,
        tasks: Tasks,
        bell: Bell,
    ) -> None:
        self._config = config
        self._clock = clock
        self._connection = connection
        self._group = group
        self._subscription = subscription
        self._auto_commit = auto_commit
        self._tasks = tasks
        self._bell = bell
        self.topics: tuple[str, ...] = ()  # what it subscribes to; none: it is no member
        self._on_assigned: Listener | None = None
        self._on_revoked: Listener | None = None
        self._phase = Phase.OUT
        self._must_join = False
        self._given: Partitions | None = None  # by the group, and not yet told to the program
        self._had: Partitions = ()  # in the generation before
        self._failure: Exception | None = None
        self._polled_at_ms = 0.0
        self._turn = 0  # of subscribing: what was begun in an earlier one no longer counts
        self._counts: dict[str, int] | None = None  # as the leader saw them
        self._counted_at_ms = 0.0

    # --- what the consumer says -------------------------------------------------------------------

    def subscribe(
        self, topics: Iterable[str], on_assigned: Listener | None, on_revoked: Listener | None
    ) -> None:
        """Share these topics with the group, from the next poll on."""
        self.topics = tuple(sorted(set(topics)))
        self._on_assigned, self._on_revoked = on_assigned, on_revoked
        self._must_join = True
        self._failure = None
        self._bell.ring()

    async def leave(self) -> None:
        """Let all go, and say goodbye; a static member is expected back, and says nothing."""
        if not self.topics:
            return
        self._turn += 1
        await self._let_go()
        self.topics, self._must_join, self._phase, self._given = (), False, Phase.OUT, None
        await self._say_goodbye("it unsubscribes")
        self._group.identity = Identity()

    async def at_poll(self) -> None:
        """The program asks for records: time to hear what the group has decided."""
        if not self.topics:
            return
        self._polled_at_ms = self._clock.elapsed_ms()
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        if self._given is not None and not self._must_join:
            given, self._given = self._given, None
            self._subscription.assign(given, Need.COMMITTED)
            await _tell(self._on_assigned, given)
        if self._must_join and self._phase is not Phase.JOINING:
            self._phase = Phase.JOINING
            await self._let_go()
            self._must_join, self._given = False, None
            self._turn += 1
            self._tasks.start(self._join(self._turn))

    def check_may_commit(self) -> None:
        """Whether what it has read is still its own to commit."""
        if self.topics and self._group.identity.generation_id < 0:
            raise exception_of(ErrorCode.UNKNOWN_MEMBER_ID)("the group has gone on without us")

    async def _let_go(self) -> None:
        """Commit, tell the program, and read nothing more of what it has."""
        had = self._subscription.partitions
        if had:
            self._had = had
            if self._group.identity.generation_id >= 0:  # else it is somebody else's by now
                await self._auto_commit.finally_(self._subscription, LEAVE_MS)
            await _tell(self._on_revoked, had)
            self._subscription.assign((), Need.COMMITTED)

    # --- joining ----------------------------------------------------------------------------------

    async def _join(self, turn: int) -> None:
        """Until it is in, or may not be."""
        while turn == self._turn:
            try:
                if await self._try_to_join(turn):
                    break
            except (ApiError, MalformedMessage) as error:
                if not isinstance(error, ApiError) or not self._may_join_again(error):
                    self._fail(error, turn)
                    return
                await self._clock.sleep(max(1, self._config.retry_backoff_ms))
        if turn == self._turn:
            self._bell.ring()
            await self._live(turn)

    def _may_join_again(self, error: ApiError) -> bool:
        if error.code in NOT_KNOWN:
            self._group.identity = Identity()
            return True
        return error.code is ErrorCode.REBALANCE_IN_PROGRESS or may_pass(error.code)

    async def _try_to_join(self, turn: int) -> bool:
        identity = self._group.identity
        wish = ConsumerSubscription(
            topics=self.topics, owned=self._had, generation_id=identity.generation_id
        )
        metadata = encode_subscription(wish)
        joined = await self._group.ask_once(
            JoinGroup(
                group_id=self._group_id,
                session_timeout_ms=self._config.session_timeout_ms,
                rebalance_timeout_ms=self._config.max_poll_interval_ms,
                member_id=identity.member_id,
                group_instance_id=self._config.group_instance_id,
                client_id=self._config.client_id,
                protocols=tuple(JoinProtocol(each, metadata) for each in self._config.assignors),
            ),
            self._config.request_timeout_ms,  # then it asks once more, and goes on waiting
        )
        if turn != self._turn:
            return False
        if joined.error_code is ErrorCode.MEMBER_ID_REQUIRED:
            self._group.identity = Identity(member_id=joined.member_id)
            return False
        _check(joined.error_code, "JoinGroup")
        identity = Identity(
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            group_instance_id=self._config.group_instance_id,
        )
        self._group.identity = identity
        is_leader = joined.leader == joined.member_id and not joined.skip_assignment
        shares = await self._share_out(joined) if is_leader else ()
        if not is_leader:
            self._counts = None
        synced = await self._group.ask_once(
            SyncGroup(
                group_id=self._group_id,
                generation_id=identity.generation_id,
                member_id=identity.member_id,
                group_instance_id=identity.group_instance_id,
                protocol_type=joined.protocol_type,
                protocol_name=joined.protocol_name,
                assignments=shares,
            ),
            self._config.request_timeout_ms,
        )
        _check(synced.error_code, "SyncGroup")
        if turn == self._turn:
            self._given = tuple(sorted(decode_assignment(synced.assignment).partitions))
            self._had = self._given
            self._phase = Phase.IN
        return True

    async def _share_out(self, joined: JoinGroupResponse) -> tuple[MemberAssignment, ...]:
        """The leader's part: all members count, and partitions as they are now."""
        members = {each.member_id: decode_subscription(each.metadata) for each in joined.members}
        share_out = ASSIGNORS.get(joined.protocol_name or "")
        if share_out is None:
            raise MalformedMessage(f"protocol {joined.protocol_name!r} was not offered")
        topics = {topic for each in members.values() for topic in each.topics}
        self._counts = await self._count(topics)
        return tuple(
            MemberAssignment(name, encode_assignment(ConsumerAssignment(partitions=tuple(share))))
            for name, share in share_out(members, self._counts).items()
        )

    async def _count(self, topics: Iterable[str]) -> dict[str, int]:
        request = Metadata(
            topics=tuple(sorted(topics)),
            allow_auto_topic_creation=self._config.allow_auto_create_topics,
        )
        response = await self._connection.call_any(request, METADATA_MS)
        self._counted_at_ms = self._clock.elapsed_ms()
        return {each.topic: len(each.partitions) for each in response.topics}

    # --- living -----------------------------------------------------------------------------------

    async def _live(self, turn: int) -> None:
        """A heartbeat from time to time, until it joins again."""
        identity = self._group.identity
        beat = Heartbeat(
            group_id=self._group_id,
            generation_id=identity.generation_id,
            member_id=identity.member_id,
            group_instance_id=identity.group_instance_id,
        )
        wait_ms = self._interval_ms()
        while turn == self._turn:
            await self._clock.sleep(wait_ms)
            if turn != self._turn or self._phase is not Phase.IN:
                return
            idle_ms = self._clock.elapsed_ms() - self._polled_at_ms
            if idle_ms > self._config.max_poll_interval_ms:
                await self._say_goodbye("it does not poll")
                self._lose()
                return
            try:
                within_ms = min(self._config.request_timeout_ms, self._config.session_timeout_ms)
                answer = await self._group.ask_once(beat, within_ms)
                await self._look_for_partitions()
            except (ApiError, MalformedMessage) as error:
                if not (isinstance(error, ApiError) and may_pass(error.code)):
                    self._fail(error, turn)
                    return
                wait_ms = max(1, self._config.retry_backoff_ms)
                continue
            if self._on_heartbeat(answer.error_code, turn):
                return
            wait_ms = self._interval_ms()

    def _interval_ms(self) -> float:
        is_complete = self._counts is None or all(self._counts.values())
        interval_ms = self._config.heartbeat_interval_ms
        return interval_ms if is_complete else min(interval_ms, LOOK_AGAIN_MS)

    def _on_heartbeat(self, code: ErrorCode, turn: int) -> bool:
        """What the coordinator said; whether this life is over."""
        if turn != self._turn:
            return True
        if code is ErrorCode.NONE:
            return False
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            self._must_join = True
            self._bell.ring()
            return False  # the program may take its time until it polls
        if code in NOT_KNOWN:
            self._lose()
        else:
            self._fail(exception_of(code)(f"Heartbeat: {code.name}"), turn)
        return True

    async def _look_for_partitions(self) -> None:
        """The leader's part: topics that grow, or that come to be, are shared out anew."""
        if self._counts is None or self._must_join:
            return
        is_complete = all(self._counts.values())
        age_ms = self._clock.elapsed_ms() - self._counted_at_ms
        if age_ms >= (self._config.metadata_max_age_ms if is_complete else LOOK_AGAIN_MS):
            found = await self._count(self._counts)
            if found != self._counts:
                self._must_join = True
                self._bell.ring()

    def _lose(self) -> None:
        """The group has gone on without it: what it had is somebody else's by now."""
        self._group.identity = Identity()
        self._had = ()
        self._phase = Phase.OUT
        self._must_join = True
        self._bell.ring()

    def _fail(self, error: Exception, turn: int) -> None:
        """Nothing that would pass: the program hears of it at its next poll, which tries again."""
        if turn == self._turn:
            self._lose()
            self._failure = error

    async def _say_goodbye(self, reason: str) -> None:
        identity = self._group.identity
        if not identity.member_id or self._config.group_instance_id is not None:
            return
        member = LeavingMember(member_id=identity.member_id, reason=reason)
        with suppress(ApiError, MalformedMessage):  # then its session ends by itself
            request = LeaveGroup(group_id=self._group_id, members=(member,))
            await self._group.ask_once(request, LEAVE_MS)

    @property
    def _group_id(self) -> str:
        assert self._config.group_id is not None, "a member has a group"
        return self._config.group_id


async def _tell(listener: Listener | None, partitions: Partitions) -> None:
    told = None if listener is None else listener(partitions)
    if told is not None:
        await told


def _check(code: ErrorCode, name: str) -> None:
    if code is not ErrorCode.NONE:
        raise exception_of(code)(f"{name}: {code.name}")
