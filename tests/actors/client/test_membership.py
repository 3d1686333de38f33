"""Consumers that share topics with their group, on simulated brokers."""

import asyncio

import pytest

from actors.client.config import ConsumerConfig
from actors.config import BadConfig
from tests.actors.client.readers import SESSION_MS, Reader, values
from tests.actors.coordinator.shop import GROUP, Shop
from wire.errors import InvalidRequest
from wire.ids import TopicPartition
from wire.trace import GroupMemberJoined, GroupMemberLeft, GroupStateChanged

ORDERS = tuple(TopicPartition("orders", number) for number in range(2))
RECORDS = 40


@pytest.fixture
async def shop(sim):
    shop = await Shop.open(sim)
    shop.readers = []
    yield shop
    for reader in shop.readers:
        await reader.stop()


def a_reader(shop, topics=("orders",), **options):
    reader = Reader(shop.cluster, topics, group_id=GROUP, **options)
    shop.readers.append(reader)
    return reader


async def write(shop, first=0, count=RECORDS):
    async with shop.cluster.producer(acks=-1) as producer:
        sent = [
            await producer.enqueue("orders", b"%d" % each, partition=each % 2)
            for each in range(first, first + count)
        ]
        for each in sent:
            await each


async def shared(sim, *readers):
    """Wait until each has one of the two partitions."""
    await sim.until(lambda: all(len(each.has) == 1 for each in readers))
    assert sorted(each for one in readers for each in one.has) == [*ORDERS]


async def test_one_member_reads_all(sim, shop):
    await write(shop)

    reader = a_reader(shop)
    await sim.until(lambda: len(reader.seen) == RECORDS)

    assert reader.assigned == [ORDERS]
    assert values(reader) == list(range(RECORDS))


async def test_two_members_share_and_nothing_is_read_twice_or_missed(sim, shop):
    first = a_reader(shop)
    await sim.until(lambda: first.has == ORDERS)
    await write(shop)
    await sim.until(lambda: len(first.seen) == RECORDS)

    second = a_reader(shop)
    await shared(sim, first, second)
    await write(shop, RECORDS)
    await sim.until(lambda: len(first.seen) + len(second.seen) >= 2 * RECORDS)

    assert values(first, second) == list(range(2 * RECORDS))
    assert first.revoked == [ORDERS]
    assert second.seen


async def test_who_leaves_gives_its_part_to_the_others_at_once(sim, shop):
    first, second = a_reader(shop), a_reader(shop)
    await shared(sim, first, second)

    begun = sim.now_ms
    await second.stop()
    await sim.until(lambda: first.has == ORDERS)

    assert sim.now_ms - begun < SESSION_MS / 2
    (left,) = shop.drive.of(GroupMemberLeft)
    assert "unsubscribes" in left.reason


async def test_who_vanishes_is_waited_for_as_long_as_its_session_is(sim, shop):
    first, second = a_reader(shop), a_reader(shop)
    await shared(sim, first, second)

    begun = sim.now_ms
    await second.vanish()
    await sim.until(lambda: first.has == ORDERS)

    assert SESSION_MS / 2 < sim.now_ms - begun < 2 * SESSION_MS


async def test_who_does_not_poll_is_out_and_comes_back(sim, shop):
    first, second = a_reader(shop), a_reader(shop)
    await shared(sim, first, second)
    second._task.cancel()

    await sim.until(lambda: first.has == ORDERS)
    with pytest.raises(Exception, match="gone on without us"):
        await second.consumer.commit({ORDERS[0]: 1})

    second._task = asyncio.create_task(second._read())
    await shared(sim, first, second)


async def test_a_static_member_that_restarts_keeps_its_part(sim, shop):
    first, second = a_reader(shop), a_reader(shop, group_instance_id="second")
    await shared(sim, first, second)
    had, assigned = second.has, len(first.assigned)
    changes = len(shop.drive.of(GroupStateChanged))

    await second.stop()
    again = a_reader(shop, group_instance_id="second")
    await sim.until(lambda: again.has)

    assert again.has == had
    assert len(first.assigned) == assigned
    assert len(shop.drive.of(GroupStateChanged)) == changes


async def test_a_topic_that_grows_is_shared_out_anew(sim, shop):
    first = a_reader(shop, metadata_max_age_ms=1_000)
    await sim.until(lambda: first.has == ORDERS)

    await shop.admin.create_partitions("orders", 4)
    await sim.until(lambda: len(first.has) == 4)


async def test_a_topic_that_is_not_there_yet_is_read_once_it_is(sim, shop):
    reader = a_reader(shop, ("orders", "later"), allow_auto_create_topics=False)
    await sim.until(lambda: reader.has == ORDERS)

    await shop.admin.create_topic("later", partitions=1, replication_factor=3)
    await sim.until(lambda: TopicPartition("later", 0) in reader.has)


