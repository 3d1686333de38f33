"""What bin/run-cluster does: a cluster until somebody stops it.

Rule: a cluster in one process and one of several are served alike. Everything that a person or a
program should know goes through one Teller; what it looks like is that one's business.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from actors.cluster import LOOPBACK, Cluster, Door
from actors.doors.http.server import HttpServer, PortTaken
from actors.doors.http.source import Source
from actors.load import Load, LoadReport
from actors.places import failures_as_sentences
from actors.process_cluster import ProcessCluster
from actors.source import NodeSource
from actors.story import StoryEvent
from actors.view import ClusterView
from runtime.main import Sentence, forever
from wire.errors import ApiError, TopicAlreadyExists

BUG: Final = 2  # the exit code of a run in which a broker went down through a bug


@dataclass(frozen=True)
class TopicWanted:
    """A topic to be there when the cluster is ready."""

    name: str
    partitions: int
    replicas: int


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """What a person asked for."""

    brokers: int = 3
    processes: bool = False
    zookeeper: str | None = None
    data: Path | None = None
    trace: Path | None = None
    overrides: Mapping[str, Any] = field(default_factory=dict)
    topics: tuple[TopicWanted, ...] = ()
    door: Door = LOOPBACK
    http_port: int = 0
    faults: bool | None = None  # None: on loopback, and nowhere else
    load: float | None = None  # records a second
    exit_after_s: float | None = None


STOPPING: Final = "stopping, each broker in its own time; Ctrl-C again ends them at once"


@dataclass(frozen=True)
class Up:
    """The cluster is ready."""

    view: ClusterView
    zookeeper: str
    page: str
    data: Path | None
    bootstrap_servers: str = ""  # for Kafka's clients


class Teller(Protocol):
    """Who tells a person, or a program."""

    def step(self, line: str) -> None:
        """Something of the start, or of the end, is done."""

    def up(self, up: Up) -> None:
        """The cluster is ready."""

    def event(self, event: StoryEvent) -> None:
        """Something has happened."""

    def load(self, report: LoadReport) -> None:
        """How the workload goes."""


async def serve(options: ServeOptions, teller: Teller) -> int:
    """Run a cluster until cancelled, or until its time is over; the answer is the exit code."""
    where = options.zookeeper or "the embedded server"
    async with failures_as_sentences(where, options.data), _made(options, teller.step) as cluster:
        source: Source = cluster if isinstance(cluster, ProcessCluster) else _source(cluster)
        return await _run(options, teller, source, cluster)


@asynccontextmanager
async def _made(
    options: ServeOptions, announce: Callable[[str], None]
) -> AsyncIterator[Cluster | ProcessCluster]:
    """The cluster; it is made inside, so that settings that cannot work are a sentence, too."""
    async with _cluster(options, announce) as cluster:
        yield cluster


def _cluster(options: ServeOptions, announce: Callable[[str], None]) -> Cluster | ProcessCluster:
    kind = ProcessCluster if options.processes else Cluster
    overrides = dict(options.overrides)
    timeout_ms = overrides.pop("zookeeper.session.timeout.ms", 6_000)
    return kind(
        options.brokers,
        zookeeper=options.zookeeper,
        data=options.data,
        trace=options.trace,
        session_timeout_ms=timeout_ms,
        overrides=overrides,
        announce=announce,
        door=options.door,
    )


def _source(cluster: Cluster) -> NodeSource:
    return NodeSource(cluster, zookeeper=cluster.zookeeper)


async def _run(
    options: ServeOptions, teller: Teller, source: Source, cluster: Cluster | ProcessCluster
) -> int:
    clock = cluster.clock
    crashed: list[StoryEvent] = []

    def on_event(event: StoryEvent) -> None:
        if "which is a bug" in event.text:
            crashed.append(event)
        teller.event(event)

    door = options.door
    server = HttpServer(
        source,
        host=door.host,
        port=options.http_port,
        token=door.token,
        faults=options.faults,
        clock=clock,
    )
    load: Load | None = None
    stop = source.listen(on_event)
    try:
        try:
            await server.start()
        except PortTaken as error:
            raise Sentence(str(error)) from None
        await _make_topics(source, options.topics)
        servers = cluster.bootstrap_servers
        teller.up(Up(await source.look(), source.zookeeper, server.url, options.data, servers))
        if options.load is not None:
            load = Load(source, clock, rate=options.load, on_report=teller.load)
            await load.start(options.brokers)
        if options.exit_after_s is None:
            await forever()
        else:
            await clock.sleep(options.exit_after_s * 1000)
    finally:
        teller.step(STOPPING)
        stop()
        if load is not None:
            await load.close()
        await server.close()
    return BUG if crashed else 0


async def _make_topics(source: Source, topics: tuple[TopicWanted, ...]) -> None:
    admin = source.admin()
    for wanted in topics:
        try:
            await admin.create_topic(
                wanted.name, partitions=wanted.partitions, replication_factor=wanted.replicas
            )
        except TopicAlreadyExists:
            continue  # from an earlier run on the same data
        except ApiError as error:
            raise Sentence(f"topic {wanted.name} was not created: {error}") from None
