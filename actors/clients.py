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
