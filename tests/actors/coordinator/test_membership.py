"""Members of a group: they join, sync, live and leave, and nobody is told what is not so."""

import pytest

from actors.coordinator.group_records import GroupValue, decode_group_change
from actors.coordinator.joining import MOST_PENDING
from actors.coordinator.records import decode_data
from tests.actors.coordinator.hall import RANGE, REBALANCE_MS, SESSION_MS, STICKY, Hall
from tests.actors.coordinator.office import GROUP, NONE, ORDERS, SHARD, a_commit
from wire.errors import ErrorCode
from wire.groups import DescribeGroups, JoinProtocol, ListGroups
from wire.trace import GroupMemberLeft, GroupStateChanged

UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID
FENCED = ErrorCode.FENCED_INSTANCE_ID
REBALANCING = ErrorCode.REBALANCE_IN_PROGRESS
ILLEGAL = ErrorCode.ILLEGAL_GENERATION


@pytest.fixture
async def hall(sim):
    return await Hall.open(sim)


async def state(hall):
    (group,) = (await hall.ask(DescribeGroups(groups=(GROUP,)))).groups
    return group.state


def stored(hall):
    """What the log says of groups, in order."""
    records = decode_data(b"".join(hall.replicas.log().batches), 0)
    return [change for each in records if (change := decode_group_change(each))]


def events(hall, kind):
    return [each for each in hall.events if isinstance(each, kind)]


# --- joining --------------------------------------------------------------------------------------


async def test_a_new_member_gets_an_id_and_comes_again_with_it(hall):
    first = await hall.join()
    assert first.error_code is ErrorCode.MEMBER_ID_REQUIRED
    assert first.member_id.startswith("client-")

    joined = await hall.join(first.member_id)

    assert (joined.error_code, joined.generation_id) == (NONE, 1)
    assert (joined.leader, joined.member_id) == (first.member_id, first.member_id)
    assert (joined.protocol_type, joined.protocol_name) == ("consumer", "range")
    assert [(each.member_id, each.metadata) for each in joined.members] == [
        (first.member_id, b"orders")
    ]


async def test_a_client_too_old_for_that_is_let_in_at_once(hall):
    joined = await hall.join(requires_known_member_id=False)

    assert (joined.error_code, joined.generation_id) == (NONE, 1)


async def test_a_second_member_makes_the_first_join_again_and_only_the_leader_hears_of_all(hall):
    first, _ = await hall.enter()
    await hall.rest()
    await hall.sync(first, 1, {first: b"all"})
    second, waiting = await hall.enter()
    await hall.rest()
    assert waiting == []
    assert await state(hall) == "PreparingRebalance"
    assert await hall.beat(first, 1) is REBALANCING

    again = await hall.join(first)

    assert [each.generation_id for each in (again, *waiting)] == [2, 2]
    assert {each.member_id for each in again.members} == {first, second}
    assert waiting[0].members == ()
    assert waiting[0].leader == first


async def test_who_syncs_waits_for_the_leader_and_gets_its_part(hall):
    first, _ = await hall.enter()
    await hall.rest()
    second, _ = await hall.enter()
    await hall.rest()
    await hall.join(first)
    waiting = hall.send_sync(second, 2)
    await hall.rest()
    assert waiting == []
    assert await state(hall) == "CompletingRebalance"

    leader = await hall.sync(first, 2, {first: b"one", second: b"two", "stranger": b"three"})

    assert (leader.assignment, waiting[0].assignment) == (b"one", b"two")
    assert (leader.protocol_type, leader.protocol_name) == ("consumer", "range")
    assert await state(hall) == "Stable"


async def test_whom_the_leader_forgets_gets_nothing(hall):
    first, second = await hall.two_members()
    assert (await hall.sync(first, 2)).assignment == b"one"

    hall.send_join(second, protocols=(STICKY, RANGE))
    await hall.rest()
    await hall.join(first)
    await hall.sync(first, 3, {first: b"all"})

    assert (await hall.sync(second, 3)).assignment == b""


async def test_the_protocol_that_most_like_best_is_chosen(hall):
    first, _ = await hall.enter(protocols=(RANGE, STICKY))
    await hall.rest()
    others = [await hall.enter(protocols=(STICKY, RANGE)) for _ in range(2)]
    await hall.rest()

    joined = await hall.join(first, protocols=(RANGE, STICKY))

    assert joined.protocol_name == "sticky"
    assert {each.metadata for each in joined.members} == {b"orders too"}
    assert [answers[0].protocol_name for _, answers in others] == ["sticky", "sticky"]


