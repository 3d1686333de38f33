"""What the real and the simulated keeper do alike: ask, ask again, and tell of the session.

Rule: a request whose connection is lost is sent again when there is one; a request whose session is
lost fails. Nothing else is retried.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from runtime.bulk import all_of, write_in_bulk
from runtime.keeper import (
    ANY_VERSION,
    Check,
    Create,
    Delete,
    KeeperError,
    KeeperSessionLost,
    MultiFailed,
    Operation,
    RolledBack,
    SessionEvent,
    SessionState,
    Set,
    Stat,
    Written,
    ZNode,
    check_operation,
)
from runtime.ref import Receiver
from runtime.tampering import WatchTamper
from runtime.tracing import NodeTrace
from runtime.watches import WatchBook
from wire.trace import KeeperOperation, SessionChanged


class ConnectionLost(Exception):
    """No answer will come over this connection; the request may have been applied (B021)."""


class SessionKeeper(ABC):
    """A session's state, its watches, and requests that outlive a connection."""

    def __init__(self, trace: NodeTrace) -> None:
        self._trace = trace
        self._book = WatchBook()
        self._listeners: list[Receiver] = []
        self._count = 0
        self._previous_id = 0
        self._state = SessionState.CLOSED
        self._changed: asyncio.Future[None] | None = None
        self.watch_tamper = WatchTamper()

    @property
    def session(self) -> int:
        """How many sessions this keeper has had."""
        return self._count

    @property
    @abstractmethod
    def session_id(self) -> int:
        """The server's id of the present session."""

    @property
    def previous_session_id(self) -> int:
        """The id of the session before."""
        return self._previous_id

    @property
    def state(self) -> SessionState:
        """The present session's state."""
        return self._state

    def listen(self, receiver: Receiver) -> None:
        """Tell the receiver each SessionEvent from now on."""
        self._listeners.append(receiver)

    @abstractmethod
    async def get(self, path: str, *, watch: Receiver | None = None) -> ZNode:
        """Read a znode; the watch is set only if there is one."""

    async def read_watched(
        self, paths: Sequence[str], watch: Receiver
    ) -> list[ZNode | KeeperError]:
        """Sent together but not in bulk: ZooKeeper's multi-read sets no watches."""

        async def one(path: str) -> ZNode | KeeperError:
            try:
                return await self.get(path, watch=watch)
            except KeeperSessionLost:
                raise
            except KeeperError as error:
                return error

        return await all_of([one(path) for path in paths])

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> Written:
        """Make a znode."""
        return await self._write("create", Create(path, data, ephemeral, sequential))

    async def set(self, path: str, data: bytes, *, version: int = ANY_VERSION) -> Stat:
        """Replace a znode's data."""
        stat = (await self._write("set", Set(path, data, version))).stat
        assert stat is not None, "a set answers a stat"
        return stat

    async def delete(self, path: str, *, version: int = ANY_VERSION) -> None:
        """Remove a znode."""
        await self._write("delete", Delete(path, version))

    async def multi(self, operations: Sequence[Operation]) -> list[Written]:
        """All of it or, with MultiFailed, nothing of it."""
        for operation in operations:
            check_operation(operation)
        return await self._transact("multi", operations)

    async def write(
        self, operations: Sequence[Operation], *, check: Check | None = None
    ) -> list[Written | KeeperError]:
        """Many writes, in order, each with a result of its own."""
        for operation in operations:
            check_operation(operation)

        async def multi(batch: Sequence[Operation]) -> list[Written]:
            return await self._transact("write", batch)

        return await write_in_bulk(multi, operations, check)

    # --- what subclasses write ---------------------------------------------------------------

    @abstractmethod
    async def _ask_multi(self, operations: Sequence[Operation]) -> list[Written | KeeperError]:
        """Send a transaction; if one of its results is an error, nothing was changed."""

    # --- what subclasses use -----------------------------------------------------------------

    async def _request(
        self, name: str, path: str, count: int, ask: Callable[[], Awaitable[Any]]
    ) -> Any:
        """Ask until there is an answer, and leave a trace of it."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        outcome = "cancelled"
        try:
            if self.watch_tamper.refusals and self.watch_tamper.refuses(path):
                raise KeeperError(path, "it was refused on purpose")
            answer = await self._ask_until_answered(ask)
            outcome = "ok"
            return answer
        except KeeperError as error:
            outcome = type(error).__name__
            raise
        finally:
            took_us = round((loop.time() - begun) * 1e6)
            self._trace(KeeperOperation(name, path, count, took_us, outcome))

    def _become(self, state: SessionState) -> None:
        self._state = state
        if state in {SessionState.EXPIRED, SessionState.CLOSED}:
            self._book.clear()
        self._trace(SessionChanged(state.value, self._count))
        for listener in self._listeners:
            listener.tell(SessionEvent(state, self._count))
        changed, self._changed = self._changed, None
        if changed is not None:
            changed.set_result(None)

    async def _change(self) -> None:
        """Wait until the session's state is another."""
        if self._changed is None:
            self._changed = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._changed)

    # --------------------------------------------------------------------------------------------

    async def _write(self, name: str, operation: Operation) -> Written:
        check_operation(operation)
        try:
            return (await self._transact(name, [operation]))[0]
        except MultiFailed as failure:
            raise failure.error from None

    async def _transact(self, name: str, operations: Sequence[Operation]) -> list[Written]:
        if not operations:
            return []

        async def ask() -> list[Written]:
            return _whole(await self._ask_multi(operations))

        done: list[Written] = await self._request(name, operations[0].path, len(operations), ask)
        return done

    async def _ask_until_answered(self, ask: Callable[[], Awaitable[Any]]) -> Any:
        count = self._count
        while True:
            if self._state in {SessionState.EXPIRED, SessionState.CLOSED} or count != self._count:
                raise KeeperSessionLost(detail=f"session {count} is over")
            if self._state is SessionState.SUSPENDED:
                await self._change()
                continue
            try:
                return await ask()
            except ConnectionLost:
                continue  # B021: asked again once there is a connection


def _whole(answers: list[Written | KeeperError]) -> list[Written]:
    """All results of a transaction, or the error that undid it."""
    written: list[Written] = []
    for index, answer in enumerate(answers):
        if isinstance(answer, Written):
            written.append(answer)
        elif not isinstance(answer, RolledBack):
            raise MultiFailed(index, answer)
    if len(written) != len(answers):
        raise KeeperError(detail="a transaction was rolled back and no operation says why")
    return written
