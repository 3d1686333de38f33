"""Members of a group, as their coordinator hears them: an Office, and who joins there."""

from tests.actors.coordinator.office import GROUP, Office
from wire.errors import ErrorCode
from wire.groups import (
    Heartbeat,
    JoinGroup,
    JoinProtocol,
    LeaveGroup,
    LeavingMember,
    MemberAssignment,
    SyncGroup,
)

SESSION_MS = 10_000
REBALANCE_MS = 60_000
RANGE = JoinProtocol("range", b"orders")
STICKY = JoinProtocol("sticky", b"orders too")


class Hall(Office):
    """Joins and syncs as clients do."""

    @classmethod
    async def open(cls, sim, **config):
        hall = await super().open(sim, **config)
        hall.events = []
        sim.trace.listeners.append(lambda _, event: hall.events.append(event))
        await hall.make_topic()
        await hall.lead()
        return hall

    def send_join(self, member_id="", *, group=GROUP, **options):
        """Ask to join, and do not wait: a list for the answer."""
        given = {
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": REBALANCE_MS,
            "protocols": (RANGE,),
            "client_id": "client",
        }
        return self.send(JoinGroup(group_id=group, member_id=member_id, **given | options))

    async def join(self, member_id="", **options):
        """The answer, if it comes at once."""
        answers = self.send_join(member_id, **options)
        await self.rest()
        (answer,) = answers
        return answer

    async def id_of_a_new_member(self, **options):
        answer = await self.join(**options)
        assert answer.error_code is ErrorCode.MEMBER_ID_REQUIRED
        return answer.member_id

    async def enter(self, **options):
        """A member joins a group that it may be alone in, or waits for the others."""
        member = await self.id_of_a_new_member(**options)
        return member, self.send_join(member, **options)

    def send_sync(self, member_id, generation, assignments=None, **options):
        given = tuple(MemberAssignment(*each) for each in (assignments or {}).items())
        return self.send(
            SyncGroup(
                group_id=GROUP,
                generation_id=generation,
                member_id=member_id,
                assignments=given,
                **options,
            )
        )

    async def sync(self, member_id, generation, assignments=None, **options):
        answers = self.send_sync(member_id, generation, assignments, **options)
        await self.rest()
        (answer,) = answers
        return answer

    async def beat(self, member_id, generation, **options):
        request = Heartbeat(
            group_id=GROUP, generation_id=generation, member_id=member_id, **options
        )
        return (await self.ask(request)).error_code

    async def leave(self, *members):
        """The errors, a member each; ids, or instances in a pair with an id."""
        parts = [each if isinstance(each, tuple) else (each, None) for each in members]
        leaving = tuple(LeavingMember(member_id=one, group_instance_id=two) for one, two in parts)
        response = await self.ask(LeaveGroup(group_id=GROUP, members=leaving))
        assert response.error_code is ErrorCode.NONE
        return [each.error_code for each in response.members]

    async def two_members(self, **options):
        """A stable group of two in its second generation: their ids, the leader first."""
        first, entered = await self.enter(**options)
        await self.rest()
        assert entered[0].generation_id == 1
        second, joined = await self.enter(**options)
        await self.rest()
        again = await self.join(first, **options)
        assert [each.generation_id for each in (again, *joined)] == [2, 2]
        await self.sync(first, 2, {first: b"one", second: b"two"})
        assert (await self.sync(second, 2)).assignment == b"two"
        return first, second
