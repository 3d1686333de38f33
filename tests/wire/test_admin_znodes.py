"""Requests and notifications that pass through ZooKeeper."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.malformed import assert_reads_any_order_and_unknown_keys, assert_refuses_malformed
from tests.wire.strategies import fixed
from wire.admin_znodes import (
    DeleteTopicsTopicZNode,
    DeleteTopicsZNode,
    IsrChangeNotificationZNode,
    LogDirEventNotificationZNode,
    NotificationZNode,
    PreferredReplicaElectionZNode,
    ReassignPartitionsZNode,
)
from wire.config_znodes import ConfigChangeNotificationZNode
from wire.errors import MalformedZNode
from wire.ids import BrokerId, TopicPartition

TOPICS = st.from_regex(r"[a-zA-Z0-9_-][a-zA-Z0-9._-]{0,10}", fullmatch=True)
PARTITIONS = st.builds(TopicPartition, TOPICS, st.integers(0, 2**31 - 1))
REPLICAS = st.lists(st.integers(0, 2**31 - 1), max_size=4).map(tuple)

REASSIGN = b'{"version":1,"partitions":[{"topic":"foo","partition":1,"replicas":[1,2,3]}]}'
PREFERRED = b'{"version":1,"partitions":[{"topic":"foo","partition":1}]}'
ISR_CHANGE = b'{"version":1,"partitions":[{"topic":"topic-a","partition":0}]}'
LOG_DIR_EVENT = b'{"version":1,"broker":1,"event":1}'


def test_a_topic_to_delete_is_a_child():
    assert DeleteTopicsZNode.path() == "/admin/delete_topics"
    assert DeleteTopicsTopicZNode.path("orders") == "/admin/delete_topics/orders"
    assert DeleteTopicsZNode.topic_of("orders") == "orders"
    with pytest.raises(MalformedZNode) as caught:
        DeleteTopicsZNode.topic_of("no topic")
    assert caught.value.path == "/admin/delete_topics/no topic"


def test_a_reassignment_is_these_bytes():
    reassignments = {TopicPartition("foo", 1): (BrokerId(1), BrokerId(2), BrokerId(3))}

    assert ReassignPartitionsZNode.path() == "/admin/reassign_partitions"
    assert ReassignPartitionsZNode.encode(reassignments) == REASSIGN
    assert ReassignPartitionsZNode.decode(REASSIGN) == reassignments


def test_log_dirs_that_a_tool_adds_are_not_read():
    data = REASSIGN.replace(b"[1,2,3]", b'[1,2,3],"log_dirs":["any","any","any"]')

    assert ReassignPartitionsZNode.decode(data) == ReassignPartitionsZNode.decode(REASSIGN)


def test_a_malformed_reassignment_is_refused():
    path = "/admin/reassign_partitions"

    assert_refuses_malformed(path, REASSIGN, ReassignPartitionsZNode.decode)
    assert_reads_any_order_and_unknown_keys(REASSIGN, ReassignPartitionsZNode.decode)


@pytest.mark.parametrize(
    "entry",
    [
        {"topic": "foo", "partition": 1},
        {"topic": "foo", "replicas": [1]},
        {"partition": 1, "replicas": [1]},
        {"topic": "../..", "partition": 1, "replicas": [1]},
        {"topic": "..", "partition": 1, "replicas": [1]},
        {"topic": "", "partition": 1, "replicas": [1]},
        {"topic": "foo", "partition": -1, "replicas": [1]},
        {"topic": "foo", "partition": "1", "replicas": [1]},
        {"topic": "foo", "partition": 1, "replicas": [-1]},
        {"topic": "foo", "partition": 1, "replicas": ["1"]},
        {"topic": "foo", "partition": 1, "replicas": None},
    ],
    ids=str,
)
def test_a_reassignment_with_a_malformed_entry_is_refused(entry: dict[str, object]):
    data = json.dumps({"version": 1, "partitions": [entry]}).encode()

    with pytest.raises(MalformedZNode, match="/admin/reassign_partitions"):
        ReassignPartitionsZNode.decode(data)


def test_a_partition_with_two_targets_is_refused():
    fields = json.loads(REASSIGN)
    fields["partitions"] *= 2

    with pytest.raises(MalformedZNode, match="foo-1 is listed twice"):
        ReassignPartitionsZNode.decode(json.dumps(fields).encode())


@fixed(100)
@given(st.dictionaries(PARTITIONS, REPLICAS, max_size=4))
def test_a_reassignment_comes_back(reassignments: dict[TopicPartition, tuple[BrokerId, ...]]):
    data = ReassignPartitionsZNode.encode(reassignments)

    assert ReassignPartitionsZNode.decode(data) == reassignments


def test_a_preferred_election_is_these_bytes():
    partitions = (TopicPartition("foo", 1),)

    assert PreferredReplicaElectionZNode.path() == "/admin/preferred_replica_election"
    assert PreferredReplicaElectionZNode.encode(partitions) == PREFERRED
    assert PreferredReplicaElectionZNode.decode(PREFERRED) == partitions


def test_a_malformed_preferred_election_is_refused():
    path = "/admin/preferred_replica_election"

    assert_refuses_malformed(path, PREFERRED, PreferredReplicaElectionZNode.decode)
    assert_reads_any_order_and_unknown_keys(PREFERRED, PreferredReplicaElectionZNode.decode)


def test_a_notification_is_a_numbered_child_of_its_folder():
    assert IsrChangeNotificationZNode.folder == "/isr_change_notification"
    assert IsrChangeNotificationZNode.prefix_path() == "/isr_change_notification/isr_change_"
    assert IsrChangeNotificationZNode.path(7) == "/isr_change_notification/isr_change_0000000007"
    assert (
        LogDirEventNotificationZNode.path(0)
        == "/log_dir_event_notification/log_dir_event_0000000000"
    )
    assert ConfigChangeNotificationZNode.path(12) == "/config/changes/config_change_0000000012"


NOTIFICATIONS = [
    IsrChangeNotificationZNode,
    LogDirEventNotificationZNode,
    ConfigChangeNotificationZNode,
]


@pytest.mark.parametrize("znode", NOTIFICATIONS)
@pytest.mark.parametrize("sequence", [0, 7, 2147483647])
def test_a_notifications_number_is_read_from_its_name(
    znode: type[NotificationZNode], sequence: int
):
    child = znode.path(sequence).rpartition("/")[2]

    assert znode.sequence_of(child) == sequence


@pytest.mark.parametrize("znode", NOTIFICATIONS)
@pytest.mark.parametrize(
    "child", ["", "{}", "{}7", "other_0000000007", "0000000007", "{}000000000x", "{}0000000007\n"]
)
def test_a_stranger_among_the_notifications_is_refused(znode: type[NotificationZNode], child: str):
    name = child.format(znode.prefix)

    with pytest.raises(MalformedZNode) as caught:
        znode.sequence_of(name)
    assert caught.value.path == f"{znode.folder}/{name}"


def test_a_change_of_isrs_is_these_bytes():
    partitions = (TopicPartition("topic-a", 0),)

    assert IsrChangeNotificationZNode.encode(partitions) == ISR_CHANGE
    assert IsrChangeNotificationZNode.decode(4, ISR_CHANGE) == partitions


def test_a_malformed_change_of_isrs_is_refused():
    assert_refuses_malformed(
        "/isr_change_notification/isr_change_0000000004",
        ISR_CHANGE,
        lambda data: IsrChangeNotificationZNode.decode(4, data),
    )


@fixed(100)
@given(st.lists(PARTITIONS, max_size=4).map(tuple))
def test_a_list_of_partitions_comes_back(partitions: tuple[TopicPartition, ...]):
    data = IsrChangeNotificationZNode.encode(partitions)

    assert IsrChangeNotificationZNode.decode(0, data) == partitions
    assert PreferredReplicaElectionZNode.decode(data) == partitions


def test_a_failed_log_directory_is_these_bytes():
    assert LogDirEventNotificationZNode.encode(BrokerId(1)) == LOG_DIR_EVENT
    assert LogDirEventNotificationZNode.decode(0, LOG_DIR_EVENT) == 1


def test_a_malformed_log_directory_event_is_refused():
    assert_refuses_malformed(
        "/log_dir_event_notification/log_dir_event_0000000004",
        LOG_DIR_EVENT,
        lambda data: LogDirEventNotificationZNode.decode(4, data),
    )
