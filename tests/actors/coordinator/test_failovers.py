"""I-25: who reads after an acknowledged commit sees it or a later one, whoever fails (B176, B177).

A test that says how long an old answer may be given says what is not promised.
"""

import asyncio

import pytest

from actors.broker.replica_manager import LogDirFailed
from actors.controller.channel import TIMEOUT_MS
from actors.coordinator.records import OFFSETS_TOPIC
from actors.names import node_name
from tests.actors.coordinator.shop import ORDERS, Diary, Shop
from wire.errors import ApiError, ErrorCode
from wire.trace import GroupOffsetsUnloaded, RecordsAppended

pytestmark = pytest.mark.behaviour("B176", "B177")

LAG_MS = 10_000
SESSION_MS = 6_000
FLUSHED_MS = 10_000  # two rounds of upkeep
TRY_ELSEWHERE = {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}


@pytest.fixture
async def shop(sim):
    shop = await Shop.open(sim, replica_lag_time_max_ms=LAG_MS)
    await shop.commit(0)
    await sim.settle()
    return shop


# --- faults while a group commits and reads -------------------------------------------------------


async def kill(shop, victim):
    shop.cluster.kill(victim)


async def kill_and_restart(shop, victim):
    shop.cluster.kill(victim)
    await shop.cluster.start_broker(victim)


async def kill_with_its_session(shop, victim):
    shop.drive.vanish(victim)


async def stop(shop, victim):
    await shop.cluster.stop_broker(victim)


async def pause_past_the_session(shop, victim):
    shop.sim.pause(node_name(victim))
    await shop.sim.sleep(20_000)
    shop.sim.resume(node_name(victim))


async def pause_within_the_session(shop, victim):
    shop.sim.pause(node_name(victim))
    await shop.sim.sleep(2_000)
    shop.sim.resume(node_name(victim))


async def expire_the_session(shop, victim):
    shop.sim.expire_session(node_name(victim))


async def cut_off_from_the_brokers(shop, victim):
    shop.cut_off(victim, *shop.others)
    await shop.sim.sleep(3 * LAG_MS)
    shop.sim.heal()


async def cut_off_from_zookeeper(shop, victim):
    shop.sim.cut(node_name(victim), "zookeeper")
    await shop.sim.sleep(3 * LAG_MS)
    shop.sim.heal()


async def cut_off_from_all_but_clients(shop, victim):
    shop.cut_off(victim, *shop.others)
    await cut_off_from_zookeeper(shop, victim)


async def fail_its_disk(shop, victim):
    failed = LogDirFailed(frozenset({shop.shard}))
    shop.drive.node(victim).replica_manager.ref.tell(failed)


async def move_the_partition_away(shop, victim):
    await shop.drive.reassign({shop.shard: shop.others})


async def prefer_another_leader(shop, victim):
    await shop.drive.reassign({shop.shard: [*shop.others, victim]})
    await shop.sim.sleep(2_000)
    await shop.drive.prefer(shop.shard)


async def kill_the_controller(shop, victim):
    shop.cluster.kill(shop.drive.controller_id)


MOVES = [
    kill,
    kill_with_its_session,
    stop,
    pause_past_the_session,
    expire_the_session,
    cut_off_from_zookeeper,
    cut_off_from_all_but_clients,
    fail_its_disk,
    move_the_partition_away,
    prefer_another_leader,
]
STAYS = [kill_and_restart, pause_within_the_session, cut_off_from_the_brokers, kill_the_controller]


@pytest.mark.parametrize("fault", [*MOVES, *STAYS], ids=lambda fault: fault.__name__)
async def test_nothing_acknowledged_is_unseen_afterwards(sim, shop, fault):
    former = shop.coordinator
    async with Diary(shop) as diary:
        await diary.advance()
        await fault(shop, former)
        await sim.sleep(500)
        await diary.advance()
        acknowledged = diary.acknowledged

    assert diary.stale == []
    assert await shop.committed() >= acknowledged
    if fault in MOVES:
        assert shop.coordinator != former


