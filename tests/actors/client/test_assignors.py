"""How partitions are shared out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.client.assignors import ASSIGNORS
from tests.wire.strategies import fixed
from wire.consumer_protocol import ConsumerSubscription
from wire.ids import TopicPartition


def wants(*topics, owned=(), generation_id=-1):
    owned = tuple(TopicPartition(topic, number) for topic, number in owned)
    return ConsumerSubscription(topics=topics, owned=owned, generation_id=generation_id)


def shares(name, members, counts):
    found = ASSIGNORS[name](members, counts)
    return {member: [(each.topic, each.partition) for each in of] for member, of in found.items()}


def test_range_gives_neighbours_topic_by_topic():
    found = shares("range", {"b": wants("s", "t"), "a": wants("s", "t")}, {"s": 3, "t": 3})

    assert found == {
        "a": [("s", 0), ("s", 1), ("t", 0), ("t", 1)],
        "b": [("s", 2), ("t", 2)],
    }


def test_round_robin_deals_one_after_the_other():
    found = shares("roundrobin", {"b": wants("s", "t"), "a": wants("s", "t")}, {"s": 3, "t": 3})

    assert found == {
        "a": [("s", 0), ("s", 2), ("t", 1)],
        "b": [("s", 1), ("t", 0), ("t", 2)],
    }


def test_round_robin_passes_over_who_does_not_want_a_topic():
    found = shares("roundrobin", {"a": wants("s"), "b": wants("s", "t")}, {"s": 2, "t": 2})

    assert found == {"a": [("s", 0)], "b": [("s", 1), ("t", 0), ("t", 1)]}


def test_sticky_leaves_what_it_can_where_it_is():
    members = {
        "a": wants("t", owned=[("t", 0), ("t", 3), ("t", 4), ("t", 5)], generation_id=4),
        "b": wants("t", owned=[("t", 1), ("t", 2)], generation_id=4),
        "c": wants("t"),
    }

    found = shares("sticky", members, {"t": 6})

    assert {name: len(share) for name, share in found.items()} == {"a": 2, "b": 2, "c": 2}
    assert set(found["a"]) < {("t", 0), ("t", 3), ("t", 4), ("t", 5)}
    assert found["b"] == [("t", 1), ("t", 2)]


def test_sticky_believes_whoever_had_it_last():
    members = {
        "a": wants("t", owned=[("t", 0)], generation_id=3),
        "b": wants("t", owned=[("t", 0)], generation_id=4),
    }

    assert shares("sticky", members, {"t": 2}) == {"a": [("t", 1)], "b": [("t", 0)]}


def test_sticky_does_not_keep_what_is_gone_or_unwanted():
    members = {"a": wants("t", owned=[("t", 9), ("gone", 0)], generation_id=3)}

    assert shares("sticky", members, {"t": 1, "gone": 1}) == {"a": [("t", 0)]}


@pytest.mark.parametrize("name", ASSIGNORS)
def test_a_topic_that_is_not_there_is_given_to_nobody(name):
    assert shares(name, {"a": wants("nowhere", "t")}, {"t": 1}) == {"a": [("t", 0)]}


TOPICS = ("s", "t", "u")


@pytest.mark.parametrize("name", ASSIGNORS)
@fixed(100)
@given(
    st.dictionaries(
        st.sampled_from("abcde"),
        st.tuples(
            st.sets(st.sampled_from(TOPICS), min_size=1),
            st.lists(st.tuples(st.sampled_from(TOPICS), st.integers(0, 6)), max_size=5),
            st.integers(-1, 2),
        ),
        min_size=1,
    ),
    st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 6)),
)
def test_each_partition_that_somebody_wants_has_one_reader_who_wants_it(name, members, counts):
    wishes = {
        member: wants(*topics, owned=owned, generation_id=generation)
        for member, (topics, owned, generation) in members.items()
    }

    found = shares(name, wishes, counts)

    given_out = sorted(each for share in found.values() for each in share)
    wanted = {topic for topics, _, _ in members.values() for topic in topics}
    assert given_out == sorted(
        (topic, number) for topic in wanted for number in range(counts.get(topic, 0))
    )
    assert all(topic in wishes[member].topics for member, of in found.items() for topic, _ in of)
    assert found == shares(name, dict(reversed(wishes.items())), counts)
