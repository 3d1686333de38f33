"""What can be seen of a cluster from outside: its live replicas, and what is in their logs.

Rule: nothing is read twice. A replica that has not changed since the last look costs a comparison;
of a log that has grown only the new batches are read, and one whose end went back is read anew.
"""

from collections.abc import Iterable
from typing import NamedTuple

from actors.broker.log.log import Log
from actors.broker.partition import HostedPartition
from actors.broker.replica import Replica
from actors.node import Node
from actors.node_cluster import NodeCluster
from wire.errors import KafkaStorageError
from wire.ids import BrokerId, LeaderEpoch, Offset, TopicPartition
from wire.records import batches

_ALL_BYTES = 1 << 40
Key = tuple[int, TopicPartition]


class Batch(NamedTuple):
    """What makes a batch this one: the CRC is over all that the producer wrote."""

    base_offset: Offset
    last_offset: Offset
    epoch: LeaderEpoch
    crc: int


class Seen:
    """A replica as it was at the last look, in one life of its broker."""

    __slots__ = (
        "_cuts",
        "batches",
        "before",
        "broker",
        "cuts",
        "end",
        "high_watermark",
        "hosted",
        "is_blind",
        "log",
        "node",
        "partition",
        "recovery_point",
        "replica",
        "start",
        "uncut",
    )

    def __init__(self, node: Node, replica: Replica, before: "Seen | None") -> None:
        self.node = node
        self.replica = replica
        self.before = before  # the last sight of this replica in an earlier life, until judged
        self.broker = BrokerId(node.config.broker_id)
        self.partition = replica.partition
        self.hosted: HostedPartition = replica.hosted
        self.is_blind = False  # nobody can read its log now
        self.log: Log | None = None
        self.batches: list[Batch] = []
        self.uncut: list[Batch] = []  # what was there before a cut that may not be durable yet
        self.cuts = 0  # how often batches were forgotten: what was said of them is void
        self._cuts = 0  # the log's own count
        self.end: Offset = Offset(0)
        self.start: Offset = Offset(0)
        self.high_watermark: Offset = Offset(-1)  # so that the first look is a change
        self.recovery_point: Offset = Offset(0)

    @property
    def leads(self) -> bool:
        """Whether it believes to be the leader."""
        return self.hosted.is_leader

    @property
    def epoch(self) -> LeaderEpoch:
        """Of the last decision that it heard of."""
        return self.hosted.leader_epoch

    def is_of_namesake(self, other: "Seen") -> bool:
        """Whether the other is a replica of another topic of that name: they share nothing."""
        mine, its = self.hosted.topic_id, other.hosted.topic_id
        return mine is not None and its is not None and mine != its

    @property
    def is_as_it_was(self) -> bool:
        """Whether another look would see nothing new."""
        replica, log = self.replica, self.replica.log
        return (
            log is self.log
            and replica.hosted is self.hosted
            and replica.high_watermark == self.high_watermark
            and (
                log is None
                or (
                    log.log_end_offset == self.end
                    and log.cuts == self._cuts
                    and log.recovery_point == self.recovery_point
                    and log.log_start_offset == self.start
                )
            )
        )

    def look(self) -> bool:
        """See what it is now; whether anything has changed."""
        replica, log = self.replica, self.replica.log
        is_changed = False
        if log is not None and (
            log is not self.log or log.cuts != self._cuts or log.log_end_offset != self.end
        ):
            self.is_blind = not self._read(log)
            if self.is_blind:
                return False
            is_changed = True
        if replica.hosted is not self.hosted or replica.high_watermark != self.high_watermark:
            self.hosted, self.high_watermark = replica.hosted, replica.high_watermark
            is_changed = True
        if log is None:
            return is_changed
        self.recovery_point = log.recovery_point
        if log.log_start_offset != self.start:
            self.start = log.log_start_offset
            is_changed = True
        return is_changed

    def _read(self, log: Log) -> bool:
        """Whether all of it could be read; if not, nothing was seen."""
        is_anew = log is not self.log or log.cuts != self._cuts
        end = log.log_start_offset if is_anew else self.end
        new: list[Batch] = []
        while end < log.log_end_offset:
            try:
                read = log.read(max(end, log.log_start_offset), _ALL_BYTES)
            except KafkaStorageError:
                return False
            for batch in batches(read):
                header = batch.header
                new.append(
                    Batch(
                        header.base_offset,
                        header.last_offset,
                        header.partition_leader_epoch,
                        header.crc,
                    )
                )
                end = header.next_offset
            if not read:
                end = log.log_end_offset
        if is_anew:
            self.uncut = self.batches
            self.log, self._cuts, self.batches = log, log.cuts, []
            self.cuts += 1
        self.batches += new
        self.end = end
        return True

    def batch_at(self, offset: int) -> Batch | None:
        """The batch that holds an offset."""
        low, high = 0, len(self.batches)
        while low < high:
            middle = (low + high) // 2
            if self.batches[middle].last_offset < offset:
                low = middle + 1
            else:
                high = middle
        found = self.batches[low] if low < len(self.batches) else None
        return found if found is not None and found.base_offset <= offset else None


