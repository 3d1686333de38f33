"""Whether ZooKeeper was stopped on purpose.

Rule: it is stopped once and started once: a second server would have no port.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from actors.faults.hand import FaultRefused


class ServerState:
    """Of a ZooKeeper that is ours."""

    def __init__(self) -> None:
        self.is_down = False
        self._is_changing = False

    @contextmanager
    def stopping(self) -> Iterator[None]:
        """What is done within stops it."""
        if self.is_down:
            raise FaultRefused("ZooKeeper is down already")
        with self._changing():
            yield
        self.is_down = True

    @contextmanager
    def starting(self) -> Iterator[None]:
        """What is done within starts it."""
        if not self.is_down:
            raise FaultRefused("ZooKeeper is up")
        with self._changing():
            yield
        self.is_down = False

    @contextmanager
    def _changing(self) -> Iterator[None]:
        if self._is_changing:
            raise FaultRefused("ZooKeeper is just being stopped or started: wait for that")
        self._is_changing = True
        try:
            yield
        finally:
            self._is_changing = False
