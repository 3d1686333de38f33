"""What a broker does to its logs in the background: B136, and B171 to B174 as a broker has them."""

from itertools import pairwise

import pytest

from actors.broker.log.checkpoints import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    read_offsets,
)
from actors.broker.log.manager import LogManager
from actors.broker.upkeep import Due, Round
from tests.support.data import batch_of, batches_on, produce, values_on
from tests.support.drive import Drive
from tests.support.orders import leader_and_isr, order, stop, stop_replica
from wire.configs import (
    AlterConfigOperation,
    ConfigChange,
    ConfigResource,
    ConfigResourceType,
)
from wire.control import LeaderAndIsrResponse, StopReplicaResponse
from wire.data import Produce, ProducePartition, ProduceResponse
from wire.errors import ErrorCode
from wire.ids import Offset, TopicPartition
from wire.records import HEADER_BYTES, Record, encode_batch
from wire.trace import ActorCrashed, LogDirWentOffline

ORDERS = TopicPartition("orders", 0)
SALES = TopicPartition("sales", 0)
BATCH = len(batch_of(b"0"))
MINUTE_MS = 60_000


@pytest.fixture
async def drive(sim):
    return await Drive.start(sim)


def disk(drive, broker: int = 2):
    return drive.sim._disks[f"broker-{broker}"]


def log(drive, broker: int = 2, topic: str = "orders"):
    return drive.replica(broker, topic).log


async def write(drive, partition, *pairs: tuple[bytes, bytes], acks: int = -1) -> None:
    """A batch for each key and value, made now."""
    leader = drive.state(partition.topic).leader
    for key, value in pairs:
        now_ms = drive.node(leader).world.clock.now_ms()
        record = Record(offset=Offset(0), timestamp_ms=now_ms, key=key, value=value)
        entry = ProducePartition(partition, memoryview(bytes(encode_batch([record]))))
        request = Produce(acks=acks, timeout_ms=9_000, partitions=(entry,))
        (result,) = (await drive.ask(leader, request, ProduceResponse)).partitions
        assert result.error_code is ErrorCode.NONE


async def create(drive, topic: str, **config: str) -> TopicPartition:
    """A topic that all have and broker 2 leads."""
    if config:
        await drive.configure("topics", topic, **config)
    return await drive.create(topic, [2, 3, 1])


async def reconfigure(drive, topic: str, config: dict[str, str]) -> None:
    """Change a topic's configuration as a person would, while it is in use."""
    resource = ConfigResource(ConfigResourceType.TOPIC, topic)
    changes = [ConfigChange(k, AlterConfigOperation.SET, v) for k, v in config.items()]
    results = await drive.cluster.admin().alter_configs({resource: changes})
    assert results == {resource: None}
    await drive.settle()


# --- notes ----------------------------------------------------------------------------------------


@pytest.mark.behaviour("B136", "B172")
async def test_high_watermarks_are_noted_every_interval_from_the_first_order_on(sim):
    interval = {"replica_high_watermark_checkpoint_interval_ms": 3_000}
    drive = await Drive.start(sim, overrides=interval)
    await drive.sim.sleep(10_000)
    assert not disk(drive).exists(HIGH_WATERMARKS)
    orders = await create(drive, "orders")

    await produce(drive, orders, b"a", b"b", acks=-1)
    assert not disk(drive).exists(HIGH_WATERMARKS)
    await drive.sim.sleep(3_100)
    assert [read_offsets(disk(drive, each), HIGH_WATERMARKS) for each in (1, 2, 3)] == [
        {ORDERS: 2}
    ] * 3
    await produce(drive, orders, b"c", acks=-1)
    await drive.sim.sleep(3_100)

    assert read_offsets(disk(drive), HIGH_WATERMARKS) == {ORDERS: 3}


@pytest.mark.behaviour("B173")
async def test_a_replica_begins_with_the_high_watermark_that_was_noted(drive):
    orders = await create(drive, "orders")
    await produce(drive, orders, b"a", b"b", acks=-1)
    await drive.sim.sleep(6_000)  # noted
    await produce(drive, orders, b"c", acks=-1)
    await log(drive).flush()
    drive.cluster.kill(2)
    drive.sim.cut("broker-2", "broker-1")  # nobody tells it of another
    drive.sim.cut("broker-2", "broker-3")
    await drive.restart(2)

    response = await drive.ask(2, leader_and_isr(order(ORDERS, 3, 9)), LeaderAndIsrResponse)

    assert [each.error_code for each in response.partitions] == [ErrorCode.NONE]
    replica = drive.replica(2, "orders")
    assert (replica.high_watermark, replica.log_end_offset) == (2, 3)