async def test_what_not_all_know_is_not_chosen(hall):
    first, _ = await hall.enter(protocols=(STICKY, RANGE))
    await hall.rest()
    await hall.enter()
    await hall.rest()

    assert (await hall.join(first, protocols=(STICKY, RANGE))).protocol_name == "range"


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"protocols": (STICKY,)}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"session_timeout_ms": 5_999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"member_id": "nobody"}, UNKNOWN),
        ({"group": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"client_id": "x" * 32_767}, ErrorCode.INVALID_REQUEST),
        ({"protocols": (JoinProtocol("x" * 40_000), RANGE)}, ErrorCode.INVALID_REQUEST),
    ],
    ids=str,
)
async def test_who_does_not_fit_in_is_refused(hall, options, code):
    await hall.two_members()

    assert (await hall.join(**options)).error_code is code
    assert await state(hall) == "Stable"


async def test_a_group_is_no_larger_than_it_may_be(sim):
    hall = await Hall.open(sim, group_max_size=2)
    first, second = await hall.two_members()

    assert (await hall.join()).error_code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert (await hall.beat(first, 2), await hall.beat(second, 2)) == (NONE, NONE)


async def test_ids_that_nobody_comes_back_with_are_limited_and_forgotten(sim, hall, monkeypatch):
    monkeypatch.setattr("actors.coordinator.joining.MOST_PENDING", 3)
    assert MOST_PENDING == 10_000
    for _ in range(3):
        await hall.id_of_a_new_member()
    assert (await hall.join()).error_code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert (await hall.ask(ListGroups())).groups != ()

    await sim.sleep(SESSION_MS)

    assert (await hall.ask(ListGroups())).groups == ()
    assert (await hall.join()).error_code is ErrorCode.MEMBER_ID_REQUIRED


async def test_a_group_that_nobody_got_into_is_not_remembered(hall):
    assert (await hall.join(protocols=())).error_code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL

    assert await state(hall) == "Dead"


async def test_a_join_whose_answer_was_lost_is_answered_again_without_a_rebalance(hall):
    first, second = await hall.two_members()

    again = await hall.join(second)

    assert (again.generation_id, again.members) == (2, ())
    assert await state(hall) == "Stable"
    assert await hall.beat(first, 2) is NONE


async def test_a_leader_that_joins_again_has_all_join_again(hall):
    first, second = await hall.two_members()
    hall.send_join(first, reason="new partitions")
    await hall.rest()

    assert await hall.beat(second, 2) is REBALANCING
    assert (await hall.join(second)).generation_id == 3
    assert any("new partitions" in each.reason for each in events(hall, GroupStateChanged))


async def test_a_join_asked_for_twice_is_answered_twice(hall):
    first, _ = await hall.two_members()
    once = hall.send_join(first)
    await hall.rest()
    twice = hall.send_join(first)
    await hall.rest()

    assert [each.error_code for each in once] == [REBALANCING]
    assert twice == []


async def test_a_group_that_starts_waits_for_others_if_it_is_told_to(sim):
    hall = await Hall.open(sim, group_initial_rebalance_delay_ms=3_000)
    _, one = await hall.enter()
    await sim.sleep(2_000)
    _, two = await hall.enter()
    await sim.sleep(2_000)
    assert (one, two) == ([], [])

    await sim.sleep(2_500)

    assert [each.generation_id for each in (*one, *two)] == [1, 1]
    assert sum(len(each.members) for each in (*one, *two)) == 2


# --- late and dead --------------------------------------------------------------------------------


async def test_who_is_not_heard_of_is_out_and_the_others_share_what_it_had(sim, hall):
    first, second = await hall.two_members()
    for _ in range(3):
        await sim.sleep(SESSION_MS / 2)
        code = await hall.beat(first, 2)

    assert code is REBALANCING
    assert await hall.beat(second, 2) is UNKNOWN
    joined = await hall.join(first)
    assert [each.member_id for each in joined.members] == [first]
    assert [each.member for each in events(hall, GroupMemberLeft)] == [second]


