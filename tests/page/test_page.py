"""The live page in a real browser, against a feed that says what the test wants."""

import asyncio
import re

import pytest
from playwright.async_api import Browser, Locator, Page, expect

from tests.support.browser import LIMIT_MS, opened
from tests.support.feed import Feed, broker, counters, event, orders, partition, play, state

expect.set_options(timeout=LIMIT_MS)

# Every text that is shown, against the colour behind it, as WCAG counts it.
CONTRASTS = """() => {
  const channels = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = (colour) => {
    const [r, g, b] = channels(colour).map((each) => each / 255)
      .map((each) => (each <= 0.03928 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if ((channels(colour)[3] ?? 1) === 1) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const found = [];
  for (const element of document.body.querySelectorAll("*")) {
    const text = [...element.childNodes].some((each) => each.nodeType === 3 && each.data.trim());
    if (!text || !element.checkVisibility() || element.closest("[aria-disabled], svg")) continue;
    const pair = [light(getComputedStyle(element).color), light(behind(element))];
    const ratio = (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
    found.push([element.textContent.trim(), ratio]);
  }
  return found;
}"""


def row(page: Page, name: str) -> Locator:
    head = page.get_by_role("rowheader", name=re.compile(rf"^{name}, "))
    return page.get_by_role("row").filter(has=head)


def cells(page: Page, name: str) -> Locator:
    return row(page, name).get_by_role("gridcell").locator(".word")


def every_kind() -> list[dict]:
    return [
        partition("orders", 0, [1, 2, 3], isr=[1, 2]),
        partition("orders", 1, [1, 2], leader=-1, isr=[1], offline=[1]),
        partition("orders", 2, [1, 2, 3], isr=[1, 3], adding=[2], removing=[3]),
    ]


def details_of(known: dict, history: tuple[dict, ...] = ()) -> dict:
    ends = {str(each): 18_400 - 100 * each for each in known["replicas"]}
    offsets = {"log_start_offset": 1200, "high_watermark": 18_100, "ends": ends}
    return {"partition": known, "offsets": offsets, "history": list(history)}


async def test_a_cell_says_in_words_what_a_broker_is_to_a_partition(browser: Browser):
    async with Feed(state(every_kind())) as feed, opened(browser, feed.url) as watched:
        page = watched.page

        await expect(cells(page, "orders-0")).to_have_text(["leader", "in sync", "lagging"])
        await expect(cells(page, "orders-1")).to_have_text(["offline", "lagging", "no replica"])
        await expect(cells(page, "orders-2")).to_have_text(["leader", "adding", "removing"])
        await expect(row(page, "orders-1")).to_contain_text("no leader")
        await expect(row(page, "orders-0")).to_contain_text("under-replicated")


async def test_the_header_tells_the_controller_and_the_counters(browser: Browser):
    known = every_kind()
    said = state(known, controller={"broker": 2, "epoch": 7})
    async with Feed(said) as feed, opened(browser, feed.url) as watched:
        page = watched.page

        await expect(page).to_have_title("Understudy")
        await expect(page.locator("#controller")).to_have_text("Controller: broker 2, epoch 7")
        await expect(page.locator("#counters .value")).to_have_text(["3", "1", "2", "0"])
        await expect(page.locator("#connection")).to_have_text("live")

        await feed.change(controller=None, counters=counters(known, messages_per_second=1234.5))
        await expect(page.locator("#controller")).to_have_text("Controller: none")
        await expect(page.locator("#counters .value").last).to_have_text("1,235")


async def test_a_change_moves_the_leader_on_the_screen_and_is_read_out(browser: Browser):
    async with Feed(state(orders())) as feed, opened(browser, feed.url) as watched:
        page = watched.page
        await expect(cells(page, "orders-0")).to_have_text(["leader", "in sync", "in sync"])

        moved = partition("orders", 0, [1, 2, 3], leader=2, isr=[2, 3], offline=[1], leader_epoch=1)
        brokers = [broker(1, "down"), broker(2, "controller"), broker(3)]
        await feed.change(partitions=[moved], brokers=brokers)

        await expect(cells(page, "orders-0")).to_have_text(["offline", "leader", "in sync"])
        await expect(page.get_by_role("columnheader", name="Broker 1")).to_contain_text("down")
        await expect(page.locator("#news")).to_contain_text("Broker 1 is down.")
        await expect(page.locator("#news")).to_contain_text("orders-0: broker 2 leads.")


