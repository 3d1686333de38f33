"""A consumer's committed offsets, against brokers that do as they are told."""

import pytest

from actors.client.group import OffsetAndMetadata
from tests.actors.client.brokers import LOST, ORDERS_0, ORDERS_1, FakeBrokers
from wire.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    ErrorCode,
    InvalidRequest,
    MalformedMessage,
    OffsetMetadataTooLarge,
)
from wire.groups import (
    FindCoordinator,
    FindCoordinatorResponse,
    OffsetCommit,
    OffsetCommitResponse,
    OffsetFetch,
    OffsetFetchResponse,
    OffsetFetchResult,
)
from wire.ids import Offset
from wire.message import PartitionResult


@pytest.fixture
def brokers(sim):
    return FakeBrokers(sim)


@pytest.fixture
async def shop(brokers):
    async with brokers.consumer(group_id="shop", auto_offset_reset="earliest") as consumer:
        consumer.assign([ORDERS_0])
        yield consumer


async def test_a_group_goes_on_where_it_committed(sim, brokers, shop):
    brokers.write(ORDERS_0, b"0", b"1", epoch=4)
    await shop.poll()
    await shop.commit()
    brokers.write(ORDERS_0, b"2", epoch=4)

    async with brokers.consumer(group_id="shop", auto_offset_reset="earliest") as other:
        other.assign([ORDERS_0])
        records = await other.poll()

    assert [each.value for each in records] == [b"2"]
    committed = await shop.committed([ORDERS_0, ORDERS_1])
    assert committed == {ORDERS_0: OffsetAndMetadata(2, "", 4), ORDERS_1: None}


async def test_offsets_may_be_committed_by_name(sim, brokers, shop):
    await shop.commit({ORDERS_0: 7, ORDERS_1: OffsetAndMetadata(Offset(8), "a note")})

    committed = await shop.committed([ORDERS_0, ORDERS_1])
    assert (committed[ORDERS_0].offset, committed[ORDERS_1].offset) == (7, 8)
    assert committed[ORDERS_1].metadata == "a note"
    assert len(brokers.sent(OffsetCommit)) == 1


async def test_without_a_committed_offset_a_consumer_begins_where_the_reset_says(sim, brokers):
    brokers.write(ORDERS_0, b"0")
    async with brokers.consumer(group_id="new", auto_offset_reset="earliest") as consumer:
        consumer.assign([ORDERS_0])

        assert await consumer.position(ORDERS_0) == 0


async def test_the_coordinator_is_remembered(sim, brokers, shop):
    for _ in range(3):
        await shop.commit({ORDERS_0: 1})

    assert len(brokers.sent(FindCoordinator)) == 1


async def test_the_coordinator_is_looked_for_again_when_it_denies_it(sim, brokers, shop):
    await shop.commit({ORDERS_0: 1})
    brokers.coordinator = 2

    await shop.commit({ORDERS_0: 2})
    brokers.coordinator = 1
    committed = await shop.committed([ORDERS_0])

    assert committed[ORDERS_0].offset == 2
    assert len(brokers.sent(FindCoordinator)) == 3


async def test_the_coordinator_is_looked_for_again_when_it_is_dead(sim, brokers, shop):
    await shop.commit({ORDERS_0: 1})
    brokers.networks[1].close()
    brokers.coordinator = 2

    await shop.commit({ORDERS_0: 2})

    assert brokers.committed["shop", ORDERS_0].committed_offset == 2


async def test_a_coordinator_that_is_loading_is_asked_again_after_a_while(sim, brokers, shop):
    loading = OffsetFetchResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    brokers.script(OffsetFetch, loading, loading)

    assert await shop.committed([ORDERS_0]) == {ORDERS_0: None}
    assert len(brokers.sent(FindCoordinator)) == 1
    assert 200 <= sim.now_ms < 300


