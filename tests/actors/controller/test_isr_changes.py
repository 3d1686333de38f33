"""ISR changes: how leaders report them, and what the controller does then: B116 and B117."""

import json

import pytest

from actors.broker.isr import MOST_IN_ONE
from runtime.keeper import MAX_DATA_BYTES
from tests.support.drive import Drive
from wire.admin_znodes import IsrChangeNotificationZNode
from wire.control import LeaderAndIsr, UpdateMetadata
from wire.data import Fetch, FetchPartition, FetchResponse
from wire.errors import ErrorCode
from wire.ids import BrokerId, Offset, TopicPartition
from wire.trace import IsrChanged, LeaderElected
from wire.znodes import PartitionState

FOLDER = "/isr_change_notification"
CHECK_MS, QUIET_MS, LONGEST_MS = 2_500, 5_000, 60_000
ORDERS, BILLS = TopicPartition("orders", 0), TopicPartition("bills", 0)


@pytest.fixture
async def drive(sim):
    drive = await Drive.start(sim)
    await drive.create("orders", {0: [2, 3], 1: [2, 3]})
    await drive.create("bills", [2, 3])
    drive.notes = []  # when each note was written, and what it says
    commit = drive.tree.commit

    def recording(operations, *rest):
        written, changes = commit(operations, *rest)
        for operation, result in zip(operations, written, strict=True):
            if result.path.startswith(f"{FOLDER}/") and hasattr(operation, "sequential"):
                drive.notes.append((sim.now_ms, result.path, json.loads(operation.data)))
        return written, changes

    drive.tree.commit = recording
    drive.forget()
    return drive


def note(*partitions):
    listed = [{"topic": each.topic, "partition": each.partition} for each in partitions]
    return {"version": 1, "partitions": listed}


async def catch_up(drive, follower, partition, leader=2):
    """Let a follower fetch all there is: it is in sync."""
    epoch = drive.state(partition.topic, partition.partition).leader_epoch
    asked = FetchPartition(
        partition=partition, fetch_offset=Offset(0), max_bytes=1, current_leader_epoch=epoch
    )
    request = Fetch(
        replica_id=BrokerId(follower), max_wait_ms=0, min_bytes=0, max_bytes=1, partitions=(asked,)
    )
    answer = await drive.ask(leader, request, FetchResponse)
    assert [each.error_code for each in answer.partitions] == [ErrorCode.NONE]


@pytest.mark.behaviour("B116", "B008", "B046")
async def test_a_leader_writes_the_isr_itself_and_tells_five_quiet_seconds_later(sim, drive):
    begin = sim.now_ms
    drive.shrink(3, ORDERS)
    await sim.sleep(QUIET_MS - 100)

    assert drive.state("orders") == PartitionState(
        controller_epoch=1, leader=2, leader_epoch=0, isr=(2,)
    )
    assert drive.version("orders") == 1
    assert drive.notes == []
    assert drive.cached(1, "orders").isr == (2, 3)  # nobody knows yet

    await drive.settle()

    ((at, path, said),) = drive.notes
    assert QUIET_MS <= at - begin <= QUIET_MS + CHECK_MS + 100
    assert path == f"{FOLDER}/isr_change_0000000000"
    assert said == note(ORDERS)
    assert drive.cached(1, "orders").isr == (2,)


@pytest.mark.behaviour("B116")
async def test_changes_of_many_partitions_are_told_together(sim, drive):
    drive.shrink(3, ORDERS)
    await sim.sleep(3_000)
    drive.shrink(3, BILLS)  # five quiet seconds begin anew
    changed_ms = sim.now_ms
    await sim.sleep(100)
    await catch_up(drive, 3, ORDERS)  # and once more; a partition is named only once
    await drive.settle()

    ((at, _, said),) = drive.notes
    assert at - changed_ms >= QUIET_MS
    assert said == note(ORDERS, BILLS)
    assert [each.isr for each in drive.of(IsrChanged)] == ["2", "2", "2,3"]


@pytest.mark.behaviour("B116")
async def test_who_is_never_quiet_tells_after_a_minute(sim, drive):
    """An ISR that shrinks and grows every three seconds."""
    drive.shrink(3, ORDERS)
    await drive.settle()
    ((first, _, _),) = drive.notes

    for _ in range(12):
        await catch_up(drive, 3, ORDERS)
        await sim.sleep(3_000)
        drive.shrink(3, ORDERS)
        await sim.sleep(3_000)

    second = drive.notes[1][0]
    assert LONGEST_MS <= second - first <= LONGEST_MS + CHECK_MS + 100
    assert drive.notes[1][2] == note(ORDERS)


