"""From one generation of a group to the next: who is waited for, and for how long.

Rule: a rebalance begins for one reason, which the trace has. It ends when all members have joined
again, or when the slowest of them is late; who has not joined by then is out. Nobody is told of a
generation before it has begun, and each member is told once.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from actors.asked import Asked, refusal
from actors.config import BrokerConfig
from actors.coordinator.events import JoinDue, MemberDue, SyncDue
from actors.coordinator.group import Group, Member, UnknownMemberId
from actors.coordinator.group_records import GroupChange
from actors.coordinator.group_states import (
    COMPLETING,
    DEAD,
    EMPTY,
    PREPARING,
    STABLE,
    GroupState,
    is_legal,
)
from actors.coordinator.shards import Shard
from runtime.world import World
from wire.errors import ApiError, ErrorCode, NotCoordinator, exception_of
from wire.groups import JoinedMember, JoinGroupResponse, SyncGroupResponse
from wire.message import Message
from wire.trace import GroupMemberLeft, GroupStateChanged

MOST_LETTERS: Final = 255  # of a reason in the trace: clients may say what they like (KIP-800)
NEW_MEMBER_TIMEOUT_MS: Final = 300_000  # as Kafka's: for who waits in its first rebalance

RebalanceInProgress: Final = exception_of(ErrorCode.REBALANCE_IN_PROGRESS)

Done = Callable[[ErrorCode], None]
AppendGroup = Callable[[Shard, GroupChange, Done], None]
After = Callable[[float, Any], Any]


class Rebalancing:
    """Groups on their way to their next generation."""

    def __init__(
        self, world: World, config: BrokerConfig, after: After, append: AppendGroup
    ) -> None:
        self._world = world
        self._config = config
        self._after = after
        self._append = append

    # --- a rebalance ------------------------------------------------------------------------------

    def begin(self, shard: Shard, group: Group, reason: str) -> None:
        """Have all members join again, unless they are being waited for already."""
        if not is_legal(group.state, PREPARING):
            return
        is_first = group.state is EMPTY
        if group.state is COMPLETING:
            self.refuse_syncs(group, RebalanceInProgress("Some members changed."))
        self.change(group, PREPARING, reason)
        delay_ms = self._config.group_initial_rebalance_delay_ms
        if is_first and delay_ms > 0:
            group.delay_left_ms = max(0, group.rebalance_timeout_ms - delay_ms)
            group.has_grown = False
            self._wait(shard, group, delay_ms)
        else:
            self._wait(shard, group, group.rebalance_timeout_ms)
            self.try_complete(shard, group)

    def try_complete(self, shard: Shard, group: Group) -> None:
        """Begin the generation if nobody has to be waited for."""
        is_delayed = group.delay_left_ms is not None
        if group.state is PREPARING and not is_delayed and group.have_all_joined:
            self._complete(shard, group)

    def on_join_due(self, due: JoinDue) -> None:
        """Time is up for joining; but a group that starts waits on as long as more come."""
        shard, group = due.shard, due.group
        if due.turn != group.turn or group.state is not PREPARING:
            return
        left_ms = group.delay_left_ms
        if left_ms and group.has_grown:
            delay_ms = min(left_ms, self._config.group_initial_rebalance_delay_ms)
            group.delay_left_ms, group.has_grown = left_ms - delay_ms, False
            self._wait(shard, group, delay_ms)
            return
        group.delay_left_ms = None
        self._complete(shard, group)

    def on_sync_due(self, due: SyncDue) -> None:
        """Time is up for asking what one has been given (KAFKA-12890)."""
        shard, group = due.shard, due.group
        if group.state not in (COMPLETING, STABLE) or group.generation_id != due.generation_id:
            return
        late = [each for each in group.members.values() if each.must_sync]
        for each in late:
            self.remove(group, each, "did not sync in time")
        if late:
            self.begin(shard, group, "members did not sync in time")

    def _wait(self, shard: Shard, group: Group, time_ms: float) -> None:
        group.turn += 1
        self._after(time_ms, JoinDue(shard, group, group.turn))

    def _complete(self, shard: Shard, group: Group) -> None:
        for each in [each for each in group.members.values() if not each.joining]:
            if each.group_instance_id is None:  # a static one may be away until its session ends
                self.remove(group, each, "did not join in time")
        if group.members and not group.elect_joined_leader():
            self._wait(shard, group, group.rebalance_timeout_ms)
            return
        group.begin_generation()
        self.change(group, COMPLETING if group.members else EMPTY, "all have joined")
        if not group.members:
            value = group.value({}, self._world.clock.now_ms())
            self._append(shard, (group.group_id, value), lambda _: None)  # as Kafka: best effort
            return
        for each in tuple(group.members.values()):
            if each.joining:
                each.must_sync = True
                self.tell_generation(shard, group, each)
        due = SyncDue(shard, group, group.generation_id)
        self._after(group.rebalance_timeout_ms, due)

    # --- members ----------------------------------------------------------------------------------

    def remove(self, group: Group, member: Member, reason: str) -> None:
        """It is no member any longer; if it waits, it is told."""
        group.remove(member)
        if member.timer is not None:
            member.timer.cancel()
        self.refuse(member, UnknownMemberId(f"It {reason}."))
        instance = member.group_instance_id or ""
        self._world.trace(
            GroupMemberLeft(
                group.group_id,
                group.generation_id,
                member.member_id,
                instance,
                reason[:MOST_LETTERS],
            )
        )

    def refuse(self, member: Member, error: ApiError) -> None:
        """Answer what a member waits for."""
        for waiting in (member.joining, member.syncing):
            if waiting is not None:
                waiting.answer(refusal(waiting.request, error))
        member.joining = member.syncing = None

    def refuse_syncs(self, group: Group, error: ApiError) -> None:
        """Nobody gets anything in this generation."""
        for each in group.members.values():
            each.assignment = b""
            if each.syncing is not None:
                each.syncing.answer(refusal(each.syncing.request, error))
                each.syncing = None
                self.note_alive(each)  # it was we who kept it waiting

    def watch(self, shard: Shard, group: Group, member: Member) -> None:
        """Wait for as long as its session is, from now on; that may be another time than before."""
        self.note_alive(member)
        if member.timer is not None:
            member.timer.cancel()
        self.watch_on(shard, group, member)

    def watch_on(self, shard: Shard, group: Group, member: Member) -> None:
        """It was heard of since the timer was set."""
        time_ms = member.expires_at_ms - self._world.clock.elapsed_ms()
        member.timer = self._after(max(1, time_ms), MemberDue(shard, group, member))

    def note_alive(self, member: Member) -> None:
        """It was heard of."""
        session_ms = NEW_MEMBER_TIMEOUT_MS if member.is_new else member.session_timeout_ms
        member.expires_at_ms = self._world.clock.elapsed_ms() + session_ms

    # --- what they are told -----------------------------------------------------------------------

    def tell_generation(self, shard: Shard, group: Group, member: Member) -> None:
        """A member is in; its session begins."""
        asked, member.joining = member.joining, None
        assert asked is not None, "who did not ask to join is not told"
        member.is_new = False
        self.watch(shard, group, member)
        is_leader = member.member_id == group.leader
        asked.answer(self.joined(group, member, group.joined_members() if is_leader else ()))

    def joined(
        self, group: Group, member: Member, members: tuple[JoinedMember, ...], **others: Any
    ) -> Message:
        """What a member is told of its generation."""
        answer = {"leader": group.leader or ""} | others
        return JoinGroupResponse(
            generation_id=group.generation_id,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol,
            member_id=member.member_id,
            members=members,
            **answer,
        )

    def give(self, group: Group, assignments: Mapping[str, bytes]) -> None:
        """The generation is complete: everybody has what the leader gave."""
        for each in group.members.values():
            each.assignment = assignments.get(each.member_id, b"")
        self.change(group, STABLE, "the leader has assigned")
        for each in tuple(group.members.values()):
            asked, each.syncing = each.syncing, None
            if asked is not None:
                self.tell_assignment(group, each, asked)

    def tell_assignment(self, group: Group, member: Member, asked: Asked) -> None:
        """What it has been given."""
        self.note_alive(member)
        asked.answer(
            SyncGroupResponse(
                protocol_type=group.protocol_type,
                protocol_name=group.protocol,
                assignment=member.assignment,
            )
        )

    # --- states -----------------------------------------------------------------------------------

    def change(self, group: Group, state: GroupState, reason: str) -> None:
        """Be in another state, and say why."""
        former = group.state
        group.become(state, self._world.clock.now_ms())
        self._world.trace(
            GroupStateChanged(
                group.group_id,
                group.generation_id,
                former.value,
                state.value,
                len(group.members),
                reason[:MOST_LETTERS],
            )
        )

    def bury(self, shard: Shard, group: Group, reason: str) -> None:
        """It is coordinated here no longer; who waits is sent elsewhere."""
        for each in group.members.values():
            if each.timer is not None:
                each.timer.cancel()
            self.refuse(each, NotCoordinator("Another broker coordinates the group."))
        self.change(group, DEAD, reason)
        if shard.groups.get(group.group_id) is group:
            del shard.groups[group.group_id]
