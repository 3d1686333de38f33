"""Whoever gives out clients of a cluster.

Rule: what people do with a cluster is written against this, so it works on one in this process, on
one in other processes, and on one that somebody else has started.
"""

from typing import Any, Protocol

from actors.client.admin import Admin
from actors.client.consumer import Consumer
from actors.client.producer import Producer


class Clients(Protocol):
    """A cluster, as its users have it."""

    def admin(self) -> Admin:
        """An administrator's client."""

    def producer(self, **options: Any) -> Producer:
        """A client that sends records; options are those of ProducerConfig."""

    def consumer(self, **options: Any) -> Consumer:
        """A client that reads records; options are those of ConsumerConfig."""


class SharedAdmin:
    """Clients whose administrator is one and the same: each has a place on the network."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._admin: Admin | None = None

    def admin(self) -> Admin:
        """The administrator."""
        if self._admin is None:
            self._admin = self._clients.admin()
        return self._admin

    def producer(self, **options: Any) -> Producer:
        """A client that sends records."""
        return self._clients.producer(**options)

    def consumer(self, **options: Any) -> Consumer:
        """A client that reads records."""
        return self._clients.consumer(**options)

    def close(self) -> None:
        """Let the administrator go."""
        if self._admin is not None:
            self._admin.close()
            self._admin = None
