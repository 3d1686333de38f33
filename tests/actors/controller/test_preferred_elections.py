"""Leaders elected because somebody asks for it, or by the clock: B112 to B115."""

import pytest

from runtime.keeper import NodeExists
from tests.support.drive import Drive
from wire.admin import ElectionType, ElectLeaders, ElectLeadersResponse
from wire.control import LeaderAndIsr, UpdateMetadata
from wire.errors import ErrorCode
from wire.ids import TopicPartition
from wire.trace import ControllerElected, ElectionFailed, LeaderElected
from wire.znodes import PartitionState

ZNODE = "/admin/preferred_replica_election"
PREFERRED = "PreferredReplicaPartitionLeaderElectionStrategy"
ORDERS, BILLS = TopicPartition("orders", 0), TopicPartition("bills", 0)
FIRST_CHECK_MS, CHECK_INTERVAL_MS = 5_000, 300_000


@pytest.fixture
async def drive(sim):
    """Leadership drifts and stays where it is, until somebody asks."""
    return await Drive.start(sim, overrides={"auto_leader_rebalance_enable": False})


@pytest.fixture
async def balanced(sim):
    """Leadership comes back by the clock."""
    return await Drive.start(sim)


async def drift(drive, broker=2):
    """Let all that a broker leads be led by others; the broker comes back in sync."""
    await drive.kill(broker)
    await drive.restart(broker)
    drive.forget()


async def elect(drive, *partitions, kind=ElectionType.PREFERRED, to=1, timeout_ms=30_000):
    """Ask a broker to elect leaders: its answer as a dict."""
    request = ElectLeaders(election_type=kind, partitions=partitions or None, timeout_ms=timeout_ms)
    answer = await drive.ask(to, request, ElectLeadersResponse)
    assert answer.error_code is ErrorCode.NONE
    return {each.partition: each.error_code for each in answer.partitions}


def elections(drive):
    return [
        (each.topic, each.partition, each.leader, each.reason) for each in drive.of(LeaderElected)
    ]


# --- the znode ------------------------------------------------------------------------------------


@pytest.mark.behaviour("B112", "B065")
async def test_the_preferred_replicas_of_the_listed_partitions_lead_again(drive):
    await drive.create("orders", {0: [2, 3], 1: [2, 3]})
    await drift(drive)
    before = drive.state("orders")
    assert before == PartitionState(controller_epoch=1, leader=3, leader_epoch=1, isr=(3, 2))

    await drive.prefer(ORDERS)
    await drive.settle()

    assert elections(drive) == [("orders", 0, 2, PREFERRED)]
    assert drive.state("orders") == PartitionState(
        controller_epoch=1, leader=2, leader_epoch=before.leader_epoch + 1, isr=before.isr
    )
    assert drive.state("orders", 1).leader == 3
    assert drive.hosted(2, "orders").is_leader
    assert [drive.cached(each, "orders").leader for each in (1, 2, 3)] == [2, 2, 2]
    assert {each.to for each in drive.requests if isinstance(each.request, LeaderAndIsr)} == {2, 3}
    assert not drive.exists(ZNODE)


@pytest.mark.behaviour("B112")
async def test_the_znode_goes_although_nothing_could_be_elected_and_the_next_one_is_heeded(drive):
    await drive.create("orders", [2, 3])
    await drive.create("doomed", [2, 3])
    await drive.create("bills", [1, 2])
    await drift(drive, 1)
    assert drive.state("bills").leader == 2
    await drive.kill(2)
    await drive.delete("doomed")
    await drive.settle()
    drive.forget()

    stranger = TopicPartition("nobody.knows.it", 7)
    await drive.prefer(ORDERS, stranger, TopicPartition("doomed", 0))
    await drive.settle()

    assert not drive.exists(ZNODE)
    assert elections(drive) == []
    assert [(each.topic, each.strategy) for each in drive.of(ElectionFailed)] == [
        ("orders", PREFERRED)
    ]
    assert drive.state("orders").leader == 3

    await drive.restart(2)
    await drive.prefer(ORDERS)
    await drive.settle()

    assert drive.state("orders").leader == 2
    assert not drive.exists(ZNODE)


@pytest.mark.behaviour("B112")
async def test_a_request_made_the_moment_the_last_one_is_gone_is_not_missed(sim, drive):
    await drive.create("orders", [2, 3])
    await drive.create("bills", [2, 3])
    await drift(drive)
    await drive.prefer(ORDERS)
    for _ in range(100):
        try:
            await drive.prefer(BILLS)
            break
        except NodeExists:  # for the tool, a request while there is one is an error
            continue
    await drive.settle()

    assert elections(drive) == [("orders", 0, 2, PREFERRED), ("bills", 0, 2, PREFERRED)]
    assert not drive.exists(ZNODE)


@pytest.mark.behaviour("B112")
async def test_asking_while_a_request_is_there_is_an_error_for_the_tool(sim, drive):
    sim.pause("broker-1")
    await drive.prefer(ORDERS)

    with pytest.raises(NodeExists):
        await drive.prefer(BILLS)


# --- the request ----------------------------------------------------------------------------------


