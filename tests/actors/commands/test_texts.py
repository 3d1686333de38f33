"""What commands print, and how they read lines: as Kafka's own."""

import argparse

import pytest

from actors.client.subscription import ConsumerRecord
from actors.commands.consume import Printer
from actors.commands.consumer_groups import group_table, member_table, state_table
from actors.commands.produce import pair_of
from actors.commands.topics import heading, partition_line
from actors.operations.groups import GroupDescription, GroupMember, GroupOffset
from actors.operations.operation import BadInput
from actors.operations.topics import PartitionDescription, TopicDescription

RECORD = ConsumerRecord("orders", 1, 7, 99, b"k", b"v", (("h", b"x"), ("n", None)), 3)
BARE = ConsumerRecord("orders", 0, 0, 99, None, None, (), 3)
ALL = [f"print.{each}=true" for each in ("timestamp", "partition", "offset", "headers", "key")]


def line(record, *properties, json=False):
    return Printer(argparse.Namespace(property=list(properties), json=json)).line(record)


def test_only_the_value_is_printed_unless_more_is_asked_for():
    assert line(RECORD) == b"v\n"
    assert line(RECORD, "print.key=true", "key.separator=:") == b"k:v\n"
    assert line(RECORD, "print.value=false", "print.key=true") == b"k\n"
    assert line(RECORD, *ALL) == b"CreateTime:99\tPartition:1\tOffset:7\th:x,n:null\tk\tv\n"
    assert line(BARE, *ALL) == b"CreateTime:99\tPartition:0\tOffset:0\tNO_HEADERS\tnull\tnull\n"
    assert line(BARE, "null.literal=-", "line.separator=;") == b"-;"


def test_a_record_is_an_object_a_line():
    assert line(BARE, json=True).endswith(b"}\n")
    assert b'"key":"k","value":"v"' in line(RECORD, json=True)


def test_bytes_are_printed_as_they_are():
    assert line(ConsumerRecord("t", 0, 0, 0, None, b"\xff", (), 0)) == b"\xff\n"


def test_a_property_that_is_none_is_refused():
    with pytest.raises(BadInput, match=r"no property print\.colour"):
        line(RECORD, "print.colour=true")


@pytest.mark.parametrize(
    ("text", "properties", "expected"),
    [
        (b"a:b", {}, (None, b"a:b")),
        (b"a\tb\tc", {"parse.key": "true"}, (b"a", b"b\tc")),
        (b"a:b", {"parse.key": "TRUE", "key.separator": ":"}, (b"a", b"b")),
        (b":", {"parse.key": "true", "key.separator": ":"}, (b"", b"")),
        (b"a:-", {"parse.key": "true", "key.separator": ":", "null.marker": "-"}, (b"a", None)),
        (b"", {}, (None, b"")),
    ],
)
def test_a_line_is_read_as_a_key_and_a_value(text, properties, expected):
    assert pair_of(text, properties, 1) == expected


def test_a_line_without_a_key_is_told_by_its_number():
    with pytest.raises(BadInput, match="line 3 has no key separator ':'"):
        pair_of(b"coffee", {"parse.key": "true", "key.separator": ":"}, 3)


def test_a_topic_is_described_in_kafkas_columns():
    moving = PartitionDescription(1, None, 4, (1, 2, 3), (2,), (1,), (3,), (1,))
    topic = TopicDescription("orders", "id", False, 2, 3, {"b": "2", "a": "1"}, [moving])

    assert heading(topic) == (
        "Topic: orders\tTopicId: id\tPartitionCount: 2\tReplicationFactor: 3\tConfigs: a=1,b=2"
    )
    assert partition_line("orders", moving) == (
        "\tTopic: orders\tPartition: 1\tLeader: none\tReplicas: 1,2,3\tIsr: 2"
        "\tAdding Replicas: 3\tRemoving Replicas: 1"
    )


def test_a_group_is_a_table_with_kafkas_columns():
    group = GroupDescription(
        "billing", [GroupOffset("orders", 0, 2, 5, 3), GroupOffset("orders", 1, 0, None, None)]
    )

    head, first, second = (each.split() for each in group_table(group))
    assert head == [
        *("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"),
        *("CONSUMER-ID", "HOST", "CLIENT-ID"),
    ]
    assert first == ["billing", "orders", "0", "2", "5", "3", "-", "-", "-"]
    assert second == ["billing", "orders", "1", "0", "-", "-", "-", "-", "-"]
    unread = GroupDescription(
        "g", [GroupOffset("orders", 0, None, 5, None, "", "member-1", "/127.0.0.1", "me")]
    )
    assert group_table(unread)[1].split()[3:] == ["-", "5", "-", "member-1", "/127.0.0.1", "me"]
    starts = {each.index("orders") for each in group_table(group)[1:]}
    assert starts == {group_table(group)[0].index("TOPIC")}


def test_members_and_a_state_are_tables_too():
    members = [
        GroupMember("m-1", None, "me", "/127.0.0.1", ["orders-0", "orders-1"]),
        GroupMember("m-2", "static", "", "", []),
    ]
    group = GroupDescription("billing", [], "Stable", "consumer", "range", members)

    _, first, second = (each.split() for each in member_table(group))
    assert first == ["billing", "m-1", "-", "/127.0.0.1", "me", "2", "orders-0,orders-1"]
    assert second == ["billing", "m-2", "static", "-", "-", "0", "-"]
    assert state_table(group)[1].split() == ["billing", "range", "Stable", "2"]
