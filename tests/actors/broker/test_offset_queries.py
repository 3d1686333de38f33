"""Where a time is, and where an epoch ended: ListOffsets, OffsetForLeaderEpoch (B150, KIP-207)."""

import pytest

from tests.support.data import batch_of
from tests.support.led import EPOCH, ORDERS, Led, at
from wire.data import (
    EARLIEST_TIMESTAMP_MS,
    LATEST_TIMESTAMP_MS,
    ListOffsets,
    ListOffsetsPartition,
    ListOffsetsResponse,
    ListOffsetsResult,
    OffsetForLeaderEpoch,
    OffsetForLeaderEpochPartition,
    OffsetForLeaderEpochResponse,
)
from wire.errors import ErrorCode
from wire.ids import TopicPartition

EARLIEST, LATEST = EARLIEST_TIMESTAMP_MS, LATEST_TIMESTAMP_MS


@pytest.fixture
async def led(sim):
    return await Led.start(sim, isr=[1, 8])


async def append(led, *timestamps_ms: int) -> None:
    for each in timestamps_ms:
        await led.produce_to({ORDERS: batch_of(b"a", timestamp_ms=each)}, 1, 0)


async def where(led, timestamp_ms: int, *, by: int = -1, partition=ORDERS, epoch: int = -1):
    """The one answer."""
    part = ListOffsetsPartition(
        partition=partition, timestamp_ms=timestamp_ms, current_leader_epoch=epoch
    )
    request = ListOffsets(replica_id=by, partitions=(part,))
    (result,) = (await led.drive.ask(1, request, ListOffsetsResponse)).partitions
    return result


def found(offset: int, timestamp_ms: int = -1, epoch: int = EPOCH) -> ListOffsetsResult:
    return ListOffsetsResult(
        partition=ORDERS, offset=offset, timestamp_ms=timestamp_ms, leader_epoch=epoch
    )


# --- ListOffsets ---------------------------------------------------------------------------------


async def test_an_empty_log_begins_and_ends_at_0(led):
    assert await where(led, EARLIEST) == await where(led, LATEST) == found(0)
    assert await where(led, 5) == found(-1, epoch=-1)


async def test_a_consumers_latest_is_the_high_watermark_and_a_followers_the_end(led):
    await append(led, 10, 20, 30)
    await led.fetch(2, by=8)

    assert await where(led, LATEST) == found(2)
    assert await where(led, LATEST, by=8) == found(3)
    assert await where(led, EARLIEST) == await where(led, EARLIEST, by=8) == found(0)


async def test_the_earliest_is_where_the_log_begins_by_now(led):
    await append(led, 10, 20)
    await led.fetch(2, by=8)
    led.replica().log.move_log_start_offset(1)

    assert await where(led, EARLIEST) == found(1)
    assert await where(led, 0) == found(1, 20)


@pytest.mark.parametrize(
    ("timestamp_ms", "expected"),
    [(0, (0, 10)), (10, (0, 10)), (11, (1, 30)), (20, (1, 30)), (31, (-1, -1))],
)
async def test_a_time_is_at_the_first_record_that_is_not_earlier(led, timestamp_ms, expected):
    await append(led, 10, 30, 20)
    await led.fetch(3, by=8)

    result = await where(led, timestamp_ms)

    assert (result.offset, result.timestamp_ms) == expected


async def test_a_consumer_does_not_find_what_is_not_committed_and_a_follower_does(led):
    await append(led, 10, 20)
    await led.fetch(1, by=8)

    assert await where(led, 20) == found(-1, epoch=-1)
    assert await where(led, 20, by=8) == found(1, 20)


async def test_a_new_leader_says_no_latest_before_it_knows_how_far_the_former_one_was(led):
    await append(led, 10, 20)
    await led.fetch(1, by=8)
    await led.lead(epoch=EPOCH + 1, isr=[1, 8])

    latest, late, early = [await where(led, each) for each in (LATEST, 20, 10)]
    assert latest.error_code is late.error_code is ErrorCode.OFFSET_NOT_AVAILABLE
    assert early == found(0, 10)  # of this there is no doubt
    assert await where(led, LATEST, by=8) == found(2, epoch=EPOCH + 1)

    await led.fetch(2, by=8, epoch=EPOCH + 1)

    assert await where(led, LATEST) == found(2, epoch=EPOCH + 1)
    assert await where(led, 20) == found(1, 20)


async def test_an_offset_comes_with_the_epoch_that_wrote_it(led):
    await append(led, 10)
    await led.lead(epoch=EPOCH + 2, isr=[1])
    await append(led, 20)

    assert (await where(led, 10)).leader_epoch == EPOCH
    assert (await where(led, 20)).leader_epoch == EPOCH + 2


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"epoch": EPOCH - 1}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"epoch": EPOCH + 1}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"partition": at(7)}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"partition": TopicPartition("", -1)}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
async def test_who_means_another_leader_or_no_partition_is_told(led, fields, code):
    assert (await where(led, LATEST, **fields)).error_code is code
    assert (await end_of(led, EPOCH, **fields)).error_code is code


@pytest.mark.parametrize("timestamp_ms", [-(2**63), -3, 2**63 - 1])
async def test_any_number_for_a_time_has_an_answer(led, timestamp_ms):
    await append(led, 10)
    await led.fetch(1, by=8)

    result = await where(led, timestamp_ms)

    assert result.error_code is ErrorCode.NONE
    assert result.offset == (0 if timestamp_ms < 0 else -1)


async def test_each_partition_asked_for_is_answered_in_its_place(led):
    parts = tuple(
        ListOffsetsPartition(partition=each, timestamp_ms=LATEST)
        for each in (ORDERS, at(5), ORDERS)
    )

    response = await led.drive.ask(1, ListOffsets(partitions=parts), ListOffsetsResponse)
    nothing = await led.drive.ask(1, ListOffsets(partitions=()), ListOffsetsResponse)

    assert [each.partition for each in response.partitions] == [ORDERS, at(5), ORDERS]
    assert nothing.partitions == ()


# --- OffsetForLeaderEpoch ------------------------------------------------------------------------


async def end_of(led, leader_epoch: int, *, partition=ORDERS, epoch: int = -1):
    part = OffsetForLeaderEpochPartition(
        partition=partition, leader_epoch=leader_epoch, current_leader_epoch=epoch
    )
    request = OffsetForLeaderEpoch(replica_id=8, partitions=(part,))
    (result,) = (await led.drive.ask(1, request, OffsetForLeaderEpochResponse)).partitions
    return result


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (EPOCH - 1, (EPOCH - 1, 0)),
        (EPOCH, (EPOCH, 2)),
        (EPOCH + 1, (EPOCH, 2)),
        (EPOCH + 2, (EPOCH + 2, 3)),
        (EPOCH + 3, (-1, -1)),
        (-1, (-1, -1)),
    ],
)
async def test_an_epoch_ends_where_the_next_one_begins_and_the_last_at_the_logs_end(
    led, asked, expected
):
    await append(led, 10, 20)
    await led.lead(epoch=EPOCH + 2)
    await append(led, 30)

    result = await end_of(led, asked)

    assert (result.leader_epoch, result.end_offset) == expected


async def test_a_new_leaders_epoch_ends_where_it_began_until_it_appends(led):
    result = await end_of(led, EPOCH)

    assert (result.error_code, result.leader_epoch, result.end_offset) == (0, EPOCH, 0)
