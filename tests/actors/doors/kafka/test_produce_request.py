"""Produce requests read by hand: as kio reads them, and bounded."""

import struct
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.serial import entity_reader
from kio.static.constants import EntityType

from actors.doors.kafka import produce_request
from actors.doors.kafka.produce_request import read_produce
from tests.support.kafka_caller import NAMES, entity, framed, requests_of
from wire.errors import MalformedMessage

API = NAMES["Produce"]
VERSIONS = range(API.least, API.most + 1)


def body_of(version: int, request) -> bytes:
    return framed(API, version, request)[16 if version >= 9 else 15 :]


@pytest.mark.parametrize("version", VERSIONS)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_it_says_what_kio_says(version, data):
    body = body_of(version, data.draw(requests_of(API, version)))
    expected, _ = entity_reader(entity(API, version, EntityType.request))(body, 0)

    read = read_produce(memoryview(bytearray(body)), 0, version)

    assert (read.transactional_id, read.acks) == (expected.transactional_id, expected.acks)
    assert timedelta(milliseconds=read.timeout_ms) == expected.timeout
    assert [
        (each.partition.topic, each.partition.partition, bytes(each.records))
        for each in read.partitions
    ] == [
        (topic.name, each.index, each.records or b"")
        for topic in expected.topic_data
        for each in topic.partition_data
    ]


@pytest.mark.parametrize("version", VERSIONS)
@given(data=st.binary(max_size=80))
def test_any_bytes_are_read_or_malformed(version, data):
    try:
        read_produce(memoryview(bytearray(data)), 0, version)
    except MalformedMessage:
        return


@pytest.mark.parametrize("version", [3, 11])
def test_millions_of_topics_are_refused_before_they_are_read(version, monkeypatch):
    monkeypatch.setattr(produce_request, "MOST_NAMED", 10)
    topics = [{"name": "", "partition_data": ()} for _ in range(11)]
    kind = entity(API, version, EntityType.request)
    topic = entity(API, version, EntityType.request, "TopicProduceData")
    request = kind(
        transactional_id=None,
        acks=1,
        timeout=timedelta(0),
        topic_data=tuple(topic(**each) for each in topics),
    )

    with pytest.raises(MalformedMessage, match="list of 11"):
        read_produce(memoryview(bytearray(body_of(version, request))), 0, version)


def test_records_are_not_copied_and_may_be_written_to():
    body = struct.pack(">hhiih", -1, 1, 5, 1, 1) + b"t" + struct.pack(">iii", 1, 0, 4) + b"abcd"
    frame = bytearray(body)

    (partition,) = read_produce(memoryview(frame), 0, 3).partitions
    partition.records[0] = ord("x")

    assert frame.endswith(b"xbcd")