async def test_what_poll_returned_is_committed_by_itself(sim, shop):
    await write(shop)
    reader = a_reader(shop, commits=False, enable_auto_commit=True, auto_commit_interval_ms=500)
    await sim.until(lambda: len(reader.seen) == RECORDS)
    await sim.sleep(1_500)
    assert [await shop.committed(each) for each in ORDERS] == [RECORDS // 2] * 2

    await write(shop, RECORDS, 2)
    await sim.until(lambda: len(reader.seen) == RECORDS + 2)
    await reader.stop()
    assert [await shop.committed(each) for each in ORDERS] == [RECORDS // 2 + 1] * 2


async def test_who_was_lost_commits_nothing_by_itself(sim, shop):
    """Others may have come and gone since, and have committed more."""
    await write(shop)
    reader = a_reader(shop, commits=False, enable_auto_commit=True, auto_commit_interval_ms=60_000)
    await sim.until(lambda: len(reader.seen) == RECORDS)
    reader._task.cancel()
    await sim.until(lambda: shop.drive.of(GroupMemberLeft))

    reader._task = asyncio.create_task(reader._read())
    await sim.until(lambda: len(reader.assigned) == 2)

    assert [await shop.committed(each) for each in ORDERS] == [None, None]
    await sim.until(lambda: len(reader.seen) == 2 * RECORDS)


async def test_auto_commit_works_without_a_membership_too(sim, shop):
    await write(shop)
    async with shop.group(
        auto_offset_reset="earliest", enable_auto_commit=True, auto_commit_interval_ms=1
    ) as consumer:
        consumer.assign(ORDERS)
        seen = []
        while len(seen) < RECORDS:
            seen += await consumer.poll(5_000)

    assert [await shop.committed(each) for each in ORDERS] == [RECORDS // 2] * 2


async def test_who_unsubscribes_is_no_member_and_may_subscribe_again(sim, shop):
    async with shop.group(auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["orders"])
        await sim.until(lambda: True)
        while not consumer.assignment:
            await consumer.poll(100)
        with pytest.raises(InvalidRequest, match="unsubscribe first"):
            consumer.assign(ORDERS)

        await consumer.unsubscribe()

        assert consumer.assignment == ()
        assert shop.drive.of(GroupMemberLeft)
        consumer.assign(ORDERS)
        with pytest.raises(InvalidRequest, match="by hand"):
            consumer.subscribe(["orders"])
        await consumer.unsubscribe()
        consumer.subscribe(["orders"])
        while not consumer.assignment:
            await consumer.poll(100)

    assert len({each.member for each in shop.drive.of(GroupMemberJoined)}) == 2


async def test_members_of_several_tastes_agree(sim, shop):
    first = a_reader(shop, partition_assignment_strategy="sticky,range")
    await sim.until(lambda: first.has == ORDERS)
    second = a_reader(shop, partition_assignment_strategy="roundrobin, range")

    await shared(sim, first, second)
    assert first.has == ORDERS[:1] or second.has == ORDERS[:1]


async def test_who_has_no_way_in_common_is_told(sim, shop):
    first = a_reader(shop, partition_assignment_strategy="sticky")
    await sim.until(lambda: first.has == ORDERS)
    second = a_reader(shop, partition_assignment_strategy="range")

    await sim.until(lambda: second.errors)

    assert "INCONSISTENT_GROUP_PROTOCOL" in str(second.errors[0])
    assert first.has == ORDERS


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"partition_assignment_strategy": "uniform"}, "partition.assignment.strategy"),
        ({"partition_assignment_strategy": "range,"}, "partition.assignment.strategy"),
        ({"enable_auto_commit": True}, "enable.auto.commit"),
        ({"group_instance_id": ""}, "group.instance.id"),
        ({"heartbeat_interval_ms": 45_000}, "heartbeat.interval.ms"),
        ({"session_timeout_ms": 0}, "session.timeout.ms"),
    ],
    ids=str,
)
def test_settings_that_cannot_work_are_refused(options, sentence):
    with pytest.raises(BadConfig, match=sentence):
        ConsumerConfig(**options)


@pytest.mark.parametrize("topics", [[], "orders", [1], [""], None], ids=repr)
async def test_topics_that_are_none_are_refused(sim, shop, topics):
    async with shop.group() as consumer:
        with pytest.raises(InvalidRequest):
            consumer.subscribe(topics)


async def test_who_has_no_group_cannot_subscribe(sim, shop):
    async with shop.cluster.consumer() as consumer:
        with pytest.raises(Exception, match=r"no group\.id"):
            consumer.subscribe(["orders"])
