"""What HTTP offers beyond the command line: partitions with their history, faults, events, logs.

Rule: rows of the same table as all operations, so they are routed, checked and described alike.
"""

from typing import Annotated, Any

from msgspec import Meta, Struct

from actors.administration.names import check_topic_name
from actors.clients import Clients
from actors.doors.http.dump import dump
from actors.doors.http.guard import Refused
from actors.doors.http.history import History
from actors.doors.http.source import Source
from actors.faults.hand import Faults
from actors.operations.operation import BadInput, Operation
from actors.story import StoryEvent
from actors.view import BrokerView, OffsetsView, PartitionView
from wire.ids import TopicPartition

Name = Annotated[str, Meta(min_length=1, max_length=249)]
Number = Annotated[int, Meta(ge=0, le=2**31 - 1)]


class PartitionGiven(Struct, kw_only=True, forbid_unknown_fields=True):
    """Which partition."""

    topic: Name
    partition: Number


class PartitionDetails(Struct):
    """All that is known of one partition."""

    partition: PartitionView
    offsets: OffsetsView
    history: list[StoryEvent]


class FaultGiven(Struct, kw_only=True, forbid_unknown_fields=True):
    """What to break, or to mend."""

    fault: str
    broker: Number | None = None
    other: Number | None = None  # of a cut: another broker, or 0 for ZooKeeper


class FaultDone(Struct):
    """It was done."""

    done: str


class EventsGiven(Struct, kw_only=True, forbid_unknown_fields=True):
    """From where on."""

    after: int = 0


class LogGiven(Struct, kw_only=True, forbid_unknown_fields=True):
    """Whose log, and how much of it."""

    broker: Number
    topic: Name
    partition: Number
    offset: Annotated[int, Meta(ge=0)] = 0  # the first batch shown holds it, or comes after it
    max_batches: Annotated[int, Meta(ge=1, le=1_000)] = 100
    records: bool = False


class LogDumped(Struct):
    """Batches by the names that kafka-dump-log gives them."""

    broker: int
    topic: str
    partition: int
    batches: list[dict[str, Any]]


class NothingGiven(Struct, kw_only=True, forbid_unknown_fields=True):
    """Nothing is needed."""


class ClusterDetails(Struct):
    """Who is there."""

    controller: int
    controller_epoch: int
    zookeeper: str
    brokers: list[BrokerView]
    partitions: int
    offline: int
    under_replicated: int


ONE_BROKER = {
    "kill": ("kill", "broker {} is killed"),
    "restart": ("restart", "broker {} is up again"),
    "pause": ("pause", "broker {} stands still"),
    "resume": ("resume", "broker {} goes on"),
    "shut-down": ("shut_down", "broker {} has stopped"),
    "expire-session": ("expire_session", "the session of broker {} is ended"),
}


async def inject(faults: Faults, given: FaultGiven) -> FaultDone:
    """Do what was asked; raise FaultRefused or BadInput."""
    if given.fault == "heal":
        await faults.heal()
        return FaultDone("all links are mended, and all go on that were paused")
    if given.fault == "cut":
        if given.broker is None or given.other is None:
            raise BadInput("a cut needs broker and other, the two ends of a link")
        await faults.cut(given.broker, given.other)
        there = f"broker {given.other}" if given.other else "ZooKeeper"
        return FaultDone(f"the link between broker {given.broker} and {there} is cut")
    if given.fault not in ONE_BROKER:
        known = ", ".join([*ONE_BROKER, "cut", "heal"])
        raise BadInput(f"fault is {given.fault!r:.50}; it must be one of {known}")
    if given.broker is None:
        raise BadInput(f"broker is missing: {given.fault} whom?")
    method, sentence = ONE_BROKER[given.fault]
    await getattr(faults, method)(given.broker)
    return FaultDone(sentence.format(given.broker))


class LiveCluster:
    """What the rows run: they need more than a cluster's clients."""

    def __init__(self, source: Source, history: History, *, has_faults: bool) -> None:
        self._source = source
        self._history = history
        self._has_faults = has_faults

    async def describe(self, _: Clients, __: NothingGiven) -> ClusterDetails:
        """How it is."""
        view = await self._source.look()
        return ClusterDetails(
            view.controller,
            view.controller_epoch,
            self._source.zookeeper,
            list(view.brokers.values()),
            len(view.partitions),
            view.offline,
            view.under_replicated,
        )

    async def describe_partition(self, _: Clients, given: PartitionGiven) -> PartitionDetails:
        """One partition, and what happened to it."""
        view = await self._source.look(offsets=True)
        where = TopicPartition(given.topic, given.partition)
        if where not in view.partitions:
            raise Refused(404, "UNKNOWN_TOPIC_OR_PARTITION", f"there is no partition {where}")
        return PartitionDetails(
            view.partitions[where],
            view.offsets.get(where, OffsetsView()),
            self._history.of(given.topic, given.partition),
        )

    async def inject_fault(self, _: Clients, given: FaultGiven) -> FaultDone:
        """Break it, or mend it."""
        if not self._has_faults:
            raise Refused(403, "FORBIDDEN", "faults are off here: start with --faults")
        return await inject(self._source.faults, given)

    async def dump_log(self, _: Clients, given: LogGiven) -> LogDumped:
        """The files of one replica."""
        check_topic_name(given.topic)  # nothing else may become part of a path
        folder = self._source.log_folder(given.broker)
        log = None if folder is None else folder / f"{given.topic}-{given.partition}"
        if log is None or not log.is_dir():
            raise Refused(404, "UNKNOWN_TOPIC_OR_PARTITION", "there is no such log on this machine")
        most, with_records = given.max_batches, given.records
        batches = dump(log, offset=given.offset, most=most, with_records=with_records)
        return LogDumped(given.broker, given.topic, given.partition, batches)

    async def list_events(self, _: Clients, given: EventsGiven) -> list[StoryEvent]:
        """What happened."""
        return self._history.shown(given.after)


def cluster_operations(
    source: Source, history: History, *, has_faults: bool
) -> tuple[Operation, ...]:
    """The rows."""
    live = LiveCluster(source, history, has_faults=has_faults)
    return (
        Operation(
            "describeLiveCluster",
            "GET",
            "/api/live",
            "Brokers and their states, the controller, and how whole the cluster is.",
            NothingGiven,
            ClusterDetails,
            live.describe,
        ),
        Operation(
            "describePartition",
            "GET",
            "/api/partitions/{topic}/{partition}",
            "A partition's epochs, offsets, high watermark and history.",
            PartitionGiven,
            PartitionDetails,
            live.describe_partition,
        ),
        Operation(
            "injectFault",
            "POST",
            "/api/faults",
            "Kill, restart, pause, resume, shut down, expire a session, cut a link, or heal.",
            FaultGiven,
            FaultDone,
            live.inject_fault,
        ),
        Operation(
            "dumpLog",
            "GET",
            "/api/logs/{broker}/{topic}/{partition}",
            "The batches in the files of one replica.",
            LogGiven,
            LogDumped,
            live.dump_log,
        ),
        Operation(
            "listEvents",
            "GET",
            "/api/events",
            "What has happened lately, oldest first.",
            EventsGiven,
            list[StoryEvent],
            live.list_events,
        ),
    )