async def test_partitions_come_and_go(browser: Browser):
    async with Feed(state([])) as feed, opened(browser, feed.url) as watched:
        page = watched.page
        await expect(page.locator("#nothing")).to_contain_text("No partitions yet.")

        await feed.change(partitions=[partition("b", 10, [1]), partition("b", 9, [1])])
        await feed.change(partitions=[partition("a", 0, [1])])
        await expect(page.locator("tbody .name")).to_have_text(["a-0", "b-9", "b-10"])

        await feed.change(gone=[["b", 9]])
        await expect(page.locator("tbody .name")).to_have_text(["a-0", "b-10"])


@pytest.mark.parametrize(
    ("button", "asked"),
    [
        ("Kill broker 2", {"fault": "kill", "broker": 2}),
        ("Restart broker 3", {"fault": "restart", "broker": 3}),
        ("Pause broker 1", {"fault": "pause", "broker": 1}),
        ("Resume broker 4", {"fault": "resume", "broker": 4}),
        ("Heal everything", {"fault": "heal"}),
    ],
)
async def test_a_button_asks_for_its_fault_and_shows_the_answer(browser: Browser, button, asked):
    brokers = [broker(1, "controller"), broker(2), broker(3, "down"), broker(4, "paused")]
    async with Feed(state(orders(), brokers)) as feed, opened(browser, feed.url) as watched:
        feed.answer = (200, {"done": "So it was done."})

        await watched.page.get_by_role("button", name=button).click()

        assert await feed.asked.get() == asked
        await expect(watched.page.locator("#fault-status")).to_have_text("So it was done.")


@pytest.mark.parametrize(
    ("item", "asked"),
    [
        ("Shut down broker 1", {"fault": "shut-down", "broker": 1}),
        ("Expire session broker 1", {"fault": "expire-session", "broker": 1}),
        ("Cut the link from broker 1 to broker 3", {"fault": "cut", "broker": 1, "other": 3}),
        ("Cut the link from broker 1 to ZooKeeper", {"fault": "cut", "broker": 1, "other": 0}),
    ],
)
async def test_the_menu_of_a_broker_asks_for_the_rest(browser: Browser, item, asked):
    async with Feed(state(orders())) as feed, opened(browser, feed.url) as watched:
        page = watched.page
        await page.get_by_role("button", name="More faults for broker 1").click()

        await page.get_by_role("button", name=item).click()

        assert await feed.asked.get() == asked
        await expect(page.locator("#menu")).to_be_hidden()


async def test_a_refusal_is_shown_in_its_own_words(browser: Browser):
    async with Feed(state(orders())) as feed, opened(browser, feed.url) as watched:
        feed.answer = (409, {"error": "REFUSED", "message": "Broker 2 is down already."})

        await watched.page.get_by_role("button", name="Kill broker 2").click()

        line = watched.page.locator("#fault-status")
        await expect(line).to_have_text("Broker 2 is down already.")
        await expect(line).to_have_attribute("data-outcome", "refused")


async def test_what_makes_no_sense_is_greyed_out_and_asks_for_nothing(browser: Browser):
    brokers = [broker(1, "controller"), broker(2, "down"), broker(3, "paused")]
    said = state(orders(), brokers, cuts=[[1, 0]])
    async with Feed(said) as feed, opened(browser, feed.url) as watched:
        page = watched.page
        for name in ("Kill broker 2", "Pause broker 2", "Restart broker 3"):
            await expect(page.get_by_role("button", name=name)).to_be_disabled()
        for name in ("Kill broker 1", "Restart broker 1", "Restart broker 2", "Resume broker 3"):
            await expect(page.get_by_role("button", name=name)).to_be_enabled()

        await page.get_by_role("button", name="Kill broker 2").click(force=True)
        await page.get_by_role("button", name="More faults for broker 1").click()
        cut = page.get_by_role("button", name="Cut the link from broker 1 to ZooKeeper")
        await expect(cut).to_be_disabled()
        await page.keyboard.press("Escape")

        await page.get_by_role("button", name="Kill broker 1").click()
        assert await feed.asked.get() == {"fault": "kill", "broker": 1}
        assert feed.asked.empty()