class Sight:
    """All live replicas of a cluster."""

    def __init__(self, cluster: NodeCluster) -> None:
        self.cluster = cluster
        self.all: dict[Key, Seen] = {}
        self._past: dict[Key, Seen] = {}
        self._last: dict[int, tuple[Node, list[Replica], list[Seen]]] = {}  # of each live broker
        self._changed: dict[Key, Seen] = {}

    def changed(self) -> list[Seen]:
        """The replicas that have changed since they were last asked for."""
        self.look()
        changed = list(self._changed.values())
        self._changed.clear()
        return changed

    def look(self) -> None:
        """See what there is now."""
        is_another = False
        for broker, node in self.cluster.nodes.items():
            if not node.system.is_up:
                is_another |= self._last.pop(broker, None) is not None
                continue
            replicas = list(node.replica_manager.replicas.values())
            last = self._last.get(broker)
            if last is None or last[0] is not node or last[1] != replicas:
                is_another = True
                self._look_anew(broker, node)
                continue
            for seen in last[2]:
                if not seen.is_as_it_was:
                    self._look_at(broker, seen)
        if is_another:
            self._bury()

    def _look_anew(self, broker: int, node: Node) -> None:
        """Other replicas than before are here, or it is another life."""
        all_seen: list[Seen] = []
        for partition, replica in node.replica_manager.replicas.items():
            key = (broker, partition)
            seen = self.all.get(key)
            if seen is None or seen.replica is not replica:
                self._forget(key, seen)
                seen = self.all[key] = Seen(node, replica, self._past.pop(key, None))
            all_seen.append(seen)
        self._last[broker] = (node, [each.replica for each in all_seen], all_seen)
        for seen in all_seen:
            self._look_at(broker, seen)

    def _look_at(self, broker: int, seen: Seen) -> None:
        key = (broker, seen.partition)
        if seen.look():
            self._changed[key] = seen
        elif seen.is_blind:  # it is seen again when its disk is well
            self._past[key] = seen.before or seen
            del self.all[key]
            self._changed.pop(key, None)
            self._last[broker] = (seen.node, [], [])  # so that all are looked for the next time

    def of(self, partition: TopicPartition) -> list[Seen]:
        """The live replicas of one partition."""
        return [seen for (_, where), seen in self.all.items() if where == partition]

    def leaders(self, partitions: Iterable[TopicPartition]) -> list[Seen]:
        """Those that believe to lead one of these."""
        wanted = set(partitions)
        return [seen for (_, at), seen in self.all.items() if at in wanted and seen.leads]

    def _forget(self, key: Key, seen: Seen | None) -> None:
        if seen is not None:
            seen.before = None
            self._past[key] = seen

    def _bury(self) -> None:
        gone = [
            key
            for key, seen in self.all.items()
            if not seen.node.system.is_up
            or key[1] not in seen.node.replica_manager.replicas  # stopped or deleted
        ]
        for key in gone:
            self._forget(key, self.all.pop(key))
            self._changed.pop(key, None)
