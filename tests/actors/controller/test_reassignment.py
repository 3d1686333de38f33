"""A partition moves because `/admin/reassign_partitions` says so: B099 to B105, B109 to B111.

Broker 1 is the controller and holds no replica, so that whatever happens to one is a request.
"""

import json

import pytest

from actors.controller.reign import ReignWatcher
from runtime.keeper import Create, Set
from tests.support.drive import Drive
from tests.support.moves import MoveInvariants, at_rest
from wire.admin_znodes import ReassignPartitionsZNode
from wire.control import (
    ControlledShutdown,
    ControlledShutdownResponse,
    LeaderAndIsr,
    StopReplica,
    UpdateMetadata,
)
from wire.ids import BrokerEpoch, BrokerId, TopicPartition
from wire.trace import ReassignmentStep
from wire.znodes import (
    PartitionState,
    PartitionStateZNode,
    ReplicaAssignment,
    TopicAssignment,
    TopicZNode,
)

REQUEST = ReassignPartitionsZNode.path()
DAY_MS = 86_400_000
UPDATE, ADD = ["U1", "U2"], ["A1", "A2"]
FINISH = ["B1", "B2", "B3", "B4", "B6", "B7", "B8"]


@pytest.fixture
async def drive(sim):
    drive = await Drive.start(sim, brokers=5)
    invariants = MoveInvariants(drive)
    yield drive
    assert invariants.broken == []


def steps(drive, topic="orders"):
    return [each.step for each in drive.of(ReassignmentStep) if each.topic == topic]


def request_of(drive):
    return ReassignPartitionsZNode.decode(drive.tree.get(REQUEST).data)


# --- the request ----------------------------------------------------------------------------------


@pytest.mark.behaviour("B099")
async def test_a_request_is_acted_on_when_it_is_created_and_gone_when_it_is_done(drive):
    orders = await drive.create("orders", [2])

    await drive.reassign({orders: [3]})
    await drive.settle()

    assert drive.assignment("orders") == at_rest(3)
    assert not drive.exists(REQUEST)


@pytest.mark.behaviour("B099")
async def test_a_request_that_changes_is_acted_on_only_by_the_next_controller(drive):
    orders = await drive.create("orders", [2])
    users = await drive.create("users", [3])
    await drive.kill(5)
    await drive.reassign({orders: [5]})  # waits for 5
    await drive.settle()

    changed = ReassignPartitionsZNode.encode({orders: (4,), users: (4,)})
    await drive.keeper.set(REQUEST, changed)
    await drive.settle()

    assert drive.assignment("orders").adding_replicas == (5,)
    assert drive.assignment("users") == at_rest(3)
    assert steps(drive, "users") == []
    assert request_of(drive) == {orders: (4,), users: (4,)}

    await drive.kill(1)

    assert drive.assignment("orders") == at_rest(4)
    assert drive.assignment("users") == at_rest(4)
    assert not drive.exists(REQUEST)


@pytest.mark.behaviour("B099")
async def test_the_end_of_one_move_does_not_begin_the_others_of_its_request_again(drive):
    orders = await drive.create("orders", [2])
    users = await drive.create("users", [3])
    await drive.kill(5)

    await drive.reassign({orders: [5], users: [4]})
    await drive.settle()

    assert request_of(drive) == {orders: (5,)}  # the controller has changed it
    assert steps(drive, "orders") == UPDATE + ADD
    assert drive.state("orders").leader_epoch == 1


@pytest.mark.behaviour("B099")
async def test_the_next_request_is_acted_on_once_although_it_comes_as_the_former_goes(drive):
    orders = await drive.create("orders", [2])
    users = await drive.create("users", [3])
    await drive.kill(5)
    following = Create(REQUEST, ReassignPartitionsZNode.encode({users: (5,)}))

    def follow():  # the controller has yet to hear that the former one is gone, and looks then
        drive.sim.zookeeper.commit(drive.keeper._session, [following])

    drive.at_first(ReassignmentStep, follow, lambda event: event.step == "B8")
    await drive.reassign({orders: [4]})
    await drive.settle()

    assert drive.assignment("orders") == at_rest(4)
    assert steps(drive, "users") == UPDATE + ADD
    assert drive.state("users").leader_epoch == 1


