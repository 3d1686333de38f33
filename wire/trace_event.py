"""What every event of a trace is made of.

Rule: an event is a flat, frozen value; its fields are the columns of its table.
"""

from collections.abc import Iterable

import msgspec


class TraceEvent(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """What all events share; `Stamp` says when, where and because of what."""


class Stamp(msgspec.Struct, frozen=True, array_like=True):
    """The first columns of every table."""

    id: int  # unique in a run; `cause` of later events points here
    time_us: int  # since 1970, by the clock of the run and not by a broker's skewed one
    node: str
    cause: int  # the id of the MessageHandled during which this happened; 0: from outside


def ids(brokers: Iterable[int]) -> str:
    """A list of ids as one column."""
    return ",".join(map(str, brokers))
