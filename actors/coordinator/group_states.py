"""A group's life as its coordinator sees it.

Rule: every legal change is a row of LEGAL_FROM. Nobody else says what may follow what.

    Empty                nobody is a member; offsets may be there
    PreparingRebalance   members are to join the next generation
    CompletingRebalance  all have joined; the leader is to say who gets what
    Stable               all know what they have
    Dead                 forgotten, or being unloaded
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final


class GroupState(Enum):
    """Kafka's names, as clients are told them."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


EMPTY: Final = GroupState.EMPTY
PREPARING: Final = GroupState.PREPARING_REBALANCE
COMPLETING: Final = GroupState.COMPLETING_REBALANCE
STABLE: Final = GroupState.STABLE
DEAD: Final = GroupState.DEAD

LEGAL_FROM: Final[Mapping[GroupState, frozenset[GroupState]]] = {
    EMPTY:      frozenset({PREPARING}),
    PREPARING:  frozenset({EMPTY, COMPLETING, STABLE}),
    COMPLETING: frozenset({PREPARING}),
    STABLE:     frozenset({COMPLETING}),
    DEAD:       frozenset({EMPTY, PREPARING, COMPLETING, STABLE, DEAD}),
}  # fmt: skip


def is_legal(former: GroupState, state: GroupState) -> bool:
    """Whether a group may become so."""
    return former in LEGAL_FROM[state]
