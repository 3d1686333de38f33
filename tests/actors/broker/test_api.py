"""The broker's front door: whatever comes in, one answer goes out."""

import asyncio

import pytest
from msgspec.structs import replace

from actors.broker.api import ROUTES
from tests.support.drive import Drive
from tests.support.orders import leader_and_isr, order, stop, stop_replica, update_metadata
from wire.admin import DeleteTopics, DeleteTopicsResponse
from wire.codec import decode, encode
from wire.control import AlterPartition, LeaderAndIsr, LeaderAndIsrResponse, StopReplicaResponse
from wire.data import Fetch, FetchPartition
from wire.errors import ErrorCode
from wire.ids import BrokerId, Offset, TopicPartition
from wire.message import CODES
from wire.metadata import (
    ApiVersions,
    ApiVersionsResponse,
    Metadata,
    MetadataResponse,
    MetadataTopic,
)
from wire.observation import Observe
from wire.trace import ErrorAnswered, FrameRefused, MessageRefused

ORDERS = TopicPartition("orders", 0)


@pytest.fixture
async def drive(sim):
    drive = await Drive.start(sim, brokers=2)
    drive.forget()
    drive.answers.clear()
    return drive


def a_fetch(*, by: int, max_wait_ms: int = 0) -> Fetch:
    wanted = FetchPartition(partition=ORDERS, fetch_offset=Offset(0), max_bytes=100)
    return Fetch(
        replica_id=BrokerId(by),
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=100,
        partitions=(wanted,),
    )


async def answer_to(drive, payload: bytes) -> object:
    """The one answer that broker 2 gives."""
    response = decode(await drive.call(2, payload))
    await drive.settle()
    assert [each.response for each in drive.answers if each.to == "client"] == [response]
    return response


@pytest.mark.parametrize(
    "payload",
    [b"", b"\x00", b"no message", b"\xff" * 1_000, encode(ApiVersions())[:-1], b"\x91\xcd\xff\xff"],
)
async def test_bytes_that_are_no_message_are_answered_and_harm_nobody(drive, payload):
    response = await answer_to(drive, payload)

    assert response == ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    assert [event.source for event in drive.of(FrameRefused)] == ["client"]
    assert drive.node(2).system.is_up
    assert (await drive.ask(2, Metadata(), MetadataResponse)).controller_id == 1


@pytest.mark.parametrize(
    "message",
    [
        AlterPartition(broker_id=1, broker_epoch=-1, partitions=()),
        StopReplicaResponse(),  # no request at all
    ],
    ids=lambda message: type(message).__name__,
)
async def test_a_message_that_nobody_here_handles_is_refused_as_kafka_does(drive, message):
    response = await answer_to(drive, encode(message))

    assert response == ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    assert drive.node(2).system.is_up


async def test_a_broker_lists_all_that_it_handles(drive):
    response = await answer_to(drive, encode(ApiVersions()))

    expected = sorted(CODES[kind.__name__] for kind in (*ROUTES, ApiVersions, Observe))
    assert [each.api_key for each in response.api_keys] == expected
    assert {(each.min_version, each.max_version) for each in response.api_keys} == {(0, 0)}


@pytest.mark.parametrize("handler", sorted(set(ROUTES.values())))
async def test_every_handler_in_the_table_lives(drive, handler):
    assert drive.node(2).system.lookup(handler).is_alive


@pytest.mark.parametrize(
    ("handler", "request_", "expected"),
    [
        (
            "replica-manager",
            leader_and_isr(order(ORDERS, 2, 0)),
            LeaderAndIsrResponse(error_code=ErrorCode.BROKER_NOT_AVAILABLE),
        ),
        (
            "replica-manager",
            Metadata(topics=("orders",)),
            MetadataResponse(
                brokers=(),
                topics=(MetadataTopic(topic="orders", error_code=ErrorCode.BROKER_NOT_AVAILABLE),),
            ),
        ),
    ],
    ids=["LeaderAndIsr", "Metadata"],
)
async def test_a_request_for_a_full_inbox_is_refused_in_its_own_form(
    drive, monkeypatch, handler, request_, expected
):
    monkeypatch.setattr(drive.node(2).system.lookup(handler), "_limit", 0)

    assert await answer_to(drive, encode(request_)) == expected

    (refused,) = drive.of(MessageRefused)
    assert (refused.actor, refused.message) == (f"broker-2/{handler}", type(request_).__name__)
    assert drive.hosted(2, "orders") is None
    assert drive.node(2).system.is_up


