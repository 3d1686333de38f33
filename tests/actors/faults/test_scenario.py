"""Scenario files: what is written is read, and what is wrong is refused with the culprit's name."""

import os
import tomllib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actors.faults.scenario import (
    BadScenario,
    CreateTopic,
    Event,
    Expect,
    Load,
    Mend,
    Produce,
    Reassign,
    Scenario,
    Sent,
    State,
    Step,
    Topic,
    WriteZNode,
    read_scenario,
    scenario_of,
)
from actors.faults.vocabulary import KINDS, Cut, Drop, Heal, Kill, LingerSession, fault_of
from actors.faults.written import scenario_toml

ALL_OF_IT = Scenario(
    name="all of it",
    about='Every "kind" of thing\nthat can be said.',
    brokers=5,
    controller=2,
    seed=2**62,
    session_timeout_ms=3_000,
    worlds=("simulated",),
    overrides={"min.insync.replicas": 2, "replication_generation": "kip-101"},
    topics=(
        Topic(name="orders", replicas=((1, 2), (2, 1)), config={"segment.bytes": "1000"}),
        Topic(name="empty", replicas=((5,),)),
    ),
    load=Load(records=7, over_ms=0.5, acks=1, groups=True),
    steps=(
        Step(at_ms=10),
        Step(name="deaf", do=Cut(broker="controller", other="zookeeper"), after_ms=1e-5),
        Step(do=Drop(message="LeaderAndIsr", controller_epoch=7, to=2, nth=2), is_awaited=False),
        Step(do=Mend(step="deaf"), on=Event(event="LeaderElected", where={"leader": 2}, nth=3)),
        Step(do=Heal(number=0), after_messages=3),
        Step(do=CreateTopic(topic="new", replicas=((1, 2),), config={"a": "b"})),
        Step(do=Reassign(topic="new"), on_message=Sent(message="Fetch", source="a-client", to=1)),
        Step(do=Produce(via=3, timeout_ms=5, may_fail=False)),
        Step(do=WriteZNode(path="/a", data='{"a":"\x00\x7f\u2028"}')),
        Step(when=State(partition="orders-1", is_there=False)),
    ),
    expect=Expect(
        events=(Event(event="ControllerElected", where={"node": "broker-1"}),),
        never=(Event(event="LeaderElected", where={"is_unclean": True}),),
        states=(State(partition="orders-0", isr=(1, 2), not_leader=-1),),
        acknowledged=3,
        violated_in={"kip-101": "I-8"},
    ),
)


def test_what_is_written_is_read_again():
    assert scenario_of(tomllib.loads(scenario_toml(ALL_OF_IT))) == ALL_OF_IT


def test_what_is_as_always_need_not_be_said():
    assert scenario_of({"name": "x"}) == Scenario(name="x")


def test_a_scenario_without_topics_has_none_when_it_is_read_again():
    none = Scenario(name="x", topics=())

    assert scenario_of(tomllib.loads(scenario_toml(none))) == none


@given(
    text=st.text(max_size=40),
    number=st.floats(min_value=0, max_value=3_600_000),
    key=st.text(min_size=1, max_size=20),
)
@settings(max_examples=100, suppress_health_check=list(HealthCheck), deadline=None)
def test_any_text_and_any_number_comes_back(text, number, key):
    scenario = Scenario(
        name="x",
        about=text,
        topics=(Topic(replicas=((1,),), config={key: text}),),
        steps=(Step(do=WriteZNode(path="/" + text, data=text), at_ms=number),),
    )

    assert scenario_of(tomllib.loads(scenario_toml(scenario))) == scenario


def test_a_file_is_called_as_its_scenario(tmp_path):
    (tmp_path / "some-name.toml").write_text("brokers = 3")

    assert read_scenario(tmp_path / "some-name.toml").name == "some-name"


@pytest.mark.parametrize(
    ("generation", "violated"), [("high-watermark", "I-7"), ("kip-101", "I-8"), ("kip-320", "L-1")]
)
def test_which_invariant_is_violated_may_hang_on_the_generation(generation, violated):
    scenario = Scenario(
        name="x",
        overrides={"replication.generation": generation},
        expect=Expect(is_violated="L-1", violated_in={"high-watermark": "I-7", "kip-101": "I-8"}),
    )

    assert scenario.violated == violated


# --- what is refused ------------------------------------------------------------------------------


def step(said: str) -> str:
    return f"[[steps]]\n{said}"


