"""A broker's side of control: it leads, follows, stops and forgets as the controller says.

Rule: a request of an older controller, or one meant for an earlier life of this broker, changes
nothing (B023, B024); neither does a decision older than the one it has (B135, B141). In one
LeaderAndIsr leaders are made first, then followers (B136). Every request is answered once.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, assert_never

from actors.asked import Asked, refusal
from actors.broker.fetchers import Fetchers
from actors.broker.isr import CHECK_MS, IsrChanges, Wanted, write_isrs
from actors.broker.metadata import AwaitMetadata, MetadataCache
from actors.broker.partition import HostedPartition
from actors.broker.registration import Registered
from runtime.actor import Actor
from runtime.keeper import KeeperError
from runtime.system import System
from runtime.world import World
from wire.admin_znodes import LogDirEventNotificationZNode
from wire.control import (
    LeaderAndIsr,
    LeaderAndIsrPartition,
    LeaderAndIsrResponse,
    StopReplica,
    StopReplicaPartition,
    StopReplicaResponse,
    UpdateMetadata,
    UpdateMetadataResponse,
)
from wire.data import Fetch, FetchPartition, FetchResponse, FetchResult
from wire.errors import (
    ApiError,
    ErrorCode,
    NotLeaderOrFollower,
    StaleBrokerEpoch,
    StaleControllerEpoch,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from wire.ids import (
    LEADER_EPOCH_DURING_DELETE,
    NO_LEADER_EPOCH,
    UNKNOWN_BROKER_EPOCH,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    Offset,
    TopicId,
    TopicPartition,
)
from wire.message import PartitionResult
from wire.metadata import DescribeCluster, Metadata
from wire.trace import ControlRequestRefused, ReplicaRoleChanged

NOTE_AGAIN_MS: Final = 1_000
EMPTY: Final = Offset(0)  # the end of every log, until there are records
Control = LeaderAndIsr | StopReplica | UpdateMetadata


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
class _WaitOver:
    number: int


@dataclass(frozen=True)
class _TellIsrChanges:
    """Time to see whether the controller should hear of changed ISRs."""


Message = (
    Asked | Registered | AwaitMetadata | LogDirFailed | ShrinkIsr | _WaitOver | _TellIsrChanges
)


class ReplicaManager(Actor):
    """Owns the replicas of this broker and what it knows of the cluster."""

    def __init__(
        self,
        world: World,
        me: BrokerId,
        system: System,
        *,
        listener: str,
        name_of: Callable[[BrokerId], str],
    ) -> None:
        super().__init__()
        self._world = world
        self._me = me
        self._controller_epoch = ControllerEpoch(0)
        self._broker_epoch: BrokerEpoch = UNKNOWN_BROKER_EPOCH
        self._told_in: BrokerEpoch = UNKNOWN_BROKER_EPOCH  # the life of the last UpdateMetadata
        self._hosted: dict[TopicPartition, HostedPartition] = {}
        self._offline: set[TopicPartition] = set()
        self._fetchers = Fetchers(world, me, system, name_of)
        self._changes = IsrChanges(world)
        self._waits: dict[int, AwaitMetadata] = {}
        self._next_wait = 0
        self.cache = MetadataCache(listener)

    async def on_receive(self, message: Message) -> None:
        """One message at a time."""
        match message:
            case Asked():
                await self._on_asked(message)
            case Registered():
                self._broker_epoch = message.broker_epoch
            case AwaitMetadata():
                self._on_await(message)
            case LogDirFailed():
                await self._on_log_dir_failed(message)
            case ShrinkIsr():
                await self._on_shrink(message)
            case _WaitOver():
                self._finish_wait(message.number, is_done=False)
            case _TellIsrChanges():
                await self._on_tell_isr_changes()
            case _:
                assert_never(message)

    async def _on_asked(self, asked: Asked) -> None:
        request = asked.request
        try:
            match request:
                case LeaderAndIsr():
                    self._fence(request)
                    asked.answer(self._on_leader_and_isr(request))
                case StopReplica():
                    self._fence(request)
                    asked.answer(self._on_stop_replica(request))
                case UpdateMetadata():
                    self._fence(request)
                    self._on_update_metadata(request)
                    asked.answer(UpdateMetadataResponse())
                case Fetch():
                    asked.answer(await self._on_fetch(request))
                case Metadata():
                    asked.answer(self.cache.describe(request))
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

    # --- LeaderAndIsr -----------------------------------------------------------------------------

    def _on_leader_and_isr(self, request: LeaderAndIsr) -> LeaderAndIsrResponse:
        topic_ids = dict(request.topic_ids)
        results: list[PartitionResult] = []
        leaders: list[LeaderAndIsrPartition] = []
        followers: list[LeaderAndIsrPartition] = []
        for entry in request.partitions:
            code = self._judge(entry, topic_ids.get(entry.partition.topic))
            results.append(PartitionResult(entry.partition, code))
            if code is ErrorCode.NONE:
                (leaders if entry.leader == self._me else followers).append(entry)
        for entry in leaders:
            self._become(entry, "leader", topic_ids)
        self._fetchers.unfollow(entry.partition for entry in leaders)
        for entry in followers:
            self._become(entry, "follower", topic_ids)
        live = {node.id for node in request.live_leaders} | self.cache.brokers.keys()
        self._fetchers.follow(followers, live)
        self._fetchers.stop_idle()
        return LeaderAndIsrResponse(partitions=tuple(results))

    def _judge(self, entry: LeaderAndIsrPartition, topic_id: TopicId | None) -> ErrorCode:
        """Whether a decision is for this broker, possible, and news (B135, B140)."""
        partition = entry.partition
        known = self._hosted.get(partition)
        if self._me not in entry.replicas:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if partition in self._offline or (self._offline and known is None and not entry.is_new):
            return ErrorCode.KAFKA_STORAGE_ERROR
        if known is not None and topic_id is not None and known.topic_id not in {None, topic_id}:
            return ErrorCode.INCONSISTENT_TOPIC_ID
        current = NO_LEADER_EPOCH if known is None else known.leader_epoch
        if entry.leader_epoch <= current:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        return ErrorCode.NONE

    def _become(
        self, entry: LeaderAndIsrPartition, role: str, topic_ids: Mapping[str, TopicId]
    ) -> None:
        topic_id = topic_ids.get(entry.partition.topic)
        self._hosted[entry.partition] = HostedPartition.of(entry, self._me, topic_id)
        self._trace_role(entry.partition, role, entry.leader, entry.leader_epoch)

    def _trace_role(
        self, partition: TopicPartition, role: str, leader: BrokerId, epoch: LeaderEpoch
    ) -> None:
        if self._world.trace.is_on:
            self._world.trace(
                ReplicaRoleChanged(partition.topic, partition.partition, role, leader, epoch)
            )

    # --- StopReplica ------------------------------------------------------------------------------

    def _on_stop_replica(self, request: StopReplica) -> StopReplicaResponse:
        results = tuple(
            PartitionResult(entry.partition, self._stop(entry)) for entry in request.partitions
        )
        self._fetchers.stop_idle()
        return StopReplicaResponse(partitions=results)

    def _stop(self, entry: StopReplicaPartition) -> ErrorCode:
        """B141; as Kafka 3.4, an equal leader epoch is no past one (KAFKA-13972)."""
        partition = entry.partition
        if partition in self._offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        known = self._hosted.get(partition)
        if known is None:
            return ErrorCode.NONE  # a stray log would be deleted here (B098)
        unfenced = {LEADER_EPOCH_DURING_DELETE, NO_LEADER_EPOCH}
        if entry.leader_epoch not in unfenced and entry.leader_epoch < known.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        self._fetchers.unfollow((partition,))
        del self._hosted[partition]
        role = "deleted" if entry.delete else "stopped"
        self._trace_role(partition, role, known.leader, known.leader_epoch)
        return ErrorCode.NONE

    # --- UpdateMetadata ---------------------------------------------------------------------------

    def _on_update_metadata(self, request: UpdateMetadata) -> None:
        if request.broker_epoch > self._told_in:  # the first word to this life: all is told anew
            self._told_in = request.broker_epoch
            self.cache.forget_topics()
        self.cache.update(request)
        for number, wait in tuple(self._waits.items()):
            if wait.holds(self.cache):
                self._finish_wait(number, is_done=True)

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

    # --- leading ----------------------------------------------------------------------------------

    async def _on_fetch(self, request: Fetch) -> FetchResponse:
        """Serve followers and readers; a follower that has everything is in sync (B160)."""
        results: dict[TopicPartition, FetchResult] = {}
        joining: dict[TopicPartition, tuple[HostedPartition, tuple[BrokerId, ...]]] = {}
        for asked in request.partitions:
            partition = asked.partition
            try:
                hosted = self._led(asked)
                if request.replica_id >= 0 and request.replica_id not in hosted.replicas:
                    raise NotLeaderOrFollower(f"{request.replica_id} is no replica of it (B166)")
            except ApiError as error:
                results[partition] = FetchResult(partition=partition, error_code=error.code)
                continue
            if hosted.may_join(request.replica_id):
                joining[partition] = (hosted, (*hosted.isr, request.replica_id))
            results[partition] = FetchResult(
                partition=partition, high_watermark=EMPTY, log_start_offset=EMPTY
            )
        if joining:
            for partition in joining.keys() - await self._change_isrs(joining):
                # While a follower asks only once, it must know that it has to ask again.
                code = ErrorCode.REPLICA_NOT_AVAILABLE
                results[partition] = FetchResult(partition=partition, error_code=code)
        return FetchResponse(partitions=tuple(results.values()))

    def _led(self, asked: FetchPartition) -> HostedPartition:
        """The partition, if this broker leads it in that epoch (B144)."""
        hosted = self._hosted.get(asked.partition)
        if hosted is None:
            if self.cache.partition(asked.partition) is None:
                raise UnknownTopicOrPartition(str(asked.partition))
            raise NotLeaderOrFollower(f"{asked.partition} is not here")
        hosted.check_leader_epoch(asked.current_leader_epoch)
        hosted.check_leads()
        return hosted

    async def _on_shrink(self, shrink: ShrinkIsr) -> None:
        wanted: dict[TopicPartition, tuple[HostedPartition, tuple[BrokerId, ...]]] = {}
        for partition in shrink.partitions:
            hosted = self._hosted.get(partition)
            if hosted is None or not hosted.is_leader:
                continue
            isr = tuple(each for each in hosted.isr if each not in shrink.lagging)
            if isr != hosted.isr and self._me in isr:
                wanted[partition] = (hosted, isr)
        await self._change_isrs(wanted)

    async def _change_isrs(self, wanted: Wanted) -> set[TopicPartition]:
        """Write ISRs; those that ZooKeeper took."""
        try:
            written = await write_isrs(self._world, wanted)
        except KeeperError:
            return set()  # the next fetch, or the next check, tries again
        was_empty = self._changes.is_empty
        for partition, hosted in written.items():
            self._hosted[partition] = hosted
            self._changes.note(hosted)
        if was_empty and not self._changes.is_empty:
            self.after(CHECK_MS, _TellIsrChanges())
        return set(written)

    async def _on_tell_isr_changes(self) -> None:
        try:
            if self._changes.is_due():
                await self._changes.tell()
        except KeeperError:
            pass  # they are kept, and told at the next check
        if not self._changes.is_empty:
            self.after(CHECK_MS, _TellIsrChanges())

    # --- disks ------------------------------------------------------------------------------------

    async def _on_log_dir_failed(self, failed: LogDirFailed) -> None:
        """Give the replicas up, and let the controller ask what is left."""
        self._offline |= failed.partitions
        self._fetchers.unfollow(failed.partitions)
        for partition in failed.partitions:
            self._hosted.pop(partition, None)
        kind = LogDirEventNotificationZNode
        try:
            await self._world.keeper.create(
                kind.prefix_path(), kind.encode(self._me), sequential=True
            )
        except KeeperError:
            self.after(NOTE_AGAIN_MS, failed)  # the controller must hear of it
