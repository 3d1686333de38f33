"""Groups of clients that nobody here wrote: they share, their coordinator dies, they go on.

Rule: nothing that was acknowledged is missed, and the history checker says so; what a group has
committed is where the next members begin.
"""

import asyncio

import pytest

from actors.coordinator.records import OFFSETS_TOPIC
from actors.faults.history.checker import check_history
from actors.faults.history.recording import History, HistoryConsumer, HistoryProducer
from tests.support.members import Member, WitnessClock
from tests.support.real_cluster import RealDrive, real_cluster
from tests.support.zookeeper import SharedZooKeeper
from wire.ids import TopicPartition
from wire.trace import GroupMemberLeft, GroupStateChanged, Stamp

OVERRIDES = {"offsets_topic_num_partitions": 1, "min_insync_replicas": 2}
SESSION_MS = 3_000
PARTITIONS = 4
RECORDS = 100
LIMIT_S = 90
TRIES = 4
KINDS = ("confluent-kafka", "kafka-python", "aiokafka", "kcat")


class Party:
    """One kind of client, its topic and its group."""

    def __init__(self, kind: str, drive: RealDrive, history: History, clock: WitnessClock):
        self.kind, self.drive, self.history = kind, drive, history
        self._clock = clock
        self._listening: dict[Member, asyncio.Task[None]] = {}
        self.topic, self.group = f"{kind}-topic", f"{kind}-group"
        self.members: list[Member] = []
        self.written = 0
        self._news = asyncio.Event()
        self.silent = 0  # members that the coordinator has heard nothing of
        drive.cluster.process.trace.watch([GroupMemberLeft], self._hear)
        self.partitions = [TopicPartition(self.topic, each) for each in range(PARTITIONS)]

    def _hear(self, _: Stamp, event: GroupMemberLeft) -> None:
        if event.group == self.group and "not heard of" in event.reason:
            self.silent += 1
            self._news.set()

    async def until(self, holds, what: str) -> None:
        """Wait until something holds of the members, looking again when one has news."""
        try:
            async with asyncio.timeout(LIMIT_S):
                while not holds():
                    crashed = [each.crash for each in self.members if each.crash]
                    assert not crashed, f"{self.kind}: {crashed}"
                    await self._news.wait()
                    self._news.clear()
        except TimeoutError:
            seen = [(each.name, len(each.seen), each.errors[-2:]) for each in self.members]
            story = [e for e in self.drive.events if getattr(e, "group", "") == self.group][-12:]
            raise AssertionError(
                f"{self.kind}: not {what} of {self.written}: {seen}; {story}"
            ) from None

    async def join(self, name: str) -> Member:
        member = Member(
            f"{self.kind} {name}", self.group, self.history, self._clock, self._news.set
        )
        self.members.append(member)
        await member.start(self.kind, self.drive.cluster.bootstrap_servers, self.topic)
        self._listening[member] = asyncio.create_task(member.listen())
        return member

    async def join_and_read(self, name: str, count: int) -> tuple[Member, set[bytes]]:
        """Let a member read so many; a program that has stopped talking is started once more.

        kafka-python 3.0.12 does that after one in ten or so of its joins: it hangs in poll, with
        nothing asked and nothing unanswered.
        """
        seen: set[bytes] = set()
        for _ in range(TRIES):
            silent, member = self.silent, await self.join(name)

            def is_over(member: Member = member, silent: int = silent) -> bool:
                return len(seen | set(member.seen)) >= count or self.silent > silent

            await self.until(is_over, "the rest read")
            seen.update(member.seen)
            if len(seen) >= count:
                return member, seen
            member.kill()
            self.members.remove(member)
        raise AssertionError(f"{self.kind}: {TRIES} members in turn have fallen silent")

    async def leave(self, *members: Member) -> None:
        for each in members:
            each.stop()
        async with asyncio.timeout(LIMIT_S):
            for each in members:
                await self._listening[each]
                assert not each.crash, (each.name, each.crash)

    async def close(self) -> None:
        for each in self.members:
            each.kill()
        await asyncio.gather(*self._listening.values(), return_exceptions=True)

    async def write(self, count: int = RECORDS) -> None:
        producer = HistoryProducer(
            self.drive.cluster.producer(acks=-1), self.history, f"{self.kind} writer"
        )
        async with producer:
            sent = [
                await producer.enqueue(self.topic, b"%d" % each, partition=each % PARTITIONS)
                for each in range(self.written, self.written + count)
            ]
            for each in sent:
                await each
        self.written += count

    async def read_all(self) -> None:
        expected = {b"%d" % each for each in range(self.written)}
        await self.until(
            lambda: {value for each in self.members for value in each.seen} >= expected,
            "all read",
        )

    async def shared(self, first: Member, second: Member) -> None:
        def is_shared() -> bool:
            return (
                first.read_from.isdisjoint(second.read_from)
                and len(first.read_from) == len(second.read_from) == PARTITIONS // 2
            )

        while not is_shared():
            await self.write(PARTITIONS)
            await self.read_all()


@pytest.fixture
async def drive(zookeeper: SharedZooKeeper):
    async with real_cluster(zookeeper, session_timeout_ms=SESSION_MS, overrides=OVERRIDES) as drive:
        yield drive


async def play(party: Party, is_calm: asyncio.Barrier, is_dead: asyncio.Event) -> None:
    """Two members, a rebalance, a coordinator's death, a restart of the members."""
    await party.drive.admin.create_topic(party.topic, partitions=PARTITIONS, replication_factor=3)
    await party.write()
    first = await party.join("first")
    await party.read_all()
    second = await party.join("second")
    await party.shared(first, second)
    await is_calm.wait()
    await is_dead.wait()
    await party.write()
    await party.read_all()
    await party.leave(first, second)

    # All of it was committed: the next ones begin behind it, and read what is new.
    fresh = RECORDS // 2
    await party.write(fresh)
    third, seen = await party.join_and_read("third", fresh)
    assert {int(each) for each in seen} == set(range(party.written - fresh, party.written))
    await party.leave(third)


async def test_other_peoples_members_share_and_go_on_when_their_coordinator_dies(drive: RealDrive):
    clock = WitnessClock(drive.cluster.nodes[1].world.clock)
    history = History(clock)
    parties = [Party(kind, drive, history, clock) for kind in KINDS]
    is_calm, is_dead = asyncio.Barrier(len(parties) + 1), asyncio.Event()

    try:
        async with asyncio.TaskGroup() as tasks:
            for each in parties:
                tasks.create_task(play(each, is_calm, is_dead))
            await is_calm.wait()
            former = (await drive.state(TopicPartition(OFFSETS_TOPIC, 0))).leader
            drive.cluster.kill(former)
            await drive.cluster.start_broker(former)
            is_dead.set()
    finally:
        for each in parties:
            await each.close()

    reader = HistoryConsumer(drive.cluster.consumer(), history, "judge")
    async with reader:
        await reader.read_to_end([each for party in parties for each in party.partitions])
    assert check_history(history.events) == []
    rebalanced = {each.group for each in drive.events if isinstance(each, GroupStateChanged)}
    assert rebalanced >= {each.group for each in parties}
    listed = {each.group_id: each.state for each in await drive.admin.list_groups()}
    assert {listed[each.group] for each in parties} == {"Empty"}
