"""What becomes of committed offsets in the log: tombstones, compaction, loads (B176, B178)."""

import pytest

from actors.coordinator.offsets import partition_for
from actors.coordinator.records import OFFSETS_TOPIC
from tests.actors.coordinator.shop import GROUP, ORDERS, PARTITIONS, Diary, Shop
from tests.support.data import batches_on
from wire.errors import ErrorCode
from wire.groups import FindCoordinator, FindCoordinatorResponse
from wire.ids import TopicPartition
from wire.trace import GroupOffsetsForgotten, GroupOffsetsLoaded
from wire.znodes import TopicZNode

OTHER = TopicPartition("bills", 0)
MINUTE_MS = 60_000


def tombstones(shop, broker):
    return [key.partition for key, value in shop.changes_on(broker) if value is None]


async def fail_over(shop):
    """Let another broker load the group's partition."""
    former = shop.coordinator
    await shop.drive.kill(former)
    assert shop.coordinator != former


# --- topics that go -------------------------------------------------------------------------------


@pytest.mark.behaviour("B178")
async def test_a_deleted_topic_takes_its_offsets_along(sim):
    shop = await Shop.open(sim)
    await shop.admin.create_topic("bills", replication_factor=3)
    await shop.commit(1)
    await shop.commit(2, OTHER)
    shop.drive.forget()

    await shop.admin.delete_topic("bills")
    await shop.drive.settle()

    for broker in shop.cluster.brokers:
        assert tombstones(shop, broker) == [OTHER]
    assert (await shop.committed(OTHER), await shop.committed()) == (None, 1)
    forgotten = shop.drive.of(GroupOffsetsForgotten)
    assert [(each.offsets, each.reason) for each in forgotten] == [(1, "topic deleted")]

    await fail_over(shop)
    assert (await shop.committed(OTHER), await shop.committed()) == (None, 1)


@pytest.mark.behaviour("B178")
async def test_a_topic_made_anew_begins_without_offsets(sim):
    shop = await Shop.open(sim)
    await shop.admin.create_topic("bills", replication_factor=3)
    await shop.commit(2, OTHER)

    await shop.admin.delete_topic("bills")
    await shop.drive.settle()
    await shop.admin.create_topic("bills", replication_factor=3)
    assert await shop.committed(OTHER) is None

    await shop.commit(1, OTHER)
    await fail_over(shop)
    assert await shop.committed(OTHER) == 1


@pytest.mark.behaviour("B175")
@pytest.mark.parametrize("is_asked_meanwhile", [True, False])
async def test_offsets_begin_anew_when_their_topic_is_made_anew_with_another_number(
    sim, is_asked_meanwhile
):
    shop = await Shop.open(sim, auto_create_topics_enable=False)
    await shop.commit(5)
    await shop.drive.delete(OFFSETS_TOPIC)
    if is_asked_meanwhile:
        for broker in shop.cluster.brokers:
            await shop.drive.ask(broker, FindCoordinator(key=GROUP), FindCoordinatorResponse)
    await sim.until(lambda: not shop.drive.exists(TopicZNode.path(OFFSETS_TOPIC)))
    number = PARTITIONS + 4
    assert partition_for(GROUP, number) != shop.shard.partition

    await shop.drive.create(OFFSETS_TOPIC, {each: [1, 2, 3] for each in range(number)})
    await shop.drive.settle()

    shop.shard = TopicPartition(OFFSETS_TOPIC, partition_for(GROUP, number))
    assert await shop.committed() is None
    await shop.commit(1)
    await shop.drive.settle()
    ((key, value),) = shop.changes_on(shop.coordinator)
    assert (key.group, value.offset) == (GROUP, 1)
    for broker in shop.cluster.brokers:
        request = FindCoordinator(key=GROUP)
        found = await shop.drive.ask(broker, request, FindCoordinatorResponse)
        assert found.coordinator.id == shop.coordinator
    await fail_over(shop)
    assert await shop.committed() == 1


@pytest.mark.behaviour("B175")
async def test_offsets_topic_that_is_gone_is_made_again_by_whoever_needs_it(sim):
    shop = await Shop.open(sim)
    await shop.commit(5)
    await shop.drive.delete(OFFSETS_TOPIC)
    await shop.drive.settle()
    assert await shop.commit_at(1, 6) is ErrorCode.NOT_COORDINATOR

    assert await shop.committed() is None

    await shop.commit(1)
    assert await shop.committed() == 1


# --- offsets that grow old ------------------------------------------------------------------------


