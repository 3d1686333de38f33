"""Which changes of state came in the wake of which faults."""

import pytest

from actors.faults.coverage import NAMES, WAKE_US, Coverage
from runtime.tracing import Trace
from wire.trace import ControllerElected, FaultInjected, LeaderElected, SessionChanged


class Told:
    """A trace whose time is moved by hand."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.trace = Trace(now_s=lambda: self.now_s, epoch_us=0, recording=False)
        self.coverage = Coverage(self.trace)

    def fault(self, kind: str) -> None:
        self.trace.leave("simulator", FaultInjected(kind, "broker-1", "", 1))

    def session(self, state: str) -> None:
        self.trace.leave("broker-1", SessionChanged(state, 1))


@pytest.fixture
def told() -> Told:
    return Told()


def test_a_change_counts_for_every_kind_of_fault_of_the_last_seconds(told):
    told.fault("kill")
    told.fault("cut")
    told.session("expired")
    told.session("expired")

    assert told.coverage.reached == (("session →expired", "cut"), ("session →expired", "kill"))


def test_a_change_long_after_a_fault_counts_for_none(told):
    told.fault("kill")
    told.now_s = (WAKE_US + 1) / 1e6

    told.session("expired")

    assert told.coverage.reached == ()


def test_a_change_before_any_fault_counts_for_none(told):
    told.session("connected")
    told.fault("kill")

    assert told.coverage.reached == ()


def test_a_leader_that_is_lost_is_no_leader_that_is_elected(told):
    told.fault("kill")
    for leader in (-1, 2):
        told.trace.leave("b", LeaderElected("orders", 0, leader, 1, "2", 1, "why", False))
    told.trace.leave("b", ControllerElected(1, 1, 1))

    assert {change for change, _ in told.coverage.reached} == {
        "controller elected",
        "leader elected",
        "leader lost",
    }


def test_every_change_has_a_name():
    assert len(NAMES) > 10
