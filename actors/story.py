"""What happens in a cluster, told to people.

Rule: a sentence for each event that matters, and for many of one kind at one time a single one that
counts them; those are told too, marked as parts, for whoever follows one partition. What is said
is in the trace: this only chooses and words it.
"""

from collections.abc import Callable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from runtime.tasks import Tasks
from runtime.tracing import Trace
from runtime.world import Clock
from wire.ids import NO_LEADER, TopicPartition
from wire.trace import (
    ActorCrashed,
    BrokerRegistered,
    BrokerStateChanged,
    ControllerElected,
    ControllerResigned,
    ElectionFailed,
    FaultHealed,
    FaultInjected,
    GroupStateChanged,
    IsrChanged,
    LeaderElected,
    LogDirWentOffline,
    LogTruncated,
    NodePaused,
    NodeResumed,
    NodeStopped,
    ReassignmentStep,
    ReplicaLeftIsr,
    SessionChanged,
    Stamp,
    TopicDeletionStep,
    TopicNotCreated,
    TraceEvent,
)

GATHER_MS: Final = 100  # what comes within that time may be told as one
FEW: Final = 3  # so many of one kind are told one by one


class StoryEvent(Struct, frozen=True):
    """One thing that happened, in words."""

    id: int  # the trace's; a summary has that of its first part, negated
    time_ms: int
    kind: str  # election, isr, broker, controller, fault, topic, move, session, disk, group
    level: str  # good, info, warning, bad
    text: str
    broker: int = -1
    topic: str = ""
    partition: int = -1
    count: int = 1
    is_part: bool = False  # one of many that another event counts


def listen(
    trace: Trace, clock: Clock, on_event: Callable[[StoryEvent], None]
) -> Callable[[], None]:
    """Have a trace told; the answer stops that."""
    story = Story(on_event, clock)
    unwatch = trace.watch(TELLERS, story.hear)

    def stop() -> None:
        unwatch()
        story.stop()

    return stop


class Story:
    """Listens to a trace, and tells what a person should know."""

    def __init__(self, on_event: Callable[[StoryEvent], None], clock: Clock) -> None:
        self._on_event = on_event
        self._clock = clock
        self._teller = Teller()
        self._tasks = Tasks(self._crashed)
        self._gathered: list[StoryEvent] = []
        self._is_over = False

    def hear(self, stamp: Stamp, event: TraceEvent) -> None:
        """Something is in the trace."""
        told = self._teller.tell(stamp, event)
        if told is None or self._is_over:
            return
        if not self._gathered:
            self._tasks.start(self._tell_later())
        self._gathered.append(told)

    def stop(self) -> None:
        """Tell what is left, and nothing more."""
        self._tell()
        self._is_over = True

    async def _tell_later(self) -> None:
        await self._clock.sleep(GATHER_MS)
        self._tell()

    def _tell(self) -> None:
        gathered, self._gathered = self._gathered, []
        for event in condensed(gathered):
            self._on_event(event)

    def _crashed(self, error: Exception) -> None:
        """Whoever listens has failed: it hears no more, and what it raised is not lost."""
        self._is_over = True
        raise error


def condensed(events: list[StoryEvent]) -> list[StoryEvent]:
    """Those of one kind and level together, if they are many; in the order of the first."""
    groups: dict[tuple[str, str, str], list[StoryEvent]] = {}
    for event in events:
        is_of_partition = event.partition >= 0
        key = (event.kind, event.level, "" if is_of_partition else str(event.id))
        groups.setdefault(key, []).append(event)
    told: list[StoryEvent] = []
    for group in groups.values():
        if len(group) <= FEW:
            told.extend(group)
            continue
        first = group[0]
        told.append(
            StoryEvent(
                -first.id, first.time_ms, first.kind, first.level, summary(group), count=len(group)
            )
        )
        told.extend(replace(each, is_part=True) for each in group)
    return told


def summary(group: list[StoryEvent]) -> str:
    """Many partitions in one sentence."""
    many = f"{len(group)} partitions"
    first = group[0]
    if first.kind == "election" and first.level != "bad":
        leaders: dict[int, int] = {}
        for each in group:
            leaders[each.broker] = leaders.get(each.broker, 0) + 1
        by_leader = ", ".join(f"broker {who} leads {n}" for who, n in sorted(leaders.items()))
        return f"{many} have elected: {by_leader}"
    if first.kind == "election":
        return f"{many} have no leader, or one that may lack records"
    if first.kind == "isr":
        return f"{many}: {'more' if first.level == 'good' else 'fewer'} replicas are in sync"
    return f"{many}, such as {first.text}"


