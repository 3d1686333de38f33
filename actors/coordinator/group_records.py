"""Kafka's own format of a group in __consumer_offsets.

Rule: the key is written as version 2; any other version is no group's. The value is written as
version 3, as Kafka does since 2.3, and versions 0 to 3 are read. A value of None forgets the group.

    key   2   group string
    value     protocol type string, generation int32, protocol string, leader string,
              (from 2) time of this state int64, members
    member    id string, (from 3) instance string, client id string, client host string,
              (from 1) rebalance time-out int32, session time-out int32,
              subscription bytes, assignment bytes
"""

from typing import Final, TypeAlias

from msgspec import Struct

from wire.errors import InvalidRecord
from wire.fields import INT16, INT32, INT64, Reader, blob, string
from wire.ids import NO_TIMESTAMP_MS, Offset
from wire.records import Record, encode_batch

_KEY_VERSION: Final = 2
_VALUE_VERSION: Final = 3
_HAS_REBALANCE_TIMEOUT: Final = 1
_HAS_TIME: Final = 2
_HAS_INSTANCE: Final = 3


class MemberValue(Struct, frozen=True, kw_only=True, gc=False):
    """A member, as it is remembered."""

    member_id: str
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes = b""
    assignment: bytes = b""


class GroupValue(Struct, frozen=True, kw_only=True, gc=False):
    """A generation of a group: Stable if it has members, else Empty."""

    protocol_type: str = ""
    generation_id: int
    protocol: str | None = None
    leader: str | None = None
    state_timestamp_ms: int = NO_TIMESTAMP_MS
    members: tuple[MemberValue, ...] = ()


GroupChange: TypeAlias = tuple[str, GroupValue | None]


def encode_group_change(change: GroupChange, now_ms: int) -> bytearray:
    """One batch with one record."""
    group, value = change
    data = None if value is None else encode_group_value(value)
    key = encode_group_key(group)
    return encode_batch([Record(offset=Offset(0), timestamp_ms=now_ms, key=key, value=data)])


def decode_group_change(record: Record) -> GroupChange | None:
    """What a record says of a group; None if it speaks of something else."""
    group = decode_group_key(record.key)
    if group is None:
        return None
    return group, None if record.value is None else decode_group_value(record.value)


def encode_group_key(group: str) -> bytes:
    """A group's key, as Kafka writes it."""
    return INT16.pack(_KEY_VERSION) + string(group)


def decode_group_key(data: bytes | None) -> str | None:
    """The group's name; None if it is the key of something else."""
    if data is None:
        return None
    reader = Reader(data)
    return reader.string() if reader.number(INT16) == _KEY_VERSION else None


def encode_group_value(value: GroupValue) -> bytes:
    """A group, as Kafka writes it."""
    parts = [
        INT16.pack(_VALUE_VERSION),
        string(value.protocol_type),
        INT32.pack(value.generation_id),
        string(value.protocol),
        string(value.leader),
        INT64.pack(value.state_timestamp_ms),
        INT32.pack(len(value.members)),
    ]
    for each in value.members:
        parts += (
            string(each.member_id),
            string(each.group_instance_id),
            string(each.client_id),
            string(each.client_host),
            INT32.pack(each.rebalance_timeout_ms),
            INT32.pack(each.session_timeout_ms),
            blob(each.subscription),
            blob(each.assignment),
        )
    return b"".join(parts)


def decode_group_value(data: bytes) -> GroupValue:
    """A group, of any version that has members."""
    reader = Reader(data)
    version = reader.number(INT16)
    if not 0 <= version <= _VALUE_VERSION:
        raise InvalidRecord(f"a group of version {version}")
    protocol_type, generation = reader.string(), reader.number(INT32)
    protocol, leader = reader.nullable_string(), reader.nullable_string()
    time_ms = reader.number(INT64) if version >= _HAS_TIME else NO_TIMESTAMP_MS
    members = tuple(_member(reader, version) for _ in range(reader.count()))
    return GroupValue(
        protocol_type=protocol_type,
        generation_id=generation,
        protocol=protocol,
        leader=leader,
        state_timestamp_ms=time_ms,
        members=members,
    )


def _member(reader: Reader, version: int) -> MemberValue:
    member = reader.string()
    instance = reader.nullable_string() if version >= _HAS_INSTANCE else None
    client_id, client_host = reader.string(), reader.string()
    rebalance_ms = reader.number(INT32) if version >= _HAS_REBALANCE_TIMEOUT else None
    session_ms = reader.number(INT32)
    return MemberValue(
        member_id=member,
        group_instance_id=instance,
        client_id=client_id,
        client_host=client_host,
        rebalance_timeout_ms=session_ms if rebalance_ms is None else rebalance_ms,
        session_timeout_ms=session_ms,
        subscription=reader.blob(),
        assignment=reader.blob(),
    )