@pytest.mark.behaviour("B105")
async def test_the_old_leader_is_not_stopped_before_one_of_the_target_can_lead(drive):
    orders = await drive.create("orders", [2])
    goodbye = ControlledShutdown(broker_id=BrokerId(4), broker_epoch=BrokerEpoch(-1))
    await drive.ask(1, goodbye, ControlledShutdownResponse)

    await drive.reassign({orders: [4]})  # it gets in sync, but whoever leaves is not elected
    await drive.settle()

    assert (drive.state("orders").leader, set(drive.state("orders").isr)) == (2, {2, 4})
    assert drive.assignment("orders").removing_replicas == (2,)

    drive.vanish(4)
    await drive.settle()
    await drive.restart(4)

    assert drive.assignment("orders") == at_rest(4)
    assert drive.state("orders").leader == 4


@pytest.mark.behaviour("B099")
async def test_a_request_that_replaces_a_changed_one_is_acted_on(drive):
    orders = await drive.create("orders", [2])
    users = await drive.create("users", [3])
    await drive.kill(5)
    await drive.reassign({orders: [5]})  # waits for 5
    await drive.settle()

    drive.sim.pause("broker-1")
    await drive.keeper.set(REQUEST, drive.tree.get(REQUEST).data)  # this is what the watch sees
    await drive.keeper.delete(REQUEST)
    await drive.reassign({users: [4]})
    drive.sim.resume("broker-1")
    await drive.settle()

    assert drive.assignment("users") == at_rest(4)
    assert not drive.exists(REQUEST)


@pytest.mark.behaviour("B100")
async def test_unknown_partitions_and_topics_being_deleted_are_taken_out_of_the_request(drive):
    orders = await drive.create("orders", [2])
    waiting = await drive.create("waiting", [2])
    doomed = await drive.create("doomed", [3, 4])
    await drive.kill(4)  # so that the deletion cannot end
    await drive.delete("doomed")
    await drive.settle()
    drive.forget()

    unknown = [TopicPartition("orders", 7), TopicPartition("nothing", 0)]
    await drive.reassign({unknown[0]: [3], doomed: [5], orders: [3], unknown[1]: [3], waiting: [4]})
    await drive.settle()

    assert drive.assignment("orders") == at_rest(3)
    assert drive.assignment("doomed") == at_rest(3, 4)
    assert steps(drive, "doomed") == steps(drive, "nothing") == []
    assert request_of(drive) == {waiting: (4,)}  # broker 4 is dead: it may come back


@pytest.mark.behaviour("B100")
@pytest.mark.parametrize("target", [(), (3, 3)])
async def test_a_request_that_would_lose_the_partition_is_taken_out(drive, target):
    """Kafka 2.4 to 3.9 do not look at targets in ZooKeeper, and obey."""
    orders = await drive.create("orders", [2])

    await drive.reassign({orders: target})
    await drive.settle()

    assert drive.assignment("orders") == at_rest(2)
    assert steps(drive) == []
    assert not drive.exists(REQUEST)


@pytest.mark.behaviour("B087", "B105")
async def test_partitions_added_while_another_moves_are_kept(drive):
    orders = await drive.create("orders", [2])
    expanded = TopicAssignment(
        partitions={0: at_rest(2), 1: at_rest(4)}, topic_id=drive.context.topic_ids["orders"]
    )
    drive.at_first(  # between the controller's look at the topic and its write
        ReassignmentStep,
        lambda: drive.tree.commit(
            [Set(TopicZNode.path("orders"), TopicZNode.encode(expanded))], 0, 0
        ),
        lambda event: event.step == "U1",
    )

    await drive.reassign({orders: [3]})
    await drive.settle()

    assert drive.assignment("orders", 0) == at_rest(3)
    assert drive.assignment("orders", 1) == at_rest(4)


