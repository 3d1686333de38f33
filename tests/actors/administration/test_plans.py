"""Plans of kafka-reassign-partitions: B179 and B181."""

import json
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.administration.placement import BrokerRack, RackAwareMode
from actors.administration.plans import (
    MalformedPlan,
    follower_throttles,
    format_reassignment,
    leader_throttles,
    merge_throttles,
    parse_reassignment,
    parse_topics_to_move,
    propose,
    throttled_brokers,
)
from tests.wire.strategies import fixed
from wire.errors import InvalidConfig
from wire.ids import BrokerId, TopicPartition

KAFKAS = (
    '{"version":1,"partitions":['
    '{"topic":"bar","partition":10,"replicas":[3],"log_dirs":["any"]},'
    '{"topic":"foo","partition":0,"replicas":[1,2],"log_dirs":["any","any"]}]}'
)
FOO = {"topic": "foo", "partition": 0, "replicas": [1, 2]}

Plan = dict[TopicPartition, tuple[BrokerId, ...]]


def plan(**topics: dict[int, list[int]]) -> Plan:
    return {
        TopicPartition(topic, partition): tuple(BrokerId(each) for each in replicas)
        for topic, partitions in topics.items()
        for partition, replicas in partitions.items()
    }


def test_a_plan_is_read_and_printed_as_kafka_does() -> None:
    moves = plan(foo={0: [1, 2]}, bar={10: [3]})

    assert parse_reassignment(KAFKAS) == moves
    assert format_reassignment(moves) == KAFKAS


def test_a_plan_may_leave_out_its_version_and_log_dirs_and_have_keys_nobody_knows() -> None:
    text = json.dumps({"note": "tonight", "partitions": [FOO]})

    assert parse_reassignment(text) == plan(foo={0: [1, 2]})


TOPICS = st.from_regex(r"[a-zA-Z0-9_-]{1,5}", fullmatch=True)
IDS = st.integers(0, 2**31 - 1)
REPLICAS = st.lists(IDS, min_size=1, max_size=4, unique=True).map(tuple)


@fixed(100)
@given(st.dictionaries(st.builds(TopicPartition, TOPICS, IDS), REPLICAS, min_size=1, max_size=5))
def test_what_is_printed_is_read_again(moves: Plan) -> None:
    assert parse_reassignment(format_reassignment(moves)) == moves


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "line 1, column 1: expecting value"),
        ('{"version": 1,\n "partitions": [}', "line 2, column 17: expecting value"),
        ('{"partitions": []', "line 1, column 18: expecting ',' delimiter"),
        (KAFKAS + "}", "line 1, column 166: extra data"),
        ("\ufeff" + KAFKAS, "line 1, column 1: unexpected UTF-8 BOM"),
        ("[" * 100_000, "the JSON: "),
        ('{"partitions": [' + "9" * 5000 + "]}", "the JSON: Exceeds the limit"),
        ("[]", "the JSON: expected object, got array"),
        ("{}", "the JSON: object missing required field partitions"),
    ],
    ids=lambda value: value[:20],
)
def test_text_that_is_no_plan_is_refused_with_the_place(text: str, sentence: str) -> None:
    with pytest.raises(MalformedPlan, match=sentence):
        parse_reassignment(text)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"topic": 1}, "partitions[1].topic: expected str, got int"),
        ({"topic": "a b"}, "partitions[1].topic: The topic's name 'a b' has ' ' at position 1"),
        ({"partition": "0"}, "partitions[1].partition: expected int, got str"),
        ({"partition": 1.0}, "partitions[1].partition: expected int, got float"),
        ({"partition": True}, "partitions[1].partition: expected int, got bool"),
        ({"partition": -1}, "partitions[1].partition: expected int >= 0"),
        ({"partition": 2**31}, "partitions[1].partition: expected int <= 2147483647"),
        ({"replicas": None}, "partitions[1].replicas: expected array, got null"),
        ({"replicas": "1,2"}, "partitions[1].replicas: expected array, got str"),
        ({"replicas": [1, "2"]}, "partitions[1].replicas[1]: expected int, got str"),
        ({"replicas": [-1]}, "partitions[1].replicas[0]: expected int >= 0"),
        ({"replicas": []}, "partitions[1].replicas: the list is empty"),
        ({"replicas": [3, 1, 3]}, "partitions[1].replicas: listed more than once: 3"),
        ({"log_dirs": ["any"]}, "partitions[1].log_dirs: there are 1 for 2 replicas"),
        ({"log_dirs": ["any", 1]}, "partitions[1].log_dirs[1]: expected str, got int"),
    ],
    ids=str,
)
def test_an_entry_that_cannot_be_is_refused_with_its_path(
    change: dict[str, object], sentence: str
) -> None:
    entry = {**FOO, "partition": 1, **change}

    with pytest.raises(MalformedPlan) as caught:
        parse_reassignment(json.dumps({"version": 1, "partitions": [FOO, entry]}))
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize("key", FOO)
def test_an_entry_without_a_key_is_refused(key: str) -> None:
    entry = {name: value for name, value in FOO.items() if name != key}

    with pytest.raises(MalformedPlan, match=rf"partitions\[0\]: .* missing required field {key}"):
        parse_reassignment(json.dumps({"partitions": [entry]}))