class Teller:
    """Puts events into words; remembers who was in sync, to say who came and who went."""

    def __init__(self) -> None:
        self._isrs: dict[TopicPartition, tuple[int, ...]] = {}

    def tell(self, stamp: Stamp, event: TraceEvent) -> StoryEvent | None:
        """The event in words, if it matters to a person."""
        teller = TELLERS.get(type(event))
        return None if teller is None else teller(self, stamp, event)

    def elected(self, stamp: Stamp, event: LeaderElected) -> StoryEvent:
        """A leader was elected."""
        where = TopicPartition(event.topic, event.partition)
        self._isrs[where] = _ids(event.isr)
        if event.leader == NO_LEADER:
            return _of(where, stamp, "election", "bad", f"{where} has no leader")
        text = f"{where}: broker {event.leader} leads, epoch {event.leader_epoch}"
        if event.is_unclean:
            text += ", though it was not in sync: records may be lost"
        level = "bad" if event.is_unclean else "info"
        return _of(where, stamp, "election", level, text, event.leader)

    def isr_changed(self, stamp: Stamp, event: IsrChanged) -> StoryEvent:
        """A leader changed who is in sync."""
        where = TopicPartition(event.topic, event.partition)
        return self._isr(where, stamp, event.isr)

    def left_isr(self, stamp: Stamp, event: ReplicaLeftIsr) -> StoryEvent | None:
        """The controller took somebody out."""
        where = TopicPartition(event.topic, event.partition)
        if event.leader == NO_LEADER:
            self._isrs[where] = _ids(event.isr)
            return _of(where, stamp, "election", "bad", f"{where} has no leader")
        return self._isr(where, stamp, event.isr)

    def _isr(self, where: TopicPartition, stamp: Stamp, isr: str) -> StoryEvent:
        before, now = self._isrs.get(where), _ids(isr)
        self._isrs[where] = now
        came = sorted(set(now) - set(before or now))
        went = sorted(set(before or now) - set(now))
        said = []
        if went:
            said.append(f"{_brokers(went)} fell out of sync")
        if came:
            said.append(f"{_brokers(came)} {'is' if len(came) == 1 else 'are'} in sync again")
        said.append(f"in sync are {isr}" if isr else "nobody is in sync")
        text = f"{where}: {', '.join(said)}"
        level = "warning" if went else "good"
        broker = (*went, *came, -1)[0]
        return _of(where, stamp, "isr", level, text, broker)

    def topic_step(self, stamp: Stamp, event: TopicDeletionStep) -> StoryEvent:
        """A topic is on its way out."""
        return _event(
            stamp, "topic", "info", f"topic {event.topic}: {event.step}", topic=event.topic
        )


def _ids(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(","))) if text else ()


def _brokers(brokers: list[int]) -> str:
    return ("broker " if len(brokers) == 1 else "brokers ") + ", ".join(map(str, brokers))


