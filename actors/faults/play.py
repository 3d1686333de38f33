"""A scenario, played on a cluster of this process: load, steps, healing, and what is left.

Rule: nothing is judged here but what whoever plays can see: that steps came, that the cluster was
whole in the end, and what clients were told. In the simulator every invariant looks on.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec
from msgspec import Struct

from actors.conditions import NotReached
from actors.coordinator.records import OFFSETS_TOPIC
from actors.faults.hand import FaultRefused, Faults
from actors.faults.history.checker import check_history
from actors.faults.history.commits import CommitLost
from actors.faults.injector import Injector
from actors.faults.moments import Moments, NeverCame, found_of, holds, matches, wanted_of
from actors.faults.refusals import NOT_STARTED, REFUSALS, WRONG_TOPICS
from actors.faults.scenario import (
    KINDS_OF_EVENTS,
    AddPartitions,
    BadScenario,
    CreateTopic,
    DeleteTopic,
    ElectLeaders,
    Event,
    Mend,
    Produce,
    Reassign,
    Scenario,
    Step,
    WriteZNode,
)
from actors.faults.stage import Stage, world_of
from actors.faults.violation import Violation
from actors.faults.vocabulary import FailDisk, Fault, FillDisk, Heal, LoseUnsynced
from actors.faults.workload import Workload
from actors.view import BrokerState, ClusterView
from runtime.tasks import Promise, Tasks, within
from wire.admin import ElectionType
from wire.errors import TopicAlreadyExists
from wire.ids import NO_BROKER, TopicPartition
from wire.trace import LeaderElected, Stamp, TopicDeletionStep, TraceEvent

WHOLE_MS: Final = 120_000  # that a cluster may take to be whole when all is healed
ACTION_MS: Final = 5_000
GONE_MS: Final = 30_000  # that the deletion of a topic may take
STARTING: Final = 5  # tries
CALMING: Final = 24  # tries
SHELL: Final = "shell"  # a person at a ZooKeeper shell
UP: Final = (BrokerState.UP, BrokerState.CONTROLLER)
Tell = Callable[[str], None]


class Account(Struct):
    """What came of it, so far."""

    injected: int = 0
    refused: int = 0  # they would have hit nobody
    acknowledged: int = 0
    failed: int = 0
    events: int = 0


class Play:
    """One scenario on one cluster."""

    def __init__(
        self, scenario: Scenario, cluster: Stage, hand: Faults, *, tell: Tell | None = None
    ) -> None:
        self.scenario = scenario
        self.account = Account()
        self._cluster = cluster
        self._tell = tell or (lambda _: None)
        self._hand = hand
        self.injector = Injector(hand)
        self.workload = Workload(cluster, cluster.clock, scenario.topics)
        self._background = Tasks(self._crashed)
        self._crashes: list[Exception] = []
        self._own: list[str] = []  # topics that were made here
        self._sick: set[int] = set()  # brokers whose disk was touched
        self._unclean: set[TopicPartition] = set()
        self._named: dict[str, int] = {}  # steps, and the numbers of what they broke
        self._counts: dict[int, int] = {}  # of the events that are expected, or must never be
        self._expected = (*scenario.expect.events, *scenario.expect.never)
        self.voided: Callable[[], set[TopicPartition]] = set  # what nobody could have kept
        self._stops: list[Callable[[], None]] = []
        self._watch_events()

    async def run(self) -> None:
        """All of it; raise Violation, or NeverCame."""
        scenario = self.scenario
        try:
            await self._prepare()
            moments = Moments(self._cluster, self.injector.resolved)
            self.workload.start(scenario.load)
            for number, step in enumerate(scenario.steps, 1):
                await self._step(number, step, moments)
            await self._end()
        finally:
            self.account.acknowledged = self.workload.acknowledged
            self.account.failed = self.workload.failed
            await self.injector.close()
            await self._background.close()
            await self.workload.close()
            for stop in self._stops:
                stop()
        await self._judge()

    # --- the beginning ----------------------------------------------------------------------------

    async def _prepare(self) -> None:
        admin = self._cluster.admin()
        for topic in self.scenario.topics:
            replicas = dict(enumerate(topic.replicas))
            try:
                await admin.create_topic(topic.name, assignments=replicas, configs=topic.config)
            except TopicAlreadyExists:  # and others may have written there
                raise BadScenario(
                    f"topic {topic.name} is there already: a scenario brings its own"
                ) from None
            except WRONG_TOPICS as error:
                raise BadScenario(f"topic {topic.name!r:.60}: {error}") from None
            self._own.append(topic.name)
        await self._cluster.until(self._has_all_topics)
        admin.close()

    def _has_all_topics(self, view: ClusterView) -> bool:
        wanted = {
            TopicPartition(topic.name, number): set(replicas)
            for topic in self.scenario.topics
            for number, replicas in enumerate(topic.replicas)
        }
        found = {each: set(view.partitions[each].isr) for each in wanted if each in view.partitions}
        return found == wanted

    # --- steps ------------------------------------------------------------------------------------

    async def _step(self, number: int, step: Step, moments: Moments) -> None:
        try:
            await moments.until(step)
        except (NeverCame, NotReached) as error:
            raise NeverCame(f"step {number} has waited in vain: {error}") from None
        if step.do is None:
            return
        if step.is_awaited:
            await self._do(step)
        elif isinstance(step.do, Produce) and step.do.may_fail:
            self._tell(_spoken(step.do))
            self.workload.begin(step.do)  # nobody waits for it before brokers are started again
        else:
            self._background.start(self._do(step))

    async def _do(self, step: Step) -> None:
        if isinstance(step.do, Mend):
            number = self._named.get(step.do.step, 0)
            await self._inject(Heal(number=number), step.name)
        elif isinstance(step.do, Fault):
            await self._inject(step.do, step.name)
        else:
            await self._act(step.do)

    async def _inject(self, fault: Any, name: str) -> None:
        try:
            done = await self.injector.inject(fault)
        except (FaultRefused, *REFUSALS) as error:
            self.account.refused += 1
            self._tell(f"not done: {error}")
            return
        self.account.injected += 1
        self._named[name] = done.number
        if isinstance(done.fault, FillDisk | FailDisk | LoseUnsynced):
            self._sick.add(int(done.fault.broker))
        self._tell(done.line)

    async def _act(self, action: Any) -> None:
        self._tell(_spoken(action))
        try:
            match action:
                case Produce():
                    await self.workload.produce(action)
                case WriteZNode():
                    await self._write_znode(action)
                case _:
                    await self._administer(action)
        except (FaultRefused, *REFUSALS) as error:
            self._tell(f"refused: {error}")

    async def _administer(self, action: Any) -> None:
        async with self._cluster.admin() as admin:
            match action:
                case CreateTopic():
                    await admin.create_topic(
                        action.topic,
                        assignments=dict(enumerate(action.replicas)),
                        configs=action.config,
                        timeout_ms=ACTION_MS,
                    )
                    self._own.append(action.topic)
                case DeleteTopic():
                    await admin.delete_topic(action.topic, timeout_ms=ACTION_MS)
                case AddPartitions():
                    await admin.create_partitions(action.topic, action.count, timeout_ms=ACTION_MS)
                case Reassign():
                    where = TopicPartition(action.topic, action.partition)
                    await admin.alter_reassignments({where: action.replicas}, timeout_ms=ACTION_MS)
                case ElectLeaders():
                    kind = ElectionType.UNCLEAN if action.unclean else ElectionType.PREFERRED
                    where = TopicPartition(action.topic, action.partition)
                    await admin.elect_leaders(kind, [where], timeout_ms=ACTION_MS)

    async def _write_znode(self, action: WriteZNode) -> None:
        universe, path = world_of(self._cluster, "nobody writes znodes"), action.path
        world, _ = await universe.open(SHELL)
        await world.keeper.start()
        try:
            if action.data is None:
                await world.keeper.delete(path)
            elif await world.keeper.exists(path) is None:
                await world.keeper.create(path, action.data.encode())
            else:
                await world.keeper.set(path, action.data.encode())
        finally:
            await universe.leave(world)

    # --- the end ----------------------------------------------------------------------------------

    async def _end(self) -> None:
        self._tell("heal: all links, all disks; whoever is down starts")
        await self._calm()
        for broker in sorted(self._sick):
            with suppress(FaultRefused):  # it is down
                await self._hand.kill(broker, process_only=True)
        await self._start_all()
        await self.workload.finish()
        try:
            await self._cluster.until(is_whole, timeout_ms=WHOLE_MS)
        except NotReached:
            view = await self._cluster.look()
            raise Violation("L-2", f"the cluster is not whole in the end: {_unmet(view)}") from None
        await self.workload.read_all()

    async def _calm(self) -> None:
        """Heal until nothing that was begun goes on: it may break something only now."""
        for _ in range(CALMING):
            await self.injector.heal_all()
            with suppress(TimeoutError):
                await within(WHOLE_MS / CALMING, self._background.idle())
                break
        await self.injector.heal_all()

    async def heal(self) -> None:
        """Undo what was done, although it is not played to its end."""
        with suppress(FaultRefused, *REFUSALS):
            await self.injector.heal_all()

    async def take_away(self) -> None:
        """Delete the topics that were made, and wait until they are gone."""
        gone: dict[str, Promise[None]] = {topic: Promise() for topic in self._own}

        def hear(_: Stamp, event: TraceEvent) -> None:
            assert isinstance(event, TopicDeletionStep)
            if event.step == "completed" and event.topic in gone:
                gone[event.topic].keep(None)

        stop = self._cluster.watch([TopicDeletionStep], hear)
        try:
            async with self._cluster.admin() as admin:
                for topic, promise in gone.items():
                    with suppress(*REFUSALS):  # it was deleted before
                        await admin.delete_topic(topic, timeout_ms=ACTION_MS)
                        await promise.settled(GONE_MS)
        finally:
            stop()

    async def _start_all(self) -> None:
        for _ in range(STARTING):
            for broker in [b for b in self._cluster.brokers if not self._cluster.is_up(b)]:
                with suppress(*NOT_STARTED):
                    await within(WHOLE_MS, self._cluster.start_broker(broker))

    # --- the verdict ------------------------------------------------------------------------------

    async def _judge(self) -> None:
        for crash in (*self._crashes, *self.workload.crashes, *self.injector.crashes):
            raise crash
        unclean = self._unclean | self.voided()
        has_lost_groups = any(each.topic == OFFSETS_TOPIC for each in unclean)
        for anomaly in check_history(self.workload.history.events, unclean=unclean):
            if anomaly.kind == CommitLost.name and has_lost_groups:
                continue
            raise Violation("history", f"{anomaly.kind}: {anomaly.sentence}")
        expect = self.scenario.expect
        for number, wanted in enumerate(self._expected):
            count, is_never = self._counts.get(number, 0), number >= len(expect.events)
            if is_never and count:
                raise Violation("expect", f"{_named(wanted)} happened, and must never")
            if not is_never and count < wanted.nth:
                raise Violation("expect", f"{_named(wanted)} happened {count} times")
        view = await self._cluster.look()
        for state in expect.states:
            if not holds(state, view):
                what = f"{wanted_of(state)} is not so in the end: {found_of(state, view)}"
                raise Violation("expect", what)
        if self.account.acknowledged < expect.acknowledged:
            found = f"{self.account.acknowledged} records were acknowledged"
            raise Violation("expect", f"{found}, not {expect.acknowledged}")

    def _watch_events(self) -> None:
        kinds = {KINDS_OF_EVENTS[wanted.event] for wanted in self._expected}
        if kinds:
            ordered = sorted(kinds, key=lambda kind: kind.__name__)
            self._stops.append(self._cluster.watch(ordered, self._count))
        lost: list[type[TraceEvent]] = [LeaderElected, TopicDeletionStep]
        self._stops.append(self._cluster.watch(lost, self._note_lost))

    def _count(self, stamp: Stamp, event: TraceEvent) -> None:
        for number, wanted in enumerate(self._expected):
            if matches(wanted, stamp.node, event):
                self._counts[number] = self._counts.get(number, 0) + 1

    def _note_lost(self, _: Stamp, event: TraceEvent) -> None:
        """What was promised is over after an unclean election, and with the topic."""
        match event:
            case LeaderElected(is_unclean=True):
                self._unclean.add(TopicPartition(event.topic, event.partition))
            case TopicDeletionStep(step="completed"):
                written = self.workload.partitions
                self._unclean |= {each for each in written if each.topic == event.topic}

    def _crashed(self, error: Exception) -> None:
        self._crashes.append(error)


def is_whole(view: ClusterView) -> bool:
    """Whether everybody is there and in sync, and nothing moves."""
    return (
        view.controller != NO_BROKER
        and all(each.state in UP for each in view.brokers.values())
        and not any(map(_is_unwell, view.partitions.values()))
    )


def _is_unwell(partition: Any) -> bool:
    return bool(
        partition.adding
        or partition.removing
        or set(partition.isr) != set(partition.replicas)
        or partition.leader not in partition.isr
    )


def _unmet(view: ClusterView) -> str:
    brokers = [
        f"broker {each.id} is {each.state.value}"
        for each in view.brokers.values()
        if each.state not in UP
    ]
    unwell = [
        f"{where} has leader {each.leader}, replicas {each.replicas}, ISR {each.isr}"
        for where, each in view.partitions.items()
        if _is_unwell(each)
    ]
    none = ["there is no controller"] if view.controller == NO_BROKER else []
    return "; ".join((*none, *brokers, *unwell))


def _named(event: Event) -> str:
    said: Mapping[str, Any] = event.where
    return " ".join((event.event, *(f"{name}={value}" for name, value in said.items())))


def _spoken(action: Any) -> str:
    said = msgspec.to_builtins(action)
    name = said.pop("action")
    return " ".join((name, *(f"{k}={v}" for k, v in said.items() if v not in (None, {}))))


__all__ = ["Account", "NeverCame", "Play", "is_whole"]
