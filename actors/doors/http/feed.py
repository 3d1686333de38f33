"""What pages are told while they look.

Rule: while somebody looks, the cluster is looked at often, and at once after an event; only what
has changed is sent. While nobody looks, nothing is done. A page that does not keep up is dropped:
it comes back by itself and begins anew.
"""

from collections.abc import Mapping
from secrets import token_hex
from typing import Any, Final

import msgspec
from aiohttp import web

from actors.doors.http.history import History
from actors.doors.http.source import Source
from actors.story import StoryEvent
from actors.view import BrokerView, ClusterView, PartitionView
from runtime.tasks import Bell, Promise, Tasks
from runtime.world import Clock
from wire.ids import NO_BROKER, TopicPartition
from wire.observation import Metric

LOOK_MS: Final = 200
GATHER_MS: Final = 20  # events come in bursts
REST: Final = 5  # a look that takes long is followed by a rest of so many times its length
MOST_PAGES: Final = 64
MOST_UNSENT: Final = 200  # messages that wait for one page
MOST_FROM_PAGE: Final = 1_024
COUNTED: Final = {"MessagesInPerSec": "messages_per_second", "BytesInPerSec": "bytes_per_second"}


class Page:
    """One page that looks, and what waits for it."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self._socket = socket
        self._unsent: list[str] = []
        self._bell = Bell()
        self.is_open = True
        self.closed: Promise[None] = Promise()

    def put(self, message: str) -> None:
        """Send in its turn; if the page does not keep up, give it up."""
        if len(self._unsent) >= MOST_UNSENT:
            self.close()
        if self.is_open:
            self._unsent.append(message)
            self._bell.ring()

    def close(self) -> None:
        """No more of it."""
        self.is_open = False
        self.closed.keep(None)
        self._unsent.clear()
        self._bell.ring()

    async def send(self) -> None:
        """Until it is closed."""
        while self.is_open:
            while self._unsent:
                message = self._unsent.pop(0)
                try:
                    await self._socket.send_str(message)
                except OSError:  # aiohttp's own is one: the page is gone
                    self.close()
            if self.is_open:
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
        self._counts: tuple[float, dict[str, float]] | None = None
        self._rates = dict.fromkeys(COUNTED.values(), 0.0)
        self._has_event = False
        history.listeners[self._on_event] = None

    async def close(self) -> None:
        """Let all pages go."""
        self._history.listeners.pop(self._on_event, None)
        for page in tuple(self._pages):
            page.close()
        await self._tasks.close()

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """A page has come, and stays until it goes."""
        if len(self._pages) >= MOST_PAGES:
            raise web.HTTPServiceUnavailable
        socket = web.WebSocketResponse(heartbeat=15, max_msg_size=MOST_FROM_PAGE, timeout=1)
        await socket.prepare(request)
        page = Page(socket)
        await self._look()
        page.put(self._state())
        self._pages[page] = None
        if len(self._pages) == 1:
            self._tasks.start(self._look_on())
        self._tasks.start(page.send())
        self._tasks.start(self._end_with(page, socket))
        try:
            async for _ in socket:
                if not page.is_open:
                    break
        finally:
            page.close()
            self._pages.pop(page, None)
        return socket

    async def _end_with(self, page: Page, socket: web.WebSocketResponse) -> None:
        """A page that was given up is told so."""
        await page.closed
        await socket.close()

    async def _look_on(self) -> None:
        while self._pages:
            begun_ms = self._clock.elapsed_ms()
            self._has_event = False
            await self._look()
            took_ms = self._clock.elapsed_ms() - begun_ms
            if not self._has_event:
                await self._bell.wait(max(LOOK_MS, REST * took_ms))
            await self._clock.sleep(max(GATHER_MS, took_ms))

    async def _look(self) -> None:
        """See what is there, and tell the pages what is new."""
        view = await self._source.look()
        self._measure(await self._source.metrics())
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

    def _measure(self, metrics: Mapping[int, tuple[Metric, ...]]) -> None:
        """Rates from counters; over half a second at least, or they would jump."""
        now_ms = self._clock.elapsed_ms()
        counts = counted(metrics)
        if self._counts is None:
            self._counts = (now_ms, counts)
            return
        then_ms, before = self._counts
        if now_ms - then_ms >= 1_000:  # noqa: PLR2004 - a second: the unit of a rate
            self._rates = {
                name: round(max(0.0, value - before[name]) * 1000 / (now_ms - then_ms), 1)
                for name, value in counts.items()
            }
            self._counts = (now_ms, counts)

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
            page.close()
        raise error


def counted(metrics: Mapping[int, tuple[Metric, ...]]) -> dict[str, float]:
    """The counters that rates are made of, over all brokers."""
    counts = dict.fromkeys(COUNTED.values(), 0.0)
    for of_broker in metrics.values():
        for metric in of_broker:
            for name, counter in COUNTED.items():
                if metric.mbean == f"kafka.server:type=BrokerTopicMetrics,name={name}":
                    counts[counter] += dict(metric.attributes)["Count"]
    return counts


def _controller(view: ClusterView) -> dict[str, int] | None:
    if view.controller == NO_BROKER:
        return None
    return {"broker": view.controller, "epoch": view.controller_epoch}


def _broker(view: BrokerView) -> dict[str, Any]:
    return {**msgspec.to_builtins(view)}


def _encoded(message: dict[str, Any]) -> str:
    return msgspec.json.encode(message).decode()
