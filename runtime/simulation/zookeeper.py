"""A ZooKeeper server in virtual time, and the faults that can be asked of it.

Rule: it answers as the real server does; one conformance suite runs against both. Pings are not
simulated: a connection that stands still (its node paused, its link cut, the server down) is
noticed by the client after two thirds of the session time-out and by the server after all of it,
which is what missing pings amount to.
"""

import asyncio
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Protocol

from runtime.keeper import Change, Delete, KeeperError, KeeperSessionLost, Operation, Written
from runtime.simulation.tree import Tree

Work = Callable[[], Any]


class Client(Protocol):
    """What the server needs of a client."""

    node: str
    is_gone: bool  # killed or closed

    @property
    def is_stalled(self) -> bool:
        """Whether nothing passes to or from the server."""

    def fire(self, change: Change, path: str) -> None:
        """A watch event is on its way to this client."""

    def break_connection(self) -> None:
        """The connection is gone; reconnect in a while."""

    def stall(self, why: str) -> None:
        """Nothing passes from now on."""

    def unstall(self, why: str) -> None:
        """What stood still moves again, unless there is another reason for it to stand still."""


class Session:
    """What the server knows of a client."""

    def __init__(self, number: int, client: Client) -> None:
        self.id = number
        self.client = client
        self.is_alive = True
        self.watched: dict[tuple[bool, str], None] = {}  # (children?, path)
        self.expiry: asyncio.TimerHandle | None = None