async def test_a_button_keeps_the_focus_when_it_stops_making_sense(browser: Browser):
    async with Feed(state(orders())) as feed, opened(browser, feed.url) as watched:
        kill = watched.page.get_by_role("button", name="Kill broker 2")
        await kill.click()

        await feed.change(brokers=[broker(1, "controller"), broker(2, "down"), broker(3)])

        await expect(kill).to_be_disabled()
        await expect(kill).to_be_focused()


async def test_links_that_are_cut_are_told(browser: Browser):
    async with Feed(state(orders())) as feed, opened(browser, feed.url) as watched:
        page = watched.page
        await expect(page.locator("#cuts")).to_have_text("No link is cut")
        await expect(page.get_by_role("button", name="Heal everything")).to_be_disabled()

        await feed.change(cuts=[[1, 2], [1, 0]])

        told = "2 links cut: broker 1 ✂ broker 2, broker 1 ✂ ZooKeeper"
        await expect(page.locator("#cuts")).to_have_text(told)
        head = page.get_by_role("columnheader", name="Broker 1")
        await expect(head).to_contain_text("cut from 2, ZooKeeper")
        await expect(page.get_by_role("button", name="Heal everything")).to_be_enabled()


async def test_without_faults_there_are_no_buttons_for_them(browser: Browser):
    said = state(orders(), faults_enabled=False)
    async with Feed(said) as feed, opened(browser, feed.url) as watched:
        await expect(watched.page.get_by_role("columnheader")).to_have_count(4)

        faults = re.compile("broker|Heal")
        await expect(watched.page.get_by_role("button", name=faults)).to_have_count(0)


async def test_the_page_survives_a_restart_of_the_server(browser: Browser):
    async with Feed(state(orders())) as feed, opened(browser, feed.url) as watched:
        page = watched.page
        await expect(row(page, "orders-0")).to_be_visible()

        await feed.stop()
        await expect(page.locator("#connection")).to_have_text("reconnecting…")
        await expect(page.locator("#away")).to_contain_text("The server went away")
        await expect(page.get_by_role("button", name="Kill broker 1")).to_be_disabled()
        await expect(row(page, "orders-0")).to_be_visible()

        news = event(1, "topic", "Topic payments was created.")
        feed.first = state([partition("payments", 0, [2, 1])], run="second", events=[news])
        await feed.start()

        await expect(page.locator("#connection")).to_have_text("live")
        await expect(page.locator("tbody .name")).to_have_text(["payments-0"])
        await expect(page.locator("#events .text")).to_have_text(["Topic payments was created."])
        await expect(page.locator("#away")).to_be_hidden()
        await expect(page.get_by_role("button", name="Kill broker 1")).to_be_enabled()


async def test_filters_choose_rows_and_internal_topics_wait_to_be_asked_for(browser: Browser):
    offsets = partition("__consumer_offsets", 0, [1, 2, 3])
    known = [*orders(2), partition("payments", 0, [1, 2], isr=[1]), offsets]
    async with Feed(state(known)) as feed, opened(browser, feed.url) as watched:
        page = watched.page
        names = page.locator("tbody .name")
        await expect(names).to_have_text(["orders-0", "orders-1", "payments-0"])
        await expect(page.locator("#shown")).to_have_text("3 of 4")
        await expect(page.locator("#counters .value").first).to_have_text("4")

        await page.get_by_label("internal topics").check()
        shown = ["orders-0", "orders-1", "payments-0", "__consumer_offsets-0"]
        await expect(names).to_have_text(shown)

        await page.get_by_label("Topic name contains").fill("ORD")
        await expect(names).to_have_text(["orders-0", "orders-1"])

        await page.get_by_label("only unhealthy").check()
        await expect(page.locator("#nothing")).to_contain_text("filtered out")
        await feed.change(partitions=[partition("orders", 1, [2, 3, 1], isr=[2])])
        await expect(names).to_have_text(["orders-1"])


