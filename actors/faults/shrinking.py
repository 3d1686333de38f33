"""A failing schedule made shorter, as long as it fails in the same way.

Rule: what is left fails by the same invariant when it is played. Steps go in halves, then quarters,
and so on down to single ones; then the load becomes smaller. The times of the others stay.
"""

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from actors.faults.scenario import Scenario, Step

MOST_TRIES: Final = 300
Fails = Callable[[Scenario], bool]


def shrink(scenario: Scenario, fails: Fails, *, tries: int = MOST_TRIES) -> Scenario:
    """The shortest that was found."""
    search = _Search(fails, tries)
    scenario = _fewer_steps(_timed(scenario), search)
    scenario = _fewer_records(scenario, search)
    return _fewer_steps(scenario, search)


class _Search:
    """Asks, but not for ever."""

    def __init__(self, fails: Fails, tries: int) -> None:
        self._fails = fails
        self.left = tries

    def __call__(self, scenario: Scenario) -> bool:
        if self.left <= 0:
            return False
        self.left -= 1
        return self._fails(scenario)


def _timed(scenario: Scenario) -> Scenario:
    """With the time of each step since the beginning, so that others may go without moving it."""
    steps: list[Step] = []
    now_ms = 0.0
    for step in scenario.steps:
        if step.after_ms is None or step.on or step.when or step.after_messages:
            return scenario
        now_ms = round(now_ms + step.after_ms, 3)
        steps.append(replace(step, after_ms=None, at_ms=now_ms))
    return replace(scenario, steps=tuple(steps))


def _fewer_steps(scenario: Scenario, fails: _Search) -> Scenario:
    size = max(1, len(scenario.steps) // 2)
    while size:
        start = 0
        while start < len(scenario.steps):
            fewer = scenario.steps[:start] + scenario.steps[start + size :]
            shorter = replace(scenario, steps=fewer)
            if fails(shorter):
                scenario = shorter
            else:
                start += size
        size //= 2
    return scenario


def _fewer_records(scenario: Scenario, fails: _Search) -> Scenario:
    while scenario.load.records > 1:
        load = replace(scenario.load, records=scenario.load.records // 2)
        smaller = replace(scenario, load=load)
        if not fails(smaller):
            return scenario
        scenario = smaller
    return scenario
