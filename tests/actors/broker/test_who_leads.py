"""Who may be written to, read from and asked: only the leader, and both mean one epoch (B144)."""

import pytest

from tests.support.data import batch_of
from tests.support.drive import Drive
from tests.support.orders import leader_and_isr, news, order, update_metadata
from wire.control import LeaderAndIsrResponse, UpdateMetadataResponse
from wire.data import (
    LATEST_TIMESTAMP_MS,
    Fetch,
    FetchPartition,
    FetchResponse,
    ListOffsets,
    ListOffsetsPartition,
    ListOffsetsResponse,
    OffsetForLeaderEpoch,
    OffsetForLeaderEpochPartition,
    OffsetForLeaderEpochResponse,
    Produce,
    ProducePartition,
    ProduceResponse,
)
from wire.errors import ErrorCode
from wire.ids import NO_LEADER_EPOCH, TopicPartition

ORDERS = TopicPartition("orders", 0)
SALES = TopicPartition("sales", 0)
EPOCH = 5


@pytest.fixture
async def drive(sim):
    """Broker 2 leads orders in epoch 5, and broker 3 follows; nobody knows of sales."""
    drive = await Drive.start(sim)
    for each in (2, 3):
        request = leader_and_isr(order(ORDERS, 2, EPOCH))
        await drive.ask(each, request, LeaderAndIsrResponse)
    drive.forget()
    return drive


def _produce(partition: TopicPartition, _: int):
    entry = ProducePartition(partition, memoryview(bytes(batch_of(b"a"))))
    return Produce(acks=1, timeout_ms=1_000, partitions=(entry,)), ProduceResponse


def _fetch(partition: TopicPartition, epoch: int):
    wanted = FetchPartition(
        partition=partition, fetch_offset=0, max_bytes=1_000, current_leader_epoch=epoch
    )
    request = Fetch(max_wait_ms=0, min_bytes=1, max_bytes=1_000, partitions=(wanted,))
    return request, FetchResponse


def _list_offsets(partition: TopicPartition, epoch: int):
    asked = ListOffsetsPartition(
        partition=partition, timestamp_ms=LATEST_TIMESTAMP_MS, current_leader_epoch=epoch
    )
    return ListOffsets(partitions=(asked,)), ListOffsetsResponse


def _end_of_epoch(partition: TopicPartition, epoch: int):
    asked = OffsetForLeaderEpochPartition(
        partition=partition, leader_epoch=0, current_leader_epoch=epoch
    )
    return OffsetForLeaderEpoch(partitions=(asked,)), OffsetForLeaderEpochResponse


WITH_EPOCH = [
    pytest.param(_fetch, id="Fetch"),
    pytest.param(_list_offsets, id="ListOffsets"),
    pytest.param(_end_of_epoch, id="OffsetForLeaderEpoch"),
]
ALL = [pytest.param(_produce, id="Produce"), *WITH_EPOCH]


async def code_of(
    drive, broker: int, kind, partition: TopicPartition = ORDERS, epoch: int = NO_LEADER_EPOCH
) -> ErrorCode:
    """What a broker says to the one partition of a request."""
    request, expected = kind(partition, epoch)
    (result,) = (await drive.ask(broker, request, expected)).partitions
    assert result.partition == partition
    return result.error_code


@pytest.mark.behaviour("B144")
@pytest.mark.parametrize("kind", ALL)
async def test_the_leader_answers_and_a_follower_does_not(drive, kind):
    assert await code_of(drive, 2, kind) is ErrorCode.NONE
    assert await code_of(drive, 3, kind) is ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.behaviour("B144")
@pytest.mark.parametrize("kind", ALL)
async def test_a_partition_that_is_elsewhere_is_told_from_one_that_is_nowhere(drive, kind):
    assert await code_of(drive, 2, kind, SALES) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    await drive.ask(2, update_metadata(news(SALES, 1)), UpdateMetadataResponse)

    assert await code_of(drive, 2, kind, SALES) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    another = TopicPartition("sales", 1)
    assert await code_of(drive, 2, kind, another) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.behaviour("B144")
@pytest.mark.parametrize("kind", WITH_EPOCH)
@pytest.mark.parametrize("broker", [2, 3], ids=["leader", "follower"])
async def test_another_leader_epoch_is_refused_whoever_is_asked(drive, kind, broker):
    assert await code_of(drive, broker, kind, epoch=EPOCH - 1) is ErrorCode.FENCED_LEADER_EPOCH
    assert await code_of(drive, broker, kind, epoch=EPOCH + 1) is ErrorCode.UNKNOWN_LEADER_EPOCH


@pytest.mark.behaviour("B144")
@pytest.mark.parametrize("kind", WITH_EPOCH)
async def test_the_same_leader_epoch_is_fine_at_the_leader_and_no_help_elsewhere(drive, kind):
    assert await code_of(drive, 2, kind, epoch=EPOCH) is ErrorCode.NONE
    assert await code_of(drive, 3, kind, epoch=EPOCH) is ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.behaviour("B144")
async def test_what_is_refused_is_not_appended_and_its_neighbour_is(drive):
    batch = memoryview(bytes(batch_of(b"a")))
    entries = (ProducePartition(SALES, batch), ProducePartition(ORDERS, batch))
    request = Produce(acks=1, timeout_ms=1_000, partitions=entries)

    response = await drive.ask(2, request, ProduceResponse)
    refused = await drive.ask(3, request, ProduceResponse)

    assert [(each.error_code, each.base_offset) for each in response.partitions] == [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
        (ErrorCode.NONE, 0),
    ]
    assert [each.error_code for each in refused.partitions] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ]
    await drive.sim.sleep(1_000)
    assert drive.replica(2, "orders").log_end_offset == 1
    assert drive.replica(3, "orders").log_end_offset == 1  # as fetched from the leader
