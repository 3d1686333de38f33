"""What is asked, in its order; what is no request; and what is done to requests on purpose."""

import gc
import struct
from pathlib import Path

import pytest
from kio.static.constants import EntityType

from actors.doors.kafka import table
from actors.doors.kafka.table import APIS, documentation
from actors.faults.local import LocalFaults
from actors.faults.vocabulary import fault_of
from tests.support.kafka_caller import NAMES, KafkaCaller, entity, framed, made
from wire.errors import ErrorCode
from wire.ids import TopicPartition
from wire.records import Record, encode_batch
from wire.trace import FrameRefused

README = Path(table.__file__).parent / "README.md"
ORDERS = TopicPartition("orders", 0)


def a_produce(acks: int = -1, batch: bytes | None = None, topic: str = "orders") -> dict:
    record = Record(offset=0, timestamp_ms=1, key=b"k", value=b"v")
    records = bytes(encode_batch([record])) if batch is None else batch
    data = [{"index": 0, "records": records}]
    topics = [{"name": topic, "partition_data": data}]
    return {"acks": acks, "timeout": 1_000, "topic_data": topics}


def a_fetch(offset: int = 0, max_wait: int = 0) -> dict:
    wanted = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1_000}
    topics = [{"topic": "orders", "partitions": [wanted]}]
    return {"max_wait": max_wait, "min_bytes": 1, "topics": topics, "forgotten_topics_data": []}


def offsets(response) -> list[int]:
    return [each.base_offset for topic in response.responses for each in topic.partition_responses]


def codes(response) -> list[int]:
    return [each.error_code for topic in response.responses for each in topic.partition_responses]


# --- what is spoken -------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(5))
async def test_api_versions_tells_the_table(caller, version):
    more = {"client_software_name": "x", "client_software_version": "1"} if version > 2 else {}

    answer = await caller.ask("ApiVersions", version, **more)

    assert answer.error_code == ErrorCode.NONE
    told = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
    assert told == {each.key: (each.least, each.most) for each in APIS}


def test_the_documentation_is_made_from_the_table_too():
    """`python -m tests.actors.doors.kafka.test_conversation` writes it anew."""
    assert README.read_text() == documentation()


async def test_a_version_of_api_versions_that_nobody_knows_is_answered_as_version_0(sim, caller):
    caller.line.say(struct.pack(">hhih", 18, 99, 7, -1) + b"whatever")
    await sim.until(lambda: caller.line.heard)

    number, answer = caller.heard(0, "ApiVersions", 0)

    assert (number, answer.error_code) == (7, ErrorCode.UNSUPPORTED_VERSION)
    assert 18 in {each.api_key for each in answer.api_keys}
    assert (await caller.ask("ApiVersions", 0)).error_code == ErrorCode.NONE


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (b"", "0 bytes"),
        (b"\0", "1 bytes"),
        (struct.pack(">hhih", 999, 0, 1, -1), "no API 999"),
        (struct.pack(">hhih", 3, 13, 1, -1), "Metadata has no version 13"),
        (struct.pack(">hhih", 3, -1, 1, -1), "Metadata has no version -1"),
        (struct.pack(">hhih", 3, 1, 1, 30_000), "client id of 30000"),
        (struct.pack(">hhih", 3, 1, 1, -2), "client id of -2"),
        (struct.pack(">hhih", 3, 1, 1, 1) + b"\xff", "no text"),
        (struct.pack(">hhih", 3, 1, 1, -1) + b"\x7f\xff\xff\xff", "exhausted"),
        (struct.pack(">hhih", 3, 9, 1, -1) + b"\xff" * 20, "do not end"),
        (struct.pack(">hhih", 33, 0, 1, -1) + b"\xff\xff\xff\xff\0", "resources is null"),
        (struct.pack(">hhih", 3, 0, 1, -1) + bytes(5 << 20), "Metadata of 5242890 bytes"),
        (struct.pack(">hhih", 3, 9, 1, -1) + b"\x01\x00\x7f", "tagged field"),
    ],
)
async def test_what_is_no_request_ends_its_connection_and_nobody_elses(
    sim, drive, caller, frame, reason
):
    other = KafkaCaller(sim)
    drive.forget()

    caller.line.say(frame)

    assert not caller.line.is_open
    assert reason in caller.line.refusal
    assert (await other.ask("Metadata", 1, topics=None)).controller_id == 1
    assert drive.node(1).system.is_up