async def test_an_answer_with_errors_leaves_an_event_that_says_whose_and_how_many(drive):
    wanted = tuple(
        FetchPartition(partition=TopicPartition("none", each), fetch_offset=Offset(0), max_bytes=1)
        for each in range(2)
    )
    await answer_to(drive, encode(replace(a_fetch(by=-1), partitions=wanted)))

    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.name
    assert drive.of(ErrorAnswered) == [ErrorAnswered("client", "Fetch", code, 2)]


async def test_an_answer_without_errors_leaves_none(drive):
    await answer_to(drive, encode(Metadata(topics=())))

    assert drive.of(ErrorAnswered) == []


async def test_requests_leave_room_in_an_inbox_for_what_the_node_itself_tells(
    sim, drive, monkeypatch
):
    monkeypatch.setattr("actors.broker.routing.MOST_UNANSWERED", 2)
    sim.cut("broker-1", "zookeeper")  # so the controller's broker cannot answer
    ask = encode(DeleteTopics(topics=("orders",), timeout_ms=0))
    asked = [asyncio.ensure_future(drive.call(1, ask)) for _ in range(3)]
    await sim.sleep(100)
    assert [each.done() for each in asked].count(True) == 1

    sim.heal()
    answers = [decode(await each).topics[0].error_code for each in asked]
    again = decode(await drive.call(1, ask)).topics[0].error_code

    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert sorted(answers) == sorted([ErrorCode.BROKER_NOT_AVAILABLE, unknown, unknown])
    assert again is unknown  # what is answered counts no more


@pytest.mark.parametrize(
    ("request_", "is_taken"),
    [
        (leader_and_isr(order(ORDERS, 2, 0)), True),
        (stop_replica(stop(ORDERS, 0)), True),
        (update_metadata(), True),
        (a_fetch(by=1), True),
        (a_fetch(by=-1), False),
    ],
    ids=["LeaderAndIsr", "StopReplica", "UpdateMetadata", "follower", "consumer"],
)
async def test_clients_that_wait_do_not_keep_the_cluster_from_its_work(
    drive, monkeypatch, request_, is_taken
):
    monkeypatch.setattr("actors.broker.routing.MOST_UNANSWERED", 0)

    response = await answer_to(drive, encode(request_))

    assert (response.error_code is not ErrorCode.BROKER_NOT_AVAILABLE) == is_taken
    assert (response.error_code is ErrorCode.NONE) == is_taken


async def test_a_followers_fetch_that_waits_takes_no_clients_place(sim, drive, monkeypatch):
    await drive.create("orders", [2, 1])
    monkeypatch.setattr("actors.broker.routing.MOST_UNANSWERED", 1)
    waiting = asyncio.ensure_future(drive.call(2, encode(a_fetch(by=1, max_wait_ms=1_000))))
    await sim.sleep(100)
    assert not waiting.done()

    response = await drive.ask(2, Metadata(), MetadataResponse)

    assert response.controller_id == 1
    await waiting


async def test_an_administrators_request_for_a_full_inbox_is_refused_by_topic(drive, monkeypatch):
    monkeypatch.setattr(drive.node(2).system.lookup("administrator"), "_limit", 0)

    response = await drive.ask(
        2, DeleteTopics(topics=("orders",), timeout_ms=0), DeleteTopicsResponse
    )

    refused = [(each.topic, each.error_code) for each in response.topics]
    assert refused == [("orders", ErrorCode.BROKER_NOT_AVAILABLE)]


@pytest.mark.behaviour("B123")
async def test_orders_that_a_full_inbox_did_not_take_come_again_until_it_does(
    sim, drive, monkeypatch
):
    with monkeypatch.context() as full:
        full.setattr(drive.node(2).replica_manager.ref, "_limit", 0)
        await drive.write_topic("orders", {0: [1, 2]})
        await sim.sleep(1_000)
        assert drive.hosted(2, "orders") is None
    await drive.settle()

    assert drive.hosted(2, "orders").leader == 1
    assert drive.cached(2, "orders").leader == 1
    assert len(drive.sent(LeaderAndIsr, to=2)) > 5
