"""What consumers tell each other, as other people's clients write and read it."""

from contextlib import suppress

import pytest
from aiokafka.coordinator.protocol import (
    ConsumerProtocolMemberAssignment,
    ConsumerProtocolMemberMetadata,
)
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.consumer_protocol_assignment.v3.data import ConsumerProtocolAssignment
from kio.schema.consumer_protocol_subscription.v3.data import ConsumerProtocolSubscription
from kio.serial import entity_reader

from tests.wire.strategies import fixed
from wire.consumer_protocol import (
    ConsumerAssignment,
    ConsumerSubscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from wire.errors import ApiError, InvalidRecord
from wire.ids import TopicPartition

ORDERS = (TopicPartition("orders", 0), TopicPartition("orders", 2))
BILLS = TopicPartition("bills", 1)
WISH = ConsumerSubscription(
    topics=("bills", "orders"), user_data=b"u", owned=(BILLS, *ORDERS), generation_id=5
)
SHARE = ConsumerAssignment(partitions=(BILLS, *ORDERS), user_data=b"u")


def test_an_assignment_is_what_another_client_reads_and_writes():
    data = encode_assignment(SHARE)

    read = ConsumerProtocolMemberAssignment.decode(data)
    assert list(read.assignment) == [("bills", [1]), ("orders", [0, 2])]
    written = ConsumerProtocolMemberAssignment(0, [("bills", [1]), ("orders", [0, 2])], b"u")
    assert decode_assignment(written.encode()) == SHARE


def test_a_subscription_is_what_another_client_reads_and_writes():
    read = ConsumerProtocolMemberMetadata.decode(encode_subscription(WISH))
    assert (list(read.subscription), read.user_data) == (["bills", "orders"], b"u")

    written = ConsumerProtocolMemberMetadata(0, ["orders"], b"")
    assert decode_subscription(written.encode()) == ConsumerSubscription(topics=("orders",))


def test_nothing_at_all_is_nothing_given():
    assert decode_assignment(b"") == ConsumerAssignment(partitions=())


def test_what_was_written_is_read():
    assert decode_subscription(encode_subscription(WISH)) == WISH
    assert decode_assignment(encode_assignment(SHARE)) == SHARE


def test_a_newer_version_is_read_as_far_as_it_is_known():
    newer = b"\0\3" + encode_subscription(WISH)[2:] + b"\0\4rack" + b"more"

    assert decode_subscription(newer).rack == "rack"


@pytest.mark.parametrize("length", range(1, len(encode_subscription(WISH))))
def test_what_is_cut_short_is_refused(length):
    with pytest.raises(InvalidRecord):
        decode_subscription(encode_subscription(WISH)[:length])


@pytest.mark.parametrize("data", ["ffff 00000000", "0000 7fffffff", "0000 ffffffff"])
def test_what_is_no_protocol_is_refused(data):
    for decode in (decode_subscription, decode_assignment):
        with pytest.raises(InvalidRecord):
            decode(bytes.fromhex(data))


@fixed(200)
@given(st.binary(max_size=60))
def test_whatever_the_bytes_are_they_are_read_or_refused(data):
    for decode in (decode_subscription, decode_assignment):
        with suppress(ApiError):
            decode(data)


def test_kio_knows_the_same_fields():
    buffer = encode_subscription(WISH)[2:] + b"\xff\xff"
    read, _ = entity_reader(ConsumerProtocolSubscription)(memoryview(buffer), 0)
    assert list(read.topics) == ["bills", "orders"]
    assert [(each.topic, list(each.partitions)) for each in read.owned_partitions] == [
        ("bills", [1]),
        ("orders", [0, 2]),
    ]
    assert read.generation_id == 5
    share, _ = entity_reader(ConsumerProtocolAssignment)(
        memoryview(encode_assignment(SHARE)[2:]), 0
    )
    assert [each.topic for each in share.assigned_partitions] == ["bills", "orders"]
