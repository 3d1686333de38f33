"""A real browser for tests: Chromium, found, or installed where that is ours to do.

A page that it opens is watched: what the console complains of, and every address that is asked for.
"""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from playwright.async_api import Browser, ConsoleMessage, Page, async_playwright

from runtime.java import Machine, alone_with_packages, apt_install

NAMES = ("chromium", "chromium-browser", "google-chrome")
PACKAGES = ("chromium", "chromium-browser")
LIMIT_MS = 30_000  # two cores may be busy with other tests


class BrowserMissing(Exception):
    """No Chromium. The text is one sentence for whoever has to install it."""


def find_chromium(machine: Machine | None = None) -> str:
    """The executable that $CHROMIUM names, or the first one on PATH."""
    environment = (machine or Machine()).environment
    named = environment.get("CHROMIUM")
    if named:
        if shutil.which(named):
            return named
        raise BrowserMissing(f"CHROMIUM is {named}, which cannot be run: name one that can.")
    for name in NAMES:
        found = shutil.which(name, path=environment.get("PATH", os.defpath))
        if found:
            return found
    raise BrowserMissing(
        "Chromium is missing: install chromium, or point CHROMIUM to one that is there."
    )


def ensure_chromium(machine: Machine | None = None) -> str:
    """Find Chromium, and install it first where that is ours to do: as root on Debian or Ubuntu."""
    machine = machine or Machine()
    try:
        return find_chromium(machine)
    except BrowserMissing:
        if machine.uid != 0 or not machine.is_debian() or "CHROMIUM" in machine.environment:
            raise
    with alone_with_packages(machine):
        try:
            return find_chromium(machine)  # whoever held the lock may have installed it
        except BrowserMissing:
            apt_install(PACKAGES, machine)
    return find_chromium(machine)


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