@pytest.mark.behaviour("B171", "B172")
async def test_what_is_complete_is_flushed_and_noted_whatever_is_configured(drive):
    orders = await create(drive, "orders", segment_bytes=str(2 * BATCH + 20))
    for number in range(5):
        await produce(drive, orders, b"%d" % number, acks=-1)
    active = log(drive).segments[-1].base_offset
    assert (active, log(drive).recovery_point) == (4, 0)

    await drive.sim.sleep(2 * MINUTE_MS)

    for broker in (1, 2, 3):
        assert log(drive, broker).recovery_point == 4
        assert read_offsets(disk(drive, broker), RECOVERY_POINTS) == {ORDERS: 4}


@pytest.mark.behaviour("B172")
async def test_log_starts_are_noted_where_the_files_do_not_tell_them(drive):
    orders = await create(drive, "orders")
    for value in (b"a", b"b"):
        await produce(drive, orders, value, acks=-1)

    log(drive).move_log_start_offset(Offset(1))
    await drive.sim.sleep(2 * MINUTE_MS)

    assert read_offsets(disk(drive), LOG_START_OFFSETS) == {ORDERS: 1}
    await drive.kill(2)
    await drive.restart(2)
    assert drive.replica(2, "orders").log_start_offset == 1


# --- flushes --------------------------------------------------------------------------------------


@pytest.mark.behaviour("B171")
async def test_flush_messages_is_honoured_by_leader_and_followers_soon_after_the_append(drive):
    orders = await create(drive, "orders", flush_messages="3")

    await produce(drive, orders, b"a", b"b", acks=-1)
    await drive.sim.sleep(1_000)
    assert [log(drive, each).recovery_point for each in (1, 2, 3)] == [0, 0, 0]
    await produce(drive, orders, b"c", acks=-1)
    await drive.sim.sleep(100)

    assert [log(drive, each).recovery_point for each in (1, 2, 3)] == [3, 3, 3]


async def test_what_is_appended_during_a_flush_is_flushed_after_it(drive):
    orders = await create(drive, "orders", flush_messages="1")

    for number in range(50):
        await produce(drive, orders, b"%d" % number)  # faster than a disk
    await drive.sim.sleep(100)

    assert log(drive).recovery_point == 50


@pytest.mark.behaviour("B171")
async def test_flush_ms_is_honoured_to_the_moment(drive):
    orders = await create(drive, "orders", flush_ms="700")

    for number in range(3):
        await produce(drive, orders, b"%d" % number, acks=-1)
        await drive.sim.sleep(600)
        assert log(drive).recovery_point == number
        await drive.sim.sleep(200)
        assert [log(drive, each).recovery_point for each in (1, 2, 3)] == [number + 1] * 3
        await drive.sim.sleep(5_000 - 800 - 30)  # a little out of step with all rounds


async def test_a_topic_without_flush_settings_is_left_to_the_disk(drive):
    orders = await create(drive, "orders")

    await write(drive, orders, *((b"k", b"%d" % number) for number in range(100)), acks=1)
    await drive.sim.sleep(10 * MINUTE_MS)

    assert log(drive).recovery_point == 0


# --- retention and compaction ---------------------------------------------------------------------


@pytest.mark.behaviour("B174")
async def test_segments_go_when_they_are_old_and_all_brokers_agree_from_where_on(drive):
    orders = await create(drive, "orders", segment_bytes="200", retention_ms="480000")
    await write(drive, orders, *((b"k", b"old %d" % number) for number in range(6)))
    await drive.sim.sleep(4 * MINUTE_MS)
    assert drive.replica(2, "orders").log_start_offset == 0
    await write(drive, orders, *((b"k", b"new %d" % number) for number in range(6)))

    await drive.sim.sleep(7 * MINUTE_MS)  # looked at every five minutes

    kept = values_on(drive, 2, orders)
    assert b"old 0" not in kept
    assert kept[-6:] == [b"new %d" % number for number in range(6)]
    assert f"{0:020}.log.deleted" in disk(drive).list("orders-0")  # a reader may still have it
    starts = {drive.replica(each, "orders").log_start_offset for each in (1, 2, 3)}
    assert starts == {log(drive).segments[0].base_offset}
    await drive.sim.sleep(5 * MINUTE_MS)  # file.delete.delay.ms, and the next look
    assert [each for each in disk(drive).list("orders-0") if each.startswith(f"{0:020}")] == []


