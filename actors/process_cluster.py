"""N brokers, each a process of its own, and the one who started them.

Rule: it is used as a cluster of one process is. What is seen of the brokers they say themselves,
over the network; what happens to a process (killed, stopped, stands still) is known here. A broker
keeps its port and its folder from one life to the next.
"""

import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Self

import msgspec

from actors.broker_life import BrokerLife
from actors.broker_process import Left, Order, Ready, Said
from actors.client.admin import Admin
from actors.client.connection import Connection
from actors.client.consumer import Consumer
from actors.client.deadline import Deadline
from actors.client.producer import Producer
from actors.cluster import LOOPBACK, Door
from actors.conditions import Condition, NotReached
from actors.config import BrokerConfig
from actors.faults.hand import FaultRefused
from actors.faults.process_hand import ProcessHand
from actors.names import node_name
from actors.node_cluster import LOOK_AGAIN_MS, WAIT_MS, Announce, settings_of
from actors.remote import RemoteCluster
from actors.story import Story, StoryEvent
from actors.token import VARIABLE
from actors.view import ClusterView, assemble
from runtime.child import Child
from runtime.clock import RealClock, new_run, real_trace
from runtime.embedded import EmbeddedZooKeeper
from runtime.folder import Folder
from runtime.main import Sentence
from runtime.recorder import Recorder
from runtime.tasks import Bell, Promise, Tasks, all_of
from runtime.world import Clock
from wire.errors import ApiError, MalformedMessage
from wire.ids import NO_BROKER, BrokerId
from wire.observation import Metric, Observe, ObserveResponse
from wire.trace import FaultHealed, FaultInjected, NodeStopped, TraceEvent, from_json

MODULE: Final = "actors.commands.run_broker"
START_MS: Final = 60_000
LOOK_MS: Final = 1_000  # a broker that takes longer to show itself is silent
LEAVE_S: Final = 60.0
FAULTS: Final = (FaultInjected, FaultHealed)  # the hand itself tells of them, once for all


