"""A scenario is played as it is written, and judged by what it says must be so.

Each of these is a whole run in the simulator, with every invariant looking on.
"""

import pytest

from actors.cluster import SimulatedCluster
from actors.faults.node_hand import NodeHand
from actors.faults.play import Play
from actors.faults.scenario import (
    BadScenario,
    CreateTopic,
    DeleteTopic,
    Event,
    Expect,
    Load,
    Mend,
    Produce,
    Scenario,
    Sent,
    State,
    Step,
    Topic,
    WriteZNode,
)
from actors.faults.simulated import judge
from actors.faults.vocabulary import (
    Cut,
    Drop,
    Duplicate,
    ExpireSession,
    Kill,
    LingerSession,
    RefuseZooKeeper,
    Restart,
    Resume,
)

IDLE = Load(records=0)
PAIR = (Topic(replicas=((2, 3),)),)


def played(*steps, expect=None, **fields):
    """The verdict, and what was told meanwhile."""
    told = []
    defaults = {"name": "x", "load": IDLE, "controller": 1, "topics": PAIR}
    scenario = Scenario(**(defaults | fields), steps=steps, expect=expect or Expect())
    return judge(scenario, tell=told.append), told


def elected(**where):
    return Event(event="LeaderElected", where={"topic": "orders", **where})


# --- the verdict ----------------------------------------------------------------------------------


def test_a_scenario_in_which_nothing_happens_is_good():
    verdict, _ = played(load=Load(records=10, over_ms=100))

    assert verdict.is_good
    assert verdict.account.acknowledged == 10


@pytest.mark.parametrize(
    ("expect", "said"),
    [
        (Expect(events=(elected(leader=3),)), "LeaderElected topic=orders leader=3 happened 0"),
        (Expect(never=(Event(event="BrokersChanged"),)), "BrokersChanged happened, and must never"),
        (Expect(states=(State(partition="orders-0", leader=3),)), "is not so in the end"),
        (Expect(acknowledged=3), "2 records were acknowledged, not 3"),
        (Expect(is_violated="I-7"), "I-7 held, and must be violated"),
        (Expect(violated_in={"kip-320": "I-8"}), "I-8 held, and must be violated"),
    ],
)
def test_what_does_not_come_true_makes_the_verdict_bad(expect, said):
    verdict, _ = played(
        Step(do=ExpireSession(broker=3)),
        Step(do=Produce(records=2), on=Event(event="BrokersChanged")),
        expect=expect,
    )

    assert not verdict.is_good
    assert verdict.invariant == "expect"
    assert said in verdict.violation


def test_a_wait_in_vain_names_its_step_and_what_it_waited_for():
    never = State(partition="orders-0", leader=3, isr=(2, 3))
    verdict, _ = played(Step(do=Produce(records=2)), Step(when=never))

    assert verdict.invariant == "L-0"
    assert "step 2 has waited in vain: " in verdict.violation
    assert "orders-0 is there, leader 3, in sync 2,3" in verdict.violation
    assert "leader 2, in sync 2,3" in verdict.violation
    assert verdict.account.acknowledged == 2, "also of a run that did not come to its end"


@pytest.mark.parametrize("fault", [Drop(to=99), Drop(source="controler"), Drop(to="leader of x")])
def test_a_fault_on_a_link_of_nobody_is_not_done(fault):
    verdict, told = played(Step(do=fault))

    assert verdict.account.refused == 1
    assert any("not done: " in line and " no broker" in line for line in told)


def test_a_topic_that_cannot_be_made_is_a_bad_scenario_and_no_violation():
    with pytest.raises(BadScenario, match="topic 'a/b'"):
        played(topics=(Topic(name="a/b", replicas=((1,),)),))


def test_a_znode_of_garbage_is_no_end_of_the_judges():
    garbage = WriteZNode(path="/brokers/topics/orders/partitions/0/state", data="{")
    verdict, _ = played(Step(do=garbage))

    assert verdict.is_good, verdict.violation  # nobody has to elect by it


def test_an_event_may_be_wanted_more_than_once():
    once = Step(do=ExpireSession(broker=3), after_ms=500)
    twice = Expect(events=(Event(event="BrokerRegistered", where={"broker": 3}, nth=2),))

    assert not played(once, Step(after_ms=500), expect=twice)[0].is_good
    assert played(once, once, Step(after_ms=500), expect=twice)[0].is_good


def test_an_order_that_was_lost_is_judged_when_it_was_sent_again():
    """The cluster is whole before: the one that missed it has no replica."""
    topics = (Topic(replicas=((1, 2),)),)
    lost = Step(do=Drop(message="UpdateMetadata", to=3), after_ms=500)
    create = Step(do=CreateTopic(topic="new", replicas=((2, 1),)))

    verdict, _ = played(lost, create, Step(after_ms=500), topics=topics)

    assert verdict.is_good, verdict.violation
    assert verdict.virtual_ms > 30_000


def test_what_never_comes_is_told_with_its_name():
    verdict, _ = played(Step(on=Event(event="ControllerElected")))

    assert verdict.invariant == "L-0"
    assert "no ControllerElected" in verdict.violation


# --- steps ----------------------------------------------------------------------------------------


def test_steps_are_told_as_they_are_done():
    _, told = played(Step(do=Kill(broker="leader of orders-0")), Step(do=Resume(broker=3)))

    assert told[0] == "#1: broker 2 is killed"
    assert told[1] == "not done: broker 3 is not paused"
    assert told[-1].startswith("heal")


