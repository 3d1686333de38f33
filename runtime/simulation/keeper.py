"""A node's session with the simulated ZooKeeper.

Rule: replies and watch events of a session leave the server in one order, so an event comes before
any reply that shows what it tells of.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

from runtime.keeper import (
    Change,
    KeeperError,
    KeeperSessionLost,
    KeeperUnreachable,
    MultiFailed,
    Operation,
    RolledBack,
    SessionState,
    Stat,
    Written,
    ZNode,
    check_path,
)
from runtime.ref import Receiver
from runtime.session import ConnectionLost, SessionKeeper
from runtime.simulation.zookeeper import Session, SimulatedZooKeeper, cancel
from runtime.tracing import NodeTrace
from wire.trace import WatchFired

RECONNECT_MS: Final = 20
START_TIMEOUT_MS: Final = 15_000


class SimulatedKeeper(SessionKeeper):
    """A node's client of the simulated server."""

    def __init__(self, node: str, server: SimulatedZooKeeper, trace: NodeTrace) -> None:
        super().__init__(trace)
        self.node = node
        self.is_gone = False  # killed or closed
        self._server = server
        self._existed: dict[str, bool] = {}  # watched path → whether a znode was there
        self._session: Session | None = None
        self._connection = 0  # what belongs to an older one is void
        self._last_zxid = 0
        self._pending: dict[int, asyncio.Future[Any]] = {}
        self._next_request = 0
        self._stalls: set[str] = set()
        self._suspicion: asyncio.TimerHandle | None = None
        self._held: list[Callable[[], None]] = []  # what is under way while nothing passes
        self._times = [0.0, 0.0]  # when the last thing arrives at the server, at the client

    # --- session --------------------------------------------------------------------------------

    @property
    def session_id(self) -> int:
        """The server's id of the present session."""
        return 0 if self._session is None else self._session.id

    @property
    def is_stalled(self) -> bool:
        """Whether nothing passes to or from the server."""
        return bool(self._stalls)

    async def start(self) -> None:
        """Open the first session, or raise KeeperUnreachable."""
        self._server.join(self)
        await self._open()

    async def renew(self) -> None:
        """Open another session after one was lost."""
        assert self._state is not SessionState.CONNECTED, "the session is alive"
        await self._open()

    async def close(self) -> None:
        """End the session: its ephemeral znodes go at once."""
        session = self._session
        if self.is_gone or session is None:
            return
        if self._state is SessionState.CONNECTED and not self._stalls:
            await asyncio.sleep(self._server.delay())
            self._server.close(session)
        self._go()
        self._become(SessionState.CLOSED)
        self._server.miss(session)

    def abandon(self) -> None:
        """Fall silent, as a killed process does."""
        if not self.is_gone and self._session is not None:
            self._go()
            self._state = SessionState.CLOSED
            self._server.miss(self._session)

    def pause(self) -> None:
        """The process stands still, and so do its pings."""
        self.stall("paused")

    def resume(self) -> None:
        """The process goes on."""
        self.unstall("paused")

    # --- requests -------------------------------------------------------------------------------

    async def get(self, path: str, *, watch: Receiver | None = None) -> ZNode:
        """Read a znode; the watch is set only if there is one."""
        check_path(path)
        tree = self._server.tree

        def work(session: Session) -> ZNode:
            znode = tree.get(path)
            if watch is not None:
                self._server.watch(session, path, children=False)
            return znode

        def arm(answer: Any) -> None:
            if watch is not None and isinstance(answer, ZNode):
                self._existed[path] = True
                self._book.add(path, watch, children=False)

        answer: ZNode = await self._request("get", path, 1, lambda: self._ask(work, arm))
        return answer

    async def exists(self, path: str, *, watch: Receiver | None = None) -> Stat | None:
        """The stat, or None; the watch is set either way."""
        check_path(path)
        tree = self._server.tree

        def work(session: Session) -> Stat | None:
            if watch is not None:
                self._server.watch(session, path, children=False)
            return tree.stat(path)

        def arm(answer: Any) -> None:
            if watch is not None and not isinstance(answer, KeeperError):
                self._existed[path] = answer is not None
                self._book.add(path, watch, children=False)

        answer: Stat | None = await self._request("exists", path, 1, lambda: self._ask(work, arm))
        return answer

    async def children(self, path: str, *, watch: Receiver | None = None) -> tuple[str, ...]:
        """The names below a path, sorted."""
        check_path(path)
        tree = self._server.tree

        def work(session: Session) -> tuple[str, ...]:
            names = tree.children(path)
            if watch is not None:
                self._server.watch(session, path, children=True)
            return names

        def arm(answer: Any) -> None:
            if watch is not None and not isinstance(answer, KeeperError):
                self._book.add(path, watch, children=True)

        answer: tuple[str, ...] = await self._request(
            "children", path, 1, lambda: self._ask(work, arm)
        )
        return answer

    async def read(self, paths: Sequence[str]) -> list[ZNode | KeeperError]:
        """Many znodes, in the order of the paths."""
        for path in paths:
            check_path(path)
        tree = self._server.tree

        def one(path: str) -> ZNode | KeeperError:
            try:
                return tree.get(path)
            except KeeperError as error:
                return error

        if not paths:
            return []
        answers: list[ZNode | KeeperError] = await self._request(
            "read", paths[0], len(paths), lambda: self._ask(lambda _: [one(path) for path in paths])
        )
        return answers

    # --- what the server and the simulator call ---------------------------------------------------

    def fire(self, change: Change, path: str) -> None:
        """A watch event is on its way to this client."""
        session = self._count

        def deliver() -> None:
            self._existed.pop(path, None)
            if session == self._count and self._book.fire(change, path, session):
                self._trace(WatchFired(path, change.value, session))

        self._travel(1, lambda: self.watch_tamper.pass_on(path, deliver))

    def break_connection(self) -> None:
        """The connection is gone; reconnect in a while."""
        if self.is_gone or self._state is not SessionState.CONNECTED:
            return
        self._connection += 1
        self._held.clear()
        cancel(self._suspicion)
        self._suspicion = None
        assert self._session is not None
        self._session.watched.clear()  # a server keeps watches by connection
        self._become(SessionState.SUSPENDED)
        self._fail_pending(ConnectionLost())
        if self._stalls:
            self._server.miss(self._session)
        self._reconnect_later()

    def stall(self, why: str) -> None:
        """Nothing passes from now on."""
        if self.is_gone:
            return
        first = not self._stalls
        self._stalls.add(why)
        if first and self._session is not None and self._state is not SessionState.EXPIRED:
            self._server.miss(self._session)
            if self._state is SessionState.CONNECTED:
                delay = self._server.session_timeout_ms * 2 / 3000
                self._suspicion = _loop().call_later(delay, self._suspect)

    def unstall(self, why: str) -> None:
        """What stood still moves again, unless there is another reason for it to stand still."""
        if why not in self._stalls:
            return
        self._stalls.discard(why)
        if self._stalls or self._session is None:
            return
        cancel(self._suspicion)
        self._suspicion = None
        if self._state is SessionState.CONNECTED:
            if self._session.is_alive:
                self._server.hear(self._session)
                held, self._held = self._held, []
                for step in held:
                    step()
            else:
                self.break_connection()  # the server closed it long ago

    # --------------------------------------------------------------------------------------------

    async def _open(self) -> None:
        deadline = _loop().time() + START_TIMEOUT_MS / 1000
        while self._stalls:
            if _loop().time() >= deadline:
                raise KeeperUnreachable(detail=f"no answer within {START_TIMEOUT_MS} ms")
            await asyncio.sleep(RECONNECT_MS / 1000)
        await asyncio.sleep(self._server.delay())
        if self.is_gone:
            raise KeeperSessionLost(detail="the keeper was closed")
        self._previous_id = self.session_id
        self._session = self._server.open(self)
        self._count += 1
        self._connection += 1
        self._book.clear()
        self._existed.clear()
        self._become(SessionState.CONNECTED)
        if self._stalls:  # a fault came while the session was being opened
            stalls, self._stalls = self._stalls, set()
            for why in sorted(stalls):
                self.stall(why)

    async def _ask_multi(self, operations: Sequence[Operation]) -> list[Written | KeeperError]:
        try:
            done: list[Written | KeeperError] = await self._ask(
                lambda session: self._server.commit(session, operations), is_write=True
            )
        except MultiFailed as failure:
            rolled_back: list[Written | KeeperError] = [RolledBack(op.path) for op in operations]
            rolled_back[failure.index] = failure.error
            return rolled_back
        return done

    async def _ask(
        self,
        work: Callable[[Session], Any],
        arm: Callable[[Any], None] | None = None,
        *,
        is_write: bool = False,
    ) -> Any:
        number = self._next_request = self._next_request + 1
        answer: asyncio.Future[Any] = _loop().create_future()
        self._pending[number] = answer
        session = self._session
        assert session is not None

        def receive(result: Any, zxid: int) -> None:
            self._last_zxid = max(self._last_zxid, zxid)
            if arm is not None:
                arm(result)
            if not answer.done():
                answer.set_result(result)

        def process() -> None:
            result = self._server.process(session, lambda: work(session))
            zxid = self._server.tree.zxid
            if is_write and self._server.loses_reply(self.node):
                self.break_connection()
            else:
                self._travel(1, lambda: receive(result, zxid))

        self._travel(0, process)
        try:
            result = await answer
        finally:
            self._pending.pop(number, None)
        if isinstance(result, KeeperError):
            raise result
        return result

    def _travel(self, direction: int, arrive: Callable[[], None]) -> None:
        """Let something arrive in its order, if the connection lasts; held while stalled."""
        connection = self._connection

        def step() -> None:
            if connection != self._connection or self.is_gone:
                return
            if self._stalls:
                self._held.append(step)
            else:
                arrive()

        when = max(_loop().time() + self._server.delay(), self._times[direction])
        self._times[direction] = when
        _loop().call_at(when, step)

    def _suspect(self) -> None:
        self._suspicion = None
        if self._stalls == {"paused"}:
            return  # a process that stands still suspects nothing; it will see when it resumes
        self.break_connection()

    def _reconnect_later(self) -> None:
        _loop().call_later(RECONNECT_MS / 1000 + self._server.delay(), self._reconnect)

    def _reconnect(self) -> None:
        session = self._session
        if self.is_gone or self._state is not SessionState.SUSPENDED or session is None:
            return
        if self._stalls:
            self._reconnect_later()
        elif not session.is_alive:
            self._book.clear()
            self._existed.clear()
            self._become(SessionState.EXPIRED)
        else:
            self._server.hear(session)
            self._connection += 1
            children = self._book.children_paths()
            data = {path: self._existed.get(path, True) for path in self._book.data_paths()}
            self._server.watch_again(session, self._last_zxid, data, children)
            self._become(SessionState.CONNECTED)

    def _fail_pending(self, error: Exception) -> None:
        for answer in self._pending.values():
            if not answer.done():
                answer.set_exception(error)

    def _go(self) -> None:
        self.is_gone = True
        self._connection += 1
        self._held.clear()
        cancel(self._suspicion)
        self._server.leave(self)
        self._fail_pending(KeeperSessionLost(detail="the keeper was closed"))
        changed, self._changed = self._changed, None
        if changed is not None:
            changed.set_result(None)  # whoever waited finds the session closed


def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()
