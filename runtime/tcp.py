"""Frames over TCP: four bytes of length, then so many bytes.

Rule: no caller can make this process hold more than its share. Large frames wait until there is
room for them, one that does not arrive in time ends its connection, and so does one who does not
read what is sent. An idle connection holds no buffer. Each of these ends leaves a trace event.
"""

import asyncio
import resource
import socket
from typing import Final

from runtime.listener import Converse
from runtime.tcp_connection import DEFAULT_LIMITS, SCRATCH_BYTES, Limits, TcpConnection
from runtime.tracing import NodeTrace

BACKLOG: Final = 1_024
WANTED_FILES: Final = 65_536
GOODBYE_S: Final = 1.0


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
        self.connections: dict[TcpConnection, None] = {}
        self._waiting: dict[TcpConnection, None] = {}  # for room
        self.reserved = 0
        self.is_paused = False
        self._socket: socket.socket | None = None
        self._server: asyncio.Server | None = None
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

    async def serve(self, converse: Converse) -> None:
        """Talk to whoever comes from now on."""
        assert self._socket is not None, "it is bound"
        self.converse = converse
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: TcpConnection(self), sock=self._socket, backlog=BACKLOG
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
            connection.carry_on()

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
        self._waiting.clear()
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None

    def _stop_listening(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    # --- what connections call --------------------------------------------------------------------

    def joined(self, connection: TcpConnection) -> None:
        """Somebody has connected."""
        self.connections[connection] = None
        if self._sweeper is None:
            self._sweep_later()

    def left(self, connection: TcpConnection) -> None:
        """Somebody is gone."""
        self.connections.pop(connection, None)
        self._waiting.pop(connection, None)
        if self._empty is not None and not self.connections and not self._empty.done():
            self._empty.set_result(None)

    @property
    def is_full(self) -> bool:
        """Whether there are too many already."""
        return len(self.connections) >= self.limits.connections

    def wait_for_room(self, connection: TcpConnection) -> None:
        """Let it begin its frame later."""
        self._waiting[connection] = None

    def has_room(self, size: int) -> bool:
        """Whether a large frame may be read now; the first of them always may."""
        return not self.reserved or self.reserved + size <= self.limits.reserved_bytes

    def released(self) -> None:
        """There is more room: those who wait for it go on, first come first served."""
        for connection in tuple(self._waiting):
            if not self.has_room(connection.wanted_bytes):
                return
            del self._waiting[connection]
            connection.begin_waiting_frame()

    def make_room_for(self, sender: TcpConnection) -> None:
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


def _allow_many_files() -> None:
    """A connection is an open file, and the usual limit is 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED_FILES if hard == resource.RLIM_INFINITY else min(hard, WANTED_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
