"""The controller's lines to its brokers: B123, B124, B134 and whose answers matter."""

import pytest

from actors.controller.channel import Channel, Send
from actors.controller.events import LeaderAndIsrAnswered, StopReplicaAnswered
from runtime.network import Disconnected, Endpoint
from runtime.system import System
from tests.support.drive import Drive
from tests.support.mailbox import Mailbox
from wire.codec import encode
from wire.control import (
    LeaderAndIsr,
    LeaderAndIsrResponse,
    StopReplica,
    StopReplicaResponse,
    UpdateMetadata,
    UpdateMetadataResponse,
)
from wire.errors import ErrorCode
from wire.ids import TopicPartition
from wire.message import PartitionResult
from wire.metadata import ApiVersionsResponse
from wire.trace import FrameRefused, LeaderElected, RequestDropped

ORDERS = TopicPartition("orders", 0)
DONE = encode(UpdateMetadataResponse())


class Line:
    """A channel with a controller and a broker at its ends, who do nothing by themselves."""

    def __init__(self, sim) -> None:
        self.sim = sim
        self.controller = Mailbox()
        self.events = []
        self.arrived = []  # what the broker was asked, and when
        self._incoming = []
        sim.trace.listeners.append(lambda _, event: self.events.append(event))
        world = sim.world("broker-1")
        self.system = System("broker-1", world.trace)
        sim.adopt(self.system)
        channel = Channel(world, "broker-2", 2, 5, self.controller, timeout_ms=30_000)
        self.ref = self.system.start("channel", channel)

    def open_broker(self) -> None:
        trace = self.sim.trace.at("broker-2")
        self.broker = Endpoint("broker-2", self.sim.network, trace)
        self.broker.serve(self)

    def tell(self, incoming) -> None:  # as the broker's front door
        self.arrived.append((bytes(incoming.payload), round(self.sim.now_ms)))
        self._incoming.append(incoming)

    def send(self, *payloads: bytes, **fields) -> None:
        for payload in payloads:
            self.ref.tell(Send("Request", payload, **fields))

    async def answer(self, response: bytes = DONE) -> None:
        self._incoming.pop(0).reply(response)
        await self.sim.sleep(10)

    @property
    def asked(self) -> list[bytes]:
        return [payload for payload, _ in self.arrived]


@pytest.fixture
async def line(sim):
    return Line(sim)


@pytest.fixture
async def drive(sim):
    return await Drive.start(sim)


# --- in order, one at a time, until answered --------------------------------------------------


@pytest.mark.behaviour("B123")
async def test_one_request_is_under_way_at_a_time_in_the_order_given(sim, line):
    line.open_broker()

    line.send(b"one", b"two", b"three")
    await sim.sleep(1_000)
    assert line.asked == [b"one"]
    await line.answer()
    assert line.asked == [b"one", b"two"]
    line.send(b"four")
    await sim.sleep(1_000)
    assert line.asked == [b"one", b"two"]
    await line.answer()
    await line.answer()
    await line.answer()

    assert line.asked == [b"one", b"two", b"three", b"four"]


@pytest.mark.behaviour("B123")
async def test_a_request_is_sent_again_100_ms_after_each_failure_before_any_later_one(sim, line):
    line.send(b"one", b"two")  # nobody is there, and the network says so in a millisecond or two
    await sim.sleep(1_050)
    line.open_broker()
    await sim.sleep(200)
    assert line.asked == [b"one"]
    failed = [event for event in line.events if type(event).__name__ == "CallFinished"]
    assert {event.outcome for event in failed} == {Disconnected.__name__}
    assert 9 <= len(failed) <= 11

    await line.answer()

    assert line.asked == [b"one", b"two"]


@pytest.mark.behaviour("B123")
async def test_a_request_that_nobody_answers_is_sent_again_after_its_timeout(sim, line):
    line.open_broker()
    line.send(b"one")

    await sim.sleep(61_000)

    assert line.asked == [b"one"] * 3
    (_, first), (_, second), (_, third) = line.arrived
    assert second - first in range(30_098, 30_103)
    assert third - second in range(30_098, 30_103)


@pytest.mark.behaviour("B123")
async def test_a_request_that_a_busy_broker_did_not_take_is_sent_again(sim, line):
    line.open_broker()
    line.send(b"one", b"two")
    await sim.sleep(10)

    await line.answer(encode(LeaderAndIsrResponse(error_code=ErrorCode.BROKER_NOT_AVAILABLE)))
    await sim.sleep(200)

    assert line.asked == [b"one", b"one"]
    assert line.controller.messages == []


@pytest.mark.behaviour("B123")
async def test_every_broker_has_a_line_of_its_own_the_controllers_too(drive):
    lookup = drive.controller.system.lookup

    await drive.create("orders", [1, 2, 3])

    assert all(lookup(f"controller/channel-{broker}") for broker in (1, 2, 3))
    for broker in (1, 2, 3):
        (told,) = [each for each in drive.sent(LeaderAndIsr, to=broker) if each.partitions]
        assert [entry.partition for entry in told.partitions] == [ORDERS]
        assert drive.hosted(broker, "orders").leader == 1


@pytest.mark.behaviour("B123")
async def test_a_broker_that_cannot_be_reached_for_a_while_gets_all_of_it_in_order(sim, drive):
    sim.cut("broker-1", "broker-3")
    for topic in ("a", "b", "c"):
        await drive.write_topic(topic, {0: [1, 2, 3]})
        await sim.sleep(100)
    drive.forget()

    sim.heal()
    await sim.sleep(31_000)  # the one under way was lost, and times out first

    orders = [order for request in drive.sent(LeaderAndIsr, to=3) for order in request.partitions]
    assert [order.partition.topic for order in orders] == ["a", "b", "c"]
    assert all(drive.hosted(3, topic).leader == 1 for topic in ("a", "b", "c"))