@pytest.mark.parametrize(
    ("text", "culprit"),
    [
        ("brokers = ", "is no TOML"),
        ("brokrs = 3", "unknown field `brokrs`"),
        ("brokers = 0", "$.brokers"),
        ("brokers = 26", "$.brokers"),
        ("brokers = 'three'", "$.brokers"),
        ("name = 7", "$.name"),
        ("controller = 4", "controller is 4 of 3 brokers"),
        ("", "it is empty"),
        ("expect = {is_violated = 'I-99'}", "'I-99' cannot be violated; there are I-1, "),
        ("expect = {is_violated = 'expect'}", "'expect' cannot be violated"),
        ("expect = {violated_in = {kip-101 = 'I-0'}}", "'I-0' cannot be violated"),
        (
            "expect = {never = [{event = 'LeaderElected', where = {is_unclean = 'false'}}]}",
            "is_unclean is 'false', and must be true or false",
        ),
        (
            "expect = {events = [{event = 'LeaderElected', where = {leader = true}}]}",
            "leader is True, and must be a number",
        ),
        (
            "expect = {events = [{event = 'LeaderElected', where = {node = 1}}]}",
            "node is 1, and must be a text in quotes",
        ),
        ("worlds = ['imagined']", "worlds are ['imagined']"),
        ("worlds = []", "there are simulated, real"),
        ("overrides = {'min.insync' = 2}", "there is no setting min.insync"),
        ("overrides = {do = {fault = 'kill'}}", "there is no setting do"),
        ("topics = [{name = 'a', replicas = [[1, 4]]}]", "topic a has replicas [1, 4]"),
        ("topics = [{name = 'a', replicas = [[1, 1]]}]", "[1, 1]: one twice"),
        ("topics = [{replicas = [[1]]}, {replicas = [[2]]}]", "orders, orders: one twice"),
        ("load = {records = -1}", "$.load.records"),
        ("load = {acks = 2}", "$.load.acks"),
        ("steps = 3", "$.steps"),
        ("steps = [3]", "$.steps[0]"),
        (step("at_ms = -1"), "$.steps[0].at_ms"),
        (step("do = 3"), "step 1"),
        (step("do = {}"), "step 1"),
        (step("do = {fault = 'kil', broker = 1}"), "step 1: fault is 'kil'; it must be one of"),
        (step("do = {fault = 'kill'}"), "step 1: kill: Object missing required field `broker`"),
        (step("do = {fault = 'kill', broker = 1, quickly = true}"), "unknown field `quickly`"),
        (step("do = {fault = 'drop', message = 'Leader'}"), "there is no message 'Leader'"),
        (step("do = {action = 'dance'}"), "step 1: Invalid value 'dance'"),
        (step("do = {action = 'write-znode', path = 'a'}"), "step 1"),
        (step("do = {action = 'mend', step = 'a'}"), "step 1 mends 'a', and no step before is"),
        (step("name = 'a'\n[[steps]]\nname = 'a'"), "step 2 is 'a', and so is one before"),
        (step("on = {event = 'Leader'}"), "there is no event 'Leader'"),
        (step("on = {event = 'MessageHandled'}"), "there is no event 'MessageHandled'"),
        (step("on = {event = 'LeaderElected', where = {lead = 1}}"), "LeaderElected has no lead;"),
        (step("on = {event = 'LeaderElected', nth = 0}"), "$.steps[0].on.nth"),
        (step("on_message = {message = 'Leader'}"), "step 1: there is no message 'Leader'"),
        (step("when = {partition = 'orders'}"), "$.steps[0].when.partition"),
        ("expect = {never = [{event = 'Never'}]}", "there is no event 'Never'"),
        ("expect = {states = [{partition = 'x'}]}", "$.expect.states[0].partition"),
        ("expect = {violated_in = {'kip-1' = 'I-1'}}", "there is no generation 'kip-1'"),
        ("a = " + "[" * 5_000, "nested too deeply"),
    ],
)
def test_a_file_that_cannot_be_played_is_refused_by_its_culprit(tmp_path, text, culprit):
    path = tmp_path / "bad.toml"
    path.write_text(text)

    with pytest.raises(BadScenario) as refused:
        read_scenario(path)

    assert culprit in str(refused.value)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_what_is_no_file_or_no_text_is_refused(tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    (tmp_path / "large").write_text("#" * (1 << 20) + "#")
    os.mkfifo(tmp_path / "pipe")

    for path, why in (
        (tmp_path / "nowhere", "cannot be read: No such file"),
        (tmp_path, "is no file"),
        (tmp_path / "pipe", "is no file"),
        (tmp_path / "binary", "is no TOML"),
        (tmp_path / "large", "is larger than 1048576 bytes"),
    ):
        with pytest.raises(BadScenario, match=why):
            read_scenario(path)


# --- the vocabulary -------------------------------------------------------------------------------


def test_the_second_order_of_one_controller_to_one_broker_can_be_lost():
    said = (
        "do = { fault = 'drop', message = 'LeaderAndIsr', controller_epoch = 7, to = 2, nth = 2 }"
    )

    (only,) = scenario_of(tomllib.loads("name = 'x'\n" + step(said))).steps

    assert only.do == Drop(message="LeaderAndIsr", controller_epoch=7, to=2, nth=2)


def test_every_fault_can_be_written_and_read():
    needed = {
        "broker": 1,
        "other": 2,
        "ms": 5,
        "topic": "orders",
        "path": "/a",
        "error": "NOT_CONTROLLER",
    }
    for kind in KINDS.values():
        fields = {each: needed[each] for each in kind.__struct_fields__ if each in needed}
        fault = fault_of({"fault": KINDS_BY_CLASS[kind], **fields})
        scenario = Scenario(name="x", steps=(Step(do=fault),))

        assert scenario_of(tomllib.loads(scenario_toml(scenario))) == scenario


KINDS_BY_CLASS = {kind: name for name, kind in KINDS.items()}


def test_a_fault_is_called_as_files_spell_it():
    assert Kill(broker=1).name == "kill"
    assert LingerSession(broker=1, ms=1).name == "linger-session"
    assert {"stop-zookeeper", "refuse-zookeeper"} <= KINDS.keys()
