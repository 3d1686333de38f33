"""Who coordinates a group, who is in it, and how far it has read.

Rule: a group is coordinated by the leader of its partition of __consumer_offsets, once it has read
that partition (B175, B176). A commit is a record there, and is seen when it has been appended as
safely as offsets.commit.required.acks asks (B177). Every request is answered once: an append under
way answers when the replica manager is done with it, whoever leads by then.

What was committed is told from memory, and a deposed leader may not know that it is one. lease.py
says how far that is guarded against (I-25), and what is left.
"""

from collections.abc import Callable
from typing import Final, assert_never

from actors.asked import Asked, refusal
from actors.broker.local import LeadershipChanged, ReadRecords, TransactionEnded
from actors.broker.metadata import AwaitMetadata, MetadataCache
from actors.config import BrokerConfig
from actors.coordinator.events import (
    Appended,
    CoordinatorMessage,
    ExpiryDue,
    GroupAppended,
    JoinDue,
    Looked,
    MemberDue,
    PendingDue,
    Read,
    ReadDue,
    SyncDue,
)
from actors.coordinator.finding import RETRY_MS, CountDue, Counted, Finding, Found
from actors.coordinator.forgetting import TOPIC_DELETED, Forgetting
from actors.coordinator.group_log import GroupLog, on_appended
from actors.coordinator.group_queries import describe_groups, list_groups
from actors.coordinator.lease import Lease
from actors.coordinator.loading import Load, Next
from actors.coordinator.membership import Membership
from actors.coordinator.messages import TopicsDeleted
from actors.coordinator.offsets import group_error
from actors.coordinator.requests import Commit, check_group, fetch
from actors.coordinator.shards import Shard, Shards
from actors.coordinator.staged_offsets import (
    as_answer,
    as_commit,
    names_a_member,
    stamp_of,
)
from runtime.actor import Actor
from runtime.keeper import SessionEvent
from runtime.ref import InboxFull, Receiver
from runtime.world import World
from wire.errors import (
    ApiError,
    CoordinatorNotAvailable,
    ErrorCode,
    InvalidRequest,
)
from wire.groups import (
    CoordinatorType,
    DeleteGroups,
    DescribeGroups,
    FindCoordinator,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    ListGroups,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    SyncGroup,
)
from wire.ids import TopicPartition
from wire.trace import GroupOffsetsLoaded, GroupOffsetsUnloaded
from wire.transactions import TxnOffsetCommit

# Records are decoded on the loop that all actors share: a larger load buffer would hold them up.
MOST_BYTES_READ: Final = 256 * 1024


