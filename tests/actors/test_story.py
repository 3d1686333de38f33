"""What a person is told of what happens."""

import pytest
from msgspec.structs import replace

from actors.cluster import SimulatedCluster
from actors.conditions import isr, leader
from actors.story import FEW, TELLERS, StoryEvent, Teller, condensed, listen
from wire.trace import (
    FaultInjected,
    GroupStateChanged,
    IsrChanged,
    LeaderElected,
    NodeStopped,
    ReplicaLeftIsr,
    SessionChanged,
    Stamp,
)

STAMP = Stamp(5, 7_000_000, "broker-2", 0)


def elected(partition=0, leader=2, isr="2,3", *, is_unclean=False):
    return LeaderElected("orders", partition, leader, 4, isr, 9, "because", is_unclean)


def isr_changed(now):
    return IsrChanged("orders", 0, 4, now, 10)


def test_an_election_names_the_partition_the_leader_and_the_epoch():
    told = Teller().tell(STAMP, elected())

    assert told == StoryEvent(
        5, 7_000, "election", "info", "orders-0: broker 2 leads, epoch 4", 2, "orders", 0
    )


def test_an_unclean_election_says_what_it_costs():
    told = Teller().tell(STAMP, elected(is_unclean=True))

    assert told is not None
    assert told.level == "bad"
    assert "records may be lost" in told.text


def test_who_came_and_who_went_is_told():
    teller = Teller()
    teller.tell(STAMP, elected(isr="1,2,3"))

    fell = teller.tell(STAMP, isr_changed("1,2"))
    back = teller.tell(STAMP, isr_changed("1,2,3"))

    assert fell is not None
    assert back is not None
    assert (fell.level, fell.text) == (
        "warning",
        "orders-0: broker 3 fell out of sync, in sync are 1,2",
    )
    assert (back.level, back.text) == (
        "good",
        "orders-0: broker 3 is in sync again, in sync are 1,2,3",
    )


def test_a_partition_that_nobody_leads_is_bad_news():
    told = Teller().tell(STAMP, ReplicaLeftIsr("orders", 0, 1, -1, 5, "1"))

    assert told is not None
    assert (told.level, told.text) == ("bad", "orders-0 has no leader")


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (FaultInjected("cut", "broker-1", "zookeeper"), "fault: cut broker 1 and ZooKeeper"),
        (NodeStopped("killed"), "broker 2 is down: killed"),
        (NodeStopped("stopped"), "broker 2 has stopped"),
        (SessionChanged("expired", 2), "broker 2 has lost its session, and opens another"),
    ],
)
def test_faults_and_brokers_are_told_by_their_numbers(event, text):
    told = Teller().tell(STAMP, event)

    assert told is not None
    assert told.text == text


@pytest.mark.parametrize(
    ("state", "text"),
    [
        ("PreparingRebalance", "group billing has its members join again: a joins"),
        ("Stable", "group billing shares out among 2, in generation 7"),
        ("Empty", "group billing has no members left"),
        ("CompletingRebalance", None),
    ],
)
def test_what_a_group_does_is_told(state, text):
    told = Teller().tell(STAMP, GroupStateChanged("billing", 7, "Stable", state, 2, "a joins"))

    assert (told and told.text) == text


def test_a_connection_is_no_news():
    assert Teller().tell(STAMP, SessionChanged("connected", 1)) is None


def test_few_of_a_kind_are_told_one_by_one():
    teller = Teller()
    events = [teller.tell(STAMP, elected(number)) for number in range(FEW)]

    assert condensed(events) == events


def test_many_of_a_kind_are_counted_and_still_there_as_parts():
    teller = Teller()
    leaders = [1, 1, 2, 3]
    events = [
        teller.tell(replace(STAMP, id=5 + n), elected(n, leader))
        for n, leader in enumerate(leaders)
    ]

    first, *parts = condensed(events)

    assert first.count == len(leaders)
    assert first.text == (
        "4 partitions have elected: broker 1 leads 2, broker 2 leads 1, broker 3 leads 1"
    )
    assert not first.is_part
    assert all(part.is_part for part in parts)
    assert [part.partition for part in parts] == [0, 1, 2, 3]
    assert [first.id, *(part.id for part in parts)] == [-5, 5, 6, 7, 8]


async def test_a_cluster_tells_its_story_until_it_is_stopped(sim):
    cluster = SimulatedCluster(sim, brokers=3)
    told: list[StoryEvent] = []
    stop = listen(sim.trace, cluster.clock, told.append)
    await cluster.start_nodes()
    await cluster.admin().create_topic("orders", assignments={0: (1, 2, 3)})

    cluster.kill(1)
    await cluster.until(leader("orders") != 1)
    await cluster.start_broker(1)
    await cluster.until(isr("orders") == {1, 2, 3})
    await sim.settle()
    stop()
    count = len(told)
    cluster.kill(2)
    await sim.settle()

    texts = [each.text for each in told]
    assert "broker 1 is down: killed" in texts
    assert any("broker 1 fell out of sync" in text or "leads" in text for text in texts)
    assert "orders-0: broker 1 is in sync again, in sync are 2,3,1" in texts
    assert len(told) == count, "nothing is told after the stop"


def test_every_event_that_is_told_has_a_teller():
    assert set(TELLERS) >= {LeaderElected, IsrChanged, NodeStopped, FaultInjected}
