"""A node's session with a real ZooKeeper: kazoo's connection, our requests.

Rule: kazoo's thread ends here. It speaks to the loop by `call_soon_threadsafe` alone, replies and
watch events in the order in which they came from the socket, so an event is told before any reply
that shows what it tells of. One KazooClient is one session: kazoo would open another by itself when
one expires, and is stopped from doing so, since only the owner knows when it is ready (B017).
"""

# kazoo has no public way to send a request of one's own or to end a client without a word.
# ruff: noqa: SLF001

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import (
    AuthFailedError,
    BadArgumentsError,
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    SessionExpiredError,
    ZookeeperError,
)
from kazoo.hosts import collect_hosts
from kazoo.protocol import serialization
from kazoo.protocol.connection import _CONNECTION_DROP
from kazoo.protocol.states import EventType, KazooState, KeeperState, WatchedEvent
from kazoo.retry import KazooRetry

from runtime.bulk import all_of
from runtime.jute import Multi, MultiRead, SetWatches, error_of
from runtime.keeper import (
    Change,
    KeeperError,
    KeeperSessionLost,
    KeeperUnreachable,
    NodeExists,
    Operation,
    SessionState,
    Stat,
    Written,
    ZNode,
    batches,
    check_path,
)
from runtime.link import Handler, Ignored, Line, close_session
from runtime.ref import Receiver
from runtime.session import ConnectionLost, SessionKeeper
from runtime.tracing import NodeTrace
from wire.trace import WatchFired

CONNECT_LOOK_S: Final = 0.1
CONNECT_TIMEOUT_MS: Final = 15_000
WATCHES_A_REQUEST: Final = 1_000
CHANGES: Final = {
    EventType.CREATED: Change.CREATED,
    EventType.DELETED: Change.DELETED,
    EventType.CHANGED: Change.CHANGED,
    EventType.CHILD: Change.CHILDREN,
}
Arm = Callable[[Any], None]

logging.getLogger("kazoo").setLevel(logging.ERROR)  # what matters is told as a SessionEvent


class _Answer:
    """What kazoo sets on its thread, finished on the loop."""

    __slots__ = ("_arm", "_path", "_session", "future")

    def __init__(self, session: "_Session", arm: Arm | None, path: str | None) -> None:
        self.future: asyncio.Future[Any] = session.loop.create_future()
        self._session = session
        self._arm = arm
        self._path = path  # whose existence the answer tells, if it is watched

    def set(self, value: Any = None) -> None:
        """An answer has come."""
        if self._path is not None:
            self._session.note(self._path, is_there=value is not None)
        self._session.post(self._finish, value, None)

    def set_exception(self, error: Exception) -> None:
        """An error has come, or none will."""
        self._session.post(self._finish, None, error)

    def _finish(self, value: Any, error: Exception | None) -> None:
        if error is None and self._arm is not None:
            self._arm(value)  # here and not by who awaits: the event may be right behind
        if self.future.done():
            return
        if error is None:
            self.future.set_result(value)
        else:
            self.future.set_exception(error)


