"""One broker's time as the controller, from its election to its resignation.

Rule: taking office has one order, watches before the data they guard, orders to brokers only after
everything was read (B027, B032); leaving it has one too (B012). Each step is a trace event.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from actors.controller.brokers import Brokers
from actors.controller.deletion import Deletions
from actors.controller.elections import Elections
from actors.controller.events import LeaderAndIsrAnswered, StopReplicaAnswered
from actors.controller.notifications import Notifications
from actors.controller.office import Office
from actors.controller.reassignment import Reassignments
from actors.controller.topics import Topics
from runtime.keeper import Change, NodeExists, WatchEvent
from runtime.ref import Receiver, Timer
from wire.admin_znodes import (
    DeleteTopicsZNode,
    IsrChangeNotificationZNode,
    LogDirEventNotificationZNode,
    PreferredReplicaElectionZNode,
    ReassignPartitionsZNode,
)
from wire.cluster_znodes import Features, FeatureStatus, FeatureZNode
from wire.errors import MalformedZNode
from wire.ids import UNKNOWN_BROKER_EPOCH
from wire.trace import FailoverStep, ResignationStep
from wire.znodes import (
    BrokerIdsZNode,
    BrokerIdZNode,
    PartitionStateZNode,
    TopicsZNode,
    TopicZNode,
)

Handler = Callable[[], Awaitable[object]]
REQUESTS: Final = (PreferredReplicaElectionZNode.path(), ReassignPartitionsZNode.path())


class ReignWatcher:
    """Told by ZooKeeper as long as the reign lasts: leaving office unregisters everything."""

    def __init__(self, controller: Receiver) -> None:
        self._controller = controller
        self.is_in_office = True

    def tell(self, message: object) -> None:
        """Pass a watch event on."""
        if self.is_in_office:
            self._controller.tell(message)


class Reign:
    """What the controller does while it is one."""

    def __init__(self, office: Office, watcher: ReignWatcher) -> None:
        self.office = office
        self.scheduler: Timer | None = None  # of the next look at the balance of leaders
        self._watcher = watcher
        self.deletions = Deletions(office)
        self.reassignments = Reassignments(office, self.deletions)
        self.topics = Topics(office)
        self.elections = Elections(office)
        self.brokers = Brokers(office, self.deletions, self.reassignments)
        self.notifications = Notifications(office, self.topics, self.brokers, self.reassignments)
        self._by_path: dict[str, Handler] = {
            BrokerIdsZNode.path(): self.brokers.on_change,
            TopicsZNode.path(): self.topics.on_change,
            DeleteTopicsZNode.path(): self.deletions.on_change,
            IsrChangeNotificationZNode.folder: self.notifications.on_isr_changes,
            LogDirEventNotificationZNode.folder: self.notifications.on_log_dir_events,
            ReassignPartitionsZNode.path(): self.reassignments.on_request_znode,
            PreferredReplicaElectionZNode.path(): self.elections.on_request_znode,
        }

    # --- taking office ----------------------------------------------------------------------------

    async def begin(self) -> None:
        """Take office (B027); the scheduler starts when all of this is done."""
        office = self.office
        for step, work in (
            ("features", self._write_features),
            ("listeners", self._listen),
            ("notifications", self.notifications.clear),
            ("brokers", self._read_brokers),
            ("topics", self.topics.load),
            ("deletions", self.deletions.load),
            ("metadata", self._tell_brokers),
            ("replica states", self._start_replicas),
            ("partition states", self._start_partitions),
            ("reassignments", self._resume_reassignments),
            ("pending deletions", self._resume_deletions),
            ("preferred elections", self.elections.on_request_znode),
        ):
            begun = office.world.clock.elapsed_ms()
            count = await work()
            took_us = round((office.world.clock.elapsed_ms() - begun) * 1000)
            office.world.trace(FailoverStep(office.context.epoch, step, count, took_us))

    async def _write_features(self) -> int:
        data = FeatureZNode.encode(Features(status=FeatureStatus.ENABLED))
        keeper = self.office.store.keeper
        if await keeper.exists(FeatureZNode.path()) is not None:
            return 0
        try:
            await keeper.create(FeatureZNode.path(), data)
        except NodeExists:
            return 0
        return 1

    async def _listen(self) -> int:
        """Watches first: a change after this is heard of, one before it is read (B032)."""
        keeper, watcher = self.office.store.keeper, self.office.watcher
        folders = (
            BrokerIdsZNode.path(),
            TopicsZNode.path(),
            DeleteTopicsZNode.path(),
            LogDirEventNotificationZNode.folder,
            IsrChangeNotificationZNode.folder,
        )
        for folder in folders:
            await self.office.store.children(folder, watcher)
        for path in REQUESTS:
            await keeper.exists(path, watch=watcher)
        return len(folders) + len(REQUESTS)

    async def _read_brokers(self) -> int:
        context = self.office.context
        context.brokers = await self.brokers.read()
        for broker in context.brokers:
            self.office.channels.open(broker, context)
        return len(context.brokers)

    async def _tell_brokers(self) -> int:
        """Who lives, before anybody is told to follow one of them (B031)."""
        self.office.send_metadata(())
        return len(self.office.context.brokers)

    async def _start_replicas(self) -> int:
        await self.office.replicas.startup()
        return sum(map(len, self.office.context.replica_phases.values()))

    async def _start_partitions(self) -> int:
        await self.office.partitions.startup()
        await self.office.replicas.startup_returned()
        return len(self.office.context.assignments)

    async def _resume_reassignments(self) -> int:
        """A request found in ZooKeeper comes first and supplants what was under way (B033)."""
        handled = await self.reassignments.on_request_znode()
        resumed = await self.reassignments.resume(lambda partition, _: partition not in handled)
        return len(handled) + resumed

    async def _resume_deletions(self) -> int:
        await self.deletions.resume()
        return len(self.office.context.topics_to_delete)

    # --- in office --------------------------------------------------------------------------------

    async def on_watch(self, event: WatchEvent) -> None:
        """Something changed: look what is there now (B015)."""
        handler = self._by_path.get(event.path)
        if handler is not None:
            await handler()
            return
        if event.change not in {Change.CHANGED, Change.CREATED}:
            return  # a deletion is seen by whoever watches the folder
        broker = BrokerIdZNode.broker_at(event.path)
        topic = TopicZNode.topic_at(event.path)
        partition = PartitionStateZNode.partition_at(event.path)
        if broker is not None:
            await self.brokers.on_modification(broker)
        elif topic is not None:
            await self.topics.on_modification(topic)
        elif partition is not None:
            await self.reassignments.on_isr_change(partition)
        else:
            self.office.store.skip(MalformedZNode(event.path, "is watched by nobody"))

    async def on_answer(self, event: LeaderAndIsrAnswered | StopReplicaAnswered) -> None:
        """A broker has answered; what it said to another reign, or in another life, is void."""
        if event.epoch != self.office.context.epoch:
            return
        known = self.office.context.brokers.get(event.broker)
        if event.broker_epoch not in {UNKNOWN_BROKER_EPOCH, None if known is None else known.epoch}:
            return
        if isinstance(event, LeaderAndIsrAnswered):
            await self.brokers.on_leader_and_isr_answered(event)
        else:
            await self.deletions.on_stop_replica_answered(event)

    # --- leaving office ---------------------------------------------------------------------------

    def end(self) -> None:
        """Leave office in order (B012); the context and both state machines go with this object."""
        office = self.office
        for step, work in (
            ("listeners", self._stop_listening),
            ("scheduler", self._stop_scheduler),
            ("channels", office.channels.close_all),
            ("batch", office.outbox.clear),
        ):
            begun = office.world.clock.elapsed_ms()
            work()
            took_us = round((office.world.clock.elapsed_ms() - begun) * 1000)
            office.world.trace(ResignationStep(office.context.epoch, step, took_us))

    def _stop_listening(self) -> None:
        self._watcher.is_in_office = False

    def _stop_scheduler(self) -> None:
        if self.scheduler is not None:
            self.scheduler.cancel()