@pytest.mark.behaviour("B113")
async def test_each_partition_gets_its_own_answer(sim, drive):
    for topic in ("orders", "bills", "lagging", "doomed"):
        await drive.create(topic, [2, 3])
    await drift(drive, 2)
    await drive.create("needless", [2, 3])
    names = ("orders", "bills", "lagging", "doomed", "needless", "unknown")
    at = {name: TopicPartition(name, 0) for name in names}
    drive.shrink(2, at["lagging"])
    sim.hold("broker-1", "broker-2")  # the deletion cannot end
    await drive.delete("doomed")
    await sim.settle()
    drive.forget()

    answers = await elect(drive, *at.values(), TopicPartition("orders", 9), timeout_ms=0)

    assert answers == {
        at["orders"]: ErrorCode.NONE,
        at["bills"]: ErrorCode.NONE,
        at["lagging"]: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        at["doomed"]: ErrorCode.INVALID_TOPIC_EXCEPTION,
        at["needless"]: ErrorCode.ELECTION_NOT_NEEDED,
        at["unknown"]: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        TopicPartition("orders", 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert elections(drive) == [("orders", 0, 2, PREFERRED), ("bills", 0, 2, PREFERRED)]


@pytest.mark.behaviour("B113")
async def test_a_preferred_replica_that_is_dead_is_not_available(drive):
    await drive.create("orders", [2, 3])
    await drive.kill(2)
    before = drive.state("orders")

    assert await elect(drive, ORDERS) == {ORDERS: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}
    assert drive.state("orders") == before


@pytest.mark.behaviour("B113", "B062")
async def test_an_unclean_election_is_forced_only_where_there_is_no_live_leader(drive):
    await drive.create("orders", [2, 3])
    await drive.create("bills", [1, 3])
    await drive.create("lost", [2])
    drive.shrink(3, ORDERS)
    await drive.settle()
    await drive.kill(2)
    assert drive.state("orders") == PartitionState(
        controller_epoch=1, leader=-1, leader_epoch=1, isr=(2,)
    )
    lost = TopicPartition("lost", 0)

    answers = await elect(drive, ORDERS, BILLS, lost, kind=ElectionType.UNCLEAN)

    assert answers == {
        ORDERS: ErrorCode.NONE,
        BILLS: ErrorCode.ELECTION_NOT_NEEDED,
        lost: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
    }
    assert drive.state("orders") == PartitionState(
        controller_epoch=1, leader=3, leader_epoch=2, isr=(3,)
    )
    assert drive.of(LeaderElected)[-1].is_unclean
    assert drive.reign.office.partitions.unclean_elections == 1
    assert drive.state("bills").leader_epoch == 0


@pytest.mark.behaviour("B113")
async def test_who_is_not_the_controller_says_so(drive):
    request = ElectLeaders(
        election_type=ElectionType.PREFERRED, partitions=(ORDERS,), timeout_ms=1_000
    )

    answer = await drive.ask(3, request, ElectLeadersResponse)

    assert answer.error_code is ErrorCode.NOT_CONTROLLER


@pytest.mark.behaviour("B113")
async def test_asked_for_all_the_answer_names_only_those_where_it_was_needed(drive):
    await drive.create("orders", {0: [2, 3], 1: [3, 2]})
    await drive.create("lagging", [2, 3])
    await drift(drive)
    drive.shrink(2, TopicPartition("lagging", 0))
    await drive.settle()

    assert await elect(drive) == {
        ORDERS: ErrorCode.NONE,
        TopicPartition("lagging", 0): ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    }


@pytest.mark.behaviour("B113")
async def test_the_answer_comes_when_clients_of_the_controllers_broker_see_the_leader(sim, drive):
    await drive.create("orders", [2, 3])
    await drift(drive)
    begin = sim.now_ms

    assert await elect(drive, ORDERS) == {ORDERS: ErrorCode.NONE}

    assert drive.cached(1, "orders").leader == 2
    assert sim.now_ms - begin < 1_000


@pytest.mark.behaviour("B113")
async def test_the_answer_comes_at_the_timeout_when_metadata_is_late(sim, drive):
    await drive.create("orders", [2, 3])
    await drift(drive)
    sim.hold("broker-1", "broker-1")  # the controller's words to its own broker
    begin = sim.now_ms

    answer = await elect(drive, ORDERS, timeout_ms=2_000)

    assert answer == {ORDERS: ErrorCode.NONE}
    assert 2_000 <= sim.now_ms - begin < 2_100
    assert drive.state("orders").leader == 2
    assert drive.cached(1, "orders").leader == 3
    assert drive.sent(UpdateMetadata, 1) != []


# --- the clock ------------------------------------------------------------------------------------


def checks(sim):
    """Which nodes looked at the balance, and when."""
    handled = sim.trace.handled(sim.trace.drain().messages)
    return [
        (stamp.node, stamp.time_us) for stamp, each in handled if each.message == "RebalanceDue"
    ]


@pytest.mark.behaviour("B114")
async def test_the_balance_is_looked_at_after_five_seconds_and_then_every_five_minutes(
    sim, balanced
):
    begin_us = next(
        stamp.time_us for stamp, each in balanced.events if isinstance(each, ControllerElected)
    )
    await sim.sleep(FIRST_CHECK_MS + 3 * CHECK_INTERVAL_MS)

    after_ms = [(at_us - begin_us) / 1_000 for _, at_us in checks(sim)]
    assert FIRST_CHECK_MS <= after_ms[0] < FIRST_CHECK_MS + 200  # taking office takes its time
    assert [round(each - after_ms[0]) for each in after_ms] == [
        CHECK_INTERVAL_MS * number for number in range(4)
    ]


@pytest.mark.behaviour("B114")
async def test_a_broker_gets_back_what_prefers_it_when_more_than_a_tenth_is_led_elsewhere(
    sim, balanced
):
    """Ten partitions prefer broker 2 and ten prefer broker 3; two and one of them drift."""
    drive = balanced
    await drive.create("twos", {number: [2, 1] for number in range(10)})
    await drive.create("threes", {number: [3, 1] for number in range(10)})
    await sim.sleep(CHECK_INTERVAL_MS // 2)
    await drift(drive, 2)
    await drift(drive, 3)
    back = [TopicPartition("twos", number) for number in range(2, 10)]
    back += [TopicPartition("threes", number) for number in range(1, 10)]
    assert set((await elect(drive, *back)).values()) == {ErrorCode.NONE}
    drive.forget()

    await sim.sleep(CHECK_INTERVAL_MS)
    await drive.settle()

    assert elections(drive) == [("twos", 0, 2, PREFERRED), ("twos", 1, 2, PREFERRED)]
    assert drive.state("threes").leader == 1  # a tenth is not more than a tenth


@pytest.mark.behaviour("B114")
async def test_each_broker_has_its_own_share_and_limit_comes_from_the_config(sim):
    drive = await Drive.start(
        sim,
        overrides={
            "leader_imbalance_per_broker_percentage": 50,
            "leader_imbalance_check_interval_seconds": 100,
        },
    )
    await drive.create("twos", {0: [2, 1], 1: [2, 1]})
    await drive.create("threes", {0: [3, 1], 1: [3, 1]})
    await drift(drive, 2)
    await drift(drive, 3)
    await elect(drive, TopicPartition("twos", 1))
    drive.forget()

    await sim.sleep(100_000)
    await drive.settle()

    assert elections(drive) == [("threes", 0, 3, PREFERRED), ("threes", 1, 3, PREFERRED)]


@pytest.mark.behaviour("B114")
async def test_a_controller_that_has_resigned_looks_no_more(sim, balanced):
    sim.expire_session("broker-1")
    await balanced.settle()
    assert balanced.controller_id != 1
    sim.trace.drain()

    await sim.sleep(2 * CHECK_INTERVAL_MS)

    looked = [node for node, _ in checks(sim)]
    assert looked.count(f"broker-{balanced.controller_id}") == 2
    assert looked.count("broker-1") <= 1  # the timer that was running, and found nobody


async def next_check(drive):
    await drive.sim.sleep(CHECK_INTERVAL_MS)
    await drive.settle()


@pytest.mark.behaviour("B115")
async def test_preferred_replicas_that_are_dead_or_out_of_sync_are_passed_over(sim, balanced):
    drive = balanced
    await drive.create("orders", [2, 1])
    await drive.create("lagging", [2, 1])
    await drive.create("dead", [3, 1])
    await drive.kill(3)
    await drift(drive, 2)
    drive.shrink(2, TopicPartition("lagging", 0))
    await next_check(drive)

    assert elections(drive) == [("orders", 0, 2, PREFERRED)]
    assert drive.of(ElectionFailed) == []  # not even tried
    assert (drive.state("lagging").leader, drive.state("dead").leader) == (1, 1)


@pytest.mark.behaviour("B115")
async def test_nothing_is_rebalanced_while_anything_moves(sim, balanced):
    drive = balanced
    await drive.create("orders", [2, 1])
    await drive.create("bills", [1])
    await drift(drive, 2)
    await drive.kill(3)
    await drive.reassign({BILLS: [1, 3]})  # which waits for broker 3
    drive.forget()

    await next_check(drive)
    assert elections(drive) == []

    await drive.restart(3)
    assert drive.context.reassigning == {}
    drive.forget()
    await next_check(drive)
    assert elections(drive) == [("orders", 0, 2, PREFERRED)]


@pytest.mark.behaviour("B115", "B097")
async def test_topics_queued_for_deletion_are_not_rebalanced(sim):
    """A new controller finds the request, and a dead replica that makes the deletion wait."""
    drive = await Drive.start(sim, brokers=4)
    await drive.create("orders", [2, 3, 4])
    await drive.create("bills", [2, 3, 4])
    await drift(drive, 2)
    await drive.kill(4)
    drive.cluster.kill(1)
    await drive.delete("orders")
    drive.forget()

    await drive.settle()  # a new controller looks at the balance after five seconds

    assert elections(drive) == [("bills", 0, 2, PREFERRED)]
    assert drive.state("orders").leader == 3
    assert 2 in drive.state("orders").isr
    assert drive.context.is_queued_for_deletion("orders")
