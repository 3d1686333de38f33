"""Random scenarios in which a group shares the topics."""

import pytest

from actors.faults.simulated import judge, scenario_of_seed
from actors.faults.watched import Watched
from wire.trace import GroupStateChanged


@pytest.mark.parametrize("seed", range(1, 4))
def test_members_whose_brokers_fail_are_told_nothing_that_is_not_so(seed, monkeypatch):
    states = []
    begin = Watched.__init__

    def watch(self, sim, *arguments):
        begin(self, sim, *arguments)
        sim.trace.watch([GroupStateChanged], lambda _, event: states.append(event.state))

    monkeypatch.setattr(Watched, "__init__", watch)

    verdict = judge(scenario_of_seed(seed, members=3))

    assert verdict.is_good, verdict.violation
    assert {"PreparingRebalance", "CompletingRebalance", "Stable"} <= set(states)
