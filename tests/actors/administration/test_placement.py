"""Where replicas go: B083, B084, B085 and B089."""

from collections import Counter
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.administration.placement import (
    BrokerRack,
    RackAwareMode,
    check_assignment,
    extend_replicas,
    place_replicas,
)
from tests.wire.strategies import fixed
from wire.errors import (
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
)
from wire.ids import BrokerId

# The example in the comment of Kafka's AdminUtils.
KAFKAS_RACKS = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}


def without_racks(*ids: int) -> list[BrokerRack]:
    return [BrokerRack(BrokerId(each), None) for each in ids]


def with_racks(racks: Mapping[int, str | None]) -> list[BrokerRack]:
    return [BrokerRack(BrokerId(each), rack) for each, rack in racks.items()]


def place(
    brokers: Sequence[BrokerRack],
    partitions: int,
    replication_factor: int,
    start: int = 0,
    shift: int = 0,
    first_partition: int = 0,
    rack_aware: RackAwareMode = RackAwareMode.ENFORCED,
) -> dict[int, tuple[BrokerId, ...]]:
    return place_replicas(
        brokers,
        partitions=partitions,
        replication_factor=replication_factor,
        start=start,
        shift=shift,
        first_partition=first_partition,
        rack_aware=rack_aware,
    )


@pytest.mark.behaviour("B084")
@pytest.mark.parametrize("mode", RackAwareMode)
def test_without_racks_replicas_are_placed_as_in_kafkas_example(mode: RackAwareMode) -> None:
    placement = place(without_racks(3, 0, 4, 2, 1), 10, 3, rack_aware=mode)

    assert list(placement.items()) == [
        (0, (0, 1, 2)),
        (1, (1, 2, 3)),
        (2, (2, 3, 4)),
        (3, (3, 4, 0)),
        (4, (4, 0, 1)),
        (5, (0, 2, 3)),
        (6, (1, 3, 4)),
        (7, (2, 4, 0)),
        (8, (3, 0, 1)),
        (9, (4, 1, 2)),
    ]


@st.composite
def sizes(draw: st.DrawFn) -> tuple[int, int]:
    """A number of brokers, and a replication factor that they can bear."""
    brokers = draw(st.integers(1, 9))
    return brokers, draw(st.integers(1, brokers))


@pytest.mark.behaviour("B084")
@fixed(200)
@given(sizes(), st.integers(1, 30), st.integers(0, 9), st.integers(0, 9), st.integers(0, 30))
def test_without_racks_a_replicas_place_is_kafkas_formula(
    size: tuple[int, int], partitions: int, start: int, shift: int, first_partition: int
) -> None:
    n, replication_factor = size
    brokers = without_racks(*(10 * each for each in range(n)))

    placement = place(brokers, partitions, replication_factor, start, shift, first_partition)

    assert list(placement) == list(range(first_partition, first_partition + partitions))
    for partition, replicas in placement.items():
        rounds = sum(each % n == 0 for each in range(max(1, first_partition), partition + 1))
        leader = (partition + start) % n
        followers = [
            (leader + 1 + (shift + rounds + j) % (n - 1)) % n for j in range(replication_factor - 1)
        ]
        assert replicas == tuple(10 * each for each in (leader, *followers))


@pytest.mark.behaviour("B085")
def test_with_racks_replicas_are_placed_as_in_kafkas_example() -> None:
    placement = place(with_racks(KAFKAS_RACKS), 7, 3)

    assert placement == {
        0: (0, 3, 1),
        1: (3, 1, 5),
        2: (1, 5, 4),
        3: (5, 4, 2),
        4: (4, 2, 0),
        5: (2, 0, 3),
        6: (0, 4, 2),
    }


@pytest.mark.behaviour("B085")
def test_a_large_rack_fills_the_end_of_the_ring() -> None:
    racks = {0: "a", 1: "a", 2: "a", 3: "b"}

    leaders = [replicas[0] for replicas in place(with_racks(racks), 4, 1).values()]

    assert leaders == [0, 3, 1, 2]


