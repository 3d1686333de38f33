"""Frames over TCP: four bytes of length, then so many bytes.

Rule: no caller can make this process hold more than its share. Large frames wait until there is
room for them, one that does not arrive in time ends its connection, and so does one who does not
read what is sent. An idle connection holds no buffer. Each of these ends leaves a trace event.
"""

import asyncio
import resource
import socket
import struct
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from runtime.listener import Buffer, Conversation, Converse
from runtime.tracing import NodeTrace
from wire.trace import FrameRefused

LENGTH: Final = struct.Struct(">i")
SCRATCH_BYTES: Final = 64 * 1024  # what is read at once where no large frame is under way
JOINED_BYTES: Final = 16 * 1024  # parts up to this size are copied together: a write costs more
RESET: Final = struct.pack("ii", 1, 0)  # SO_LINGER: closing sends a reset
BACKLOG: Final = 1_024
WANTED_FILES: Final = 65_536
GOODBYE_S: Final = 1.0


@dataclass(frozen=True)
class Limits:
    """How much callers may want."""

    frame_bytes: int = 100 << 20  # as Kafka's socket.request.max.bytes
    connections: int = 10_000
    reserved_bytes: int = 256 << 20  # of large frames that are on their way, of all callers
    unread_bytes: int = 256 << 20  # sent, but not read yet, by all callers
    stalled_s: float = 30.0  # a frame that has begun is there by then, and an answer read
    idle_s: float = 600.0  # as connections.max.idle.ms


DEFAULT_LIMITS: Final = Limits()


class TcpListener:
    """A port, and all connections to it."""

    def __init__(
        self,
        trace: NodeTrace,
        *,
        bound: str = "127.0.0.1",
        port: int = 0,
        advertised_host: str | None = None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self._bound = bound
        self.host = advertised_host or bound
        self.port = port
        self.limits = limits
        self.trace = trace
        self.converse: Converse | None = None
        self.scratch = memoryview(bytearray(SCRATCH_BYTES))
        self.connections: dict[_Connection, None] = {}
        self.waiting: dict[_Connection, None] = {}  # for room
        self.reserved = 0
        self.is_paused = False
        self._socket: socket.socket | None = None
        self._server: asyncio.Server | None = None
        self._opening: asyncio.Task[None] | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        self._empty: asyncio.Future[None] | None = None  # done once nobody is connected any more

    async def bind(self) -> None:
        """Take the port; nobody can connect yet."""
        _allow_many_files()
        loop = asyncio.get_running_loop()
        family, _, _, _, address = (
            await loop.getaddrinfo(
                self._bound, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
        )[0]
        bound = socket.socket(family, socket.SOCK_STREAM)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.setblocking(False)
            bound.bind(address)
        except OSError:
            bound.close()
            raise
        self._socket, self.port = bound, bound.getsockname()[1]

    def serve(self, converse: Converse) -> None:
        """Talk to whoever comes from now on."""
        self.converse = converse
        self._opening = asyncio.get_running_loop().create_task(self._open())

    async def _open(self) -> None:
        assert self._socket is not None, "it is bound"
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: _Connection(self), sock=self._socket, backlog=BACKLOG
        )

    def pause(self) -> None:
        """Stand still: what callers send stays with the operating system."""
        self.is_paused = True
        for connection in self.connections:
            connection.look()

    def resume(self) -> None:
        """Go on after a pause."""
        self.is_paused = False
        for connection in tuple(self.connections):
            connection.look()

    async def close(self) -> None:
        """Let nobody in, and end what is there once it is sent."""
        self._stop_listening()
        for connection in tuple(self.connections):
            connection.hang_up()
        if self.connections:
            self._empty = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._empty], timeout=GOODBYE_S)
        self.abort()

    def abort(self) -> None:
        """Reset every connection."""
        self._stop_listening()
        for connection in tuple(self.connections):
            connection.reset()
        self.connections.clear()
        self.waiting.clear()
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None

    def _stop_listening(self) -> None:
        if self._opening is not None:
            self._opening.cancel()
        if self._server is not None:
            self._server.close()
            self._server = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    # --- what connections call --------------------------------------------------------------------

    def joined(self, connection: "_Connection") -> None:
        """Somebody has connected."""
        self.connections[connection] = None
        if self._sweeper is None:
            self._sweep_later()

    def left(self, connection: "_Connection") -> None:
        """Somebody is gone."""
        self.connections.pop(connection, None)
        self.waiting.pop(connection, None)
        if self._empty is not None and not self.connections and not self._empty.done():
            self._empty.set_result(None)

    def has_room(self, size: int) -> bool:
        """Whether a large frame may be read now; the first of them always may."""
        return not self.reserved or self.reserved + size <= self.limits.reserved_bytes

    def released(self) -> None:
        """There is more room: those who wait for it go on, first come first served."""
        for connection in tuple(self.waiting):
            if not self.has_room(connection.wanted_bytes):
                return
            del self.waiting[connection]
            connection.begin_waiting_frame()

    def make_room_for(self, sender: "_Connection") -> None:
        """Nobody reads much more slowly than others: who has most unread is let go."""
        unread = {each: each.unread_bytes for each in self.connections if each.is_choked}
        if sum(unread.values()) > self.limits.unread_bytes:
            slowest = max(unread, key=lambda each: (unread[each], each is not sender))
            slowest.refuse(f"{unread[slowest]} bytes were sent and not read")

    def _sweep_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._sweeper = loop.call_later(self.limits.stalled_s / 4, self._sweep)

    def _sweep(self) -> None:
        """Now and then, and only while somebody is connected."""
        self._sweeper = None
        if not self.is_paused:
            now_s = asyncio.get_running_loop().time()
            for connection in tuple(self.connections):
                connection.check(now_s)
        if self.connections:
            self._sweep_later()