@pytest.mark.behaviour("B100")
@pytest.mark.parametrize("is_in_sync", [True, False])
async def test_a_move_to_where_the_partition_is_only_raises_the_leader_epoch(drive, is_in_sync):
    orders = await drive.create("orders", [2, 3])
    if not is_in_sync:
        await drive.kill(3)
    before = drive.state("orders")
    drive.forget()

    await drive.reassign({orders: [2, 3]})
    await drive.settle()

    after = drive.state("orders")
    assert steps(drive) == FINISH
    assert after.leader_epoch == before.leader_epoch + 1
    assert (after.leader, after.isr) == (before.leader, before.isr)
    assert drive.assignment("orders") == at_rest(2, 3)
    assert not drive.exists(REQUEST)
    assert drive.sent(StopReplica) == []


# --- the steps ------------------------------------------------------------------------------------


@pytest.mark.behaviour("B101", "B105")
async def test_a_move_goes_through_its_steps_and_writes_each_before_the_next(drive):
    orders = await drive.create("orders", [2, 3])
    drive.forget()

    await drive.reassign({orders: [3, 4]})
    await drive.settle()

    moving = ("3,4,2", "4", "2")
    assert [(e.step, e.replicas, e.adding, e.removing) for e in drive.of(ReassignmentStep)] == [
        *((step, *moving) for step in [*UPDATE, *ADD, "B1"]),
        *((step, "3,4", "", "") for step in FINISH[1:]),
    ]
    assert writes(drive, "orders") == [
        ("broker-1", (3, 4, 2), (4,), (2,)),
        ("broker-1", 2, 1, (2, 3)),  # A1: a new epoch
        ("broker-2", 2, 1, (2, 3, 4)),  # the leader finds that 4 is in sync
        ("broker-1", 3, 2, (2, 3, 4)),  # B3: a leader of the target
        ("broker-1", 3, 3, (3, 4)),  # B4: the former one leaves the ISR
        ("broker-1", (3, 4), (), ()),  # B6
        ("broker-1", REQUEST),  # B7
    ]
    hosts = [broker for broker in (2, 3, 4) if drive.hosted(broker, "orders") is not None]
    assert hosts == [3, 4]


def writes(drive, topic):
    """What was written of a topic and its request, by whom: assignments, states, the end."""
    partition = TopicPartition(topic, 0)
    found = []
    for each in drive.transactions:
        operation = each.operations[-1]
        if operation.path == TopicZNode.path(topic):
            now = TopicZNode.decode(topic, operation.data).partitions[0]
            found.append((each.node, now.replicas, now.adding_replicas, now.removing_replicas))
        elif operation.path == PartitionStateZNode.path(partition):
            now = PartitionStateZNode.decode(partition, operation.data)
            found.append((each.node, now.leader, now.leader_epoch, now.isr))
        elif operation.path == REQUEST and each.node != "tool":
            found.append((each.node, REQUEST))
    return found


@pytest.mark.behaviour("B101", "B105")
async def test_each_replica_of_a_move_is_told_its_part_in_order(drive):
    orders = await drive.create("orders", [2, 3])
    drive.forget()

    await drive.reassign({orders: [3, 4]})
    await drive.settle()

    def told(broker):
        return [
            (entry.leader, entry.leader_epoch, entry.replicas, entry.is_new)
            for request in drive.sent(LeaderAndIsr, broker)
            for entry in request.partitions
        ]

    moving = (3, 4, 2)
    assert told(2) == [(2, 1, moving, False)]  # then it is stopped
    assert told(3) == [
        (2, 1, moving, False),
        (2, 1, moving, False),  # B1: it is online, which it was
        (3, 2, (3, 4), False),
        (3, 3, (3, 4), False),
    ]
    assert told(4) == [
        (2, 1, moving, True),
        (2, 1, moving, True),  # A2: as Kafka, once more; the broker has it already
        (3, 2, (3, 4), False),  # B1 sends nothing to a new replica
        (3, 3, (3, 4), False),
    ]
    stops = [each.partitions[0] for each in drive.sent(StopReplica, 2)]
    assert [(each.leader_epoch, each.delete) for each in stops] == [(2, False), (3, True)]
    assert [drive.sent(StopReplica, broker) for broker in (3, 4, 5)] == [[], [], []]
    for broker in (1, 2, 3, 4, 5):  # B8
        last = drive.sent(UpdateMetadata, broker)[-1].partitions[0]
        assert (last.leader, last.leader_epoch, last.replicas) == (3, 3, (3, 4))


