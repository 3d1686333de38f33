"""When a step is due: after what it waits for, and not before."""

import asyncio

import pytest

from actors.cluster import SimulatedCluster
from actors.faults.injector import Injector
from actors.faults.moments import Moments, NeverCame, holds, matches
from actors.faults.node_hand import NodeHand
from actors.faults.scenario import Event, Sent, State, Step
from actors.view import ClusterView, PartitionView
from tests.support.orders import leader_and_isr, order
from wire.codec import encode
from wire.frame import Frame, FrameKind
from wire.ids import TopicPartition
from wire.trace import BrokersChanged, LeaderElected, NodePaused

ORDERS = TopicPartition("orders", 0)


class Waiting:
    """One step that waits, and the world that it waits in."""

    def __init__(self, sim, cluster):
        self.sim = sim
        injector = Injector(NodeHand(cluster))
        self._moments = Moments(cluster, injector.resolved)
        self._task = None

    def for_(self, **step):
        self._task = asyncio.ensure_future(self._moments.until(Step(**step)))
        return asyncio.sleep(0)

    async def is_due(self):
        await asyncio.sleep(0.001)
        return self._task.done()

    async def end(self):
        await self._task

    def happens(self, event, node="broker-1"):
        self.sim.trace.at(node)(event)

    def is_sent(self, epoch=7, source=1, to=2):
        payload = encode(leader_and_isr(order(ORDERS, 2, epoch)))
        frame = Frame(FrameKind.REQUEST, 1, f"broker-{source}", f"broker-{to}", 0, payload)
        self.sim.tamper.pass_on(frame, lambda _: None)


@pytest.fixture
def waiting(sim):
    return Waiting(sim, SimulatedCluster(sim))


def elected(leader):
    return LeaderElected("orders", 0, leader, 1, "1,2", 1, "", False)


async def test_a_time_is_counted_from_the_beginning(sim, waiting):
    await sim.sleep(40)

    await waiting.for_(at_ms=100)
    await waiting.end()

    assert sim.now_ms == pytest.approx(100)


async def test_a_time_that_is_over_is_now(sim, waiting):
    await sim.sleep(200)

    await waiting.for_(at_ms=100)

    assert await waiting.is_due()


async def test_a_pause_is_counted_from_the_step_before(sim, waiting):
    await sim.sleep(40)

    await waiting.for_(after_ms=100)
    await waiting.end()

    assert sim.now_ms == pytest.approx(140)


async def test_a_step_waits_for_the_nth_event_that_is_as_wanted(waiting):
    wanted = Event(event="LeaderElected", where={"leader": 2, "node": "broker-1"}, nth=2)
    await waiting.for_(on=wanted)

    for leader, node in ((2, "broker-1"), (1, "broker-1"), (2, "broker-3")):
        waiting.happens(elected(leader), node)
        assert not await waiting.is_due()
    waiting.happens(elected(2))

    assert await waiting.is_due()


async def test_what_happened_before_does_not_count(waiting):
    waiting.happens(BrokersChanged("1", "", ""))

    await waiting.for_(on=Event(event="BrokersChanged"))

    assert not await waiting.is_due()


async def test_a_step_waits_for_a_message_by_its_epoch_and_its_link(waiting):
    wanted = Sent(message="LeaderAndIsr", leader_epoch=7, topic="orders", source=1, to=2, nth=2)
    await waiting.for_(on_message=wanted)

    for epoch, source in ((7, 1), (6, 1), (7, 3)):
        waiting.is_sent(epoch, source)
        assert not await waiting.is_due()
    waiting.is_sent()

    assert await waiting.is_due()


async def test_a_step_waits_for_so_many_messages_of_any_kind(waiting):
    await waiting.for_(after_messages=2)

    waiting.is_sent(7, 3, 1)
    assert not await waiting.is_due()
    waiting.is_sent()

    assert await waiting.is_due()


async def test_who_waits_for_messages_holds_none_up_and_leaves_nothing_behind(sim, waiting):
    await waiting.for_(after_messages=1)
    assert not sim.tamper.is_idle
    waiting.is_sent()
    await waiting.end()

    assert sim.tamper.is_idle


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ({"on": Event(event="NodePaused", where={"node": "x"})}, "no NodePaused node=x"),
        ({"on_message": Sent(message="Fetch", to=2)}, "no to=2 message=Fetch"),
        ({"after_messages": 3}, "not 3 messages"),
    ],
)
async def test_a_moment_that_never_comes_ends_the_wait_with_its_name(sim, waiting, step, said):
    await waiting.for_(**step)

    with pytest.raises(NeverCame) as never:
        await waiting.end()

    assert str(never.value).startswith(said)
    assert sim.now_ms == pytest.approx(60_000)


# --- what is compared -----------------------------------------------------------------------------


def test_an_event_matches_by_its_kind_its_node_and_its_columns():
    event = elected(2)

    assert matches(Event(event="LeaderElected"), "n", event)
    assert matches(Event(event="LeaderElected", where={"leader": 2, "node": "n"}), "n", event)
    assert not matches(Event(event="LeaderElected", where={"leader": 3}), "n", event)
    assert not matches(Event(event="LeaderElected", where={"node": "m"}), "n", event)
    assert not matches(Event(event="LeaderElected"), "n", NodePaused())


@pytest.mark.parametrize(
    ("wanted", "is_so"),
    [
        ({}, True),
        ({"leader": 2}, True),
        ({"leader": 1}, False),
        ({"not_leader": 1}, True),
        ({"not_leader": 2}, False),
        ({"isr": (3, 2)}, True),
        ({"isr": (2,)}, False),
        ({"is_there": False}, False),
        ({"partition": "orders-1"}, False),
        ({"partition": "orders-1", "is_there": False}, True),
    ],
)
def test_a_state_holds_if_all_that_is_said_is_so(wanted, is_so):
    found = PartitionView("orders", 0, leader=2, isr=(2, 3))
    view = ClusterView(partitions={ORDERS: found})

    assert holds(State(**({"partition": "orders-0"} | wanted)), view) is is_so


def test_nobody_is_no_other_leader():
    view = ClusterView(partitions={ORDERS: PartitionView("orders", 0, leader=-1)})

    assert not holds(State(partition="orders-0", not_leader=1), view)
    assert holds(State(partition="orders-0", leader=-1), view)
