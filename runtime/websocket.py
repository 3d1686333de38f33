"""Frames between processes, over aiohttp WebSockets.

Rule: frames for a node in the same process do not leave it. Each pair of nodes has a connection of
its own, opened by whoever asks first, and answers go back over it. A connection ends once: at that
moment it is taken out of use and the calls begun over it fail, so a later call finds a new one; the
goodbye comes after. Every size is bounded: a frame that is too large, is no frame or is for someone
else ends the connection with a trace event. Bound elsewhere than to loopback, it demands a token
(D10).
"""

import asyncio
import hmac
import ipaddress
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from socket import SHUT_RDWR
from typing import Final

import aiohttp
import msgspec
from aiohttp import WSMsgType, web

from runtime.network import Endpoint, MemoryTransport
from runtime.tracing import CAUSE, NodeTrace
from wire.errors import MalformedMessage
from wire.frame import (
    ANSWERS,
    ENVELOPE_BYTES,
    MAX_FRAME_BYTES,
    Frame,
    FrameKind,
    decode_frame,
    encode_frame,
)
from wire.trace import FrameRefused

PATH: Final = "/frames"
NODES_PATH: Final = "/nodes"  # which nodes can be reached where: for who knows one address only
QUEUE_FRAMES: Final = 10_000  # that wait for one connection; more break it
QUEUE_BYTES: Final = 2 * MAX_FRAME_BYTES
HEARTBEAT_S: Final = 15
CONNECT_TIMEOUT_S: Final = 5
GOODBYE_S: Final = 1

Resolve = Callable[[str], Awaitable[str | None]]  # a node's address → host:port, if it is known
Directory = Callable[[], Mapping[str, str]]  # a node's address → host:port
Socket = web.WebSocketResponse | aiohttp.ClientWebSocketResponse
Pair = tuple[str, str]  # (the node here, the node there)