@pytest.mark.behaviour("B116")
async def test_a_broker_that_has_just_started_is_not_in_a_hurry(sim, drive):
    """Its last word was in another life, but the minute counts from its start."""
    await sim.sleep(2 * LONGEST_MS)
    await drive.kill(2)
    await drive.cluster.start_broker(2)
    await sim.settle()
    await drive.prefer(ORDERS)
    await drive.settle()
    drive.notes.clear()

    drive.shrink(3, ORDERS)
    begin = sim.now_ms
    await drive.settle()

    assert drive.state("orders").leader == 2
    assert [at - begin >= QUIET_MS for at, _, _ in drive.notes] == [True]


@pytest.mark.behaviour("B116")
async def test_what_could_not_be_told_is_told_later(sim, drive):
    drive.shrink(3, ORDERS)
    await sim.sleep(100)
    sim.expire_session("broker-2")
    await drive.settle()

    assert note(ORDERS) in [said for _, _, said in drive.notes]


@pytest.mark.behaviour("B117")
async def test_the_controller_believes_reports_tells_all_and_removes_them(sim, drive):
    drive.shrink(3, ORDERS)
    await sim.until(lambda: bool(drive.notes))
    drive.forget()
    await drive.settle()

    leadership = drive.context.leaderships[ORDERS]
    assert (leadership.isr, leadership.partition_epoch) == ((2,), 1)
    for broker in (1, 2, 3):
        (update,) = drive.sent(UpdateMetadata, broker)
        (entry,) = update.partitions
        assert (entry.partition, entry.isr, entry.partition_epoch) == (ORDERS, (2,), 1)
        assert (entry.leader, entry.leader_epoch) == (2, 0)
    assert drive.sent(LeaderAndIsr) == []  # no new decision: the leader knows, it was its own
    assert drive.tree.children(FOLDER) == ()


@pytest.mark.behaviour("B117")
async def test_reports_are_read_together_and_unknown_partitions_passed_over(sim, drive):
    sim.pause("broker-1")
    kind, stranger = IsrChangeNotificationZNode, TopicPartition("nobody.knows.it", 4)
    for partitions in ((ORDERS,), (stranger,), (BILLS, ORDERS)):
        await drive.keeper.create(kind.prefix_path(), kind.encode(partitions), sequential=True)
    drive.forget()

    sim.resume("broker-1")
    await drive.settle()

    (update,) = drive.sent(UpdateMetadata, 3)
    assert [each.partition for each in update.partitions] == [ORDERS, BILLS]
    assert drive.tree.children(FOLDER) == ()


@pytest.mark.behaviour("B117")
async def test_a_report_that_comes_while_others_are_read_is_not_removed_unread(
    sim, drive, monkeypatch
):
    kind = IsrChangeNotificationZNode
    refresh = drive.reign.topics.refresh_leadership
    asked = []

    async def meddling(partitions):
        asked.append(tuple(partitions))
        if len(asked) == 1:
            await drive.keeper.create(kind.prefix_path(), kind.encode((BILLS,)), sequential=True)
        await refresh(partitions)

    monkeypatch.setattr(drive.reign.topics, "refresh_leadership", meddling)
    await drive.keeper.create(kind.prefix_path(), kind.encode((ORDERS,)), sequential=True)
    await drive.settle()

    assert asked == [(ORDERS,), (BILLS,)]
    assert [
        [entry.partition for entry in each.partitions] for each in drive.sent(UpdateMetadata, 3)
    ] == [[ORDERS], [BILLS]]
    assert drive.tree.children(FOLDER) == ()


@pytest.mark.behaviour("B117", "B060")
async def test_who_left_the_isr_is_not_elected_even_before_the_report(sim, drive):
    drive.shrink(3, ORDERS)
    await sim.sleep(100)

    await drive.kill(2)

    assert drive.state("orders") == PartitionState(
        controller_epoch=1, leader=-1, leader_epoch=1, isr=(2,)
    )
    assert [each.topic for each in drive.of(LeaderElected)] == ["orders", "bills"]
    assert [each.partition for each in drive.of(LeaderElected)] == [1, 0]


@pytest.mark.behaviour("B116")
async def test_more_changes_than_a_znode_can_hold_are_told_in_several(sim, drive, monkeypatch):
    monkeypatch.setattr("actors.broker.isr.MOST_IN_ONE", 2)
    drive.shrink(3, TopicPartition("orders", 0), TopicPartition("orders", 1), BILLS)
    await drive.settle()

    assert sum(len(said["partitions"]) for _, _, said in drive.notes) == 3
    assert max(len(said["partitions"]) for _, _, said in drive.notes) == 2
    assert drive.context.leaderships[BILLS].isr == (2,)
    longest = [TopicPartition("x" * 249, 2**31 - 1)] * MOST_IN_ONE
    assert len(IsrChangeNotificationZNode.encode(longest)) <= MAX_DATA_BYTES