class _Connection(asyncio.BufferedProtocol):
    """One caller: frames in, frames out."""

    __slots__ = (
        "_begun_s",
        "_conversation",
        "_filled",
        "_frame",
        "_frames",
        "_is_closing",
        "_is_held",
        "_is_reading",
        "_last_s",
        "_listener",
        "_reserved",
        "_rest",
        "_transport",
        "_unread_then",
        "is_choked",
        "name",
        "wanted_bytes",
    )

    def __init__(self, listener: TcpListener) -> None:
        self.name = ""
        self.is_choked = False  # more is sent than read
        self.wanted_bytes = 0  # of a frame that waits for room
        self._listener = listener
        self._transport: Any = None
        self._conversation: Conversation | None = None
        self._frame: memoryview | None = None  # a large one, on its way
        self._filled = 0
        self._reserved = 0
        self._frames: list[memoryview] = []  # whole, but held back
        self._rest = b""  # the beginning of a frame, or frames that were held back
        self._is_held = False
        self._is_reading = True
        self._is_closing = False
        self._begun_s = 0.0  # when what is on its way began
        self._last_s = 0.0
        self._unread_then = 0

    # --- what the loop calls ----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        listener = self._listener
        self._transport = transport
        peer = transport.get_extra_info("peername")
        self.name = f"{peer[0]}:{peer[1]}" if peer else "somebody"
        self._last_s = asyncio.get_running_loop().time()
        if len(listener.connections) >= listener.limits.connections or listener.converse is None:
            self.refuse(f"{listener.limits.connections} connections are open")
            return
        listener.joined(self)
        self._conversation = listener.converse(self)
        self.look()

    def connection_lost(self, _: Exception | None) -> None:
        self._is_closing = True
        self._release()
        self._rest, self._frames = b"", []
        self._listener.left(self)
        conversation, self._conversation = self._conversation, None
        if conversation is not None:
            conversation.ended()

    def get_buffer(self, _: int) -> memoryview:
        if self._frame is None:
            return self._listener.scratch  # read from at once, so one is enough for all
        return self._frame[self._filled :]

    def buffer_updated(self, size: int) -> None:
        if self._frame is None:
            self._parse(self._rest + self._listener.scratch[:size])
            return
        self._filled += size
        if self._filled == len(self._frame):
            frame, self._frame = self._frame, None
            self._release()
            self._deliver(frame)
            self.look()

    def pause_writing(self) -> None:
        self.is_choked = True
        self._begun_s = asyncio.get_running_loop().time()
        self._unread_then = self.unread_bytes
        self.look()

    def resume_writing(self) -> None:
        self.is_choked = False
        self.look()

    def eof_received(self) -> bool:
        return False  # who says no more hears no more, as with Kafka

    # --- frames -----------------------------------------------------------------------------------

    def _parse(self, data: bytes) -> None:
        """Take the whole frames out of what has come, and keep the rest."""
        position, end = 0, len(data)
        view = memoryview(data)
        while not self._stands and end - position >= LENGTH.size:
            (size,) = LENGTH.unpack_from(data, position)
            if not 0 <= size <= self._listener.limits.frame_bytes:
                self.refuse(f"a frame of {size} bytes")
                return
            start = position + LENGTH.size
            if end - start < size and size > SCRATCH_BYTES:
                self._rest = data[start:]
                self._await_room(size)
                return
            if end - start < size:
                break
            position = start + size
            self._deliver(memoryview(bytearray(view[start:position])))
        self._rest = data[position:] if position else data
        self._begun_s = asyncio.get_running_loop().time()
        self.look()

    def _await_room(self, size: int) -> None:
        self.wanted_bytes = size
        self._begun_s = asyncio.get_running_loop().time()
        if self._listener.has_room(size):
            self.begin_waiting_frame()
        else:
            self._listener.waiting[self] = None
            self.look()

    def begin_waiting_frame(self) -> None:
        """There is room for it now."""
        size, self.wanted_bytes = self.wanted_bytes, 0
        self._reserved = size
        self._listener.reserved += size
        self._frame = memoryview(bytearray(size))
        self._filled = len(self._rest)
        self._frame[: self._filled] = self._rest
        self._rest = b""
        self._begun_s = asyncio.get_running_loop().time()
        self.look()

    def _deliver(self, frame: memoryview) -> None:
        if self._stands or self._frames:
            self._frames.append(frame)
        elif self._conversation is not None:
            self._last_s = asyncio.get_running_loop().time()
            self._conversation.take(frame)

    def _release(self) -> None:
        if self._reserved:
            self._listener.reserved -= self._reserved
            self._reserved = 0
            self._listener.released()

    # --- standing still and going on --------------------------------------------------------------

    @property
    def _stands(self) -> bool:
        return self._is_held or self.is_choked or self._is_closing or self._listener.is_paused

    def look(self) -> None:
        """Read, or do not, as things are."""
        if self._is_closing:
            return
        wants = not self._stands and not self.wanted_bytes and not self._frames
        if wants != self._is_reading:
            self._is_reading = wants
            if wants:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def hold(self) -> None:
        """Give no more frames for a while."""
        self._is_held = True
        self.look()

    def go_on(self) -> None:
        """Give what was held back, and go on."""
        self._is_held = False
        asyncio.get_running_loop().call_soon(self._catch_up)

    def _catch_up(self) -> None:
        while self._frames and not self._stands:
            assert self._conversation is not None, "it has not ended"
            self._conversation.take(self._frames.pop(0))
        if self._rest and not self._frames and not self._stands and not self.wanted_bytes:
            self._parse(self._rest)
        self.look()

    # --- what is sent -----------------------------------------------------------------------------

    @property
    def unread_bytes(self) -> int:
        """How much waits for the other side to read."""
        return 0 if self._is_closing else int(self._transport.get_write_buffer_size())

    def send(self, parts: Sequence[Buffer]) -> None:
        """Send these as one frame."""
        if self._is_closing:
            return
        joined = bytearray(LENGTH.pack(sum(map(len, parts))))
        for part in parts:
            if len(part) <= JOINED_BYTES:
                joined += part
                continue
            if joined:
                self._transport.write(joined)
                joined = bytearray()
            self._transport.write(part)
        if joined:
            self._transport.write(joined)
        self._last_s = asyncio.get_running_loop().time()
        if self.is_choked:
            self._listener.make_room_for(self)

    # --- the end ----------------------------------------------------------------------------------

    def check(self, now_s: float) -> None:
        """Let go of a caller who has stopped talking, or listening, half-way."""
        limits = self._listener.limits
        waited_s = now_s - self._begun_s
        if self.is_choked:
            unread = self.unread_bytes
            if unread < self._unread_then:
                self._unread_then, self._begun_s = unread, now_s
            elif waited_s > limits.stalled_s:
                self.refuse(f"{unread} bytes are not read for {waited_s:.0f} s")
        elif self._frame is not None and waited_s > limits.stalled_s:
            self.refuse(f"a frame of {len(self._frame)} bytes ends after {self._filled}")
        elif self._rest and self._is_reading and waited_s > limits.stalled_s:
            self.refuse(f"a frame ends after {len(self._rest)} bytes")
        elif now_s - self._last_s > limits.idle_s:
            self.hang_up()

    def hang_up(self) -> None:
        """End it, once all that was sent is on its way."""
        if not self._is_closing:
            self._is_closing = True
            self._transport.close()

    def refuse(self, reason: str) -> None:
        """End it at once, and say why."""
        if not self._is_closing:
            self._listener.trace(FrameRefused(self.name, reason))
            self.reset()

    def reset(self) -> None:
        """End it at once: the other side finds it broken."""
        self._is_closing = True
        with suppress(OSError):
            self._transport.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, RESET
            )
        self._transport.abort()


def _allow_many_files() -> None:
    """A connection is an open file, and the usual limit is 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED_FILES if hard == resource.RLIM_INFINITY else min(hard, WANTED_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