@pytest.mark.behaviour("B178")
async def test_an_offset_that_nobody_renews_is_gone_on_all_replicas(sim):
    shop = await Shop.open(
        sim, offsets_retention_minutes=10, offsets_retention_check_interval_ms=MINUTE_MS
    )
    second = TopicPartition("orders", 1)
    await shop.commit(1)
    await shop.commit(2, second)
    for _ in range(5):
        await sim.sleep(3 * MINUTE_MS)
        await shop.commit(3, second)

    for broker in shop.cluster.brokers:
        assert tombstones(shop, broker) == [ORDERS]
    assert (await shop.committed(), await shop.committed(second)) == (None, 3)
    forgotten = shop.drive.of(GroupOffsetsForgotten)
    assert [(each.offsets, each.reason) for each in forgotten] == [(1, "expired")]

    await fail_over(shop)
    assert (await shop.committed(), await shop.committed(second)) == (None, 3)


@pytest.mark.behaviour("B178")
async def test_a_new_coordinator_goes_by_the_time_of_the_commit(sim):
    shop = await Shop.open(
        sim, offsets_retention_minutes=10, offsets_retention_check_interval_ms=MINUTE_MS
    )
    await shop.commit(1)
    await sim.sleep(8 * MINUTE_MS)
    await fail_over(shop)
    assert await shop.committed() == 1

    await sim.sleep(4 * MINUTE_MS)

    assert await shop.committed() is None


# --- loads ----------------------------------------------------------------------------------------


@pytest.mark.behaviour("B176")
async def test_a_compacted_log_is_loaded_gaps_and_all(sim):
    cleaner = {"log_cleaner_backoff_ms": 500, "log_cleaner_min_cleanable_ratio": 0.01}
    shop = await Shop.open(sim, offsets_topic_segment_bytes=2_000, **cleaner)
    second = TopicPartition("orders", 1)
    await shop.commit(77, second)  # kept, at the log's start
    async with shop.group() as consumer:
        for offset in range(1, 101):
            await consumer.commit({ORDERS: offset})
    await sim.sleep(10_000)
    (new, *_) = shop.others
    kept = [batch.header.last_offset for batch in batches_on(shop.drive, new, shop.shard)]
    assert kept[0] == 0
    assert len(kept) < 50, "nothing was compacted"
    assert kept[1] > 1, "there is no gap"
    shop.drive.forget()

    await fail_over(shop)

    assert (await shop.committed(), await shop.committed(second)) == (100, 77)
    loaded = [
        each for each in shop.drive.of(GroupOffsetsLoaded) if each.partition == shop.shard.partition
    ]
    assert [each.records < 50 for each in loaded] == [True]
    await shop.commit(101)
    assert await shop.committed() == 101


@pytest.mark.behaviour("B176", "B178")
async def test_what_was_forgotten_and_compacted_away_does_not_come_back(sim):
    cleaner = {"log_cleaner_backoff_ms": 500, "log_cleaner_min_cleanable_ratio": 0.01}
    shop = await Shop.open(sim, offsets_topic_segment_bytes=2_000, **cleaner)
    await shop.admin.create_topic("bills", replication_factor=3)
    await shop.commit(2, OTHER)
    await shop.admin.delete_topic("bills")
    async with shop.group() as consumer:
        for offset in range(1, 60):
            await consumer.commit({ORDERS: offset})
    await sim.sleep(10_000)

    await fail_over(shop)

    assert (await shop.committed(), await shop.committed(OTHER)) == (59, None)


@pytest.mark.behaviour("B176")
@pytest.mark.parametrize("buffer_bytes", [1, 300, 4_000])
async def test_a_partition_larger_than_the_load_buffer_is_loaded_whole(sim, buffer_bytes):
    shop = await Shop.open(sim, offsets_load_buffer_size=buffer_bytes)
    async with shop.group() as consumer:
        for offset in range(1, 101):
            await consumer.commit({ORDERS: offset, TopicPartition("orders", 1): 2 * offset})
    shop.drive.forget()

    await fail_over(shop)

    assert await shop.committed() == 100
    assert await shop.committed(TopicPartition("orders", 1)) == 200
    loaded = {each.partition: each.records for each in shop.drive.of(GroupOffsetsLoaded)}
    assert loaded[shop.shard.partition] == 200


@pytest.mark.behaviour("B176")
async def test_a_long_load_says_that_it_is_loading_and_shows_nothing_old(sim):
    shop = await Shop.open(sim, offsets_load_buffer_size=1)
    async with Diary(shop) as diary:
        await diary.advance(200)
        shop.cluster.kill(shop.coordinator)
        await diary.advance(20)

    assert diary.stale == []
