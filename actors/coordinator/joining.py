"""Who comes into a group, and how.

Rule: as GroupCoordinator.handleJoinGroup. A member without an id gets one and comes again with it
(KIP-394), unless its client is too old for that. A static member (KIP-345) that comes again takes
its own place, with another id; if it wants what it wanted, nobody else notices.
"""

from functools import partial
from typing import Final

from actors.asked import Asked, refusal
from actors.config import BrokerConfig
from actors.coordinator.events import PendingDue
from actors.coordinator.group import FencedInstanceId, Group, Member, UnknownMemberId
from actors.coordinator.group_states import COMPLETING, EMPTY, PREPARING, STABLE
from actors.coordinator.rebalancing import (
    MOST_LETTERS,
    After,
    AppendGroup,
    RebalanceInProgress,
    Rebalancing,
)
from actors.coordinator.shards import Shard
from runtime.world import World
from wire.errors import ErrorCode, InvalidRequest, exception_of
from wire.fields import fits
from wire.groups import JoinGroup, JoinGroupResponse
from wire.trace import GroupMemberJoined

MOST_PENDING: Final = 10_000  # ids of a group that were given out and have not come back

InvalidSessionTimeout: Final = exception_of(ErrorCode.INVALID_SESSION_TIMEOUT)
InconsistentGroupProtocol: Final = exception_of(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
GroupMaxSizeReached: Final = exception_of(ErrorCode.GROUP_MAX_SIZE_REACHED)


class Joining:
    """The door of all groups."""

    def __init__(
        self,
        world: World,
        config: BrokerConfig,
        after: After,
        append: AppendGroup,
        rebalancing: Rebalancing,
    ) -> None:
        self._world = world
        self._config = config
        self._after = after
        self._append = append
        self._rebalancing = rebalancing

    def join(self, shard: Shard, asked: Asked, request: JoinGroup) -> None:
        """Answered when the next generation begins; raises why not."""
        self._check(request)
        group = shard.groups.get(request.group_id)
        if group is None:
            if request.member_id:
                raise UnknownMemberId("There is no such group.")
            group = shard.groups[request.group_id] = Group(request.group_id)
        try:
            self._check_size(group, request)
            if not group.supports(request.protocol_type, request.protocols):
                raise InconsistentGroupProtocol("It has no protocol in common with all members.")
            if not request.member_id:
                self._join_unknown(shard, group, asked, request)
            elif request.member_id in group.pending:
                self._join_pending(shard, group, asked, request)
            else:
                self._join_again(shard, group, asked, request)
            self._rebalancing.try_complete(shard, group)
        finally:
            self.drop_if_unused(shard, group)

    def on_pending_due(self, due: PendingDue) -> None:
        """An id that was given out was not used for as long as a session is."""
        if due.member_id in due.group.pending:
            del due.group.pending[due.member_id]
            self._rebalancing.try_complete(due.shard, due.group)
            self.drop_if_unused(due.shard, due.group)

    def drop_if_unused(self, shard: Shard, group: Group) -> None:
        """A group that never had a member has left nothing to remember."""
        if not group.members and not group.pending and group.is_blank:
            shard.groups.pop(group.group_id, None)

    # --- what is asked for ------------------------------------------------------------------------

    def _check(self, request: JoinGroup) -> None:
        least = self._config.group_min_session_timeout_ms
        most = self._config.group_max_session_timeout_ms
        if not least <= request.session_timeout_ms <= most:
            raise InvalidSessionTimeout(
                f"session.timeout.ms is {request.session_timeout_ms}; "
                f"it must be from {least} to {most}"
            )
        names = (
            request.member_id,
            request.group_instance_id or "",
            request.client_id + 37 * "-",  # a member's id is made of it
            request.client_host,
            request.protocol_type,
            *(each.name for each in request.protocols),
        )
        if not all(map(fits, names)):
            raise InvalidRequest("A name is too long to be remembered.")

    def _check_size(self, group: Group, request: JoinGroup) -> None:
        """As GroupCoordinator.acceptJoiningMember; ids that were given out are limited too."""
        most, member = self._config.group_max_size, group.members.get(request.member_id)
        if not request.member_id and len(group.pending) >= MOST_PENDING:
            raise GroupMaxSizeReached(f"{MOST_PENDING} members are expected already.")
        if group.state is PREPARING:
            joining = sum(1 for each in group.members.values() if each.joining)
            has_room = joining < most or (member is not None and member.joining is not None)
        else:
            has_room = member is not None or len(group.members) < most
        if not has_room:
            if member is not None:
                self._rebalancing.remove(group, member, "found no room")
            raise GroupMaxSizeReached(f"group.max.size is {most}.")

    # --- the ways in ------------------------------------------------------------------------------

    def _join_unknown(self, shard: Shard, group: Group, asked: Asked, request: JoinGroup) -> None:
        member_id = self._new_id(request)
        if request.group_instance_id is not None:
            former = group.static(request.group_instance_id)
            if former is None:
                self._add(shard, group, asked, request, member_id)
            else:
                self._replace(shard, group, former, asked, request, member_id)
        elif request.requires_known_member_id:
            group.pending[member_id] = None
            due = PendingDue(shard, group, member_id)
            self._after(request.session_timeout_ms, due)
            code = ErrorCode.MEMBER_ID_REQUIRED
            asked.answer(JoinGroupResponse(error_code=code, member_id=member_id))
        else:
            self._add(shard, group, asked, request, member_id)

    def _join_pending(self, shard: Shard, group: Group, asked: Asked, request: JoinGroup) -> None:
        if request.group_instance_id is not None:
            raise UnknownMemberId("The id was given out to a member that is not static.")
        self._add(shard, group, asked, request, request.member_id)

    def _join_again(self, shard: Shard, group: Group, asked: Asked, request: JoinGroup) -> None:
        member = group.member(request.member_id, request.group_instance_id)
        is_changed = member.protocols != request.protocols
        is_leader = group.leader == member.member_id
        if group.state is EMPTY:
            raise UnknownMemberId("The group is empty.")
        self._await_joined(member, asked, request)
        if group.state is COMPLETING and not is_changed:
            self._rebalancing.tell_generation(shard, group, member)  # its answer was lost
        elif group.state is STABLE and not is_changed and not is_leader:
            self._rebalancing.tell_generation(shard, group, member)
        else:
            self._rebalancing.watch(shard, group, member)
            why = request.reason or ("the leader joins again" if is_leader else "it wants others")
            self._rebalancing.begin(shard, group, f"{member.member_id}: {why}")

    def _add(
        self, shard: Shard, group: Group, asked: Asked, request: JoinGroup, member_id: str
    ) -> None:
        member = Member.of(member_id, request, asked.source)
        member.joining, member.is_new = asked, True
        group.add(member, request.protocol_type)
        group.has_grown = True
        self._rebalancing.watch(shard, group, member)
        self._trace_joined(group, member, request)
        self._rebalancing.begin(shard, group, f"{member_id} joins")

    def _await_joined(self, member: Member, asked: Asked, request: JoinGroup) -> None:
        """What it asked before is answered too: nobody waits for that any longer."""
        self._rebalancing.refuse(member, RebalanceInProgress("It asked to join once more."))
        member.renew(request)
        member.joining = asked

    # --- static members ---------------------------------------------------------------------------

    def _replace(
        self,
        shard: Shard,
        group: Group,
        member: Member,
        asked: Asked,
        request: JoinGroup,
        member_id: str,
    ) -> None:
        """As updateStaticMemberAndRebalance; but other wishes always are a reason to rebalance."""
        former_id, former_leader = member.member_id, group.leader
        former_wish = member.metadata(group.protocol)
        self._rebalancing.refuse(member, FencedInstanceId("It has come back elsewhere."))
        group.rename(member, member_id)
        member.renew(request)
        self._rebalancing.watch(shard, group, member)
        self._trace_joined(group, member, request)
        wish = member.metadata(group.protocol)
        is_same = wish == former_wish and group.chosen_protocol() == group.protocol
        if group.state is STABLE and is_same:
            kept = {each.member_id: each.assignment for each in group.members.values()}
            value = group.value(kept, self._world.clock.now_ms())
            done = partial(self._on_replaced, group, member, asked, former_id, former_leader)
            self._append(shard, (group.group_id, value), done)
            return
        member.joining = asked
        self._rebalancing.begin(shard, group, f"static member {member.group_instance_id} is back")

    def _on_replaced(
        self,
        group: Group,
        member: Member,
        asked: Asked,
        former_id: str,
        former_leader: str | None,
        code: ErrorCode,
    ) -> None:
        request = asked.request
        assert isinstance(request, JoinGroup)
        is_member = group.members.get(member.member_id) is member
        if code is not ErrorCode.NONE:
            if is_member:
                group.rename(member, former_id)
            asked.answer(refusal(request, exception_of(code)("It could not be remembered.")))
            return
        if not is_member:
            asked.answer(refusal(request, UnknownMemberId("It has been removed meanwhile.")))
            return
        # The generation goes on. An old client that led must not be told that it leads still, or
        # it would assign anew; a newer one is told not to.
        is_leader = group.leader == member.member_id
        if is_leader and request.supports_skipping_assignment:
            members = group.joined_members()
            asked.answer(self._rebalancing.joined(group, member, members, skip_assignment=True))
        else:
            leader = former_leader if is_leader else group.leader
            asked.answer(self._rebalancing.joined(group, member, (), leader=leader or ""))

    # ----------------------------------------------------------------------------------------------

    def _new_id(self, request: JoinGroup) -> str:
        """As Kafka: the instance or the client, and a UUID; by the world's own dice."""
        number = f"{self._world.random.getrandbits(128):032x}"
        parts = (number[:8], number[8:12], number[12:16], number[16:20], number[20:])
        return "-".join((request.group_instance_id or request.client_id or "consumer", *parts))

    def _trace_joined(self, group: Group, member: Member, request: JoinGroup) -> None:
        self._world.trace(
            GroupMemberJoined(
                group.group_id,
                group.generation_id,
                member.member_id,
                member.group_instance_id or "",
                member.client_id,
                (request.reason or "")[:MOST_LETTERS],
            )
        )
