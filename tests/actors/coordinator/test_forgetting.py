"""Offsets that are not there, not there any more, or in ZooKeeper (B178)."""

import pytest

from actors.coordinator.messages import TopicsDeleted
from actors.coordinator.records import OffsetKey, OffsetValue
from actors.coordinator.requests import TOMBSTONES_BYTES
from actors.coordinator.zookeeper_offsets import read_offsets, write_offsets
from tests.actors.coordinator.office import (
    BILLS,
    GROUP,
    NONE,
    ORDERS,
    Office,
    a_commit,
)
from wire.errors import ApiError, ErrorCode, MalformedZNode
from wire.groups import OffsetFetch
from wire.ids import TopicPartition

pytestmark = pytest.mark.behaviour("B178")
MINUTE_MS = 60_000


async def opened(sim, **config):
    office = await Office.open(
        sim,
        offsets_retention_minutes=10,
        offsets_retention_check_interval_ms=MINUTE_MS,
        **config,
    )
    await office.make_topic()
    await office.lead()
    return office


@pytest.fixture
async def office(sim):
    return await opened(sim)


def tombstones(office):
    return [key.partition for key, value in office.replicas.log().changes() if value is None]


async def test_no_offset_is_no_error(office):
    (result,) = (await office.ask(OffsetFetch(group_id=GROUP, partitions=(ORDERS,)))).partitions

    assert (result.error_code, result.committed_offset) == (NONE, -1)
    assert result.committed_leader_epoch == -1


async def test_whoever_names_no_partitions_gets_all_of_the_group(office):
    assert (await office.ask(OffsetFetch(group_id=GROUP))).partitions == ()
    await office.ask(a_commit({ORDERS: 1, BILLS: 2}))

    found = (await office.ask(OffsetFetch(group_id=GROUP))).partitions

    assert [(each.partition, each.committed_offset) for each in found] == [(BILLS, 2), (ORDERS, 1)]
    assert (await office.ask(OffsetFetch(group_id=GROUP, partitions=()))).partitions == ()


# --- expiry ---------------------------------------------------------------------------------------


async def test_an_old_offset_gets_a_tombstone_and_is_gone(office):
    await office.ask(a_commit({ORDERS: 1, BILLS: 2}))
    await office.rest(5 * MINUTE_MS)
    await office.commit(3, BILLS)

    await office.rest(5.5 * MINUTE_MS)
    assert tombstones(office) == []  # the check of minute 10 came too early by a hair
    await office.rest(MINUTE_MS)

    assert tombstones(office) == [ORDERS]
    assert (await office.committed(ORDERS), await office.committed(BILLS)) == (-1, 3)
    append = office.replicas.appends[-1]
    assert (append.acks, append.timeout_ms) == (-1, 5_000)


async def test_an_offset_is_seen_until_its_tombstone_is_in_the_log(office):
    await office.commit(1)
    office.replicas.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    await office.rest(13 * MINUTE_MS)
    assert tombstones(office) == []
    assert await office.committed() == 1

    office.replicas.append_error = NONE
    await office.rest(MINUTE_MS)

    assert tombstones(office) == [ORDERS]
    assert await office.committed() == -1


async def test_a_tombstone_under_way_is_not_sent_again(office):
    await office.commit(1)
    office.replicas.is_holding_appends = True

    await office.rest(15 * MINUTE_MS)

    assert tombstones(office) == [ORDERS]


async def test_a_commit_under_way_keeps_the_offset(office):
    """I-25: a tombstone after a commit that is acknowledged later would hide it."""
    await office.commit(1)
    await office.rest(10 * MINUTE_MS)
    office.replicas.is_holding_appends = True
    answers = office.send(a_commit({ORDERS: 2}))
    await office.rest(3 * MINUTE_MS)

    office.replicas.release()
    await office.rest()

    assert len(answers) == 1
    assert tombstones(office) == []
    assert await office.committed() == 2


async def test_a_commit_after_a_tombstone_under_way_stays(office):
    await office.commit(1)
    office.replicas.is_holding_appends = True
    await office.rest(12 * MINUTE_MS)
    assert tombstones(office) == [ORDERS]
    office.send(a_commit({ORDERS: 2}))
    await office.rest()

    office.replicas.release(1, 0)
    await office.rest()

    assert await office.committed() == 2


async def test_the_next_coordinator_does_not_find_what_has_expired(office):
    await office.commit(1)
    await office.rest(12 * MINUTE_MS)
    office.tell_leads_no_longer(epoch=1)

    await office.lead(epoch=2)

    assert await office.committed() == -1


async def test_what_expired_while_nobody_coordinated_goes_after_the_load(sim):
    office = await opened(sim)
    office.tell_leads_no_longer(epoch=1)
    old = OffsetValue(offset=1, commit_timestamp_ms=1)
    office.write((OffsetKey(GROUP, ORDERS), old))
    await office.lead(epoch=2)
    assert await office.committed() == 1

    await office.rest(MINUTE_MS)

    assert await office.committed() == -1


