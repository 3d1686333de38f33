"""A new controller takes office: in which order, and what it then knows (B027 to B034)."""

import asyncio

import pytest

from actors.controller.context import Broker, Leadership, PartitionPhase, Replica, ReplicaPhase
from tests.support.drive import Drive
from tests.support.states import state
from wire.admin_znodes import (
    IsrChangeNotificationZNode,
    LogDirEventNotificationZNode,
    ReassignPartitionsZNode,
)
from wire.control import (
    ControlledShutdown,
    ControlledShutdownResponse,
    LeaderAndIsr,
    UpdateMetadata,
)
from wire.ids import BrokerId, TopicPartition
from wire.trace import (
    ControllerElected,
    FailoverStep,
    KeeperOperation,
    LeaderElected,
    ReassignmentStep,
    ReplicaStateChanged,
    TopicDeletionStep,
)
from wire.znodes import BrokerIdZNode, ReplicaAssignment, TopicZNode

STEPS = [
    "features",
    "listeners",
    "notifications",
    "brokers",
    "topics",
    "deletions",
    "metadata",
    "replica states",
    "partition states",
    "reassignments",
    "pending deletions",
    "preferred elections",
]
OPERATIONS = 20  # at least so many of ZooKeeper does it take to take office


@pytest.fixture
async def drive(sim):
    # No election but those that a test asks for.
    return await Drive.start(sim, brokers=4, overrides={"auto_leader_rebalance_enable": False})


def at_step(drive, step, act):
    """Act in the middle of the next failover, when this step has just been done."""
    drive.at_first(FailoverStep, act, lambda event: event.step == step)


# --- the order ------------------------------------------------------------------------------------


@pytest.mark.behaviour("B027")
async def test_a_new_controller_takes_office_in_one_order(drive):
    await drive.create("orders", [2, 3])
    drive.forget()

    await drive.kill(1)

    assert [(event.controller_epoch, event.step) for event in drive.of(FailoverStep)] == [
        (2, step) for step in STEPS
    ]
    (elected,) = drive.of(ControllerElected)
    own = [
        (event.operation, event.path)
        for stamp, event in drive.events
        if isinstance(event, KeeperOperation) and stamp.node == f"broker-{elected.broker}"
    ]
    begin = own.index(("exists", "/feature"))
    assert own[begin : begin + 10] == [
        ("exists", "/feature"),
        ("children", "/brokers/ids"),
        ("children", "/brokers/topics"),
        ("children", "/admin/delete_topics"),
        ("children", "/log_dir_event_notification"),
        ("children", "/isr_change_notification"),
        ("exists", "/admin/preferred_replica_election"),
        ("exists", "/admin/reassign_partitions"),
        ("children", "/log_dir_event_notification"),
        ("children", "/isr_change_notification"),
    ]
    rest = [each for each in own[begin + 10 :] if each[0] == "children" or "orders" in each[1]]
    assert rest[:5] == [
        ("children", "/brokers/ids"),
        ("children", "/brokers/topics"),
        ("get", "/brokers/topics/orders"),
        ("read", "/brokers/topics/orders/partitions/0/state"),
        ("children", "/admin/delete_topics"),
    ]


@pytest.mark.behaviour("B027")
async def test_notes_left_for_the_former_controller_are_deleted_unread(drive):
    orders = await drive.create("orders", [2, 3])
    drive.cluster.kill(1)
    for kind, data in (
        (IsrChangeNotificationZNode, IsrChangeNotificationZNode.encode([orders])),
        (LogDirEventNotificationZNode, LogDirEventNotificationZNode.encode(BrokerId(3))),
    ):
        await drive.keeper.create(kind.prefix_path(), data, sequential=True)

    await drive.settle()

    counts = {each.step: each.count for each in drive.of(FailoverStep)}
    assert counts["notifications"] == 2
    assert drive.tree.children(IsrChangeNotificationZNode.folder) == ()
    assert drive.tree.children(LogDirEventNotificationZNode.folder) == ()
    # Acted on, the failed disk would have meant a second LeaderAndIsr.
    assert len([each for each in drive.sent(LeaderAndIsr, 3) if each.controller_epoch == 2]) == 1


@pytest.mark.behaviour("B027")
async def test_leadership_is_rebalanced_for_the_first_time_five_seconds_after(sim):
    drive = await Drive.start(sim)
    await drive.create("orders", [2, 3])
    await drive.kill(2)
    await drive.restart(2)
    assert drive.state("orders").leader == 3
    drive.forget()

    await drive.depose()

    times = {type(event): stamp.time_us / 1000 for stamp, event in drive.events}
    assert times[LeaderElected] - times[FailoverStep] == pytest.approx(5_000, abs=10)
    assert drive.state("orders").leader == 2