@pytest.mark.behaviour("B169", "B174")
async def test_segments_go_when_there_is_too_much_but_never_below_the_limit(drive):
    orders = await create(drive, "orders", segment_bytes="200", retention_bytes="500")
    await write(drive, orders, *((b"k", b"%d" % number) for number in range(20)))
    assert len(log(drive).segments) == 10

    await drive.sim.sleep(6 * MINUTE_MS)

    for broker in (1, 2, 3):
        assert 500 <= log(drive, broker).size < 700
        assert log(drive, broker).log_end_offset == 20


@pytest.mark.behaviour("B174")
async def test_what_is_not_committed_is_never_too_old(drive):
    orders = await create(drive, "orders", segment_bytes="200", retention_ms="60000")
    await write(drive, orders, (b"k", b"safe"), (b"k", b"safe"))
    for other in (1, 3):
        drive.sim.cut("broker-2", f"broker-{other}")
    await write(drive, orders, *((b"k", b"not safe") for _ in range(6)), acks=1)

    await drive.sim.sleep(11 * MINUTE_MS)

    replica = drive.replica(2, "orders")
    assert (replica.high_watermark, replica.log_end_offset) == (2, 8)
    assert replica.log_start_offset == 2
    assert values_on(drive, 2, orders) == [b"not safe"] * 6


async def test_a_compacted_topic_keeps_the_last_of_each_key_everywhere(drive):
    orders = await create(drive, "orders", segment_bytes="200", cleanup_policy="compact")
    keys = [b"a", b"b", b"c"]
    pairs = [(key, b"%d" % number) for number in range(6) for key in keys]
    await write(drive, orders, *pairs)
    await write(drive, orders, *((b"filler", b"") for _ in range(3)))

    await drive.sim.sleep(2 * MINUTE_MS)

    for broker in (1, 2, 3):
        kept = values_on(drive, broker, orders)
        assert len(kept) < 10
        assert kept[:3] == [b"5", b"5", b"5"]
        assert read_offsets(disk(drive, broker), CLEANER_OFFSETS)[ORDERS] > 15


async def test_a_log_that_cannot_be_compacted_is_passed_over_and_the_others_have_their_turn(drive):
    config = {"segment_bytes": "200", "cleanup_policy": "compact"}
    orders, sales = await create(drive, "orders", **config), await create(drive, "sales", **config)
    pairs = [(b"k", b"%d" % number) for number in range(12)]
    await write(drive, orders, *pairs)
    disk(drive).flip_bit(f"orders-0/{0:020}.log", HEADER_BYTES + 3, 0)

    await write(drive, sales, *pairs)
    await drive.sim.sleep(2 * MINUTE_MS)

    assert set(drive.node(2).replica_manager.hosting.logs.uncleanable) == {ORDERS}
    assert len(batches_on(drive, 2, orders)) == 12
    assert len(batches_on(drive, 2, sales)) < 12
    assert drive.of(LogDirWentOffline) == drive.of(ActorCrashed) == []


# --- configuration --------------------------------------------------------------------------------


async def test_a_change_of_configuration_reaches_open_logs(drive):
    orders = await create(drive, "orders")
    await write(drive, orders, (b"k", b"a"))

    await reconfigure(drive, "orders", {"segment.bytes": "200", "flush.messages": "1"})
    await write(drive, orders, *((b"k", b"%d" % number) for number in range(6)))
    await drive.sim.sleep(100)

    for broker in (1, 2, 3):
        assert len(log(drive, broker).segments) > 2
        assert log(drive, broker).recovery_point == 7


