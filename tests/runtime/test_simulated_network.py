"""The weather on simulated links, and what callers notice of it."""

import asyncio
from math import inf, nan

import pytest

from runtime.network import CallTimedOut, Disconnected, Endpoint, Incoming
from runtime.simulation.network import Conditions
from runtime.simulation.simulator import Simulator, run
from runtime.tracing import CAUSE
from wire.trace import CallFinished


class Log:
    """Writes down what comes and when, and answers it."""

    def __init__(self, simulator: Simulator) -> None:
        self._simulator = simulator
        self.came: list[bytes] = []
        self.times: list[float] = []

    def tell(self, message: Incoming) -> None:
        self.came.append(bytes(message.payload))
        self.times.append(self._simulator.now_ms)
        message.reply(b"echo " + message.payload)


def node(sim: Simulator, address: str, first_correlation: int = 1) -> tuple[Endpoint, Log]:
    endpoint = Endpoint(
        address, sim.network, sim.trace.at(address), first_correlation=first_correlation
    )
    endpoint.serve(log := Log(sim))
    return endpoint, log


@pytest.fixture
def here(sim):
    return node(sim, "here")[0]


@pytest.fixture
def there(sim):
    return node(sim, "there")[0]


@pytest.fixture
def log(there):
    return there._receiver


def send_numbers(endpoint: Endpoint, numbers: range) -> list[bytes]:
    payloads = [b"%d" % number for number in numbers]
    for payload in payloads:
        endpoint.send("there", payload)
    return payloads


async def test_each_way_takes_a_time_within_the_bounds(sim, here, log):
    sim.network.set_conditions("here", "there", min_delay_ms=10, max_delay_ms=20)
    sim.network.set_conditions("there", "here", min_delay_ms=100, max_delay_ms=200)

    for _ in range(20):
        begun = sim.now_ms
        await here.call("there", b"", timeout_ms=1000)
        assert 10 <= log.times[-1] - begun <= 20
        assert 100 <= sim.now_ms - log.times[-1] <= 200


async def test_a_link_keeps_its_order(sim, here, log):
    sim.network.set_conditions("here", "there", min_delay_ms=0, max_delay_ms=100)

    sent = []
    for first in range(0, 100, 10):
        sent += send_numbers(here, range(first, first + 10))
        await sim.sleep(5)
    await sim.sleep(200)

    assert log.came == sent


async def test_a_link_that_reorders_loses_nothing(sim, here, log):
    sim.network.set_conditions("here", "there", reordering=0.5)

    sent = send_numbers(here, range(100))
    await sim.sleep(200)

    assert log.came != sent
    assert sorted(log.came) == sorted(sent)


async def test_what_is_lost_times_out(sim, here, log):
    sim.network.set_conditions("here", "there", loss=1)

    with pytest.raises(CallTimedOut):
        await here.call("there", b"", timeout_ms=50)

    assert log.came == []
    assert sim.now_ms == 50


async def test_some_of_many_are_lost(sim, here, log):
    sim.network.set_conditions("here", "there", loss=0.3)

    send_numbers(here, range(1000))
    await sim.sleep(200)

    assert 600 < len(log.came) < 800


async def test_a_request_that_came_twice_has_one_answer(sim, here, log):
    sim.network.set_conditions("here", "there", duplication=1)
    sim.network.set_conditions("there", "here", duplication=1)

    response = await here.call("there", b"twice", timeout_ms=50)
    await sim.sleep(50)

    assert response == b"echo twice"
    assert log.came == [b"twice", b"twice"]
    assert here.pending == 0
    events = sim.trace.drain().stamped()
    assert [event.outcome for _, event in events if isinstance(event, CallFinished)] == ["ok"]


async def test_over_a_link_that_is_cut_one_way_requests_arrive_and_answers_do_not(sim, here, log):
    sim.network.cut("there", "here")

    with pytest.raises(CallTimedOut):
        await here.call("there", b"heard", timeout_ms=50)

    assert log.came == [b"heard"]
    assert sim.network.is_cut("there", "here")
    assert not sim.network.is_cut("here", "there")


async def test_what_is_under_way_when_a_cut_comes_is_lost_even_if_it_heals_at_once(sim, here, log):
    send_numbers(here, range(5))

    sim.network.cut("here", "there")
    sim.network.heal()
    after = send_numbers(here, range(5, 7))
    await sim.sleep(50)

    assert log.came == after


async def test_what_is_held_when_a_cut_comes_is_lost(sim, here, log):
    sim.network.hold("here", "there")
    send_numbers(here, range(5))
    await sim.sleep(50)

    sim.network.cut("here", "there")
    sim.network.heal()
    await sim.sleep(50)

    assert log.came == []


async def test_what_is_held_waits_and_then_arrives_in_order(sim, here, log):
    sent = send_numbers(here, range(3))  # under way when the hold comes
    sim.network.hold("here", "there")
    sent += send_numbers(here, range(3, 6))
    await sim.sleep(50)
    held = sim.network.under_hold()
    before = log.came.copy()
    sent += send_numbers(here, range(6, 9))  # under way when the release comes

    sim.network.release("here", "there")
    sent += send_numbers(here, range(9, 12))
    await sim.sleep(50)

    assert before == []
    assert [frame.payload for frame in held["here", "there"]] == sent[:6]
    assert log.came == sent
    assert sim.network.under_hold() == {}


async def test_a_hold_is_one_way(sim, here, there, log):
    sim.network.hold("here", "there")

    there.send("here", b"free")
    await sim.sleep(50)

    assert here._receiver.came == [b"free"]


