"""The controller's queue, its end, and what the end of a session does to both."""

import asyncio
from itertools import pairwise

import pytest

from actors.controller.events import RebalanceDue
from runtime.keeper import Change, WatchEvent
from runtime.tracing import MESSAGE
from tests.support.drive import Drive
from wire.admin import (
    AlterPartitionReassignments,
    AlterPartitionReassignmentsResponse,
    ElectionType,
    ElectLeaders,
    ElectLeadersResponse,
    ListPartitionReassignments,
    ListPartitionReassignmentsResponse,
    PartitionReassignment,
)
from wire.control import (
    ControlledShutdown,
    ControlledShutdownResponse,
    LeaderAndIsr,
    StopReplica,
    UpdateMetadata,
)
from wire.errors import ErrorCode
from wire.ids import UNKNOWN_BROKER_EPOCH, BrokerId, ControllerEpoch, TopicPartition
from wire.trace import (
    BrokerRegistered,
    ControllerElected,
    ControllerEventFailed,
    ControllerResigned,
    ElectionFailed,
    LeaderElected,
    ReplicaLeftIsr,
    ResignationStep,
    SessionChanged,
)
from wire.znodes import ControllerZNode

CONTROLLER = ControllerZNode.path()
ORDERS = TopicPartition("orders", 0)
ASKED = {
    ElectLeaders(election_type=ElectionType.PREFERRED, timeout_ms=10_000): (
        ElectLeadersResponse,
        ErrorCode.NOT_CONTROLLER,
    ),
    AlterPartitionReassignments(
        partitions=(PartitionReassignment(ORDERS, (BrokerId(3), BrokerId(1))),), timeout_ms=10_000
    ): (AlterPartitionReassignmentsResponse, ErrorCode.NOT_CONTROLLER),
    ListPartitionReassignments(timeout_ms=10_000): (
        ListPartitionReassignmentsResponse,
        ErrorCode.NOT_CONTROLLER,
    ),
    ControlledShutdown(broker_id=BrokerId(3), broker_epoch=UNKNOWN_BROKER_EPOCH): (
        ControlledShutdownResponse,
        ErrorCode.STALE_CONTROLLER_EPOCH,  # as Kafka's ControllerMovedException
    ),
}


@pytest.fixture
async def drive(sim):
    return await Drive.start(sim)


def begin(drive, *requests):
    """Ask the controller, and do not wait."""
    return [asyncio.ensure_future(drive.ask(1, each, ASKED[each][0])) for each in requests]


def handled(sim):
    """The controller actor's messages on broker 1: kind, sent, begun, ended."""
    found = []
    for _, _, mark, sent, begun, ended in MESSAGE.iter_unpack(bytes(sim.trace.messages)):
        node, actor, kind, _ = sim.trace.named(mark)
        if (node, actor) == ("broker-1", "broker-1/controller"):
            found.append((kind, sent, begun, ended))
    return found


# --- one queue ------------------------------------------------------------------------------------


@pytest.mark.behaviour("B014")
async def test_watches_timers_requests_and_answers_are_handled_one_by_one_in_order(sim, drive):
    await drive.create("orders", [1, 2, 3])
    election = next(iter(ASKED))
    asked = begin(drive, election, election)
    await drive.write_topic("payments", {0: [2, 3]})
    await asyncio.gather(*asked)
    await drive.kill(3)

    rows = handled(sim)
    assert {kind for kind, *_ in rows} >= {
        "Registered",
        "WatchEvent",
        type(election).__name__,
        "LeaderAndIsrAnswered",
        "RebalanceDue",
    }
    sent = [each for _, each, _, _ in rows]
    assert sent == sorted(sent)  # first in, first out
    assert all(ended <= begun for (*_, ended), (_, _, begun, _) in pairwise(rows))


