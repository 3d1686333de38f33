"""The charts: each a drawing from plain values.

Rule: a chart has room for as much as it is given; whoever calls it has chosen what matters.
"""

from collections.abc import Callable, Mapping, Sequence
from math import log10, sqrt
from typing import Final, NamedTuple

from spark.report.markup import Markup, tag
from spark.report.svg import (
    AXIS,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    Scale,
    box,
    chart,
    decades,
    line,
    log_axis,
    name,
    over,
    round_step,
    text,
    time_axis,
    value_axis,
)
from spark.report.words import duration, number, plain_duration

LANE: Final = 20
BAR: Final = 13
AREA: Final = 120
CELL: Final = 30
FLAME: Final = 26


class Span(NamedTuple):
    """Something that lasted, in a lane."""

    lane: str
    start: float
    end: float
    class_: str
    hint: str


class Mark(NamedTuple):
    """A moment that goes through all lanes."""

    at: float
    words: str
    hint: str


class Series(NamedTuple):
    """A line: moments and values."""

    name: str
    class_: str
    points: Sequence[tuple[float, float]]


class Range(NamedTuple):
    """A row of percentiles."""

    name: str
    low: float
    middle: float
    high: float
    most: float
    hint: str


def time_lanes(
    lanes: Sequence[str],
    spans: Sequence[Span],
    marks: Sequence[Mark],
    start: float,
    end: float,
    label: str,
) -> Markup:
    """What lasted from when to when, lane by lane."""
    scale = over(start, end)
    head = TOP + (18 if marks else 0)
    bottom = head + LANE * len(lanes)
    at = {lane: head + LANE * row for row, lane in enumerate(lanes)}
    drawn = [
        box(
            scale(each.start),
            at[each.lane] + (LANE - BAR) / 2,
            scale(each.end) - scale(each.start),
            BAR,
            each.class_,
            each.hint,
        )
        for each in spans
        if each.lane in at
    ]
    return chart(
        bottom + AXIS,
        *time_axis(scale, head, bottom),
        *(name(y + LANE / 2 + 4, lane) for lane, y in at.items()),
        *drawn,
        *_marks(marks, scale, head, bottom),
        label=label,
    )


def _marks(marks: Sequence[Mark], scale: Scale, head: float, bottom: float) -> list[Markup]:
    drawn: list[Markup] = []
    free = 0.0
    for each in marks:
        x = scale(each.at)
        drawn.append(line(x, head - 4, x, bottom, "mark", each.hint))
        if x >= free:  # the words of two marks never lie upon each other
            drawn.append(text(x, head - 8, each.words, "mark-words", "middle"))
            free = x + 7 * len(each.words) + 8
    return drawn


def over_time(
    series: Sequence[Series],
    start: float,
    end: float,
    label: str,
    *,
    words: Callable[[float], str] = number,
    is_filled: bool = True,
) -> Markup:
    """Values that change, as steps with the ground filled, or as lines."""
    scale = over(start, end)
    most = max((value for each in series for _, value in each.points), default=0) or 1
    height = Scale(0, most, TOP + AREA, TOP)
    drawn = [
        tag("path", tag("title", each.name), d=path, class_=f"{kind} {each.class_}")
        for each in series
        for kind, path in _paths(each, scale, height, is_filled=is_filled)
    ]
    return chart(
        TOP + AREA + AXIS,
        *time_axis(scale, TOP, TOP + AREA),
        *value_axis(height, LEFT, WIDTH - RIGHT, words),
        *drawn,
        *_legend(series),
        label=label,
    )


def _paths(each: Series, scale: Scale, height: Scale, *, is_filled: bool) -> list[tuple[str, str]]:
    if not each.points:
        return []
    places = [(scale(at), height(value)) for at, value in each.points]
    if not is_filled:
        return [("line", "M" + " L".join(f"{x} {y}" for x, y in places))]
    ground = height(0)
    path = f"M{places[0][0]} {ground}"
    for x, y in places:
        path += f" H{x} V{y}"
    return [("area", f"{path} H{scale(scale.end)} V{ground} Z")]


def _legend(series: Sequence[Series]) -> list[Markup]:
    if len(series) < 2:  # noqa: PLR2004 - one line needs no key
        return []
    drawn, y = [], TOP + 12.0
    for each in series:
        drawn.append(box(12, y - 9, 10, 10, f"key {each.class_}"))
        drawn.append(text(28, y, each.name[:20], "tick"))
        y += 17
    return drawn


