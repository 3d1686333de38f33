"""What pages are told while they look.

Rule: while somebody looks, the cluster is looked at often, and at once after an event; only what
has changed is sent. While nobody looks, nothing is done. A page that does not keep up is cut off:
it comes back by itself and begins anew.
"""

from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from secrets import token_hex
from typing import Any, Final

import msgspec
from aiohttp import WSCloseCode, web

from actors.doors.http.guard import Refused
from actors.doors.http.history import History
from actors.doors.http.source import Source
from actors.story import StoryEvent
from actors.view import BrokerView, ClusterView, PartitionView
from runtime.tasks import Bell, Tasks, all_of, within
from runtime.world import Clock
from wire.ids import NO_BROKER, TopicPartition
from wire.observation import Metric

LOOK_MS: Final = 200
GATHER_MS: Final = 20  # events come in bursts
REST: Final = 5  # a look is followed by a rest of so many times its length, whatever happens
STALE_MS: Final = 5_000  # so long ago nobody looked: what came since is no rate of now
MEASURE_MS: Final = 1_000  # a second, the unit of a rate; to measure costs more than to look
GOODBYE_MS: Final = 500
MOST_PAGES: Final = 64
MOST_UNSENT: Final = 200  # messages that wait for one page
MOST_FROM_PAGE: Final = 1_024
Counts = Mapping[int, tuple[float, ...]]  # broker → its counters, in the order of COUNTED
COUNTED: Final = {"MessagesInPerSec": "messages_per_second", "BytesInPerSec": "bytes_per_second"}


class Page:
    """One page that looks, and what waits for it."""

    def __init__(self, socket: web.WebSocketResponse, cut: Callable[[], None]) -> None:
        self._socket = socket
        self._cut = cut
        self._unsent: deque[str] = deque()
        self._bell = Bell()
        self._is_open = True

    def put(self, message: str) -> None:
        """Send in its turn, if the page keeps up."""
        if len(self._unsent) >= MOST_UNSENT:
            self.drop()
        elif self._is_open:
            self._unsent.append(message)
            self._bell.ring()

    def drop(self) -> None:
        """End the connection at once: who does not read would not read a goodbye either."""
        self.end()
        self._cut()

    async def leave(self) -> None:
        """End the connection politely, but not for long."""
        self.end()
        with suppress(TimeoutError):
            await within(GOODBYE_MS, self._socket.close(code=WSCloseCode.GOING_AWAY))
        self._cut()

    def end(self) -> None:
        """Nothing more is sent."""
        self._is_open = False
        self._unsent.clear()
        self._bell.ring()

    async def send(self) -> None:
        """Until the end."""
        while self._is_open:
            while self._unsent:
                try:
                    await self._socket.send_str(self._unsent.popleft())
                except OSError:  # aiohttp's own is one: the page is gone
                    self.end()
            if self._is_open:
                await self._bell.wait()


