"""A real browser for tests.

A page that it opens is watched: what the console complains of, and every address that is asked for.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from playwright.async_api import Browser, ConsoleMessage, Page, async_playwright

from tests.support.chromium import ensure_chromium

LIMIT_MS = 30_000  # two cores may be busy with other tests


@dataclass
class Watched:
    """A page, and what there is to be said against it."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    addresses: list[str] = field(default_factory=list)

    def watch(self) -> None:
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.addresses.append(request.url))
        self.page.on("websocket", lambda socket: self.addresses.append(socket.url))

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)


@asynccontextmanager
async def opened(browser: Browser, url: str, **look: object) -> AsyncIterator[Watched]:
    """A page in a profile of its own; `look` is what the browser tells it of the screen."""
    given = {"viewport": {"width": 1280, "height": 800}, "color_scheme": "light"} | look
    context = await browser.new_context(**given)
    context.set_default_timeout(LIMIT_MS)
    watched = Watched(await context.new_page())
    watched.watch()
    await watched.page.goto(url)
    yield watched
    await context.close()


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    """A browser of the test's own: it lives on the test's loop."""
    executable = ensure_chromium()
    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(
            executable_path=executable, args=["--no-sandbox"]
        )
        yield chromium
        await chromium.close()
