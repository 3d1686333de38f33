"""A move outlives its controller, whichever step that was at: B103, B105, H33 and I-14.

The controller, broker 1, dies at the very moment of a step's trace event; what it had not written
to ZooKeeper by then is lost. In the end all brokers are up again.
"""

from contextlib import suppress

import pytest

from runtime.network import NetworkError
from tests.support.drive import Drive
from tests.support.moves import MoveInvariants, at_rest, stall
from wire.admin_znodes import IsrChangeNotificationZNode, ReassignPartitionsZNode
from wire.trace import ReassignmentStep

REQUEST = ReassignPartitionsZNode.path()
STEPS = ["U1", "U2", "A1", "A2", "B1", "B2", "B3", "B4", "B6", "B7", "B8"]
MOVES = {
    "of others": ([2, 3], [3, 4]),
    "away from the controller": ([1, 2], [2, 3]),
    "to the controller": ([2, 3], [1, 3]),
    "around the controller": ([1, 2], [1, 3]),
}


@pytest.fixture
async def drive(sim):
    drive = await Drive.start(sim, brokers=5)
    invariants = MoveInvariants(drive)
    yield drive
    assert invariants.broken == []


def die_at(drive, step):
    """Let the controller die at the first such step from now on."""
    died = []

    def kill():
        died.append(drive.controller_id)
        drive.cluster.kill(drive.controller_id)

    drive.at_first(ReassignmentStep, kill, lambda event: event.step == step)
    return died


async def ask_in_vain(drive, targets):
    """Whoever asks a controller that dies may never hear of it."""
    with suppress(NetworkError):
        await drive.alter(targets)


async def begin(drive, way, targets):
    if way == "znode":
        await drive.reassign(targets)
    else:
        drive.sim.loop.create_task(ask_in_vain(drive, targets))


async def all_is_well(drive):
    """The dead controller is noticed and then comes back."""
    await drive.settle()
    await drive.restart(1)


def assert_moved(drive, topic, *target):
    """Done, told to everybody, and nothing is left in ZooKeeper that asks for more."""
    state = drive.state(topic)
    assert drive.assignment(topic) == at_rest(*target)
    assert set(state.isr) == set(target)
    assert state.leader in target
    for broker in target:
        hosted = drive.hosted(broker, topic)
        assert (hosted.leader, hosted.leader_epoch) == (state.leader, state.leader_epoch)
        assert (hosted.replicas, hosted.adding, hosted.removing) == (target, (), ())
    for broker in drive.cluster.brokers:
        cached = drive.cached(broker, topic)
        assert (cached.leader, cached.leader_epoch) == (state.leader, state.leader_epoch)
        assert cached.replicas == target
    assert not drive.context.reassigning
    assert not drive.exists(REQUEST)
    assert drive.tree.children(IsrChangeNotificationZNode.folder) == ()


@pytest.mark.behaviour("B103", "B105")
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("way", ["znode", "api"])
async def test_the_next_controller_finishes_a_move_whose_controller_died(drive, way, move, step):
    origin, target = MOVES[move]
    orders = await drive.create("orders", origin)
    died = die_at(drive, step)

    await begin(drive, way, {orders: target})
    await all_is_well(drive)

    assert died == [1]
    was_written = (way, step) != ("api", "U1")  # else nobody but the dead has heard of it
    assert_moved(drive, "orders", *(target if was_written else origin))
    # As in Kafka, nobody waits for the answer to a StopReplica: once the assignment is written the
    # next controller does not know who was removed, so a replica that was not told yet stays.
    strays = hosts(drive, "orders") - set(drive.assignment("orders").replicas)
    assert strays <= (set(origin) - set(target) if step in {"B7", "B8"} else set())


def hosts(drive, topic):
    return {each for each in drive.cluster.brokers if drive.hosted(each, topic) is not None}


@pytest.mark.behaviour("B103", "B105")
async def test_a_move_outlives_one_controller_after_the_other(drive):
    orders = await drive.create("orders", [4])
    first = die_at(drive, "A2")
    second = die_at(drive, "B4")
    await drive.reassign({orders: [5]})
    await drive.settle()

    assert len(first) == len(second) == 1
    assert live(drive) == set(drive.cluster.brokers) - {*first, *second}
    assert drive.assignment("orders") == at_rest(5)
    assert drive.state("orders").isr == (5,)
    assert hosts(drive, "orders") & live(drive) == {5}
    assert not drive.exists(REQUEST)


def live(drive):
    return {each for each in drive.cluster.brokers if drive.node(each).system.is_up}


@pytest.mark.behaviour("B103", "B107", "B108")
@pytest.mark.parametrize("step", [each for each in STEPS if each not in {"A1", "A2"}])
async def test_a_cancellation_is_done_or_not_wherever_its_controller_dies(drive, step):
    orders = await drive.create("orders", [2, 3])
    await stall(drive, orders, [4, 5], missing=5)
    died = die_at(drive, step)

    await begin(drive, "api", {orders: None})
    await drive.sim.until(lambda: died == [1])
    drive.sim.heal()
    await drive.sim.sleep(60_000)  # so that 5 gives up its fetch, and tries again
    await all_is_well(drive)

    assert_moved(drive, "orders", *((4, 5) if step == "U1" else (2, 3)))


@pytest.mark.behaviour("B103", "B107")
@pytest.mark.parametrize("step", ["U1", "U2", "A1", "A2"])
async def test_an_override_is_done_or_not_wherever_its_controller_dies(drive, step):
    orders = await drive.create("orders", [2, 3])
    await stall(drive, orders, [4, 5], missing=5)
    died = die_at(drive, step)

    await begin(drive, "api", {orders: [3, 5]})
    await drive.sim.until(lambda: died == [1])
    drive.sim.heal()
    await drive.sim.sleep(60_000)
    await all_is_well(drive)

    assert_moved(drive, "orders", *((4, 5) if step == "U1" else (3, 5)))
