"""Bugs that Kafka had, or has, while partitions move: each runs with its guard and without it."""

import pytest
from msgspec.structs import replace

from actors.broker.partition import HostedPartition
from actors.controller.moves import moving_to
from actors.controller.reassignment import Reassignments
from tests.support.drive import Drive
from tests.support.moves import MoveInvariants, at_rest, stall
from wire.admin_znodes import ReassignPartitionsZNode
from wire.data import Fetch, FetchPartition, FetchResponse
from wire.ids import NO_LEADER
from wire.trace import ReassignmentStep

REQUEST = ReassignPartitionsZNode.path()


@pytest.fixture
async def drive(sim):
    return await Drive.start(sim, brokers=5)


@pytest.fixture(params=[True, False], ids=["guarded", "unguarded"])
def guarded(request):
    return request.param


async def until_step(drive, step):
    """Wait for the next such step; to look through all events each time would take long."""
    seen = []
    drive.at_first(ReassignmentStep, lambda: seen.append(step), lambda event: event.step == step)
    await drive.sim.until(lambda: bool(seen))


async def fetch_as(drive, follower, partition):
    """A follower's fetch arrives at the leader, in the epoch that the leader knows."""
    leader = drive.state(partition.topic).leader
    epoch = drive.hosted(leader, partition.topic).leader_epoch
    asked = FetchPartition(
        partition=partition, fetch_offset=0, max_bytes=1, current_leader_epoch=epoch
    )
    fetch = Fetch(replica_id=follower, max_wait_ms=0, min_bytes=0, max_bytes=1, partitions=(asked,))
    await drive.ask(leader, fetch, FetchResponse)


# --- H33: KAFKA-6193 ------------------------------------------------------------------------------


@pytest.mark.behaviour("H33")
async def test_a_move_is_not_forgotten_when_its_controller_dies_after_removing_the_request(
    drive, monkeypatch, guarded
):
    if not guarded:
        monkeypatch.setattr(Reassignments, "_try", removing_the_request_first(Reassignments._try))
    orders = await drive.create("orders", [2])
    when_gone(drive, REQUEST, lambda: drive.cluster.kill(1))

    await drive.reassign({orders: [3]})
    await drive.settle()

    assert drive.controller_id != 1
    assert not drive.exists(REQUEST)
    if guarded:
        assert drive.assignment("orders") == at_rest(3)
        assert drive.state("orders").isr == (3,)
    else:
        assert drive.assignment("orders") == at_rest(2)  # and nobody will ever know better


def removing_the_request_first(original):
    async def attempt(self, partition, target):
        await self._request.remove(lambda each, _: each == partition)
        return await original(self, partition, target)

    return attempt


def when_gone(drive, path, act):
    """Act as soon as ZooKeeper has removed a znode that was there."""
    zookeeper = drive.sim.zookeeper
    commit = zookeeper.commit

    def watching(session, operations):
        was_there = drive.exists(path)
        written = commit(session, operations)
        if was_there and not drive.exists(path):
            act()
        return written

    zookeeper.commit = watching


# --- H35: KAFKA-14808 -----------------------------------------------------------------------------


@pytest.mark.behaviour("H35")
async def test_an_override_keeps_a_leader_that_is_on_neither_way(drive, monkeypatch, guarded):
    if not guarded:
        monkeypatch.setattr(
            Reassignments, "_overriding", lambda self, _, before, target: moving_to(before, target)
        )
    invariants = MoveInvariants(drive)
    orders = await drive.create("orders", [2])
    drive.sim.cut("broker-3", "broker-4")  # nor does 4 reach the next leader
    await stall(drive, orders, [3, 4], missing=4)
    drive.cluster.kill(2)
    await drive.sim.until(lambda: drive.state("orders").leader == 3)

    assert set(await drive.ongoing()) == {orders}
    await drive.alter({orders: [5]})
    await drive.settle()

    if guarded:
        assert drive.assignment("orders") == at_rest(5)
        assert (drive.state("orders").leader, drive.state("orders").isr) == (5, (5,))
        assert drive.hosted(3, "orders") is None
        assert invariants.broken == []
    else:
        assert (drive.state("orders").leader, drive.state("orders").isr) == (NO_LEADER, (3,))
        assert drive.node(3).system.is_up
        assert f"I-14 {orders}: 3 was stopped and nobody else leads" in invariants.broken


