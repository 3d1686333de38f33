"""Which replicas this broker has, as the controller decides.

Rule: a decision is taken only if its leader epoch is newer than the one at hand (B135, B141). In
one LeaderAndIsr leaders are made first, then followers (B136). A replica that is stopped keeps its
log and its high watermark; one that is deleted frees its name before the answer. Who was away when
its replica was moved hears of it from metadata, and stops; only an order deletes.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from actors.administration.names import check_topic_name
from actors.broker.fetchers import Fetchers
from actors.broker.fetching import Position
from actors.broker.following import Following
from actors.broker.leading import Leading
from actors.broker.log.config import LogConfig
from actors.broker.log.folders import partitions_on
from actors.broker.log.log import Log
from actors.broker.log.manager import LogManager
from actors.broker.log.storage import Storage
from actors.broker.metadata import MetadataCache
from actors.broker.naming import of_namesakes
from actors.broker.partition import HostedPartition
from actors.broker.replica import ZERO, Replica, Replicas
from actors.broker.settings import Settings
from runtime.world import World
from wire.control import (
    LeaderAndIsr,
    LeaderAndIsrPartition,
    LeaderAndIsrResponse,
    StopReplica,
    StopReplicaPartition,
    StopReplicaResponse,
    UpdateMetadata,
    UpdateMetadataPartition,
)
from wire.errors import ErrorCode, InvalidTopic, KafkaStorageError, NotLeaderOrFollower
from wire.ids import (
    LEADER_EPOCH_DURING_DELETE,
    NO_LEADER_EPOCH,
    BrokerId,
    LeaderEpoch,
    TopicId,
    TopicPartition,
)
from wire.message import PartitionResult
from wire.trace import LogSkipped, ReplicaRoleChanged

UNKNOWN: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
UNFENCED: Final = frozenset({LEADER_EPOCH_DURING_DELETE, NO_LEADER_EPOCH})


class Hosting:
    """The replicas of this broker, and what each of them is."""

    def __init__(  # noqa: PLR0913 - it puts together what the others do
        self,
        world: World,
        me: BrokerId,
        replicas: Replicas,
        cache: MetadataCache,
        settings: Settings,
        *,
        leading: Leading,
        following: Following,
        fetchers: Fetchers,
        on_leadership: Callable[[TopicPartition, LeaderEpoch, bool], None],
        failed: Callable[[KafkaStorageError], None],
    ) -> None:
        self._world = world
        self._me = me
        self.replicas = replicas
        self._cache = cache
        self._settings = settings
        self._leading = leading
        self._following = following
        self._fetchers = fetchers
        self._on_leadership = on_leadership
        self._failed = failed
        self.stopped: Replicas = {}  # their logs are here, and nobody asks for them
        self._topics: dict[str, int] = {}  # how many partitions of each are hosted
        self.offline = leading.offline
        self.is_disk_dead = False
        self.logs: LogManager | None = None  # None until they are loaded

    @property
    def held(self) -> frozenset[TopicPartition]:
        """All partitions of which this broker has data, or would have: stopped ones too (L-8)."""
        logs = {} if self.logs is None else self.logs.logs
        return frozenset((*self.replicas, *self.stopped, *logs))

    async def load(self) -> None:
        """Open what is on the disk, each log as its topic says; KafkaStorageError: it cannot be."""
        settings, world = self._settings, self._world
        with Storage("the log directory"):
            topics = sorted({at.topic for at in partitions_on(world.disk)})
        await settings.learn(topics)

        def config_of(topic: str) -> LogConfig:
            known = settings.of(topic)
            if known is None:
                raise KafkaStorageError(f"{topic}: ZooKeeper does not say how it is configured")
            return known.log

        with Storage("the log directory"):
            self.logs = await LogManager.open(
                world.disk,
                config_of,
                now_ms=world.clock.now_ms(),
                unique_hex=lambda: f"{world.random.getrandbits(128):032x}",
                jitter=world.random.randrange,
            )
        for at, error in self.logs.failures.items():
            world.trace(LogSkipped(str(at), str(error)))
        for stranger in self.logs.strangers:
            world.trace(LogSkipped(stranger.name, stranger.reason))
        for topic in topics:
            settings.forget(topic)  # read again when the controller speaks of it

    def new_topics(self, request: LeaderAndIsr) -> tuple[str, ...]:
        """Of which ZooKeeper has to be asked how they are configured, before they are hosted."""
        mine = {each.partition.topic for each in request.partitions if self._me in each.replicas}
        new = sorted(topic for topic in mine if self._settings.of(topic) is None)
        return tuple(topic for topic in new if _is_topic_name(topic))

    def unknown_topics(self) -> tuple[str, ...]:
        """Hosted without an answer to that."""
        hosted = self.replicas.items()
        return tuple(sorted({at.topic for at, each in hosted if each.settings is None}))

    # --- LeaderAndIsr -----------------------------------------------------------------------------

    async def lead_or_follow(self, request: LeaderAndIsr) -> LeaderAndIsrResponse:
        """Take the decisions that are news, and say for each how it went."""
        logs = self.opened_logs()
        topic_ids = dict(request.topic_ids)
        is_whole = not (self.is_disk_dead or self.offline or logs.failures)
        results: list[PartitionResult] = []
        accepted: list[LeaderAndIsrPartition] = []
        for entry in request.partitions:
            code = self._judge(entry, topic_ids.get(entry.partition.topic))
            if not is_whole and code is not UNKNOWN and self._is_unusable(entry, logs):
                code = ErrorCode.KAFKA_STORAGE_ERROR
            results.append(PartitionResult(entry.partition, code))
            if code is ErrorCode.NONE:
                accepted.append(entry)
        await self._remove_namesakes(accepted, topic_ids, logs)
        leaders = [self._host(e, topic_ids, logs) for e in accepted if e.leader == self._me]
        followers = [self._host(e, topic_ids, logs) for e in accepted if e.leader != self._me]
        self._fetchers.unfollow(replica.partition for replica, _ in (*leaders, *followers))
        for replica, hosted in leaders:
            self._lead(replica, hosted)
        live = {node.id for node in request.live_leaders} | self._cache.brokers.keys()
        failed = await self._follow(logs, followers, live)
        self._fetchers.stop_idle()
        return LeaderAndIsrResponse(partitions=_with_failures(results, failed))

    async def _remove_namesakes(
        self,
        accepted: list[LeaderAndIsrPartition],
        topic_ids: Mapping[str, TopicId],
        logs: LogManager,
    ) -> None:
        """Logs of topics that were deleted while this broker was away make room (I-15)."""
        new = (each.partition for each in accepted if each.partition not in self.replicas)
        strays = of_namesakes(new, topic_ids, self._world.disk, logs, self.stopped)
        if strays:
            await logs.delete_all(strays, self._world.clock.now_ms())
            for partition in strays:
                self.stopped.pop(partition, None)

    def _judge(self, entry: LeaderAndIsrPartition, topic_id: TopicId | None) -> ErrorCode:
        """Whether a decision is for this broker, and news (B135)."""
        replica = self.replicas.get(entry.partition)
        if self._me not in entry.replicas:
            return UNKNOWN
        if replica is None:
            return _judge_new(entry)
        known = replica.hosted
        if topic_id is not None and known.topic_id is not None and known.topic_id != topic_id:
            return ErrorCode.INCONSISTENT_TOPIC_ID
        if entry.leader_epoch <= known.leader_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        return ErrorCode.NONE

    def _is_unusable(self, entry: LeaderAndIsrPartition, logs: LogManager) -> bool:
        """Whether its log was on a disk that failed, or may have been (B140)."""
        partition = entry.partition
        is_here = partition in self.replicas or partition in self.stopped
        is_found = is_here or logs.get(partition) is not None
        return self._is_lost(partition, logs) or (
            bool(self.offline) and not is_found and not entry.is_new
        )

    def _is_lost(self, partition: TopicPartition, logs: LogManager) -> bool:
        return self.is_disk_dead or partition in self.offline or partition in logs.failures

    def _host(
        self, entry: LeaderAndIsrPartition, topic_ids: Mapping[str, TopicId], logs: LogManager
    ) -> tuple[Replica, HostedPartition]:
        """The replica, made if this broker did not have it, and what it shall be."""
        partition = entry.partition
        hosted = HostedPartition.of(entry, self._me, topic_ids.get(partition.topic))
        replica = self.replicas.get(partition) or self.stopped.pop(partition, None)
        if replica is None:
            log = logs.get(partition)
            watermark = ZERO if log is None else logs.initial_high_watermark(partition)
            replica = Replica(hosted, log, watermark, self._open_log)
        if partition not in self.replicas:
            self.replicas[partition] = replica
            self._topics[partition.topic] = self._topics.get(partition.topic, 0) + 1
        replica.settings = settings = self._settings.of(partition.topic)
        if settings is not None and replica.log is not None:  # it was loaded, or stopped, before
            replica.log.reconfigure(settings.log)
        return replica, hosted

    def _lead(self, replica: Replica, hosted: HostedPartition) -> None:
        """B137; who led before has all that others wait for, and may yet commit it (B164)."""
        replica.become_leader(hosted, self._world.clock.elapsed_ms())
        self._leading.advance(replica)
        self._leading.tell_readers(replica.partition)
        self._announce(replica, "leader")

    async def _follow(
        self,
        logs: LogManager,
        followers: list[tuple[Replica, HostedPartition]],
        live: set[BrokerId],
    ) -> list[TopicPartition]:
        """Fetch where the leader can be reached; elsewhere wait for its turn (B138)."""
        for replica, hosted in followers:
            was_leader = replica.is_leader
            replica.become_follower(hosted)
            if was_leader:
                self._leading.give_up(replica.partition)
            self._announce(replica, "follower")
        # As ReplicaManager.makeFollowers: where there is no leader to ask, nothing is cut either.
        followers = [each for each in followers if each[1].leader in live]
        begun = await self._following.begin(logs, [replica for replica, _ in followers])
        by_leader: dict[BrokerId, dict[TopicPartition, Position]] = {}
        for replica, hosted in followers:
            if replica.partition in begun:
                position = begun[replica.partition]
                by_leader.setdefault(hosted.leader, {})[replica.partition] = position
        self._fetchers.follow(by_leader)
        return [each.partition for each, _ in followers if each.partition not in begun]

    def _open_log(self, partition: TopicPartition) -> Log:
        settings = self._settings.of(partition.topic)
        if settings is None:  # whether gaps are allowed in it, say, nobody knows yet
            raise NotLeaderOrFollower(f"{partition}: its configuration is not read yet")
        now_ms = self._world.clock.now_ms()
        return self.opened_logs().get_or_create(partition, settings.log, now_ms)

    def opened_logs(self) -> LogManager:
        """The logs, once they are loaded."""
        assert self.logs is not None, "logs are loaded before a broker registers"
        return self.logs

    # --- StopReplica ------------------------------------------------------------------------------

    async def stop(self, request: StopReplica) -> StopReplicaResponse:
        """Stop, and delete what is to be deleted."""
        logs = self.opened_logs()
        codes = {each.partition: self._stop(each, logs) for each in request.partitions}
        self._fetchers.stop_idle()
        doomed = [
            each.partition
            for each in request.partitions
            if each.delete and codes[each.partition] is ErrorCode.NONE
        ]
        for partition in doomed:
            self.stopped.pop(partition, None)
        there = [each for each in doomed if logs.get(each) is not None]  # also strays (B098)
        if there:
            failed = await logs.delete_all(there, self._world.clock.now_ms())
            codes.update(dict.fromkeys(failed, ErrorCode.KAFKA_STORAGE_ERROR))
            for failure in failed.values():
                self._failed(failure)
        return StopReplicaResponse(
            partitions=tuple(PartitionResult(each, code) for each, code in codes.items())
        )

    def _stop(self, entry: StopReplicaPartition, logs: LogManager) -> ErrorCode:
        """B141; as Kafka 3.4, an equal leader epoch is no past one (KAFKA-13972)."""
        partition = entry.partition
        if self._is_lost(partition, logs):
            return ErrorCode.KAFKA_STORAGE_ERROR
        replica = self.replicas.get(partition)
        if replica is None:
            return ErrorCode.NONE
        if entry.leader_epoch not in UNFENCED and entry.leader_epoch < replica.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        self._leave(replica, delete=entry.delete)
        return ErrorCode.NONE

    def stop_moved_away(self, update: UpdateMetadata) -> None:
        """Stop what others have by now: this process had no session when it should have been told.

        Kafka tells it nothing (KAFKA-2729 is what its log looks like): it leads in its old epoch as
        long as it lives, is refused each ISR, and takes records that nobody replicates. Its log
        stays: should the controller die before the move is durable, this replica may be needed.
        """
        topic_ids = dict(update.topic_ids)
        left = [
            self.replicas[entry.partition]
            for entry in update.partitions
            if self._is_moved_away(entry, topic_ids.get(entry.partition.topic))
        ]
        for replica in left:
            self._leave(replica, delete=False)
        if left:
            self._fetchers.stop_idle()

    def _is_moved_away(self, entry: UpdateMetadataPartition, topic_id: TopicId | None) -> bool:
        """Whether others have it, by a later decision than that which this broker knows."""
        replica = self.replicas.get(entry.partition)
        if replica is None or self._me in entry.replicas:
            return False
        known_id = replica.hosted.topic_id
        is_namesake = None not in {known_id, topic_id} and known_id != topic_id
        return is_namesake or entry.leader_epoch > replica.leader_epoch

    def _leave(self, replica: Replica, *, delete: bool) -> None:
        self.drop(replica.partition)
        if not delete:
            self.stopped[replica.partition] = replica
        self._announce(replica, "deleted" if delete else "stopped")

    def lose(self, partitions: Iterable[TopicPartition]) -> None:
        """Their disk has failed."""
        for partition in partitions:
            self.offline.add(partition)
            replica = self.replicas.get(partition)
            if replica is not None:
                self.drop(partition)
                self._on_leadership(partition, replica.leader_epoch, False)
        self._fetchers.stop_idle()

    def drop(self, partition: TopicPartition) -> None:
        """This broker no longer holds a replica of it."""
        self._fetchers.unfollow((partition,))
        if self.replicas.pop(partition, None) is not None:
            self._topics[partition.topic] -= 1
            if not self._topics[partition.topic]:
                del self._topics[partition.topic]
                self._settings.forget(partition.topic)
        self._leading.give_up(partition)

    def _announce(self, replica: Replica, role: str) -> None:
        hosted, partition = replica.hosted, replica.partition
        # A topic that is made anew begins with epoch 0: what is deleted leaves none behind.
        epoch = LEADER_EPOCH_DURING_DELETE if role == "deleted" else hosted.leader_epoch
        self._on_leadership(partition, epoch, role == "leader")
        if self._world.trace.wants(ReplicaRoleChanged):
            self._world.trace(
                ReplicaRoleChanged(
                    partition.topic, partition.partition, role, hosted.leader, hosted.leader_epoch
                )
            )


def _judge_new(entry: LeaderAndIsrPartition) -> ErrorCode:
    """A name that no folder can have would look, at the first append, as if the disk had failed."""
    if entry.partition.partition < 0:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    try:
        check_topic_name(entry.partition.topic)
    except InvalidTopic as error:
        return error.code
    return ErrorCode.NONE if entry.leader_epoch >= 0 else ErrorCode.STALE_CONTROLLER_EPOCH


def _with_failures(
    results: list[PartitionResult], failed: list[TopicPartition]
) -> tuple[PartitionResult, ...]:
    if not failed:
        return tuple(results)
    lost = set(failed)
    code = ErrorCode.KAFKA_STORAGE_ERROR
    return tuple(
        PartitionResult(each.partition, code) if each.partition in lost else each
        for each in results
    )


def _is_topic_name(topic: str) -> bool:
    try:
        check_topic_name(topic)
    except InvalidTopic:
        return False
    return True
