"""A node's link to ZooKeeper, and what may be done to it on purpose.

Rule: kazoo's thread waits in `select` and nowhere else, so that is where a node stands still, and
where a cut link is silent. A session that ends is let go, whatever is wrong with its link.
"""

import errno
import threading
from collections.abc import Sequence
from typing import Any

from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler

from runtime.keeper import KeeperUnreachable


class Line:
    """The link to the server, as faults on purpose leave it; shared with kazoo's thread."""

    def __init__(self) -> None:
        self.goes_on = threading.Event()  # cleared: the thread stands still, as a paused process's
        self.goes_on.set()
        self.is_cut = False  # nothing comes or goes; kazoo notices by itself
        self.mended = threading.Event()


class Handler(SequentialThreadingHandler):  # type: ignore[misc]
    """No threads but the connection's own: callbacks run on it, in the order of the socket."""

    def __init__(self, line: Line) -> None:
        super().__init__()
        self._line = line
        self._is_released = False

    def release(self) -> None:
        """The session ends, whatever is wrong with the link."""
        self._is_released = True
        self._line.goes_on.set()
        self._line.mended.set()

    def select(self, *args: Any, **options: Any) -> Any:
        """Wait for the socket as kazoo asks, unless the node is paused or its link is cut."""
        ready = self._nothing(args) if self._is_cut else super().select(*args, **options)
        if not self._is_released:
            self._line.goes_on.wait()
        return ([], [], []) if self._is_cut else ready

    def create_connection(self, *args: Any, **options: Any) -> Any:
        """Connect, unless the link is cut."""
        if self._is_cut:
            raise OSError(errno.EHOSTUNREACH, "the link to ZooKeeper is cut")
        return super().create_connection(*args, **options)

    @property
    def _is_cut(self) -> bool:
        return self._line.is_cut and not self._is_released

    def _nothing(self, args: Sequence[Any]) -> Any:
        self._line.mended.wait(args[-1])
        return ([], [], [])

    def start(self) -> None:
        self._running = True

    def stop(self) -> None:
        self._running = False

    def dispatch_callback(self, callback: Any) -> None:
        callback.func(*callback.args)


def close_session(hosts: str, client_id: tuple[int, bytes], timeout_s: float) -> None:
    """End somebody's session: whoever knows its id and password may."""
    other = KazooClient(hosts=hosts, client_id=client_id, timeout=timeout_s)
    try:
        other.start(timeout=timeout_s)
        other.stop()
    except KazooTimeoutError:
        raise KeeperUnreachable("nobody is there who could end it") from None
    finally:
        other.close()


class Ignored:
    """The answer to a request that nobody waits for."""

    def set(self, value: Any = None) -> None:
        """Done."""

    def set_exception(self, error: Exception) -> None:
        """The connection broke again: the watches are still kazoo's and go into the next try."""
