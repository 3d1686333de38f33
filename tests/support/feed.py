"""A stand-in for the HTTP server: it serves the page and says what a test tells it to.

Whatever is hard to reach with a cluster, a thousand changes or a name that bites, is said here. To
look at it: python -m tests.support.feed --partitions 1000
"""

import argparse
import asyncio
import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from aiohttp import WSCloseCode, web

PAGE = Path(__file__).parents[2] / "actors/doors/http/page"
CONTENT_SECURITY_POLICY = (
    "default-src 'self'; connect-src 'self'; img-src 'self' data:; frame-ancestors 'none'"
)
NOW_MS = 1_700_000_000_000

Json = dict[str, Any]


def partition(
    topic: str, number: int, replicas: Iterable[int], leader: int | None = None, **fields: Any
) -> Json:
    """A healthy partition, but for the fields given."""
    replicas = list(replicas)
    return {
        "topic": topic,
        "partition": number,
        "leader": replicas[0] if leader is None else leader,
        "leader_epoch": 0,
        "partition_epoch": 0,
        "replicas": replicas,
        "isr": replicas,
        "offline": [],
        "adding": [],
        "removing": [],
    } | fields


def broker(number: int, state: str = "up", **fields: Any) -> Json:
    """A broker; its numbers are made up."""
    address = f"127.0.0.1:{19091 + number}"
    known = {"id": number, "state": state, "address": address, "rack": None, "epoch": 20 + number}
    return known | {"leaders": 4, "replicas": 12} | fields


def event(number: int, kind: str, text: str, level: str = "info", **fields: Any) -> Json:
    """An event of the story, a second after the one before it, of the last minutes."""
    known = {
        "id": number,
        "time_ms": NOW_MS - 240_000 + number * 1000,
        "kind": kind,
        "level": level,
    }
    return known | {"text": text, "broker": -1, "topic": "", "partition": -1, "count": 1} | fields


def counters(partitions: Iterable[Json], **fields: Any) -> Json:
    """Counted as the server counts."""
    known = list(partitions)
    lacking = [each for each in known if set(each["replicas"]) - {*each["adding"], *each["isr"]}]
    return {
        "topics": len({each["topic"] for each in known}),
        "partitions": len(known),
        "offline": sum(each["leader"] < 0 for each in known),
        "under_replicated": len(lacking),
        "messages_per_second": 0.0,
        "bytes_per_second": 0.0,
    } | fields


def state(partitions: Iterable[Json], brokers: Iterable[Json] | None = None, **fields: Any) -> Json:
    """The first message of a feed: three brokers, of which the first is the controller."""
    known = list(partitions)
    return {
        "type": "state",
        "run": "first",
        "faults_enabled": True,
        "zookeeper": "127.0.0.1:2181",
        "now_ms": NOW_MS,
        "controller": {"broker": 1, "epoch": 3},
        "brokers": list(brokers or (broker(1, "controller"), broker(2), broker(3))),
        "cuts": [],
        "partitions": known,
        "counters": counters(known),
        "events": [],
    } | fields


def orders(partitions: int = 6, brokers: int = 3) -> list[Json]:
    """A topic whose leaders go round."""
    ring = [*range(1, brokers + 1)] * 2
    return [
        partition("orders", each, ring[each % brokers : each % brokers + 3])
        for each in range(partitions)
    ]


class Feed:
    """Serves the page on a port of its own; may go away and come back on it."""

    def __init__(self, first: Json) -> None:
        self.first = first
        self.port = 0
        self.asked: asyncio.Queue[Json] = asyncio.Queue()  # faults that the page asked for
        self.answer: tuple[int, Json] = (200, {"done": "It is done."})
        self.details: Json = {"partition": {}, "offsets": {}, "history": []}
        self.detail_paths: asyncio.Queue[str] = asyncio.Queue()
        self._sockets: set[web.WebSocketResponse] = set()
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> "Feed":
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    async def start(self) -> None:
        """Listen; the second time on the port of the first."""
        application = web.Application()
        application.on_response_prepare.append(self._protect)
        application.router.add_get("/", self._index)
        application.router.add_get("/live", self._live)
        application.router.add_post("/api/faults", self._fault)
        application.router.add_get("/api/partitions/{topic}/{partition}", self._partition)
        application.router.add_static("/static", PAGE)
        self._runner = web.AppRunner(application, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True).start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Go away, as a server does that was killed."""
        for socket in list(self._sockets):
            await socket.close(code=WSCloseCode.GOING_AWAY)
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def say(self, message: Json) -> None:
        """Send a message to every page."""
        for socket in list(self._sockets):
            await socket.send_json(message)

    async def change(self, **fields: Any) -> None:
        """Say that something changed."""
        await self.say({"type": "change", "now_ms": NOW_MS} | fields)

    async def _protect(self, _: web.Request, response: web.StreamResponse) -> None:
        response.headers["Content-Security-Policy"] = CONTENT_SECURITY_POLICY
        response.headers["Cache-Control"] = "no-store"

    async def _index(self, _: web.Request) -> web.FileResponse:
        return web.FileResponse(PAGE / "index.html")

    async def _live(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_json(self.first)
        self._sockets.add(socket)
        async for _ in socket:
            pass
        self._sockets.discard(socket)
        return socket

    async def _fault(self, request: web.Request) -> web.Response:
        self.asked.put_nowait(await request.json())
        status, answer = self.answer
        return web.json_response(answer, status=status)

    async def _partition(self, request: web.Request) -> web.Response:
        self.detail_paths.put_nowait(request.path)
        return web.json_response(self.details)


async def play(feed: Feed, partitions: list[Json], changes: int, each: int) -> None:
    """Move leaders of `each` partitions, `changes` times, twenty times a second."""
    turn = itertools.cycle(range(len(partitions)))
    for _ in range(changes):
        moved = []
        for _ in range(each):
            known = partitions[next(turn)]
            known["isr"] = known["isr"][1:] or known["replicas"]
            known["leader"] = known["isr"][0]
            known["leader_epoch"] += 1
            moved.append(known)
        await feed.change(partitions=moved, counters=counters(partitions))
        await asyncio.sleep(0.05)


async def demonstrate(port: int, partitions: int) -> None:
    """Serve something to look at until somebody ends it."""
    known = orders(partitions, brokers=5)
    brokers = [broker(1, "controller"), *(broker(each) for each in range(2, 6))]
    feed = Feed(state(known, brokers, events=[event(1, "broker", "Broker 1 is up.", "good")]))
    feed.port = port
    async with feed:
        while True:
            await play(feed, known, changes=20, each=min(50, partitions))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=18080)
    parser.add_argument("--partitions", type=int, default=1000)
    given = parser.parse_args()
    asyncio.run(demonstrate(given.port, given.partitions))
