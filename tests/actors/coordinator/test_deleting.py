"""Groups and offsets that somebody deletes, and empty groups that nobody needs."""

import pytest

from actors.coordinator.group_records import decode_group_change
from actors.coordinator.records import decode_data
from tests.actors.coordinator.hall import Hall
from tests.actors.coordinator.office import BILLS, GROUP, NONE, ORDERS
from wire.consumer_protocol import ConsumerSubscription, encode_subscription
from wire.errors import ErrorCode
from wire.groups import DeleteGroups, DescribeGroups, JoinProtocol, ListGroups, OffsetDelete
from wire.trace import GroupForgotten

MINUTE_MS = 60_000
WISH = JoinProtocol("range", encode_subscription(ConsumerSubscription(topics=("orders",))))
NOT_FOUND = ErrorCode.GROUP_ID_NOT_FOUND


@pytest.fixture
async def hall(sim):
    return await Hall.open(
        sim, offsets_retention_minutes=10, offsets_retention_check_interval_ms=MINUTE_MS
    )


async def delete(hall, *groups):
    response = await hall.ask(DeleteGroups(groups=groups))
    return {each.group_id: each.error_code for each in response.groups}


async def delete_offsets(hall, *partitions):
    response = await hall.ask(OffsetDelete(group_id=GROUP, partitions=partitions))
    return response.error_code or [each.error_code for each in response.partitions]


async def names(hall, **options):
    return [(each.group_id, each.state) for each in (await hall.ask(ListGroups(**options))).groups]


def group_changes(hall):
    records = decode_data(b"".join(hall.replicas.log().batches), 0)
    return [change for each in records if (change := decode_group_change(each))]


async def gone(hall, **options):
    """A group that everybody has left."""
    member, _ = await hall.enter(**options)
    await hall.rest()
    await hall.sync(member, 1, {member: b"all"})
    assert await hall.leave(member) == [NONE]


# --- groups ---------------------------------------------------------------------------------------


async def test_an_empty_group_is_deleted_with_its_offsets(hall):
    await gone(hall)
    await hall.commit(5)

    assert await delete(hall, GROUP) == {GROUP: NONE}

    assert await names(hall) == []
    assert await hall.committed() == -1
    assert group_changes(hall)[-1] == (GROUP, None)
    assert hall.replicas.log().changes()[-1][1] is None
    assert [each.group for each in hall.events if isinstance(each, GroupForgotten)] == [GROUP]
    await hall.lead(epoch=2)
    assert await names(hall) == []


async def test_a_group_that_only_has_offsets_is_deleted_too(hall):
    await hall.commit(5)

    assert await delete(hall, GROUP, GROUP) == {GROUP: NONE}
    assert await hall.committed() == -1


async def test_a_group_with_members_is_not_deleted(hall):
    await hall.two_members()

    assert await delete(hall, GROUP) == {GROUP: ErrorCode.NON_EMPTY_GROUP}
    assert await names(hall) == [(GROUP, "Stable")]


async def test_what_cannot_be_deleted_is_answered_one_by_one(hall):
    found = await delete(hall, "", "nobody-here", "x" * 40_000)

    assert found[""] is ErrorCode.INVALID_GROUP_ID
    assert found["x" * 40_000] is ErrorCode.INVALID_GROUP_ID
    assert found["nobody-here"] in (NOT_FOUND, ErrorCode.NOT_COORDINATOR)
    assert await delete(hall, GROUP) == {GROUP: NOT_FOUND}
    assert await delete(hall) == {}


async def test_a_deletion_that_is_not_written_is_told_and_nothing_is_gone(hall):
    await gone(hall)
    await hall.commit(5)
    hall.replicas.append_error = ErrorCode.NOT_ENOUGH_REPLICAS

    assert await delete(hall, GROUP) == {GROUP: ErrorCode.COORDINATOR_NOT_AVAILABLE}

    assert await names(hall) == [(GROUP, "Empty")]
    assert await hall.committed() == 5


async def test_who_joins_while_a_group_is_being_deleted_is_not_deleted(hall):
    await gone(hall)
    hall.replicas.is_holding_appends = True
    answers = hall.send(DeleteGroups(groups=(GROUP,)))
    await hall.rest()
    member, joined = await hall.enter()
    hall.replicas.release()
    hall.replicas.is_holding_appends = False
    await hall.rest()

    assert answers[0].groups[0].error_code is NONE
    assert joined[0].generation_id == 3
    assert await hall.beat(member, 3) is NONE


