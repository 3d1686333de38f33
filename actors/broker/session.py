"""A follower's half of a fetch session: what the leader knows, and what it has to be told.

Rule: a request names the partitions that differ from what the leader remembers, and no others
(KIP-227). Whatever goes wrong, the next request begins a session with all of them. Without leader
epochs in it a request cannot tell for which reign of its leader it was made, so those generations
name everything each time.
"""

from actors.config import BrokerConfig
from wire.data import (
    FINAL_SESSION_EPOCH,
    INITIAL_SESSION_EPOCH,
    NO_SESSION,
    Fetch,
    FetchPartition,
)
from wire.ids import BrokerId, TopicPartition


class Session:
    """What is fetched at one leader."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self._id = NO_SESSION
        self._former = NO_SESSION  # to be ended by the leader
        is_kept = config.replication_generation == "kip-320"
        self._first = INITIAL_SESSION_EPOCH if is_kept else FINAL_SESSION_EPOCH
        self._epoch = self._first
        self._changed: dict[TopicPartition, None] = {}
        self._forgotten: dict[TopicPartition, None] = {}
        self._asked: dict[TopicPartition, FetchPartition] = {}  # as the leader remembers it
        self.wanted: dict[TopicPartition, FetchPartition] = {}

    def want(self, wanted: FetchPartition) -> None:
        """Ask for a partition from here on; even if it is the same: it is asked for again."""
        self.wanted[wanted.partition] = wanted
        self._changed[wanted.partition] = None
        self._forgotten.pop(wanted.partition, None)

    def forget(self, partition: TopicPartition) -> None:
        """Ask for it no more."""
        if self.wanted.pop(partition, None) is not None:
            self._changed.pop(partition, None)
            if partition in self._asked:
                self._forgotten[partition] = None

    def asked_at(self, partition: TopicPartition) -> FetchPartition | None:
        """What the leader was last asked for."""
        return self._asked.get(partition)

    def request(self) -> Fetch:
        """The next request; all of it is sent."""
        is_new = self._epoch == self._first
        named = self.wanted if is_new else self._changed
        partitions = tuple(self.wanted[each] for each in named)
        forgotten = () if is_new else tuple(self._forgotten)
        if is_new:
            self._asked = {}
        for partition in forgotten:
            self._asked.pop(partition, None)
        self._asked.update((each.partition, each) for each in partitions)
        self._changed.clear()
        self._forgotten.clear()
        config = self._config
        return Fetch(
            replica_id=BrokerId(config.broker_id),
            max_wait_ms=config.replica_fetch_wait_max_ms,
            min_bytes=config.replica_fetch_min_bytes,
            max_bytes=config.replica_fetch_response_max_bytes,
            partitions=partitions,
            session_id=self._former if is_new else self._id,
            session_epoch=self._epoch,
            forgotten=forgotten,
        )

    def answered(self, session_id: int) -> None:
        """The leader has answered, in this session or without one."""
        self._id = self._former = session_id
        if session_id == NO_SESSION:
            self.reset()
        else:
            self._epoch += 1

    def reset(self) -> None:
        """Begin again: the next request names everything."""
        self._id = NO_SESSION
        self._epoch = self._first
        self._changed = dict.fromkeys(self.wanted)
        self._forgotten.clear()
