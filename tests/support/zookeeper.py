"""A real ZooKeeper for tests, and a proxy in front of it that can break connections."""

import asyncio
import struct
import threading
from itertools import count

from runtime.embedded import EmbeddedZooKeeper


class SharedZooKeeper:
    """A server in a loop and thread of its own, so that it outlives the loops of tests."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._server = EmbeddedZooKeeper()
        self._chroots = count(1)

    def __enter__(self):
        self._thread.start()
        self._run(self._server.start())
        return self

    def __exit__(self, *_):
        self._run(self._server.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def port(self) -> int:
        return self._server.port

    @property
    def hosts(self) -> str:
        return self._server.hosts

    def chroot(self) -> str:
        return f"/test-{next(self._chroots)}"

    def _run(self, work):
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)


class Proxy:
    """Passes ZooKeeper's packets on, until told to lose a reply or to break everything."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task] = set()
        self._lose_reply = False
        self._is_cut = False

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_):
        self._server.close()
        self.break_connections()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def lose_reply(self) -> None:
        self._lose_reply = True

    def cut(self) -> None:
        self._is_cut = True
        self.break_connections()

    def heal(self) -> None:
        self._is_cut = False

    def break_connections(self) -> None:
        for writer in tuple(self._writers):
            writer.transport.abort()

    async def _serve(self, reader, writer):
        self._tasks.add(asyncio.current_task())
        if self._is_cut:
            writer.transport.abort()
            return
        there, back = await asyncio.open_connection("127.0.0.1", self._target)
        self._writers |= {writer, back}
        try:
            pumps = self._pump(reader, back, False), self._pump(there, writer, True)
            await asyncio.gather(*pumps)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            for each in (writer, back):
                each.transport.abort()
            self._writers -= {writer, back}
            self._tasks.discard(asyncio.current_task())

    async def _pump(self, reader, writer, is_reply):
        while True:
            head = await reader.readexactly(4)
            packet = await reader.readexactly(struct.unpack("!i", head)[0])
            xid = struct.unpack("!i", packet[:4])[0]
            # A reply to a request has a positive xid; events and pings do not. The reply to a
            # connect request has none, but begins with the protocol's version, 0.
            if is_reply and self._lose_reply and xid > 0:
                self._lose_reply = False
                raise ConnectionResetError
            writer.write(head + packet)
            await writer.drain()
