"""Becoming a group's coordinator, and being it no longer (B176)."""

import pytest

from actors.broker.local import LeadershipChanged
from actors.coordinator.coordinator import MOST_BYTES_READ
from actors.coordinator.messages import TopicsDeleted
from actors.coordinator.records import OFFSETS_TOPIC, OffsetKey, OffsetValue, encode_changes
from tests.actors.coordinator.office import (
    BILLS,
    GROUP,
    NONE,
    ORDERS,
    PARTITIONS,
    SHARD,
    Office,
    a_commit,
)
from wire.errors import ErrorCode
from wire.groups import OffsetFetch
from wire.ids import LEADER_EPOCH_DURING_DELETE, TopicPartition
from wire.records import Record, encode_batch

pytestmark = pytest.mark.behaviour("B176")
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
NOT_COORDINATOR = ErrorCode.NOT_COORDINATOR


@pytest.fixture
async def office(sim):
    office = await Office.open(sim)
    await office.make_topic()
    return office


def orders_at(offset, committed_ms=1_600_000_000_000):
    value = OffsetValue(offset=offset, commit_timestamp_ms=committed_ms, metadata="here")
    return OffsetKey(GROUP, ORDERS), value


async def test_who_does_not_lead_the_groups_partition_is_no_coordinator(office):
    await office.lead((SHARD + 1) % PARTITIONS)

    assert await office.committed() is NOT_COORDINATOR
    assert await office.commit(1) is NOT_COORDINATOR
    assert office.replicas.appends == []


async def test_who_leads_nothing_is_no_coordinator(office):
    assert await office.committed() is NOT_COORDINATOR
    assert await office.commit(1) is NOT_COORDINATOR


async def test_what_was_committed_is_loaded_in_the_order_of_the_log(office):
    bills = OffsetKey(GROUP, BILLS)
    office.write(orders_at(1), (bills, orders_at(5)[1]))
    office.write(orders_at(3), (bills, None))
    office.write(orders_at(2))

    await office.lead()

    (result,) = (await office.ask(OffsetFetch(group_id=GROUP))).partitions
    assert (result.partition, result.committed_offset, result.metadata) == (ORDERS, 2, "here")


async def test_until_all_is_loaded_consumers_are_told_to_wait(office):
    office.write(orders_at(1))
    office.replicas.is_holding_reads = True
    await office.lead()

    assert await office.committed() is LOADING
    assert await office.commit(2) is LOADING
    assert office.replicas.appends == []

    office.replicas.release()
    await office.rest()
    assert await office.committed() == 1
    assert await office.commit(2) is NONE


async def test_until_the_number_of_partitions_is_known_consumers_are_told_to_wait(sim):
    office = await Office.open(sim)
    await office.lead()

    assert await office.committed() is LOADING
    assert office.topics_asked_for == 0  # it is there, or nobody could lead it

    await office.make_topic()
    await office.rest(1_500)
    assert await office.committed() == -1


async def test_a_long_log_is_read_in_pieces_while_others_are_answered(sim):
    office = await Office.open(sim, offsets_load_buffer_size=200)
    await office.make_topic()
    for offset in range(50):
        office.write(orders_at(offset))

    await office.lead()

    assert await office.committed() == 49
    assert len(office.replicas.reads) == 50
    assert {each.max_bytes for each in office.replicas.reads} == {200}


async def test_no_piece_is_so_large_that_it_holds_up_all_others(office):
    await office.lead()

    assert [each.max_bytes for each in office.replicas.reads] == [MOST_BYTES_READ]


async def test_what_the_former_leader_acknowledged_is_waited_for(office):
    """I-25: it lies between the new leader's high watermark, which lags, and the log's end."""
    log = office.replicas.log()
    office.write(orders_at(1))
    office.write(orders_at(2))
    log.high_watermark = 1
    await office.lead()
    await office.rest(2_000)
    assert await office.committed() is LOADING
    assert 10 <= len(office.replicas.reads) <= 60  # asks again, and not all the time

    log.high_watermark = 2
    await office.rest(200)

    assert await office.committed() == 2


