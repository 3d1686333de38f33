"""Members go on, whoever fails and whenever: all is read, and nobody is told what is not so."""

import asyncio

import pytest

from actors.faults.watched import Watched
from actors.node import node_name
from tests.actors.client.readers import SESSION_MS, Reader, values
from tests.actors.coordinator.shop import GROUP, Shop
from wire.trace import GroupMemberLeft, GroupStateChanged

RECORDS = 20
PHASES = ("PreparingRebalance", "CompletingRebalance", "Stable")


class Club:
    """A cluster, a group of two, and invariants that look on."""

    @classmethod
    async def open(cls, sim):
        club = cls()
        club.sim = sim
        club.shop = await Shop.open(sim, watch=club.watch)
        club.drive, club.cluster = club.shop.drive, club.shop.cluster
        club.readers, club.written = [], 0
        await club.shop.commit(0)  # so that the group has a coordinator, whom a test may kill
        return club

    def watch(self, cluster):
        self.watched = Watched(self.sim, cluster)

    def reader(self, **options):
        reader = Reader(self.cluster, ["orders"], group_id=GROUP, **options)
        self.readers.append(reader)
        return reader

    async def write(self, count=RECORDS):
        async with self.cluster.producer(acks=-1) as producer:
            sent = [
                await producer.enqueue("orders", b"%d" % each, partition=each % 2)
                for each in range(self.written, self.written + count)
            ]
            for each in sent:
                await each
        self.written += count

    async def two(self):
        first, second = self.reader(), self.reader()
        await self.shared()
        return first, second

    async def shared(self):
        await self.sim.until(lambda: all(len(each.has) == 1 for each in self.readers))
        assert self.readers[0].has != self.readers[1].has

    async def read_all(self):
        """Wait until all that was written was read by somebody."""
        await self.sim.until(lambda: set(values(*self.readers)) == set(range(self.written)))

    async def close(self):
        for reader in self.readers:
            await reader.stop()
        await self.drive.settle()
        self.watched.raise_if_violated()
        self.watched.invariants.check_in_the_end()


@pytest.fixture
async def club(sim):
    club = await Club.open(sim)
    yield club
    await club.close()


def at_phase(club, state, action):
    """Do it once, when the group is next in a state."""
    club.drive.at_first(
        GroupStateChanged,
        lambda: club.sim.loop.call_soon(action),
        lambda event: event.state == state,
    )


@pytest.mark.parametrize("phase", PHASES)
async def test_the_coordinator_dies_while_a_second_member_comes(sim, club, phase):
    await club.write()
    club.reader()
    await club.read_all()
    former = club.shop.coordinator
    at_phase(club, phase, lambda: club.cluster.kill(former))

    club.reader()
    await club.shared()
    await club.write()
    await club.read_all()

    assert club.shop.coordinator != former


@pytest.mark.parametrize("phase", PHASES)
async def test_the_coordinator_dies_while_a_member_leaves(sim, club, phase):
    first, second = await club.two()
    former = club.shop.coordinator
    at_phase(club, phase, lambda: club.cluster.kill(former))

    club.readers.remove(second)
    await second.stop()
    await sim.until(lambda: len(first.has) == 2)
    await club.write()
    await club.read_all()


async def test_the_coordinator_dies_between_two_rebalances_and_nobody_joins_again(sim, club):
    first, second = await club.two()
    changes = len(first.assigned) + len(second.assigned)

    await club.drive.kill(club.shop.coordinator)
    await club.write()
    await club.read_all()
    await sim.sleep(2 * SESSION_MS)

    assert len(first.assigned) + len(second.assigned) == changes
    assert values(first, second) == list(range(RECORDS))


async def test_the_coordinator_dies_over_commits_and_nothing_is_missed(sim, club):
    await club.two()
    for _ in range(3):
        victim = club.shop.coordinator
        writing = asyncio.create_task(club.write())
        await sim.sleep(30)
        club.cluster.kill(victim)
        await writing
        await club.read_all()
        await club.cluster.start_broker(victim)
        await club.drive.settle()


async def test_a_member_dies_and_then_the_coordinator(sim, club):
    first, second = await club.two()
    club.readers.remove(second)
    await second.vanish()
    await club.drive.kill(club.shop.coordinator)

    await sim.until(lambda: len(first.has) == 2)

    assert any("session" in each.reason for each in club.drive.of(GroupMemberLeft))


async def test_a_zombie_member_commits_nothing_and_comes_back(sim, club):
    first, second = await club.two()
    theirs = second.has[0]
    name = second.name
    for broker in club.cluster.brokers:
        sim.cut(name, node_name(broker))
    await sim.until(lambda: len(first.has) == 2)
    await club.write()
    await sim.until(lambda: set(values(first)) == set(range(RECORDS)))
    sim.heal()

    await club.shared()
    assert second.revoked[-1] == (theirs,)
    assert await club.shop.committed(theirs) == RECORDS // 2


async def test_a_coordinator_that_lost_zookeeper_is_left_for_another_one(sim, club):
    await club.two()
    former = club.shop.coordinator
    sim.cut(node_name(former), "zookeeper")
    await sim.until(lambda: club.shop.coordinator != former)

    await club.write()
    await club.read_all()
    await club.shared()
    sim.heal()


async def test_a_deposed_coordinator_completes_no_rebalance(sim, club):
    """Cut off from the others it may gather members, and gives them nothing."""
    await club.two()
    former = club.shop.coordinator
    club.shop.cut_off(former, *club.shop.others)
    sim.cut(node_name(former), "zookeeper")
    third = club.reader()
    await sim.until(lambda: club.shop.coordinator != former)
    await sim.until(lambda: sum(len(each.has) for each in club.readers) == 2)
    sim.heal()
    await club.write()
    await club.read_all()

    club.readers.remove(third)
    await third.stop()
    await club.shared()


async def test_all_brokers_are_stopped_and_the_group_goes_on(sim, club):
    await club.write()
    first, second = await club.two()
    await club.read_all()
    for broker in club.cluster.brokers:
        await club.cluster.stop_broker(broker, retries=0)
    await club.cluster.start_nodes()
    await club.drive.settle()

    await club.write()
    await club.read_all()
    assert len(values(first, second)) == 2 * RECORDS
