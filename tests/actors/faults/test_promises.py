"""What makes a promise void, and what does not: whole runs that lose records on purpose."""

import ast
import inspect
import textwrap

import pytest

from actors.faults.every import all_invariants
from actors.faults.history.events import Polled
from actors.faults.scenario import Load, Produce, Scenario, Step, Topic
from actors.faults.simulated import judge
from actors.faults.vocabulary import Kill, LoseUnsynced, Restart
from actors.faults.workload import Workload
from runtime.simulation.disk import SimulatedDisk

ALONE = Topic(replicas=((2,),))
TWINS = Topic(replicas=((2, 3),))
SENT = Step(do=Produce(records=5, may_fail=False))


def verdict_of(topic, *steps):
    scenario = Scenario(
        name="x",
        controller=1,
        topics=(topic,),
        load=Load(records=0),
        steps=steps,
        overrides={"offsets.topic.num.partitions": 1},
    )
    return judge(scenario)


def cut_off(*brokers, process_only):
    """All of them lose what they have not synced, if it is a power cut, and come back."""
    return (
        *(Step(do=LoseUnsynced(broker=each)) for each in brokers),
        *(Step(do=Kill(broker=each, process_only=process_only)) for each in brokers),
        *(Step(do=Restart(broker=each)) for each in brokers),
    )


@pytest.fixture
def forgetful_kernel(monkeypatch):
    """An operating system that does not keep what a process has written, once that is killed."""
    monkeypatch.setattr(SimulatedDisk, "settle", lambda _: None)


@pytest.mark.behaviour("I-7")
@pytest.mark.parametrize(("topic", "brokers"), [(ALONE, (2,)), (TWINS, (2, 3))])
def test_a_killed_process_voids_no_promise(topic, brokers, forgetful_kernel):
    verdict = verdict_of(topic, SENT, *cut_off(*brokers, process_only=True))

    assert verdict.invariant == "I-7", verdict.violation
    assert "whose log ends at 0" in verdict.violation


@pytest.mark.behaviour("I-7")
@pytest.mark.parametrize(("topic", "brokers"), [(ALONE, (2,)), (TWINS, (2, 3))])
def test_a_killed_process_loses_nothing(topic, brokers):
    assert verdict_of(topic, SENT, *cut_off(*brokers, process_only=True)).is_good


@pytest.mark.behaviour("I-7")
@pytest.mark.parametrize(("topic", "brokers"), [(ALONE, (2,)), (TWINS, (2, 3))])
def test_a_power_cut_of_all_in_sync_voids_what_they_have_promised(topic, brokers):
    verdict = verdict_of(topic, SENT, *cut_off(*brokers, process_only=False))

    assert verdict.is_good, verdict.violation


def test_who_plays_has_the_clients_history_judged(monkeypatch):
    read_all = Workload.read_all

    async def see_a_phantom(self):
        await read_all(self)
        seen = Polled(at_ms=9e9, client="x", topic="orders", partition=0, offset=0, value="none's")
        self.history.events.append(seen)

    monkeypatch.setattr(Workload, "read_all", see_a_phantom)

    assert verdict_of(TWINS, SENT).invariant == "history"


@pytest.mark.parametrize("invariant", all_invariants(), ids=lambda each: each.name)
def test_an_invariant_hears_of_every_kind_of_event_that_it_handles(invariant):
    if not invariant.events:
        return
    source = textwrap.dedent(inspect.getsource(type(invariant).on_event))
    handled = {
        name.id
        for call in ast.walk(ast.parse(source))
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "isinstance"
        for name in ast.walk(call.args[1])
        if isinstance(name, ast.Name)
    }

    assert handled <= {kind.__name__ for kind in invariant.events}