@pytest.mark.behaviour("B028", "B031")
async def test_who_is_alive_is_told_before_anything_else_and_without_partitions(drive):
    # As of 0.10.2 this first UpdateMetadata told all partitions; since 2.2 it tells of none.
    await drive.create("orders", {0: [2, 3], 1: [3, 4], 2: [4, 2]})
    drive.forget()

    await drive.kill(1)

    for broker in (2, 3, 4):
        reign = [
            each.request
            for each in drive.requests
            if each.to == broker and getattr(each.request, "controller_epoch", 0) == 2
        ]
        first, second = reign[:2]
        assert isinstance(first, UpdateMetadata)
        assert first.partitions == ()
        assert [each.id for each in first.live_brokers] == [2, 3, 4]
        assert isinstance(second, LeaderAndIsr)
        assert {each.partition.partition for each in second.partitions} == {
            number for number, on in enumerate([{2, 3}, {3, 4}, {4, 2}]) if broker in on
        }


@pytest.mark.behaviour("B032")
@pytest.mark.parametrize("number", range(OPERATIONS))
async def test_a_topic_that_is_created_while_office_is_taken_is_not_missed(drive, number):
    await drive.create("orders", [2, 3])
    seen, creating = [], []

    def listen(stamp, event):
        """When ZooKeeper has answered the new controller so often, somebody creates a topic."""
        is_own = stamp.node in [f"broker-{each.broker}" for each in drive.of(ControllerElected)]
        is_over = any(each.step == STEPS[-1] for each in drive.of(FailoverStep))
        if isinstance(event, KeeperOperation) and is_own and not is_over:
            seen.append(event)
            if len(seen) == number + 1:
                creating.append(asyncio.ensure_future(drive.write_topic("born", {0: [2, 3]})))

    drive.forget()
    drive.sim.trace.listeners.append(listen)
    await drive.kill(1)

    assert len(creating) == 1
    assert drive.state("born") == state(2, 0, 2, 3, controller_epoch=2)


@pytest.mark.behaviour("B032")
@pytest.mark.parametrize("step", STEPS)
async def test_a_broker_that_dies_while_office_is_taken_is_noticed(drive, step):
    await drive.create("orders", [3, 4])
    at_step(drive, step, lambda: drive.vanish(4))
    drive.sim.cut("broker-4", "zookeeper")  # so it is not the one that takes office

    await drive.depose()

    assert drive.controller_id != 4
    assert set(drive.context.brokers) == {1, 2, 3}
    assert drive.state("orders") == state(3, 1, 3, controller_epoch=2)


# --- what is known --------------------------------------------------------------------------------


@pytest.mark.behaviour("B029")
async def test_the_context_of_a_new_controller_is_what_zookeeper_has(drive):
    orders = await drive.create("orders", [2, 3])
    moving = await drive.create("moving", [2])
    doomed = await drive.create("doomed", [3, 4])
    drive.shrink(3, orders)
    await drive.kill(4)
    await drive.reassign({moving: [4]})
    await drive.delete("doomed")
    await drive.settle()
    before = drive.context

    await drive.depose()

    context = drive.context
    assert context is not before
    assert (context.epoch, context.epoch_version) == (2, 2)
    assert context.epoch_version == drive.tree.stat("/controller_epoch").version
    for broker in (1, 2, 3):
        znode = drive.tree.get(f"/brokers/ids/{broker}")
        registration = BrokerIdZNode.decode(BrokerId(broker), znode.data)
        assert context.brokers[broker] == Broker(broker, znode.stat.czxid, registration)
    assert set(context.brokers) == {1, 2, 3}
    assert context.shutting_down == set()
    assert not any(context.offline_dirs.values())
    assert set(context.topics) == {"orders", "moving", "doomed"}
    for topic in context.topics:
        whole = TopicZNode.decode(topic, drive.tree.get(TopicZNode.path(topic)).data)
        assert context.topic_ids[topic] == whole.topic_id
        assert context.assignments[TopicPartition(topic, 0)] == whole.partitions[0]
        known = context.leaderships[TopicPartition(topic, 0)]
        assert known == Leadership.of(drive.state(topic), drive.version(topic))
    assert context.assignments[moving] == ReplicaAssignment(
        replicas=(4, 2), adding_replicas=(4,), removing_replicas=(2,)
    )
    assert context.leaderships[orders] == Leadership(2, 0, (2,), 1, 1)
    assert list(context.reassigning) == [moving]
    assert context.topics_to_delete == {"doomed": None}
    assert context.topics_ineligible == {"doomed"}
    assert context.partition_phases[orders] is PartitionPhase.ONLINE
    assert context.partition_phases[moving] is PartitionPhase.ONLINE
    phase = {each: context.replica_phase(Replica(orders, each)) for each in (2, 3)}
    assert phase == {2: ReplicaPhase.ONLINE, 3: ReplicaPhase.ONLINE}
    assert context.replica_phase(Replica(moving, BrokerId(4))) is ReplicaPhase.OFFLINE
    assert context.replica_phase(Replica(doomed, BrokerId(4))) is ReplicaPhase.OFFLINE