@pytest.mark.behaviour("B014")
async def test_what_waits_in_the_queue_waits_for_all_that_came_before(sim, drive):
    await drive.create("orders", [2, 3])
    sim.cut("broker-1", "zookeeper")
    _, alter, listing, _ = ASKED
    first = begin(drive, alter)
    await sim.sleep(10)
    drive.forget()
    second = begin(drive, listing)
    await sim.sleep(1_000)
    assert not any(each.done() for each in (*first, *second))  # a read alone, but behind a write

    sim.heal()
    (altered, listed) = await asyncio.gather(*first, *second)

    assert altered.error_code is listed.error_code is ErrorCode.NONE
    (move,) = listed.partitions  # what the request before it began
    assert (move.partition, move.adding_replicas, move.removing_replicas) == (ORDERS, (1,), (2,))


@pytest.mark.behaviour("B015")
async def test_an_event_finds_what_is_there_when_it_is_handled_and_the_next_finds_no_news(
    sim, drive
):
    await sim.sleep(10_000)
    sim.pause("broker-1")  # for less than its session
    for topic in ("first", "second", "third"):
        await drive.write_topic(topic, {0: [2, 3]})
    await drive.keeper.delete("/brokers/topics/second")
    await sim.sleep(100)
    drive.forget()
    sim.resume("broker-1")
    await drive.settle()

    assert [(each.topic, each.leader) for each in drive.of(LeaderElected)] == [
        ("first", 2),
        ("third", 2),
    ]
    (told,) = drive.sent(LeaderAndIsr, to=2)  # one event for all of them
    assert [each.partition.topic for each in told.partitions] == ["first", "third"]
    assert drive.of(ControllerEventFailed) == []

    drive.forget()
    session = drive.node(1).world.keeper.session
    for path in ("/brokers/topics", "/brokers/ids", "/admin/delete_topics"):
        drive.node(1).controller.ref.tell(WatchEvent(Change.CHILDREN, path, session))
    await drive.settle()

    assert drive.transactions == []
    assert drive.requests == []


# --- the end of a reign ---------------------------------------------------------------------------


@pytest.mark.behaviour("B012")
async def test_who_resigns_forgets_everything_and_hears_nothing_more(sim, drive):
    await drive.create("orders", [2, 3])
    former, node = drive.reign, drive.node(1)
    channels = [f"broker-1/controller/channel-{broker}" for broker in (1, 2, 3)]
    assert [each for each in node.system.addresses() if "channel" in each] == channels
    await drive.reassign({ORDERS: [9, 2]})  # never done: its state is watched for good
    await drive.settle()

    await drive.usurp(9)

    steps = [each.step for each in drive.of(ResignationStep)]
    assert steps == ["listeners", "scheduler", "channels", "batch"]
    assert node.controller._reign is None
    assert not node.is_controller
    assert [each for each in node.system.addresses() if "channel" in each] == []
    former.office.outbox.begin()  # its batch is empty

    drive.forget()
    before = [kind for kind, *_ in handled(sim)]
    await drive.write_topic("orders", {0: [2, 3], 1: [2, 3]})  # all that it watched changes
    await drive.write_topic("payments", {0: [2, 3]})
    await drive.keeper.set("/brokers/topics/orders/partitions/0/state", b"{}")
    await drive.keeper.create("/admin/delete_topics/orders")
    await drive.keeper.create("/admin/preferred_replica_election", b"{}")
    await drive.keeper.create("/isr_change_notification/isr_change_0000000099")
    await drive.keeper.create("/log_dir_event_notification/log_dir_event_0000000099")
    await drive.kill(3)
    await sim.sleep(400_000)  # the next rebalance of the former reign would be due

    assert [kind for kind, *_ in handled(sim)] == before  # no watch, no timer, no answer
    assert [each for each in drive.transactions if each.node == "broker-1"] == []
    assert [each for each in drive.requests if each.source == "broker-1"] == []
    kinds = [type(event) for stamp, event in drive.events if stamp.node == "broker-1"]
    assert not {LeaderElected, ElectionFailed, ReplicaLeftIsr, ControllerEventFailed} & set(kinds)