# --- offsets --------------------------------------------------------------------------------------


async def test_offsets_of_an_empty_group_are_deleted(hall):
    await gone(hall)
    await hall.commit(5)
    await hall.commit(6, BILLS)

    assert await delete_offsets(hall, ORDERS, ORDERS) == [NONE, NONE]

    assert (await hall.committed(ORDERS), await hall.committed(BILLS)) == (-1, 6)


async def test_offsets_that_members_need_are_kept(hall):
    first, _ = await hall.two_members(protocols=(WISH,))
    for partition in (ORDERS, BILLS):
        await hall.commit(5, partition, generation_id=2, member_id=first)

    subscribed = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert await delete_offsets(hall, ORDERS, BILLS) == [subscribed, NONE]

    assert (await hall.committed(ORDERS), await hall.committed(BILLS)) == (5, -1)


async def test_nobody_can_tell_what_members_of_another_kind_need(hall):
    await hall.two_members(protocol_type="connect")

    assert await delete_offsets(hall, ORDERS) is ErrorCode.NON_EMPTY_GROUP


async def test_a_group_that_is_not_there_has_no_offsets(hall):
    assert await delete_offsets(hall, ORDERS) is NOT_FOUND


# --- what nobody needs ----------------------------------------------------------------------------


async def test_an_empty_group_whose_offsets_have_expired_is_forgotten(hall):
    await gone(hall)
    await hall.commit(5)
    await hall.rest(9 * MINUTE_MS)
    assert await names(hall) == [(GROUP, "Empty")]

    await hall.rest(4 * MINUTE_MS)

    assert await names(hall) == []
    assert group_changes(hall)[-1] == (GROUP, None)
    (described,) = (await hall.ask(DescribeGroups(groups=(GROUP,)))).groups
    assert described.state == "Dead"


async def test_offsets_count_from_when_the_group_became_empty(hall):
    member, _ = await hall.enter(session_timeout_ms=1_800_000)
    await hall.rest()
    await hall.sync(member, 1, {member: b"all"})
    await hall.commit(5, generation_id=1, member_id=member)
    await hall.rest(15 * MINUTE_MS)
    assert await hall.committed() == 5

    await hall.leave(member)
    await hall.rest(8 * MINUTE_MS)
    assert await hall.committed() == 5
    await hall.rest(4 * MINUTE_MS)
    assert await hall.committed() == -1


async def test_offsets_of_topics_that_members_no_longer_want_expire(hall):
    first, _ = await hall.two_members(protocols=(WISH,), session_timeout_ms=1_800_000)
    for partition in (ORDERS, BILLS):
        await hall.commit(5, partition, generation_id=2, member_id=first)

    await hall.rest(13 * MINUTE_MS)

    assert (await hall.committed(ORDERS), await hall.committed(BILLS)) == (5, -1)


async def test_an_offset_that_its_client_wanted_kept_for_less_goes_earlier(hall):
    await hall.commit(5, retention_time_ms=2 * MINUTE_MS)
    await hall.commit(6, BILLS)

    await hall.rest(4 * MINUTE_MS)

    assert (await hall.committed(ORDERS), await hall.committed(BILLS)) == (-1, 6)


# --- lists ----------------------------------------------------------------------------------------


async def test_groups_are_listed_by_their_states(hall):
    await hall.two_members()

    assert await names(hall, states=("stable", "Empty")) == [(GROUP, "Stable")]
    assert await names(hall, states=("Dead",)) == []
    listed = (await hall.ask(ListGroups())).groups
    assert [each.protocol_type for each in listed] == ["consumer"]


async def test_a_stable_group_is_described_whole_and_another_one_by_its_members(hall):
    first, second = await hall.two_members()
    request = DescribeGroups(groups=(GROUP,))

    (stable,) = (await hall.ask(request)).groups
    assert (stable.protocol_type, stable.protocol) == ("consumer", "range")
    assert {each.member_id: each.assignment for each in stable.members} == {
        first: b"one",
        second: b"two",
    }
    assert {each.client_id for each in stable.members} == {"client"}

    hall.send_join(first)
    (preparing,) = (await hall.ask(request)).groups
    assert (preparing.state, preparing.protocol) == ("PreparingRebalance", "")
    assert {each.assignment for each in preparing.members} == {b""}
