"""Numbers, times and counts as people say them.

Rule: no more digits than anybody needs; times are UTC.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

SECOND_US: Final = 1_000_000
MINUTE_S: Final = 60
HOUR_S: Final = 3_600
THOUSAND: Final = 1_000
FEW: Final = 10
MANY: Final = 100


def duration(us: float | None) -> str:
    """How long: 840 µs, 3.4 ms, 12.8 s, 4 min 10 s."""
    if us is None:
        return "-"
    # Rounded before it is split: 179.7 seconds are 3 minutes, and never 2 and 60 seconds.
    if round(us) < THOUSAND:
        return f"{us:.0f} µs"
    if round(us / THOUSAND) < THOUSAND:
        return f"{_digits(us / THOUSAND)} ms"
    seconds = round(us / SECOND_US)
    if seconds < 2 * MINUTE_S:
        return f"{_digits(us / SECOND_US)} s"
    if seconds < 2 * HOUR_S:
        return f"{seconds // MINUTE_S} min {seconds % MINUTE_S} s"
    minutes = round(seconds / MINUTE_S)
    return f"{minutes // MINUTE_S} h {minutes % MINUTE_S} min"


def plain_duration(us: float) -> str:
    """A round duration, as on an axis: 2 ms, 0.5 s."""
    words = duration(us)
    value, _, unit = words.partition(" ")
    return f"{value.rstrip('0').rstrip('.')} {unit}" if "." in value else words


def _digits(value: float) -> str:
    if round(value, 2) < FEW:
        return f"{value:.2f}"
    return f"{value:.1f}" if round(value, 1) < MANY else f"{value:.0f}"


def clock(us: int | None, *, exact: bool = True) -> str:
    """When, by the clock: 20:08:23.488."""
    if us is None:
        return "-"
    at = datetime.fromtimestamp(us // SECOND_US, UTC)
    return f"{at:%H:%M:%S}" + (f".{us % SECOND_US // 1_000:03d}" if exact else "")


def date_and_clock(us: int) -> str:
    """When, with the day: 2026-11-18 20:08:23."""
    return f"{datetime.fromtimestamp(us // SECOND_US, UTC):%Y-%m-%d %H:%M:%S}"


def number(value: float | None) -> str:
    """A count, or a mean with two digits: 12,345 or 0.12."""
    if value is None:
        return "-"
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:,.1f}" if value >= FEW else f"{value:.2f}"


def size(count: float | None) -> str:
    """Bytes: 3.2 MB."""
    if count is None:
        return "-"
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if round(value) < THOUSAND:
            return f"{value:.0f} {unit}" if unit == "B" else f"{_digits(value)} {unit}"
        value /= THOUSAND
    return f"{value:.1f} TB"


def many(count: float | None, one: str, several: str = "") -> str:
    """1 partition, 3 partitions."""
    count = count or 0
    return f"{number(count)} {one if count == 1 else several or one + 's'}"


def percent(part: float, whole: float) -> str:
    """A share: 12 %, 0.02 %."""
    if not whole:
        return "-"
    share = 100 * part / whole
    return f"{share:.0f} %" if share >= FEW or share == 0 else f"{share:.2g} %"


def listed(words: Sequence[str]) -> str:
    """a, b and c."""
    if len(words) < 2:  # noqa: PLR2004 - one needs no "and"
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"