@pytest.mark.parametrize("parse", [parse_reassignment, parse_topics_to_move])
def test_another_version_is_refused(parse: Callable[[str], object]) -> None:
    text = json.dumps({"version": 2, "partitions": [FOO], "topics": [{"topic": "foo"}]})

    with pytest.raises(MalformedPlan, match="version: 2 is not known; it must be 1"):
        parse(text)


def test_an_empty_plan_is_refused() -> None:
    with pytest.raises(MalformedPlan, match="partitions: the list is empty"):
        parse_reassignment('{"version":1,"partitions":[]}')


def test_partitions_with_two_targets_are_refused_and_named() -> None:
    bar = {**FOO, "topic": "bar"}
    once = {**FOO, "partition": 1}
    text = json.dumps({"partitions": [FOO, bar, once, {**FOO, "replicas": [3]}, bar]})

    with pytest.raises(MalformedPlan, match=r"partitions: listed more than once: foo-0, bar-0$"):
        parse_reassignment(text)


@pytest.mark.behaviour("B179")
def test_topics_to_move_are_read_in_their_order() -> None:
    text = '{"topics": [{"topic": "foo"}, {"topic": "bar"}], "version": 1}'

    assert parse_topics_to_move(text) == ("foo", "bar")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{"topics": [}', "line 1, column 13: expecting value"),
        ('{"topics": ["foo"]}', r"topics\[0\]: expected object, got str"),
        ('{"topics": [{"topic": "foo"}, {}]}', r"topics\[1\]: object missing required field topic"),
        ('{"topics": [{"topic": ".."}]}', r"topics\[0\].topic: The topic's name is '..'"),
        ('{"topics": []}', "topics: the list is empty"),
        ('{"topics": [{"topic": "a"}, {"topic": "a"}]}', "topics: listed more than once: a"),
    ],
)
def test_topics_that_cannot_be_are_refused_with_the_place(text: str, sentence: str) -> None:
    with pytest.raises(MalformedPlan, match=sentence):
        parse_topics_to_move(text)


def proposed(current: Plan, racks: dict[int, str | None], start: int = 0, shift: int = 0) -> Plan:
    brokers = [BrokerRack(BrokerId(each), rack) for each, rack in racks.items()]
    mode = RackAwareMode.ENFORCED
    return propose(current, brokers, start=start, shift=shift, rack_aware=mode)


@pytest.mark.behaviour("B179")
def test_a_proposal_places_each_topic_anew_on_the_brokers_given() -> None:
    current = plan(foo={0: [1, 2], 1: [1]}, bar={0: [1], 1: [1], 2: [1]})

    proposal = proposed(current, {4: None, 5: None, 6: None}, start=1)

    assert proposal == plan(bar={0: [5], 1: [6], 2: [4]}, foo={0: [5, 6], 1: [6, 4]})


@pytest.mark.behaviour("B179")
def test_a_proposal_minds_racks() -> None:
    proposal = proposed(plan(foo={0: [1, 2]}), {1: "a", 2: "a", 3: "b"})

    assert proposal == plan(foo={0: [1, 3]})


def test_a_proposal_spreads_topics_of_one_partition() -> None:
    current = plan(**{f"topic{each}": {0: [0]} for each in range(9)})

    proposal = proposed(current, {1: None, 2: None, 3: None})

    assert Counter(proposal.values()) == {(1,): 3, (2,): 3, (3,): 3}


def test_a_proposal_for_some_partitions_of_a_topic_is_for_the_same() -> None:
    assert proposed(plan(foo={7: [1], 3: [2]}), {5: None}) == plan(foo={3: [5], 7: [5]})


CURRENT = plan(foo={2: [2, 1], 10: [1, 2], 11: [1, 2], 12: [1, 2], 13: [8]}, bar={0: [4]})
TARGET = plan(foo={10: [4, 3, 1], 2: [3, 10], 11: [2, 1], 12: [1]}, bar={0: [4]})


@pytest.mark.behaviour("B181")
def test_all_existing_replicas_of_moving_partitions_are_throttled_as_leaders() -> None:
    assert leader_throttles(CURRENT, TARGET) == {"foo": "2:1,2:2,10:1,10:2"}


@pytest.mark.behaviour("B181")
def test_only_new_replicas_are_throttled_as_followers() -> None:
    assert follower_throttles(CURRENT, TARGET) == {"foo": "2:3,2:10,10:3,10:4"}


@pytest.mark.behaviour("B181")
def test_the_brokers_of_the_plan_are_throttled_before_and_after() -> None:
    assert throttled_brokers(CURRENT, TARGET) == (1, 2, 3, 4, 10)


@pytest.mark.behaviour("B181")
@pytest.mark.parametrize(
    ("existing", "added", "merged"),
    [
        ("", "", ""),
        ("", "1:2,0:1", "0:1,1:2"),
        ("10:1,2:1", "2:1,2:10,2:9", "2:1,2:9,2:10,10:1"),
        (" 0:1 , 0:2 ", "0:2", "0:1,0:2"),
        ("*", "0:1", "*"),
        ("0:1", "*", "*"),
    ],
)
def test_throttles_are_merged_with_those_already_set(
    existing: str, added: str, merged: str
) -> None:
    assert merge_throttles(existing, added) == merged


@pytest.mark.parametrize("entry", ["foo", "1", "1:", "1:-2", "1:2:3", "\u0661:1"])
def test_a_throttle_that_names_no_replica_is_refused(entry: str) -> None:
    with pytest.raises(InvalidConfig, match=f"{entry!r} is not a throttled replica"):
        merge_throttles(f"0:1,{entry}", "0:2")
