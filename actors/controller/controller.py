"""The controller: one broker's actor wins `/controller`, the others' wait for it to go.

Rule: one event at a time, whoever caused it: watches, timers, requests, answers (B014). An event
that fails is traced and the next one is handled (B016); one that finds that another controller
reigns ends this one's reign. Whatever happens to it, a request is answered exactly once (B019).
"""

from collections.abc import Callable
from typing import Final, assert_never

from actors.asked import Asked, refusal
from actors.broker.metadata import AwaitMetadata, leaders_are
from actors.broker.registration import Registered, Renew
from actors.config import BrokerConfig
from actors.controller.candidate import holder, is_mended, register, remove
from actors.controller.context import ControllerContext
from actors.controller.events import (
    Expired,
    LeaderAndIsrAnswered,
    RebalanceDue,
    StopReplicaAnswered,
    UncleanElectionEnabled,
)
from actors.controller.metrics import ElectionTimes, EventTimes
from actors.controller.office import open_office
from actors.controller.outbox import BatchNotEmpty, Channels
from actors.controller.reign import Reign, ReignWatcher
from runtime.actor import Actor
from runtime.keeper import (
    CheckFailed,
    KeeperError,
    KeeperSessionLost,
    SessionEvent,
    SessionState,
    WatchEvent,
)
from runtime.ref import InboxFull, Receiver
from runtime.system import System
from runtime.world import World
from wire.admin import (
    AlterPartitionReassignments,
    AlterPartitionReassignmentsResponse,
    ElectLeaders,
    ElectLeadersResponse,
    ListPartitionReassignments,
    ListPartitionReassignmentsResponse,
)
from wire.control import ControlledShutdown, ControlledShutdownResponse
from wire.errors import (
    ApiError,
    ControllerMoved,
    ElectionNotNeeded,
    MalformedZNode,
    NotController,
)
from wire.ids import NO_BROKER, BrokerId, TopicPartition
from wire.message import Message, PartitionResult
from wire.trace import (
    ControllerElected,
    ControllerEventFailed,
    ControllerResigned,
    ZNodeSkipped,
)
from wire.znodes import ControllerEpochZNode, ControllerZNode

FIRST_REBALANCE_MS: Final = 5_000

ControllerMessage = (
    Registered
    | Expired
    | WatchEvent
    | RebalanceDue
    | UncleanElectionEnabled
    | LeaderAndIsrAnswered
    | StopReplicaAnswered
    | Asked
)


class _SessionGate:
    """An expired session overtakes all events: what waited is dropped and answered (B017)."""

    def __init__(self, controller: "Controller") -> None:
        self._controller = controller

    def tell(self, event: SessionEvent) -> None:
        """Hear of the session before anybody else does."""
        if event.state is SessionState.EXPIRED:
            for dropped in self._controller.preempt(Expired(event.session)):
                preempted(dropped)