class _Session:
    """One KazooClient, from its first connection to its end."""

    def __init__(
        self, keeper: "ZooKeeper", hosts: str, timeout_ms: float, number: int, line: Line
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.number = number
        self.id = 0
        self.client = KazooClient(
            hosts=hosts,
            timeout=timeout_ms / 1000,
            handler=Handler(line),
            connection_retry=KazooRetry(max_tries=-1, delay=0.02, backoff=1.5, max_delay=0.5),
        )
        self._keeper = keeper
        self._is_over = False
        self._ending: asyncio.Future[None] | None = None
        # Of kazoo's thread alone: watched paths without a znode, and what a broken connection lost.
        self._absent: set[str] = set()
        self._lost: tuple[int, set[str], set[str]] | None = None
        self.client.add_listener(self._on_state)

    def post(self, callback: Callable[..., None], *args: Any) -> None:
        """Run something on the loop, unless that is gone."""
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(callback, *args)

    def ask(
        self, request: Any, arm: Arm | None = None, watched: str | None = None
    ) -> asyncio.Future[Any]:
        """Send a request; the future is the loop's."""
        answer = _Answer(self, arm, watched)
        self.client._call(request, answer)
        return answer.future

    async def connect(self) -> None:
        """Wait for the first connection, as long as it may take."""
        connected = self.client.start_async()
        deadline = self.loop.time() + CONNECT_TIMEOUT_MS / 1000
        # A little at a time: whoever cancels this waits for the thread to come back.
        while not await asyncio.to_thread(connected.wait, CONNECT_LOOK_S):
            if self.loop.time() < deadline:
                continue
            self.hang_up()
            raise KeeperUnreachable(detail=f"no server at {self._keeper.hosts} has answered")
        self.id = self.client.client_id[0] if self.client.client_id else 0

    async def close(self) -> None:
        """End the session at the server, and the thread here."""
        self._is_over = True
        self.client.handler.release()
        await asyncio.to_thread(self._stop)

    def hang_up(self) -> None:
        """Drop the connection and tell the server nothing, as a killed process does."""
        self._is_over = True
        self.client.handler.release()
        self.client._stopped.set()
        self.client._queue.append((_CONNECTION_DROP, None))
        self._wake()
        self._ending = self.loop.run_in_executor(None, self._release)

    # --- on kazoo's thread --------------------------------------------------------------------

    def on_watch(self, event: WatchedEvent) -> None:
        """A watch has fired; kazoo also says NONE when the connection breaks."""
        change = CHANGES.get(event.type)
        if change is not None and not self._is_over:
            self.post(self._keeper.on_watch, change, event.path, self.number)

    def note(self, path: str, *, is_there: bool) -> None:
        """Remember how a watched path was, to set the watch again after a reconnection."""
        if is_there:
            self._absent.discard(path)
        else:
            self._absent.add(path)

    def _on_state(self, state: str) -> None:
        if state == KazooState.SUSPENDED:
            client = self.client
            if self._lost is None:
                self._lost = (client.last_zxid, set(), set())
            self._lost[1].update(client._data_watchers)
            self._lost[2].update(client._child_watchers)
            self.post(self._keeper.on_state, SessionState.SUSPENDED, self.number)
        elif state == KazooState.CONNECTED:
            self._watch_again()
            self.post(self._keeper.on_state, SessionState.CONNECTED, self.number)
        elif not self._is_over:
            self._is_over = True
            self.client._stopped.set()  # no other session in this client
            expired = self.client._state == KeeperState.EXPIRED_SESSION
            over = SessionState.EXPIRED if expired else SessionState.CLOSED
            self.post(self._keeper.on_state, over, self.number)

    def _watch_again(self) -> None:
        """Before any other request: the server fires what was missed, and watches the rest."""
        if self._lost is None:
            return
        since, data, children = self._lost
        self._lost = None
        client = self.client
        for path in data:
            client._data_watchers[path].add(self.on_watch)
        for path in children:
            client._child_watchers[path].add(self.on_watch)
        there, absent = sorted(data - self._absent), sorted(data & self._absent)
        requests = [SetWatches(since, part, (), ()) for part in _parts(there)]
        requests += [SetWatches(since, (), part, ()) for part in _parts(absent)]
        requests += [SetWatches(since, (), (), part) for part in _parts(sorted(children))]
        for request in reversed(requests):
            client._queue.appendleft((request, Ignored()))
            self._wake()

    def _wake(self) -> None:
        socket = self.client._connection._write_sock
        if socket is not None:
            socket.send(b"\0")

    def _stop(self) -> None:
        self.client.stop()
        self._release()

    def _release(self) -> None:
        """Wait for kazoo's thread to end, and close its sockets."""
        self.client._connection.stop(CONNECT_TIMEOUT_MS / 1000)
        self.client.close()


class ZooKeeper(SessionKeeper):
    """Keeper over kazoo. `hosts` is as Kafka's zookeeper.connect: `host:port,…/chroot`."""

    def __init__(self, hosts: str, trace: NodeTrace, *, session_timeout_ms: float = 6_000) -> None:
        super().__init__(trace)
        _, chroot = collect_hosts(hosts)
        self.hosts = hosts.removesuffix(chroot) if chroot else hosts
        self._root = check_path(chroot.rstrip("/")) if chroot and chroot != "/" else ""
        self._session_timeout_ms = session_timeout_ms
        self._session: _Session | None = None
        self._line = Line()
        self._loses_reply = False

    @property
    def session_id(self) -> int:
        """The server's id of the present session."""
        return 0 if self._session is None else self._session.id

    async def start(self) -> None:
        """Open the first session, or raise KeeperUnreachable."""
        await self._open()
        await self._make_root()

    async def renew(self) -> None:
        """Open another session after one was lost."""
        assert self._state is not SessionState.CONNECTED, "the session is alive"
        if self._session is not None:
            await self._session.close()
        await self._open()

    async def close(self) -> None:
        """End the session: its ephemeral znodes go at once."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()
            self._become(SessionState.CLOSED)

    def abandon(self) -> None:
        """Fall silent, as a killed process does."""
        session, self._session = self._session, None
        if session is not None:
            session.hang_up()
            self._become(SessionState.CLOSED)

    # --- faults on purpose ----------------------------------------------------------------------

    def pause(self) -> None:
        """Ping nobody and hear nothing, as a process that stands still."""
        self._line.goes_on.clear()

    def resume(self) -> None:
        """Go on; the session may be over by now."""
        self._line.goes_on.set()

    def cut(self) -> None:
        """Lose all that goes to the server or comes from it."""
        self._line.mended.clear()
        self._line.is_cut = True

    def mend(self) -> None:
        """The server can be reached again."""
        self._line.is_cut = False
        self._line.mended.set()

    def lose_reply(self) -> None:
        """Have the next write applied, and its answer lost; it will be asked again."""
        self._loses_reply = True

    async def expire(self) -> None:
        """End the session although its owner is well: somebody else closes it at the server."""
        client = self._current().client
        timeout_s = CONNECT_TIMEOUT_MS / 1000
        await asyncio.to_thread(close_session, self.hosts, client.client_id, timeout_s)

    # --------------------------------------------------------------------------------------------

    async def get(self, path: str, *, watch: Receiver | None = None) -> ZNode:
        """Read a znode; the watch is set only if there is one."""
        data, stat = await self._read_one("get", serialization.GetData, path, watch)
        return ZNode(data or b"", Stat._make(stat))

    async def exists(self, path: str, *, watch: Receiver | None = None) -> Stat | None:
        """The stat, or None; the watch is set either way."""
        stat = await self._read_one("exists", serialization.Exists, path, watch)
        return None if stat is None else Stat._make(stat)

    async def children(self, path: str, *, watch: Receiver | None = None) -> tuple[str, ...]:
        """The names below a path, sorted."""
        names = await self._read_one("children", serialization.GetChildren, path, watch)
        return tuple(sorted(names))

    async def read(self, paths: Sequence[str]) -> list[ZNode | KeeperError]:
        """Many znodes, in the order of the paths."""
        for path in paths:
            check_path(path)
        parts = batches([self._full(path) for path in paths], len)
        # Sent together: the server works on one while the next is packed and the last unpacked.
        answers = await all_of([self._read_part(part) for part in parts])
        return [znode for answer in answers for znode in answer]

    # --- what the session posts ---------------------------------------------------------------

    def on_watch(self, change: Change, path: str, number: int) -> None:
        """A watch has fired."""
        bare = self._bare(path)

        def deliver() -> None:
            if number == self._count and self._book.fire(change, bare, number):
                self._trace(WatchFired(bare, change.value, number))

        self.watch_tamper.pass_on(bare, deliver)

    def on_state(self, state: SessionState, number: int) -> None:
        """The present session's state is another; a former one's does not matter."""
        if number == self._count and self._session is not None:
            self._become(state)

    # --------------------------------------------------------------------------------------------

    async def _open(self) -> None:
        self._previous_id = self.session_id
        self._count += 1
        self._session = session = _Session(
            self, self.hosts, self._session_timeout_ms, self._count, self._line
        )
        try:
            await session.connect()
        except KeeperUnreachable:
            self._session = None
            raise
        while self._state is not SessionState.CONNECTED:  # the post is on its way
            await self._change()

    async def _make_root(self) -> None:
        parts = self._root.split("/")[1:]
        root, self._root = self._root, ""
        for depth in range(1, len(parts) + 1):
            try:
                await self.create("/" + "/".join(parts[:depth]))
            except NodeExists:
                continue
        self._root = root

    async def _read_one(self, name: str, request: type, path: str, watch: Receiver | None) -> Any:
        check_path(path)
        full = self._full(path)
        is_children = request is serialization.GetChildren

        async def ask() -> Any:
            session = self._current()
            watcher = None if watch is None else session.on_watch

            def arm(_: Any) -> None:
                if watch is not None:
                    self._book.add(path, watch, children=is_children)

            watched = None if watch is None or is_children else full
            return await self._answer(session, request(full, watcher), path, arm, watched)

        return await self._request(name, path, 1, ask)

    async def _read_part(self, paths: Sequence[str]) -> list[ZNode | KeeperError]:
        async def ask() -> Any:
            return await self._answer(self._current(), MultiRead(paths), paths[0])

        first, count = self._bare(paths[0]), len(paths)
        answers: list[ZNode | KeeperError] = await self._request("read", first, count, ask)
        for answer in answers:
            if isinstance(answer, KeeperError):
                answer.path = self._bare(answer.path)
        return answers

    async def _ask_multi(self, operations: Sequence[Operation]) -> list[Written | KeeperError]:
        if self._root:
            operations = [op._replace(path=self._full(op.path)) for op in operations]
        request = Multi(operations)
        answers: list[Written | KeeperError] = await self._answer(
            self._current(), request, operations[0].path
        )
        if self._loses_reply:
            self._loses_reply = False
            raise ConnectionLost
        if self._root:
            for answer in answers:
                if isinstance(answer, KeeperError):
                    answer.path = self._bare(answer.path)
            answers = [
                a._replace(path=self._bare(a.path)) if isinstance(a, Written) else a
                for a in answers
            ]
        return answers

    async def _answer(
        self,
        session: _Session,
        request: Any,
        path: str,
        arm: Arm | None = None,
        watched: str | None = None,
    ) -> Any:
        try:
            return await session.ask(request, arm, watched)
        except ConnectionLoss:
            raise ConnectionLost from None
        except (SessionExpiredError, ConnectionClosedError, AuthFailedError) as error:
            raise KeeperSessionLost(path, type(error).__name__) from None
        except BadArgumentsError:
            raise error_of(-8, path) from None
        except ZookeeperError as error:
            raise error_of(error.code, self._bare(path)) from None
        except KazooException as error:
            raise KeeperError(path, repr(error)) from error

    def _current(self) -> _Session:
        if self._session is None:
            raise KeeperSessionLost(detail="the keeper was closed")
        return self._session

    def _full(self, path: str) -> str:
        if not self._root:
            return path
        return self._root if path == "/" else self._root + path

    def _bare(self, path: str) -> str:
        return path.removeprefix(self._root) or "/" if self._root else path


def _parts(paths: Sequence[str]) -> list[Sequence[str]]:
    step = WATCHES_A_REQUEST
    return [paths[start : start + step] for start in range(0, len(paths), step)]
