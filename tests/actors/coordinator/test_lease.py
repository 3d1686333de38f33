"""How long a coordinator trusts its memory without ZooKeeper (I-25)."""

import pytest

from actors.coordinator.lease import Lease
from runtime.keeper import SessionEvent, SessionState
from wire.errors import CoordinatorNotAvailable

pytestmark = pytest.mark.behaviour("B176")
SESSION_MS = 6_000


@pytest.fixture
def lease(sim):
    return Lease(sim.world("broker-1").clock, SESSION_MS)


def note(lease, state, session=1):
    lease.note(SessionEvent(state, session))


def is_trusted(lease, led_since_ms=0):
    try:
        lease.check(led_since_ms)
    except CoordinatorNotAvailable:
        return False
    return True


async def test_who_has_zookeeper_is_trusted(sim, lease):
    assert is_trusted(lease)

    note(lease, SessionState.CONNECTED)
    await sim.sleep(10 * SESSION_MS)

    assert is_trusted(lease)


async def test_who_lost_it_is_trusted_for_a_third_of_a_session(sim, lease):
    note(lease, SessionState.SUSPENDED)

    await sim.sleep(SESSION_MS / 3 - 1)
    assert is_trusted(lease)
    await sim.sleep(1)
    assert not is_trusted(lease)


async def test_whose_session_is_over_is_not_trusted(lease):
    note(lease, SessionState.EXPIRED)

    assert not is_trusted(lease)


async def test_who_has_it_again_is_trusted_again(sim, lease):
    note(lease, SessionState.SUSPENDED)
    await sim.sleep(SESSION_MS)
    note(lease, SessionState.CONNECTED)
    assert is_trusted(lease)

    note(lease, SessionState.SUSPENDED)
    assert is_trusted(lease)


async def test_after_a_lost_session_only_what_is_led_anew_is_trusted(sim, lease):
    await sim.sleep(5)
    note(lease, SessionState.EXPIRED)
    note(lease, SessionState.CONNECTED, session=2)

    assert not is_trusted(lease)
    assert is_trusted(lease, led_since_ms=sim.now_ms)


async def test_what_the_controller_never_speaks_of_again_is_trusted_after_a_while(sim, lease):
    """A new controller that finds a reborn leader in ZooKeeper has nothing new to tell it."""
    await sim.sleep(5)
    note(lease, SessionState.EXPIRED)
    note(lease, SessionState.CONNECTED, session=2)

    await sim.sleep(SESSION_MS - 1)
    assert not is_trusted(lease)
    await sim.sleep(1)
    assert is_trusted(lease)
