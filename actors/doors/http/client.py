"""The live page's API, for commands.

Rule: a refusal is a sentence, whoever refuses: the cluster, the network, or a door that is not the
page's.
"""

from types import TracebackType
from typing import Any, Final, Self

import aiohttp
import msgspec

from actors.remote import addresses_in

TIMEOUT_S: Final = 90.0  # longer than the page lets anything take
MOST_BYTES: Final = 16 << 20


class PageRefused(Exception):
    """It was not done; the sentence says why."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class Page:
    """`async with Page("127.0.0.1:8080", token=None) as page`."""

    def __init__(self, address: str, *, token: str | None) -> None:
        self.address = addresses_in(address)[0]
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
        self._session = aiohttp.ClientSession(
            f"http://{self.address}", headers=self._headers, timeout=timeout
        )
        return self

    async def __aexit__(
        self,
        _: type[BaseException] | None,
        __: BaseException | None,
        ___: TracebackType | None,
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        """What it answers, decoded; raise PageRefused."""
        assert self._session is not None, "it was entered"
        data = None if body is None else msgspec.json.encode(body)
        headers = {} if data is None else {"Content-Type": "application/json"}
        try:
            async with self._session.request(method, path, data=data, headers=headers) as answer:
                raw = await answer.content.read(MOST_BYTES)
                status = answer.status
        except TimeoutError:
            raise PageRefused(0, f"{self.address} did not answer in time") from None
        except aiohttp.ClientError as error:
            raise PageRefused(0, f"nobody answers at {self.address}: {error}") from None
        return self._read(status, raw)

    def _read(self, status: int, raw: bytes) -> Any:
        try:
            content = msgspec.json.decode(raw) if raw else None
        except msgspec.DecodeError:
            content = None
        if content is None:
            raise PageRefused(
                status,
                f"{self.address} is no live page of a cluster: faults are asked of the page whose "
                "address bin/run-cluster prints",
            )
        if status >= 400:  # noqa: PLR2004 - HTTP's own
            message = content.get("message") if isinstance(content, dict) else None
            raise PageRefused(status, str(message or f"it answered {status}"))
        return content
