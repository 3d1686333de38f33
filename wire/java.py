"""What Kafka computes in Java's arithmetic, and everyone must compute alike.

Rule: the same numbers as a JVM, for every input.
"""

from functools import lru_cache
from typing import Final

_INT32: Final = 2**32
_HALF: Final = 2**31


@lru_cache(maxsize=1_024)
def string_hash(text: str) -> int:
    """Java's String.hashCode: over UTF-16 code units, in signed 32 bits."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) % _INT32
    return int32(value)


def absolute(number: int) -> int:
    """Kafka's Utils.abs of a signed 32-bit number: the smallest has no opposite, and gives 0."""
    return 0 if number == -_HALF else abs(number)


def int32(number: int) -> int:
    """What is left of a number in signed 32 bits."""
    return (number + _HALF) % _INT32 - _HALF