async def test_who_does_not_join_again_in_time_is_out(sim, hall):
    first, second = await hall.two_members()
    waiting = hall.send_join(first)
    for _ in range(7):
        await sim.sleep(REBALANCE_MS / 7 + 1)
        await hall.beat(second, 2)

    assert [each.generation_id for each in waiting] == [3]
    assert [each.member_id for each in waiting[0].members] == [first]
    assert await hall.beat(second, 3) is UNKNOWN


async def test_a_leader_that_joins_and_does_not_assign_is_out(sim, hall):
    first, second = await hall.two_members()
    hall.send_join(first)
    await hall.rest()
    await hall.join(second)
    waiting = hall.send_sync(second, 3)
    for _ in range(7):
        await sim.sleep(REBALANCE_MS / 7 + 1)
        await hall.beat(first, 3)

    assert [each.error_code for each in waiting] == [REBALANCING]
    joined = await hall.join(second)
    assert (joined.leader, len(joined.members)) == (second, 1)


async def test_who_waits_for_others_is_not_out_however_long_it_takes(sim, hall):
    first, second = await hall.two_members()
    waiting = hall.send_join(first, session_timeout_ms=6_000)
    for _ in range(4):
        await sim.sleep(SESSION_MS - 1_000)
        await hall.beat(second, 2)
    await hall.join(second)

    assert [each.error_code for each in waiting] == [NONE]


async def test_the_last_to_leave_leaves_an_empty_group_behind(hall):
    first, second = await hall.two_members()

    assert await hall.leave(first, second) == [NONE, NONE]

    assert await state(hall) == "Empty"
    assert stored(hall)[-1] == (
        GROUP,
        GroupValue(
            protocol_type="consumer",
            generation_id=3,
            state_timestamp_ms=stored(hall)[-1][1].state_timestamp_ms,
        ),
    )


async def test_who_leaves_is_no_member_and_a_leader_has_an_heir(hall):
    first, second = await hall.two_members()

    assert await hall.leave(first, "nobody") == [NONE, UNKNOWN]

    assert await hall.beat(first, 2) is UNKNOWN
    assert await hall.beat(second, 2) is REBALANCING
    assert (await hall.join(second)).leader == second


async def test_an_id_that_was_given_out_can_be_given_back(hall):
    member = await hall.id_of_a_new_member()

    assert await hall.leave(member) == [NONE]
    assert (await hall.join(member)).error_code is UNKNOWN


# --- generations ----------------------------------------------------------------------------------


async def test_who_speaks_of_another_generation_or_is_nobody_is_told_so(hall):
    first, second = await hall.two_members()

    for generation in (1, 3, -1):
        assert await hall.beat(first, generation) is ILLEGAL
        assert (await hall.sync(first, generation)).error_code is ILLEGAL
    assert await hall.beat("nobody", 2) is UNKNOWN
    assert (await hall.sync("nobody", 2)).error_code is UNKNOWN
    assert await hall.beat(second, 2, group_instance_id="unheard of") is UNKNOWN


async def test_a_sync_with_another_protocol_than_was_chosen_is_refused(hall):
    first, _ = await hall.two_members()
    inconsistent = ErrorCode.INCONSISTENT_GROUP_PROTOCOL

    assert (await hall.sync(first, 2, protocol_type="connect")).error_code is inconsistent
    assert (await hall.sync(first, 2, protocol_name="sticky")).error_code is inconsistent
    assert (await hall.sync(first, 2, protocol_name="range")).error_code is NONE


async def test_commits_are_taken_from_members_of_the_generation_and_from_nobody_else(hall):
    first, _ = await hall.two_members()

    assert await hall.commit(1, generation_id=2, member_id=first) is NONE
    assert await hall.commit(2, generation_id=1, member_id=first) is ILLEGAL
    assert await hall.commit(3, generation_id=2, member_id="nobody") is UNKNOWN
    assert await hall.commit(4) is UNKNOWN
    assert await hall.committed() == 1


async def test_commits_are_taken_while_members_join_and_not_while_they_sync(hall):
    first, second = await hall.two_members()
    hall.send_join(first)
    await hall.rest()
    assert await hall.commit(1, generation_id=2, member_id=second) is NONE

    await hall.join(second)
    assert await hall.commit(2, generation_id=3, member_id=second) is REBALANCING
    assert await hall.committed() == 1


