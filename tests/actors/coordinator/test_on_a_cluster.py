"""Committed offsets on a whole simulated cluster, while all is well (B175 to B178)."""

import pytest

from actors.client.group import OffsetAndMetadata
from actors.coordinator.offsets import partition_for
from actors.coordinator.records import OFFSETS_TOPIC
from tests.actors.coordinator.shop import GROUP, ORDERS, PARTITIONS, Shop
from wire.configs import ConfigResource, ConfigResourceType
from wire.errors import ErrorCode, RequestTimedOut, UnknownTopicOrPartition
from wire.groups import (
    FindCoordinator,
    FindCoordinatorResponse,
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitResponse,
    OffsetFetch,
    OffsetFetchResponse,
)
from wire.ids import TopicPartition
from wire.trace import GroupOffsetsLoaded
from wire.znodes import TopicZNode

TOPIC_PATH = TopicZNode.path(OFFSETS_TOPIC)


@pytest.fixture
async def shop(sim):
    return await Shop.open(sim)


@pytest.mark.behaviour("B175")
async def test_the_first_group_has_the_topic_made_as_it_is_configured(shop):
    assert not shop.drive.exists(TOPIC_PATH)

    await shop.commit(1)

    whole = TopicZNode.decode(OFFSETS_TOPIC, shop.drive.tree.get(TOPIC_PATH).data).partitions
    assert sorted(whole) == list(range(PARTITIONS))
    assert {len(set(each.replicas)) for each in whole.values()} == {3}
    resource = ConfigResource(ConfigResourceType.TOPIC, OFFSETS_TOPIC)
    described = (await shop.admin.describe_configs(resource))[resource]
    assert {each.name: each.value for each in described}["cleanup.policy"] == "compact"


@pytest.mark.behaviour("B175")
async def test_groups_are_coordinated_by_the_leaders_of_their_partitions(shop):
    names = [f"group-{number}" for number in range(6)]
    for number, name in enumerate(names):
        await shop.commit(100 + number, group=name)

    coordinators = set()
    for number, name in enumerate(names):
        leader = shop.drive.state(OFFSETS_TOPIC, partition_for(name, PARTITIONS)).leader
        for broker in shop.cluster.brokers:  # all of them know
            request = FindCoordinator(key=name)
            found = await shop.drive.ask(broker, request, FindCoordinatorResponse)
            assert found.coordinator.id == leader
        coordinators.add(leader)
        assert await shop.committed(group=name) == 100 + number
    assert coordinators == {1, 2, 3}


@pytest.mark.behaviour("B177")
async def test_a_commit_is_on_all_replicas_and_only_the_coordinator_takes_it(shop):
    await shop.commit(7)
    await shop.drive.settle()

    for broker in shop.cluster.brokers:
        ((key, value),) = shop.changes_on(broker)
        assert (key.group, key.partition, value.offset) == (GROUP, ORDERS, 7)
    for other in shop.others:
        assert await shop.commit_at(other, 8) is ErrorCode.NOT_COORDINATOR
        assert await shop.committed_at(other) is ErrorCode.NOT_COORDINATOR
    assert await shop.committed() == 7


@pytest.mark.behaviour("B178")
async def test_what_was_never_committed_is_none_and_no_error(shop):
    assert await shop.committed() is None

    await shop.commit(0)

    assert await shop.committed() == 0
    assert await shop.committed(TopicPartition("orders", 1)) is None


@pytest.mark.behaviour("B177")
@pytest.mark.parametrize("partition", [TopicPartition("nowhere", 0), TopicPartition("orders", 9)])
async def test_nobody_commits_for_a_partition_that_is_not_there(shop, partition):
    await shop.commit(1)
    parts = tuple(
        OffsetCommitPartition(partition=each, committed_offset=5) for each in (ORDERS, partition)
    )
    request = OffsetCommit(group_id=GROUP, partitions=parts)

    response = await shop.drive.ask(shop.coordinator, request, OffsetCommitResponse)

    assert [each.error_code for each in response.partitions] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert (await shop.committed(), await shop.committed(partition)) == (5, None)
    with pytest.raises((UnknownTopicOrPartition, RequestTimedOut)):
        await shop.commit(1, partition, timeout_ms=500)


@pytest.mark.behaviour("B177")
async def test_no_note_is_an_empty_one_as_in_kafka(shop):
    other = TopicPartition("orders", 1)
    async with shop.group() as consumer:
        await consumer.commit({ORDERS: OffsetAndMetadata(1, "a note", 0), other: 2})
        found = await consumer.committed([ORDERS, other])
    parts = (
        OffsetCommitPartition(partition=other, committed_offset=3, metadata=None),
        OffsetCommitPartition(partition=ORDERS, committed_offset=4, metadata=""),
    )
    coordinator = shop.coordinator
    commit = OffsetCommit(group_id=GROUP, partitions=parts)
    await shop.drive.ask(coordinator, commit, OffsetCommitResponse)
    fetch = OffsetFetch(group_id=GROUP, partitions=(ORDERS, other, TopicPartition("none", 0)))
    told = await shop.drive.ask(coordinator, fetch, OffsetFetchResponse)

    assert found == {ORDERS: OffsetAndMetadata(1, "a note", 0), other: OffsetAndMetadata(2)}
    assert OffsetAndMetadata(2).metadata == ""
    assert [each.metadata for each in told.partitions] == ["", "", ""]


@pytest.mark.behaviour("B176")
async def test_a_load_leaves_word_of_itself(shop):
    await shop.commit(1)
    await shop.commit(2)
    shop.drive.forget()
    former = shop.coordinator

    await shop.drive.kill(former)
    assert await shop.committed() == 2

    loaded = shop.drive.of(GroupOffsetsLoaded)
    ours = [each for each in loaded if each.partition == shop.shard.partition]
    assert [(each.leader_epoch, each.records) for each in ours] == [(1, 2)]
    assert 0 <= ours[0].took_us < 1_000_000