# --- order ----------------------------------------------------------------------------------------


async def test_calls_are_answered_one_after_the_other_also_when_the_first_one_waits(sim, caller):
    caller.say("Fetch", 4, **a_fetch(max_wait=500))
    caller.say("Metadata", 1, topics=None)
    caller.say("ApiVersions", 0)
    await sim.sleep(400)
    assert caller.line.heard == []

    await sim.until(lambda: len(caller.line.heard) == 3)

    heard = [("Fetch", 4), ("Metadata", 1), ("ApiVersions", 0)]
    assert [caller.heard(at, *each)[0] for at, each in enumerate(heard)] == [1, 2, 3]


async def test_one_fetch_begins_to_wait_when_the_one_before_has_ended(sim, caller):
    for _ in range(2):
        caller.say("Fetch", 4, **a_fetch(max_wait=500))

    await sim.sleep(700)
    assert len(caller.line.heard) == 1

    await sim.sleep(400)
    assert len(caller.line.heard) == 2


async def test_produce_requests_follow_each_other_without_waiting_for_the_replicas(
    sim, drive, caller
):
    drive.cluster.universe.pause("broker-2")
    for _ in range(3):
        caller.say("Produce", 3, **a_produce(), transactional_id=None)
    await sim.sleep(50)
    replica = drive.node(1).replica_manager.replicas[ORDERS]
    assert (replica.log_end_offset, replica.high_watermark) == (3, 0)
    assert caller.line.heard == []

    drive.cluster.universe.resume("broker-2")
    await sim.until(lambda: len(caller.line.heard) == 3)

    answers = [caller.heard(at, "Produce", 3) for at in range(3)]
    assert [number for number, _ in answers] == [1, 2, 3]
    assert [offsets(answer) for _, answer in answers] == [[0], [1], [2]]


async def test_records_that_wait_for_replicas_wait_in_the_log_and_not_in_memory(sim, drive, caller):
    drive.cluster.universe.pause("broker-2")
    request = made(entity(NAMES["Produce"], 3, EntityType.request), **a_produce())
    frame = bytearray(framed(NAMES["Produce"], 3, request))
    caller.line.conversation.take(memoryview(frame))
    await sim.sleep(50)
    await KafkaCaller(sim).ask("Metadata", 1, topics=None)  # else it was the last that was handled

    gc.collect()
    assert drive.node(1).replica_manager.replicas[ORDERS].log_end_offset == 1
    assert caller.line.heard == []
    frame.clear()  # BufferError, if anybody still looked at it


async def test_with_acks_0_nobody_is_answered(sim, drive, caller):
    caller.say("Produce", 3, **a_produce(acks=0))
    caller.say("ApiVersions", 0)

    await sim.until(lambda: caller.line.heard)

    assert caller.heard(0, "ApiVersions", 0)[0] == 2
    assert drive.node(1).replica_manager.replicas[ORDERS].log_end_offset == 1


async def test_with_acks_0_an_error_ends_the_connection(sim, drive, caller):
    caller.say("Produce", 3, **a_produce(acks=0, topic="nobody"))

    await sim.until(lambda: not caller.line.is_open)

    assert caller.line.heard == []


# --- the broker's life ----------------------------------------------------------------------------


async def test_a_paused_broker_takes_nothing_and_then_goes_on(sim, drive, caller):
    drive.cluster.universe.pause("broker-1")
    caller.say("ApiVersions", 0)
    await sim.sleep(100)
    assert caller.line.heard == []

    drive.cluster.universe.resume("broker-1")

    await sim.until(lambda: caller.line.heard)
    assert caller.line.is_open


async def test_a_killed_broker_breaks_its_connections_and_serves_on_the_same_port(
    sim, drive, caller
):
    before = drive.node(1).endpoints
    drive.cluster.kill(1)
    assert not caller.line.is_open
    with pytest.raises(ConnectionRefusedError):
        sim.listeners["broker-1"].connect()

    await drive.cluster.start_broker(1)

    assert drive.node(1).endpoints == before
    assert await KafkaCaller(sim).ask("ApiVersions", 0)