async def test_an_empty_group_takes_commits_of_who_assigns_by_itself(hall):
    first, second = await hall.two_members()
    await hall.leave(first, second)

    assert await hall.commit(1) is NONE
    assert await hall.commit(2, generation_id=3, member_id=first) is UNKNOWN
    assert await hall.committed() == 1


async def test_a_commit_that_waited_while_its_member_left_is_refused(hall):
    first, _ = await hall.two_members()
    hall.replicas.is_holding_looks = True
    late = hall.send(a_commit({ORDERS: 5}, generation_id=2, member_id=first))
    await hall.rest()
    assert await hall.leave(first) == [NONE]
    hall.replicas.release()
    await hall.rest()

    assert [each.error_code for each in late[0].partitions] == [UNKNOWN]
    assert await hall.committed() == -1


async def test_a_commit_is_a_sign_of_life(sim, hall):
    first, second = await hall.two_members()
    for _ in range(3):
        await sim.sleep(SESSION_MS - 1_000)
        await hall.commit(1, generation_id=2, member_id=first)
        await hall.beat(second, 2)

    assert await state(hall) == "Stable"


# --- static members -------------------------------------------------------------------------------


async def static_group(hall):
    """Two static members, the first leads."""
    first = await hall.join(group_instance_id="a")
    waiting = hall.send_join(group_instance_id="b")
    await hall.rest()
    await hall.join(first.member_id, group_instance_id="a")
    (second,) = waiting
    parts = {first.member_id: b"one", second.member_id: b"two"}
    await hall.sync(first.member_id, 2, parts, group_instance_id="a")
    await hall.sync(second.member_id, 2, group_instance_id="b")
    return first.member_id, second.member_id


async def test_a_static_member_that_comes_back_takes_its_place_and_nobody_else_notices(hall):
    first, second = await static_group(hall)

    back = await hall.join(group_instance_id="b")

    assert (back.error_code, back.generation_id) == (NONE, 2)
    assert back.member_id != second
    assert back.member_id.startswith("b-")
    synced = await hall.sync(back.member_id, 2, group_instance_id="b")
    assert synced.assignment == b"two"
    assert await hall.beat(first, 2, group_instance_id="a") is NONE
    assert await hall.beat(second, 2, group_instance_id="b") is FENCED
    assert await hall.commit(1, generation_id=2, member_id=second, group_instance_id="b") is FENCED
    _, value = stored(hall)[-1]
    assert {each.member_id for each in value.members} == {first, back.member_id}
    assert {each.assignment for each in value.members} == {b"one", b"two"}


async def test_a_static_leader_that_comes_back_is_told_not_to_assign(hall):
    first, second = await static_group(hall)

    back = await hall.join(group_instance_id="a")

    assert (back.skip_assignment, back.leader) == (True, back.member_id)
    assert {each.member_id for each in back.members} == {back.member_id, second}
    older = await hall.join(group_instance_id="a", supports_skipping_assignment=False)
    assert (older.skip_assignment, older.leader, older.members) == (False, back.member_id, ())
    assert first != older.member_id


async def test_a_static_member_that_comes_back_with_other_wishes_has_all_join_again(hall):
    first, _ = await static_group(hall)
    waiting = hall.send_join(group_instance_id="b", protocols=(JoinProtocol("range", b"bills"),))
    await hall.rest()

    assert waiting == []
    assert await hall.beat(first, 2, group_instance_id="a") is REBALANCING


async def test_a_static_member_keeps_its_place_until_its_session_ends(sim, hall):
    first, second = await static_group(hall)
    hall.send_join(first, group_instance_id="a", rebalance_timeout_ms=1_000)
    await hall.rest()
    assert await state(hall) == "PreparingRebalance"
    await sim.sleep(2 * SESSION_MS)

    assert await hall.beat(second, 2, group_instance_id="b") is UNKNOWN


async def test_who_waits_as_a_static_member_is_told_when_another_comes_in_its_place(hall):
    first, _ = await static_group(hall)
    waiting = hall.send_join(first, group_instance_id="a", reason="again")
    await hall.rest()
    hall.send_join(group_instance_id="a")
    await hall.rest()

    assert [each.error_code for each in waiting] == [FENCED]


async def test_a_static_member_can_be_removed_by_its_name(hall):
    _, second = await static_group(hall)

    assert await hall.leave((second, "a")) == [FENCED]
    assert await hall.leave(("", "b"), ("", "c")) == [NONE, UNKNOWN]
    assert await hall.beat(second, 2, group_instance_id="b") is UNKNOWN


