"""Acknowledged records survive every single fault at every step, and the doubles that once failed.

All doubles take hours: `python -m tests.simulation.faults --double`.
"""

import pytest

from actors.broker.replica import Replica
from actors.controller.context import ControllerContext
from actors.faults.violation import Violation
from tests.simulation.fault_cycle import FAULTS, Fault
from tests.simulation.faults import CONTROLLERS, Choice, Schedule, explore, replay


def failures(choice: Choice, controllers: tuple[int, ...] = CONTROLLERS) -> dict[str, str]:
    runs = tuple(explore(controllers, faults=2, choice=choice))
    assert len(runs) > 100
    return {str(each.schedule): each.failure for each in runs if each.failure}


def first(step: int, fault: str) -> int:
    """Which of the first faults it is, as long as each could be."""
    return step * len(FAULTS) + FAULTS.index(Fault.parse(fault))


def test_every_single_fault_at_every_step_of_a_cycle_ends_well():
    runs = tuple(explore(CONTROLLERS, faults=1, choice=Choice()))

    assert {str(each.schedule): each.failure for each in runs if each.failure} == {}
    steps = {each.schedule.strikes[0].step for each in runs if each.schedule.strikes}
    assert len(runs) >= len(CONTROLLERS) * len(steps) * len(FAULTS)
    assert len(steps) >= 20  # from the client's send until the followers know


# Each lost acknowledged records once: an unregistered broker obeyed orders to its former life, and
# a new controller, before it elected another, handed leadership to one that had lost its log.
@pytest.mark.parametrize(("step", "one"), [(0, "kill-1"), (1, "cut-1>zookeeper")])
def test_a_leader_that_dies_and_a_successor_that_loses_its_log_at_any_step_end_well(step, one):
    which = first(step, one)
    choice = Choice(which, which, seconds=(Fault("lose", "2"),))

    assert failures(choice, controllers=(1,)) == {}


@pytest.mark.parametrize("controller", CONTROLLERS)
def test_a_follower_that_loses_its_log_and_a_leader_that_dies_at_any_step_end_well(controller):
    which = first(14, "lose-2")
    choice = Choice(which, which, seconds=(Fault("kill", "1"),))

    assert failures(choice, controllers=(controller,)) == {}


def test_it_would_be_found_if_a_broker_that_came_back_without_its_log_could_lead(monkeypatch):
    monkeypatch.setattr(ControllerContext, "note_returned", lambda *_: None)
    which = first(14, "lose-2")
    choice = Choice(which, which, seconds=(Fault("kill", "1"),))

    found = failures(choice, controllers=(1,))

    assert any(failure.startswith("Violation I-7") for failure in found.values())


def test_it_would_be_found_if_a_leader_did_not_wait_for_its_followers(monkeypatch):
    monkeypatch.setattr(Replica, "reached", lambda replica, *_: replica.log_end_offset)

    with pytest.raises(Violation, match="I-18"):
        replay(Schedule(controller=1))


@pytest.mark.parametrize("controller", CONTROLLERS)
def test_a_fork_at_a_step_is_the_same_run_as_its_schedule(controller):
    which = first(3, "lose-1")
    choice = Choice(which, which, stride=211)

    for ended in explore((controller,), faults=2, choice=choice):
        if ended.schedule.strikes:
            assert replay(ended.schedule).end == ended.end


def test_a_schedule_is_read_as_it_is_told():
    schedule = "1/7:cut-1>zookeeper/31:kill-1"

    assert str(Schedule.parse(schedule)) == schedule
