"""The members of the groups of one coordinator: they join, sync, live, leave, and expire.

Rule: as GroupCoordinator. Whoever is not of the generation is told so, and nothing else happens. An
assignment is in the log, as safely as a commit, before a member is told of it; and a generation has
one assignment: while it is on its way to the log, no other is taken.
"""

from collections.abc import Mapping
from functools import partial

from actors.asked import Asked
from actors.config import BrokerConfig
from actors.coordinator.events import GroupTimer, JoinDue, MemberDue, PendingDue, SyncDue
from actors.coordinator.group import Group, Member, UnknownMemberId
from actors.coordinator.group_records import GroupValue
from actors.coordinator.group_states import COMPLETING, DEAD, EMPTY, PREPARING, STABLE
from actors.coordinator.joining import InconsistentGroupProtocol, Joining
from actors.coordinator.rebalancing import (
    After,
    AppendGroup,
    RebalanceInProgress,
    Rebalancing,
)
from actors.coordinator.requests import check_group
from actors.coordinator.shards import Shard, Shards
from runtime.world import World
from wire.errors import ApiError, CoordinatorLoadInProgress, ErrorCode, exception_of
from wire.groups import (
    Heartbeat,
    HeartbeatResponse,
    JoinGroup,
    LeaveGroup,
    LeaveGroupResponse,
    LeavingMember,
    LeftMember,
    OffsetCommit,
    SyncGroup,
)

MembershipRequest = JoinGroup | SyncGroup | Heartbeat | LeaveGroup