class WebSocketTransport:
    """Carries frames between the nodes of several processes."""

    def __init__(
        self,
        resolve: Resolve,
        trace: NodeTrace,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        token: str | None = None,
        local: MemoryTransport | None = None,
        max_frame_bytes: int = MAX_FRAME_BYTES,
    ) -> None:
        if not is_loopback(host) and not token:
            raise ValueError(f"{host} is not loopback: a token is needed to listen there")
        self.host = host
        self.port = port
        self._resolve = resolve
        self._trace = trace
        self._token = token
        self._max_bytes = max_frame_bytes
        self._local = local or MemoryTransport()  # shared by the nodes of one process
        self.directory: Directory = self._here  # what is answered at NODES_PATH
        self._own: dict[str, Endpoint] = {}  # those whose answers leave by this door
        self._links: dict[Pair, _Line] = {}  # opened here, and in use
        self._lines: set[_Line] = set()  # all that are not gone, whoever opened them
        self._session: aiohttp.ClientSession | None = None
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        """Listen; the port is known afterwards."""
        app = web.Application()
        app.router.add_get(PATH, self._serve)
        app.router.add_get(NODES_PATH, self._tell_nodes)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=GOODBYE_S)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self.host, self.port)
        await site.start()
        self.port = self._runner.addresses[0][1]
        self.visit()

    def visit(self) -> None:
        """Open connections to others from now on; who only visits does not listen."""
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))

    async def close(self) -> None:
        """Close every connection and stop listening."""
        session, self._session = self._session, None  # from now on nothing is opened
        lines = tuple(self._lines)
        for line in lines:
            line.abort("this process has left the network")
        if lines:
            await asyncio.wait([line.life for line in lines])
        if session is not None:
            await session.close()
        if self._runner is not None:
            await self._runner.cleanup()

    # --- what endpoints call -------------------------------------------------------------------

    def attach(self, endpoint: Endpoint) -> None:
        """From now on deliver frames for this address here."""
        self._local.attach(endpoint)
        self._own[endpoint.address] = endpoint

    def detach(self, endpoint: Endpoint) -> None:
        """The endpoint is gone: its connections close, and so the other ends learn it."""
        self._local.detach(endpoint)
        if self._own.get(endpoint.address) is endpoint:
            del self._own[endpoint.address]
            for line in tuple(self._lines):
                if line.pair is not None and line.pair[0] == endpoint.address:
                    line.abort(f"{endpoint.address} has left the network")

    def transmit(self, frame: Frame) -> None:
        """Hand the frame to the one who can carry it."""
        if self._local.endpoint(frame.destination) is not None:
            self._local.transmit(frame)
        elif frame.kind in ANSWERS:
            pass  # the asker was in this process, and is gone
        elif self._session is None:
            self._lost(frame, "this process is not on the network")
        elif self._is_too_large(frame):
            self._lost(frame, f"{frame.payload.nbytes} bytes are over the limit of a frame")
        else:
            pair = (frame.source, frame.destination)
            if pair not in self._links:
                self._links[pair] = self._line(partial(self._open, pair[1]), pair[1], pair)
            self._links[pair].put(frame)

    # --- what lines call ------------------------------------------------------------------------

    async def read(self, socket: Socket, line: "_Line") -> None:
        """Deliver what comes over a connection until it ends, or says what it must not."""
        async for message in socket:
            is_error = message.type is WSMsgType.ERROR
            if not line.is_open or (is_error and not _is_violation(message.data)):
                return  # the connection has ended, and nobody is to blame
            try:
                frame = _frame_in(message, self._max_bytes)
                self._check(frame, line)
            except MalformedMessage as error:
                self._refuse(line.peer, str(error))
                return
            self._own[frame.destination].deliver(frame, partial(self._answer, line))

    def line_ended(self, line: "_Line", why: str) -> None:
        """A connection is of no more use: what was asked over it has no answer."""
        if line.pair is not None and self._links.get(line.pair) is line:
            del self._links[line.pair]
            here, there = line.pair
            if here in self._own:
                self._own[here].peer_lost(there, why, line.before)

    # --------------------------------------------------------------------------------------------

    def _line(
        self, opening: Callable[[], Awaitable[Socket]], peer: str, pair: Pair | None = None
    ) -> "_Line":
        line = _Line(self, opening, peer, pair)
        self._lines.add(line)
        line.life.add_done_callback(lambda _: self._lines.discard(line))
        return line

    async def _open(self, destination: str) -> Socket:
        """A connection to a node's process, or OSError."""
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            where = await self._resolve(destination)
            if where is None:
                raise ConnectionRefusedError(f"nobody knows where {destination} is")
            if self._session is None:
                raise ConnectionAbortedError("this process is not on the network")
            return await self._session.ws_connect(
                f"http://{where}{PATH}",
                headers=bearer(self._token),
                max_msg_size=self._max_bytes + 1,  # aiohttp refuses what is not below it
                heartbeat=HEARTBEAT_S,
                compress=0,
                timeout=aiohttp.ClientWSTimeout(ws_close=GOODBYE_S),
            )

    def _here(self) -> Mapping[str, str]:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return dict.fromkeys(sorted(self._own), f"{host}:{self.port}")

    async def _tell_nodes(self, request: web.Request) -> web.Response:
        self._check_visitor(request)
        return web.json_response(dict(self.directory()))

    def _check_visitor(self, request: web.Request) -> str:
        """Who asks, if it may."""
        remote = request.remote or "unknown"
        if not self._has_token(request):
            self._refuse(remote, "it has not shown the token")
            raise web.HTTPUnauthorized
        if "Origin" in request.headers:
            self._refuse(remote, "a page in a browser: no node sends an Origin")
            raise web.HTTPForbidden
        return remote

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        remote = self._check_visitor(request)
        socket = web.WebSocketResponse(
            max_msg_size=self._max_bytes + 1,
            heartbeat=HEARTBEAT_S,
            compress=False,
            timeout=GOODBYE_S,
        )
        await socket.prepare(request)
        if self._session is None:
            await _hang_up(socket)
            return socket

        async def opened() -> Socket:
            return socket

        line = self._line(opened, remote)
        await asyncio.wait([line.life])
        if not line.life.cancelled():
            line.life.result()  # raises the bug, if it was one
        return socket

    def _has_token(self, request: web.Request) -> bool:
        if self._token is None:
            return True
        # aiohttp reads bytes that are no text as surrogates; these are the same bytes again.
        given = request.headers.get("Authorization", "").encode("utf-8", "surrogateescape")
        return hmac.compare_digest(given, f"Bearer {self._token}".encode())

    def _check(self, frame: Frame, line: "_Line") -> None:
        """Raise MalformedMessage unless this frame may come over this connection."""
        pair = (frame.destination, frame.source)
        if frame.destination not in self._own:
            raise MalformedMessage(f"a frame for {frame.destination}, who is not here")
        if self._local.endpoint(frame.source) is not None:
            raise MalformedMessage(f"a frame from outside in the name of {frame.source}")
        if (frame.kind in ANSWERS) is not line.is_ours:
            raise MalformedMessage(f"{frame.kind.name} does not come this way")
        if line.pair is None:
            line.pair = pair
        elif line.pair != pair:
            raise MalformedMessage(f"a frame of {pair} on a connection of {line.pair}")

    def _answer(self, line: "_Line", frame: Frame) -> None:
        """Back over the connection on which the request came; if that is gone, so is the asker."""
        if self._is_too_large(frame):
            self._refuse(frame.source, f"an answer of {frame.payload.nbytes} bytes is too large")
            frame = msgspec.structs.replace(frame, kind=FrameKind.REFUSED, payload=memoryview(b""))
        line.put(frame)

    def _is_too_large(self, frame: Frame) -> bool:
        return frame.payload.nbytes > self._max_bytes - ENVELOPE_BYTES

    def _lost(self, frame: Frame, why: str) -> None:
        source = self._own.get(frame.source)
        if source is not None and frame.kind is FrameKind.REQUEST:
            source.lost(frame.correlation, why)

    def _refuse(self, source: str, reason: str) -> None:
        self._trace(FrameRefused(source, reason))


