"""Brokers that stop, lose power or lose their disks, and come back: what of their logs is left.

What was synced outlives a power cut. What was acknowledged with acks=all and not synced outlives it
too, as long as one replica in sync keeps its power: replication, not the disk, is what keeps it, as
in Kafka. Only if all of them lose power at once may it be lost, and then everywhere alike.
"""

import pytest

from actors.broker.log.checkpoints import CLEAN_SHUTDOWN, HIGH_WATERMARKS, read_offsets
from tests.support.data import batches_on, produce, values_on
from tests.support.drive import Drive
from wire.errors import ErrorCode
from wire.ids import TopicPartition
from wire.trace import ActorCrashed

ALL = (1, 2, 3)
LAG_MS = 10_000


@pytest.fixture
async def drive(sim):
    return await Drive.start(sim, overrides={"replica_lag_time_max_ms": LAG_MS})


def disk(drive, broker: int):
    return drive.sim._disks[f"broker-{broker}"]


async def write(drive, partition, *values: bytes) -> None:
    for value in values:
        assert (await produce(drive, partition, value, acks=-1)).error_code is ErrorCode.NONE


async def stop_all(drive) -> None:
    """As a person stops a cluster: nobody waits for whom nobody can replace."""
    for broker in reversed(ALL):
        await drive.cluster.stop_broker(broker, retries=0)


def kill_all(drive) -> None:
    for broker in ALL:
        drive.cluster.kill(broker)


async def start_all(drive) -> None:
    for broker in ALL:
        await drive.cluster.start_broker(broker)
    await drive.settle()


def epochs(drive, broker: int, partition) -> list[tuple[int, int]]:
    """Of each batch the first offset and the leader epoch."""
    return [
        (each.header.base_offset, each.header.partition_leader_epoch)
        for each in batches_on(drive, broker, partition)
    ]


def check_alike(drive, partition, values: list[bytes]) -> None:
    """All three have these records, know that all have, and agree on everything else."""
    state = drive.state(partition.topic)
    assert sorted(state.isr) == list(ALL)
    assert [values_on(drive, each, partition) for each in ALL] == [values] * 3
    replicas = [drive.replica(each, partition.topic) for each in ALL]
    assert {each.high_watermark for each in replicas} == {len(values)}
    assert {each.leader_epoch for each in replicas} == {state.leader_epoch}
    # A leader that wrote nothing has begun an epoch that its followers do not know of.
    histories = [
        [entry for entry in each.log.epochs.entries if entry[1] < len(values)] for each in replicas
    ]
    assert histories[0] == histories[1] == histories[2]
    assert epochs(drive, 1, partition) == epochs(drive, 2, partition) == epochs(drive, 3, partition)
    assert drive.of(ActorCrashed) == []


async def begin(drive, *values: bytes):
    """A topic that broker 2 leads, with these records."""
    orders = await drive.create("orders", [2, 3, 1])
    await write(drive, orders, *values)
    return orders


# --- one broker -----------------------------------------------------------------------------------


@pytest.mark.behaviour("B173")
@pytest.mark.parametrize("broker", [2, 3], ids=["leader", "follower"])
async def test_a_broker_that_stopped_comes_back_with_all_it_had(drive, broker):
    orders = await begin(drive, b"a", b"b")
    before = drive.node(broker).broker_epoch
    await drive.stop(broker)
    assert disk(drive, broker).exists(CLEAN_SHUTDOWN)
    assert broker not in drive.state("orders").isr
    await write(drive, orders, b"c")
    drive.forget()

    await drive.restart(broker)

    assert not disk(drive, broker).exists(CLEAN_SHUTDOWN)  # it would vouch for what comes now
    assert drive.node(broker).broker_epoch > before
    offsets = [
        part.fetch_offset
        for each in drive.fetched
        if each.source == f"broker-{broker}"
        for part in each.request.partitions
        if part.partition == orders
    ]
    assert offsets[0] == 2  # it does not copy what it has
    check_alike(drive, orders, [b"a", b"b", b"c"])
    await write(drive, orders, b"d")
    await drive.settle()
    check_alike(drive, orders, [b"a", b"b", b"c", b"d"])


@pytest.mark.behaviour("B171")
@pytest.mark.parametrize("is_forgetful", [True, False], ids=["all is lost", "some is lost"])
@pytest.mark.parametrize("broker", [2, 3], ids=["leader", "follower"])
async def test_what_a_power_cut_takes_from_one_broker_the_others_give_back(
    drive, broker, is_forgetful
):
    orders = await begin(drive, b"a", b"b")
    await drive.replica(broker, "orders").log.flush()
    await write(drive, orders, b"c", b"d")
    before = drive.node(broker).broker_epoch
    disk(drive, broker).is_forgetful = is_forgetful

    await drive.kill(broker)
    assert broker not in drive.state("orders").isr
    await write(drive, orders, b"e")
    await drive.restart(broker)

    assert drive.node(broker).broker_epoch > before
    check_alike(drive, orders, [b"a", b"b", b"c", b"d", b"e"])


