"""A broker's fetchers: one for each leader that it follows.

Rule: a partition is followed at one leader at a time; a fetcher that follows nothing is stopped
(B136, B145).
"""

from collections.abc import Callable, Iterable, Set

from actors.broker.fetcher import Fetcher, Follow, Unfollow
from runtime.ref import Ref
from runtime.system import System
from runtime.world import World
from wire.control import LeaderAndIsrPartition
from wire.ids import BrokerId, LeaderEpoch, TopicPartition


class Fetchers:
    """Who is followed where."""

    def __init__(
        self, world: World, me: BrokerId, system: System, name_of: Callable[[BrokerId], str]
    ) -> None:
        self._world = world
        self._me = me
        self._system = system
        self._name_of = name_of
        self._refs: dict[BrokerId, Ref] = {}
        self._followed: dict[TopicPartition, BrokerId] = {}

    def follow(self, entries: list[LeaderAndIsrPartition], live: Set[BrokerId]) -> None:
        """Fetch where the leader can be reached; elsewhere wait for its turn (B138)."""
        self.unfollow(entry.partition for entry in entries)
        by_leader: dict[BrokerId, dict[TopicPartition, LeaderEpoch]] = {}
        for entry in entries:
            if entry.leader in live:
                by_leader.setdefault(entry.leader, {})[entry.partition] = entry.leader_epoch
                self._followed[entry.partition] = entry.leader
        for leader, partitions in sorted(by_leader.items()):
            self._fetcher(leader).tell(Follow(partitions))

    def unfollow(self, partitions: Iterable[TopicPartition]) -> None:
        """Fetch these no longer."""
        by_leader: dict[BrokerId, set[TopicPartition]] = {}
        for partition in partitions:
            leader = self._followed.pop(partition, None)
            if leader is not None:
                by_leader.setdefault(leader, set()).add(partition)
        for leader, gone in sorted(by_leader.items()):
            self._refs[leader].tell(Unfollow(frozenset(gone)))

    def stop_idle(self) -> None:
        """End those that follow nothing."""
        used = set(self._followed.values())
        for leader in [each for each in self._refs if each not in used]:
            self._system.kill_actor(self._refs.pop(leader))

    def _fetcher(self, leader: BrokerId) -> Ref:
        if leader not in self._refs:
            fetcher = Fetcher(self._world, self._me, self._name_of(leader))
            self._refs[leader] = self._system.start(f"fetcher-0-{leader}", fetcher)
        return self._refs[leader]
