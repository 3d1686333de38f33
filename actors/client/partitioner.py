"""Which partition a record goes to.

Rule: a key is always mapped to the same partition, the one that Kafka's own clients choose for it.
Records without a key stay with one partition until its batch is full or gone, and then go to the
next: a counter decides, not chance, so that a run can be repeated.
"""

from collections.abc import Callable, Sequence
from typing import Final

_SEED: Final = 0x9747B28C
_MULTIPLIER: Final = 0x5BD1E995
_SHIFT: Final = 24
_INT32: Final = 0xFFFFFFFF
_POSITIVE: Final = 0x7FFFFFFF


def murmur2(data: bytes) -> int:
    """The hash that Kafka's clients use for keys, as an unsigned number of 32 bits."""
    length = len(data)
    mixed = _SEED ^ length
    whole = length - length % 4
    for position in range(0, whole, 4):
        word = int.from_bytes(data[position : position + 4], "little")
        word = word * _MULTIPLIER & _INT32
        word ^= word >> _SHIFT
        mixed = mixed * _MULTIPLIER & _INT32 ^ word * _MULTIPLIER & _INT32
    if whole < length:
        mixed ^= int.from_bytes(data[whole:], "little")
        mixed = mixed * _MULTIPLIER & _INT32
    mixed ^= mixed >> 13
    mixed = mixed * _MULTIPLIER & _INT32
    return mixed ^ mixed >> 15


def partition_of_key(key: bytes, partitions: int) -> int:
    """The partition of a key in a topic of so many, whether or not it has a leader."""
    return (murmur2(key) & _POSITIVE) % partitions


class StickyPartitioner:
    """Where records without a key go."""

    def __init__(self) -> None:
        self._current: dict[str, int] = {}
        self._turns: dict[str, int] = {}

    def choose(self, topic: str, available: Sequence[int], has_room: Callable[[int], bool]) -> int:
        """The partition of last time, as long as there is room in its open batch."""
        current = self._current.get(topic)
        if current is not None and current in available and has_room(current):
            return current
        turn = self._turns.get(topic, 0)
        self._turns[topic] = turn + 1
        self._current[topic] = chosen = available[turn % len(available)]
        return chosen