async def test_a_load_does_not_wait_for_what_comes_after_it_began(office):
    log = office.replicas.log()
    office.write(orders_at(1))
    office.replicas.is_holding_reads = True
    await office.lead()
    office.write(orders_at(2))
    log.high_watermark = 1

    office.replicas.release()
    await office.rest()

    assert await office.committed() == 1


async def test_what_is_before_the_logs_start_is_not_loaded(office):
    office.write((OffsetKey(GROUP, BILLS), orders_at(7)[1]), orders_at(1))
    office.replicas.log().start = 1

    await office.lead()

    assert await office.committed(BILLS) == -1
    assert await office.committed() == 1


@pytest.mark.parametrize("high_watermark", [None, 10])
async def test_a_log_whose_end_compaction_has_emptied_is_loaded(office, high_watermark):
    class Emptied(type(office.replicas.log())):
        @property
        def end(self):
            return 10

    log = office.replicas.log()
    office.write(orders_at(1))
    log.__class__ = Emptied
    log.high_watermark = high_watermark

    await office.lead()

    assert await office.committed() == 1


async def test_records_of_somebody_else_are_passed_over(office):
    log = office.replicas.log()
    log.append(encode_batch([Record(offset=0, timestamp_ms=1, key=b"\0\x09\0\1g", value=b"x")]))
    office.write(orders_at(1))

    await office.lead()

    assert await office.committed() == 1


@pytest.mark.parametrize(
    "code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR], ids=lambda c: c.name
)
async def test_a_log_that_cannot_be_read_makes_no_coordinator(office, code):
    office.replicas.read_error = code
    await office.lead()

    assert await office.committed() is NOT_COORDINATOR

    office.replicas.read_error = NONE
    await office.lead(epoch=1)
    assert await office.committed() == -1


async def test_a_record_that_cannot_be_read_makes_no_coordinator(office):
    office.write(orders_at(1))
    batch = encode_batch([Record(offset=0, timestamp_ms=1, key=b"\0\1\0\xffg", value=b"x")])
    office.replicas.log().append(batch)

    await office.lead()

    assert await office.committed() is NOT_COORDINATOR


async def test_bytes_that_a_disk_has_changed_make_no_coordinator(office):
    batch = encode_changes([orders_at(1)], 1)
    batch[-2] ^= 1
    office.replicas.log().append(batch)

    await office.lead()

    assert await office.committed() is NOT_COORDINATOR


# --- leadership that comes and goes ---------------------------------------------------------------


async def test_who_leads_no_longer_unloads(office):
    office.write(orders_at(1))
    await office.lead()
    assert await office.committed() == 1

    office.tell_leads_no_longer()

    assert await office.committed() is NOT_COORDINATOR


async def test_who_leads_again_after_another_loads_what_the_other_wrote(office):
    office.write(orders_at(1))
    await office.lead()
    office.tell_leads_no_longer(epoch=1)
    office.write(orders_at(2))

    await office.lead(epoch=2)

    assert await office.committed() == 2


async def test_who_leads_again_after_an_unseen_other_loads_what_the_other_wrote(office):
    office.write(orders_at(1))
    await office.lead()
    office.write(orders_at(2))

    await office.lead(epoch=2)

    assert await office.committed() == 2


async def test_who_goes_on_leading_in_the_next_epoch_stays_coordinator(office):
    await office.lead()
    assert await office.commit(1) is NONE
    office.replicas.is_holding_reads = True

    await office.lead(epoch=1)

    assert await office.committed() == 1
    assert await office.commit(2) is NONE
    assert office.replicas.appends[-1].leader_epoch == 1


async def test_an_unload_that_comes_late_is_ignored(office):
    await office.lead(epoch=5)

    partition = TopicPartition(OFFSETS_TOPIC, SHARD)
    office.ref.tell(LeadershipChanged(partition, 4, is_leader=False))

    assert await office.committed() == -1


async def test_a_load_that_comes_late_is_ignored(office):
    await office.lead(epoch=3)
    office.tell_leads_no_longer(epoch=5)

    partition = TopicPartition(OFFSETS_TOPIC, SHARD)
    office.ref.tell(LeadershipChanged(partition, 4, is_leader=True))

    assert await office.committed() is NOT_COORDINATOR