@pytest.mark.behaviour("B085")
@fixed(300)
@given(
    st.lists(st.sampled_from("abcd"), min_size=1, max_size=9),
    st.data(),
    st.integers(1, 30),
    st.integers(0, 9),
    st.integers(0, 9),
)
def test_a_partition_spans_as_many_racks_as_it_can(
    racks: list[str], data: st.DataObject, partitions: int, start: int, shift: int
) -> None:
    replication_factor = data.draw(st.integers(1, len(racks)))
    brokers = with_racks(dict(enumerate(racks)))

    placement = place(brokers, partitions, replication_factor, start, shift)

    for replicas in placement.values():
        assert len(set(replicas)) == replication_factor
        spanned = {racks[each] for each in replicas}
        assert len(spanned) == min(len(set(racks)), replication_factor)
    leaders = Counter(replicas[0] for replicas in placement.values())
    per_broker = [leaders[each.broker] for each in brokers]
    assert max(per_broker) - min(per_broker) <= 1


@pytest.mark.behaviour("B085")
@fixed(100)
@given(
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(1, 3),
    st.data(),
    st.integers(0, 9),
    st.integers(0, 9),
)
def test_racks_of_equal_size_bear_equally_many_replicas(
    racks: int, brokers_a_rack: int, rounds: int, data: st.DataObject, start: int, shift: int
) -> None:
    n = racks * brokers_a_rack
    replication_factor = data.draw(st.integers(1, n))
    shuffled = data.draw(st.permutations(range(n)))
    brokers = with_racks({each: f"rack{i % racks}" for i, each in enumerate(shuffled)})

    placement = place(brokers, rounds * n, replication_factor, start, shift)

    replicas = Counter(broker for each in placement.values() for broker in each)
    assert replicas == dict.fromkeys(range(n), rounds * replication_factor)


@pytest.mark.behaviour("B085")
def test_racks_that_only_some_brokers_have_are_refused_when_enforced() -> None:
    brokers = with_racks({1: "a", 7: None, 3: "b", 2: None})

    with pytest.raises(InvalidRequest, match=r"these have none: 2, 7\. Give each broker a rack"):
        place(brokers, 1, 1)


@pytest.mark.behaviour("B085")
def test_racks_that_only_some_brokers_have_are_ignored_in_safe_mode() -> None:
    brokers = with_racks({**KAFKAS_RACKS, 6: None})

    assert place(brokers, 20, 3, 1, 2, rack_aware=RackAwareMode.SAFE) == place(
        without_racks(*range(7)), 20, 3, 1, 2
    )


def test_racks_that_all_brokers_have_count_in_safe_mode_and_do_not_when_disabled() -> None:
    brokers = with_racks(KAFKAS_RACKS)

    assert place(brokers, 7, 3, rack_aware=RackAwareMode.SAFE) == place(brokers, 7, 3)
    assert place(brokers, 7, 3, rack_aware=RackAwareMode.DISABLED) == place(
        without_racks(*range(6)), 7, 3
    )


@pytest.mark.behaviour("B084")
@pytest.mark.parametrize(
    ("factor", "sentence"),
    [
        (0, "factor is 0; it must be 1 or more"),
        (-1, "factor is -1; it must be 1 or more"),
        (4, "factor is 4; it must be at most the number of live brokers, 3"),
    ],
)
def test_a_replication_factor_that_cannot_be_is_refused(factor: int, sentence: str) -> None:
    with pytest.raises(InvalidReplicationFactor, match=sentence):
        place(without_racks(1, 2, 3), 1, factor)


@pytest.mark.parametrize("partitions", [0, -1])
def test_a_topic_without_partitions_is_refused(partitions: int) -> None:
    with pytest.raises(InvalidPartitions, match=f"is {partitions}; it must be 1 or more"):
        place(without_racks(1), partitions, 1)


def extend(
    existing: dict[int, list[int]], brokers: Sequence[BrokerRack], count: int
) -> dict[int, tuple[BrokerId, ...]]:
    return extend_replicas(
        {partition: [BrokerId(each) for each in ids] for partition, ids in existing.items()},
        brokers,
        count=count,
        rack_aware=RackAwareMode.ENFORCED,
    )


@pytest.mark.behaviour("B089")
def test_new_partitions_go_on_from_the_preferred_leader_of_partition_0() -> None:
    placement = extend({0: [2, 3], 1: [3, 1], 2: [1, 2]}, without_racks(3, 2, 1), 5)

    assert placement == {3: (2, 3), 4: (3, 1)}  # start and shift 1, and 3 begins a round: shift 2


@pytest.mark.behaviour("B089")
def test_the_next_higher_broker_stands_in_for_a_leader_that_is_gone() -> None:
    placement = extend({0: [2]}, without_racks(1, 3, 5), 3)

    assert placement == {1: (5,), 2: (1,)}  # partition 0 would be on 3