# --- brokers that are removed or unknown --------------------------------------------------------


@pytest.mark.behaviour("B124")
async def test_what_waits_for_a_broker_that_is_removed_is_dropped(sim, drive):
    former = drive.node(3).broker_epoch
    sim.hold("broker-1", "broker-3")
    await drive.write_topic("first", {0: [1, 2, 3]})
    await sim.sleep(100)
    await drive.write_topic("second", {0: [1, 2, 3]})
    await sim.sleep(100)
    (under_way,) = sim.network.under_hold()["broker-1", "broker-3"]
    drive.forget()

    sim.expire_session("broker-3")  # it bounces: the line to its former life is removed
    await sim.sleep(1_000)
    sim.heal()
    await drive.settle()

    told = [each.request for each in drive.requests if each.to == 3 and each.source == "broker-1"]
    assert drive.node(3).broker_epoch > former
    assert {request.broker_epoch for request in told} == {drive.node(3).broker_epoch}
    assert under_way.payload not in [encode(request) for request in told]  # nor sent again
    assert drive.hosted(3, "second").leader == 1


@pytest.mark.behaviour("B124")
async def test_a_dead_brokers_line_is_closed_and_nothing_more_is_sent_to_it(sim, drive):
    lookup = drive.controller.system.lookup
    drive.cluster.kill(3)
    await sim.sleep(1_000)
    assert drive.requests
    await drive.settle()
    assert lookup("controller/channel-3") is None
    drive.forget()

    await drive.create("orders", [1, 2])
    await drive.settle()

    assert {each.to for each in drive.requests} == {1, 2}


@pytest.mark.behaviour("B124")
async def test_a_request_to_a_broker_that_is_not_known_is_dropped_and_traced(drive):
    drive.forget()

    drive.reign.office.channels.send(9, Send("StopReplica", b"", frozenset()))
    await drive.settle()

    assert drive.of(RequestDropped) == [RequestDropped(9, "StopReplica", "the broker is not known")]
    assert drive.requests == []


# --- answers -------------------------------------------------------------------------------------


@pytest.mark.behaviour("B134")
async def test_an_answer_to_leader_and_isr_is_an_event_of_its_broker_and_epoch(sim, line):
    line.open_broker()
    line.send(b"LeaderAndIsr")
    await sim.sleep(10)
    response = LeaderAndIsrResponse(
        partitions=(PartitionResult(ORDERS, ErrorCode.KAFKA_STORAGE_ERROR),)
    )

    await line.answer(encode(response))

    assert line.controller.messages == [LeaderAndIsrAnswered(2, 5, response)]


@pytest.mark.behaviour("B132", "B134")
@pytest.mark.parametrize("deleted", [frozenset(), frozenset({ORDERS})])
async def test_an_answer_to_stop_replica_is_an_event_only_if_it_deleted(sim, line, deleted):
    line.open_broker()
    line.send(b"StopReplica", deleted=deleted)
    await sim.sleep(10)
    response = StopReplicaResponse(partitions=(PartitionResult(ORDERS),))

    await line.answer(encode(response))

    expected = [StopReplicaAnswered(2, 5, response, deleted)] if deleted else []
    assert line.controller.messages == expected


@pytest.mark.behaviour("B134")
@pytest.mark.parametrize(
    "response",
    [
        encode(UpdateMetadataResponse()),
        encode(UpdateMetadataResponse(error_code=ErrorCode.STALE_CONTROLLER_EPOCH)),
        encode(ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)),
        b"no message",
    ],
)
async def test_any_other_answer_tells_the_controller_nothing(sim, line, response):
    line.open_broker()
    line.send(b"one", b"two")
    await sim.sleep(10)

    await line.answer(response)

    assert line.controller.messages == []
    assert line.asked == [b"one", b"two"]
    refused = [event for event in line.events if isinstance(event, FrameRefused)]
    assert [event.source for event in refused] == ["broker-2"] * (response == b"no message")


@pytest.mark.behaviour("B134")
async def test_the_controller_goes_on_while_a_broker_does_not_answer(sim, drive):
    sim.hold("broker-3", "broker-1")  # its answers
    await drive.write_topic("first", {0: [3, 1, 2]})
    await sim.sleep(100)

    await drive.write_topic("second", {0: [1, 2]})
    await sim.sleep(100)

    assert [event.topic for event in drive.of(LeaderElected)] == ["first", "second"]
    assert drive.state("second").leader == 1
    assert drive.hosted(2, "second").leader == 1
    assert len(drive.sent(LeaderAndIsr, to=3)) == 1  # it gets the next one when it has answered


@pytest.mark.behaviour("B134")
async def test_an_answer_that_refuses_leader_and_isr_changes_nothing_for_the_controller(sim, drive):
    """Only a failed disk matters: a broker that has a newer leader epoch is told no more."""
    orders = await drive.create("orders", [1, 2, 3])
    before, believed = drive.state("orders"), drive.context.leaderships[orders]
    drive.forget()

    office = drive.reign.office
    office.outbox.begin()
    office.outbox.add_leader_and_isr((2,), orders)  # of an epoch that it has already
    office.outbox.send()
    await drive.settle()

    assert drive.state("orders") == before
    assert drive.context.leaderships[orders] == believed
    assert [type(each.request) for each in drive.requests if each.source == "broker-1"] == [
        LeaderAndIsr,
        *[UpdateMetadata] * 3,
    ]
    assert drive.sent(StopReplica) == []