class _Line:
    """A connection from its opening to its end, and the frames that wait for it."""

    def __init__(
        self,
        transport: WebSocketTransport,
        opening: Callable[[], Awaitable[Socket]],
        peer: str,
        pair: Pair | None,
    ) -> None:
        self.peer = peer
        self.is_ours = pair is not None  # we opened it, so answers come over it, and no requests
        self.pair = pair  # None until the first frame of a connection that was opened there
        self.before = 0  # the calls that went this way have smaller numbers
        self._transport = transport
        self._queue: asyncio.Queue[Frame] = asyncio.Queue(QUEUE_FRAMES)
        self._queued_bytes = 0
        self.is_open = True
        self.life = asyncio.get_running_loop().create_task(self._live(opening))

    def put(self, frame: Frame) -> None:
        """Send a frame in its turn; if the other end does not keep up, end the connection."""
        if not self.is_open:
            return  # whoever waits for an answer over it has been told
        self.before = max(self.before, frame.correlation + 1)
        self._queued_bytes += frame.payload.nbytes
        if self._queue.full() or self._queued_bytes > QUEUE_BYTES:
            self.abort(f"{self.peer} does not keep up with what is sent")
        else:
            self._queue.put_nowait(frame)

    def abort(self, why: str) -> None:
        """End the connection, or the wish for one; nobody waits for the goodbye."""
        if self.is_open:
            self._end(why)
            self.life.cancel()

    def _end(self, why: str) -> None:
        if self.is_open:
            self.is_open = False
            self._transport.line_ended(self, why)

    async def _live(self, opening: Callable[[], Awaitable[Socket]]) -> None:
        CAUSE.set([0])  # the task was made while some actor handled some message
        try:
            await self._carry(await opening())
        except (OSError, aiohttp.ClientError) as error:  # a TimeoutError is an OSError
            self._end(f"no link to {self.peer}: {str(error) or type(error).__name__}")
        finally:
            self._end("a bug")  # unless it has ended, as it should have

    async def _carry(self, socket: Socket) -> None:
        """Send and read until either ends, then close the connection."""
        reader = asyncio.ensure_future(self._transport.read(socket, self))
        sender = asyncio.ensure_future(self._send(socket))
        try:
            await asyncio.wait({reader, sender}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._end(f"the link to {self.peer} was closed")
            reader.cancel()
            sender.cancel()
            ends = await asyncio.gather(reader, sender, return_exceptions=True)
            await _hang_up(socket)
        for bug in ends:
            if isinstance(bug, Exception):
                raise bug

    async def _send(self, socket: Socket) -> None:
        while True:
            frame = await self._queue.get()
            self._queued_bytes -= frame.payload.nbytes
            try:
                await socket.send_bytes(encode_frame(frame))
            except (OSError, aiohttp.ClientError):
                return


def bearer(token: str | None) -> dict[str, str]:
    """What shows the token, if there is one."""
    return {} if token is None else {"Authorization": f"Bearer {token}"}


async def _hang_up(socket: Socket) -> None:
    """Say goodbye, but not for long; then cut the connection, whatever is still unsent."""
    tcp = socket.get_extra_info("socket")
    with suppress(TimeoutError):
        async with asyncio.timeout(GOODBYE_S):
            await socket.close()
    if tcp is not None:
        with suppress(OSError):  # closed already
            tcp.shutdown(SHUT_RDWR)


def _is_violation(error: object) -> bool:
    return isinstance(error, aiohttp.WebSocketError)


def _frame_in(message: aiohttp.WSMessage, max_bytes: int) -> Frame:
    if message.type is WSMsgType.ERROR:
        raise MalformedMessage(str(message.data))
    if message.type is not WSMsgType.BINARY:
        raise MalformedMessage("a frame must be binary")
    return decode_frame(message.data, max_bytes=max_bytes)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