def heat(
    rows: Sequence[str],
    cells: Mapping[tuple[str, float], float],
    width: float,
    start: float,
    end: float,
    label: str,
    words: Callable[[float], str],
) -> Markup:
    """Rows by slices of time: the fuller the colour, the more."""
    scale = over(start, end)
    most = max(cells.values(), default=0) or 1
    at = {row: TOP + 16 * place for place, row in enumerate(rows)}
    bottom = TOP + 16 * len(rows)
    drawn = [
        tag(
            "rect",
            tag("title", f"{row}: {words(value)}"),
            x=scale(begin),
            y=at[row] + 1,
            width=round(max(scale(begin + width) - scale(begin), 0.8) + 0.2, 1),  # no seams
            height=14,
            class_="heat",
            fill_opacity=f"{0.15 + 0.85 * sqrt(value / most):.2f}",
        )
        for (row, begin), value in cells.items()
        if row in at and value > 0
    ]
    return chart(
        bottom + AXIS,
        *time_axis(scale, TOP, bottom),
        *(name(y + 12, row) for row, y in at.items()),
        *drawn,
        label=label,
    )


def ranges(rows: Sequence[Range], label: str) -> Markup:
    """Percentiles on a scale of tens: from p50 to p99 a bar, p95 in it, and the longest a dot."""
    bottom = TOP + LANE * len(rows)
    least = min((each.low for each in rows if each.low > 0), default=1)
    powers = decades(least, max((each.most for each in rows), default=10))
    scale = over(powers[0], powers[-1])

    def place(us: float) -> float:
        return scale(log10(max(us, 1)))

    drawn = []
    for row, each in enumerate(rows):
        y = TOP + LANE * row
        left, right = place(each.low), place(each.high)
        drawn += [
            name(y + LANE / 2 + 4, each.name),
            line(right, y + LANE / 2, place(each.most), y + LANE / 2, "whisker"),
            box(left, y + 5, right - left, LANE - 10, "range", each.hint),
            line(place(each.middle), y + 3, place(each.middle), y + LANE - 3, "middle"),
            tag("circle", tag("title", each.hint), cx=place(each.most), cy=y + LANE / 2, r=3),
        ]
    return chart(bottom + AXIS, *log_axis(powers, TOP, bottom), *drawn, label=label)


class Flame(NamedTuple):
    """One row of a budget: steps that follow one another."""

    name: str
    steps: Sequence[tuple[str, float, float, str]]  # what, from, to, class; microseconds


def _key(steps: Sequence[tuple[str, str]]) -> tuple[list[Markup], float]:
    """What each colour means, in lines as wide as the chart; and where they end."""
    drawn, x, y = [], float(LEFT), TOP + 10.0
    for what, class_ in steps:
        wide = 7.0 * len(what) + 34
        if x + wide > WIDTH:
            x, y = float(LEFT), y + 17
        drawn += [box(x, y - 9, 10, 10, class_), text(x + 15, y, what, "tick")]
        x += wide
    return drawn, y + 10


def flames(rows: Sequence[Flame], label: str) -> Markup:
    """Each row's steps on one scale, under a key to what the colours mean."""
    longest = max((to for row in rows for _, _, to, _ in row.steps), default=1)
    scale = over(0, longest)
    fullest = sorted(rows, key=lambda row: -len(row.steps))
    steps = dict.fromkeys((what, class_) for row in fullest for what, _, _, class_ in row.steps)
    drawn, top = _key(list(steps))
    y = top
    for row in rows:
        drawn.append(name(y + FLAME / 2 + 4, row.name))
        for what, begin, to, class_ in row.steps:
            wide = scale(to) - scale(begin)
            hint = f"{what}: {duration(to - begin)}"
            drawn.append(box(scale(begin), y + 3, wide, FLAME - 6, f"step {class_}", hint))
            if wide > 7 * len(hint):
                drawn.append(text(scale(begin) + 6, y + FLAME / 2 + 4, hint, "in-step"))
        y += FLAME
    ticks = []
    step = round_step(longest)
    for at in range(int(longest // step) + 1):
        x = scale(at * step)
        ticks.append(line(x, top, x, y, "grid"))
        ticks.append(text(x, y + 16, plain_duration(at * step), "tick", "middle"))
    return chart(y + AXIS, *ticks, *drawn, label=label)
