"""Bugs that Kafka once had with logs that were cut in the wrong place, or not at all.

Each scenario runs as it is, and once more in the generation that had the bug, or without its guard:
there the invariants must say so, or the scenario would prove nothing.
"""

import pytest

from actors.broker.replica import Replica
from actors.config import GENERATIONS
from actors.faults.invariants import Invariants
from actors.faults.matching import LogsMatch
from actors.faults.promises import CommittedIsNeverLost
from actors.faults.violation import Violation
from tests.support.data import produce, values_on
from tests.support.drive import Drive
from tests.support.leader import ORDERS, tell
from tests.support.orders import order
from wire.errors import ErrorCode

LOST, PARTED = CommittedIsNeverLost.name, LogsMatch.name
every_generation = pytest.mark.parametrize("generation", GENERATIONS)
guarded = pytest.mark.parametrize("is_guarded", [True, False], ids=["guarded", "as it was"])


class Watch:
    """Looks at every event whether an acknowledged record is lost; the first is kept."""

    def __init__(self, drive):
        self.violation = None
        now_ms = lambda: drive.sim.now_ms  # noqa: E731
        self._invariants = Invariants(drive.cluster, now_ms, (CommittedIsNeverLost(),))
        self._transmit = drive.sim.network.transmit
        drive.sim.network.transmit = self._sent
        drive.sim.trace.listeners.append(self._on_event)

    def _sent(self, frame):
        self._invariants.on_sent(frame)
        self._transmit(frame)

    def _on_event(self, stamp, event):
        self._invariants.on_event(stamp.node, event)
        self.violation = self.violation or violation(self._invariants)


def violation(invariants):
    """Which invariant does not hold, if one does not."""
    try:
        invariants.check()
    except Violation as found:
        return found.invariant
    return None


def parting(drive):
    """Whether logs part, now that all have come to terms.

    One who comes back after a power cut, or after an unclean election, is not cut at that moment.
    """
    return violation(Invariants(drive.cluster, lambda: drive.sim.now_ms, (LogsMatch(),)))


async def start(sim, brokers, generation="kip-320", **overrides):
    """Broker 1 is the controller, and has no replica; nobody is preferred unless a test says so."""
    overrides = {
        "replication_generation": generation,
        "auto_leader_rebalance_enable": False,
    } | overrides
    return await Drive.start(sim, brokers, overrides=overrides)


async def committed(drive, partition, value):
    result = await produce(drive, partition, value, acks=-1)
    assert result.error_code is ErrorCode.NONE


def ends(drive, *brokers):
    """Where the logs end, and up to where they are known to be committed."""
    replicas = [drive.replica(each, "orders") for each in brokers]
    return [(each.log_end_offset, each.high_watermark) for each in replicas]


# --- H18, KAFKA-1211 and KIP-101 ------------------------------------------------------------------


@pytest.mark.behaviour("H18")
@every_generation
async def test_no_acknowledged_record_is_lost_when_a_leader_dies_before_it_told_of_it(
    sim, generation
):
    """All have m2, and only the leader knows. Who follows the next leader may not cut it off."""
    drive = await start(sim, 5, generation)
    watch = Watch(drive)
    orders = await drive.create("orders", [2, 3, 4, 5])
    await committed(drive, orders, b"m1")
    await drive.settle()
    await committed(drive, orders, b"m2")
    assert ends(drive, 2, 3, 4, 5) == [(2, 2), (2, 1), (2, 1), (2, 1)]
    drive.sim.hold("broker-1", "broker-5")  # it has m2, and hears of nothing else for now
    drive.sim.cut("broker-3", "broker-4")

    drive.cluster.kill(2)
    await drive.sim.until(lambda: is_led(drive, 3) and is_followed(drive, 4, 3))
    await drive.sim.sleep(100)
    drive.cluster.kill(3)
    await drive.sim.until(lambda: is_led(drive, 4))

    leaders = values_on(drive, 4, orders)
    assert leaders == ([b"m1"] if generation == "high-watermark" else [b"m1", b"m2"])
    assert watch.violation == (LOST if generation == "high-watermark" else None)


def is_led(drive, broker):
    replica = drive.replica(broker, "orders")
    return drive.state("orders").leader == broker and replica.is_leader