@pytest.mark.behaviour("B012")
async def test_who_is_elected_again_begins_with_nothing_of_the_former_reign(sim):
    drive = await Drive.start(sim, brokers=1)
    await drive.create("orders", [1])
    former = drive.reign
    former.office.context.shutting_down.add(BrokerId(1))
    node = drive.node(1)

    await drive.keeper.delete(CONTROLLER)
    await drive.settle()

    assert drive.reign is not former
    assert drive.context is not former.office.context
    assert (drive.context.epoch, drive.context.epoch_version) == (2, 2)
    assert drive.context.shutting_down == set()
    addresses = [each for each in node.system.addresses() if "channel" in each]
    assert addresses == ["broker-1/controller/channel-1"]
    assert drive.of(ControllerResigned)[0].controller_epoch == 1

    drive.forget()
    node.controller.ref.tell(RebalanceDue(ControllerEpoch(1)))  # of the former reign: void
    await sim.sleep(10)
    due = [at for at in node.controller._timers if not at.cancelled()]
    await drive.settle()
    assert len(due) == 1  # the timer of this reign alone
    assert drive.sent(UpdateMetadata) == drive.sent(StopReplica) == []


# --- the end of a session -------------------------------------------------------------------------


@pytest.mark.behaviour("B017", "B018")
async def test_an_expired_session_ends_the_reign_before_the_next_session_begins(sim, drive):
    drive.forget()

    sim.expire_session("broker-1")
    await drive.settle()

    of_broker_1 = [event for stamp, event in drive.events if stamp.node == "broker-1"]
    kinds = (SessionChanged, ControllerResigned, BrokerRegistered)
    czxid = drive.tree.stat("/brokers/ids/1").czxid
    assert [event for event in of_broker_1 if isinstance(event, kinds)] == [
        SessionChanged("suspended", 1),
        SessionChanged("expired", 1),
        ControllerResigned(1, 1, "its session has expired"),
        SessionChanged("connected", 2),
        BrokerRegistered(1, czxid, 2),
    ]


@pytest.mark.behaviour("B017", "B019")
async def test_what_waited_when_the_session_expired_is_dropped_and_answered(sim, drive):
    await drive.create("orders", [2, 3])
    before = drive.tree.get("/brokers/topics/orders").data
    elect, alter, listing, goodbye = ASKED
    sim.cut("broker-1", "zookeeper")
    asked = begin(drive, alter)  # it is being handled, and waits for ZooKeeper
    await sim.sleep(10)
    asked += begin(drive, elect, alter, listing, goodbye)
    await drive.write_topic("payments", {0: [2, 3]})
    await sim.sleep(10)
    assert len(drive.node(1).controller.inbox.queue) == 4
    drive.forget()

    sim.expire_session("broker-1")
    sim.heal()
    answers = [each.error_code for each in await asyncio.gather(*asked)]
    await drive.settle()

    assert answers == [ASKED[each][1] for each in (alter, elect, alter, listing, goodbye)]
    assert drive.tree.get("/brokers/topics/orders").data == before
    kinds = [kind for kind, *_ in handled(sim)]
    expired = kinds.index("Expired")
    begun = type(alter).__name__
    assert kinds[expired - 1 : expired + 2] == [begun, "Expired", "Registered"]


@pytest.mark.behaviour("B019")
async def test_what_waits_when_the_broker_stops_is_answered(sim, drive):
    """Kafka drops its queue at a shutdown; here what waits is done, and answered by that."""
    await drive.create("orders", [2, 3])
    _, alter, listing, _ = ASKED
    sim.cut("broker-1", "zookeeper")
    asked = begin(drive, alter, listing, listing)
    await sim.sleep(10)
    assert len(drive.node(1).controller.inbox.queue) == 2

    stopping = asyncio.ensure_future(drive.node(1).system.stop())
    await sim.sleep(10)
    sim.heal()
    answers = await asyncio.gather(*asked)
    await stopping

    assert [each.error_code for each in answers] == [ErrorCode.NONE] * 3
    assert drive.of(ControllerResigned) == [ControllerResigned(1, 1, "the broker stops")]