async def test_a_coordinator_that_is_not_there_is_waited_for_until_the_deadline(sim, brokers, shop):
    nobody = FindCoordinatorResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    brokers.script(FindCoordinator, *[nobody] * 999)

    with pytest.raises(CoordinatorNotAvailable, match="'shop'"):
        await shop.commit({ORDERS_0: 1}, timeout_ms=2_000)
    assert 1_800 <= sim.now_ms <= 2_000


async def test_a_poll_does_not_fail_because_there_is_no_coordinator_yet(sim, brokers, shop):
    brokers.write(ORDERS_0, b"x")
    nobody = FindCoordinatorResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    brokers.script(FindCoordinator, *[nobody] * 20)

    assert await shop.poll(1_000) == []
    assert len(await shop.poll(2_000)) == 1


async def test_a_silent_coordinator_is_waited_for_no_longer_than_asked(sim, brokers, shop):
    brokers.script(OffsetCommit, *[LOST] * 9)

    with pytest.raises(Exception, match="OffsetCommit") as raised:
        await shop.commit({ORDERS_0: 1}, timeout_ms=2_000)
    assert raised.value.code is ErrorCode.REQUEST_TIMED_OUT
    assert sim.now_ms < 3_000


async def test_what_will_not_pass_is_told(sim, brokers, shop):
    code = ErrorCode.OFFSET_METADATA_TOO_LARGE
    refused = OffsetCommitResponse(partitions=(PartitionResult(ORDERS_0, code, "too long"),))
    brokers.script(OffsetCommit, refused)

    with pytest.raises(OffsetMetadataTooLarge, match="orders-0: too long"):
        await shop.commit({ORDERS_0: 1})


async def test_a_partition_that_is_refused_for_now_is_tried_again(sim, brokers, shop):
    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    refused = OffsetCommitResponse(partitions=(PartitionResult(ORDERS_0, code),))
    brokers.script(OffsetCommit, refused)

    await shop.commit({ORDERS_0: 1})

    assert len(brokers.sent(OffsetCommit)) == 2
    brokers.script(OffsetCommit, *[refused] * 99)
    with pytest.raises(CoordinatorLoadInProgress):
        await shop.commit({ORDERS_0: 1}, timeout_ms=500)


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        (FindCoordinator, FindCoordinatorResponse()),
        (OffsetFetch, OffsetFetchResponse()),
        (OffsetFetch, OffsetFetchResponse(partitions=(OffsetFetchResult(partition=ORDERS_1),))),
        (
            OffsetFetch,
            OffsetFetchResponse(
                partitions=(OffsetFetchResult(partition=ORDERS_0, committed_offset=Offset(-2)),)
            ),
        ),
    ],
)
async def test_an_answer_that_is_none_is_told(sim, brokers, shop, kind, answer):
    brokers.script(kind, answer, answer)

    with pytest.raises(MalformedMessage):
        await shop.committed([ORDERS_0])
    with pytest.raises(MalformedMessage):
        await shop.poll(60_000)
    assert sim.now_ms < 1_000


async def test_a_commit_that_was_not_answered_for_is_told(sim, brokers, shop):
    brokers.script(OffsetCommit, OffsetCommitResponse(partitions=()))

    with pytest.raises(MalformedMessage, match="OffsetCommit was not answered for orders-0"):
        await shop.commit({ORDERS_0: 1})


async def test_only_a_group_can_commit(sim, brokers):
    async with brokers.consumer() as consumer:
        for call in (consumer.commit({ORDERS_0: 1}), consumer.committed([ORDERS_0])):
            with pytest.raises(Exception, match=r"no group\.id") as raised:
                await call
            assert raised.value.code is ErrorCode.INVALID_GROUP_ID


async def test_what_cannot_be_committed_is_refused(sim, brokers, shop):
    with pytest.raises(InvalidRequest, match="offset -3 of orders-0"):
        await shop.commit({ORDERS_0: -3})
    await shop.commit({})
    await shop.commit()  # no position is known yet
    assert await shop.committed([]) == {}
    assert brokers.sent(OffsetCommit) == []
