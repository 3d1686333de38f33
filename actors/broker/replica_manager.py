"""A broker's replicas: it leads, follows, stops and forgets as the controller says.

Rule: every request is answered once. What must wait, for ZooKeeper, for a disk or for other
brokers, waits aside: the partitions that need not wait go on.

    Produce ──► Leading ──► log ──► readers wait ──► Fetch answered ──► follower's Fetcher
       ▲                                                                      │ Fetched
       └── answered when the high watermark rises ◄── next Fetch ◄── Following ◄┘
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, assert_never

from actors.administration.auto_topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from actors.asked import Asked, refusal
from actors.broker.administrator import AutoCreateTopics
from actors.broker.deleting import DeleteRecordsOver
from actors.broker.ending import write_markers
from actors.broker.fence import Fence
from actors.broker.fetchers import Fetchers
from actors.broker.fetching import Fetched
from actors.broker.following import Following
from actors.broker.hosting import Hosting
from actors.broker.in_sync import (
    CheckIsrs,
    InSync,
    IsrChangesTold,
    IsrsWritten,
    ShrinkIsr,
    TellIsrChanges,
)
from actors.broker.leading import Leading, LogDirOffline, ProduceOver
from actors.broker.local import AppendRecords, LeadershipChanged, ReadRecords
from actors.broker.log_dirs import describe_log_dirs
from actors.broker.metadata import AwaitMetadata, MetadataCache, MetadataWaits, WaitOver
from actors.broker.meters import Meters
from actors.broker.missing_topics import describe_or_create
from actors.broker.offset_queries import ends_of_epochs, list_offsets
from actors.broker.registration import Registered
from actors.broker.replica import Replica
from actors.broker.serving import FetchOver
from actors.broker.settings import BrokerConfigChanged, Settings, TopicConfigChanged
from actors.broker.truncation import Generation
from actors.broker.upkeep import Done, Due, Upkeep
from actors.config import BrokerConfig
from actors.coordinator.messages import TopicsDeleted
from runtime.actor import Actor
from runtime.keeper import KeeperError
from runtime.ref import Outcome, Receiver
from runtime.system import System
from runtime.world import World
from wire.admin import DeleteRecords, DescribeLogDirs
from wire.admin_znodes import LogDirEventNotificationZNode
from wire.control import LeaderAndIsr, StopReplica, UpdateMetadata, UpdateMetadataResponse
from wire.data import Fetch, ListOffsets, OffsetForLeaderEpoch, Produce
from wire.errors import ApiError, KafkaStorageError, UnsupportedVersion
from wire.ids import UNKNOWN_BROKER_EPOCH, BrokerEpoch, BrokerId, LeaderEpoch, TopicPartition
from wire.metadata import DescribeCluster, Metadata, MetadataResponse
from wire.trace import LogDirWentOffline
from wire.transactions import WriteTxnMarkers

NOTE_AGAIN_MS: Final = 1_000
Data = Produce | Fetch | ListOffsets | OffsetForLeaderEpoch


@dataclass(frozen=True)
class LoadLogs:
    """Node → replica manager: open the logs of the disk, before anybody hears of this broker."""


@dataclass(frozen=True)
class LogDirFailed:
    """Disk → replica manager: these replicas are on a disk that can no longer be used (B074)."""

    partitions: frozenset[TopicPartition]


@dataclass(frozen=True)
class _LearnSettings:
    """Time to ask ZooKeeper again for topics whose configuration could not be read."""


@dataclass(frozen=True)
class _Learned:
    """ZooKeeper has said how topics are configured, or could not."""

    topics: tuple[str, ...]
    asked: Asked | None  # whose decision waits for it
    outcome: Outcome


@dataclass(frozen=True)
class _Noted:
    """ZooKeeper has the note of a failed disk, or not."""

    failed: LogDirFailed
    outcome: Outcome


Message = (
    Asked
    | LoadLogs
    | Registered
    | Fetched
    | FetchOver
    | ProduceOver
    | DeleteRecordsOver
    | AppendRecords
    | ReadRecords
    | AwaitMetadata
    | TopicConfigChanged
    | BrokerConfigChanged
    | LogDirFailed
    | ShrinkIsr
    | Due
    | Done
    | CheckIsrs
    | IsrsWritten
    | TellIsrChanges
    | IsrChangesTold
    | WaitOver
    | _LearnSettings
    | _Learned
    | _Noted
)


class ReplicaManager(Actor):
    """Owns the replicas of this broker and what it knows of the cluster."""

    def __init__(
        self,
        world: World,
        config: BrokerConfig,
        system: System,
        *,
        listener: str,
        name_of: Callable[[BrokerId], str],
        administrator: Receiver | None = None,
        coordinator: Receiver | None = None,
    ) -> None:
        super().__init__()
        self._world = world
        self._config = config
        self._me = BrokerId(config.broker_id)
        self.administrator = administrator  # who creates topics that clients need
        self.coordinator = coordinator  # who hears of partitions of __consumer_offsets
        self.transactions: Receiver | None = None  # and who of those of __transaction_state
        self.fence = Fence(world)
        self._told_in: BrokerEpoch = UNKNOWN_BROKER_EPOCH  # the life of the last UpdateMetadata
        self._is_learning = False
        self.replicas = replicas = dict[TopicPartition, Replica]()
        self.cache = MetadataCache(listener)
        self.meters = meters = Meters()
        self.waits = MetadataWaits(self.cache, self.after)
        self._settings = Settings(world, config)
        self.leading = Leading(
            world,
            config,
            self.replicas,
            self.cache,
            meters,
            after=self.after,
            propose=lambda proposal: self._in_sync.propose(proposal),  # noqa: PLW0108 - made later
            failed=self._on_storage_failure,
        )
        self._in_sync = InSync(
            world,
            config,
            replicas,
            meters,
            advance=self.leading.advance,
            after=self.after,
            pipe=self.pipe,
        )
        self._fetchers = Fetchers(world, config, system, name_of, self.ref, meters)
        me, quota, failed = self._me, self._fetchers.quota, self._on_storage_failure
        generation = Generation(config.replication_generation)
        self._following = Following(world, me, generation, replicas, quota, meters, failed)
        self.hosting = self._made_hosting()
        stopped = self.hosting.stopped
        self._upkeep = Upkeep(world, config, replicas, stopped, after=self.after, pipe=self.pipe)

    def _made_hosting(self) -> Hosting:
        return Hosting(
            self._world,
            self._me,
            self.replicas,
            self.cache,
            self._settings,
            leading=self.leading,
            following=self._following,
            fetchers=self._fetchers,
            on_leadership=self._on_leadership,
            failed=self._on_storage_failure,
        )

    async def on_receive(self, message: Message) -> None:  # noqa: C901, PLR0912, PLR0915
        """One message at a time: a table."""
        match message:
            case Asked():
                await self._on_asked(message)
            case Fetched():
                await self._following.on_fetched(self.hosting.opened_logs(), message)
                self._upkeep.appended(result.partition for _, result in message.found)
            case FetchOver():
                self.leading.serving.fetch_over(message)
            case ProduceOver() | DeleteRecordsOver():
                self.leading.over(message)
            case AppendRecords():
                await self.leading.append_local(message)
                self._upkeep.appended((message.partition,))
            case ReadRecords():
                self.leading.serving.read_local(message)
            case LoadLogs():
                await self.hosting.load()
            case Registered():
                self.fence.broker_epoch = message.broker_epoch
                self.cache.cluster_id = message.cluster_id
            case AwaitMetadata():
                self.waits.begin(message)
            case TopicConfigChanged():
                topic = message.topic
                self._on_settings(self._settings.topic_changed(topic, message.config))
            case BrokerConfigChanged():
                self._on_settings(self._settings.broker_changed(message.config))
            case LogDirFailed():
                self._on_log_dir_failed(message)
            case _Noted():
                self._on_noted(message)
            case ShrinkIsr():
                self._in_sync.shrink(message)
            case Due():
                if not self.hosting.is_disk_dead:
                    self._upkeep.on_due(message, self.hosting.opened_logs())
            case Done():
                if (error := self._upkeep.on_done(message)) is not None:
                    self._on_storage_failure(error)
            case CheckIsrs():
                self._in_sync.check()
            case IsrsWritten():
                self._in_sync.written(message)
            case TellIsrChanges():
                self._in_sync.tell()
            case IsrChangesTold():
                self._in_sync.told(message)
            case _LearnSettings():
                self._learn(self.hosting.unknown_topics())
            case _Learned():
                await self._on_learned(message)
            case WaitOver():
                self.waits.over(message)
            case _:
                assert_never(message)

    async def on_stop(self) -> None:
        """Leave the logs so that the next life need not look through them, if it can trust them."""
        if self.hosting.logs is not None and not self.hosting.is_disk_dead:
            await self._upkeep.end(self.hosting.logs)

    def abandon(self) -> None:
        """The node is down: let go of all files as they are."""
        if self.hosting.logs is not None:
            self.hosting.logs.abandon()

    async def _on_asked(self, asked: Asked, *, is_learned: bool = False) -> None:  # noqa: C901, PLR0912
        """A table of requests."""
        request = asked.request
        try:
            match request:
                case Produce():
                    await self.leading.produce(asked, request)
                    self._upkeep.appended(each.partition for each in request.partitions)
                case Fetch():
                    self.leading.serving.fetch(asked, request)
                case WriteTxnMarkers():
                    now_ms = self._world.clock.now_ms()
                    await write_markers(self.leading, asked, request, now_ms, self.coordinator)
                    self._upkeep.appended(at for each in request.markers for at in each.partitions)
                case LeaderAndIsr():
                    self.fence.check(request)
                    new = () if is_learned else self.hosting.new_topics(request)
                    if new:
                        self._learn(new, asked)
                    else:
                        asked.answer(await self.hosting.lead_or_follow(request))
                        self._begin_rounds()
                case StopReplica():
                    self.fence.check(request)
                    asked.answer(await self.hosting.stop(request))
                case UpdateMetadata():
                    self.fence.check(request)
                    self._on_update_metadata(request)
                    asked.answer(UpdateMetadataResponse())
                case ListOffsets():
                    asked.answer(list_offsets(request, self.leading.led, self._on_storage_failure))
                case OffsetForLeaderEpoch():
                    asked.answer(ends_of_epochs(request, self.leading.led))
                case Metadata():
                    asked.answer(self._describe(request))
                case DeleteRecords():
                    self.leading.delete_records(asked, request)
                case DescribeLogDirs():
                    asked.answer(describe_log_dirs(request, self._world, self.hosting))
                case DescribeCluster():
                    asked.answer(self.cache.describe_cluster(request.listener))
                case _:
                    raise UnsupportedVersion(type(request).__name__)
        except ApiError as error:
            asked.answer(refusal(request, error))

    # --- beginning --------------------------------------------------------------------------------

    def _begin_rounds(self) -> None:
        self._upkeep.begin()
        self._in_sync.begin()
        if not self._is_learning and self.hosting.unknown_topics():
            self._is_learning = True
            self.after(NOTE_AGAIN_MS, _LearnSettings())

    # --- configuration ----------------------------------------------------------------------------

    def _learn(self, topics: tuple[str, ...], asked: Asked | None = None) -> None:
        """Ask ZooKeeper aside: it may take long, and most that happens here does not need it."""
        self.pipe(self._settings.learn(topics), lambda outcome: _Learned(topics, asked, outcome))

    async def _on_learned(self, learned: _Learned) -> None:
        learned.outcome.get()
        if learned.asked is not None:
            await self._on_asked(learned.asked, is_learned=True)
        else:
            self._is_learning = False
            self._on_settings(learned.topics)
            self._begin_rounds()

    def _on_settings(self, topics: tuple[str, ...]) -> None:
        """Go by what is configured now."""
        self.leading.serving.quota.rate = self._settings.leader_rate
        self._fetchers.quota.rate = self._settings.follower_rate
        changed = set(topics)
        if not changed:
            return
        for partition, replica in self.replicas.items():
            if partition.topic in changed:
                replica.settings = self._settings.of(partition.topic)
                if replica.is_leader:
                    self.leading.advance(replica)
        for topic in topics:
            settings = self._settings.of(topic)
            if settings is not None:
                self.hosting.opened_logs().set_config(topic, settings.log)

    # --- metadata ---------------------------------------------------------------------------------

    def _on_update_metadata(self, request: UpdateMetadata) -> None:
        if request.broker_epoch > self._told_in:  # the first word to this life: all is told anew
            self._told_in = request.broker_epoch
            self.cache.forget_topics()
        gone = self.cache.update(request)
        self.hosting.stop_moved_away(request)
        if gone and self.coordinator is not None:
            self.coordinator.tell(TopicsDeleted(gone))
        self.waits.look()
        self.leading.deleting.look_at_all(self.replicas)

    def _describe(self, request: Metadata) -> MetadataResponse:
        """What a client may know; a topic that is not there may be on its way then."""
        response, missing = describe_or_create(self.cache, request, self._config)
        if missing and self.administrator is not None:
            self.administrator.tell(AutoCreateTopics(missing))
        return response

    def _on_leadership(self, partition: TopicPartition, epoch: LeaderEpoch, is_led: bool) -> None:
        owners = {OFFSETS_TOPIC: self.coordinator, TRANSACTIONS_TOPIC: self.transactions}
        owner = owners.get(partition.topic)
        if owner is not None:
            owner.tell(LeadershipChanged(partition, epoch, is_led))

    # --- disks ------------------------------------------------------------------------------------

    def _on_storage_failure(self, error: KafkaStorageError) -> None:
        """This broker has one disk: what it refuses for one log it refuses for all (B074)."""
        if not self.hosting.is_disk_dead and not isinstance(error, LogDirOffline):
            self.hosting.is_disk_dead = True
            self._world.trace(LogDirWentOffline(len(self.replicas), str(error)))
            self.ref.tell(LogDirFailed(frozenset(self.replicas)))

    def _on_log_dir_failed(self, failed: LogDirFailed) -> None:
        """Give the replicas up, and let the controller ask what is left."""
        self.hosting.lose(sorted(failed.partitions))
        kind = LogDirEventNotificationZNode
        note = self._world.keeper.create(kind.prefix_path(), kind.encode(self._me), sequential=True)
        self.pipe(note, lambda outcome: _Noted(failed, outcome))

    def _on_noted(self, noted: _Noted) -> None:
        if isinstance(noted.outcome.error, KeeperError):
            self.after(NOTE_AGAIN_MS, noted.failed)  # the controller must hear of it
        else:
            noted.outcome.get()