@pytest.mark.behaviour("B018")
async def test_a_new_session_registers_the_broker_anew_and_then_stands(sim):
    drive = await Drive.start(sim, brokers=1)
    before = drive.tree.stat("/brokers/ids/1").czxid
    drive.forget()

    sim.expire_session("broker-1")
    await drive.settle()

    czxid = drive.tree.stat("/brokers/ids/1").czxid
    assert czxid > before
    kinds = (BrokerRegistered, ControllerResigned, ControllerElected)
    assert [event for _, event in drive.events if isinstance(event, kinds)] == [
        ControllerResigned(1, 1, "its session has expired"),
        BrokerRegistered(1, czxid, 2),
        ControllerElected(1, 2, 2),
    ]
    assert drive.node(1).replica_manager.fence.broker_epoch == czxid
    assert drive.node(1).broker_epoch == czxid
    assert drive.context.brokers[BrokerId(1)].epoch == czxid


@pytest.mark.behaviour("B017", "B018")
async def test_who_lost_its_session_is_not_active_until_it_wins_again(sim, drive, monkeypatch):
    """The server may be slow to remove what the dead session owned: that is no office."""
    monkeypatch.setattr(drive.tree, "ephemerals_of", lambda session: ())
    sim.expire_session("broker-1")
    await sim.until(lambda: drive.node(1).world.keeper.session == 2)
    await drive.settle()
    assert ControllerZNode.decode(drive.tree.get(CONTROLLER).data).broker == 1

    assert not any(node.is_controller for node in drive.cluster.nodes.values())

    await drive.keeper.delete(CONTROLLER)  # now the server has come to it
    await drive.settle()

    assert sum(node.is_controller for node in drive.cluster.nodes.values()) == 1
    assert drive.context.epoch == 2


@pytest.mark.behaviour("B021")
async def test_a_write_whose_connection_is_lost_is_sent_again_and_recognised(sim, drive):
    sim.lose_reply("broker-1")  # of the topic's new id
    drive.at_first(LeaderElected, lambda: sim.lose_reply("broker-1"))
    await drive.create("orders", [2, 3])
    sim.lose_reply("broker-1")  # of the election
    await drive.kill(2)

    elected = [(each.leader, each.leader_epoch) for each in drive.of(LeaderElected)]
    assert elected == [(2, 0), (3, 1)]
    assert drive.of(ElectionFailed) == drive.of(ControllerEventFailed) == []
    assert drive.context.leaderships[ORDERS].partition_epoch == drive.version("orders")


@pytest.mark.behaviour("B021")
async def test_a_write_whose_session_is_lost_is_not_sent_again(sim, drive):
    await drive.create("orders", [2, 3])
    sim.cut("broker-1", "zookeeper")
    _, alter, *_ = ASKED
    (asked,) = begin(drive, alter)
    await sim.sleep(10)
    drive.forget()

    sim.expire_session("broker-1")
    sim.heal()
    answer = await asked
    await drive.settle()

    assert answer.error_code is ErrorCode.NOT_CONTROLLER
    failed = [event for _, event in drive.events if isinstance(event, ControllerEventFailed)]
    assert [(each.event, each.error.partition("(")[0]) for each in failed] == [
        ("AlterPartitionReassignments", "KeeperSessionLost")
    ]
    touched = {
        part.path
        for each in drive.transactions
        if each.node == "broker-1"
        for part in each.operations
    }
    assert touched <= {"/brokers/ids/1", CONTROLLER, "/controller_epoch"}
