"""All invariants, each of which has a name that people can ask for.

Rule: who plays, judges or reads a scenario knows the same ones.
"""

from typing import Final

from actors.faults.control_plane import control_plane
from actors.faults.invariant import Invariant
from actors.faults.invariants import data_plane
from actors.faults.liveness import liveness


def all_invariants() -> tuple[Invariant, ...]:
    """One of each."""
    return (*control_plane(), *data_plane(), *liveness())


INVARIANTS: Final = tuple(each.name for each in all_invariants())
# What else a run may violate: it does not come to its end, an actor crashes, clients saw it.
VIOLATIONS: Final = (*INVARIANTS, "L-0", "crash", "history")
