"""The table of codes."""

from collections.abc import Iterator

import pytest

import wire.codec  # noqa: F401 (it imports every file of messages)
from tests.wire.strategies import MESSAGES
from wire import admin, configs, control, data, groups, metadata, observation, transactions
from wire.codec import RESPONSE_OF
from wire.message import CODES, Message, Request

HUNDREDS = {
    control: 1,
    data: 2,
    metadata: 3,
    groups: 4,
    admin: 5,
    configs: 6,
    observation: 7,
    transactions: 8,
}


def _subclasses(cls: type[Message]) -> Iterator[type[Message]]:
    for child in cls.__subclasses__():
        if child.__module__.startswith("wire."):
            if child is not Request:
                yield child
            yield from _subclasses(child)


def test_no_code_is_used_twice():
    assert len(set(CODES.values())) == len(CODES)


def test_every_message_has_a_code_and_every_code_a_message():
    classes = list(_subclasses(Message))

    assert {cls.__name__: cls.__struct_config__.tag for cls in classes} == CODES
    assert len(classes) == len(CODES)


def test_the_decoder_knows_every_message():
    assert set(MESSAGES) == set(_subclasses(Message))


def test_each_file_keeps_to_its_hundred():
    for cls in MESSAGES:
        module = next(each for each in HUNDREDS if each.__name__ == cls.__module__)
        assert CODES[cls.__name__] // 100 == HUNDREDS[module]


def test_a_response_is_named_and_numbered_after_its_request():
    for request, response in RESPONSE_OF.items():
        assert response.__name__ == f"{request.__name__}Response"
        assert CODES[response.__name__] == CODES[request.__name__] + 1
        assert CODES[request.__name__] % 2 == 0


def test_every_message_is_a_request_or_the_response_to_one():
    assert set(MESSAGES) == RESPONSE_OF.keys() | set(RESPONSE_OF.values())


def test_a_class_without_a_row_is_refused_as_it_is_defined():
    with pytest.raises(KeyError):

        class Gossip(Message, frozen=True, kw_only=True):
            """Not in the table."""


# A frame recorded today must be read tomorrow: a row may be added, never changed.
def test_codes_do_not_change():
    assert CODES["LeaderAndIsr"] == 100
    assert CODES["StopReplica"] == 102
    assert CODES["UpdateMetadata"] == 104
    assert CODES["ControlledShutdown"] == 106
    assert CODES["AlterPartition"] == 108
    assert CODES["Produce"] == 200
    assert CODES["Fetch"] == 202
    assert CODES["ListOffsets"] == 204
    assert CODES["OffsetForLeaderEpoch"] == 206
    assert CODES["ApiVersions"] == 300
    assert CODES["Metadata"] == 302
    assert CODES["DescribeCluster"] == 304
    assert CODES["FindCoordinator"] == 400
    assert CODES["OffsetCommit"] == 402
    assert CODES["OffsetFetch"] == 404
    assert CODES["JoinGroup"] == 408
    assert CODES["SyncGroup"] == 410
    assert CODES["Heartbeat"] == 412
    assert CODES["LeaveGroup"] == 414
    assert CODES["DescribeGroups"] == 416
    assert CODES["DeleteGroups"] == 418
    assert CODES["OffsetDelete"] == 420
    assert CODES["CreateTopics"] == 500
    assert CODES["CreatePartitions"] == 502
    assert CODES["DeleteTopics"] == 504
    assert CODES["DeleteRecords"] == 506
    assert CODES["ElectLeaders"] == 508
    assert CODES["AlterPartitionReassignments"] == 510
    assert CODES["ListPartitionReassignments"] == 512
    assert CODES["DescribeConfigs"] == 600
    assert CODES["IncrementalAlterConfigs"] == 602
