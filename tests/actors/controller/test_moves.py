"""The arithmetic of a move: what comes, what goes, whence and whither (B104, B107, B108, H35)."""

import pytest

from actors.controller.moves import (
    arrived,
    is_moving,
    keeping,
    moving_to,
    origin_of,
    target_of,
    without,
)
from wire.znodes import ReplicaAssignment


def assignment(*replicas, adding=(), removing=()):
    return ReplicaAssignment(
        replicas=replicas, adding_replicas=tuple(adding), removing_replicas=tuple(removing)
    )


@pytest.mark.parametrize(
    ("given", "moves"),
    [
        (assignment(1, 2), False),
        (assignment(1, 2, adding=[2]), True),
        (assignment(1, 2, removing=[1]), True),
        (assignment(1, 2, 3, adding=[3], removing=[1]), True),
    ],
)
def test_a_move_is_under_way_while_a_replica_comes_or_goes(given, moves):
    assert is_moving(given) is moves


@pytest.mark.behaviour("B104")
@pytest.mark.parametrize(
    ("given", "origin", "target"),
    [
        (assignment(1, 2), (1, 2), (1, 2)),
        (assignment(4, 5, 1, 2, adding=[4, 5], removing=[1, 2]), (1, 2), (4, 5)),
        (assignment(2, 3, 1, adding=[3], removing=[1]), (2, 1), (2, 3)),
        (assignment(1, 2, 3, adding=[3]), (1, 2), (1, 2, 3)),
        (assignment(1, 2, 3, removing=[2]), (1, 2, 3), (1, 3)),
    ],
)
def test_origin_and_target_follow_from_what_is_added_and_removed(given, origin, target):
    assert origin_of(given) == origin
    assert target_of(given) == target


@pytest.mark.behaviour("B104")
@pytest.mark.parametrize(
    ("given", "target", "move"),
    [
        (assignment(1, 2), (3, 4), assignment(3, 4, 1, 2, adding=[3, 4], removing=[1, 2])),
        (assignment(1, 2), (2, 3), assignment(2, 3, 1, adding=[3], removing=[1])),
        (assignment(1, 2), (1, 2, 3), assignment(1, 2, 3, adding=[3])),
        (assignment(1, 2, 3), (3,), assignment(3, 1, 2, removing=[1, 2])),
        (assignment(1, 2), (2, 1), assignment(2, 1)),  # another order is no move of replicas
        (assignment(1, 2), (1, 2), assignment(1, 2)),
    ],
)
def test_a_move_holds_the_target_first_and_then_what_it_leaves_behind(given, target, move):
    assert moving_to(given, target) == move
    assert target_of(move) == target


@pytest.mark.behaviour("B107")
@pytest.mark.parametrize(
    ("target", "move"),
    [
        ((5, 6), assignment(5, 6, 1, 2, adding=[5, 6], removing=[1, 2])),
        ((4, 5), assignment(4, 5, 1, 2, adding=[4, 5], removing=[1, 2])),
        ((2, 3), assignment(2, 3, 1, adding=[3], removing=[1])),
    ],
)
def test_a_newer_target_replaces_the_first_and_the_origin_is_kept(target, move):
    under_way = moving_to(assignment(1, 2), (3, 4))

    assert moving_to(under_way, target) == move
    assert set(origin_of(move)) == {1, 2}


@pytest.mark.behaviour("B108")
def test_moving_to_the_origin_is_the_way_back():
    under_way = moving_to(assignment(1, 2), (3, 4))

    back = moving_to(under_way, origin_of(under_way))

    assert back == assignment(1, 2)
    assert not is_moving(back)


def test_a_move_that_has_arrived_has_the_target_and_nothing_else():
    assert arrived(moving_to(assignment(1, 2), (2, 3))) == assignment(2, 3)
    assert arrived(assignment(1, 2)) == assignment(1, 2)


@pytest.mark.parametrize(
    ("given", "broker", "kept"),
    [
        (
            assignment(5, 1, adding=[5], removing=[1]),
            3,
            assignment(5, 1, 3, adding=[5], removing=[1, 3]),
        ),
        (assignment(1, 2), 3, assignment(1, 2, 3, removing=[3])),
    ],
)
def test_a_replica_that_is_kept_stays_until_the_move_is_over_and_not_longer(given, broker, kept):
    # The H35 scenario itself is tests/simulation/test_historic_*: here is only its arithmetic.
    assert keeping(given, broker) == kept
    assert target_of(kept) == target_of(given)
    assert is_moving(kept)


@pytest.mark.parametrize(
    ("given", "broker", "rest"),
    [
        (assignment(1, 2, 3), 2, assignment(1, 3)),
        (
            assignment(3, 1, 2, adding=[3], removing=[1, 2]),
            1,
            assignment(3, 2, adding=[3], removing=[2]),
        ),
        (assignment(3, 1, 2, adding=[3], removing=[1, 2]), 3, assignment(1, 2, removing=[1, 2])),
        (assignment(1, 2), 9, assignment(1, 2)),
    ],
)
def test_a_replica_that_is_gone_is_on_no_list(given, broker, rest):
    assert without(given, broker) == rest
