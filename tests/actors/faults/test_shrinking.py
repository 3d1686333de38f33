"""A schedule that fails is cut down to what makes it fail."""

from msgspec.structs import replace

from actors.faults.scenario import Event, Load, Scenario, Step
from actors.faults.shrinking import shrink
from actors.faults.vocabulary import Cut, Heal, Kill, Resume
from tests.support.losing import is_lost, losing, losing_seed

NOISE = (Heal(), Resume(broker=1), Kill(broker=3))
DEFAULT = {"replication.generation": "kip-320"}


def planted(*steps: Step, records: int = 400) -> Scenario:
    return Scenario(name="x", steps=steps, load=Load(records=records))


def of(*faults: object) -> tuple[Step, ...]:
    return tuple(Step(do=fault, after_ms=10) for fault in faults)


def test_only_the_steps_that_matter_are_left():
    needed = {Kill(broker=2), Cut(broker=1, other=3)}
    scenario = planted(*of(*NOISE, Kill(broker=2), *NOISE, *NOISE, Cut(broker=1, other=3), *NOISE))

    shrunk = shrink(scenario, lambda each: needed <= {step.do for step in each.steps})

    assert [step.do for step in shrunk.steps] == [Kill(broker=2), Cut(broker=1, other=3)]
    assert shrunk.load.records == 1


def test_what_is_left_happens_when_it_did():
    scenario = planted(*of(*NOISE, Kill(broker=2), *NOISE, Cut(broker=1, other=3)))

    shrunk = shrink(scenario, lambda each: Kill(broker=2) in {step.do for step in each.steps})

    assert [(step.at_ms, step.after_ms) for step in shrunk.steps] == [(40, None)]


def test_the_load_stays_as_large_as_the_failure_needs():
    shrunk = shrink(planted(records=400), lambda each: each.load.records >= 90)

    assert shrunk.load.records == 100


def test_steps_that_wait_for_events_wait_for_them_still():
    waiting = Step(do=Kill(broker=2), on=Event(event="LeaderElected"))
    scenario = planted(*of(*NOISE), waiting, *of(*NOISE))

    shrunk = shrink(scenario, lambda each: waiting in each.steps)

    assert shrunk.steps == (waiting,)


def test_it_gives_up_after_so_many_tries_with_what_it_has():
    tried = []

    def fails(each: Scenario) -> bool:
        tried.append(each)
        return len(each.steps) >= 3

    scenario = planted(*of(*NOISE, *NOISE, *NOISE))

    assert len(shrink(scenario, fails, tries=2).steps) in range(3, 9)
    assert len(tried) == 2


def test_a_schedule_that_loses_records_is_cut_down_and_still_loses_them():
    """The truncation of before KIP-101, found by a seed."""
    lost = losing(losing_seed())

    shrunk = shrink(lost, is_lost, tries=12)

    assert len(shrunk.steps) < len(lost.steps)
    assert is_lost(shrunk)
    assert not is_lost(replace(shrunk, overrides=shrunk.overrides | DEFAULT))
