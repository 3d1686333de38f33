"""A section of the page: a heading, drawings with a sentence each, and tables.

Rule: every drawing has a sentence below it that says what it shows in this run, with its numbers.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from spark.report.facts import Row
from spark.report.markup import Content, Markup, tag
from spark.report.words import many

SHORT: Final = 24


class Section(NamedTuple):
    """One of the page's."""

    anchor: str
    title: str
    content: Sequence[Markup]


class Column(NamedTuple):
    """A column of a table: its heading, and what a row says there."""

    heading: str
    value: Callable[[Row], Content]
    is_number: bool = False


def figure(drawing: Markup, sentence: str) -> Markup:
    """A drawing, and what it shows."""
    return tag("figure", drawing, tag("figcaption", sentence))


def paragraph(*words: Content) -> Markup:
    """Plain words."""
    return tag("p", *words)


def table(rows: Sequence[Row], *columns: Column, caption: str = "") -> Markup:
    """Rows, in a box of their own that scrolls sideways where the screen is narrow."""
    head = tag(
        "tr",
        [
            tag("th", each.heading, scope="col", class_="right" if each.is_number else None)
            for each in columns
        ],
    )
    body = [
        tag(
            "tr",
            [
                tag("td", value := each.value(row), class_=_class_of(value, each))
                for each in columns
            ],
        )
        for row in rows
    ]
    title = tag("caption", caption) if caption else None
    inner = tag("table", title, tag("thead", head), tag("tbody", body))
    return tag("div", inner, class_="scroll", tabindex="0")


def _class_of(value: Content, column: Column) -> str | None:
    """A short name stays in one line, even if a hyphen is in it: broker-1."""
    if column.is_number:
        return "number"
    is_name = isinstance(value, str) and " " not in value and len(value) <= SHORT
    return "name" if is_name else None


def text(heading: str, key: str) -> Column:
    """A column of words."""
    return Column(heading, lambda row: row[key])


def count(heading: str, key: str, words: Callable[[Any], str]) -> Column:
    """A column of numbers, in words of their own."""
    return Column(heading, lambda row: words(row[key]), is_number=True)


def left_out(shown: int, of: int, what: str, where: str) -> list[Markup]:
    """What a table has not shown is said, with where to find it."""
    if of <= shown:
        return []
    return [paragraph(f"The first {shown} of {many(of, what)}; all are in tables/{where}.")]


def hidden(title: str, *content: Markup) -> Markup:
    """What only some want to see."""
    return tag("details", tag("summary", title), *content)
