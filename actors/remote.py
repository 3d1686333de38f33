"""A cluster that somebody else has started, by the address of one who knows it.

Rule: it gives clients and nothing else. Any broker will do to begin with, and so will the page.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, Self

from actors.client.admin import Admin
from actors.client.config import ConsumerConfig, ProducerConfig
from actors.client.consumer import Consumer
from actors.client.producer import Producer
from actors.config import options_of
from actors.names import node_name
from runtime.visitor import NobodyAnswers, Visitor
from runtime.world import Clock, Network

ADDRESS: Final = re.compile(r"(?:https?://)?((?:[\w.-]+|\[[0-9a-fA-F:.]+\]):([0-9]{1,5}))/?")
LAST_PORT: Final = 65_535
MOST_ADDRESSES: Final = 100


class ClusterUnreachable(Exception):
    """Nobody has answered as a cluster; the sentence says who was asked, and why not."""


class RemoteCluster:
    """`async with RemoteCluster("127.0.0.1:9092") as cluster`: its clients."""

    def __init__(self, bootstrap: str, *, token: str | None = None) -> None:
        self._visitor = Visitor(addresses_in(bootstrap), token=token)
        self._clients = 0

    async def __aenter__(self) -> Self:
        try:
            await self._visitor.start()
            if not self._visitor.nodes:
                raise NobodyAnswers("no broker is up")
        except NobodyAnswers as error:
            await self._visitor.close()
            raise ClusterUnreachable(f"no cluster was found: {error}") from None
        except BaseException:
            await self._visitor.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._visitor.close()

    @property
    def nodes(self) -> Mapping[str, str]:
        """Who is there, and where."""
        return self._visitor.nodes

    def admin(self) -> Admin:
        """An administrator's client of this cluster."""
        return Admin(*self.client("admin"), name_of=node_name)

    def producer(self, **options: Any) -> Producer:
        """A client that sends records; options are those of ProducerConfig."""
        config = ProducerConfig(**options_of(ProducerConfig, options))
        return Producer(*self.client("producer"), name_of=node_name, config=config)

    def consumer(self, **options: Any) -> Consumer:
        """A client that reads records; options are those of ConsumerConfig."""
        config = ConsumerConfig(**options_of(ConsumerConfig, options))
        return Consumer(*self.client("consumer"), name_of=node_name, config=config)

    def client(self, kind: str) -> tuple[Network, Clock, list[str]]:
        """A place on the network, and whom to ask first."""
        self._clients += 1
        network, clock = self._visitor.client(f"{kind}-{self._clients}")
        return network, clock, sorted(self._visitor.nodes)


def addresses_in(bootstrap: str) -> tuple[str, ...]:
    """The addresses of a list such as `host:port,host:port`; also those of pages, with http://."""
    found = []
    for part in bootstrap.split(","):
        match = ADDRESS.fullmatch(part.strip())
        if match is None or not 1 <= int(match[2]) <= LAST_PORT:
            raise ClusterUnreachable(f"{part.strip()!r:.100} is no HOST:PORT of a broker or a page")
        found.append(match[1])
    if len(found) > MOST_ADDRESSES:
        raise ClusterUnreachable(f"{len(found)} addresses were given; {MOST_ADDRESSES} are enough")
    return tuple(found)
