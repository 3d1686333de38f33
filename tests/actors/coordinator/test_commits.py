"""Committing offsets (B177)."""

import pytest

from actors.coordinator.records import OffsetKey
from tests.actors.coordinator.office import BILLS, GROUP, NONE, ORDERS, SHARD, Office, a_commit
from wire.errors import ErrorCode
from wire.groups import OffsetCommit, OffsetCommitPartition, OffsetFetch
from wire.ids import TopicPartition
from wire.metadata import Metadata, MetadataResponse

pytestmark = pytest.mark.behaviour("B177")


async def opened(sim, **config):
    office = await Office.open(sim, **config)
    await office.make_topic()
    await office.lead(epoch=4)
    return office


@pytest.fixture
async def office(sim):
    return await opened(sim)


async def test_a_commit_is_an_append_with_acks_of_all_and_five_seconds(office):
    assert await office.commit(17) is NONE

    (append,) = office.replicas.appends
    assert (append.partition.topic, append.partition.partition) == ("__consumer_offsets", SHARD)
    assert (append.acks, append.timeout_ms, append.leader_epoch) == (-1, 5_000, 4)
    ((key, value),) = office.replicas.log().changes()
    assert key == OffsetKey(GROUP, ORDERS)
    assert (value.offset, value.leader_epoch, value.metadata) == (17, -1, "")
    assert value.commit_timestamp_ms == pytest.approx(office.world.clock.now_ms(), abs=1_000)


async def test_how_safe_a_commit_is_can_be_configured(sim):
    office = await opened(sim, offsets_commit_required_acks=1, offsets_commit_timeout_ms=70)

    await office.commit(17)

    (append,) = office.replicas.appends
    assert (append.acks, append.timeout_ms) == (1, 70)


async def test_what_was_committed_is_told_with_its_epoch_and_note(office):
    part = OffsetCommitPartition(
        partition=ORDERS, committed_offset=3, committed_leader_epoch=8, metadata="a note"
    )
    await office.ask(OffsetCommit(group_id=GROUP, partitions=(part,)))

    (result,) = (await office.ask(OffsetFetch(group_id=GROUP, partitions=(ORDERS,)))).partitions
    assert (result.committed_offset, result.committed_leader_epoch) == (3, 8)
    assert result.metadata == "a note"


async def test_a_commit_is_seen_and_answered_only_when_it_is_appended(office):
    await office.commit(1)
    office.replicas.is_holding_appends = True
    answers = office.send(a_commit({ORDERS: 2}))
    await office.rest()
    assert answers == []
    assert await office.committed() == 1

    office.replicas.release()
    await office.rest()

    assert len(answers) == 1
    assert await office.committed() == 2


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
    ],
)
@pytest.mark.parametrize("is_in_the_log", [True, False])
async def test_a_commit_that_fails_is_not_seen_and_has_a_consumers_error(
    office, error, told, is_in_the_log
):
    await office.commit(1)
    office.replicas.append_error = error
    office.replicas.appends_despite_error = is_in_the_log

    assert await office.commit(2) is told

    assert await office.committed() == 1


async def test_two_commits_at_once_keep_the_order_of_the_log(office):
    office.replicas.is_holding_appends = True
    first, second = office.send(a_commit({ORDERS: 5})), office.send(a_commit({ORDERS: 4}))
    await office.rest()

    office.replicas.release(1, 0)
    await office.rest()

    assert len(first) == len(second) == 1
    assert await office.committed() == 4


async def test_a_commit_larger_than_a_message_may_be_is_refused(office):
    office.replicas.max_message_bytes = 500
    offsets = {TopicPartition("orders", number): 1 for number in range(50)}

    response = await office.ask(a_commit(offsets))

    codes = {each.error_code for each in response.partitions}
    assert codes == {ErrorCode.INVALID_COMMIT_OFFSET_SIZE}
    assert await office.committed() == -1


async def test_a_note_that_is_too_long_is_refused_for_its_partition_only(office):
    parts = tuple(
        OffsetCommitPartition(partition=each, committed_offset=1, metadata="x" * length)
        for each, length in ((ORDERS, 4_097), (BILLS, 4_096))
    )

    response = await office.ask(OffsetCommit(group_id=GROUP, partitions=parts))

    assert [(each.partition, each.error_code) for each in response.partitions] == [
        (ORDERS, ErrorCode.OFFSET_METADATA_TOO_LARGE),
        (BILLS, NONE),
    ]
    assert (await office.committed(ORDERS), await office.committed(BILLS)) == (-1, 1)


@pytest.mark.parametrize(
    ("metadata", "is_taken"),
    [("é" * 4_096, True), ("😀" * 2_048, True), ("😀" * 2_049, False)],
    ids=["two bytes each", "two units each", "a unit too many"],
)
async def test_a_note_is_measured_as_java_measures_it(office, metadata, is_taken):
    code = await office.commit(1, metadata=metadata)

    assert (code is NONE) == is_taken


async def test_a_note_that_no_record_can_hold_is_refused_whatever_is_configured(sim):
    office = await opened(sim, offset_metadata_max_bytes=100_000)

    code = await office.commit(1, metadata="x" * 32_768)

    assert code is ErrorCode.OFFSET_METADATA_TOO_LARGE


async def test_a_commit_of_which_nothing_is_left_appends_nothing(office):
    assert await office.commit(1, metadata="x" * 5_000) is ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert (await office.ask(a_commit({}))).partitions == ()
    assert office.replicas.appends == []


@pytest.mark.parametrize(
    "partition",
    [TopicPartition("", 0), TopicPartition("a/b", 0), TopicPartition("orders", -1), BILLS],
    ids=str,
)
async def test_a_partition_that_metadata_does_not_know_is_refused(office, partition):
    office.hidden.add(partition)

    assert await office.commit(1, partition) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("group", ["", "x" * 32_768], ids=["empty", "too long"])
async def test_a_group_without_a_proper_name_is_refused(office, group):
    assert await office.commit(1, group=group) is ErrorCode.INVALID_GROUP_ID
    assert await office.committed(group=group) is ErrorCode.INVALID_GROUP_ID


async def test_a_member_of_a_group_that_is_none_cannot_commit(office):
    member = {"generation_id": 3, "member_id": "me"}
    assert await office.commit(1, **member) is ErrorCode.ILLEGAL_GENERATION

    await office.commit(1)
    assert await office.commit(2, **member) is ErrorCode.UNKNOWN_MEMBER_ID

    assert await office.committed() == 1


async def test_a_commit_that_finds_an_inbox_full_is_answered(office):
    limit = office.replicas.ref._limit
    office.replicas.ref._limit = 0
    assert await office.commit(1) is ErrorCode.COORDINATOR_NOT_AVAILABLE

    office.replicas.ref._limit = limit
    assert await office.committed() == -1


async def test_what_is_not_for_a_coordinator_is_refused(office):
    response = await office.ask(Metadata(topics=("orders",)))

    assert isinstance(response, MetadataResponse)
    assert response.topics[0].error_code is ErrorCode.INVALID_REQUEST


async def test_groups_do_not_see_each_other(sim):
    office = await Office.open(sim)
    await office.make_topic(partitions=1)
    await office.lead(0)

    await office.commit(1, group="one")
    await office.commit(2, group="two")

    assert await office.committed(group="one") == 1
    assert await office.committed(group="two") == 2
    assert await office.committed(group="three") == -1
