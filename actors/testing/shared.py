"""One real ZooKeeper for all tests of a process.

Rule: each cluster has a root of its own in it, so none sees another; the server starts when the
first test asks for it, and ends with the tests.
"""

from itertools import count

from runtime.blocking import LoopThread
from runtime.embedded import EmbeddedZooKeeper


class SharedZooKeeper:
    """A server that outlives the loops of tests."""

    def __init__(self) -> None:
        self._thread = LoopThread("the shared ZooKeeper")
        self._server = EmbeddedZooKeeper()
        self._roots = count(1)
        try:
            self._thread.run(self._server.start())
        except BaseException:
            self.close()
            raise

    def root(self) -> str:
        """Where a new cluster may live, as a connection string."""
        return f"{self._server.hosts}/test-{next(self._roots)}"

    def close(self) -> None:
        """Stop the server."""
        self._thread.run(self._server.close())
        self._thread.close()
