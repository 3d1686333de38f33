"""Faults have numbers, and what mends them leaves the same number."""

from runtime.fault_log import FaultLog
from wire.trace import FaultHealed, FaultInjected


def log_of() -> tuple[FaultLog, list]:
    events: list = []
    return FaultLog(events.append), events


def test_every_fault_has_a_number_of_its_own_and_is_open_until_it_is_mended():
    log, events = log_of()

    assert [log.injected("cut", "a", "b"), log.injected("pause", "a")] == [1, 2]
    assert set(log.open) == {1, 2}
    log.undone(1)
    log.undone(1)

    assert set(log.open) == {2}
    assert events == [
        FaultInjected("cut", "a", "b", 1),
        FaultInjected("pause", "a", "", 2),
        FaultHealed("cut", "a", 1),
    ]


def test_what_is_over_at_once_is_never_open():
    log, _ = log_of()

    assert log.injected("expire session", "a", is_over=True) == 1
    assert not log.open


def test_of_several_of_a_kind_the_last_is_healed_and_details_tell_links_apart():
    log, events = log_of()
    log.injected("cut", "a", "b")
    log.injected("cut", "a", "c")
    log.injected("cut", "a", "c")

    assert log.healed("cut", "a", "b") == 1
    assert log.healed("cut", "a") == 3
    assert log.healed("cut", "z") == 0
    assert events[-1] == FaultHealed("cut", "z", 0)
    assert set(log.open) == {2}


def test_healed_links_leave_all_other_faults_open():
    log, events = log_of()
    for fault in ("cut", "hold", "kill"):
        log.injected(fault, "a")

    log.links_healed()

    assert set(log.open) == {3}
    assert events[-3:] == [
        FaultHealed("cut", "a", 1),
        FaultHealed("hold", "a", 2),
        FaultHealed("links", "all", 0),
    ]