async def test_a_flush_that_is_configured_too_late_for_an_append_comes_with_the_next_round(drive):
    orders = await create(drive, "orders")
    await write(drive, orders, (b"k", b"a"))

    await reconfigure(drive, "orders", {"flush.ms": "1000"})

    assert log(drive).recovery_point == 1


@pytest.mark.parametrize("how", ["stopped", "restarted"])
async def test_a_change_that_nobody_told_a_log_of_reaches_it_with_the_next_order(drive, how):
    async def tell(epoch: int) -> None:
        request = leader_and_isr(order(ORDERS, 2, epoch, isr=(2,)))
        await drive.ask(2, request, LeaderAndIsrResponse)

    await tell(0)
    await produce(drive, ORDERS, b"a", leader=2)
    if how == "stopped":
        await drive.ask(2, stop_replica(stop(ORDERS, 0)), StopReplicaResponse)
    else:
        await drive.stop(2)
        await drive.restart(2)
    await drive.configure("topics", "orders", segment_bytes="200")

    await tell(1)

    assert log(drive).config.segment_bytes == 200


# --- rounds ---------------------------------------------------------------------------------------


@pytest.fixture
def rounds(drive, monkeypatch):
    """Let each note of high watermarks take a minute, and say when it began."""
    begun: list[float] = []
    under_way = [0]

    async def slowly(self: LogManager, _: object) -> None:
        if self._is_over:
            return  # that is the farewell's
        assert not under_way[0], "two at once"
        begun.append(drive.sim.now_ms)
        under_way[0] += 1
        try:
            await drive.sim.sleep(MINUTE_MS)
        finally:
            under_way[0] -= 1

    monkeypatch.setattr(LogManager, "checkpoint_high_watermarks", slowly)
    return begun


async def begin(drive) -> None:
    """The first order, to broker 2 alone."""
    request = leader_and_isr(order(ORDERS, 2, 0, isr=(2,)), order(SALES, 2, 0, isr=(2,)))
    await drive.ask(2, request, LeaderAndIsrResponse)


@pytest.mark.behaviour("B136")
async def test_a_round_that_takes_long_holds_up_itself_and_nothing_else(drive, rounds):
    await begin(drive)
    await begin(drive)  # rounds begin once

    await drive.sim.sleep(4 * MINUTE_MS)

    gaps = [round(later - sooner) for sooner, later in pairwise(rounds)]
    assert gaps == [MINUTE_MS + 5_000] * len(gaps)
    assert len(gaps) > 2
    written = await produce(drive, ORDERS, b"a", leader=2)
    assert written.error_code is ErrorCode.NONE


@pytest.mark.parametrize("how", ["stop", "kill"])
async def test_rounds_end_with_their_broker(drive, rounds, how):
    await begin(drive)
    await drive.sim.sleep(6_000)  # one is under way

    await (drive.stop if how == "stop" else drive.kill)(2)
    before = len(rounds)
    await drive.sim.sleep(5 * MINUTE_MS)

    assert len(rounds) == before
    assert drive.of(ActorCrashed) == []


async def test_the_cleaner_works_only_if_it_is_enabled(sim):
    drive = await Drive.start(sim, overrides={"log_cleaner_enable": False})
    orders = await create(drive, "orders", segment_bytes="200", cleanup_policy="compact")

    await write(drive, orders, *((b"k", b"%d" % number) for number in range(12)))
    await drive.sim.sleep(5 * MINUTE_MS)

    assert len(batches_on(drive, 2, orders)) == 12


async def test_rounds_leave_the_disk_alone_where_nothing_was_appended(drive, monkeypatch):
    many = [TopicPartition("many", number) for number in range(2_000)]
    request = leader_and_isr(*(order(each, 2, 0, isr=(2,)) for each in many))
    await drive.ask(2, request, LeaderAndIsrResponse)
    await drive.sim.sleep(MINUTE_MS)
    touched: list[str] = []
    drive_of_disk = disk(drive)._drive
    touch = drive_of_disk.touch
    monkeypatch.setattr(
        drive_of_disk, "touch", lambda path, **how: (touched.append(path), touch(path, **how))
    )

    for each in Round:
        drive.node(2).replica_manager.ref.tell(Due(each))
    await drive.sim.sleep(10 * MINUTE_MS)

    assert touched == []
    assert len(drive.node(2).replica_manager.replicas) == 2_000
