"""The nouns."""

import msgspec
import pytest

from wire.ids import BrokerId, Endpoint, TopicPartition


def test_a_partition_is_written_as_topic_and_number():
    assert str(TopicPartition("orders", 7)) == "orders-7"


def test_partitions_sort_by_topic_then_by_number():
    partitions = [TopicPartition("b", 1), TopicPartition("a", 10), TopicPartition("a", 9)]

    assert sorted(partitions) == [
        TopicPartition("a", 9),
        TopicPartition("a", 10),
        TopicPartition("b", 1),
    ]


def test_equal_partitions_are_one_key():
    assert {TopicPartition("orders", 0): 1}[TopicPartition("orders", 0)] == 1


def test_a_partition_cannot_be_changed():
    with pytest.raises(AttributeError):
        TopicPartition("orders", 0).partition = 1  # type: ignore[misc]


def test_a_partition_is_two_elements_on_the_wire():
    assert msgspec.msgpack.encode(TopicPartition("t", 3)) == b"\x92\xa1t\x03"


@pytest.mark.parametrize("number", [2**31, -(2**31) - 1, 2**63])
def test_an_id_that_the_protocol_cannot_hold_is_refused(number: int):
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(number, BrokerId)


def test_an_endpoint_puts_an_ipv6_host_in_brackets():
    assert str(Endpoint("CLIENT", "SSL", "::1", 9092)) == "CLIENT://[::1]:9092"
    assert str(Endpoint("CLIENT", "SSL", "localhost", 9092)) == "CLIENT://localhost:9092"
