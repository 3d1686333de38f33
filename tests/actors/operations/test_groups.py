"""Groups by their operations, on a simulated cluster."""

import pytest

from actors.operations.given import Nothing
from actors.operations.groups import (
    GroupGiven,
    ResetGiven,
    delete_group,
    describe_group,
    list_groups,
    reset_offsets,
)
from actors.operations.operation import BadInput
from wire.errors import ErrorCode, UnknownTopicOrPartition, exception_of
from wire.ids import TopicPartition

ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
NonEmptyGroup = exception_of(ErrorCode.NON_EMPTY_GROUP)
GroupIdNotFound = exception_of(ErrorCode.GROUP_ID_NOT_FOUND)


@pytest.fixture
async def billing(cluster):
    """Five records in partition 0, of which the group has read two."""
    await cluster.admin().create_topic("orders", assignments={0: [1], 1: [3]})
    async with cluster.producer() as producer:
        for number in range(5):
            await producer.send("orders", str(number).encode(), partition=0)
    await commit(cluster, "billing", {ORDERS_0: 2, ORDERS_1: 0})
    return cluster


async def commit(cluster, group, offsets):
    async with cluster.consumer(group_id=group) as consumer:
        await consumer.commit(offsets)


async def committed(cluster, group="billing"):
    return {at: of.offset for at, of in (await cluster.admin().group_offsets(group)).items()}


async def reset(cluster, **options):
    done = await reset_offsets(cluster, ResetGiven(**{"group": "billing", **options}))
    return {TopicPartition(each.topic, each.partition): each.new_offset for each in done.offsets}


async def test_groups_of_all_coordinators_are_listed(billing):
    for number in range(20):
        await commit(billing, f"group-{number:02}", {ORDERS_0: 1})

    found = await list_groups(billing, Nothing())

    assert found.groups == ("billing", *(f"group-{number:02}" for number in range(20)))


async def test_without_a_commit_there_is_no_group_and_nothing_is_made_by_looking(cluster):
    assert (await list_groups(cluster, Nothing())).groups == ()
    with pytest.raises(GroupIdNotFound, match=r"'billing'.*none yet"):
        await describe_group(cluster, GroupGiven(group="billing"))

    assert await cluster.admin().list_topics() == ()


async def test_lag_is_what_could_still_be_read(billing):
    described = await describe_group(billing, GroupGiven(group="billing"))

    assert [
        (each.topic, each.partition, each.current_offset, each.log_end_offset, each.lag)
        for each in described.offsets
    ] == [("orders", 0, 2, 5, 3), ("orders", 1, 0, 0, 0)]


async def test_a_partition_without_a_leader_has_no_lag_and_does_not_hold_up_the_rest(sim, billing):
    billing.kill(3)
    await sim.settle(10_000)

    described = await describe_group(billing, GroupGiven(group="billing"))

    assert [each.lag for each in described.offsets] == [3, None]


async def test_members_are_described_with_what_they_read(billing):
    async with billing.consumer(group_id="billing", client_id="me") as consumer:
        consumer.subscribe(["orders"])
        while not consumer.assignment:
            await consumer.poll(100)

        described = await describe_group(billing, GroupGiven(group="billing"))
        with pytest.raises(NonEmptyGroup, match="stop its members"):
            await reset(billing, to="latest", execute=True)
        with pytest.raises(NonEmptyGroup):
            await delete_group(billing, GroupGiven(group="billing"))

    (member,) = described.members
    assert (described.state, described.protocol) == ("Stable", "range")
    assert (member.client_id, member.partitions) == ("me", ["orders-0", "orders-1"])
    assert {each.member_id for each in described.offsets} == {member.member_id}


async def test_who_has_committed_nothing_yet_is_described_too(billing):
    async with billing.consumer(group_id="new", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["orders"])
        while not consumer.assignment:
            await consumer.poll(100)

        described = await describe_group(billing, GroupGiven(group="new"))

    assert [(each.current_offset, each.log_end_offset, each.lag) for each in described.offsets] == [
        (None, 5, None),
        (None, 0, None),
    ]


async def test_a_group_that_nobody_is_in_can_be_deleted(billing):
    await delete_group(billing, GroupGiven(group="billing"))

    assert (await list_groups(billing, Nothing())).groups == ()
    with pytest.raises(GroupIdNotFound):
        await delete_group(billing, GroupGiven(group="billing"))


async def test_a_group_that_is_not_there_is_told_with_those_that_are(billing):
    with pytest.raises(GroupIdNotFound, match=r"'shipping'.*billing"):
        await describe_group(billing, GroupGiven(group="shipping"))


@pytest.mark.parametrize(
    ("to", "expected"),
    [
        ({"to": "earliest"}, {ORDERS_0: 0, ORDERS_1: 0}),
        ({"to": "latest"}, {ORDERS_0: 5, ORDERS_1: 0}),
        ({"to": "offset", "offset": 3}, {ORDERS_0: 3, ORDERS_1: 0}),
        ({"to": "offset", "offset": 99}, {ORDERS_0: 5, ORDERS_1: 0}),
        ({"to": "earliest", "topic": "orders", "partitions": [0]}, {ORDERS_0: 0}),
        ({"to": "latest", "topic": "orders"}, {ORDERS_0: 5, ORDERS_1: 0}),
    ],
)
async def test_a_reset_is_told_first_and_done_when_asked(billing, to, expected):
    before = await committed(billing)

    assert await reset(billing, **to) == expected
    assert await committed(billing) == before
    assert await reset(billing, **to, execute=True) == expected

    assert await committed(billing) == before | expected


async def test_a_group_may_begin_with_a_reset(billing):
    await reset(billing, group="shipping", to="latest", topic="orders", execute=True)

    assert await committed(billing, "shipping") == {ORDERS_0: 5, ORDERS_1: 0}


@pytest.mark.parametrize(
    ("wrong", "error", "sentence"),
    [
        ({"to": "middle"}, BadInput, "'middle'; it must be one of earliest, latest, offset"),
        ({"to": "offset"}, BadInput, "offset must be given"),
        ({"to": "latest", "offset": 3}, BadInput, "offset must be given if, and only if"),
        ({"to": "latest", "partitions": [0]}, BadInput, "without their topic"),
        ({"to": "latest", "topic": "orders", "partitions": [7]}, BadInput, "no partition 7"),
        ({"to": "latest", "topic": "payments"}, UnknownTopicOrPartition, "payments"),
        ({"to": "latest", "group": "shipping"}, BadInput, "name a topic"),
    ],
)
async def test_a_reset_that_cannot_be_changes_nothing(billing, wrong, error, sentence):
    before = await committed(billing)

    with pytest.raises(error, match=sentence):
        await reset(billing, **wrong, execute=True)

    assert await committed(billing) == before