class Feed:
    """All pages of one server."""

    def __init__(
        self, source: Source, history: History, clock: Clock, *, faults_enabled: bool
    ) -> None:
        self._source = source
        self._history = history
        self._clock = clock
        self._faults_enabled = faults_enabled
        self._run = token_hex(8)
        self._pages: dict[Page, None] = {}
        self._bell = Bell()
        self._tasks = Tasks(self._crashed)
        self._shown: dict[str, Any] = {}
        self._partitions: Mapping[TopicPartition, PartitionView] = {}
        self._counts: Counts = {}
        self._counted_ms: float | None = None
        self._visitors = 0  # pages, and those that are about to be some
        self._is_looking = False
        self._rates = dict.fromkeys(COUNTED.values(), 0.0)
        self._has_event = False
        history.listeners[self._on_event] = None

    async def close(self) -> None:
        """Let all pages go."""
        self._history.listeners.pop(self._on_event, None)
        await all_of(page.leave() for page in tuple(self._pages))
        await self._tasks.close()

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """A page has come, and stays until it goes."""
        if self._visitors >= MOST_PAGES:
            raise Refused(503, "TOO_MANY_PAGES", f"{MOST_PAGES} pages look already")
        self._visitors += 1
        try:
            return await self._serve(request)
        finally:
            self._visitors -= 1

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(heartbeat=15, max_msg_size=MOST_FROM_PAGE, timeout=1)
        await socket.prepare(request)
        transport = request.transport
        page = Page(socket, (lambda: None) if transport is None else transport.abort)
        await self._look()
        page.put(self._state())
        self._pages[page] = None
        if not self._is_looking:
            self._is_looking = True
            self._tasks.start(self._look_on())
        self._tasks.start(page.send())
        try:
            async for _ in socket:
                pass  # it has nothing to say; what is too long ends the connection
        finally:
            page.end()
            del self._pages[page]
        return socket

    async def _look_on(self) -> None:
        try:
            while self._pages:
                begun_ms = self._clock.elapsed_ms()
                self._has_event = False
                await self._look()
                rest_ms = max(GATHER_MS, REST * (self._clock.elapsed_ms() - begun_ms))
                if not self._has_event:
                    await self._bell.wait(max(LOOK_MS - rest_ms, 0))
                await self._clock.sleep(rest_ms)
        finally:
            self._is_looking = False

    async def _look(self) -> None:
        """See what is there, and tell the pages what is new."""
        view = await self._source.look()
        await self._measure()
        now: dict[str, Any] = {
            "controller": _controller(view),
            "brokers": [_broker(each) for each in view.brokers.values()],
            "cuts": self._source.faults.cuts,
            "counters": self._counters(view),
        }
        change: dict[str, Any] = {
            name: value for name, value in now.items() if self._shown.get(name) != value
        }
        changed = [
            each
            for where, each in view.partitions.items()
            if each is not self._partitions.get(where) and each != self._partitions.get(where)
        ]
        gone = [where for where in self._partitions if where not in view.partitions]
        self._shown, self._partitions = now, view.partitions
        if changed:
            change["partitions"] = changed
        if gone:
            change["gone"] = gone
        if change:
            self._tell({"type": "change", "now_ms": self._clock.now_ms(), **change})

    def _state(self) -> str:
        return _encoded(
            {
                "type": "state",
                "run": self._run,
                "faults_enabled": self._faults_enabled,
                "zookeeper": self._source.zookeeper,
                "now_ms": self._clock.now_ms(),
                **self._shown,
                "partitions": list(self._partitions.values()),
                "events": self._history.shown(),
            }
        )

    def _counters(self, view: ClusterView) -> dict[str, float]:
        return {
            "topics": len({each.topic for each in view.partitions}),
            "partitions": len(view.partitions),
            "offline": view.offline,
            "under_replicated": view.under_replicated,
            **self._rates,
        }

    async def _measure(self) -> None:
        """Rates from counters; a broker that began anew counts from nothing, and adds none."""
        now_ms = self._clock.elapsed_ms()
        if self._counted_ms is not None and now_ms - self._counted_ms < MEASURE_MS:
            return
        then_ms, self._counted_ms = self._counted_ms, now_ms
        before, self._counts = self._counts, counted(await self._source.metrics())
        if then_ms is None or now_ms - then_ms > STALE_MS:
            return
        for number, name in enumerate(COUNTED.values()):
            grown = sum(
                max(counts[number] - before[broker][number], 0.0)
                for broker, counts in self._counts.items()
                if broker in before
            )
            self._rates[name] = round(grown * 1000 / (now_ms - then_ms), 1)

    def _on_event(self, event: StoryEvent) -> None:
        self._has_event = True
        self._bell.ring()
        if not event.is_part:
            self._tell({"type": "event", "event": event})

    def _tell(self, message: dict[str, Any]) -> None:
        if self._pages:
            encoded = _encoded(message)
            for page in tuple(self._pages):
                page.put(encoded)

    def _crashed(self, error: Exception) -> None:
        """A bug: pages that would show nothing new must not look alive."""
        for page in tuple(self._pages):
            page.drop()
        raise error


def counted(metrics: Mapping[int, tuple[Metric, ...]]) -> Counts:
    """The counters that rates are made of."""
    return {
        broker: tuple(
            _count(of_broker, f"kafka.server:type=BrokerTopicMetrics,name={name}")
            for name in COUNTED
        )
        for broker, of_broker in metrics.items()
    }


def _count(metrics: tuple[Metric, ...], mbean: str) -> float:
    found = (dict(each.attributes)["Count"] for each in metrics if each.mbean == mbean)
    return next(found, 0.0)


def _controller(view: ClusterView) -> dict[str, int] | None:
    if view.controller == NO_BROKER:
        return None
    return {"broker": view.controller, "epoch": view.controller_epoch}


def _broker(view: BrokerView) -> dict[str, Any]:
    return {**msgspec.to_builtins(view)}


def _encoded(message: dict[str, Any]) -> str:
    return msgspec.json.encode(message).decode()