@pytest.mark.parametrize("fault", [kill_and_restart, expire_the_session], ids=lambda f: f.__name__)
async def test_nothing_is_unseen_when_one_coordinator_after_the_other_fails(sim, shop, fault):
    async with Diary(shop) as diary:
        for _ in range(6):
            await fault(shop, shop.coordinator)
            await diary.advance()
            await sim.sleep(1_000)

    assert diary.stale == []
    assert diary.refused == 0


async def test_the_group_goes_on_where_its_partition_was_moved_and_moved_back(sim, shop):
    former = shop.coordinator
    others = shop.others
    async with Diary(shop) as diary:
        for replicas in (others, [former, others[1]], [former, *others]):
            await shop.drive.reassign({shop.shard: replicas})
            await sim.until(lambda: not shop.drive.exists("/admin/reassign_partitions"))
            await diary.advance()

    assert diary.stale == []
    assert shop.coordinator == former


# --- one commit -----------------------------------------------------------------------------------


async def test_a_commit_survives_its_coordinator(shop):
    await shop.commit(5)
    former = shop.coordinator

    await shop.drive.kill(former)

    assert await shop.committed() == 5
    assert shop.coordinator != former


async def test_a_commit_whose_coordinator_dies_over_it_is_done_by_the_next_one(sim, shop):
    former = shop.coordinator
    shop.drive.at_first(
        RecordsAppended,
        lambda: sim.loop.call_soon(shop.cluster.kill, former),
        lambda event: event.topic == OFFSETS_TOPIC,
    )

    await shop.commit(5)

    assert shop.coordinator != former
    assert await shop.committed() == 5


async def test_a_coordinator_without_followers_acknowledges_nothing(sim, shop):
    """Neither while it waits for them nor when they have left the ISR."""
    await shop.commit(5)
    former = shop.coordinator
    shop.cut_off(former, *shop.others)

    while len(shop.drive.state(OFFSETS_TOPIC, shop.shard.partition).isr) > 1:
        assert await shop.commit_at(former, 6) in TRY_ELSEWHERE
        assert await shop.committed_at(former) == 5
    assert await shop.commit_at(former, 7) in TRY_ELSEWHERE
    assert await shop.committed_at(former) == 5

    sim.heal()
    await shop.drive.settle()
    await shop.commit(8)
    assert await shop.committed() == 8


async def test_a_commit_under_way_when_the_leadership_goes_is_refused_or_there(sim, shop):
    former = shop.coordinator
    shop.cut_off(former, *shop.others)
    answer = asyncio.create_task(shop.commit_at(former, 6))
    await sim.sleep(100)
    sim.expire_session(node_name(former))
    await sim.sleep(1_000)
    sim.heal()
    await shop.drive.settle()

    code = await answer
    assert code in TRY_ELSEWHERE
    assert await shop.committed() in {0, 6}


async def test_a_deposed_coordinator_says_so_when_it_has_heard_of_it(sim, shop):
    await shop.commit(5)
    former = shop.coordinator
    shop.drive.forget()

    sim.expire_session(node_name(former))
    await shop.drive.settle()

    assert await shop.commit_at(former, 6) is ErrorCode.NOT_COORDINATOR
    assert await shop.committed_at(former) is ErrorCode.NOT_COORDINATOR
    number = shop.shard.partition
    unloaded = [each for each in shop.drive.of(GroupOffsetsUnloaded) if each.partition == number]
    assert [(each.leader_epoch, each.reason) for each in unloaded] == [(0, "led no longer")]


# --- what is not promised -------------------------------------------------------------------------


async def until_it_is_silent(shop, broker, limit_ms=60_000):
    """How long a broker goes on to say what it has in memory."""
    begun = shop.sim.now_ms
    while shop.sim.now_ms < begun + limit_ms:
        if isinstance(await shop.committed_at(broker), ErrorCode):
            return shop.sim.now_ms - begun
        await shop.sim.sleep(1)
    return limit_ms


