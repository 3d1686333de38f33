"""An idempotent producer's records are there once, whatever fails while it sends them."""

import pytest

from actors.broker.log.memory import ProducerMemory
from actors.broker.log.producers import ProducerStates
from actors.faults.simulated import judge, scenario_of_seed
from actors.faults.violation import Violation
from runtime.simulation.simulator import run
from tests.simulation.fault_cycle import Fault, Stage
from tests.simulation.idempotent_cycle import FAULTS, IdempotentStage, play

STEPS = 23  # of the cycle


def strike(step: int, fault: Fault) -> IdempotentStage | None:
    """The run with this fault at this step; None if it would change nothing there."""
    has_struck = []

    def on_step(stage: Stage, number: int) -> None:
        if number == step and stage.can(fault):
            has_struck.append(number)
            stage.strike(fault)

    stage = run(lambda: play(2, on_step))
    return stage if has_struck else None


def strike_everywhere(fault: str) -> list[IdempotentStage | None]:
    return [strike(step, Fault.parse(fault)) for step in range(STEPS)]


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_record_is_there_once_whatever_fails_at_whatever_step(fault):
    stages = strike_everywhere(str(fault))

    assert len([each for each in stages if each]) == STEPS
    if str(fault) in {"kill-1", "lose-1", "cut-1>client"}:  # else this shows nothing
        assert any(each.duplicates for each in stages if each)


def test_without_what_is_known_of_producers_a_record_would_be_there_twice(monkeypatch):
    monkeypatch.setattr(ProducerStates, "judge", lambda *_: None)

    with pytest.raises(Violation, match="there twice"):
        strike_everywhere("cut-1>client")


def test_a_leader_that_had_followed_must_know_what_it_followed(monkeypatch):
    real = ProducerMemory.take

    def take(self, accepted, segments, now_ms):
        if accepted.headers[0].partition_leader_epoch == 0:  # all that the first leader took
            return
        real(self, accepted, segments, now_ms)

    monkeypatch.setattr(ProducerMemory, "take", take)

    with pytest.raises(Violation, match="there twice"):
        strike_everywhere("kill-1")


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_random_faults_leave_no_duplicate(seed):
    verdict = judge(scenario_of_seed(seed, faults=12, records=60, idempotence=True))

    assert verdict.is_good, f"{verdict.invariant}: {verdict.violation}"
    assert verdict.account.acknowledged