class Controller(Actor):
    """Owns what the cluster believes of itself; nobody else reads or writes it."""

    is_timed = True

    def __init__(
        self,
        world: World,
        config: BrokerConfig,
        system: System,
        *,
        name_of: Callable[[BrokerId], str],
        on_office: Callable[[bool], None],
    ) -> None:
        super().__init__()
        self._world = world
        self._config = config
        self._me = BrokerId(config.broker_id)
        self._on_office = on_office
        timeout_ms = config.controller_socket_timeout_ms
        self._channels = Channels(world, system, self.ref, name_of, timeout_ms=timeout_ms)
        self._system = system
        self._reign: Reign | None = None
        self.established: ControllerContext | None = None  # what it believes, once it has read all
        self.times = EventTimes()  # of all events, in office or not (B026)
        self.election_times = ElectionTimes(world.clock.elapsed_ms)
        self.active_id: BrokerId = NO_BROKER  # who is the controller, as this broker believes

    @property
    def believed(self) -> ControllerContext | None:
        """What it believes while it reigns; it may not have read all of it yet."""
        return None if self._reign is None else self._reign.office.context

    @property
    def is_active(self) -> bool:
        """As the metric ActiveControllerCount; the cached id decides (B013).

        A znode that my former session left behind may name me, too: I have not won by it (I-3).
        """
        return self.active_id == self._me and self._reign is not None

    async def on_start(self) -> None:
        """Hear of the session from its first day."""
        self._world.keeper.listen(_SessionGate(self))

    async def on_stop(self) -> None:
        """The broker stops; `/controller` goes with its session."""
        self._resign("the broker stops")

    async def on_receive(self, message: ControllerMessage) -> None:
        """One event, timed."""
        clock = self._world.clock
        begun_ms = clock.elapsed_ms()
        await self._handle_event(message)
        now_ms = clock.elapsed_ms()
        name = type(message).__name__
        self.times.record(name, self.waited_s * 1000, now_ms - begun_ms, now_ms)

    async def _handle_event(self, message: ControllerMessage) -> None:
        """What goes wrong with an event is told apart here and nowhere else."""
        try:
            try:
                await self._dispatch(message)
            except ControllerMoved as error:
                self._failed(message, error)
                await self._maybe_resign()
                if isinstance(error.__cause__, CheckFailed) and self._reign is not None:
                    await self._give_up(str(error))  # a stranger's epoch: stand again (B006)
            except BatchNotEmpty as error:
                self._failed(message, error)
                await self._give_up(str(error))  # B011
        except (KeeperError, ApiError, MalformedZNode) as error:
            self._failed(message, error)  # of a lost session: Expired comes next, ends the reign

    async def _dispatch(self, message: ControllerMessage) -> None:
        match message:
            case Registered():
                await self._reelect()
            case Expired():
                self._on_expired()
            case WatchEvent():
                await self._on_watch(message)
            case RebalanceDue():
                await self._on_rebalance_due(message)
            case UncleanElectionEnabled():
                if self._reign is not None:
                    await self._reign.office.partitions.trigger_online(message.topic)
            case LeaderAndIsrAnswered() | StopReplicaAnswered():
                if self._reign is not None:
                    await self._reign.on_answer(message)
            case Asked():
                await self._on_asked(message)
            case _:
                assert_never(message)

    def _failed(self, message: ControllerMessage, error: Exception) -> None:
        self._world.trace(ControllerEventFailed(type(message).__name__, repr(error)))

    # --- election ---------------------------------------------------------------------------------

    async def _reelect(self) -> None:
        await self._maybe_resign()
        await self._elect()

    async def _holder(self) -> BrokerId:
        return await holder(self._world.keeper, self.ref, self._world.trace)

    async def _maybe_resign(self) -> None:
        """Look who is the controller, and watch it; if it is no longer me, leave (B009)."""
        self.active_id = await self._holder()
        if self._reign is not None and not self.is_active:
            self._resign(f"broker {self.active_id} is the controller")

    async def _elect(self) -> None:
        keeper = self._world.keeper
        self.active_id = await self._holder()
        if self.active_id != NO_BROKER or self._reign is not None:
            return  # somebody is, and the watch will tell when it goes (B001)
        try:
            epoch, version = await register(keeper, self._me, self._world.clock.now_ms())
        except ControllerMoved:
            self.active_id = await self._holder()
            return
        except MalformedZNode as error:  # a guessed epoch might be one that was used before
            self._world.trace(ZNodeSkipped(error.path, error.reason))
            if await is_mended(keeper, self.ref):
                await self._elect()
            return
        self.active_id = self._me
        watcher = ReignWatcher(self.ref)
        office = open_office(
            self._world,
            self._config,
            watcher,
            self._channels,
            epoch,
            version,
            self.election_times,
        )
        self._reign = Reign(office, watcher)
        self._world.trace(ControllerElected(self._me, epoch, version))
        self._on_office(True)
        try:
            await self._reign.begin()
        except (ControllerMoved, KeeperSessionLost):
            raise
        except (KeeperError, ApiError, MalformedZNode, BatchNotEmpty) as error:
            self._world.trace(ControllerEventFailed("failover", repr(error)))
            await self._give_up(f"it could not take office: {error!r}")  # B010
            return
        self.established = office.context
        if self._config.auto_leader_rebalance_enable:
            self._reign.scheduler = self.after(FIRST_REBALANCE_MS, RebalanceDue(epoch))

    def _resign(self, reason: str) -> None:
        reign, self._reign, self.established = self._reign, None, None
        if reign is None:
            return
        reign.end()
        self._world.trace(ControllerResigned(self._me, reign.office.context.epoch, reason))
        self._on_office(False)

    async def _give_up(self, reason: str) -> None:
        """Leave so that some broker is elected anew, unless another one is already (B010)."""
        reign = self._reign
        self.active_id = await self._holder()
        if not self.is_active or reign is None:
            self._resign(reason)
            return
        self.active_id = NO_BROKER
        self._resign(reason)
        await remove(self._world.keeper, reign.office.context.epoch_version)

    def _on_expired(self) -> None:
        """B017: leave everything; only then may there be a new session."""
        self.active_id = NO_BROKER
        self._resign("its session has expired")
        registration = self._system.lookup("registration")
        if registration is not None:
            registration.tell(Renew())

    # --- events -----------------------------------------------------------------------------------

    async def _on_watch(self, event: WatchEvent) -> None:
        if event.session != self._world.keeper.session:
            return  # of a session that is gone
        if event.path in {ControllerZNode.path(), ControllerEpochZNode.path()}:
            await self._reelect()
        elif self._reign is not None:
            await self._reign.on_watch(event)

    async def _on_rebalance_due(self, event: RebalanceDue) -> None:
        reign = self._reign
        if reign is None or reign.office.context.epoch != event.epoch:
            return
        interval_ms = self._config.leader_imbalance_check_interval_seconds * 1000
        reign.scheduler = self.after(interval_ms, event)
        await reign.elections.rebalance()

    async def _on_asked(self, asked: Asked) -> None:
        """Answer once; then let what went wrong be handled like any event's failure."""
        if self._reign is None:
            preempted(asked)
            return
        try:
            response = await self._respond(self._reign, asked)
        except (ControllerMoved, KeeperError, BatchNotEmpty, MalformedZNode) as error:
            asked.answer(refusal(asked.request, not_active(asked.request, str(error))))
            raise
        except ApiError as error:
            asked.answer(refusal(asked.request, error))
            return
        if response is not None:
            asked.answer(response)

    async def _respond(self, reign: Reign, asked: Asked) -> Message | None:
        request = asked.request
        match request:
            case ControlledShutdown():
                remaining = await reign.brokers.on_controlled_shutdown(
                    request.broker_id, request.broker_epoch
                )
                return ControlledShutdownResponse(remaining_partitions=remaining)
            case AlterPartitionReassignments():
                results = await reign.reassignments.on_api(request.partitions)
                return AlterPartitionReassignmentsResponse(partitions=_results(results))
            case ListPartitionReassignments():
                ongoing = reign.reassignments.ongoing(request.partitions)
                return ListPartitionReassignmentsResponse(partitions=tuple(ongoing))
            case ElectLeaders():
                return await self._on_elect_leaders(reign, request, asked)
            case _:
                raise NotController(f"{type(request).__name__} is not for the controller")

    async def _on_elect_leaders(
        self, reign: Reign, request: ElectLeaders, asked: Asked
    ) -> Message | None:
        """The answer waits until this broker's clients can see the new leaders (B113)."""
        context = reign.office.context
        wanted = context.all_partitions() if request.partitions is None else request.partitions
        results = await reign.elections.elect(tuple(wanted), request.election_type)
        if request.partitions is None:
            results = {
                each: error
                for each, error in results.items()
                if not isinstance(error, ElectionNotNeeded)
            }
        response = ElectLeadersResponse(partitions=_results(results))
        elected = {each: context.leader(each) for each, error in results.items() if error is None}
        replicas: Receiver | None = self._system.lookup("replica-manager")
        if not elected or replicas is None:
            return response
        try:
            replicas.tell(
                AwaitMetadata(
                    leaders_are(elected), request.timeout_ms, lambda _: asked.answer(response)
                )
            )
        except InboxFull:
            return response  # they are elected; that clients see it cannot be waited for now
        return None


def not_active(request: Message, why: str = "this broker is not the controller") -> ApiError:
    """What a broker that is not the controller, or no longer, says."""
    return ControllerMoved(why) if isinstance(request, ControlledShutdown) else NotController(why)


def preempted(message: object) -> None:
    """A request that was dropped from the queue is answered all the same (B019, H47)."""
    if isinstance(message, Asked):
        message.answer(refusal(message.request, not_active(message.request)))


def _results(results: dict[TopicPartition, ApiError | None]) -> tuple[PartitionResult, ...]:
    return tuple(
        PartitionResult(partition)
        if error is None
        else PartitionResult(partition, error.code, str(error))
        for partition, error in sorted(results.items())
    )
