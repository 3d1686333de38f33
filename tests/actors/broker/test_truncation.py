"""Where a follower's log and its leader's part: B147 to B151, B154, as each generation had it."""

import pytest

from actors.broker.log.epochs import EpochEntry, LeaderEpochCache
from actors.broker.truncation import Cut, Generation, cut_for
from tests.support.data import values_on
from tests.support.drive import Drive
from tests.support.leader import (
    HANDS,
    ORDERS,
    Leader,
    batch_at,
    fetched,
    follow,
    found,
    lead,
    tell,
)
from tests.support.orders import order
from wire.data import (
    EpochEndOffset,
    Fetch,
    OffsetForLeaderEpoch,
    OffsetForLeaderEpochPartition,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderEpochResult,
)
from wire.errors import ErrorCode
from wire.trace import LogTruncated

# --- decided -------------------------------------------------------------------------------------


@pytest.mark.behaviour("B148", "B149", "B154")
@pytest.mark.parametrize(
    ("epoch", "end_offset", "expected"),
    [
        pytest.param(-1, -1, Cut(4, is_done=True), id="unknown to the leader: high watermark"),
        pytest.param(5, -1, Cut(4, is_done=True), id="an epoch without its end: high watermark"),
        pytest.param(-1, 7, Cut(7, is_done=True), id="an old leader: its end"),
        pytest.param(-1, 99, Cut(10, is_done=True), id="an old leader with more: nothing to cut"),
        pytest.param(5, 9, Cut(9, is_done=True), id="my last epoch ends earlier at the leader"),
        pytest.param(5, 12, Cut(10, is_done=True), id="my last epoch ends later at the leader"),
        pytest.param(3, 5, Cut(5, is_done=True), id="an epoch of both: the leader's end is first"),
        pytest.param(3, 9, Cut(8, is_done=True), id="an epoch of both: my end is first"),
        pytest.param(4, 9, Cut(8, is_done=False), id="one I never had: my end below, ask again"),
        pytest.param(2, 9, Cut(6, is_done=False), id="one I never had, further back"),
        pytest.param(0, 1, Cut(1, is_done=True), id="one before my first"),
        pytest.param(0, 9, Cut(2, is_done=True), id="one before my first, longer than that"),
        pytest.param(6, 9, Cut(9, is_done=True), id="one after my last"),
    ],
)
def test_what_a_leaders_answer_means(epoch, end_offset, expected):
    """My epochs: 1 from 2 on, 3 from 6 on, 5 from 8 on; the log ends at 10."""
    epochs = LeaderEpochCache([EpochEntry(1, 2), EpochEntry(3, 6), EpochEntry(5, 8)])

    cut = cut_for(epoch, end_offset, epochs=epochs, log_end_offset=10, high_watermark=4)

    assert cut == expected


def test_only_the_middle_generations_ask_before_they_fetch():
    asking = {each for each in Generation if each.asks_first}

    assert asking == {Generation.KIP_101, Generation.KIP_279}


# --- done ----------------------------------------------------------------------------------------


async def start(sim, generation):
    """Broker 2 has a and b committed, of epoch 0; c of epoch 0, d of 2 and e of 4 are not."""
    overrides = {"replication_generation": generation}
    drive = await Drive.start(sim, overrides=overrides)
    leader = Leader(drive)
    await lead(drive, 0, b"a", b"b", commit=True)
    await lead(drive, 1, b"c", commit=False)
    await lead(drive, 2, b"d", commit=False)
    await lead(drive, 4, b"e", commit=False)
    replica = drive.replica(2, "orders")
    assert (replica.log_end_offset, replica.high_watermark) == (5, 2)
    assert replica.log.epochs.entries == ((0, 0), (1, 2), (2, 3), (4, 4))
    drive.forget()
    return drive, leader, replica


def asked_for(request):
    (part,) = request.partitions
    return part.leader_epoch, part.current_leader_epoch


async def answer_epoch(leader, epoch, end_offset):
    result = OffsetForLeaderEpochResult(partition=ORDERS, leader_epoch=epoch, end_offset=end_offset)
    await leader.answer(OffsetForLeaderEpochResponse(partitions=(result,)))


