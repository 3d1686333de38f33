"""What a caller gave to a client, and whether it is what was asked for.

Rule: an argument of a wrong type is refused by its name, before anything is done with it. Later it
would be an error that names nothing, and of others whose records go the same way.
"""

from collections.abc import Iterable, Mapping
from math import isnan
from typing import Final, TypeGuard

from actors.client.group import OffsetAndMetadata
from wire.errors import InvalidRecord, InvalidRequest
from wire.ids import Offset, TopicPartition
from wire.records import Headers

_END: Final = 2**63  # of what 8 bytes can hold
_LIST: Final = "a list of TopicPartition"


def is_whole(value: object) -> TypeGuard[int]:
    """Whether it is an int; True and False are none."""
    return isinstance(value, int) and not isinstance(value, bool)


def check_destination(topic: object, partition: object) -> None:
    """Where a record goes: a topic's name, and perhaps a partition's number."""
    if not isinstance(topic, str) or not topic:
        raise _wrong("topic", topic, "a name")
    if partition is not None and not is_whole(partition):
        raise _wrong("partition", partition, "a whole number or None")
    if partition is not None and partition < 0:
        raise InvalidRequest(f"there is no partition {partition}")


def check_bytes(name: str, value: object) -> None:
    """A key, or a value."""
    if value is not None and not isinstance(value, bytes):
        raise InvalidRecord(f"{name} is {value!r:.80}; it must be bytes or None")


def header_pairs(headers: object) -> Headers:
    """A record's headers, if they are pairs of a name and bytes."""
    must_be = "it must be a list of pairs, each a name and bytes or None"
    if isinstance(headers, str | bytes | Mapping) or not isinstance(headers, Iterable):
        raise InvalidRecord(f"headers is {headers!r:.80}; {must_be}")
    pairs = []
    for each in headers:
        match each:
            case (str(name), bytes() | None as value):
                pairs.append((name, value))
            case _:
                raise InvalidRecord(f"{each!r:.80} is among the headers; {must_be}")
    return tuple(pairs)


def check_record_time(timestamp_ms: object) -> None:
    """When a record was made."""
    if not is_whole(timestamp_ms):
        must_be = "a whole number of milliseconds or None"
        raise InvalidRecord(f"timestamp_ms is {timestamp_ms!r:.80}; it must be {must_be}")
    if not 0 <= timestamp_ms < _END:
        raise InvalidRecord(f"{timestamp_ms} is no time in milliseconds since 1970")


def check_time(timestamp_ms: object) -> None:
    """A moment to look for."""
    if not is_whole(timestamp_ms):
        raise _wrong("timestamp_ms", timestamp_ms, "a whole number of milliseconds")
    if not 0 <= timestamp_ms < _END:
        raise InvalidRequest(f"{timestamp_ms} is no time in milliseconds since 1970")


def check_timeout(timeout_ms: object) -> None:
    """How long to wait."""
    is_number = is_whole(timeout_ms) or isinstance(timeout_ms, float)
    if not is_number or (isinstance(timeout_ms, float) and isnan(timeout_ms)):
        raise _wrong("timeout_ms", timeout_ms, "a number")


def check_partition(partition: object) -> None:
    """One partition, and not its topic alone."""
    if not isinstance(partition, TopicPartition):
        raise _wrong("partition", partition, "a TopicPartition")
    check_destination(partition.topic, partition.partition)


def some_topics(topics: object) -> list[str]:
    """Names of topics to subscribe to: one at least."""
    must_be = "a list of names"
    if isinstance(topics, str | bytes | Mapping) or not isinstance(topics, Iterable):
        raise _wrong("topics", topics, must_be)
    named = list(topics)
    for each in named:
        if not isinstance(each, str) or not each:
            raise _wrong("topics", topics, must_be)
    if not named:
        raise InvalidRequest("there is no topic to subscribe to: unsubscribe instead")
    return named


def some_partitions(partitions: object) -> tuple[TopicPartition, ...]:
    """Partitions, if they are some and nothing else."""
    if isinstance(partitions, str | bytes) or not isinstance(partitions, Iterable):
        raise _wrong("partitions", partitions, _LIST)
    chosen = tuple(partitions)
    for each in chosen:
        if not isinstance(each, TopicPartition):
            raise InvalidRequest(f"{each!r:.80} is among the partitions; they must be {_LIST}")
        check_partition(each)
    return chosen


def check_by_partition(name: str, given: object) -> None:
    """Something of each of some partitions."""
    if not isinstance(given, Mapping):
        raise _wrong(name, given, "a dict whose keys are TopicPartition")
    some_partitions(given)


def check_offset(offset: object) -> None:
    """A place in a log; whether there is such a place is not asked."""
    if not is_whole(offset) or offset >= _END:
        raise _wrong("offset", offset, "a whole number")


def offset_to_commit(given: object) -> OffsetAndMetadata:
    """What is to be committed of one partition."""
    if not isinstance(given, OffsetAndMetadata):
        check_offset(given)
        assert isinstance(given, int)
        return OffsetAndMetadata(Offset(given))
    check_offset(given.offset)
    if not isinstance(given.metadata, str):
        raise _wrong("metadata", given.metadata, "text")
    if not is_whole(given.leader_epoch):
        raise _wrong("leader_epoch", given.leader_epoch, "a whole number")
    return given


def offsets_to_commit(offsets: object) -> dict[TopicPartition, OffsetAndMetadata]:
    """What is to be committed, by partition."""
    check_by_partition("offsets", offsets)
    assert isinstance(offsets, Mapping)
    wanted = {partition: offset_to_commit(each) for partition, each in offsets.items()}
    for partition, each in wanted.items():
        if each.offset < 0:
            raise InvalidRequest(f"offset {each.offset} of {partition} cannot be committed")
    return wanted


def _wrong(name: str, value: object, must_be: str) -> InvalidRequest:
    return InvalidRequest(f"{name} is {value!r:.80}; it must be {must_be}")
