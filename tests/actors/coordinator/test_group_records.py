"""Groups in __consumer_offsets, byte by byte, and as other people's primitives read them."""

from contextlib import suppress
from io import BytesIO

import pytest
from aiokafka.protocol.types import Array, Bytes, Int16, Int32, Int64, Schema, String
from hypothesis import given
from hypothesis import strategies as st

from actors.coordinator.group_records import (
    GroupValue,
    MemberValue,
    decode_group_change,
    decode_group_key,
    decode_group_value,
    encode_group_change,
    encode_group_key,
    encode_group_value,
)
from actors.coordinator.records import decode_data, decode_key
from tests.wire.strategies import fixed
from wire.errors import ApiError, InvalidRecord

MEMBER = MemberValue(
    member_id="m",
    group_instance_id="i",
    client_id="c",
    client_host="/h",
    rebalance_timeout_ms=60_000,
    session_timeout_ms=10_000,
    subscription=b"s",
    assignment=b"a",
)
GROUP = GroupValue(
    protocol_type="consumer",
    generation_id=7,
    protocol="range",
    leader="m",
    state_timestamp_ms=1_600_000_000_000,
    members=(MEMBER,),
)
HEAD = "0008 636f6e73756d6572 00000007 0005 72616e6765 0001 6d"
TIME = "00000174876e8000"
IDS, INSTANCE, CLIENT = "0001 6d", "0001 69", "0001 63 0002 2f68"
REBALANCE, SESSION, BLOBS = "0000ea60", "00002710", "00000001 73 00000001 61"
VERSION_3 = f"0003 {HEAD} {TIME} 00000001 {IDS}{INSTANCE}{CLIENT}{REBALANCE}{SESSION}{BLOBS}"

# Kafka's GroupMetadataValue, version 3, as its schema has it, in another project's primitives.
FOREIGN = Schema(
    ("version", Int16),
    ("protocol_type", String("utf-8")),
    ("generation", Int32),
    ("protocol", String("utf-8")),
    ("leader", String("utf-8")),
    ("current_state_timestamp", Int64),
    (
        "members",
        Array(
            ("member_id", String("utf-8")),
            ("group_instance_id", String("utf-8")),
            ("client_id", String("utf-8")),
            ("client_host", String("utf-8")),
            ("rebalance_timeout", Int32),
            ("session_timeout", Int32),
            ("subscription", Bytes),
            ("assignment", Bytes),
        ),
    ),
)


def test_a_key_is_written_as_version_2_and_a_value_as_version_3():
    assert encode_group_key("g") == bytes.fromhex("0002 0001 67")
    assert encode_group_value(GROUP) == bytes.fromhex(VERSION_3)


def test_other_peoples_primitives_read_it():
    read = FOREIGN.decode(BytesIO(encode_group_value(GROUP)))

    assert read[:6] == (3, "consumer", 7, "range", "m", 1_600_000_000_000)
    assert list(read[6]) == [("m", "i", "c", "/h", 60_000, 10_000, b"s", b"a")]


def test_an_empty_group_has_no_protocol_and_no_leader():
    empty = GroupValue(protocol_type="consumer", generation_id=8, state_timestamp_ms=1)

    read = FOREIGN.decode(BytesIO(encode_group_value(empty)))

    assert (read[3], read[4], list(read[6])) == (None, None, [])
    assert decode_group_value(encode_group_value(empty)) == empty


@pytest.mark.parametrize(
    ("data", "has_time", "rebalance_ms", "instance"),
    [
        (f"0000 {HEAD} 00000001 {IDS}{CLIENT}{SESSION}{BLOBS}", False, 10_000, None),
        (f"0001 {HEAD} 00000001 {IDS}{CLIENT}{REBALANCE}{SESSION}{BLOBS}", False, 60_000, None),
        (
            f"0002 {HEAD}{TIME} 00000001 {IDS}{CLIENT}{REBALANCE}{SESSION}{BLOBS}",
            True,
            60_000,
            None,
        ),
        (VERSION_3, True, 60_000, "i"),
    ],
)
def test_all_versions_are_read(data, has_time, rebalance_ms, instance):
    group = decode_group_value(bytes.fromhex(data))

    (member,) = group.members
    assert (group.generation_id, group.protocol, group.leader) == (7, "range", "m")
    assert group.state_timestamp_ms == (1_600_000_000_000 if has_time else -1)
    assert (member.rebalance_timeout_ms, member.session_timeout_ms) == (rebalance_ms, 10_000)
    assert (member.group_instance_id, member.client_host) == (instance, "/h")
    assert (member.subscription, member.assignment) == (b"s", b"a")


def test_a_batch_is_read_as_a_change_and_as_nobodys_offset():
    batch = bytes(encode_group_change(("g", GROUP), 5)) + bytes(encode_group_change(("g", None), 6))

    records = list(decode_data(batch, 0))

    assert [decode_group_change(each) for each in records] == [("g", GROUP), ("g", None)]
    assert [decode_key(each.key) for each in records] == [None, None]
    assert decode_group_key(bytes.fromhex("0001 0001 67 0001 74 00000000")) is None


@pytest.mark.parametrize("length", range(len(bytes.fromhex(VERSION_3))))
def test_a_value_cut_short_is_refused(length):
    with pytest.raises(InvalidRecord):
        decode_group_value(bytes.fromhex(VERSION_3)[:length])


@pytest.mark.parametrize("data", ["0004", "ffff", f"0003 {HEAD} {TIME} 7fffffff", "0003 ffff"])
def test_what_is_no_group_is_refused(data):
    with pytest.raises(InvalidRecord):
        decode_group_value(bytes.fromhex(data))


@fixed(200)
@given(st.binary(max_size=60))
def test_whatever_the_bytes_are_they_are_read_or_refused(data):
    for decode in (decode_group_key, decode_group_value):
        with suppress(ApiError):
            decode(data)