async def test_a_thousand_partitions_are_a_few_rows_and_stay_smooth(browser: Browser):
    known = orders(1000, brokers=5)
    brokers = [broker(each) for each in range(1, 6)]
    async with Feed(state(known, brokers)) as feed, opened(browser, feed.url) as watched:
        page = watched.page
        await expect(row(page, "orders-0")).to_be_visible()
        await page.evaluate("""() => {
          window.drawn = [];
          new PerformanceObserver((list) => window.drawn.push(...list.getEntriesByName("draw")
            .map((entry) => entry.duration))).observe({ entryTypes: ["measure"] });
        }""")

        await play(feed, known, changes=60, each=50)
        known[0].update(leader=-1)
        await feed.change(partitions=[known[0]])
        await expect(row(page, "orders-0")).to_contain_text("no leader")

        drawn = await page.evaluate("window.drawn")
        assert len(drawn) >= 20  # it kept drawing while it was told so much
        assert (
            sum(drawn) / len(drawn) < 16
        )  # ms: the work of a frame leaves room for sixty a second
        assert await page.locator("tbody tr").count() < 60
        await expect(page.get_by_role("grid")).to_have_attribute("aria-rowcount", "1001")


async def test_the_thousandth_row_is_drawn_when_it_is_scrolled_to(browser: Browser):
    known = orders(1000, brokers=5)
    async with Feed(state(known)) as feed, opened(browser, feed.url) as watched:
        page = watched.page
        await expect(row(page, "orders-0")).to_be_visible()

        await page.locator("#scroller").evaluate("(each) => each.scrollTo(0, each.scrollHeight)")

        await expect(row(page, "orders-999")).to_be_in_viewport()
        await expect(row(page, "orders-999")).to_have_attribute("aria-rowindex", "1001")
        await page.locator("#scroller").evaluate("(each) => each.scrollTo(0, 500 * 36)")
        await expect(row(page, "orders-500")).to_be_in_viewport()
        heights = await page.locator("tbody tr[aria-rowindex]").evaluate_all(
            "(rows) => [...new Set(rows.map((each) => each.offsetHeight))]"
        )
        assert heights == [36]  # as grid.js reckons


async def test_a_partition_is_opened_asked_for_again_and_closed_with_the_focus_back(
    browser: Browser,
):
    known = partition("orders", 1, [2, 3, 1], isr=[2, 3], leader_epoch=4, partition_epoch=9)
    async with Feed(state(orders())) as feed, opened(browser, feed.url) as watched:
        page = watched.page
        feed.details = details_of(known, (event(1, "isr", "orders-1: broker 1 left the ISR."),))
        await row(page, "orders-1").get_by_role("gridcell").nth(2).click()

        panel = page.get_by_role("dialog", name="orders-1")
        await expect(panel).to_contain_text("Broker 2 leads; not every replica is in sync.")
        await expect(panel.locator("dd")).to_have_text(
            ["broker 2", "broker 2", "4", "9", "2, 3, 1", "2, 3", "18,100", "1,200"]
        )
        await expect(panel.locator("tbody tr:not(.bar-row)")).to_have_text(
            ["2Lleader18,2000", "3✓in sync18,100100", "1!lagging18,3000"]
        )
        await expect(panel.locator(".event .text")).to_have_text("orders-1: broker 1 left the ISR.")
        assert await feed.detail_paths.get() == "/api/partitions/orders/1"

        feed.details = details_of(known | {"leader": 3})
        await expect(panel).to_contain_text("Broker 3 leads")

        await page.keyboard.press("Escape")
        await expect(panel).to_be_hidden()
        await expect(row(page, "orders-1").get_by_role("gridcell").nth(2)).to_be_focused()


async def test_a_closed_panel_asks_nothing(browser: Browser):
    async with Feed(state(orders())) as feed, opened(browser, feed.url) as watched:
        page = watched.page
        feed.details = details_of(orders()[0])
        await row(page, "orders-0").click()
        await expect(page.locator(".facts")).to_be_visible()
        await page.get_by_role("button", name="Close the details").click()
        while not feed.detail_paths.empty():
            feed.detail_paths.get_nowait()

        await row(page, "orders-1").click()

        assert await feed.detail_paths.get() == "/api/partitions/orders/1"
        assert await feed.detail_paths.get() == "/api/partitions/orders/1"