async def test_who_wakes_up_deposed_answers_for_a_moment_from_memory(sim, shop):
    former = shop.coordinator
    sim.pause(node_name(former))
    await sim.until(lambda: shop.coordinator != former)
    await shop.commit(5)
    assert await shop.committed() == 5

    sim.resume(node_name(former))

    assert await until_it_is_silent(shop, former) < 1_000


async def test_whose_session_ended_answers_for_a_moment_from_memory(sim, shop):
    former = shop.coordinator

    sim.expire_session(node_name(former))

    assert await until_it_is_silent(shop, former) < 1_000


async def test_who_is_cut_off_from_zookeeper_falls_silent_before_another_is_elected(sim, shop):
    former = shop.coordinator
    sim.cut(node_name(former), "zookeeper")

    silent_after = await until_it_is_silent(shop, former)

    assert silent_after < SESSION_MS + 50
    assert shop.coordinator == former
    await sim.until(lambda: shop.coordinator != former)


async def test_who_is_deposed_behind_its_back_answers_from_memory_until_it_hears_of_it(sim, shop):
    """With a session and without the controller: as in Kafka, there is no limit to it."""
    former, others = shop.coordinator, shop.others
    shop.cut_off(former, *others)
    await shop.drive.reassign({shop.shard: [*others, former]})
    await sim.sleep(1_000)
    await shop.drive.prefer(shop.shard)
    await sim.until(lambda: len(shop.drive.state(OFFSETS_TOPIC, shop.shard.partition).isr) == 2)
    assert shop.coordinator != former
    assert await shop.commit_at(shop.coordinator, 5) is ErrorCode.NONE

    assert await shop.committed_at(former) == 0
    assert await shop.commit_at(former, 6) in TRY_ELSEWHERE

    sim.heal()
    assert await until_it_is_silent(shop, former) < TIMEOUT_MS + 1_000


# --- all of them ----------------------------------------------------------------------------------


async def test_offsets_outlive_a_stop_of_all_brokers(shop):
    await shop.commit(5)
    for broker in shop.cluster.brokers:
        await shop.cluster.stop_broker(broker, retries=0)

    await shop.cluster.start_nodes()
    await shop.drive.settle()

    assert await shop.committed() == 5
    await shop.commit(6)
    assert await shop.committed() == 6


async def test_offsets_outlive_a_power_cut_of_all_if_they_are_flushed(sim):
    shop = await Shop.open(sim, log_flush_interval_messages=1)
    await shop.commit(5)
    await sim.sleep(FLUSHED_MS)
    for broker in shop.cluster.brokers:
        shop.cluster.kill(broker)

    await shop.cluster.start_nodes()
    await shop.drive.settle()

    assert await shop.committed() == 5


async def test_what_one_broker_lost_in_a_power_cut_comes_back_from_the_others(sim, shop):
    victim = shop.coordinator
    sim.lose_unsynced(node_name(victim))
    for offset in range(1, 6):
        await shop.commit(offset)
    await shop.drive.kill(victim)
    await shop.cluster.start_broker(victim)
    await shop.drive.settle()
    assert await shop.committed() == 5

    await shop.drive.prefer(shop.shard)
    await shop.drive.settle()

    assert shop.coordinator == victim
    assert await shop.committed() == 5
    assert shop.changes_on(victim) == shop.changes_on(shop.others[0])


async def test_a_group_whose_only_coordinator_is_gone_waits_for_it(sim):
    alone = {"offsets_topic_replication_factor": 1, "min_insync_replicas": 1}
    shop = await Shop.open(sim, **alone, log_flush_interval_messages=1)
    await shop.commit(5)
    await sim.sleep(FLUSHED_MS)
    only = shop.coordinator
    await shop.drive.kill(only)
    with pytest.raises(ApiError):
        await shop.commit(6, timeout_ms=3_000)

    await shop.drive.restart(only)

    assert await shop.committed() == 5
    await shop.commit(6)
    assert await shop.committed(ORDERS) == 6
