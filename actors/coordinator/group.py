"""One group: its members, the generation they are in, and what they would agree on.

Rule: pure. Who asks and who is answered is group membership's business (joining.py, membership.py);
here is only what a group is, and what follows from that.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from actors.asked import Asked
from actors.coordinator.group_records import GroupValue, MemberValue
from actors.coordinator.group_states import EMPTY, STABLE, GroupState, is_legal
from runtime.ref import Timer
from wire.consumer_protocol import PROTOCOL_TYPE, decode_subscription
from wire.errors import ApiError, ErrorCode, exception_of
from wire.groups import JoinedMember, JoinGroup, JoinProtocol
from wire.ids import NO_TIMESTAMP_MS

UnknownMemberId: Final = exception_of(ErrorCode.UNKNOWN_MEMBER_ID)
FencedInstanceId: Final = exception_of(ErrorCode.FENCED_INSTANCE_ID)
IllegalGeneration: Final = exception_of(ErrorCode.ILLEGAL_GENERATION)


@dataclass(eq=False, kw_only=True)
class Member:
    """One member of a group, and whether it waits for an answer."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[JoinProtocol, ...]
    assignment: bytes = b""
    joining: Asked | None = None  # waits for the next generation to begin
    syncing: Asked | None = None  # waits for what the leader gives it
    is_new: bool = False  # it has never been told of a generation
    must_sync: bool = False  # it was told of this one, and has not asked what it is given
    expires_at_ms: float = 0.0  # unless it is heard of before
    timer: Timer | None = None

    @classmethod
    def of(cls, member_id: str, request: JoinGroup, source: str) -> "Member":
        """Somebody who wants in."""
        member = cls(
            member_id=member_id,
            group_instance_id=request.group_instance_id,
            client_id=request.client_id,
            client_host=request.client_host or source,
            rebalance_timeout_ms=0,
            session_timeout_ms=0,
            protocols=(),
        )
        member.renew(request)
        return member

    def renew(self, request: JoinGroup) -> None:
        """It asks to join again, perhaps with other wishes."""
        self.protocols = request.protocols
        self.session_timeout_ms = request.session_timeout_ms
        is_given = request.rebalance_timeout_ms >= 0
        self.rebalance_timeout_ms = (
            request.rebalance_timeout_ms if is_given else request.session_timeout_ms
        )

    def metadata(self, protocol: str | None) -> bytes:
        """What the leader has to know of it."""
        return next((each.metadata for each in self.protocols if each.name == protocol), b"")