async def test_a_static_member_that_could_not_be_written_down_stays_who_it_was(hall):
    _, second = await static_group(hall)
    hall.replicas.append_error = ErrorCode.NOT_ENOUGH_REPLICAS

    back = await hall.join(group_instance_id="b")

    assert back.error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert await hall.beat(second, 2, group_instance_id="b") is NONE


# --- the log --------------------------------------------------------------------------------------


async def test_nobody_is_told_of_an_assignment_before_it_is_in_the_log(hall):
    first, _ = await hall.enter()
    await hall.rest()
    hall.replicas.is_holding_appends = True
    waiting = hall.send_sync(first, 1, {first: b"all"})
    await hall.rest()
    assert waiting == []
    assert await state(hall) == "CompletingRebalance"

    hall.replicas.release()
    await hall.rest()

    assert [each.assignment for each in waiting] == [b"all"]


async def test_a_generation_has_one_assignment_whatever_its_leader_says_next(hall):
    first, _ = await hall.enter()
    await hall.rest()
    hall.replicas.is_holding_appends = True
    once = hall.send_sync(first, 1, {first: b"all"})
    twice = hall.send_sync(first, 1, {first: b"nothing"})
    await hall.rest()
    hall.replicas.release()
    await hall.rest()

    assert [each.error_code for each in once] == [REBALANCING]
    assert [each.assignment for each in twice] == [b"all"]
    assert len(stored(hall)) == 1


@pytest.mark.parametrize(
    ("append_error", "told"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.REQUEST_TIMED_OUT, REBALANCING),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
    ids=str,
)
async def test_an_assignment_that_is_not_written_is_not_given(hall, append_error, told):
    first, _ = await hall.enter()
    await hall.rest()
    hall.replicas.append_error = append_error

    assert (await hall.sync(first, 1, {first: b"all"})).error_code is told

    assert await state(hall) == "PreparingRebalance"
    hall.replicas.append_error = NONE
    assert (await hall.join(first)).generation_id == 2


async def test_an_assignment_written_after_the_next_rebalance_began_is_given_to_nobody(hall):
    first, _ = await hall.enter()
    await hall.rest()
    hall.replicas.is_holding_appends = True
    waiting = hall.send_sync(first, 1, {first: b"all"})
    await hall.enter()
    await hall.rest()
    hall.replicas.release()
    await hall.rest()

    assert [each.error_code for each in waiting] == [REBALANCING]
    assert await state(hall) == "PreparingRebalance"


async def test_the_next_coordinator_knows_the_members_and_what_they_have(sim, hall):
    first, second = await hall.two_members()
    hall.tell_leads_no_longer(epoch=1)
    await hall.rest()
    assert await hall.beat(first, 2) is ErrorCode.NOT_COORDINATOR

    await hall.lead(epoch=2)

    assert (await hall.sync(second, 2)).assignment == b"two"
    assert await hall.beat(first, 2) is NONE
    await sim.sleep(SESSION_MS - 1_000)
    assert await hall.beat(first, 2) is NONE
    await sim.sleep(2_000)
    assert await hall.beat(second, 2) is UNKNOWN


async def test_who_waits_when_the_coordinator_goes_is_sent_elsewhere(hall):
    first, second = await hall.two_members()
    joining = hall.send_join(first)
    await hall.rest()
    hall.tell_leads_no_longer(epoch=1)
    await hall.rest()

    assert [each.error_code for each in joining] == [ErrorCode.NOT_COORDINATOR]
    await hall.lead(epoch=2)
    assert (await hall.join(second)).generation_id == 3 or await hall.beat(second, 2) is not UNKNOWN


async def test_while_the_log_is_read_members_are_not_sent_away(hall):
    first, _ = await hall.two_members()
    hall.tell_leads_no_longer(epoch=1)
    hall.replicas.is_holding_reads = True
    await hall.lead(epoch=2)

    assert await hall.beat(first, 2) is NONE
    assert (await hall.sync(first, 2)).error_code is REBALANCING
    assert (await hall.join(first)).error_code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


async def test_who_leads_on_in_the_next_epoch_keeps_its_members(hall):
    first, _ = await hall.two_members()

    await hall.lead(number=SHARD, epoch=1)

    assert await hall.beat(first, 2) is NONE
