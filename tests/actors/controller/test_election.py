"""Who is elected: B041, B060, B061, B064, B065, B066 and B067, without a cluster."""

import pytest

from actors.controller.election import (
    Elected,
    elect_first,
    elect_for_shutdown,
    elect_offline,
    elect_preferred,
    elect_reassigned,
)


def alive(*brokers):
    return lambda broker: broker in brokers


# --- the first leader -----------------------------------------------------------------------------


@pytest.mark.behaviour("B041", "B067")
@pytest.mark.parametrize(
    ("replicas", "live", "elected"),
    [
        ((1, 2, 3), (1, 2, 3), Elected(1, (1, 2, 3))),
        ((3, 1, 2), (1, 2, 3), Elected(3, (3, 1, 2))),
        ((3, 1, 2), (1, 2), Elected(1, (1, 2))),
        ((2, 1), (1,), Elected(1, (1,))),
        ((1, 2), (3,), None),
        ((), (1, 2), None),
    ],
)
def test_a_new_partition_is_led_by_the_first_live_replica_and_all_live_ones_are_in_sync(
    replicas, live, elected
):
    assert elect_first(replicas, alive(*live)) == elected


# --- the leader is gone ---------------------------------------------------------------------------


@pytest.mark.behaviour("B060", "B067")
@pytest.mark.parametrize("allow_unclean", [False, True])
@pytest.mark.parametrize(
    ("replicas", "isr", "live", "elected"),
    [
        ((1, 2, 3), (1, 2, 3), (2, 3), Elected(2, (2, 3))),
        ((1, 2, 3), (1, 3), (2, 3), Elected(3, (3,))),  # 2 lives, and is not in sync
        ((1, 2, 3), (3, 2, 1), (2, 3), Elected(2, (3, 2))),  # AR decides, the ISR keeps its order
        ((3, 2, 1), (1, 2, 3), (1, 2), Elected(2, (1, 2))),
        ((1, 2, 3), (3, 2), (1, 2, 3), Elected(2, (3, 2))),
        ((1, 2, 3), (3, 1, 2), (1, 2, 3), Elected(1, (3, 1, 2))),  # the same leader again
    ],
)
def test_a_lost_leader_is_followed_by_the_first_assigned_replica_that_lives_and_is_in_sync(
    replicas, isr, live, elected, allow_unclean
):
    assert elect_offline(replicas, isr, alive(*live), allow_unclean=allow_unclean) == elected


@pytest.mark.behaviour("B060")
@pytest.mark.parametrize(
    ("replicas", "isr", "live"),
    [
        ((1, 2, 3), (1,), (2, 3)),
        ((1, 2, 3), (), (1, 2, 3)),
        ((1, 2), (1, 2), ()),
        ((2, 3), (1,), (1, 2, 3)),  # 1 lives and is in sync, but it is no replica
    ],
)
def test_without_a_live_replica_in_sync_nobody_is_elected(replicas, isr, live):
    assert elect_offline(replicas, isr, alive(*live), allow_unclean=False) is None


@pytest.mark.behaviour("B061", "B067")
@pytest.mark.parametrize(
    ("replicas", "isr", "live", "elected"),
    [
        ((1, 2, 3), (1,), (2, 3), Elected(2, (2,), is_unclean=True)),
        ((1, 3, 2), (1,), (2, 3), Elected(3, (3,), is_unclean=True)),
        ((1, 2, 3), (), (3,), Elected(3, (3,), is_unclean=True)),
        ((2, 3), (1,), (1, 3), Elected(3, (3,), is_unclean=True)),  # never a stranger
        ((1, 2, 3), (1,), (), None),
        ((1, 2), (1,), (3,), None),
    ],
)
def test_an_unclean_election_takes_the_first_live_replica_and_leaves_it_alone_in_sync(
    replicas, isr, live, elected
):
    assert elect_offline(replicas, isr, alive(*live), allow_unclean=True) == elected


# --- the end of a move ----------------------------------------------------------------------------


@pytest.mark.behaviour("B064", "B067")
@pytest.mark.parametrize(
    ("target", "isr", "live", "elected"),
    [
        ((4, 5), (1, 2, 5, 4), (1, 2, 4, 5), Elected(4, (1, 2, 5, 4))),
        ((4, 5), (1, 2, 5, 4), (1, 2, 5), Elected(5, (1, 2, 5, 4))),  # also who is dead stays in it
        ((4, 5), (1, 5), (1, 4, 5), Elected(5, (1, 5))),
        ((4, 5), (1, 2), (1, 2, 4, 5), None),
        ((4, 5), (4, 5), (1, 2), None),
        ((), (1,), (1,), None),
    ],
)
def test_after_a_move_the_first_live_target_in_sync_leads_and_the_isr_stays(
    target, isr, live, elected
):
    assert elect_reassigned(target, isr, alive(*live)) == elected


# --- the preferred replica ------------------------------------------------------------------------


@pytest.mark.behaviour("B065", "B067")
@pytest.mark.parametrize(
    ("replicas", "isr", "live", "elected"),
    [
        ((1, 2, 3), (3, 2, 1), (1, 2, 3), Elected(1, (3, 2, 1))),
        ((1, 2, 3), (3, 2, 1), (1,), Elected(1, (3, 2, 1))),  # also who is dead stays in it
        ((1, 2, 3), (1, 2, 3), (2, 3), None),
        ((1, 2, 3), (2, 3), (1, 2, 3), None),
        ((), (1,), (1,), None),
    ],
)
def test_only_the_head_of_the_assignment_is_preferred_and_the_isr_stays(
    replicas, isr, live, elected
):
    assert elect_preferred(replicas, isr, alive(*live)) == elected


# --- a broker leaves ------------------------------------------------------------------------------


@pytest.mark.behaviour("B066", "B067")
@pytest.mark.parametrize(
    ("replicas", "isr", "live", "leaving", "elected"),
    [
        ((1, 2, 3), (1, 2, 3), (1, 2, 3), {1}, Elected(2, (2, 3))),
        ((1, 2, 3), (3, 2, 1), (1, 2, 3), {1}, Elected(2, (3, 2))),
        ((1, 2, 3), (1, 2, 3), (1, 2, 3), {1, 2}, Elected(3, (3,))),  # all who leave, leave the ISR
        ((1, 2, 3), (1, 3), (1, 2, 3), {1}, Elected(3, (3,))),
        ((1, 2, 3), (1, 2, 3), (1, 3), {1}, Elected(3, (2, 3))),  # who is only dead stays in it
        ((1, 2, 3), (1, 2, 3), (1, 2, 3), set(), Elected(1, (1, 2, 3))),
        ((1, 2), (1, 2), (1, 2), {1, 2}, None),
        ((1, 2), (1,), (1, 2), {1}, None),
        ((1, 2), (1, 2), (1,), {1}, None),
    ],
)
def test_while_brokers_leave_the_first_in_sync_who_stays_leads_and_who_leaves_leaves_the_isr(
    replicas, isr, live, leaving, elected
):
    assert elect_for_shutdown(replicas, isr, alive(*live), leaving) == elected