def is_followed(drive, broker, leader):
    return drive.hosted(broker, "orders").leader == leader


@pytest.mark.behaviour("H18")
@every_generation
async def test_logs_do_not_part_when_all_lose_power_and_the_shorter_one_leads(sim, generation):
    """Kafka does not sync before it answers: what one has on its disk another may not have."""
    drive = await start(sim, 3, generation)
    orders = await drive.create("orders", [3, 2])
    await committed(drive, orders, b"m1")
    await flush(drive, 2, 3)
    await committed(drive, orders, b"m2")
    await flush(drive, 3)
    await drive.settle()  # high watermarks are noted
    assert ends(drive, 2, 3) == [(2, 2), (2, 2)]

    for broker in (2, 3):
        drive.sim.lose_unsynced(f"broker-{broker}")
    drive.vanish(3)
    drive.vanish(2)
    await drive.settle()
    await lead_next(drive, orders, 2)
    assert values_on(drive, 2, orders) == [b"m1"]
    await produce(drive, orders, b"n2")
    await drive.restart(3)

    assert values_on(drive, 2, orders) == [b"m1", b"n2"]
    is_cut = generation != "high-watermark"
    assert values_on(drive, 3, orders) == [b"m1", b"n2" if is_cut else b"m2"]
    assert parting(drive) == (None if is_cut else PARTED)


async def flush(drive, *brokers):
    for broker in brokers:
        await drive.replica(broker, "orders").log.flush()


async def lead_next(drive, partition, broker):
    """Start a broker that the controller may elect, even if it was not the last in sync."""
    if drive.state("orders").isr != (broker,):
        await drive.configure("topics", "orders", unclean_leader_election_enable="true")
    await drive.restart(broker)
    assert is_led(drive, broker)


# --- H19, KAFKA-6361 and KIP-279 ------------------------------------------------------------------


@pytest.mark.behaviour("H19")
@every_generation
async def test_logs_do_not_part_after_fast_changes_of_the_leader(sim, generation):
    """Each of two leaders wrote something that the other never had, in an epoch it never had."""
    drive = await start(sim, 3, generation, unclean_leader_election_enable=True)
    orders = await drive.create("orders", [2, 3])
    await committed(drive, orders, b"m0")
    await drive.settle()
    drive.sim.cut("broker-2", "broker-3")
    await produce(drive, orders, b"m1")  # in the first epoch, by 2 alone
    await flush(drive, 2)
    await drive.kill(2)
    assert is_led(drive, 3)
    await produce(drive, orders, b"n1")  # in the next, by 3 alone
    await flush(drive, 3)
    await drive.settle()
    await drive.kill(3)
    await drive.restart(2)
    assert is_led(drive, 2)
    await produce(drive, orders, b"o2")  # and in the third, by 2 again

    drive.sim.heal()
    await drive.restart(3)
    await produce(drive, orders, b"o3")
    await drive.settle()

    assert values_on(drive, 2, orders) == [b"m0", b"m1", b"o2", b"o3"]
    is_old = generation in {"high-watermark", "kip-101"}
    assert values_on(drive, 3, orders) == [b"m0", b"n1" if is_old else b"m1", b"o2", b"o3"]
    assert parting(drive) == (PARTED if is_old else None)


@pytest.mark.behaviour("H19")
@every_generation
async def test_a_follower_whose_log_parts_unseen_takes_what_its_leader_has_all_the_same(
    sim, generation
):
    """As above, but the leader wrote more in its first epoch: after n1 comes an earlier epoch."""
    drive = await start(sim, 3, generation, unclean_leader_election_enable=True)
    orders = await drive.create("orders", [2, 3])
    await committed(drive, orders, b"m0")
    await drive.settle()
    drive.sim.cut("broker-2", "broker-3")
    for value in (b"m1", b"m2"):
        await produce(drive, orders, value)
    await flush(drive, 2)
    await drive.kill(2)
    await produce(drive, orders, b"n1")
    await flush(drive, 3)
    await drive.settle()
    await drive.kill(3)
    await drive.restart(2)

    drive.sim.heal()
    await drive.restart(3)
    await produce(drive, orders, b"o3")
    await drive.settle()

    is_old = generation in {"high-watermark", "kip-101"}
    assert values_on(drive, 2, orders) == [b"m0", b"m1", b"m2", b"o3"]
    assert values_on(drive, 3, orders) == [b"m0", b"n1" if is_old else b"m1", b"m2", b"o3"]
    assert parting(drive) == (PARTED if is_old else None)


