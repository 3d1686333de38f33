"""The live page on a real cluster: what is clicked happens, and what happens is seen."""

from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser, Locator, Page, expect

from actors.doors.http.server import HttpServer
from actors.source import NodeSource
from tests.support.browser import LIMIT_MS, opened
from tests.support.real_cluster import real_cluster

expect.set_options(timeout=LIMIT_MS)


@pytest.fixture
async def server(zookeeper) -> AsyncIterator[HttpServer]:
    """Three brokers and a topic that broker 2 leads, behind the HTTP server."""
    async with real_cluster(zookeeper, session_timeout_ms=2_000) as drive:
        await drive.admin.create_topic("orders", assignments={0: (2, 3, 1), 1: (1, 2, 3)})
        source = NodeSource(drive.cluster, zookeeper=drive.cluster.zookeeper)
        server = HttpServer(source, clock=drive.cluster.clock)
        await server.start()
        yield server
        await server.close()


def cells(page: Page, name: str) -> Locator:
    row = page.get_by_role("row").filter(has=page.locator(f".name[title='{name}']"))
    return row.get_by_role("gridcell").locator(".word")


def head(page: Page, broker: int) -> Locator:
    return page.get_by_role("columnheader", name=f"Broker {broker}")


async def test_a_broker_is_killed_by_its_button_and_its_leader_moves_on_the_screen(
    browser: Browser, server: HttpServer
):
    async with opened(browser, server.url) as watched:
        page = watched.page
        await expect(cells(page, "orders-0")).to_have_text(["in sync", "leader", "in sync"])

        await page.get_by_role("button", name="Kill broker 2").click()

        await expect(page.locator("#fault-status")).to_have_text("broker 2 is killed")
        await expect(head(page, 2)).to_contain_text("down")
        await expect(cells(page, "orders-0")).to_have_text(["in sync", "offline", "leader"])
        await expect(cells(page, "orders-1")).to_have_text(["leader", "offline", "in sync"])
        await expect(page.locator("#counters .value").nth(2)).to_have_text("2")
        texts = page.locator("#events .text")
        await expect(texts.filter(has_text="orders-0: broker 3 leads").first).to_be_visible()

        await page.get_by_role("button", name="Restart broker 2").click()

        await expect(head(page, 2)).to_contain_text("up")
        await expect(cells(page, "orders-0")).to_have_text(["in sync", "in sync", "leader"])
        await expect(page.locator("#counters .value").nth(2)).to_have_text("0")
        assert watched.complaints == []


async def test_a_paused_broker_and_a_cut_link_are_shown_and_healed(
    browser: Browser, server: HttpServer
):
    async with opened(browser, server.url) as watched:
        page = watched.page

        await page.get_by_role("button", name="Pause broker 3").click()
        await expect(head(page, 3)).to_contain_text("paused")
        await page.get_by_role("button", name="More faults for broker 1").click()
        await page.get_by_role("button", name="Cut the link from broker 1 to broker 2").click()
        await expect(page.locator("#cuts")).to_have_text("1 link cut: broker 1 ✂ broker 2")

        await page.get_by_role("button", name="Heal everything").click()

        await expect(page.locator("#cuts")).to_have_text("No link is cut")
        await expect(head(page, 3)).to_contain_text("up")
        await expect(cells(page, "orders-0")).to_have_text(["in sync", "leader", "in sync"])


async def test_a_partition_is_looked_at_closely(browser: Browser, server: HttpServer):
    async with opened(browser, server.url) as watched:
        page = watched.page

        await cells(page, "orders-0").first.click()

        panel = page.get_by_role("dialog", name="orders-0")
        await expect(panel).to_contain_text("Broker 2 leads; every replica is in sync.")
        await expect(panel.locator("dd").nth(4)).to_have_text("2, 3, 1")
        assert watched.complaints == []


async def test_who_needs_a_token_is_asked_for_it(browser: Browser, zookeeper):
    async with real_cluster(zookeeper, brokers=1) as drive:
        source = NodeSource(drive.cluster, zookeeper=drive.cluster.zookeeper)
        server = HttpServer(source, clock=drive.cluster.clock, token="open sesame")
        await server.start()
        async with opened(browser, server.url) as watched:
            page = watched.page

            await page.get_by_label("Token").fill("open barley")
            await page.get_by_role("button", name="Log in").click()
            await expect(page.get_by_text("That is not the token.")).to_be_visible()

            await page.get_by_label("Token").fill("open sesame")
            await page.get_by_role("button", name="Log in").click()
            await expect(page.locator("#connection")).to_have_text("live")
        await server.close()