@pytest.mark.behaviour("B147")
async def test_before_kip_101_a_follower_cuts_at_its_own_high_watermark_and_asks_nobody(sim):
    drive, leader, replica = await start(sim, "high-watermark")

    await follow(drive, 5, ORDERS)

    (part,) = (await leader.heard(Fetch)).partitions
    assert (part.fetch_offset, part.current_leader_epoch, part.last_fetched_epoch) == (2, -1, -1)
    assert values_on(drive, 2, ORDERS) == [b"a", b"b"]
    assert replica.log.epochs.entries == ((0, 0),)
    assert drive.of(LogTruncated) == [LogTruncated("orders", 0, 5, 5, 2)]


@pytest.mark.behaviour("B148")
@pytest.mark.parametrize(
    ("end_offset", "kept"),
    [
        pytest.param(3, [b"a", b"b", b"c"], id="the leader's end"),
        pytest.param(9, [b"a", b"b", b"c", b"d", b"e"], id="no further than the log goes"),
        pytest.param(-1, [b"a", b"b"], id="undefined: the high watermark"),
    ],
)
async def test_since_kip_101_a_follower_asks_where_its_last_epoch_ends(sim, end_offset, kept):
    drive, leader, _ = await start(sim, "kip-101")

    await follow(drive, 5, ORDERS)
    assert asked_for(await leader.heard(OffsetForLeaderEpoch)) == (4, -1)
    await answer_epoch(leader, 2, end_offset)

    (part,) = (await leader.heard(Fetch)).partitions
    assert (part.fetch_offset, part.current_leader_epoch) == (len(kept), -1)
    assert values_on(drive, 2, ORDERS) == kept


@pytest.mark.behaviour("B149")
async def test_since_kip_279_a_follower_asks_again_for_an_epoch_that_it_never_had(sim):
    drive, leader, _ = await start(sim, "kip-279")

    await follow(drive, 5, ORDERS)
    assert asked_for(await leader.heard(OffsetForLeaderEpoch)) == (4, -1)
    await answer_epoch(leader, 3, 6)
    assert values_on(drive, 2, ORDERS) == [b"a", b"b", b"c", b"d"]
    assert asked_for(await leader.heard(OffsetForLeaderEpoch)) == (2, -1)
    await answer_epoch(leader, 1, 9)

    (part,) = (await leader.heard(Fetch)).partitions
    assert part.fetch_offset == 3
    assert values_on(drive, 2, ORDERS) == [b"a", b"b", b"c"]


@pytest.mark.behaviour("B149")
@pytest.mark.parametrize(
    ("epoch", "end_offset", "kept"),
    [
        pytest.param(-1, -1, 2, id="undefined: the high watermark"),
        pytest.param(-1, 4, 4, id="a leader that tells no epoch"),
        pytest.param(4, 5, 5, id="nothing to cut"),
    ],
)
async def test_since_kip_279_one_answer_is_enough_otherwise(sim, epoch, end_offset, kept):
    drive, leader, replica = await start(sim, "kip-279")

    await follow(drive, 5, ORDERS)
    await leader.heard(OffsetForLeaderEpoch)
    await answer_epoch(leader, epoch, end_offset)

    await leader.heard(Fetch)
    assert replica.log_end_offset == kept


@pytest.mark.behaviour("B154")
async def test_by_now_the_fetch_itself_finds_where_logs_part(sim):
    drive, leader, replica = await start(sim, "kip-320")

    await follow(drive, 5, ORDERS)
    (part,) = (await leader.heard(Fetch)).partitions
    assert (part.fetch_offset, part.current_leader_epoch, part.last_fetched_epoch) == (5, 5, 4)
    diverging = EpochEndOffset(3, 6)
    await leader.answer(fetched(found(ORDERS, diverging_epoch=diverging, high_watermark=4)))

    (part,) = (await leader.heard(Fetch)).partitions
    assert (part.fetch_offset, part.last_fetched_epoch) == (4, 2)
    assert replica.high_watermark == 2  # what the leader said of it waits for the next round
    await leader.answer(fetched(found(ORDERS, diverging_epoch=EpochEndOffset(1, 9))))

    (part,) = (await leader.heard(Fetch)).partitions
    assert (part.fetch_offset, part.last_fetched_epoch) == (3, 1)
    assert values_on(drive, 2, ORDERS) == [b"a", b"b", b"c"]
    await leader.answer(fetched(found(ORDERS, batch_at(3, 5, b"f"), high_watermark=4)))
    assert values_on(drive, 2, ORDERS) == [b"a", b"b", b"c", b"f"]
    assert replica.high_watermark == 4


