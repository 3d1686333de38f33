"""Drawing: scales, axes, and the frame of a chart.

Rule: a drawing is as wide as its column and keeps its height; colours are classes, so that the same
drawing is light or dark. What a chart says is in the sentence below it, not in its colours alone.
"""

from collections.abc import Callable, Iterator, Sequence
from math import ceil, floor, log10
from typing import Final, NamedTuple

from spark.report.markup import Content, Markup, tag
from spark.report.words import SECOND_US, clock, plain_duration

WIDTH: Final = 960
LEFT: Final = 200  # for names
RIGHT: Final = 24
TOP: Final = 8
AXIS: Final = 26  # below
STEPS_S: Final = (
    0.1,
    0.2,
    0.5,
    1,
    2,
    5,
    10,
    15,
    30,
    60,
    120,
    300,
    600,
    1_800,
    3_600,
    7_200,
    21_600,
)
DAY_S: Final = 86_400
TICKS: Final = 9
CHARACTERS: Final = 30  # of a name in front of a lane


class Scale(NamedTuple):
    """From values to a place."""

    start: float
    end: float
    low: float
    high: float

    def __call__(self, value: float) -> float:
        """Where a value is, never outside."""
        share = (value - self.start) / ((self.end - self.start) or 1)
        return round(self.low + min(max(share, 0), 1) * (self.high - self.low), 1)


def over(start: float, end: float) -> Scale:
    """Along a chart's width."""
    return Scale(start, end, LEFT, WIDTH - RIGHT)


def chart(height: float, *content: Content, label: str) -> Markup:
    """A drawing, with what it is for those who cannot see it."""
    return tag(
        "svg",
        *content,
        viewBox=f"0 0 {WIDTH} {round(height)}",
        role="img",
        aria_label=label,
        class_="chart",
    )


def text(x: float, y: float, words: str, class_: str = "", anchor: str | None = None) -> Markup:
    """Words in a drawing."""
    return tag("text", words, x=x, y=y, class_=class_ or None, text_anchor=anchor)


def name(y: float, words: str, full: str = "") -> Markup:
    """What a lane is, in front of it."""
    half = CHARACTERS // 2  # what differs is often at the end
    shown = words if len(words) <= CHARACTERS else f"{words[:half]}…{words[1 - half :]}"
    return tag(
        "text",
        shown,
        tag("title", full or words),
        x=LEFT - 8,
        y=y,
        text_anchor="end",
        class_="name",
    )


def box(x: float, y: float, width: float, height: float, class_: str, hint: str = "") -> Markup:
    """A rectangle that can be seen, however short it lasts."""
    shown = max(round(width, 1), 1)
    title = tag("title", hint) if hint else None
    return tag("rect", title, x=x, y=y, width=shown, height=height, class_=class_)


def line(x1: float, y1: float, x2: float, y2: float, class_: str, hint: str = "") -> Markup:
    """A straight line."""
    title = tag("title", hint) if hint else None
    return tag("line", title, x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def time_axis(scale: Scale, top: float, bottom: float) -> Iterator[Markup]:
    """Ticks at round moments, and what the clock says there."""
    span_s = (scale.end - scale.start) / SECOND_US
    step_s = next((each for each in STEPS_S if span_s / each <= TICKS), 0)
    step = (step_s or ceil(span_s / TICKS / DAY_S) * DAY_S) * SECOND_US
    at = ceil(scale.start / step) * step
    while at <= scale.end:
        x = scale(at)
        yield line(x, top, x, bottom, "grid")
        yield text(x, bottom + 16, clock(int(at), exact=step < SECOND_US), "tick", "middle")
        at += step


def value_axis(
    scale: Scale, left: float, right: float, words: Callable[[float], str]
) -> Iterator[Markup]:
    """Three levels of a vertical scale."""
    for share in (0, 0.5, 1):
        value = scale.start + share * (scale.end - scale.start)
        y = scale(value)
        yield line(left, y, right, y, "grid")
        yield text(left - 8, y + 4, words(value), "tick", "end")


def round_step(span: float) -> float:
    """A step of 1, 2 or 5 times a power of ten, of which a few make a span."""
    tens = 10.0 ** floor(log10(max(span, 1) / 4))
    return next(tens * each for each in (1, 2, 5, 10) if span <= tens * each * 6)


def decades(low_us: float, high_us: float) -> Sequence[int]:
    """Powers of ten around some durations."""
    first = floor(log10(max(low_us, 1)))
    last = max(ceil(log10(max(high_us, 1))), first + 1)
    return range(first, last + 1)


def log_axis(powers: Sequence[int], top: float, bottom: float) -> Iterator[Markup]:
    """Ticks at powers of ten."""
    scale = over(powers[0], powers[-1])
    for power in powers:
        yield line(scale(power), top, scale(power), bottom, "grid")
        yield text(scale(power), bottom + 16, plain_duration(10**power), "tick", "middle")