# --- H20, KAFKA-6880 and KIP-320 ------------------------------------------------------------------


@pytest.mark.behaviour("H20")
@pytest.mark.parametrize("generation", ["kip-279", "kip-320"])
async def test_a_leader_that_does_not_know_of_its_own_next_reign_is_not_followed_in_it(
    sim, generation
):
    """2 led in epoch 5, 4 in 6, 2 in 7; 3 knows all of it, and 2 still believes that it is 5."""
    drive = await start(sim, 4, generation)
    reign = {"replicas": (2, 3, 4), "isr": (2, 3, 4)}
    for broker in (2, 3, 4):
        await tell(drive, broker, order(ORDERS, 2, 5, **reign))
    await produce(drive, ORDERS, b"m0", acks=-1, leader=2)
    await drive.settle()
    for broker in (4, 3):
        await tell(drive, broker, order(ORDERS, 4, 6, **reign))
    await produce(drive, ORDERS, b"n1", leader=4)
    await drive.settle()
    assert values_on(drive, 3, ORDERS) == [b"m0", b"n1"]
    await produce(drive, ORDERS, b"m1", leader=2)  # it does not know better

    await tell(drive, 3, order(ORDERS, 2, 7, **reign))
    await drive.settle()
    misled = generation == "kip-279"
    assert values_on(drive, 3, ORDERS) == [b"m0", b"m1" if misled else b"n1"]

    await tell(drive, 2, order(ORDERS, 4, 6, **reign))
    await drive.settle()
    await tell(drive, 2, order(ORDERS, 2, 7, **reign))
    await produce(drive, ORDERS, b"p2", leader=2)
    await drive.settle()

    assert values_on(drive, 2, ORDERS) == [b"m0", b"n1", b"p2"]
    assert values_on(drive, 3, ORDERS) == [b"m0", b"m1" if misled else b"n1", b"p2"]
    assert parting(drive) == (PARTED if misled else None)


# --- H21, KAFKA-7128 ------------------------------------------------------------------------------


@pytest.mark.behaviour("H21")
@guarded
async def test_who_lacks_what_was_committed_under_an_earlier_leader_is_not_in_sync(
    sim, monkeypatch, is_guarded
):
    """A new leader may not know yet what was committed: its own log's end is what counts."""
    if not is_guarded:

        def by_high_watermark_alone(self, broker):
            follower = self.followers.get(broker)
            is_there = follower is not None and follower.log_end_offset >= self.high_watermark
            return is_there and self.hosted.may_join(broker)

        monkeypatch.setattr(Replica, "may_join", by_high_watermark_alone)
    drive = await start(sim, 5, replica_lag_time_max_ms=10_000)
    watch = Watch(drive)
    orders = await drive.create("orders", [2, 3, 4, 5])
    await committed(drive, orders, b"m1")
    await drive.settle()
    drive.sim.cut("broker-2", "broker-4")
    drive.shrink(4, orders)
    await drive.sim.sleep(15_000)
    await committed(drive, orders, b"m2")
    assert drive.state("orders").isr == (2, 3, 5)
    assert ends(drive, 2, 3, 4, 5) == [(2, 2), (2, 1), (1, 1), (2, 1)]
    drive.sim.cut("broker-3", "broker-5")  # so 3 does not learn that 5 has m2,
    drive.sim.cut("broker-3", "broker-4", one_way=True)  # and 4 asks 3 for it in vain

    drive.cluster.kill(2)
    await drive.sim.until(lambda: is_led(drive, 3) and is_followed(drive, 4, 3))
    await drive.sim.sleep(1_000)
    assert ends(drive, 3, 4) == [(2, 1), (1, 1)]
    assert drive.state("orders").isr == ((3, 5) if is_guarded else (3, 5, 4))
    drive.cluster.kill(3)
    await drive.sim.until(lambda: is_led(drive, 5 if is_guarded else 4))

    leader = drive.state("orders").leader
    assert values_on(drive, leader, orders) == ([b"m1", b"m2"] if is_guarded else [b"m1"])
    assert watch.violation == (None if is_guarded else LOST)
