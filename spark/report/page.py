"""The page: one file of HTML that needs nothing else.

Rule: no script, no font, no picture from anywhere; the page's own policy forbids them all.
"""

from typing import Final

from spark.report import ledger, outages, workings
from spark.report.facts import Facts
from spark.report.markup import Markup, tag
from spark.report.section import Section
from spark.report.style import STYLE
from spark.report.summary import lines
from spark.report.words import date_and_clock

POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
SECTIONS: Final = (
    outages.glance,
    outages.incidents,
    outages.availability,
    workings.controller,
    workings.replication,
    workings.requests,
    workings.actors,
    ledger.states,
    ledger.zookeeper,
    ledger.audit,
    ledger.source,
)


def page(facts: Facts) -> str:
    """All of it."""
    sections = [make(facts) for make in SECTIONS]
    title = f"What happened: {', '.join(facts.runs[:3])}"
    body = tag(
        "body",
        tag("nav", tag("h2", "Contents"), tag("ol", [_entry(each) for each in sections])),
        tag(
            "main",
            tag("h1", "What happened"),
            tag("p", f"{facts.run}, {date_and_clock(facts.start)} UTC", class_="under"),
            tag("ul", [tag("li", each) for each in lines(facts)], class_="summary"),
            [_drawn(each) for each in sections],
            tag("footer", f"Understudy. From {', '.join(facts.roots[:5])}"),
        ),
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", Markup(STYLE)),
    )
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"


def _entry(section: Section) -> Markup:
    return tag("li", tag("a", section.title, href=f"#{section.anchor}"))


def _drawn(section: Section) -> Markup:
    return tag("section", tag("h2", section.title), section.content, id=section.anchor)