def _event(
    stamp: Stamp, kind: str, level: str, text: str, broker: int = -1, topic: str = ""
) -> StoryEvent:
    return StoryEvent(stamp.id, stamp.time_us // 1000, kind, level, text, broker, topic)


def _of(
    where: TopicPartition, stamp: Stamp, kind: str, level: str, text: str, broker: int = -1
) -> StoryEvent:
    event = _event(stamp, kind, level, text, broker, where.topic)
    return replace(event, partition=where.partition)


def _number(node: str) -> int:
    _, _, number = node.rpartition("-")
    return int(number) if number.isdecimal() else -1


def _failed(_: Teller, stamp: Stamp, event: ElectionFailed) -> StoryEvent:
    where = TopicPartition(event.topic, event.partition)
    return _of(where, stamp, "election", "bad", f"{where} gets no leader: {event.error}")


def _controller(_: Teller, stamp: Stamp, event: ControllerElected) -> StoryEvent:
    text = f"the controller is broker {event.broker}, epoch {event.controller_epoch}"
    return _event(stamp, "controller", "info", text, event.broker)


def _resigned(_: Teller, stamp: Stamp, event: ControllerResigned) -> StoryEvent:
    text = f"broker {event.broker} is no longer the controller: {event.reason}"
    return _event(stamp, "controller", "warning", text, event.broker)


def _registered(_: Teller, stamp: Stamp, event: BrokerRegistered) -> StoryEvent:
    text = f"broker {event.broker} is up, epoch {event.broker_epoch}"
    return _event(stamp, "broker", "good", text, event.broker)


def _state(_: Teller, stamp: Stamp, event: BrokerStateChanged) -> StoryEvent | None:
    broker = _number(stamp.node)
    if event.state != "PendingControlledShutdown":
        return None
    return _event(stamp, "broker", "info", f"broker {broker} leaves: its leaderships move", broker)


def _stopped(_: Teller, stamp: Stamp, event: NodeStopped) -> StoryEvent:
    broker = _number(stamp.node)
    if event.reason == "stopped":
        return _event(stamp, "broker", "info", f"broker {broker} has stopped", broker)
    return _event(stamp, "broker", "bad", f"broker {broker} is down: {event.reason}", broker)


def _paused(_: Teller, stamp: Stamp, event: NodePaused) -> StoryEvent:
    broker = _number(stamp.node)
    return _event(stamp, "broker", "warning", f"broker {broker} stands still", broker)


def _resumed(_: Teller, stamp: Stamp, event: NodeResumed) -> StoryEvent:
    broker = _number(stamp.node)
    return _event(stamp, "broker", "good", f"broker {broker} goes on", broker)


SESSIONS: Final = {
    "suspended": ("warning", "has lost ZooKeeper, and waits for it"),
    "expired": ("bad", "has lost its session, and opens another"),
}


def _session(_: Teller, stamp: Stamp, event: SessionChanged) -> StoryEvent | None:
    if event.state not in SESSIONS:
        return None
    level, what = SESSIONS[event.state]
    broker = _number(stamp.node)
    return _event(stamp, "session", level, f"broker {broker} {what}", broker)


def _injected(_: Teller, stamp: Stamp, event: FaultInjected) -> StoryEvent:
    other = f" and {_spoken(event.detail)}" if event.detail else ""
    text = f"fault: {event.fault} {_spoken(event.target)}{other}"
    return _event(stamp, "fault", "warning", text, _number(event.target))


def _healed(_: Teller, stamp: Stamp, event: FaultHealed) -> StoryEvent:
    text = f"healed: {event.fault} {_spoken(event.target)}"
    return _event(stamp, "fault", "good", text, _number(event.target))


def _spoken(node: str) -> str:
    return "ZooKeeper" if node == "zookeeper" else node.replace("broker-", "broker ")


MOVES: Final = {"A1": "moves to", "B8": "has moved to"}


def _moved(_: Teller, stamp: Stamp, event: ReassignmentStep) -> StoryEvent | None:
    if event.step not in MOVES:
        return None
    where = TopicPartition(event.topic, event.partition)
    removing = set(_ids(event.removing))
    to = ", ".join(str(each) for each in _ids(event.replicas) if each not in removing)
    return _of(where, stamp, "move", "info", f"{where} {MOVES[event.step]} brokers {to}")


def _disk(_: Teller, stamp: Stamp, event: LogDirWentOffline) -> StoryEvent:
    broker = _number(stamp.node)
    text = f"the disk of broker {broker} has failed: {event.reason}"
    return _event(stamp, "disk", "bad", text, broker)


def _truncated(_: Teller, stamp: Stamp, event: LogTruncated) -> StoryEvent:
    where, broker = TopicPartition(event.topic, event.partition), _number(stamp.node)
    text = f"{where}: broker {broker} drops its records from offset {event.offset} on"
    return _of(where, stamp, "disk", "warning", text, broker)


def _not_created(_: Teller, stamp: Stamp, event: TopicNotCreated) -> StoryEvent:
    text = f"topic {event.topic} was not created: {event.reason}"
    return _event(stamp, "topic", "warning", text, topic=event.topic)


def _group(_: Teller, stamp: Stamp, event: GroupStateChanged) -> StoryEvent | None:
    said = {
        "PreparingRebalance": f"has its members join again: {event.reason}",
        "Stable": f"shares out among {event.members}, in generation {event.generation}",
        "Empty": "has no members left",
    }.get(event.state)
    if said is None:
        return None
    return _event(stamp, "group", "info", f"group {event.group:.80} {said}", _number(stamp.node))


def _crashed(_: Teller, stamp: Stamp, event: ActorCrashed) -> StoryEvent:
    text = f"{event.actor} crashed, which is a bug: {event.error}"
    return _event(stamp, "broker", "bad", text, _number(stamp.node))


TELLERS: Final[dict[type[TraceEvent], Callable[..., StoryEvent | None]]] = {
    LeaderElected: Teller.elected,
    ElectionFailed: _failed,
    IsrChanged: Teller.isr_changed,
    ReplicaLeftIsr: Teller.left_isr,
    ControllerElected: _controller,
    ControllerResigned: _resigned,
    BrokerRegistered: _registered,
    BrokerStateChanged: _state,
    NodeStopped: _stopped,
    NodePaused: _paused,
    NodeResumed: _resumed,
    SessionChanged: _session,
    FaultInjected: _injected,
    FaultHealed: _healed,
    ReassignmentStep: _moved,
    TopicDeletionStep: Teller.topic_step,
    TopicNotCreated: _not_created,
    LogDirWentOffline: _disk,
    LogTruncated: _truncated,
    GroupStateChanged: _group,
    ActorCrashed: _crashed,
}