class Membership:
    """Who is in which group."""

    def __init__(
        self,
        world: World,
        config: BrokerConfig,
        shards: Shards,
        after: After,
        append: AppendGroup,
    ) -> None:
        self._world = world
        self._shards = shards
        self._append = append
        self._rebalancing = Rebalancing(world, config, after, append)
        self._joining = Joining(world, config, after, append, self._rebalancing)

    def take(self, asked: Asked, request: MembershipRequest) -> None:
        """Answer, now or later; or raise, and then nothing has happened."""
        check_group(request.group_id)
        match request:
            case JoinGroup():
                self._joining.join(self._shards.of(request.group_id), asked, request)
            case SyncGroup():
                self._sync(asked, request)
            case Heartbeat():
                self._heartbeat(asked, request)
            case LeaveGroup():
                self._leave(asked, request)

    def on_timer(self, timer: GroupTimer) -> None:
        """A wait is over; of a group that is here no longer it means nothing."""
        if timer.group.state is DEAD:
            return
        match timer:
            case MemberDue():
                self._on_member_due(timer)
            case PendingDue():
                self._joining.on_pending_due(timer)
            case JoinDue():
                self._rebalancing.on_join_due(timer)
            case SyncDue():
                self._rebalancing.on_sync_due(timer)

    # --- coming and going of the log --------------------------------------------------------------

    def load(self, shard: Shard, values: Mapping[str, GroupValue]) -> None:
        """These stand in the log; their members keep their generation, and sessions begin anew."""
        for group_id, value in sorted(values.items()):
            group = shard.groups[group_id] = Group.loaded(group_id, value)
            for each in group.members.values():
                self._rebalancing.watch(shard, group, each)

    def unload(self, shard: Shard) -> None:
        """Somebody else coordinates these."""
        for group in tuple(shard.groups.values()):
            self._rebalancing.bury(shard, group, "coordinated here no longer")

    def bury(self, shard: Shard, group: Group, reason: str) -> None:
        """Its tombstone is in the log."""
        self._rebalancing.bury(shard, group, reason)

    # --- within a generation ----------------------------------------------------------------------

    def check_commit(self, shard: Shard, request: OffsetCommit) -> None:
        """Whether this member may commit in this generation, as doCommitOffsets."""
        group = shard.groups.get(request.group_id)
        if group is None:
            if request.generation_id >= 0:
                # As Kafka: one error for a group that it does not know, one that only has offsets.
                knows = shard.offsets.knows(request.group_id)
                code = ErrorCode.UNKNOWN_MEMBER_ID if knows else ErrorCode.ILLEGAL_GENERATION
                raise exception_of(code)(f"There is no generation {request.generation_id}.")
            return
        if request.generation_id < 0 and group.state is EMPTY:
            return  # somebody who assigns its partitions itself, or who resets offsets
        member = group.member(request.member_id, request.group_instance_id)
        group.check_generation(request.generation_id)
        if group.state is EMPTY:
            raise UnknownMemberId("The group is empty.")
        self._rebalancing.note_alive(member)
        if group.state is COMPLETING:
            raise RebalanceInProgress("A generation begins; its members must sync first.")

    def _of(self, request: SyncGroup | Heartbeat) -> tuple[Shard, Group, Member]:
        shard = self._shards.of(request.group_id)
        group = shard.groups.get(request.group_id)
        if group is None or group.state is EMPTY:
            raise UnknownMemberId("The group has no members.")
        member = group.member(request.member_id, request.group_instance_id)
        group.check_generation(request.generation_id)
        return shard, group, member

    def _heartbeat(self, asked: Asked, request: Heartbeat) -> None:
        try:
            _, group, member = self._of(request)
        except CoordinatorLoadInProgress:
            asked.answer(HeartbeatResponse())  # as Kafka: sessions begin anew after that
            return
        self._rebalancing.note_alive(member)
        if group.state is PREPARING:
            raise RebalanceInProgress("The members join again.")
        asked.answer(HeartbeatResponse())

    def _sync(self, asked: Asked, request: SyncGroup) -> None:
        try:
            shard, group, member = self._of(request)
        except CoordinatorLoadInProgress as error:
            # As Kafka: what the leader assigned is not known here. The member joins again.
            raise RebalanceInProgress(str(error)) from error
        for asked_for, known in (
            (request.protocol_type, group.protocol_type),
            (request.protocol_name, group.protocol),
        ):
            if asked_for is not None and asked_for != known:
                raise InconsistentGroupProtocol(f"It is {known}, not {asked_for!r:.80}.")
        if group.state is PREPARING:
            raise RebalanceInProgress("The members join again.")
        self._rebalancing.note_alive(member)
        member.must_sync = False
        if group.state is STABLE:
            self._rebalancing.tell_assignment(group, member, asked)
            return
        self._rebalancing.refuse(member, RebalanceInProgress("It asked once more."))
        member.syncing = asked
        if member.member_id == group.leader and not group.is_storing:
            self._store(shard, group, request)

    def _store(self, shard: Shard, group: Group, request: SyncGroup) -> None:
        given = {each.member_id: each.assignment for each in request.assignments}
        assignments = {each: given.get(each, b"") for each in group.members}
        group.is_storing = True
        value = group.value(assignments, self._world.clock.now_ms())
        done = partial(self._on_stored, shard, group, group.generation_id, assignments)
        self._append(shard, (group.group_id, value), done)

    def _on_stored(
        self,
        shard: Shard,
        group: Group,
        generation_id: int,
        assignments: Mapping[str, bytes],
        code: ErrorCode,
    ) -> None:
        if group.state is not COMPLETING or group.generation_id != generation_id:
            return  # another rebalance has begun: they were told
        group.is_storing = False
        if code is ErrorCode.NONE:
            self._rebalancing.give(group, assignments)
        else:
            self._rebalancing.refuse_syncs(group, exception_of(code)("It was not written."))
            self._rebalancing.begin(shard, group, f"its assignment was not written: {code.name}")

    # --- going ------------------------------------------------------------------------------------

    def _leave(self, asked: Asked, request: LeaveGroup) -> None:
        shard = self._shards.of(request.group_id)
        group = shard.groups.get(request.group_id)
        left = []
        for each in request.members:
            try:
                if group is None:
                    raise UnknownMemberId("There is no such group.")
                self._let_go(group, each)
                code = ErrorCode.NONE
            except ApiError as error:
                code = error.code
            left.append(
                LeftMember(
                    member_id=each.member_id,
                    group_instance_id=each.group_instance_id,
                    error_code=code,
                )
            )
        asked.answer(LeaveGroupResponse(members=tuple(left)))
        if group is not None and any(each.error_code is ErrorCode.NONE for each in left):
            reasons = sorted({each.reason for each in request.members if each.reason})
            self._after_removal(shard, group, "; ".join(["members left", *reasons]))

    def _let_go(self, group: Group, leaving: LeavingMember) -> None:
        if leaving.group_instance_id is None and leaving.member_id in group.pending:
            del group.pending[leaving.member_id]
            return
        static = group.static(leaving.group_instance_id)
        is_by_name = static is not None and not leaving.member_id  # by somebody who looks after it
        member = static if is_by_name else None
        if member is None:
            member = group.member(leaving.member_id, leaving.group_instance_id)
        self._rebalancing.remove(group, member, f"left: {leaving.reason or 'no reason given'}")

    def _on_member_due(self, due: MemberDue) -> None:
        shard, group, member = due.shard, due.group, due.member
        if group.members.get(member.member_id) is not member:
            return
        waits = member.joining is not None or member.syncing is not None
        is_over = member.expires_at_ms <= self._world.clock.elapsed_ms()
        if waits and not member.is_new:
            self._rebalancing.watch(shard, group, member)  # it is we who keep it waiting
        elif is_over:
            self._rebalancing.remove(group, member, "was not heard of for its session time-out")
            self._after_removal(shard, group, f"{member.member_id} was not heard of")
        else:
            self._rebalancing.watch_on(shard, group, member)

    def _after_removal(self, shard: Shard, group: Group, reason: str) -> None:
        if group.state is PREPARING:
            self._rebalancing.try_complete(shard, group)
        elif group.state is not EMPTY:
            self._rebalancing.begin(shard, group, reason)
        self._joining.drop_if_unused(shard, group)