class GroupCoordinator(Actor):
    """Owns the members and committed offsets of all groups that this broker coordinates."""

    def __init__(
        self,
        world: World,
        config: BrokerConfig,
        replica_manager: Receiver,
        create_topic: Callable[[], None],
    ) -> None:
        super().__init__()
        self._world = world
        self._config = config
        self._replica_manager = replica_manager
        self.transactions: Receiver | None = None  # who finds coordinators of transactional ids
        self._shards = Shards()
        self._log = log = GroupLog(world, config, replica_manager, self.ref.tell)
        self._membership = Membership(world, config, self._shards, self.after, log.append_group)
        self._forgetting = Forgetting(
            world, config, self._shards, self._membership, log.append, log.append_group
        )
        self._lease = Lease(world.clock, config.zookeeper_session_timeout_ms)
        self._finding = Finding(
            world,
            self._shards,
            replica_manager,
            create_topic,
            tell=self.ref.tell,
            after=self.after,
            pipe=self.pipe,
        )

    async def on_start(self) -> None:
        """Look for old offsets from time to time, and hear of the session."""
        self._world.keeper.listen(self.ref)
        self._await_expiry()

    def _await_expiry(self) -> None:
        self.after(self._config.offsets_retention_check_interval_ms, ExpiryDue())

    async def on_receive(self, message: CoordinatorMessage) -> None:  # noqa: C901, PLR0912 - a table
        """One message at a time."""
        match message:
            case Asked():
                self._on_asked(message)
            case LeadershipChanged():
                self._on_leadership_changed(message)
            case TopicsDeleted():
                self._forgetting.on_topics_deleted(message)
            case TransactionEnded():
                self._on_transaction_ended(message)
            case SessionEvent():
                self._lease.note(message)
            case Counted():
                self._finding.on_counted(message)
            case CountDue():
                self._finding.count()
            case Found():
                self._finding.on_found(message)
            case Looked():
                self._on_looked(message)
            case Read():
                self._on_read(message)
            case ReadDue():
                self._read(message.shard)
            case Appended():
                on_appended(message)
            case GroupAppended():
                message.finish(group_error(message.result.error_code))
            case MemberDue() | PendingDue() | JoinDue() | SyncDue():
                self._membership.on_timer(message)
            case ExpiryDue():
                self._forgetting.expire()
                self._await_expiry()
            case _:
                assert_never(message)

    def _on_asked(self, asked: Asked) -> None:  # noqa: C901 - a table
        """Nothing is raised after a request has been passed on."""
        request = asked.request
        try:
            match request:
                case FindCoordinator():
                    self._find(asked, request)
                case OffsetCommit():
                    self._commit(asked, request)
                case TxnOffsetCommit():
                    self._commit(asked, as_commit(request))
                case OffsetFetch():
                    check_group(request.group_id)
                    shard = self._shards.of(request.group_id)
                    self._lease.check(shard.led_since_ms)
                    asked.answer(fetch(request, shard.offsets))
                case JoinGroup() | SyncGroup() | Heartbeat() | LeaveGroup():
                    self._membership.take(asked, request)
                case ListGroups():
                    asked.answer(list_groups(self._shards, request))
                case DescribeGroups():
                    asked.answer(describe_groups(self._shards, request))
                case DeleteGroups():
                    self._forgetting.delete_groups(asked, request)
                case OffsetDelete():
                    self._forgetting.delete_offsets(asked, request)
                case _:
                    raise InvalidRequest(f"{type(request).__name__} is not for a coordinator.")
        except ApiError as error:
            asked.answer(refusal(request, error))

    # --- who coordinates --------------------------------------------------------------------------

    def _find(self, asked: Asked, request: FindCoordinator) -> None:
        if request.key_type is not CoordinatorType.GROUP:
            if self.transactions is None:
                raise InvalidRequest("There are no transactions here.")
            self.transactions.tell(asked)
            return
        check_group(request.key)
        self._finding.find(asked, request.key)

    # --- loading ----------------------------------------------------------------------------------

    def _on_leadership_changed(self, change: LeadershipChanged) -> None:
        former = self._shards.get(change.partition)
        shard = self._shards.change(change)
        if former is not None and not self._shards.is_current(former):
            self._membership.unload(former)
            self._trace_unloaded(former, "led anew" if change.is_leader else "led no longer")
        led = self._shards.get(change.partition)
        if led is not None and led.leader_epoch == change.leader_epoch:
            led.led_since_ms = self._world.clock.elapsed_ms()
        if shard is not None:
            self._finding.count()
            self._read(shard)

    def _read(self, shard: Shard) -> None:
        if shard.load is None or not self._shards.is_current(shard):
            return
        read = ReadRecords(
            partition=shard.partition,
            leader_epoch=shard.leader_epoch,
            offset=shard.load.position,
            max_bytes=min(self._config.offsets_load_buffer_size, MOST_BYTES_READ),
            done=lambda read: self.ref.tell(Read(shard, read)),
        )
        try:
            self._replica_manager.tell(read)
        except InboxFull:
            self.after(RETRY_MS, ReadDue(shard))

    def _on_read(self, message: Read) -> None:
        shard = message.shard
        if shard.load is None or not self._shards.is_current(shard):
            return  # it is led no longer, or anew
        try:
            following = shard.load.take(message.read, shard.offsets)
        except ApiError as error:
            self._shards.drop(shard)  # better no answer than one from half of what was committed
            self._trace_unloaded(shard, str(error))
            return
        match following:
            case Next.READ:
                self._read(shard)
            case Next.WAIT:
                self.after(shard.load.wait_ms(), ReadDue(shard))
            case Next.DONE:
                self._on_loaded(shard, shard.load)

    def _on_loaded(self, shard: Shard, load: Load) -> None:
        shard.load = None
        took_ms = self._world.clock.elapsed_ms() - shard.led_since_ms
        number, epoch = shard.partition.partition, shard.leader_epoch
        self._world.trace(GroupOffsetsLoaded(number, epoch, load.records, round(1_000 * took_ms)))
        self._membership.load(shard, load.groups)
        doomed = shard.offsets.doom(shard.deleted_topics)
        self._forgetting.forget(shard, doomed, TOPIC_DELETED)

    def _trace_unloaded(self, shard: Shard, reason: str) -> None:
        number = shard.partition.partition
        self._world.trace(GroupOffsetsUnloaded(number, shard.leader_epoch, reason))

    # --- commits ----------------------------------------------------------------------------------

    def _commit(self, asked: Asked, request: OffsetCommit) -> None:
        """Ask first which of the partitions there are; commits keep their order on this way."""
        check_group(request.group_id)
        self._check_commit(self._shards.of(request.group_id), asked, request)
        known: set[TopicPartition] = set()

        def look(cache: MetadataCache) -> bool:
            partitions = (each.partition for each in request.partitions)
            known.update(each for each in partitions if cache.partition(each) is not None)
            return True

        def done(_: bool) -> None:
            self.ref.tell(Looked(asked, request, frozenset(known)))

        try:
            self._replica_manager.tell(AwaitMetadata(look, 0, done))
        except InboxFull:
            raise CoordinatorNotAvailable("This broker has too much to do.") from None

    def _check_commit(self, shard: Shard, asked: Asked, request: OffsetCommit) -> None:
        if not isinstance(asked.request, TxnOffsetCommit) or names_a_member(asked.request):
            self._membership.check_commit(shard, request)

    def _on_transaction_ended(self, ended: TransactionEnded) -> None:
        """A shard that is being loaded finds the marker in the log."""
        shard = self._shards.get(ended.partition)
        if shard is not None and shard.load is None:
            shard.offsets.end_transaction(ended.producer_id, is_committed=ended.is_committed)

    def _on_looked(self, looked: Looked) -> None:
        asked, request = looked.asked, looked.request
        try:
            shard = self._shards.of(request.group_id)
            # Once more: another generation may have begun, whose members must not be overruled.
            self._check_commit(shard, asked, request)
        except ApiError as error:
            asked.answer(refusal(request, error))
            return
        now_ms, most = self._world.clock.now_ms(), self._config.offset_metadata_max_bytes
        commit = Commit(request, looked.known, now_ms, most)
        if commit.changes:

            def finish(code: ErrorCode) -> None:
                asked.answer(as_answer(asked.request, commit.response(code)))

            self._log.append(shard, commit.changes, finish, stamp_of(asked.request))
        else:
            asked.answer(as_answer(asked.request, commit.response(ErrorCode.NONE)))