@pytest.mark.behaviour("B154")
async def test_an_epoch_that_a_leader_began_and_wrote_nothing_in_is_forgotten(sim):
    drive, leader, replica = await start(sim, "kip-320")
    await lead(drive, 5, commit=False)
    assert replica.latest_epoch == 5

    await follow(drive, 6, ORDERS)
    await leader.heard(Fetch)
    await leader.answer(fetched(found(ORDERS, diverging_epoch=EpochEndOffset(4, 5))))

    (part,) = (await leader.heard(Fetch)).partitions
    assert (part.fetch_offset, part.last_fetched_epoch) == (5, 4)
    assert drive.of(LogTruncated) == []


@pytest.mark.parametrize("generation", ["kip-101", "kip-279", "kip-320"])
async def test_a_log_that_knows_no_epoch_is_cut_at_its_high_watermark(sim, generation):
    drive = await Drive.start(sim, overrides={"replication_generation": generation})
    leader = Leader(drive)

    await follow(drive, 5, ORDERS)

    (part,) = (await leader.heard(Fetch)).partitions  # nothing to ask before
    assert (part.fetch_offset, part.last_fetched_epoch) == (0, -1)


# --- the leader's side ---------------------------------------------------------------------------


@pytest.mark.behaviour("B150")
@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        pytest.param(4, (4, 5), id="the latest: the log's end"),
        pytest.param(5, (-1, -1), id="later than the latest"),
        pytest.param(2, (2, 4), id="known: where the next begins"),
        pytest.param(3, (2, 4), id="between two: the one before"),
        pytest.param(0, (0, 2), id="the first"),
        pytest.param(-1, (-1, -1), id="none"),
    ],
)
async def test_a_leader_says_where_an_epoch_ended(sim, asked, expected):
    drive, _, _ = await start(sim, "kip-320")

    result = await end_of(drive, asked)

    assert result.error_code is ErrorCode.NONE
    assert (result.leader_epoch, result.end_offset) == expected


@pytest.mark.behaviour("B150", "B151")
async def test_a_leader_whose_log_starts_later_answers_with_its_first_epochs_start(sim):
    drive, _, replica = await start(sim, "kip-320")
    replica.log.move_log_start_offset(4)
    assert replica.log.epochs.entries[0].start_offset == 4

    result = await end_of(drive, 0)

    assert (result.leader_epoch, result.end_offset) == (0, 4)


@pytest.mark.behaviour("B151")
async def test_a_leader_begins_its_epoch_at_the_end_of_its_log_even_if_nothing_follows(sim):
    drive, _, replica = await start(sim, "kip-320")

    await tell(drive, 2, order(ORDERS, 2, 7, replicas=(HANDS, 2)))
    assert replica.log.epochs.entries[-1] == (7, 5)
    await tell(drive, 2, order(ORDERS, 2, 8, replicas=(HANDS, 2)))

    assert replica.log.epochs.entries[-2:] == ((4, 4), (8, 5))  # 7 wrote nothing


@pytest.mark.behaviour("B152")
@pytest.mark.parametrize(
    ("current", "code"),
    [
        (3, ErrorCode.FENCED_LEADER_EPOCH),
        (4, ErrorCode.NONE),
        (5, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
async def test_who_asks_for_an_epoch_must_mean_the_same_reign(sim, current, code):
    drive, _, _ = await start(sim, "kip-320")

    assert (await end_of(drive, 2, current)).error_code is code


async def end_of(drive, epoch, current=-1):
    part = OffsetForLeaderEpochPartition(
        partition=ORDERS, leader_epoch=epoch, current_leader_epoch=current
    )
    request = OffsetForLeaderEpoch(replica_id=HANDS, partitions=(part,))
    (result,) = (await drive.ask(2, request, OffsetForLeaderEpochResponse)).partitions
    return result