@pytest.mark.behaviour("B171")
async def test_what_was_synced_is_there_after_a_power_cut_and_is_not_copied_again(drive):
    orders = await begin(drive, b"a", b"b")
    await drive.replica(3, "orders").log.flush()
    await write(drive, orders, b"c")
    disk(drive, 3).is_forgetful = True
    await drive.kill(3)
    drive.forget()

    await drive.restart(3)

    first = next(
        part
        for each in drive.fetched
        if each.source == "broker-3"
        for part in each.request.partitions
        if part.partition == orders
    )
    assert (first.fetch_offset, first.last_fetched_epoch) == (2, 0)
    check_alike(drive, orders, [b"a", b"b", b"c"])


async def test_a_broker_with_an_empty_disk_copies_everything(drive):
    await drive.configure("topics", "orders", segment_bytes="200")
    values = [b"%d" % number for number in range(9)]
    orders = await begin(drive, *values)
    await drive.kill(3)
    del drive.sim._disks["broker-3"]  # somebody put another one in

    await drive.restart(3)

    check_alike(drive, orders, values)


@pytest.mark.behaviour("B160")
async def test_a_broker_is_in_sync_again_only_when_it_has_all(drive):
    orders = await begin(drive, b"a")
    await drive.kill(3)
    await write(drive, orders, b"b")
    drive.sim.cut("broker-3", "broker-2")

    await drive.restart(3)
    assert 3 not in drive.state("orders").isr
    drive.sim.heal()
    await drive.sim.sleep(60_000)  # longer than it waits for an answer to its first fetch

    check_alike(drive, orders, [b"a", b"b"])


@pytest.mark.behaviour("B160")
async def test_a_broker_that_comes_back_with_less_before_anybody_noticed_leads_nothing(drive):
    orders = await begin(drive, b"a", b"b")
    disk(drive, 2).is_forgetful = True

    drive.vanish(2)
    await drive.cluster.start_broker(2)
    await drive.settle()

    check_alike(drive, orders, [b"a", b"b"])
    assert drive.state("orders").leader_epoch > 0


# --- all brokers ----------------------------------------------------------------------------------


@pytest.mark.behaviour("B171", "B173")
async def test_a_cluster_that_stopped_has_everything_when_it_is_started(drive):
    orders = await begin(drive, b"a", b"b", b"c")
    before = drive.state("orders").leader_epoch

    await stop_all(drive)
    await start_all(drive)

    check_alike(drive, orders, [b"a", b"b", b"c"])
    assert drive.state("orders").leader_epoch > before
    await write(drive, orders, b"d")
    await drive.settle()
    check_alike(drive, orders, [b"a", b"b", b"c", b"d"])


@pytest.mark.behaviour("B171", "B173")
@pytest.mark.parametrize("is_forgetful", [True, False], ids=["all is lost", "some is lost"])
async def test_what_all_had_synced_is_there_after_they_all_lost_power(drive, is_forgetful):
    orders = await begin(drive, b"a", b"b")
    for broker in ALL:
        await drive.replica(broker, "orders").log.flush()
        disk(drive, broker).is_forgetful = is_forgetful
    await write(drive, orders, b"c", b"d")

    kill_all(drive)
    await drive.sim.sleep(20_000)
    await start_all(drive)

    kept = values_on(drive, 1, orders)
    assert kept[:2] == [b"a", b"b"]
    assert kept == [b"a", b"b", b"c", b"d"][: len(kept)]  # a prefix, and the same everywhere
    assert len(kept) == 2 or not is_forgetful
    check_alike(drive, orders, kept)
    await write(drive, orders, b"e")
    await drive.settle()
    check_alike(drive, orders, [*kept, b"e"])


async def test_flush_messages_of_one_keeps_all_that_had_a_moment_to_be_flushed(drive):
    await drive.configure("topics", "orders", flush_messages="1")
    orders = await begin(drive, b"a", b"b", b"c")
    await drive.sim.sleep(100)
    for broker in ALL:
        disk(drive, broker).is_forgetful = True

    kill_all(drive)
    await drive.sim.sleep(20_000)
    await start_all(drive)

    check_alike(drive, orders, [b"a", b"b", b"c"])


async def test_one_that_kept_its_power_keeps_it_all_for_the_others(drive):
    orders = await begin(drive, b"a", b"b", b"c")
    for broker in ALL:
        disk(drive, broker).is_forgetful = True

    for broker in (2, 3):
        await drive.kill(broker)
    for broker in (3, 2):
        await drive.restart(broker)

    check_alike(drive, orders, [b"a", b"b", b"c"])


async def test_rolling_restarts_lose_nothing_and_end_in_sync(drive):
    orders = await begin(drive, b"0")
    values = [b"0"]
    for number, broker in enumerate((*ALL, *ALL), start=1):
        await (drive.stop if number % 2 else drive.kill)(broker)
        await write(drive, orders, b"%d" % number)
        values.append(b"%d" % number)
        await drive.restart(broker)

    check_alike(drive, orders, values)


# --- high watermarks ------------------------------------------------------------------------------


@pytest.mark.behaviour("B172", "B173")
async def test_who_stops_notes_the_high_watermarks_of_what_it_was_told_to_stop(drive):
    await begin(drive, b"a", b"b")
    await drive.sim.sleep(1_000)  # the last one is known with the next fetch

    await drive.stop(3)  # the controller stops what it follows before it goes

    assert read_offsets(disk(drive, 3), HIGH_WATERMARKS) == {TopicPartition("orders", 0): 2}
