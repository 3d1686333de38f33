"""A receiver for tests: what it was told, and a way to wait for more."""

import asyncio


class Mailbox:
    def __init__(self) -> None:
        self.messages = []
        self._queue = asyncio.Queue()

    def tell(self, message) -> None:
        self.messages.append(message)
        self._queue.put_nowait(message)

    async def next(self, timeout_s: float = 20):
        async with asyncio.timeout(timeout_s):
            return await self._queue.get()

    async def until(self, wanted, timeout_s: float = 20):
        async with asyncio.timeout(timeout_s):
            while (message := await self._queue.get()) != wanted:
                pass
        return message