@pytest.mark.behaviour("B089")
def test_the_first_broker_stands_in_when_no_higher_one_is_left() -> None:
    placement = extend({0: [9]}, without_racks(1, 3, 5), 3)

    assert placement == {1: (3,), 2: (5,)}


@pytest.mark.behaviour("B089", "B085")
def test_new_partitions_span_racks_from_the_same_place_in_the_ring() -> None:
    placement = extend({0: [3, 1]}, with_racks(KAFKAS_RACKS), 2)

    # Start and shift are 3, a position among the brokers by id; the ring is 0, 3, 1, 5, 4, 2.
    # Partition 1 is led from 1 + 3; its follower stands 1 + (3 shifts × 3 racks) mod 5 behind.
    assert placement == {1: (4, 5)}


@pytest.mark.behaviour("B089")
@pytest.mark.parametrize("count", [-1, 0, 1, 2])
def test_the_number_of_partitions_only_grows(count: int) -> None:
    with pytest.raises(InvalidPartitions, match=f"is 2 and would become {count}; it can only grow"):
        extend({0: [1], 1: [1]}, without_racks(1), count)


@pytest.mark.parametrize(
    ("existing", "listed"),
    [({}, "none"), ({1: [1]}, "1"), ({0: [1], 2: [1]}, "0, 2"), ({0: []}, "0")],
)
def test_a_topic_with_a_hole_does_not_grow(existing: dict[int, list[int]], listed: str) -> None:
    with pytest.raises(InvalidPartitions, match=f"partitions are {listed}; only a topic whose"):
        extend(existing, without_racks(1), 9)


@pytest.mark.behaviour("B089")
def test_more_replicas_than_live_brokers_are_refused_for_new_partitions_too() -> None:
    with pytest.raises(InvalidReplicationFactor, match=r"is 2; it must be at most .* 1\."):
        extend({0: [1, 2]}, without_racks(1), 2)


LIVE = {BrokerId(1), BrokerId(2), BrokerId(3)}


def check(
    assignments: dict[int, list[int]], first_partition: int = 0, factor: int | None = None
) -> None:
    check_assignment(
        {partition: [BrokerId(each) for each in ids] for partition, ids in assignments.items()},
        LIVE,
        first_partition=first_partition,
        replication_factor=factor,
    )


@pytest.mark.behaviour("B083", "B089")
def test_an_assignment_by_hand_may_be_in_any_order() -> None:
    check({1: [2, 1], 0: [3, 1]})
    check({4: [1], 3: [1]}, first_partition=3, factor=1)


@pytest.mark.behaviour("B083", "B089")
@pytest.mark.parametrize(
    ("assignments", "sentence"),
    [
        ({}, "The assignment is empty"),
        ({0: []}, "Partition 0 has no replica"),
        ({0: [1], 1: []}, "Partition 1 has no replica"),
        ({0: [1, 2, 1]}, r"Partition 0 names broker 1 more than once \(1, 2, 1\)"),
        ({0: [1, -1]}, "Partition 0 names broker -1; a broker's id is 0 or more"),
        ({0: [1], 1: [7]}, "Partition 1 names broker 7, which is not alive; alive are: 1, 2, 3"),
        (
            {0: [1, 2], 1: [3]},
            r"Partition 1 has the replication factor 1 \(3\); all partitions must have 2",
        ),
        ({1: [1]}, "Partition 1 is assigned where partition 0 is due"),
        ({0: [1], 2: [1]}, "Partition 2 is assigned where partition 1 is due"),
        ({-1: [1], 0: [1]}, "Partition -1 is assigned where partition 0 is due; .* from 0 without"),
    ],
    ids=str,
)
def test_an_assignment_that_cannot_be_is_refused(
    assignments: dict[int, list[int]], sentence: str
) -> None:
    with pytest.raises(InvalidReplicaAssignment, match=sentence):
        check(assignments)


@pytest.mark.behaviour("B089")
def test_new_partitions_by_hand_must_fit_the_topic() -> None:
    with pytest.raises(InvalidReplicaAssignment, match=r"factor 1 .*; all partitions must have 2"):
        check({3: [1]}, first_partition=3, factor=2)
    with pytest.raises(InvalidReplicaAssignment, match=r"Partition 2 .* partition 3 is due"):
        check({2: [1, 2]}, first_partition=3, factor=2)