class SimulatedZooKeeper:
    """The server, and the faults that can be asked of it."""

    def __init__(
        self, random: Random, *, session_timeout_ms: float = 6_000, max_delay_ms: float = 0.5
    ) -> None:
        self.tree = Tree()
        self.session_timeout_ms = session_timeout_ms
        self.is_up = True
        self._random = random
        self._max_delay_ms = max_delay_ms
        self._sessions: dict[int, Session] = {}
        self._next_session = 0x1000000
        self._clients: list[Client] = []
        self._lose_reply: set[str] = set()
        self._lingering: dict[str, float] = {}
        self.on_commit: list[Callable[[str, Sequence[Operation]], None]] = []

    # --- faults -------------------------------------------------------------------------------

    def expire(self, node: str) -> None:
        """End a node's session although its process lives, as a long pause would."""
        for session in tuple(self._sessions.values()):
            if session.client.node == node:
                session.client.break_connection()
                self._end(session)

    def lose_reply(self, node: str) -> None:
        """Apply the node's next write, then break its connection instead of answering."""
        self._lose_reply.add(node)

    def linger(self, node: str, delay_ms: float) -> None:
        """Be so slow to remove what the node's next session that ends has left; 0: be not."""
        self._lingering.pop(node, None)
        if delay_ms:
            self._lingering[node] = delay_ms

    def disconnect(self, node: str) -> None:
        """Break a node's connection; it comes back by itself."""
        for client in self._of(node):
            client.break_connection()

    def cut(self, node: str) -> None:
        """Nothing passes between the node and the server until healed."""
        for client in self._of(node):
            client.stall("cut")

    def heal(self, node: str | None = None) -> None:
        """Mend the link of a node, or of all."""
        for client in tuple(self._clients):
            if node in {None, client.node}:
                client.unstall("cut")

    def stop(self) -> None:
        """The server is down; what it has written stays."""
        self.is_up = False
        for client in tuple(self._clients):
            client.stall("down")
        for session in self._sessions.values():
            cancel(session.expiry)  # nobody is there to expire it
            session.expiry = None

    def start(self) -> None:
        """The server is back, and gives each session its whole time-out again."""
        self.is_up = True
        for client in tuple(self._clients):
            client.unstall("down")
        for session in tuple(self._sessions.values()):
            if session.client.is_stalled or session.client.is_gone:
                self.miss(session)

    # --- what clients call ---------------------------------------------------------------------

    def join(self, client: Client) -> None:
        """A client exists from now on."""
        self._clients.append(client)
        if not self.is_up:
            client.stall("down")

    def leave(self, client: Client) -> None:
        """A client is gone; its session is not, unless it was closed."""
        self._clients.remove(client)

    def open(self, client: Client) -> Session:
        """Begin a session."""
        self._next_session += 1
        session = self._sessions[self._next_session] = Session(self._next_session, client)
        self.tree.zxid += 1
        return session

    def close(self, session: Session) -> None:
        """End a session at its client's wish."""
        self._end(session)

    def miss(self, session: Session) -> None:
        """No ping comes from now on: the session ends when its time is up."""
        if session.is_alive and session.expiry is None and self.is_up:
            delay = self.session_timeout_ms / 1000
            session.expiry = asyncio.get_running_loop().call_later(delay, self._end, session)

    def hear(self, session: Session) -> None:
        """Pings come again."""
        cancel(session.expiry)
        session.expiry = None

    def delay(self) -> float:
        """Seconds that something takes on its way, by the dice."""
        return self._random.uniform(0.1, self._max_delay_ms) / 1000

    def process(self, session: Session, work: Work) -> Any:
        """Do a client's work, and answer its result or the error that it raised."""
        if not session.is_alive:
            return KeeperSessionLost()
        try:
            return work()
        except KeeperError as error:
            return error

    def commit(self, session: Session, operations: Sequence[Operation]) -> list[Written]:
        """A transaction, and the watches it fires."""
        now_ms = round(asyncio.get_running_loop().time() * 1000)
        written, changes = self.tree.commit(operations, session.id, now_ms)
        for listener in self.on_commit:
            listener(session.client.node, operations)
        self._fire(changes)
        return written

    def watch(self, session: Session, path: str, *, children: bool) -> None:
        """Set a one-shot watch."""
        session.watched[children, path] = None

    def watch_again(
        self, session: Session, since: int, data: dict[str, bool], children: Sequence[str]
    ) -> None:
        """As setWatches: after a reconnection, set what still holds and fire what was missed.

        `data` says for each path whether there was a znode when the watch was set.
        """
        for path, existed in data.items():
            stat = self.tree.stat(path)
            if stat is None and existed:
                session.client.fire(Change.DELETED, path)
            elif stat is not None and not existed:
                session.client.fire(Change.CREATED, path)
            elif stat is not None and stat.mzxid > since:
                session.client.fire(Change.CHANGED, path)
            else:
                self.watch(session, path, children=False)
        for path in children:
            stat = self.tree.stat(path)
            if stat is None:
                session.client.fire(Change.DELETED, path)
            elif stat.pzxid > since:
                session.client.fire(Change.CHILDREN, path)
            else:
                self.watch(session, path, children=True)

    def loses_reply(self, node: str) -> bool:
        """Whether the reply to this write is to be lost."""
        if node in self._lose_reply:
            self._lose_reply.discard(node)
            return True
        return False

    # --------------------------------------------------------------------------------------------

    def _end(self, session: Session) -> None:
        if not session.is_alive:
            return
        session.is_alive = False
        cancel(session.expiry)
        self._sessions.pop(session.id, None)
        delay_ms = self._lingering.pop(session.client.node, 0)
        if delay_ms:
            self.tree.zxid += 1
            loop = asyncio.get_running_loop()
            loop.call_later(delay_ms / 1000, self._remove_ephemerals, session)
        elif not self._remove_ephemerals(session):
            self.tree.zxid += 1

    def _remove_ephemerals(self, session: Session) -> bool:
        ephemerals = self.tree.ephemerals_of(session.id)
        if ephemerals:
            self.commit(session, [Delete(path) for path in ephemerals])
        return bool(ephemerals)

    def _fire(self, changes: Sequence[tuple[Change, str]]) -> None:
        for change, path in changes:
            for session in tuple(self._sessions.values()):
                data = children = False
                if change is not Change.CHILDREN:
                    data = session.watched.pop((False, path), True) is None
                if change in {Change.CHILDREN, Change.DELETED}:
                    children = session.watched.pop((True, path), True) is None
                if data or children:
                    session.client.fire(change, path)

    def _of(self, node: str) -> list[Client]:
        return [client for client in self._clients if client.node == node]


def cancel(timer: asyncio.TimerHandle | None) -> None:
    """Cancel a timer, if there is one."""
    if timer is not None:
        timer.cancel()
