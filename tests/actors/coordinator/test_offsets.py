"""The cache of committed offsets, and where a group belongs."""

from itertools import permutations

import pytest

from actors.coordinator.offsets import CommittedOffsets, commit_error, partition_for
from actors.coordinator.records import OffsetKey, OffsetValue
from tests.actors.coordinator.office import BILLS, GROUP, ORDERS
from wire.errors import ErrorCode

KEY = OffsetKey(GROUP, ORDERS)


def value(offset, committed_ms=0, expires_ms=-1):
    return OffsetValue(
        offset=offset, commit_timestamp_ms=committed_ms, expire_timestamp_ms=expires_ms
    )


def seen(offsets):
    found = offsets.get(GROUP, ORDERS)
    return None if found is None else found.offset


@pytest.mark.behaviour("B175")
@pytest.mark.parametrize(
    ("group", "expected"),
    [
        ("", 0),
        ("hello", 99162322 % 50),
        ("orders", 1008770331 % 50),  # its hash is negative
        ("polygenelubricants", 0),  # the smallest number, which has no opposite
    ],
)
def test_a_group_belongs_where_kafka_puts_it(group, expected):
    assert partition_for(group, 50) == expected


@pytest.mark.behaviour("B177")
@pytest.mark.parametrize(
    ("appended", "told"),
    [
        (ErrorCode.NONE, ErrorCode.NONE),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
        (ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
        (ErrorCode.INVALID_FETCH_SIZE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
        (ErrorCode.CORRUPT_MESSAGE, ErrorCode.CORRUPT_MESSAGE),
    ],
)
def test_a_consumer_is_told_an_appends_error_in_its_own_words(appended, told):
    assert commit_error(appended) is told


@pytest.mark.behaviour("B177")
@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_the_last_in_the_log_wins_in_whatever_order_appends_are_done(order):
    offsets = CommittedOffsets()
    appends = [[(KEY, value(1))], [(KEY, value(2))], [(KEY, None)], [(KEY, value(3))]]
    for append in appends:
        offsets.begin(append)

    for index in order:
        offsets.end(appends[index], index)

    assert seen(offsets) == 3


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_a_tombstone_wins_over_what_stands_before_it(order):
    offsets = CommittedOffsets()
    appends = [[(KEY, value(1))], [(KEY, value(2))], [(KEY, None)]]
    for append in appends:
        offsets.begin(append)

    for index in order:
        offsets.end(appends[index], index)

    assert seen(offsets) is None
    assert not offsets.knows(GROUP)
    assert (offsets._pending, offsets._tombstones) == ({}, {})  # nothing is kept for ever


def test_of_two_offsets_for_a_partition_in_one_append_the_second_wins():
    offsets = CommittedOffsets()
    twice = [(KEY, value(9)), (KEY, value(4))]
    offsets.begin(twice)

    offsets.end(twice, 0)

    assert seen(offsets) == 4


def test_an_append_that_failed_leaves_what_was_there():
    offsets = CommittedOffsets()
    offsets.put(KEY, value(1), 0)
    offsets.begin([(KEY, value(2))])

    offsets.end([(KEY, value(2))], None)

    assert seen(offsets) == 1
    assert offsets._pending == {}


def test_a_tombstone_with_nothing_under_way_is_not_kept():
    offsets = CommittedOffsets()
    offsets.put(KEY, value(1), 0)

    offsets.put(KEY, None, 1)

    assert offsets._tombstones == {}


def test_a_group_goes_with_its_last_offset():
    offsets = CommittedOffsets()
    offsets.put(KEY, value(1), 0)
    offsets.put(OffsetKey(GROUP, BILLS), value(1), 1)
    assert offsets.partitions_of(GROUP) == [BILLS, ORDERS]

    offsets.put(KEY, None, 2)
    assert offsets.knows(GROUP)
    offsets.put(OffsetKey(GROUP, BILLS), None, 3)

    assert not offsets.knows(GROUP)
    assert offsets.partitions_of(GROUP) == []


@pytest.mark.behaviour("B178")
@pytest.mark.parametrize(
    ("stored", "now_ms", "is_expired"),
    [
        (value(1, committed_ms=100), 1_099, False),
        (value(1, committed_ms=100), 1_100, True),
        (value(1, committed_ms=100, expires_ms=200), 199, False),
        (value(1, committed_ms=100, expires_ms=200), 200, True),
        (value(1, committed_ms=100, expires_ms=5_000), 4_999, False),
    ],
)
def test_an_offset_expires_after_the_retention_or_when_its_client_said(stored, now_ms, is_expired):
    offsets = CommittedOffsets()
    offsets.put(KEY, stored, 0)

    assert offsets.expired(now_ms, 1_000) == ([KEY] if is_expired else [])


@pytest.mark.behaviour("B178")
def test_what_is_being_committed_does_not_expire():
    offsets = CommittedOffsets()
    offsets.put(KEY, value(1), 0)
    commit = [(KEY, value(2, committed_ms=5_000))]
    offsets.begin(commit)

    assert offsets.expired(5_000, 1_000) == []
    offsets.end(commit, None)
    assert offsets.expired(5_000, 1_000) == [KEY]


@pytest.mark.behaviour("B178")
def test_a_deleted_topics_offsets_are_doomed_until_a_tombstone_or_a_new_commit():
    offsets = CommittedOffsets()
    offsets.put(KEY, value(1), 0)
    offsets.put(OffsetKey(GROUP, BILLS), value(1), 1)
    under_way = OffsetKey("others", ORDERS)
    offsets.begin([(under_way, value(1))])

    assert offsets.doom({"orders"}) == [under_way, KEY]
    assert offsets.expired(0, 1_000) == [KEY]  # as often as it takes

    offsets.put(KEY, value(2), 2)
    assert offsets.expired(0, 1_000) == []