async def test_news_that_comes_twice_is_no_news(office):
    await office.lead(epoch=3)
    await office.lead(epoch=3)

    assert len(office.replicas.reads) == 1


async def test_a_replica_stopped_in_the_epoch_that_it_leads_in_is_unloaded(office):
    await office.lead(epoch=3)
    office.tell_leads_no_longer(epoch=3)
    assert await office.committed() is NOT_COORDINATOR

    await office.lead(epoch=3)
    assert await office.committed() == -1


async def test_after_a_topics_deletion_its_epochs_begin_anew(office):
    await office.lead(epoch=3)
    office.tell_leads_no_longer(epoch=LEADER_EPOCH_DURING_DELETE)
    assert await office.committed() is NOT_COORDINATOR

    await office.lead(epoch=0)
    assert await office.committed() == -1


async def test_other_topics_leaders_are_of_no_interest(office):
    office.ref.tell(LeadershipChanged(TopicPartition("orders", SHARD), 0, is_leader=True))
    await office.rest()

    assert office.replicas.reads == []
    assert await office.committed() is NOT_COORDINATOR


async def test_what_a_former_load_reads_does_not_end_the_present_one(office):
    office.write(orders_at(1))
    office.replicas.is_holding_reads = True
    await office.lead(epoch=0)
    office.tell_leads_no_longer(epoch=1)
    office.write(orders_at(2))
    await office.lead(epoch=2)

    office.replicas.release(0)
    await office.rest()

    assert await office.committed() is LOADING


async def test_a_load_that_ends_after_leadership_does_nothing_more(office):
    office.write(orders_at(1))
    office.replicas.is_holding_reads = True
    await office.lead(epoch=0)
    office.ref.tell(TopicsDeleted(frozenset({"orders"})))
    office.tell_leads_no_longer(epoch=1)
    office.replicas.epochs.clear()
    await office.rest()

    office.replicas.release()
    await office.rest()

    assert office.replicas.appends == []


async def test_a_load_waiting_for_the_high_watermark_ends_with_leadership(office):
    office.write(orders_at(1))
    office.replicas.log().high_watermark = 0
    await office.lead()
    office.tell_leads_no_longer()
    office.replicas.epochs.clear()  # a replica manager that has not heard of it
    await office.rest(200)
    reads = len(office.replicas.reads)

    await office.rest(2_000)

    assert len(office.replicas.reads) == reads


async def test_a_load_that_finds_an_inbox_full_is_tried_again(office):
    limit = office.replicas.ref._limit
    office.replicas.ref._limit = 0
    await office.lead()
    assert await office.committed() is LOADING

    office.replicas.ref._limit = limit
    await office.rest(2_000)

    assert await office.committed() == -1


@pytest.mark.parametrize("is_done", [True, False])
async def test_a_commit_under_way_is_answered_once_when_leadership_goes(office, is_done):
    await office.lead()
    office.replicas.is_holding_appends = True
    answers = office.send(a_commit({ORDERS: 5}))
    await office.rest()
    append = office.replicas.appends[-1]
    office.tell_leads_no_longer()
    await office.rest()
    assert answers == []

    if is_done:
        office.replicas.release()
    else:
        office.replicas.append_error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        append.done(office.replicas._append(append))
    await office.rest(10_000)

    (answer,) = answers
    code = NONE if is_done else NOT_COORDINATOR
    assert [each.error_code for each in answer.partitions] == [code]
    assert await office.committed() is NOT_COORDINATOR


async def test_a_commit_of_a_former_time_of_leading_is_not_mistaken_for_one_of_now(office):
    await office.lead(epoch=0)
    office.replicas.is_holding_appends = True
    answers = office.send(a_commit({ORDERS: 5}))
    await office.rest()
    office.tell_leads_no_longer(epoch=1)
    office.write(orders_at(6))  # by the leader in between
    await office.lead(epoch=2)

    office.replicas.release()
    await office.rest()

    assert len(answers) == 1
    assert await office.committed() == 6