# --- faults ---------------------------------------------------------------------------------------


class Hand:
    """What is done on purpose, in this process."""

    def __init__(self, drive) -> None:
        self._local = LocalFaults(drive.cluster.universe)
        self._number = 0

    def apply(self, **given) -> int:
        self._number += 1
        self._local.apply(fault_of(given), self._number)
        return self._number

    def undo(self, number: int) -> None:
        self._local.undo(number)


@pytest.fixture
def hand(drive):
    return Hand(drive)


async def test_the_nth_request_of_an_api_and_client_is_refused_in_its_own_form(sim, caller, hand):
    hand.apply(
        fault="refuse-request", api="Produce", client="app", nth=2, error="NOT_ENOUGH_REPLICAS"
    )
    app = KafkaCaller(sim, client="app")

    answers = [await app.ask("Produce", 3, **a_produce()) for _ in range(3)]
    other = await caller.ask("Produce", 3, **a_produce())

    assert [codes(each) for each in answers] == [[0], [ErrorCode.NOT_ENOUGH_REPLICAS], [0]]
    assert codes(other) == [0]
    assert offsets(other) == [2]  # the refused one was not appended


@pytest.mark.parametrize("version", [4, 12])
async def test_a_refused_fetch_has_its_error_in_each_partition(caller, hand, version):
    hand.apply(fault="refuse-request", api="Fetch", error="UNKNOWN_LEADER_EPOCH")

    answer = await caller.ask("Fetch", version, **a_fetch())

    (partition,) = answer.responses[0].partitions
    assert partition.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


async def test_a_request_is_delayed_and_those_behind_it_with_it(sim, caller, hand):
    hand.apply(fault="delay-request", api="ApiVersions", times=1, ms=300)
    caller.say("ApiVersions", 0)
    caller.say("ApiVersions", 0)
    await sim.sleep(250)
    assert caller.line.heard == []

    await sim.until(lambda: len(caller.line.heard) == 2)

    assert [caller.heard(at, "ApiVersions", 0)[0] for at in (0, 1)] == [1, 2]


@pytest.mark.parametrize(("handled", "end"), [(False, 0), (True, 1)])
async def test_a_connection_ends_before_or_after_its_request_is_handled(
    sim, drive, caller, hand, handled, end
):
    hand.apply(fault="disconnect-request", api="Produce", handled=handled)

    caller.say("Produce", 3, **a_produce())
    await sim.until(lambda: not caller.line.is_open)

    assert caller.line.heard == []
    assert drive.node(1).replica_manager.replicas[ORDERS].log_end_offset == end


@pytest.mark.parametrize(("handled", "end"), [(False, 0), (True, 1)])
async def test_a_request_is_swallowed_and_nothing_follows_until_the_client_gives_up(
    sim, drive, caller, hand, handled, end
):
    number = hand.apply(fault="blackhole-request", broker=1, api="Produce", handled=handled)

    caller.say("Produce", 3, **a_produce())
    caller.say("ApiVersions", 0)
    await sim.sleep(60_000)

    assert caller.line.is_open
    assert caller.line.heard == []
    assert drive.node(1).replica_manager.replicas[ORDERS].log_end_offset == end
    hand.undo(number)
    assert codes(await KafkaCaller(sim).ask("Produce", 3, **a_produce())) == [0]


async def test_a_fault_is_for_one_broker_if_it_names_one(sim, caller, hand):
    hand.apply(fault="refuse-request", broker=2, error="UNKNOWN_SERVER_ERROR")

    assert (await caller.ask("ApiVersions", 0)).error_code == 0
    answer = await KafkaCaller(sim, 2).ask("ApiVersions", 0)
    assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR


async def test_refusals_leave_a_trace_event(sim, drive, caller):
    drive.forget()

    caller.line.say(struct.pack(">hhih", 999, 0, 1, -1))

    assert caller.line.refusal == "there is no API 999"
    assert drive.of(FrameRefused) == []  # sockets leave it: tests/runtime/test_tcp.py


if __name__ == "__main__":
    README.write_text(documentation())