async def test_the_grid_is_walked_with_arrow_keys_and_opened_with_enter(browser: Browser):
    known = orders(1000)
    async with Feed(state(known)) as feed, opened(browser, feed.url) as watched:
        page = watched.page
        feed.details = details_of(known[1])
        await expect(page.locator("tbody [tabindex='0']")).to_have_count(1)
        await page.get_by_role("button", name="More faults for broker 3").focus()
        await page.keyboard.press("Tab")
        await expect(row(page, "orders-0").get_by_role("rowheader")).to_be_focused()

        await page.keyboard.press("ArrowDown")
        await page.keyboard.press("ArrowRight")
        await expect(row(page, "orders-1").get_by_role("gridcell").first).to_be_focused()

        await page.keyboard.press("Control+End")
        await expect(row(page, "orders-999").get_by_role("gridcell").last).to_be_focused()
        await expect(row(page, "orders-999")).to_be_in_viewport()

        await page.locator("#scroller").evaluate("(each) => each.scrollTo(0, 0)")
        await expect(row(page, "orders-3")).to_be_in_viewport()
        await expect(row(page, "orders-999").get_by_role("gridcell").last).to_be_focused()

        await page.keyboard.press("Control+Home")
        await page.keyboard.press("ArrowDown")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("dialog", name="orders-1")).to_be_visible()


async def test_the_focus_stays_in_the_grid_when_its_partition_goes(browser: Browser):
    async with Feed(state(orders(3))) as feed, opened(browser, feed.url) as watched:
        page = watched.page
        await row(page, "orders-0").get_by_role("rowheader").focus()
        await page.keyboard.press("ArrowDown")
        await expect(row(page, "orders-1").get_by_role("rowheader")).to_be_focused()

        await feed.change(gone=[["orders", 1]])

        await expect(row(page, "orders-2").get_by_role("rowheader")).to_be_focused()


async def test_the_menu_is_walked_with_arrow_keys_and_gives_the_focus_back(browser: Browser):
    async with Feed(state(orders())) as feed, opened(browser, feed.url) as watched:
        page = watched.page
        more = page.get_by_role("button", name="More faults for broker 2")
        await more.focus()
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("button", name="Shut down broker 2")).to_be_focused()

        await page.keyboard.press("ArrowDown")
        await expect(page.get_by_role("button", name="Expire session broker 2")).to_be_focused()

        await page.keyboard.press("Escape")
        await expect(more).to_be_focused()


async def test_events_are_listed_newest_first_and_filtered_by_kind(browser: Browser):
    told = [event(1, "broker", "Broker 1 is up."), event(2, "isr", "The ISR shrank.", count=3)]
    async with Feed(state(orders(), events=told)) as feed, opened(browser, feed.url) as watched:
        page = watched.page
        texts = page.locator("#events .text")
        await expect(texts).to_have_text(["The ISR shrank.", "Broker 1 is up."])
        summary = "Events of the last 5 minutes by kind: broker 1, ISR 3"
        await expect(page.get_by_role("img", name=summary)).to_be_visible()

        await feed.say({"type": "event", "event": event(3, "fault", "Killed broker 1.", "bad")})
        await expect(texts.first).to_have_text("Killed broker 1.")
        await expect(page.locator("#strip .mark")).to_have_count(3)

        await feed.say({"type": "event", "event": event(2, "isr", "The ISR shrank again.")})
        await expect(texts.nth(1)).to_have_text("The ISR shrank again.")

        await page.get_by_role("checkbox", name="ISR").uncheck()
        await expect(texts).to_have_text(["Killed broker 1.", "Broker 1 is up."])
        await expect(page.locator("#strip .mark")).to_have_count(2)

        await page.get_by_role("button", name="Show all kinds").click()
        await expect(texts).to_have_count(3)