async def test_nothing_expires_where_it_is_being_loaded(sim):
    office = await opened(sim)
    office.tell_leads_no_longer(epoch=1)
    office.write((OffsetKey(GROUP, ORDERS), OffsetValue(offset=1, commit_timestamp_ms=1)))
    office.write((OffsetKey(GROUP, ORDERS), OffsetValue(offset=2, commit_timestamp_ms=2**60)))
    office.replicas.log().high_watermark = 1
    await office.lead(epoch=2)

    await office.rest(3 * MINUTE_MS)

    assert tombstones(office) == []


async def test_many_tombstones_go_in_batches_that_no_log_finds_too_large(office):
    for number in range(0, 1_500, 100):
        offsets = {TopicPartition("t" * 200, number + each): 1 for each in range(100)}
        await office.ask(a_commit(offsets))
    commits = len(office.replicas.appends)

    await office.rest(13 * MINUTE_MS)

    sizes = [len(each.records) for each in office.replicas.appends[commits:]]
    assert len(tombstones(office)) == 1_500
    assert len(sizes) > 10
    assert max(sizes) < 1.2 * TOMBSTONES_BYTES


# --- deleted topics -------------------------------------------------------------------------------


async def test_a_deleted_topics_offsets_get_tombstones(office):
    await office.ask(a_commit({ORDERS: 1, BILLS: 2}))

    office.ref.tell(TopicsDeleted(frozenset({"orders"})))
    await office.rest()

    assert tombstones(office) == [ORDERS]
    assert (await office.committed(ORDERS), await office.committed(BILLS)) == (-1, 2)


async def test_a_deleted_topics_tombstone_that_fails_is_tried_again(office):
    await office.commit(1)
    office.replicas.append_error = ErrorCode.REQUEST_TIMED_OUT
    office.ref.tell(TopicsDeleted(frozenset({"orders"})))
    await office.rest()
    office.replicas.append_error = NONE

    await office.rest(1.5 * MINUTE_MS)

    assert await office.committed() == -1


async def test_a_topic_made_anew_keeps_what_is_committed_for_it(office):
    await office.commit(1)
    office.replicas.append_error = ErrorCode.REQUEST_TIMED_OUT
    office.ref.tell(TopicsDeleted(frozenset({"orders"})))
    await office.rest()
    office.replicas.append_error = NONE
    await office.commit(2)

    await office.rest(1.5 * MINUTE_MS)

    assert await office.committed() == 2


async def test_a_commit_under_way_for_a_deleted_topic_goes_too(office):
    office.replicas.is_holding_appends = True
    answers = office.send(a_commit({ORDERS: 1}))
    await office.rest()
    office.ref.tell(TopicsDeleted(frozenset({"orders"})))
    await office.rest()

    office.replicas.release(1, 0)
    await office.rest()

    assert len(answers) == 1
    assert await office.committed() == -1


async def test_a_topic_deleted_during_a_load_is_forgotten_after_it(office):
    await office.commit(1)
    office.tell_leads_no_longer(epoch=1)
    office.replicas.is_holding_reads = True
    await office.lead(epoch=2)
    office.ref.tell(TopicsDeleted(frozenset({"orders"})))
    await office.lead(epoch=3)

    office.replicas.is_holding_reads = False
    office.replicas.release()
    await office.rest()

    assert tombstones(office) == [ORDERS]
    assert await office.committed() == -1


# --- ZooKeeper ------------------------------------------------------------------------------------


async def test_old_consumers_offsets_are_znodes(office):
    keeper = office.world.keeper
    assert await read_offsets(keeper, GROUP, (ORDERS,)) == {ORDERS: -1}

    await write_offsets(keeper, GROUP, {ORDERS: 12, BILLS: 0})
    await write_offsets(keeper, GROUP, {ORDERS: 13})

    assert (await keeper.get("/consumers/readers/offsets/orders/0")).data == b"13"
    assert await read_offsets(keeper, GROUP, (ORDERS, BILLS)) == {ORDERS: 13, BILLS: 0}
    assert await office.committed() == -1  # another world


async def test_a_malformed_old_offset_is_told(office):
    path = "/consumers/readers/offsets/orders/0"
    await write_offsets(office.world.keeper, GROUP, {ORDERS: 12})
    await office.world.keeper.set(path, b"strange")

    with pytest.raises(MalformedZNode, match=path):
        await read_offsets(office.world.keeper, GROUP, (ORDERS,))


@pytest.mark.parametrize("group", ["", "a/b"])
async def test_a_group_that_is_no_part_of_a_path_has_no_old_offsets(office, group):
    with pytest.raises(ApiError) as refused:
        await write_offsets(office.world.keeper, group, {ORDERS: 12})

    assert refused.value.code is ErrorCode.INVALID_GROUP_ID
