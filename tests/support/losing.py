"""A seed that loses records as Kafka did before KIP-101, whatever else seeds come to do."""

from functools import cache
from itertools import count

from actors.faults.scenario import Scenario
from actors.faults.simulated import judge, scenario_of_seed

FAULTS, RECORDS = 12, 100
GENERATION = "high-watermark"
LOSS = "I-7"


@cache
def losing_seed() -> int:
    """The first."""
    return next(seed for seed in count(1) if is_lost(losing(seed)))


def losing(seed: int) -> Scenario:
    overrides = {"replication.generation": GENERATION}
    return scenario_of_seed(seed, faults=FAULTS, records=RECORDS, overrides=overrides)


def is_lost(scenario: Scenario) -> bool:
    return judge(scenario, only=(LOSS,)).invariant == LOSS
