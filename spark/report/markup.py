"""HTML and SVG, built from values.

Rule: text is escaped unless `tag` made it, so whatever a trace says is text on the page and nothing
else. There is no script on the page, and its policy would let none run.
"""

import re
from collections.abc import Iterable
from html import escape
from typing import Final, TypeAlias

# What HTML cannot hold at all, and what turns the direction of the text around it.
UNSHOWABLE: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u202a-\u202e\u2066-\u2069]")
VOID: Final = frozenset({"br", "hr", "meta"})
LONGEST: Final = 300  # of one text


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


Content: TypeAlias = "str | int | float | Markup | Iterable[Content] | None"


def tag(name: str, /, *content: Content, **attributes: object) -> Markup:
    """An element; `class_` is class, `stroke_width` is stroke-width, None leaves one out."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{plain(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in VOID:
        return Markup(f"<{name}{given}>")
    return Markup(f"<{name}{given}>{joined(*content)}</{name}>")


def joined(*content: Content) -> Markup:
    """Several, one after the other."""
    return Markup("".join(_text(each) for each in content))


def _text(content: Content) -> str:
    if content is None:
        return ""
    if isinstance(content, Markup):
        return content
    if isinstance(content, str | int | float):
        return escaped(str(content))
    return "".join(_text(each) for each in content)


def escaped(text: str) -> str:
    """As text, and not too long of it."""
    return plain(text if len(text) <= LONGEST else f"{text[:LONGEST]}…")


def plain(text: str) -> str:
    """As text, all of it."""
    whole = text.encode("utf-8", "replace").decode("utf-8", "replace")
    return escape(UNSHOWABLE.sub("\N{REPLACEMENT CHARACTER}", whole), quote=True)
