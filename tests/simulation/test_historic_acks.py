"""Bugs that Kafka once had between a leader's ISR, its high watermark and who waits for them.

Each scenario runs as it is, and once more without the guard that was Kafka's answer: there it must
show the bug, or it would prove nothing.
"""

import asyncio

import pytest

from actors.broker import isr
from actors.broker.replica import Replica
from actors.names import node_name
from tests.support.data import fetch, produce, values_in
from tests.support.drive import Drive
from tests.support.states import state
from wire.errors import ErrorCode
from wire.ids import BrokerId

guarded = pytest.mark.parametrize("is_guarded", [True, False], ids=["guarded", "as it was"])
LAG_MS = 10_000
LEADER, FOLLOWER = 2, 3


@pytest.fixture
async def drive(sim):
    # Broker 1 is the controller and stays it; nobody is elected but by a test.
    overrides = {"auto_leader_rebalance_enable": False, "replica_lag_time_max_ms": LAG_MS}
    return await Drive.start(sim, overrides=overrides)


def part(drive) -> None:
    """Cut the follower off its leader; both are well, and ZooKeeper knows it."""
    drive.sim.cut(node_name(LEADER), node_name(FOLLOWER))


# --- H14, KAFKA-1382 ------------------------------------------------------------------------------


@pytest.mark.behaviour("H14")
@guarded
async def test_a_leader_whose_isr_was_written_and_not_confirmed_can_change_it_again(
    drive, monkeypatch, is_guarded
):
    if not is_guarded:
        known = isr._version

        def by_the_answer_alone(result, found, hosted, wanted):
            return known(result, None, hosted, wanted)

        monkeypatch.setattr(isr, "_version", by_the_answer_alone)
    orders = await drive.create("orders", [LEADER, FOLLOWER])
    await produce(drive, orders, b"a", acks=-1)
    drive.sim.lose_reply(node_name(LEADER))

    drive.shrink(FOLLOWER, orders)
    await drive.sim.sleep(1_000)
    assert drive.state("orders") == state(LEADER, 0, LEADER)
    await produce(drive, orders, b"b")  # the follower is well: with this it could come back
    await drive.sim.sleep(3 * LAG_MS)

    leader = drive.hosted(LEADER, "orders")
    if is_guarded:
        assert drive.state("orders") == state(LEADER, 0, LEADER, FOLLOWER)
        assert leader.partition_epoch == drive.version("orders")
    else:
        assert drive.state("orders") == state(LEADER, 0, LEADER)
        assert leader.isr == (LEADER, FOLLOWER)  # so it believes, and no write of it lands again
        assert leader.partition_epoch < drive.version("orders")


# --- H39, KAFKA-13091 -----------------------------------------------------------------------------


@pytest.mark.behaviour("H39")
@guarded
async def test_what_only_a_lost_follower_lacked_is_committed_when_it_has_left_the_isr(
    drive, monkeypatch, is_guarded
):
    if not is_guarded:
        in_sync = drive.node(LEADER).replica_manager._in_sync
        monkeypatch.setattr(in_sync, "_advance", lambda replica: None)
    orders = await drive.create("orders", [LEADER, FOLLOWER])
    await produce(drive, orders, b"a", acks=-1)
    part(drive)
    begun_ms = drive.sim.now_ms

    result = await produce(drive, orders, b"b", acks=-1, timeout_ms=40_000)

    assert drive.state("orders").isr == (LEADER,)
    waited_ms = drive.sim.now_ms - begun_ms
    if is_guarded:
        assert (result.error_code, result.base_offset) == (ErrorCode.NONE, 1)
        assert waited_ms < 2 * LAG_MS
    else:
        assert result.error_code is ErrorCode.REQUEST_TIMED_OUT
        assert waited_ms >= 40_000


@pytest.mark.behaviour("H39")
async def test_a_shrink_answers_all_who_waited_however_many_they_are(drive):
    orders = await drive.create("orders", [LEADER, FOLLOWER])
    part(drive)
    waiting = [
        asyncio.ensure_future(produce(drive, orders, b"%d" % number, acks=-1))
        for number in range(100)
    ]
    await drive.sim.sleep(2 * LAG_MS)

    results = [await each for each in waiting]

    assert {each.error_code for each in results} == {ErrorCode.NONE}
    assert sorted(each.base_offset for each in results) == list(range(100))


# --- H41, KAFKA-15583 -----------------------------------------------------------------------------


@pytest.mark.behaviour("H41")
@guarded
async def test_what_too_few_replicas_have_is_not_to_be_seen(drive, monkeypatch, is_guarded):
    if not is_guarded:
        monkeypatch.setattr(Replica, "is_under_min_isr", property(lambda self: False))
    await drive.configure("topics", "orders", min_insync_replicas="2")
    orders = await drive.create("orders", [LEADER, FOLLOWER])
    await produce(drive, orders, b"a", acks=-1)
    part(drive)
    await produce(drive, orders, b"b", acks=1)
    await drive.sim.sleep(2 * LAG_MS)
    assert drive.state("orders").isr == (LEADER,)

    await produce(drive, orders, b"c", acks=1)
    seen = values_in((await fetch(drive, orders)).records)

    if not is_guarded:
        assert seen == [b"a", b"b", b"c"]  # and lost, if the one that has them is
        return
    assert seen == [b"a"]
    drive.sim.heal()
    await drive.sim.until(lambda: BrokerId(FOLLOWER) in drive.state("orders").isr)
    await drive.sim.sleep(100)
    assert values_in((await fetch(drive, orders)).records) == [b"a", b"b", b"c"]
