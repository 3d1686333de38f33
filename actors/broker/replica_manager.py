"""A broker's replicas: it leads, follows, stops and forgets as the controller says.

Rule: a request of an older controller, or one meant for an earlier life of this broker, changes
nothing (B023, B024). Every request is answered once. What must wait, for ZooKeeper, for a disk or
for other brokers, waits aside: the partitions that need not wait go on.

    Produce ──► Leading ──► log ──► readers wait ──► Fetch answered ──► follower's Fetcher
       ▲                                                                      │ Fetched
       └── answered when the high watermark rises ◄── next Fetch ◄── Following ◄┘
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, assert_never

from msgspec.structs import replace

from actors.administration.auto_topics import OFFSETS_TOPIC, auto_creatable
from actors.asked import Asked, refusal
from actors.broker.administrator import AutoCreateTopics
from actors.broker.fetcher import Fetched
from actors.broker.fetchers import Fetchers
from actors.broker.following import Following
from actors.broker.hosting import Hosting
from actors.broker.isr import CHECK_MS, IsrChanges, Wanted, write_isrs
from actors.broker.leading import FetchOver, Leading, ProduceOver, Proposal
from actors.broker.local import AppendRecords, LeadershipChanged, ReadRecords
from actors.broker.log.config import LogConfig
from actors.broker.log.folders import partitions_on
from actors.broker.log.manager import LogManager
from actors.broker.metadata import AwaitMetadata, MetadataCache
from actors.broker.offset_queries import ends_of_epochs, list_offsets
from actors.broker.registration import Registered
from actors.broker.replica import Replica
from actors.broker.settings import BrokerConfigChanged, Settings, TopicConfigChanged
from actors.broker.truncation import Generation
from actors.broker.upkeep import Done, Due, Upkeep
from actors.config import BrokerConfig
from runtime.actor import Actor
from runtime.keeper import KeeperError
from runtime.ref import Outcome, Receiver
from runtime.system import System
from runtime.world import World
from wire.admin_znodes import LogDirEventNotificationZNode
from wire.control import LeaderAndIsr, StopReplica, UpdateMetadata, UpdateMetadataResponse
from wire.data import Fetch, ListOffsets, OffsetForLeaderEpoch, Produce
from wire.errors import (
    ApiError,
    KafkaStorageError,
    StaleBrokerEpoch,
    StaleControllerEpoch,
    UnsupportedVersion,
)
from wire.ids import (
    UNKNOWN_BROKER_EPOCH,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    TopicPartition,
)
from wire.metadata import DescribeCluster, Metadata, MetadataResponse
from wire.trace import ControlRequestRefused, LogDirWentOffline

NOTE_AGAIN_MS: Final = 1_000
Control = LeaderAndIsr | StopReplica | UpdateMetadata
Data = Produce | Fetch | ListOffsets | OffsetForLeaderEpoch


@dataclass(frozen=True)
class LoadLogs:
    """Node → replica manager: open the logs of the disk, before anybody hears of this broker."""


@dataclass(frozen=True)
class LogDirFailed:
    """Disk → replica manager: these replicas are on a disk that can no longer be used (B074)."""

    partitions: frozenset[TopicPartition]


@dataclass(frozen=True)
class ShrinkIsr:
    """Leave these replicas out of the in-sync ones of partitions led here."""

    partitions: tuple[TopicPartition, ...]
    lagging: frozenset[BrokerId]


@dataclass(frozen=True)
class _CheckIsrs:
    """Time to see who is in sync no longer, or again (B159)."""


@dataclass(frozen=True)
class _IsrsWritten:
    """ZooKeeper has answered."""

    wanted: Wanted
    outcome: Outcome


@dataclass(frozen=True)
class _LearnSettings:
    """Time to ask ZooKeeper again for topics whose configuration could not be read."""


@dataclass(frozen=True)
class _WaitOver:
    number: int


@dataclass(frozen=True)
class _TellIsrChanges:
    """Time to see whether the controller should hear of changed ISRs."""


Message = (
    Asked
    | LoadLogs
    | Registered
    | Fetched
    | FetchOver
    | ProduceOver
    | AppendRecords
    | ReadRecords
    | AwaitMetadata
    | TopicConfigChanged
    | BrokerConfigChanged
    | LogDirFailed
    | ShrinkIsr
    | Due
    | Done
    | _CheckIsrs
    | _IsrsWritten
    | _LearnSettings
    | _WaitOver
    | _TellIsrChanges
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
        self._controller_epoch = ControllerEpoch(0)
        self._broker_epoch: BrokerEpoch = UNKNOWN_BROKER_EPOCH
        self._told_in: BrokerEpoch = UNKNOWN_BROKER_EPOCH  # the life of the last UpdateMetadata
        self._changes = IsrChanges(world)
        self._waits: dict[int, AwaitMetadata] = {}
        self._next_wait = 0
        self._is_checking = False
        self._is_learning = False
        self.replicas: dict[TopicPartition, Replica] = {}
        self.cache = MetadataCache(listener)
        self._settings = Settings(world, config)
        self.leading = Leading(
            world,
            config,
            self.replicas,
            self.cache,
            after=self.after,
            propose=self._propose,
            failed=self._on_storage_failure,
        )
        self._fetchers = Fetchers(world, config, system, name_of, self.ref)
        self._following = Following(
            world,
            self._me,
            Generation(config.replication_generation),
            self.replicas,
            self._fetchers.quota,
            self._on_storage_failure,
        )
        self._hosting = Hosting(
            world,
            self._me,
            self.replicas,
            self.cache,
            self._settings,
            leading=self.leading,
            following=self._following,
            fetchers=self._fetchers,
            on_leadership=self._on_leadership,
        )
        self._upkeep = Upkeep(world, config, self.replicas, after=self.after, pipe=self.pipe)

    async def on_receive(self, message: Message) -> None:  # noqa: C901 - a table of messages
        """One message at a time."""
        match message:
            case Asked():
                await self._on_asked(message)
            case Fetched():
                await self._following.on_fetched(self._hosting.opened_logs(), message)
            case FetchOver():
                self.leading.fetch_over(message)
            case ProduceOver():
                self.leading.purgatory.time_out(message.waiting)
            case AppendRecords():
                self.leading.append_local(message)
            case ReadRecords():
                self.leading.read_local(message)
            case LoadLogs():
                await self._on_load()
            case Registered():
                self._broker_epoch = message.broker_epoch
            case AwaitMetadata():
                self._on_await(message)
            case TopicConfigChanged():
                topic = message.topic
                self._on_settings(self._settings.topic_changed(topic, message.config))
            case BrokerConfigChanged():
                self._on_settings(self._settings.broker_changed(message.config))
            case LogDirFailed():
                await self._on_log_dir_failed(message)
            case ShrinkIsr():
                self._on_shrink(message)
            case Due():
                if not self._hosting.is_disk_dead:
                    self._upkeep.on_due(message, self._hosting.opened_logs())
            case Done():
                if (error := self._upkeep.on_done(message)) is not None:
                    self._on_storage_failure(error)
            case _CheckIsrs():
                self._on_check_isrs()
            case _IsrsWritten():
                self._on_isrs_written(message)
            case _LearnSettings():
                await self._on_learn()
            case _WaitOver():
                self._finish_wait(message.number, is_done=False)
            case _TellIsrChanges():
                await self._on_tell_isr_changes()
            case _:
                assert_never(message)

    async def on_stop(self) -> None:
        """Leave the logs so that the next life need not look through them."""
        if self._hosting.logs is not None:
            await self._hosting.logs.clean_shutdown(self._upkeep.high_watermarks())

    def abandon(self) -> None:
        """The node is down: let go of all files as they are."""
        if self._hosting.logs is not None:
            self._hosting.logs.abandon()

    async def _on_asked(self, asked: Asked) -> None:
        request = asked.request
        try:
            match request:
                case Produce():
                    self.leading.produce(asked, request)
                case Fetch():
                    self.leading.fetch(asked, request)
                case LeaderAndIsr():
                    self._fence(request)
                    asked.answer(await self._hosting.lead_or_follow(request))
                    self._begin_rounds()
                case StopReplica():
                    self._fence(request)
                    asked.answer(await self._hosting.stop(request))
                case UpdateMetadata():
                    self._fence(request)
                    self._on_update_metadata(request)
                    asked.answer(UpdateMetadataResponse())
                case ListOffsets():
                    asked.answer(list_offsets(request, self.leading.led))
                case OffsetForLeaderEpoch():
                    asked.answer(ends_of_epochs(request, self.leading.led))
                case Metadata():
                    asked.answer(self._describe(request))
                case DescribeCluster():
                    asked.answer(self.cache.describe_cluster())
                case _:
                    raise UnsupportedVersion(type(request).__name__)
        except ApiError as error:
            asked.answer(refusal(request, error))

    def _fence(self, request: Control) -> None:
        """Refuse the past: a deposed controller's word, or one to a former life of mine."""
        error: ApiError | None = None
        if request.broker_epoch != UNKNOWN_BROKER_EPOCH and (
            request.broker_epoch < self._broker_epoch
        ):
            error = StaleBrokerEpoch(
                f"epoch {request.broker_epoch} is over: this is {self._broker_epoch}"
            )
        elif request.controller_epoch < self._controller_epoch:
            error = StaleControllerEpoch(
                f"epoch {request.controller_epoch} is over: {self._controller_epoch} reigns"
            )
        if error is None:
            self._controller_epoch = request.controller_epoch
            return
        self._world.trace(
            ControlRequestRefused(
                type(request).__name__,
                request.controller_id,
                request.controller_epoch,
                error.code.name,
            )
        )
        raise error

    # --- beginning --------------------------------------------------------------------------------

    async def _on_load(self) -> None:
        """Open what is on the disk, each log as its topic says."""
        settings, world = self._settings, self._world
        topics = sorted({at.topic for at in partitions_on(world.disk)})
        await settings.learn(topics)

        def config_of(topic: str) -> LogConfig:
            known = settings.of(topic)
            if known is None:
                raise KafkaStorageError(f"{topic}: ZooKeeper does not say how it is configured")
            return known.log

        self._hosting.logs = await LogManager.open(
            world.disk,
            config_of,
            now_ms=world.clock.now_ms(),
            unique_hex=lambda: f"{world.random.getrandbits(128):032x}",
            jitter=world.random.randrange,
        )
        for topic in topics:
            settings.forget(topic)  # read again when the controller speaks of it

    def _begin_rounds(self) -> None:
        self._upkeep.begin()
        if not self._is_checking:
            self._is_checking = True
            self.after(self._config.replica_lag_time_max_ms / 2, _CheckIsrs())
        if not self._is_learning and any(
            replica.settings is None for replica in self.replicas.values()
        ):
            self._is_learning = True
            self.after(NOTE_AGAIN_MS, _LearnSettings())

    # --- configuration ----------------------------------------------------------------------------

    async def _on_learn(self) -> None:
        """Ask again for what could not be read."""
        self._is_learning = False
        unknown = {at.topic for at, each in self.replicas.items() if each.settings is None}
        await self._settings.learn(sorted(unknown))
        self._on_settings(tuple(sorted(unknown)))
        self._begin_rounds()

    def _on_settings(self, topics: tuple[str, ...]) -> None:
        """Go by what is configured now."""
        self.leading.quota.rate = self._settings.leader_rate
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
                self._hosting.opened_logs().set_config(topic, settings.log)

    # --- metadata ---------------------------------------------------------------------------------

    def _on_update_metadata(self, request: UpdateMetadata) -> None:
        if request.broker_epoch > self._told_in:  # the first word to this life: all is told anew
            self._told_in = request.broker_epoch
            self.cache.forget_topics()
        self.cache.update(request)
        for number, wait in tuple(self._waits.items()):
            if wait.holds(self.cache):
                self._finish_wait(number, is_done=True)

    def _describe(self, request: Metadata) -> MetadataResponse:
        """What a client may know; a topic that is not there may be on its way then."""
        response = self.cache.describe(request)
        if not request.allow_auto_topic_creation or not self._config.auto_create_topics_enable:
            return response
        missing = [each for each in response.topics if each.topic not in self.cache.topics]
        if not missing or self.administrator is None:
            return response
        codes = {each.topic: auto_creatable(each.topic) for each in missing}
        wanted = tuple(each for each, code in codes.items() if code.is_retriable)
        if wanted:
            self.administrator.tell(AutoCreateTopics(wanted))
        topics = tuple(
            replace(each, error_code=codes[each.topic]) if each.topic in codes else each
            for each in response.topics
        )
        return replace(response, topics=topics)

    def _on_await(self, wait: AwaitMetadata) -> None:
        if wait.holds(self.cache):
            wait.done(True)
        elif wait.timeout_ms <= 0:
            wait.done(False)
        else:
            self._next_wait += 1
            self._waits[self._next_wait] = wait
            self.after(wait.timeout_ms, _WaitOver(self._next_wait))

    def _finish_wait(self, number: int, *, is_done: bool) -> None:
        wait = self._waits.pop(number, None)
        if wait is not None:
            wait.done(is_done)

    def _on_leadership(self, partition: TopicPartition, epoch: LeaderEpoch, is_led: bool) -> None:
        if self.coordinator is not None and partition.topic == OFFSETS_TOPIC:
            self.coordinator.tell(LeadershipChanged(partition, epoch, is_led))

    # --- who is in sync ---------------------------------------------------------------------------

    def _on_check_isrs(self) -> None:
        """Leave out who lags (B159); take in who could not be taken in before."""
        self.after(self._config.replica_lag_time_max_ms / 2, _CheckIsrs())
        now_ms, lag_ms = self._world.clock.elapsed_ms(), self._config.replica_lag_time_max_ms
        proposal: Proposal = {}
        for partition, replica in self.replicas.items():
            if not replica.is_leader or replica.pending_isr is not None:
                continue
            lagging = replica.lagging(now_ms, lag_ms)
            isr = tuple(each for each in replica.hosted.isr if each not in lagging)
            isr += tuple(each for each in replica.followers if replica.may_join(each))
            if isr != replica.hosted.isr:
                proposal[partition] = replica.pending_isr = isr
        self._propose(proposal)

    def _on_shrink(self, shrink: ShrinkIsr) -> None:
        proposal: Proposal = {}
        for partition in shrink.partitions:
            replica = self.replicas.get(partition)
            if replica is None or not replica.is_leader or replica.pending_isr is not None:
                continue
            isr = tuple(each for each in replica.hosted.isr if each not in shrink.lagging)
            if isr != replica.hosted.isr and self._me in isr:
                proposal[partition] = replica.pending_isr = isr
        self._propose(proposal)

    def _propose(self, proposal: Proposal) -> None:
        """Write ISRs to ZooKeeper, aside: until it answers, both the old and the new count."""
        if proposal:
            wanted = {at: (self.replicas[at].hosted, isr) for at, isr in proposal.items()}
            self.pipe(
                write_isrs(self._world, wanted), lambda outcome: _IsrsWritten(wanted, outcome)
            )

    def _on_isrs_written(self, result: _IsrsWritten) -> None:
        """Go by what ZooKeeper took; what it refused is as it was until the next check (B162)."""
        is_lost = isinstance(result.outcome.error, KeeperError)
        written = {} if is_lost else result.outcome.get()
        was_empty = self._changes.is_empty
        for partition, (hosted, _) in result.wanted.items():
            replica = self.replicas.get(partition)
            if replica is None or replica.hosted is not hosted:
                continue  # the controller has spoken since
            replica.pending_isr = None
            if partition in written:
                replica.hosted = written[partition]
                self._changes.note(replica.hosted)
                self.leading.advance(replica)  # as Kafka since 3.1: nothing else may (H39)
        if was_empty and not self._changes.is_empty:
            self.after(CHECK_MS, _TellIsrChanges())

    async def _on_tell_isr_changes(self) -> None:
        try:
            if self._changes.is_due():
                await self._changes.tell()
        except KeeperError:
            pass  # they are kept, and told at the next check
        if not self._changes.is_empty:
            self.after(CHECK_MS, _TellIsrChanges())

    # --- disks ------------------------------------------------------------------------------------

    def _on_storage_failure(self, error: KafkaStorageError) -> None:
        """This broker has one disk: what it refuses for one log it refuses for all (B074)."""
        if not self._hosting.is_disk_dead:
            self._hosting.is_disk_dead = True
            self._world.trace(LogDirWentOffline(len(self.replicas), str(error)))
            self.ref.tell(LogDirFailed(frozenset(self.replicas)))

    async def _on_log_dir_failed(self, failed: LogDirFailed) -> None:
        """Give the replicas up, and let the controller ask what is left."""
        self._hosting.offline |= failed.partitions
        for partition in sorted(failed.partitions):
            self._hosting.drop(partition)
        self._fetchers.stop_idle()
        kind = LogDirEventNotificationZNode
        try:
            await self._world.keeper.create(
                kind.prefix_path(), kind.encode(self._me), sequential=True
            )
        except KeeperError:
            self.after(NOTE_AGAIN_MS, failed)  # the controller must hear of it
