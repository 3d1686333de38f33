"""What the controller's events took, and how many controllers there are."""

import pytest

from actors.controller.metrics import FORGOTTEN_MS, SAMPLES, EventTimes, Histogram
from runtime.keeper import Change, WatchEvent
from tests.support.drive import Drive
from wire.znodes import ControllerZNode


@pytest.fixture
async def drive(sim):
    return await Drive.start(sim)


@pytest.mark.behaviour("B026")
async def test_every_event_is_timed_by_its_type(sim, drive):
    await drive.create("orders", [2, 3])

    times = drive.node(1).controller.times

    assert set(times.queue_ms) == set(times.processing_ms)
    assert set(times.queue_ms) >= {"Registered", "WatchEvent", "LeaderAndIsrAnswered"}
    assert times.queue_ms["Registered"].count == 1
    assert times.processing_ms["Registered"].percentile(50) > 1  # all of taking office
    assert times.processing_ms["LeaderAndIsrAnswered"].percentile(99) == 0  # nothing to be done


@pytest.mark.behaviour("B026")
async def test_an_event_behind_a_slow_one_shows_its_time_in_the_queue(sim, drive):
    await drive.create("orders", [2, 3])
    sim.cut("broker-1", "zookeeper")
    change = WatchEvent(Change.CHILDREN, "/brokers/topics", session=1)
    drive.node(1).controller.ref.tell(change)  # its read takes as long as the cut
    drive.node(1).controller.ref.tell(change)
    await sim.sleep(2_000)
    sim.heal()
    await drive.settle()

    times = drive.node(1).controller.times

    assert 2_000 <= times.processing_ms["WatchEvent"].percentile(100) < 2_010
    assert 2_000 <= times.queue_ms["WatchEvent"].percentile(100) < 2_010
    assert times.queue_ms["WatchEvent"].percentile(50) < 1


@pytest.mark.behaviour("B026")
def test_percentiles_are_of_the_newest_values():
    histogram = Histogram()
    assert histogram.percentile(99) == 0

    for value in range(100, 0, -1):
        histogram.update(value)
    assert [histogram.percentile(part) for part in (0, 50, 75, 99, 100)] == [1, 50, 75, 99, 100]

    for _ in range(SAMPLES):
        histogram.update(7)
    assert histogram.percentile(0) == histogram.percentile(100) == 7
    assert histogram.count == 100 + SAMPLES


@pytest.mark.behaviour("B026")
def test_the_time_in_the_queue_is_forgotten_after_five_minutes_without_events():
    times = EventTimes()
    times.record("WatchEvent", 40, 2, now_ms=1_000)
    times.record("Asked", 10, 1, now_ms=2_000)

    almost = times.event_queue_ms(2_000 + FORGOTTEN_MS - 1)
    assert (almost.count, almost.percentile(99)) == (2, 40)

    assert times.event_queue_ms(2_000 + FORGOTTEN_MS).count == 0
    assert times.queue_ms["WatchEvent"].percentile(99) == 40  # those by type stay
    times.record("Asked", 5, 1, now_ms=400_000)
    assert times.event_queue_ms(400_000).percentile(99) == 5


@pytest.mark.behaviour("B026")
async def test_exactly_one_broker_counts_as_the_active_controller(sim, drive):
    def active():
        return [broker for broker, node in drive.cluster.nodes.items() if node.is_controller]

    assert active() == [1]

    await drive.kill(1)
    assert active() == [drive.controller_id]
    assert drive.controller_id == ControllerZNode.decode(drive.tree.get("/controller").data).broker

    await drive.restart(1)
    sim.expire_session(f"broker-{drive.controller_id}")
    await drive.settle()
    assert active() == [drive.controller_id]