def test_a_fault_that_hits_nobody_is_counted():
    verdict, _ = played(Step(do=Resume(broker=3)), Step(do=Kill(broker=9)))

    assert (verdict.account.injected, verdict.account.refused) == (0, 2)


def test_the_next_step_waits_for_the_end_of_one_unless_it_is_told_not_to():
    def told_first(*, is_awaited):
        restart, kill = Step(do=Restart(broker=1), is_awaited=is_awaited), Step(do=Kill(broker=2))
        _, told = played(restart, kill)
        return told[0]

    assert "broker 1" in told_first(is_awaited=True)
    assert told_first(is_awaited=False) == "#1: broker 2 is killed"


def test_a_step_can_be_mended_by_its_name_alone():
    verdict, told = played(
        Step(name="one", do=Cut(broker=2, other=3)),
        Step(name="other", do=Cut(broker=1, other=3)),
        Step(do=Mend(step="one")),
        Step(do=Mend(step="one")),
        Step(do=Produce(timeout_ms=5_000, may_fail=False)),
        overrides={"replica.socket.timeout.ms": 500},
    )

    assert verdict.is_good, verdict.violation
    assert told[2] == "#1: healed: the link between broker 2 and broker 3 is cut"
    assert told[3].startswith("not done: there is no fault 1 to heal")


def test_a_record_that_must_not_fail_makes_the_verdict_bad():
    cut = Step(do=Cut(broker=2, other=3))
    may = Produce(timeout_ms=500)
    may_not = Produce(timeout_ms=500, may_fail=False)
    never = Produce(partition=7, timeout_ms=500, may_fail=False)

    assert played(cut, Step(do=may))[0].is_good
    for step in (may_not, never):
        verdict, _ = played(cut, Step(do=step))
        assert "was not acknowledged" in verdict.violation


def test_a_client_may_ask_one_broker_alone_who_leads():
    asked = Step(on_message=Sent(message="Metadata", to=3))

    def ask(via):
        return played(Step(do=Produce(via=via), is_awaited=False), asked)[0]

    assert ask(3).is_good
    assert ask(None).invariant == "L-0"


def test_znodes_are_written_changed_and_removed_as_by_a_person():
    def write(data):
        return Step(do=WriteZNode(path="/config/mine", data=data))

    verdict, told = played(write("a"), write("b"), write(None), write(None))

    assert verdict.is_good, verdict.violation
    refused = [line for line in told if line.startswith("refused")]
    assert len(refused) == 1
    assert "/config/mine" in refused[0]


# --- faults that scenarios were the first to need -------------------------------------------------


def test_a_copy_of_a_message_can_come_later():
    wanted = Sent(message="LeaderAndIsrResponse", source=2, to=1, nth=2)
    copy = Duplicate(message="LeaderAndIsr", to=2, later_ms=700, times=1)
    create = Step(do=CreateTopic(topic="new", replicas=((2,),)), is_awaited=False)

    def answers(*faults):
        return played(*(Step(do=fault) for fault in faults), create, Step(on_message=wanted))[0]

    assert answers(copy).is_good
    assert answers().invariant == "L-0"


def test_what_zookeeper_refuses_fails_once_and_is_done_then():
    refuse = RefuseZooKeeper(broker=1, path="/brokers/topics/new")
    failed = Expect(events=(Event(event="KeeperOperation", where={"outcome": "KeeperError"}),))
    create = Step(do=CreateTopic(topic="new", replicas=((2,),)))

    verdict, _ = played(Step(do=refuse), create, create, Step(after_ms=500), expect=failed)

    assert verdict.is_good, verdict.violation
    assert not played(create, expect=failed)[0].is_good


def test_znodes_of_a_session_that_lingers_are_removed_late_and_only_once():
    linger = Step(do=LingerSession(broker=1, ms=5_000))
    kill = Step(do=Kill(broker=1))
    gone = Event(event="WatchFired", where={"path": "/controller", "change": "deleted"})

    def ended(*steps):
        verdict, _ = played(*steps, Step(on=gone), session_timeout_ms=1_000)
        assert verdict.is_good, verdict.violation
        return verdict.virtual_ms

    assert ended(linger, kill) == pytest.approx(ended(kill) + 5_000, abs=500)


async def test_what_was_written_to_a_topic_is_not_lost_with_the_topic(sim):
    """Nobody but the one who plays looks on: he knows by himself that the topic is another."""
    cluster = SimulatedCluster(sim, brokers=3)
    await cluster.start_nodes()
    steps = (
        Step(do=Produce(topic="old", records=3)),
        Step(do=DeleteTopic(topic="old")),
        Step(when=State(partition="old-0", is_there=False)),
        Step(do=CreateTopic(topic="old", replicas=((3, 1),))),
        Step(when=State(partition="old-0", isr=(1, 3))),
    )
    topics = (Topic(name="old", replicas=((1, 2),)),)
    play = Play(
        Scenario(name="x", steps=steps, topics=topics, load=IDLE), cluster, NodeHand(cluster)
    )

    await play.run()

    assert play.account.acknowledged == 3


async def test_one_plays_a_scenario_once_and_leaves_no_rule_behind(sim):
    cluster = SimulatedCluster(sim, brokers=3)
    await cluster.start_nodes()
    held = Step(do=Drop(message="Fetch", to=2, times=3))
    scenario = Scenario(name="x", steps=(held,), load=Load(records=5, over_ms=50))
    play = Play(scenario, cluster, NodeHand(cluster))

    await play.run()

    assert play.account.injected == 1
    assert sim.tamper.rules == []
