"""Every scenario of this folder, played in the simulator: what it says comes true, and not by luck.

A scenario must be able to fail. Each fails without its steps; each historic bug shows itself in the
generation that had it, or when the guard that was Kafka's answer is taken out.
"""

import tomllib
from functools import cache
from pathlib import Path

import pytest
from msgspec.structs import replace

from actors.faults.scenario import Mend, Scenario, read_scenario, scenario_of
from actors.faults.simulated import judge
from actors.faults.vocabulary import Fault
from actors.faults.written import scenario_toml

NEVER_CAME = "L-0"
FILES = sorted(Path(__file__).parent.glob("*.toml"))
every_scenario = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)


@cache
def scenario(path: Path) -> Scenario:
    return read_scenario(path)


@every_scenario
def test_what_a_scenario_expects_comes_true(path):
    verdict = judge(scenario(path))

    assert verdict.is_good, verdict.violation
    assert verdict.account.refused == 0, "a fault of it hits nobody"


@every_scenario
def test_a_scenario_fails_without_its_steps(path):
    verdict = judge(replace(scenario(path), steps=()))

    assert verdict.invariant == "expect", verdict.violation


@every_scenario
def test_a_scenario_fails_if_nothing_is_broken_although_all_else_is_done(path):
    deeds = tuple(
        replace(step, do=None) if isinstance(step.do, Fault | Mend) else step
        for step in scenario(path).steps
    )

    verdict = judge(replace(scenario(path), steps=deeds))

    assert verdict.invariant in {"expect", NEVER_CAME}, verdict.violation


@every_scenario
def test_a_scenario_explains_itself_to_a_stranger(path):
    about = scenario(path).about

    assert about.endswith(".")
    assert len(about.split()) >= 15


@every_scenario
def test_a_scenario_can_be_written_and_read_again(path):
    written = scenario_toml(scenario(path))

    assert scenario_of(tomllib.loads(written)) == scenario(path)