async def test_healing_mends_cuts_holds_and_weather(sim, here, there, log):
    sim.network.cut("there", "here")
    sim.network.hold("here", "there")
    sim.network.set_conditions("here", "there", loss=1)
    sim.network.set_conditions("there", "here", min_delay_ms=900, max_delay_ms=900)

    sim.network.heal()

    assert await here.call("there", b"well", timeout_ms=10) == b"echo well"


async def test_a_call_to_a_dead_node_is_disconnected_after_the_way_there_and_back(sim, here):
    sim.network.set_conditions("here", "nowhere", min_delay_ms=3, max_delay_ms=3)
    sim.network.set_conditions("nowhere", "here", min_delay_ms=4, max_delay_ms=4)

    with pytest.raises(Disconnected, match="nobody is at nowhere"):
        await here.call("nowhere", b"", timeout_ms=1000)

    assert sim.now_ms == pytest.approx(7)


async def test_a_call_is_disconnected_when_the_node_dies(sim, here, there):
    there.serve(Silent())
    waiting = asyncio.create_task(here.call("there", b"", timeout_ms=1000))
    await sim.sleep(50)

    there.close()

    with pytest.raises(Disconnected, match="there closed the connection"):
        await waiting
    assert sim.now_ms < 60


class Silent:
    def tell(self, message: Incoming) -> None:
        pass


async def test_a_death_is_not_heard_over_a_cut_link(sim, here, there):
    there.serve(Silent())
    waiting = asyncio.create_task(here.call("there", b"", timeout_ms=1000))
    await sim.sleep(50)

    there.close()
    sim.network.cut("there", "here")

    with pytest.raises(CallTimedOut):
        await waiting


async def test_a_death_is_heard_although_the_node_is_back_at_once(sim, here, there):
    there.serve(Silent())
    waiting = asyncio.create_task(here.call("there", b"", timeout_ms=1000))
    await sim.sleep(50)

    there.close()
    node(sim, "there")
    later = asyncio.create_task(here.call("there", b"again", timeout_ms=1000))

    with pytest.raises(Disconnected):
        await waiting
    assert await later == b"echo again"
    assert sim.now_ms < 60


async def test_an_answer_that_was_sent_before_its_sender_died_arrives_first(sim, here, there, log):
    waiting = asyncio.create_task(here.call("there", b"", timeout_ms=1000))
    await sim.until(lambda: log.came)

    there.close()

    assert await waiting == b"echo "


async def test_a_restarted_node_does_not_take_an_answer_to_its_former_life(sim, log):
    former = sim.world("broker-1")
    sim.network.hold("there", "broker-1")
    asked = asyncio.create_task(former.network.call("there", b"old", timeout_ms=1000))
    await sim.until(lambda: log.came)

    sim.kill("broker-1")
    world = sim.world("broker-1")
    again = asyncio.create_task(world.network.call("there", b"new", timeout_ms=1000))
    await sim.until(lambda: log.came == [b"old", b"new"])
    sim.network.release("there", "broker-1")

    with pytest.raises(Disconnected):
        await asked
    assert await again == b"echo new"


async def test_a_paused_node_takes_what_has_come_when_it_is_resumed(sim, here, log):
    sim.network.pause("there")
    sent = send_numbers(here, range(5))
    await sim.sleep(50)
    before = log.came.copy()
    sim.network.cut("here", "there")  # too late for what is in the socket

    sim.network.resume("there")

    assert before == []
    assert log.came == sent


async def test_resuming_and_releasing_do_not_change_the_cause_of_who_does_it(sim, here, log):
    sim.network.pause("there")
    CAUSE.set([42])
    here.send("there", b"")
    await sim.sleep(50)
    CAUSE.set(mine := [7])

    sim.network.resume("there")

    assert log.came == [b""]
    assert CAUSE.get() is mine


async def test_a_paused_node_that_dies_takes_what_was_in_its_sockets_with_it(sim, here, there):
    sim.network.pause("there")
    waiting = asyncio.create_task(here.call("there", b"", timeout_ms=1000))
    await sim.sleep(50)

    there.close()
    _, reborn = node(sim, "there")

    with pytest.raises(Disconnected):
        await waiting
    assert reborn.came == []


def test_the_same_seed_gives_the_same_order_and_another_seed_another():
    def order(seed: int) -> tuple[list[bytes], list[float], bytes]:
        async def main():
            weather = Conditions(loss=0.1, duplication=0.1, reordering=0.5)
            async with Simulator(seed=seed, conditions=weather) as sim:
                sender, _ = node(sim, "here")
                _, log = node(sim, "there")
                send_numbers(sender, range(200))
                calls = (sender.call("there", b"?", timeout_ms=100) for _ in range(20))
                await asyncio.gather(*calls, return_exceptions=True)
                return log.came, log.times, sim.trace_bytes()

        return run(main)

    assert order(1) == order(1)
    assert order(1)[0] != order(2)[0]


@pytest.mark.parametrize(
    "weather",
    [
        {"min_delay_ms": -1},
        {"min_delay_ms": 2, "max_delay_ms": 1},
        {"max_delay_ms": inf},
        {"max_delay_ms": nan},
        {"loss": -0.1},
        {"loss": 1.1},
        {"duplication": 2},
        {"reordering": nan},
    ],
)
def test_weather_that_cannot_be_is_refused(weather):
    with pytest.raises(ValueError, match=r"delays|probability"):
        Conditions(**weather)


async def test_a_change_of_weather_that_cannot_be_is_refused_and_changes_nothing(sim, here, log):
    with pytest.raises(ValueError, match="probability"):
        sim.network.set_conditions("here", "there", loss=3)
    with pytest.raises(TypeError):
        sim.network.set_conditions("here", "there", fog=1)

    assert await here.call("there", b"", timeout_ms=10) == b"echo "