@pytest.mark.behaviour("B101")
async def test_a_leader_that_stays_is_not_elected_but_gets_a_new_epoch(drive):
    orders = await drive.create("orders", [2, 3])
    drive.forget()

    await drive.reassign({orders: [4, 2]})
    await drive.settle()

    state = drive.state("orders")
    assert (state.leader, state.leader_epoch, set(state.isr)) == (2, 3, {2, 4})
    assert [write[1:3] for write in writes(drive, "orders") if write[0] == "broker-2"] == [(2, 1)]
    assert drive.assignment("orders") == at_rest(4, 2)  # 4 is preferred now, and does not lead


@pytest.mark.behaviour("B101")
async def test_only_adding_raises_the_epoch_twice_and_stops_nobody(drive):
    orders = await drive.create("orders", [2])
    drive.forget()

    await drive.reassign({orders: [2, 3, 4]})
    await drive.settle()

    state = drive.state("orders")
    assert (state.leader, state.leader_epoch, set(state.isr)) == (2, 2, {2, 3, 4})
    assert drive.sent(StopReplica) == []


@pytest.mark.behaviour("B104")
async def test_the_topics_znode_lists_what_is_added_and_removed_while_it_moves(drive):
    orders = await drive.create("orders", {0: [2, 3], 1: [3, 2]})
    await drive.kill(5)

    await drive.reassign({orders: [5, 3]})
    await drive.settle()

    znode = json.loads(drive.tree.get(TopicZNode.path("orders")).data)
    assert znode == {
        "version": 3,
        "topic_id": znode["topic_id"],
        "partitions": {"0": [5, 3, 2], "1": [3, 2]},  # the target, then the rest of the origin
        "adding_replicas": {"0": [5]},
        "removing_replicas": {"0": [2]},
    }
    assert drive.context.assignments[orders] == drive.assignment("orders")


# --- waiting --------------------------------------------------------------------------------------


@pytest.mark.behaviour("B102", "B110")
async def test_a_move_to_a_dead_broker_begins_at_once_and_waits_for_it_however_long(drive):
    orders = await drive.create("orders", [2])
    await drive.kill(5)
    drive.forget()

    await drive.reassign({orders: [5]})
    await drive.sim.sleep(DAY_MS)

    assert steps(drive) == UPDATE + ADD
    assert drive.assignment("orders") == ReplicaAssignment(
        replicas=(5, 2), adding_replicas=(5,), removing_replicas=(2,)
    )
    assert drive.state("orders") == PartitionState(
        controller_epoch=1, leader=2, leader_epoch=1, isr=(2,)
    )
    assert list(await drive.ongoing()) == [orders]
    assert request_of(drive) == {orders: (5,)}

    await drive.restart(5)

    assert steps(drive) == UPDATE + ADD + ADD + FINISH
    assert drive.assignment("orders") == at_rest(5)
    assert drive.state("orders") == PartitionState(
        controller_epoch=1, leader=5, leader_epoch=4, isr=(5,)
    )
    assert await drive.ongoing() == {}
    assert not drive.exists(REQUEST)


