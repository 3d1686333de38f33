"""Where the absence of a guard is looked for.

Rule: a ground is a row of runs, each told by a number, so that what is found can be found again. A
run without anything removed finds nothing, and that is tried for every run that did find something.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from msgspec.structs import replace

from actors.faults.control_plane import control_plane
from actors.faults.liveness import liveness
from actors.faults.scenario import Scenario, read_scenario
from actors.faults.simulated import judge, scenario_of_seed
from actors.faults.violation import Violation
from runtime.simulation.simulator import run
from tests.actors.faults.planted import disturbed
from tests.simulation.mutations.schedules import MOMENTS, PLOTS, enact
from wire.errors import ApiError

SCENARIOS: Final = Path(__file__).parents[2] / "scenarios"


class Finding(NamedTuple):
    """What a run did wrong."""

    invariant: str
    sentence: str


class Ground(NamedTuple):
    """A row of runs."""

    name: str
    play: Callable[[int], Finding | None]
    most: int  # runs before it is given up
    why: str = ""  # it is not random seeds


def play(ground: Ground, number: int) -> Finding | None:
    """One run; whatever is raised in it is a finding."""
    try:
        return ground.play(number)
    except Violation as violation:
        return Finding(violation.invariant, str(violation))
    except (ApiError, TimeoutError) as error:  # a client was refused what it must get
        return Finding("refused", f"{type(error).__name__}: {error}")
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told
        return Finding("crash", f"{type(error).__name__}: {error}")


def _seed(number: int) -> Finding | None:
    return _judged(scenario_of_seed(number))


def _judged(given: Scenario) -> Finding | None:
    verdict = judge(given)
    return None if verdict.is_good else Finding(verdict.invariant, verdict.violation)


def _chaos(number: int) -> Finding | None:
    run(lambda: disturbed(number, *control_plane(), *liveness(), is_wide=True))
    return None


SEEDS: Final = Ground("seed", _seed, 500)
CHAOS: Final = Ground("chaos", _chaos, 200, "four brokers, bad weather and administration at once")


def scenario(name: str, why: str) -> Ground:
    """One of tests/scenarios."""
    path = SCENARIOS / f"{name}.toml"
    assert path.is_file(), f"{path.name} is no scenario: a ground that is not there catches nothing"
    return Ground(
        f"scenario {name}",
        lambda number: _judged(replace(read_scenario(path), seed=number)),
        1,
        why,
    )


def schedule(name: str, why: str) -> Ground:
    """One of schedules.py; those that have moments are tried at one after the other."""

    def play_it(number: int) -> Finding | None:
        enact(PLOTS[name](number))
        return None

    return Ground(f"schedule {name}", play_it, MOMENTS.get(name, 1), why)