@pytest.mark.behaviour("B030")
async def test_a_new_controller_knows_of_no_broker_that_is_shutting_down(drive):
    goodbye = ControlledShutdown(broker_id=3, broker_epoch=drive.node(3).broker_epoch)
    await drive.ask(1, goodbye, ControlledShutdownResponse)
    assert drive.context.shutting_down == {3}

    await drive.depose()
    assert drive.context.shutting_down == set()

    await drive.ask(drive.controller_id, goodbye, ControlledShutdownResponse)
    assert drive.context.shutting_down == {3}


@pytest.mark.behaviour("B030")
async def test_a_new_controller_learns_of_failed_disks_from_refused_orders(drive):
    orders = await drive.create("orders", [2, 3])
    await drive.fail_disk(3, orders)
    assert drive.context.offline_dirs[3] == {orders: None}
    before = drive.state("orders")
    at_start = []
    at_step(drive, "partition states", lambda: at_start.append(dict(drive.context.offline_dirs)))
    drive.forget()

    await drive.depose()

    assert at_start == [{}]
    assert drive.context.offline_dirs[3] == {orders: None}
    assert [
        (each.before, each.after) for each in drive.of(ReplicaStateChanged) if each.broker == 3
    ] == [("NonExistentReplica", "OnlineReplica"), ("OnlineReplica", "OfflineReplica")]
    assert drive.state("orders") == before == state(2, 1, 2)
    assert drive.cached(4, "orders").offline_replicas == (3,)


# --- what goes on ---------------------------------------------------------------------------------


@pytest.mark.behaviour("B033")
async def test_a_move_goes_on_from_the_lists_in_the_topics_znode(drive):
    orders = await drive.create("orders", [2])
    await drive.kill(3)
    await drive.reassign({orders: [3]})
    await drive.settle()
    await drive.keeper.delete(ReassignPartitionsZNode.path())  # so only the topic's znode knows

    await drive.depose()
    assert list(drive.context.reassigning) == [orders]
    await drive.restart(3)

    assert drive.assignment("orders") == ReplicaAssignment(replicas=(3,))
    assert drive.state("orders").leader == 3
    assert drive.context.reassigning == {}


@pytest.mark.behaviour("B033")
async def test_a_request_found_in_zookeeper_comes_first_and_supplants_what_was_under_way(drive):
    first, other = await drive.create("first", [2]), await drive.create("other", [2])
    await drive.kill(4)
    await drive.reassign({other: [4], first: [4]})
    await drive.settle()
    await drive.keeper.delete(ReassignPartitionsZNode.path())  # as if the API had asked for them
    assert list(drive.context.reassigning) == [other, first]
    drive.forget()
    drive.cluster.kill(1)
    await drive.reassign({first: [3]})

    await drive.settle()

    steps = [(each.topic, each.step) for each in drive.of(ReassignmentStep)]
    assert steps[0] == ("first", "U1")
    assert steps.index(("other", "A1")) > steps.index(("first", "A2"))
    assert drive.assignment("first") == ReplicaAssignment(replicas=(3,))
    assert drive.assignment("other").adding_replicas == (4,)
    assert not drive.exists(ReassignPartitionsZNode.path())


@pytest.mark.behaviour("B034")
async def test_pending_deletions_are_loaded_and_those_that_cannot_end_wait(drive):
    for topic in ("free", "blocked", "moving", "moving-on"):
        await drive.create(topic, [2, 4] if topic == "blocked" else [2])
    moves = [TopicPartition(topic, 0) for topic in ("moving", "moving-on")]
    await drive.fail_disk(3, *moves)  # so they have nowhere to arrive, although all brokers live
    await drive.alter({each: [3] for each in moves})
    drive.cluster.kill(1)
    drive.cluster.kill(4)
    for topic in ("free", "blocked", "moving"):
        await drive.delete(topic)
    loaded = []

    def look():
        context = drive.context
        loaded.append((set(context.topics_to_delete), set(context.topics_ineligible)))

    at_step(drive, "deletions", look)
    drive.forget()

    await drive.settle()

    assert loaded == [({"free", "blocked", "moving"}, {"blocked", "moving"})]
    assert [each.topic for each in drive.of(TopicDeletionStep) if each.step == "started"] == [
        "free"
    ]
    assert drive.tree.children("/brokers/topics") == ("blocked", "moving", "moving-on")
    assert drive.tree.children("/admin/delete_topics") == ("blocked", "moving")