class Group:
    """A group that somebody has joined, or tried to."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.state: GroupState = EMPTY
        self.generation_id = 0
        self.protocol_type = ""  # of the first member, for as long as there are members
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}  # in the order of their joining
        self.pending: dict[str, None] = {}  # ids given out, that have not come back with a join
        self.state_timestamp_ms = NO_TIMESTAMP_MS
        self.is_storing = False  # this generation's assignment is on its way to the log
        self.turn = 0  # of waiting for members: a timer of an earlier one means nothing
        self.delay_left_ms: float | None = None  # how long a group that starts may still wait
        self.has_grown = False  # while it waits
        self._instances: dict[str, str] = {}  # static members' ids

    @classmethod
    def loaded(cls, group_id: str, value: GroupValue) -> "Group":
        """As another coordinator left it."""
        group = cls(group_id)
        group.generation_id = value.generation_id
        group.state_timestamp_ms = value.state_timestamp_ms
        for each in value.members:
            group.add(
                Member(
                    member_id=each.member_id,
                    group_instance_id=each.group_instance_id,
                    client_id=each.client_id,
                    client_host=each.client_host,
                    rebalance_timeout_ms=each.rebalance_timeout_ms,
                    session_timeout_ms=each.session_timeout_ms,
                    protocols=(JoinProtocol(value.protocol or "", each.subscription),),
                    assignment=each.assignment,
                ),
                value.protocol_type,
            )
        group.protocol_type = value.protocol_type
        if value.members:
            group.state = STABLE
            group.protocol = value.protocol
            if value.leader in group.members:
                group.leader = value.leader
        return group

    def become(self, state: GroupState, now_ms: int) -> None:
        """Be in another state."""
        assert is_legal(self.state, state), f"{self.group_id} is {self.state}, not to be {state}"
        self.state, self.state_timestamp_ms = state, now_ms

    # --- who is in it -----------------------------------------------------------------------------

    def add(self, member: Member, protocol_type: str) -> None:
        """One more."""
        if not self.members:
            self.protocol_type = protocol_type
        self.pending.pop(member.member_id, None)
        self.members[member.member_id] = member
        if member.group_instance_id is not None:
            self._instances[member.group_instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id

    def remove(self, member: Member) -> None:
        """One less; another one leads, if it led."""
        del self.members[member.member_id]
        instance = member.group_instance_id
        if instance is not None and self._instances.get(instance) == member.member_id:
            del self._instances[instance]
        if self.leader == member.member_id:
            self.leader = next(iter(self.members), None)

    def rename(self, member: Member, member_id: str) -> None:
        """A static member has come back, or was said to have: its id is another, its place not."""
        assert member.group_instance_id is not None, "only static members are replaced"
        former, member.member_id = member.member_id, member_id
        self.members = {each.member_id: each for each in self.members.values()}
        self._instances[member.group_instance_id] = member_id
        if self.leader == former:
            self.leader = member_id

    def static(self, instance: str | None) -> Member | None:
        """The static member of a name."""
        member_id = None if instance is None else self._instances.get(instance)
        return None if member_id is None else self.members[member_id]

    def member(self, member_id: str, instance: str | None) -> Member:
        """Who speaks; raises what is wrong with that."""
        if instance is not None:
            static = self.static(instance)
            if static is None:
                raise UnknownMemberId(f"There is no static member {instance!r:.80}.")
            if static.member_id != member_id:
                raise FencedInstanceId(f"Another one is {instance!r:.80} by now.")
        if member_id not in self.members:
            raise UnknownMemberId(f"{member_id!r:.80} is no member.")
        return self.members[member_id]

    def check_generation(self, generation_id: int) -> None:
        """Raises an error if it is another one."""
        if generation_id != self.generation_id:
            raise IllegalGeneration(f"It is generation {self.generation_id}, not {generation_id}.")

    @property
    def is_blank(self) -> bool:
        """Whether there is nothing to remember: it had no generation."""
        return self.state is EMPTY and not self.generation_id

    # --- the next generation ----------------------------------------------------------------------

    @property
    def have_all_joined(self) -> bool:
        """Whether there is nobody to wait for."""
        return not self.pending and all(each.joining for each in self.members.values())

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long members may take to join, or to sync: as long as the slowest."""
        return max((each.rebalance_timeout_ms for each in self.members.values()), default=0)

    def supports(self, protocol_type: str, protocols: Iterable[JoinProtocol]) -> bool:
        """Whether somebody with these could agree with all members on one."""
        names = {each.name for each in protocols}
        if not protocol_type or not names:
            return False
        if not self.members:
            return True
        return protocol_type == self.protocol_type and not names.isdisjoint(self._candidates())

    def chosen_protocol(self) -> str:
        """The one that most members like best, of those that all know.

        Where Kafka leaves a tie to chance, the member who joined first decides.
        """
        candidates = self._candidates()
        votes = Counter[str]()
        for each in self.members.values():
            votes[next(one.name for one in each.protocols if one.name in candidates)] += 1
        first = next(iter(self.members.values()))
        liked = [each.name for each in first.protocols if each.name in candidates]
        return max(liked, key=lambda name: votes[name])

    def begin_generation(self) -> None:
        """All who are members are in it."""
        self.generation_id = self.generation_id % (2**31 - 1) + 1
        self.is_storing = False
        self.protocol = self.chosen_protocol() if self.members else None
        for each in self.members.values():
            each.must_sync = False

    def elect_joined_leader(self) -> bool:
        """Let one who has joined lead; whether there is one."""
        leader = self.members.get(self.leader or "")
        if leader is not None and leader.joining is not None:
            return True
        joined = next((each for each in self.members.values() if each.joining), None)
        if joined is not None:
            self.leader = joined.member_id
        return joined is not None

    def joined_members(self) -> tuple[JoinedMember, ...]:
        """What the leader is told."""
        return tuple(
            JoinedMember(
                member_id=each.member_id,
                group_instance_id=each.group_instance_id,
                metadata=each.metadata(self.protocol),
            )
            for each in self.members.values()
        )

    # --- what follows -----------------------------------------------------------------------------

    def subscribed_topics(self) -> frozenset[str] | None:
        """What consumers in it read; None if nobody can tell."""
        if self.protocol_type != PROTOCOL_TYPE or self.protocol is None:
            return None
        topics: set[str] = set()
        for each in self.members.values():
            try:
                topics.update(decode_subscription(each.metadata(self.protocol)).topics)
            except ApiError:
                return None  # a program's own, as Kafka Connect has
        return frozenset(topics)

    def value(self, assignments: Mapping[str, bytes], now_ms: int) -> GroupValue:
        """What is remembered of this generation."""
        return GroupValue(
            protocol_type=self.protocol_type,
            generation_id=self.generation_id,
            protocol=self.protocol,
            leader=self.leader,
            state_timestamp_ms=now_ms,
            members=tuple(
                MemberValue(
                    member_id=each.member_id,
                    group_instance_id=each.group_instance_id,
                    client_id=each.client_id,
                    client_host=each.client_host,
                    rebalance_timeout_ms=each.rebalance_timeout_ms,
                    session_timeout_ms=each.session_timeout_ms,
                    subscription=each.metadata(self.protocol),
                    assignment=assignments.get(each.member_id, b""),
                )
                for each in self.members.values()
            ),
        )

    def _candidates(self) -> set[str]:
        """What all members know."""
        known = [{one.name for one in each.protocols} for each in self.members.values()]
        return set.intersection(*known) if known else set()