@pytest.mark.behaviour("H35")
async def test_an_override_keeps_the_only_replica_in_sync_although_it_is_dead(drive):
    invariants = MoveInvariants(drive)
    orders = await drive.create("orders", [2])
    drive.sim.cut("broker-3", "broker-4")  # nor does 4 reach the next leader
    await stall(drive, orders, [3, 4], missing=4)
    drive.cluster.kill(2)
    await drive.sim.until(lambda: drive.state("orders").leader == 3)
    await drive.kill(3)
    assert (drive.state("orders").leader, drive.state("orders").isr) == (NO_LEADER, (3,))

    await drive.alter({orders: [5]})
    await drive.settle()
    assert drive.assignment("orders").replicas == (5, 2, 3)  # all that was written is on 3
    await drive.restart(3)

    assert drive.assignment("orders") == at_rest(5)
    assert (drive.state("orders").leader, drive.state("orders").isr) == (5, (5,))
    assert invariants.broken == []


# --- H15: KAFKA-9672 ------------------------------------------------------------------------------


@pytest.mark.behaviour("H15")
async def test_a_removed_replica_that_fetches_before_it_is_stopped_stays_out_of_the_isr(
    drive, monkeypatch, guarded
):
    if not guarded:  # the leader does not care whom the controller assigned
        of = HostedPartition.of
        everybody = (2, 3, 4, 5)
        monkeypatch.setattr(
            HostedPartition, "of", lambda *told: replace(of(*told), replicas=everybody)
        )
    invariants = MoveInvariants(drive)
    orders = await drive.create("orders", [2, 3])
    drive.sim.hold("broker-1", "broker-3")  # StopReplica is late
    await drive.alter({orders: [2, 4]})
    await until_step(drive, "B8")
    await drive.sim.sleep(1_000)
    assert drive.state("orders").isr == (2, 4)

    await fetch_as(drive, 3, orders)
    drive.sim.heal()
    await drive.settle()

    assert drive.assignment("orders") == at_rest(2, 4)
    assert drive.state("orders").isr == ((2, 4) if guarded else (2, 4, 3))
    assert (invariants.broken == []) is guarded


@pytest.mark.behaviour("H15")
async def test_a_leader_that_has_not_heard_of_the_new_assignment_adds_no_removed_replica(
    drive, monkeypatch, guarded
):
    if not guarded:  # the end of a move leaves the leader's epoch and version valid
        bump = Reassignments._bump_epoch

        async def only_at_the_start(self, partition, assignment):
            if assignment.adding_replicas:
                await bump(self, partition, assignment)

        monkeypatch.setattr(Reassignments, "_bump_epoch", only_at_the_start)
    invariants = MoveInvariants(drive)
    orders = await drive.create("orders", [2, 3])
    await stall(drive, orders, [2, 4], missing=4)
    drive.shrink(3, orders)  # else it would leave the ISR at the end, and that is another write
    await drive.sim.until(lambda: drive.state("orders").isr == (2,))
    drive.at_first(
        ReassignmentStep,
        lambda: drive.sim.hold("broker-1", "broker-2"),  # LeaderAndIsr is late
        lambda event: event.step == "B3",
    )
    drive.sim.heal()
    await until_step(drive, "B8")

    await fetch_as(drive, 3, orders)
    drive.sim.heal()
    await drive.settle()

    assert drive.assignment("orders") == at_rest(2, 4)
    assert drive.state("orders").isr == ((2, 4) if guarded else (2, 4, 3))
    assert (invariants.broken == []) is guarded


@pytest.mark.behaviour("H15")
async def test_a_cancelled_replica_does_not_stay_in_the_isr_when_the_controller_dies(
    drive, monkeypatch, guarded
):
    if not guarded:  # as in Kafka: the assignment first, the ISR then

        async def nobody_leaves(*_):
            pass

        monkeypatch.setattr(Reassignments, "_leave_isr", nobody_leaves)
    invariants = MoveInvariants(drive)
    orders = await drive.create("orders", [2, 3])
    await stall(drive, orders, [4, 5], missing=5)
    assert drive.state("orders").isr == (2, 3, 4)
    drive.at_first(
        ReassignmentStep, lambda: drive.cluster.kill(1), lambda event: event.step == "U2"
    )

    cancelling = drive.sim.loop.create_task(drive.alter({orders: None}))
    await drive.sim.until(lambda: not drive.node(1).system.is_up)
    cancelling.cancel()
    drive.sim.heal()  # who is cut off from the leader may be the next controller
    await drive.settle()
    await fetch_as(drive, 4, orders)
    await drive.settle()

    assert drive.assignment("orders") == at_rest(2, 3)
    if guarded:
        assert drive.state("orders").isr == (2, 3)
        assert drive.hosted(2, "orders").replicas == (2, 3)
        assert invariants.broken == []
    else:
        assert 4 in drive.state("orders").isr
        assert drive.hosted(2, "orders").replicas == (4, 5, 2, 3)
        assert f"I-5 {orders}: ISR (2, 3, 4) is not among (2, 3)" in invariants.broken
