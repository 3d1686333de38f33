"""A seed is a scenario: the same one each time, and one that can be written down."""

import tomllib

import pytest

from actors.faults.nemesis import FAULTS, OVERRIDES
from actors.faults.scenario import ElectLeaders, Scenario, scenario_of
from actors.faults.simulated import scenario_of_seed
from actors.faults.vocabulary import KINDS, Fault, Kill
from actors.faults.written import scenario_toml

# No ZooKeeper loses a watch of a session that lives; a rotten bit may be the only copy; what
# ZooKeeper refuses to one broker, it refuses to all when it is stopped.
ON_REQUESTS = {
    kind for kind in KINDS if kind.endswith("-request")
}  # the load has a door of its own
LEFT_OUT = {"lose-watch", "flip-bit", "refuse-zookeeper", *ON_REQUESTS}


def faults_of(seed: int) -> list[Fault]:
    return [step.do for step in scenario_of_seed(seed).steps if isinstance(step.do, Fault)]


def test_one_seed_is_one_scenario_and_another_seed_is_another():
    assert scenario_of_seed(7) == scenario_of_seed(7)
    assert scenario_of_seed(7).steps != scenario_of_seed(8).steps


@pytest.mark.parametrize("faults", [1, 5, FAULTS])
def test_there_are_so_many_faults_and_deeds_come_on_top(faults):
    steps = scenario_of_seed(3, faults=faults).steps

    assert sum(isinstance(step.do, Fault) for step in steps) == faults


def test_a_seed_is_a_file_that_gives_the_same_scenario():
    for seed in range(20):
        scenario = scenario_of_seed(seed)

        assert scenario_of(tomllib.loads(scenario_toml(scenario))) == scenario


def test_seeds_have_every_fault_but_those_that_are_left_out_on_purpose():
    met = {fault.name for seed in range(150) for fault in faults_of(seed)}

    assert met == KINDS.keys() - LEFT_OUT


def test_nothing_allows_an_unclean_election():
    scenarios = [scenario_of_seed(seed) for seed in range(50)]
    elections = [
        step.do for each in scenarios for step in each.steps if isinstance(step.do, ElectLeaders)
    ]

    assert elections
    assert not any(each.unclean for each in elections)
    assert not any("unclean" in name for each in scenarios for name in each.overrides)


def test_most_that_die_are_processes_whose_bytes_the_operating_system_keeps():
    kills = [each for seed in range(100) for each in faults_of(seed) if isinstance(each, Kill)]

    assert sum(each.process_only for each in kills) > len(kills) / 2


def test_settings_differ_from_seed_to_seed_and_what_is_given_wins():
    def settings(seed: int, **given) -> dict:
        return scenario_of_seed(seed, overrides=given).overrides

    assert len({str(settings(seed)) for seed in range(30)}) > 5
    assert all(settings(seed).items() >= OVERRIDES.items() for seed in range(30))
    assert settings(1, **{"log.segment.bytes": 700})["log.segment.bytes"] == 700


def test_a_scenario_has_the_load_that_is_asked_for():
    scenario: Scenario = scenario_of_seed(1, records=77)

    assert scenario.load.records == 77
    assert scenario.load.over_ms >= sum(step.after_ms or 0 for step in scenario.steps)
