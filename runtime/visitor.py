"""A process that is no node: it calls on others' doors, and listens nowhere.

Rule: it knows some addresses to begin with. Whoever answers there says which nodes there are and
where, and is asked again whenever a connection is to be opened: nodes move, and come back.
"""

import asyncio
import errno
import os
import random
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

import aiohttp

from runtime.clock import FIRST_CORRELATION_BITS, RealClock, real_trace
from runtime.network import Endpoint, Network
from runtime.websocket import NODES_PATH, WebSocketTransport, bearer
from runtime.world import Clock

ASK_TIMEOUT_S: Final = 2
STRANGER: Final = "it is no broker, and no page of a cluster"
MOST_BYTES: Final = 1 << 20  # of a list of nodes


class NobodyAnswers(Exception):
    """None of the addresses has told which nodes there are; the sentence says why."""


class Visitor:
    """Clients of nodes in other processes."""

    def __init__(self, addresses: Sequence[str], *, token: str | None = None) -> None:
        self._addresses = tuple(addresses)
        self._token = token
        self._trace = real_trace(recording=False)
        self._suffix = secrets.token_hex(4)  # two visitors' clients must not have one name
        self._door = WebSocketTransport(self._resolve, self._trace.at("visitor"), token=token)
        self._session: aiohttp.ClientSession | None = None
        self.nodes: Mapping[str, str] = {}  # a node's name → host:port

    async def start(self) -> None:
        """Ask who is there, or raise NobodyAnswers."""
        timeout = aiohttp.ClientTimeout(total=ASK_TIMEOUT_S)
        self._session = aiohttp.ClientSession(timeout=timeout, headers=bearer(self._token))
        self._door.visit()
        await self.look()

    async def close(self) -> None:
        """Leave."""
        await self._door.close()
        if self._session is not None:
            await self._session.close()

    def client(self, name: str) -> tuple[Network, Clock]:
        """A place on the nodes' network."""
        unique = f"{name}-{self._suffix}"
        first = random.getrandbits(FIRST_CORRELATION_BITS)
        network = Endpoint(unique, self._door, self._trace.at(unique), first_correlation=first)
        return network, RealClock()

    async def look(self) -> None:
        """Ask one after the other, those given first, until one answers."""
        failures = []
        for address in dict.fromkeys((*self._addresses, *self.nodes.values())):
            try:
                self.nodes = await self._ask(address)
                return
            except (aiohttp.ClientError, OSError, ValueError) as error:
                failures.append(f"{address}: {_reason(error)}")
        raise NobodyAnswers("; ".join(failures[: len(self._addresses)]))

    async def _ask(self, address: str) -> Mapping[str, str]:
        assert self._session is not None, "start comes first"
        async with self._session.get(f"http://{address}{NODES_PATH}") as response:
            response.raise_for_status()
            if (response.content_length or 0) > MOST_BYTES:
                raise ValueError("its list of nodes is too long")
            nodes = await response.json()
        if not isinstance(nodes, dict) or not all(
            isinstance(each, str) for pair in nodes.items() for each in pair
        ):
            raise ValueError(STRANGER)
        return nodes

    async def _resolve(self, node: str) -> str | None:
        with suppress(NobodyAnswers):  # what was known may still be right
            await self.look()
        return self.nodes.get(node)


def _reason(error: Exception) -> str:
    match error:
        case aiohttp.ClientResponseError(status=401):
            return "it demands a token"
        case aiohttp.ClientResponseError():
            return STRANGER
        case aiohttp.ClientConnectorError():
            return os.strerror(error.os_error.errno or errno.ECONNREFUSED)
        case asyncio.TimeoutError():
            return f"no answer within {ASK_TIMEOUT_S} s"
    return str(error) or type(error).__name__