class ProcessCluster:
    """`async with ProcessCluster(brokers=3) as cluster`: as Cluster, over real processes."""

    def __init__(
        self,
        brokers: int = 3,
        *,
        zookeeper: str | None = None,
        data: Path | None = None,
        trace: Path | None = None,
        session_timeout_ms: int = 6_000,
        overrides: Mapping[str, Any] | None = None,
        announce: Announce | None = None,
        door: Door = LOOPBACK,
    ) -> None:
        given = settings_of(brokers, overrides)
        self.session_timeout_ms = session_timeout_ms
        self._settings = {"zookeeper_session_timeout_ms": session_timeout_ms, **given}
        BrokerConfig(broker_id=1, **self._settings)  # refused now what no broker could start with
        self.brokers = tuple(range(1, brokers + 1))
        self.lives = {broker: BrokerLife(broker) for broker in self.brokers}
        self.clock: Clock = RealClock()
        self._door = door
        self._given, self._trace, self._zookeeper = data, trace, zookeeper
        self._run = new_run()
        self._spawned = 0  # a process's number is the origin of its events: none is used twice
        self._folder: Folder | None = None
        self._embedded: EmbeddedZooKeeper | None = None
        self._remote: RemoteCluster | None = None
        self._observer: Connection | None = None
        self._listeners: dict[Callable[[StoryEvent], None], None] = {}
        self._bell = Bell()
        self._tasks = Tasks(self._crashed)
        self._announce = announce or (lambda _: None)
        # Faults and sudden ends, which no broker's process can tell; its origin is 0.
        self._own_trace = real_trace(recording=trace is not None)
        self._recorder = None if trace is None else Recorder(self._own_trace, trace, run=self._run)
        self._story = Story(self._tell, self.clock)
        self._own_trace.listeners.append(self._story.hear)
        self.faults = ProcessHand(self)

    async def stop_zookeeper(self) -> None:
        """Kill ZooKeeper, if it is ours."""
        if self._embedded is None:
            raise FaultRefused("this ZooKeeper is not ours to stop")
        await self._embedded.kill()

    async def start_zookeeper(self) -> None:
        """Start ZooKeeper again, on its port."""
        if self._embedded is None:
            raise FaultRefused("this ZooKeeper is not ours to start")
        await self._embedded.start()

    @property
    def zookeeper(self) -> str:
        """Where ZooKeeper is."""
        if self._embedded is not None:
            return self._embedded.hosts
        assert self._zookeeper is not None
        return self._zookeeper

    # --- its life ---------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Start ZooKeeper if it is ours, then every broker."""
        if self._trace is not None:
            self._trace.mkdir(parents=True, exist_ok=True)
        if self._recorder is not None:
            await self._recorder.start()
        self._folder = Folder.open(self._given)
        if self._zookeeper is None:
            self._embedded = EmbeddedZooKeeper(data=self._folder.path / "zookeeper")
            await self._embedded.start()
            self._announce(f"ZooKeeper is up at {self._embedded.hosts}")
        else:
            self._announce(f"looking for ZooKeeper at {self._zookeeper}")
        for life in self.lives.values():
            await self._spawn(life)
        for broker in self.brokers:
            await self.await_ready(broker)
        addresses = ",".join(life.address for life in self.lives.values())
        self._remote = RemoteCluster(addresses, token=self._door.token)
        await self._remote.__aenter__()
        self._observer = Connection(*self._remote.client("observer"), node_name)
        await self.until(self._know_each_other)

    def _know_each_other(self, view: ClusterView) -> bool:
        """Whether there is a controller, and every broker is told of all."""
        seen = [life.seen for life in self.lives.values() if life.seen is not None]
        told = [each for each in seen if len(each.brokers) >= len(self.brokers)]
        return view.controller != NO_BROKER and len(told) == len(self.brokers)

    async def close(self) -> None:
        """Stop every broker, last started first, then ZooKeeper if it is ours."""
        for broker, life in reversed(tuple(self.lives.items())):
            if life.child is not None and life.is_alive:
                await self.stop_broker(broker)
                self._announce(f"broker {broker} has stopped")
        self._story.stop()
        if self._recorder is not None:
            await self._recorder.close()
        await self._tasks.close()
        if self._remote is not None:
            await self._remote.__aexit__()
        if self._embedded is not None:
            await self._embedded.close()
            self._announce("ZooKeeper has stopped")
        if self._folder is not None:
            self._folder.close()

    async def start_broker(self, broker: int) -> None:
        """Start a broker that is not running, and wait until it is registered."""
        life = self.lives[broker]
        if life.is_alive:
            raise ValueError(f"broker {broker} is running already")
        await self._spawn(life)
        await self.await_ready(broker)

    async def stop_broker(self, broker: int) -> None:
        """Stop a broker in its own time."""
        life = self.lives[broker]
        assert life.child is not None, "it was started"
        life.is_leaving = True
        await life.child.terminate(LEAVE_S)

    async def _spawn(self, life: BrokerLife) -> None:
        self._spawned += 1
        life.ready = Promise()
        life.is_paused = life.is_leaving = life.is_silent = False
        life.seen = None
        life.child = await Child.start(
            MODULE,
            self._arguments(life),
            lambda line: self._on_line(life, line),
            environment={} if self._door.token is None else {VARIABLE: self._door.token},
        )
        self._tasks.start(self._await_end(life, life.child))

    def _arguments(self, life: BrokerLife) -> list[str]:
        assert self._folder is not None, "it was opened"
        folder = self._folder.path / node_name(life.broker)
        arguments = ["--id", str(life.broker), "--zookeeper", self.zookeeper]
        arguments += ["--data", str(folder), "--port", str(life.port), "--supervised"]
        arguments += ["--host", self._door.host]
        if self._door.advertised_host is not None:
            arguments += ["--advertised-host", self._door.advertised_host]
        for name, value in self._settings.items():
            text = str(value).lower() if isinstance(value, bool) else str(value)
            arguments += ["--override", f"{name.replace('_', '.')}={text}"]
        arguments += ["--trace-origin", str(self._spawned)]
        if self._trace is not None:
            arguments += ["--trace", str(self._trace), "--trace-run", self._run]
        return arguments

    async def await_ready(self, broker: int) -> Ready:
        """Wait until a broker that was started is registered, or has ended instead."""
        life = self.lives[broker]
        if not await life.ready.settled(START_MS):
            raise Sentence(f"broker {broker} is not up after {START_MS // 1000} s")
        ready = await life.ready
        life.address, life.port = ready.address, int(ready.address.rpartition(":")[2])
        return ready

    async def _await_end(self, life: BrokerLife, child: Child) -> None:
        code = await child.ended()
        if life.child is not child:
            return
        complaint = child.complaint.removeprefix("run-broker: ")
        how = f"killed by {signal.Signals(-code).name}" if code < 0 else complaint or f"code {code}"
        life.ready.fail(Sentence(f"broker {life.broker} has ended: {how}"))
        if not life.is_leaving:
            self._own_trace.leave(node_name(life.broker), NodeStopped(how))
        self._bell.ring()

    # --- what happens -----------------------------------------------------------------------------

    def listen(self, on_event: Callable[[StoryEvent], None]) -> Callable[[], None]:
        """Hear what happens; the answer stops that."""
        self._listeners[on_event] = None
        return lambda: self._listeners.pop(on_event, None) and None

    def leave(self, event: TraceEvent) -> None:
        """Something that was done here, and not by a broker: a fault."""
        self._own_trace.leave("hand", event)

    def order(self, broker: int, order: Order) -> None:
        """Have a broker do something to itself."""
        child = self.lives[broker].child
        assert child is not None, "it was started"
        child.send(msgspec.json.encode(order).decode())

    def _on_line(self, life: BrokerLife, line: str) -> None:
        said: Said = msgspec.json.decode(line, type=Said)
        if isinstance(said, Ready):
            life.ready.keep(said)
        elif isinstance(said, Left):
            event = from_json(said.event)
            if not isinstance(event, FAULTS):
                self._story.hear(said.stamp, event)

    def _tell(self, event: StoryEvent) -> None:
        for listener in tuple(self._listeners):
            listener(event)
        self._bell.ring()

    def _crashed(self, error: Exception) -> None:
        raise error

    # --- what can be seen -------------------------------------------------------------------------

    async def until(
        self, condition: Condition | Callable[[ClusterView], bool], *, timeout_ms: float = WAIT_MS
    ) -> ClusterView:
        """Wait until something can be seen of the cluster; it looks again after each event."""
        wanted = condition if isinstance(condition, Condition) else Condition.of(condition)
        deadline = Deadline(self.clock, timeout_ms)
        while True:
            view = await self.look(offsets=True)
            if wanted.holds(view):
                return view
            if deadline.is_over:
                raise NotReached(wanted.unmet(view, timeout_ms))
            await self._bell.wait(min(deadline.left_ms, LOOK_AGAIN_MS))

    async def look(self, *, offsets: bool = False) -> ClusterView:
        """What the brokers say that answer."""
        request = Observe(partitions=True, replicas=True)
        for broker, response in (await self._ask_all(request)).items():
            self.lives[broker].seen = response
        seen = {
            broker: life.seen
            for broker, life in self.lives.items()
            if life.seen is not None and life.is_alive
        }
        brokers = {broker: life.view() for broker, life in self.lives.items()}
        return assemble(seen, brokers, with_offsets=offsets)

    async def metrics(self) -> Mapping[int, tuple[Metric, ...]]:
        """Kafka's MBeans of every broker that answers."""
        answers = await self._ask_all(Observe(metrics=True))
        return {broker: each.metrics for broker, each in answers.items()}

    async def _ask_all(self, request: Observe) -> dict[int, ObserveResponse]:
        asked = [
            life
            for life in self.lives.values()
            if life.is_alive and not life.is_paused and life.ready.is_settled
        ]
        answers = await all_of([self._ask(life.broker, request) for life in asked])
        found = {}
        for life, answer in zip(asked, answers, strict=True):
            response: ObserveResponse | None = answer.get()
            life.is_silent = response is None
            if response is not None:
                found[life.broker] = response
        return found

    async def _ask(self, broker: int, request: Observe) -> ObserveResponse | None:
        assert self._observer is not None, "the cluster was started"
        try:
            return await self._observer.call(BrokerId(broker), request, LOOK_MS)
        except (ApiError, MalformedMessage):
            return None

    def addresses(self) -> Mapping[str, str]:
        """Where the brokers that are up can be reached, by their names."""
        up = (life for life in self.lives.values() if life.is_alive and life.port)
        return {node_name(life.broker): life.address for life in up}

    def log_folder(self, broker: int) -> Path | None:
        """Where a broker's logs are."""
        if self._folder is None or broker not in self.lives:
            return None
        return self._folder.path / node_name(broker) / node_name(broker)

    # --- clients ----------------------------------------------------------------------------------

    def admin(self) -> Admin:
        """An administrator's client."""
        return self._clients().admin()

    def producer(self, **options: Any) -> Producer:
        """A client that sends records."""
        return self._clients().producer(**options)

    def consumer(self, **options: Any) -> Consumer:
        """A client that reads records."""
        return self._clients().consumer(**options)

    def _clients(self) -> RemoteCluster:
        assert self._remote is not None, "the cluster was started"
        return self._remote
