"""A group's states, pair by pair."""

import pytest

from actors.coordinator.group_states import (
    COMPLETING,
    DEAD,
    EMPTY,
    PREPARING,
    STABLE,
    GroupState,
    is_legal,
)

PAIRS = {
    (EMPTY, EMPTY): False,
    (EMPTY, PREPARING): True,
    (EMPTY, COMPLETING): False,
    (EMPTY, STABLE): False,
    (EMPTY, DEAD): True,
    (PREPARING, EMPTY): True,
    (PREPARING, PREPARING): False,
    (PREPARING, COMPLETING): True,
    (PREPARING, STABLE): False,
    (PREPARING, DEAD): True,
    (COMPLETING, EMPTY): False,
    (COMPLETING, PREPARING): True,
    (COMPLETING, COMPLETING): False,
    (COMPLETING, STABLE): True,
    (COMPLETING, DEAD): True,
    (STABLE, EMPTY): False,
    (STABLE, PREPARING): True,
    (STABLE, COMPLETING): False,
    (STABLE, STABLE): False,
    (STABLE, DEAD): True,
    (DEAD, EMPTY): False,
    (DEAD, PREPARING): False,
    (DEAD, COMPLETING): False,
    (DEAD, STABLE): False,
    (DEAD, DEAD): True,
}


def test_every_pair_is_written_out():
    assert set(PAIRS) == {(former, state) for former in GroupState for state in GroupState}


@pytest.mark.parametrize(("former", "state"), PAIRS, ids=lambda state: state.value)
def test_a_group_may_become(former, state):
    assert is_legal(former, state) is PAIRS[former, state]


def test_clients_are_told_kafkas_names():
    assert [state.value for state in GroupState] == [
        "Empty",
        "PreparingRebalance",
        "CompletingRebalance",
        "Stable",
        "Dead",
    ]