@pytest.mark.behaviour("B110")
async def test_a_stalled_move_does_not_go_on_for_a_broker_that_is_no_target(drive):
    orders = await drive.create("orders", [2, 3])
    await drive.kill(5)
    await drive.reassign({orders: [2, 5]})
    await drive.kill(3)  # which is about to go anyway
    before = drive.state("orders").leader_epoch

    await drive.restart(3)

    assert steps(drive) == UPDATE + ADD
    assert drive.state("orders").leader_epoch == before


@pytest.mark.behaviour("B102")
async def test_a_move_ends_only_when_the_last_target_is_in_sync(drive):
    orders = await drive.create("orders", [2])
    drive.sim.cut("broker-2", "broker-5")

    await drive.reassign({orders: [4, 5]})
    await drive.sim.until(lambda: set(drive.state("orders").isr) == {2, 4})
    await drive.sim.sleep(60_000)

    assert steps(drive) == UPDATE + ADD
    assert drive.assignment("orders").replicas == (4, 5, 2)

    drive.sim.heal()
    await drive.sim.until(lambda: not drive.exists(REQUEST))
    await drive.settle()

    assert steps(drive) == UPDATE + ADD + FINISH
    assert drive.assignment("orders") == at_rest(4, 5)


@pytest.mark.behaviour("B103")
async def test_a_removed_replica_that_is_down_is_not_waited_for_and_not_told_later(drive):
    orders = await drive.create("orders", [2, 3])
    await drive.kill(3)

    await drive.reassign({orders: [2, 4]})
    await drive.settle()

    assert drive.assignment("orders") == at_rest(2, 4)
    assert not drive.exists(REQUEST)
    drive.forget()

    await drive.restart(3)

    assert drive.sent(StopReplica, 3) == []
    assert drive.sent(LeaderAndIsr, 3) == []


# --- what others see of it ------------------------------------------------------------------------


@pytest.mark.behaviour("B109")
async def test_an_isr_notification_alone_shows_the_end_of_a_move(drive, monkeypatch):
    # Leaders write ISRs to ZooKeeper themselves, there is no AlterIsr: so the state is watched too,
    # and this controller is deaf to that.
    state = PartitionStateZNode.path(TopicPartition("orders", 0))
    tell = ReignWatcher.tell
    monkeypatch.setattr(
        ReignWatcher,
        "tell",
        lambda self, event: None if event.path == state else tell(self, event),
    )
    orders = await drive.create("orders", [2])

    await drive.reassign({orders: [3]})
    await drive.sim.until(lambda: set(drive.state("orders").isr) == {2, 3})
    await drive.sim.sleep(1_000)
    assert steps(drive) == UPDATE + ADD  # the leader has not told it yet

    await drive.settle()

    assert steps(drive) == UPDATE + ADD + FINISH
    assert drive.assignment("orders") == at_rest(3)


@pytest.mark.behaviour("B111")
async def test_replicas_hear_who_comes_and_goes_and_who_comes_is_not_under_replicated(drive):
    orders = await drive.create("orders", [2, 3])
    drive.sim.cut("broker-2", "broker-5")

    await drive.reassign({orders: [3, 5]})
    await drive.sim.until(lambda: drive.hosted(5, "orders") is not None)
    await drive.sim.sleep(1_000)

    for broker in (2, 3, 5):
        entry = drive.sent(LeaderAndIsr, broker)[-1].partitions[0]
        hosted = drive.hosted(broker, "orders")
        assert (entry.adding_replicas, entry.removing_replicas) == ((5,), (2,))
        assert (hosted.adding, hosted.removing) == ((5,), (2,))
    leader = drive.hosted(2, "orders")
    assert (leader.isr, leader.replicas) == ((2, 3), (3, 5, 2))
    assert not leader.is_under_replicated

    drive.shrink(3, orders)
    await drive.sim.until(lambda: drive.state("orders").isr == (2,))

    assert drive.hosted(2, "orders").is_under_replicated  # 3 is none that comes
