"""Fault schedules for Hypothesis: sound clusters hold, a planted bug is found and made short."""

import subprocess
import sys
import tomllib
from random import Random

import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st

from actors.faults.scenario import Scenario, Topic, scenario_of
from actors.faults.vocabulary import KINDS, Kill
from actors.faults.written import scenario_toml
from actors.testing.schedules import fault_schedules, faults, verdict_of

# What a sound cluster may lose records by, and what the others stand for.
LEFT_OUT = {
    "fill-disk",
    "fail-disk",
    "lose-unsynced",
    "flip-bit",
    "lose-watch",
    "refuse-zookeeper",
    "linger-session",
    *(kind for kind in KINDS if kind.endswith("-request")),  # the load has a door of its own
}
TWO = (Topic(name="orders", replicas=((1, 2),)),)


@settings(max_examples=4, deadline=None, database=None, derandomize=True)
@given(fault_schedules(brokers=3, max_faults=6, records=30))
def test_a_sound_cluster_holds_whatever_is_done_to_it(scenario):
    assert verdict_of(scenario).is_good


def test_a_planted_bug_is_found_and_its_schedule_made_as_short_as_it_can_be():
    """Followers that truncate to their high watermark lose what is committed, as Kafka's once."""
    strategy = fault_schedules(
        2,
        max_faults=3,
        kinds=("kill",),
        topics=TWO,
        records=10,
        overrides={"replication.generation": "high-watermark"},
    )

    found = find(
        strategy,
        lambda scenario: not verdict_of(scenario).is_good,
        settings=settings(max_examples=200, deadline=None, database=None),
        random=Random(1),
    )

    assert [type(step.do) for step in found.steps] == [Kill, Kill]
    assert {step.do.broker for step in found.steps} == {1, 2}
    assert verdict_of(found).invariant in {"I-7", "I-18", "I-19", "history"}


@settings(max_examples=50, deadline=None, database=None)
@given(fault_schedules(brokers=4, max_faults=8, seeds=st.integers(0, 99)))
def test_a_schedule_is_a_scenario_that_can_be_written_and_read(scenario: Scenario):
    assert scenario_of(tomllib.loads(scenario_toml(scenario))) == scenario


def test_every_fault_of_the_vocabulary_can_be_drawn_but_those_that_may_lose_records():
    for kind in KINDS.keys() - LEFT_OUT:
        find(faults(3, kinds=(kind,)), lambda _: True)
    for kind in LEFT_OUT:
        with pytest.raises(ValueError, match="is left out"):
            faults(3, kinds=(kind,))
    with pytest.raises(ValueError, match="'explode' is unknown"):
        faults(3, kinds=("explode",))


def test_the_plugin_works_without_hypothesis():
    code = (
        "import sys; sys.modules['hypothesis'] = None; "
        "import actors.testing, actors.testing.plugin, actors.commands.inject_fault"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )

    assert done.returncode == 0, done.stderr