async def test_names_that_bite_are_shown_as_text(browser: Browser):
    name = "<img src=x onerror=alert(1)>"
    told = [event(1, "topic", f"Topic {name} was created.", topic=name, partition=0)]
    known = partition(name, 0, [1, 2, 3])
    async with Feed(state([known], events=told)) as feed, opened(browser, feed.url) as watched:
        page = watched.page
        feed.details = details_of(known, tuple(told))
        feed.answer = (409, {"error": "REFUSED", "message": name})
        await expect(page.locator("tbody .name")).to_have_text(f"{name}-0")
        await expect(page.locator("#events .text")).to_contain_text(name)

        await page.get_by_role("button", name="Kill broker 1").click()
        await page.locator("tbody .name").click()

        await expect(page.locator("#fault-status")).to_have_text(name)
        await expect(page.locator("#details-title")).to_have_text(f"{name}-0")
        await expect(page.locator("#details .event .text")).to_contain_text(name)
        assert await page.locator("img[src]").count() == 0


async def test_nobody_else_is_asked_and_nothing_is_complained_of(browser: Browser):
    async with Feed(state(every_kind())) as feed, opened(browser, feed.url) as watched:
        page = watched.page
        feed.details = details_of(every_kind()[0])
        await row(page, "orders-0").click()
        await expect(page.locator(".facts")).to_be_visible()
        await page.get_by_role("button", name="More faults for broker 1").click()

        assert watched.complaints == []
        here = re.compile(rf"(http|ws)://127\.0\.0\.1:{feed.port}/|data:")
        assert [each for each in watched.addresses if not here.match(each)] == []


@pytest.mark.parametrize("brokers", [3, 5])
@pytest.mark.parametrize("width", [360, 820, 1280])
async def test_the_page_does_not_scroll_sideways(browser: Browser, width, brokers):
    told = [event(1, "topic", "A" * 300)]
    known = [*orders(20, brokers), partition("a-rather-long-name-of-a-topic" * 5, 0, [1])]
    listed = [broker(each, "controller") for each in range(1, brokers + 1)]
    said = state(known, listed, events=told, cuts=[[1, 2], [1, 3], [2, 3], [1, 0]])
    look = {"viewport": {"width": width, "height": 740}}
    async with Feed(said) as feed, opened(browser, feed.url, **look) as watched:
        page = watched.page
        await expect(row(page, "orders-0")).to_be_visible()

        assert await page.evaluate("document.documentElement.scrollWidth") <= width


async def test_a_phone_has_every_fault_in_the_menu(browser: Browser):
    look = {"viewport": {"width": 360, "height": 740}, "has_touch": True}
    async with Feed(state(orders())) as feed, opened(browser, feed.url, **look) as watched:
        page = watched.page
        await expect(page.get_by_role("button", name="Kill broker 2")).to_be_hidden()

        await page.get_by_role("button", name="More faults for broker 2").tap()
        await page.get_by_role("button", name="Kill broker 2").tap()

        assert await feed.asked.get() == {"fault": "kill", "broker": 2}


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_every_text_can_be_read_in_both_looks(browser: Browser, scheme):
    brokers = [
        broker(1, "controller"),
        broker(2, "down"),
        broker(3, "paused"),
        broker(4, "starting"),
    ]
    levels = ("good", "info", "warning", "bad")
    told = [event(at, "isr", f"Event {at}.", level) for at, level in enumerate(levels)]
    said = state(every_kind(), brokers, cuts=[[1, 2]], events=told)
    async with Feed(said) as feed:
        feed.details = details_of(every_kind()[0], tuple(told))
        async with opened(
            browser, feed.url, color_scheme=scheme, reduced_motion="reduce"
        ) as watched:
            page = watched.page
            await expect(page.locator("#connection")).to_have_text("live")
            beside_the_timeline = await page.evaluate(CONTRASTS)
            await row(page, "orders-0").click()
            await expect(page.locator(".facts")).to_be_visible()

            found = beside_the_timeline + await page.evaluate(CONTRASTS)

    assert len(found) > 100
    assert [(text, ratio) for text, ratio in found if ratio < 4.5] == []


async def test_the_page_draws_itself_again_when_messages_pile_up(browser: Browser):
    async with Feed(state(orders())) as feed, opened(browser, feed.url) as watched:
        page = watched.page
        await expect(row(page, "orders-0")).to_be_visible()

        epochs = [partition("orders", 0, [1, 2, 3], leader_epoch=each) for each in range(1, 501)]
        await asyncio.gather(*(feed.change(partitions=[each]) for each in epochs))

        await expect(row(page, "orders-0")).to_contain_text("epoch 500")
