"""A broker's fetchers: num.replica.fetchers for each leader that it follows.

Rule: a partition is followed at one leader at a time, by the fetcher that its name and number
choose (B145); a fetcher that follows nothing is stopped (B136).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from actors.broker.fetcher import Fetcher
from actors.broker.fetching import Follow, Position, Unfollow
from actors.broker.meters import Meters
from actors.broker.quota import ReplicationQuota
from actors.config import BrokerConfig
from runtime.ref import Receiver, Ref
from runtime.system import System
from runtime.world import World
from wire.ids import BrokerId, TopicPartition
from wire.java import absolute, int32, string_hash

Line = tuple[BrokerId, int]  # the leader, and which of the fetchers


def fetcher_id(partition: TopicPartition, fetchers: int) -> int:
    """Which fetcher follows a partition, as Kafka's AbstractFetcherManager chooses."""
    return absolute(int32(31 * string_hash(partition.topic) + partition.partition)) % fetchers


class Fetchers:
    """Who is followed where."""

    def __init__(
        self,
        world: World,
        config: BrokerConfig,
        system: System,
        name_of: Callable[[BrokerId], str],
        replica_manager: Receiver,
        meters: Meters,
    ) -> None:
        self._world = world
        self._config = config
        self._system = system
        self._name_of = name_of
        self._replica_manager = replica_manager
        self._meters = meters
        self._refs: dict[Line, Ref] = {}
        self._followed: dict[TopicPartition, Line] = {}
        self._counts = Counter[Line]()  # of partitions
        self.quota = ReplicationQuota()

    def __len__(self) -> int:
        return len(self._refs)

    def follow(self, positions: Mapping[BrokerId, Mapping[TopicPartition, Position]]) -> None:
        """Fetch these at these leaders."""
        by_line: dict[Line, dict[TopicPartition, Position]] = {}
        for leader, partitions in sorted(positions.items()):
            for partition, position in partitions.items():
                line = (leader, fetcher_id(partition, self._config.num_replica_fetchers))
                by_line.setdefault(line, {})[partition] = position
        self.unfollow(each for partitions in by_line.values() for each in partitions)
        for line, found in by_line.items():
            self._followed.update(dict.fromkeys(found, line))
            self._counts[line] += len(found)
            self._fetcher(line).tell(Follow(found))

    def unfollow(self, partitions: Iterable[TopicPartition]) -> None:
        """Fetch these no longer."""
        by_line: dict[Line, set[TopicPartition]] = {}
        for partition in partitions:
            line = self._followed.pop(partition, None)
            if line is not None:
                self._meters.unfollowed(partition)
                by_line.setdefault(line, set()).add(partition)
        for line, gone in sorted(by_line.items()):
            self._counts[line] -= len(gone)
            self._refs[line].tell(Unfollow(frozenset(gone)))

    def stop_idle(self) -> None:
        """End those that follow nothing."""
        for line in [each for each in self._refs if not self._counts[each]]:
            del self._counts[line]
            self._system.kill_actor(self._refs.pop(line))

    def _fetcher(self, line: Line) -> Ref:
        if line not in self._refs:
            leader, number = line
            name = self._name_of(leader)
            fetcher = Fetcher(self._world, self._config, name, self._replica_manager, self.quota)
            self._refs[line] = self._system.start(f"fetcher-{number}-{leader}", fetcher)
        return self._refs[line]
