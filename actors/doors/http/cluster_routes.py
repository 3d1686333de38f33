"""What HTTP offers beyond the command line: partitions with their history, events, logs.

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
from actors.operations.operation import Operation
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


class LiveCluster:
    """What the rows run: they need more than a cluster's clients."""

    def __init__(self, source: Source, history: History) -> None:
        self._source = source
        self._history = history

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


def cluster_operations(source: Source, history: History) -> tuple[Operation, ...]:
    """The rows."""
    live = LiveCluster(source, history)
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
